"""URLs of clusters: `nyala://host:port,host:port/`, and with what client and servers convince each other.

    options of `connect`         tls_ca, tls_cert, tls_key                                   user, password
    the URL                      nyala://host:port/?tls_ca=FILE&tls_cert=FILE&tls_key=FILE   nyala://ann:pw@host/
    otherwise the environment    NYALA_TLS_CA, NYALA_TLS_CERT, NYALA_TLS_KEY                 NYALA_USER, NYALA_PASSWORD

Each of these names all three files or none; `?tls=off` means none. Where none does, nothing is encrypted. Names and
passwords in a URL are percent-encoded where they have one of `:@/?%`; the URLs that are shown have no password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode

from ...errors import InterfaceError, did_you_mean

SCHEME: Final = "nyala"
DEFAULT_PORT: Final = 7051
TLS_OPTIONS: Final = ("tls_ca", "tls_cert", "tls_key")
"""Of `connect`, and of URLs; the `OPTIONS` of `cluster.wire.security.tls_files`, which a directory does not import."""
ENVIRONMENT: Final[Mapping[str, str]] = {name: f"NYALA_{name.upper()}" for name in TLS_OPTIONS}
USER_ENVIRONMENT: Final = {"user": "NYALA_USER", "password": "NYALA_PASSWORD"}
PLAIN: Final = {"tls": "off"}
"""Parameters of URLs without encryption, independent of the environment."""
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:\[\]@/?]+)(?::(?P<port>\d+))?")


def servers(url: str) -> tuple[tuple[str, int], ...]:
    """The hosts and ports that a URL names, in its order; `InterfaceError` if the URL is invalid.

    >>> servers("nyala://one,two:7052,[::1]:7053/")
    (('one', 7051), ('two', 7052), ('::1', 7053))
    """
    url = without_password(url)
    scheme, _, rest = url.partition("://")
    if scheme != SCHEME:
        raise InterfaceError(f"{url}: {scheme}:// is not a target; give a directory, or ':memory:'")
    if rest.startswith("/"):
        path = rest.lstrip("/").partition("?")[0] or "DIR"
        raise InterfaceError(
            f"{url} names no server. For a directory write its path: nyala.connect({path!r}), or {'/' + path!r} from "
            "the root; nyala:/// is SQLAlchemy's way to write it, for create_engine"
        )
    _parameters(url)
    authority, slash, path = rest.partition("?")[0].rpartition("@")[2].partition("/")
    if path:
        raise InterfaceError(f"{url}: nothing may follow the servers, but {slash + path!r} does")
    return tuple(_server(url, part) for part in authority.split(","))


def _server(url: str, part: str) -> tuple[str, int]:
    match = _SERVER.fullmatch(part)
    if match is None:
        raise InterfaceError(f"{url}: {part!r} is not a server; write {SCHEME}://host:port,host:port/")
    port = DEFAULT_PORT if match["port"] is None else int(match["port"])
    if not 0 < port < 1 << 16:
        raise InterfaceError(f"{url}: {port} is not a port; ports are 1 to 65535")
    return match["host"].strip("[]"), port


def _parameters(url: str) -> dict[str, str]:
    """Parameters after the question mark."""
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(url.partition("?")[2], keep_blank_values=True):
        if name not in ("tls", *TLS_OPTIONS):
            raise InterfaceError(f"{url}: there is no {name}{did_you_mean(name, ('tls', *TLS_OPTIONS))}")
        if name in parameters:
            raise InterfaceError(f"{url}: {name} is given twice")
        parameters[name] = value
    if "tls" in parameters and parameters != PLAIN:
        raise InterfaceError(f"{url}: tls=off excludes other options; for TLS, name {', '.join(TLS_OPTIONS)}")
    return parameters


def user_options(url: str, given: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The options `user` and `password` of a cluster's client: those that were given, the URL's, or those of the
    environment; none where no user is named. `InterfaceError` where both the options and the URL name one, or there is
    a password without a user.

    >>> user_options("nyala://ann:a%40b@one/", {}, {})
    {'user': 'ann', 'password': 'a@b'}
    >>> user_options("nyala://ann@one/", {}, {"NYALA_USER": "ben", "NYALA_PASSWORD": "secret"})
    {'user': 'ann', 'password': 'secret'}
    """
    environment = os.environ if environment is None else environment
    _, at, _ = _divided(url)
    user, colon, password = at[:-1].partition(":")
    if at and not user:
        raise InterfaceError(f"{without_password(url)}: a user's name is missing before the @")
    if at and (given.get("user") or given.get("password")):
        raise InterfaceError(f"{without_password(url)}: the URL names a user, and so do the options")
    found = {name: str(given[name]) for name in USER_ENVIRONMENT if given.get(name)}
    if at:
        found = {"user": unquote(user), **({"password": unquote(password)} if colon else {})}
    for name, variable in USER_ENVIRONMENT.items():
        if name not in found and environment.get(variable) and (name == "user" or "user" in found):
            found[name] = environment[variable]
    if "password" in found and "user" not in found:
        raise InterfaceError(f"{without_password(url)}: a password without a user; give both, or none")
    return found


def without_password(url: str) -> str:
    """The URL as it may be shown.

    >>> without_password("nyala://ann:secret@one:7051/?tls=off"), without_password("nyala://one")
    ('nyala://ann@one:7051/?tls=off', 'nyala://one')
    """
    scheme, at, rest = _divided(url)
    user, colon, _ = at.partition(":")
    return f"{scheme}{user}{'@' if colon else ''}{rest}"


def without_user(url: str) -> str:
    """The URL without a user and a password, for processes that log in with a token.

    >>> without_user("nyala://ann:secret@one:7051/?tls=off"), without_user("nyala://one")
    ('nyala://one:7051/?tls=off', 'nyala://one')
    """
    scheme, _, rest = _divided(url)
    return scheme + rest


def _divided(url: str) -> tuple[str, str, str]:
    """The scheme with its mark, user and password with the @, and the rest."""
    scheme, mark, rest = url.partition("://")
    authority, *more = re.split(r"([/?].*)", rest, maxsplit=1)
    named, at, hosts = authority.rpartition("@")
    return scheme + mark, named + at, hosts + "".join(more)


def tls_options(url: str, given: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The options of a cluster's client that name the TLS files: those that were given, the URL's, or those of the
    environment; none where there is to be no TLS. `InterfaceError` where one of these names some of them alone.

    >>> environment = {"NYALA_TLS_CA": "/ca", "NYALA_TLS_CERT": "/cert", "NYALA_TLS_KEY": "/key"}
    >>> tls_options("nyala://one", {}, environment)
    {'tls_ca': '/ca', 'tls_cert': '/cert', 'tls_key': '/key'}
    >>> tls_options("nyala://one/?tls=off", {}, environment)
    {}
    """
    environment = os.environ if environment is None else environment
    named = {name: given[name] for name in TLS_OPTIONS if given.get(name)}
    parameters = _parameters(url)
    if named and parameters:
        raise InterfaceError(f"{url}: the URL says {', '.join(parameters)}, and the options say {', '.join(named)}")
    if parameters == PLAIN:
        return {}
    from ...cluster.wire.security.tls_files import tls_files

    files = tls_files(named or parameters)
    if files is None:
        files = tls_files({name: environment.get(variable) for name, variable in ENVIRONMENT.items()}, ENVIRONMENT)
    # Whole paths: tasks of Spark may run in another directory.
    return {} if files is None else {n: str(Path(path).expanduser().absolute()) for n, path in files.options().items()}


def with_parameters(url: str, parameters: Mapping[str, str]) -> str:
    """The URL of the same servers with these parameters; as it is where there are none.

    >>> with_parameters("nyala://one:7051", {"tls": "off"})
    'nyala://one:7051/?tls=off'
    """
    url = without_password(url)
    plain = url.partition("?")[0].rstrip("/")
    return f"{plain}/?{urlencode(parameters)}" if parameters else url


def is_environment_secure() -> bool:
    """True if the environment names TLS files, so that URLs mean clusters with TLS."""
    return any(os.environ.get(name) for name in ENVIRONMENT.values())
