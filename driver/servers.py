"""URLs of clusters: `nyala://host:port,host:port/`."""

from __future__ import annotations

import re
from typing import Final

from ..errors import InterfaceError

SCHEME: Final = "nyala"
DEFAULT_PORT: Final = 7051
_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:\[\]@/]+)(?::(?P<port>\d+))?")


def servers(url: str) -> tuple[tuple[str, int], ...]:
    """The hosts and ports that a URL names, in its order; `InterfaceError` says what is wrong with it.

    >>> servers("nyala://one,two:7052,[::1]:7053/")
    (('one', 7051), ('two', 7052), ('::1', 7053))
    """
    scheme, _, rest = url.partition("://")
    if scheme != SCHEME:
        raise InterfaceError(f"{url}: {scheme}:// is no target; give a directory, or ':memory:'")
    authority, slash, path = rest.partition("/")
    if path:
        raise InterfaceError(f"{url}: nothing may follow the servers, but {slash + path!r} does")
    if "@" in authority:
        raise InterfaceError(f"{url}: a user name has no place in it")
    return tuple(_server(url, part) for part in authority.split(","))


def _server(url: str, part: str) -> tuple[str, int]:
    found = _SERVER.fullmatch(part)
    if found is None:
        raise InterfaceError(f"{url}: {part!r} is no server; write {SCHEME}://host:port,host:port/")
    port = DEFAULT_PORT if found["port"] is None else int(found["port"])
    if not 0 < port < 1 << 16:
        raise InterfaceError(f"{url}: {port} is no port; ports are 1 to 65535")
    return found["host"].strip("[]"), port
