"""Clients' passwords: those of the store's users, or one for all while the store has no users.

| the store has | the server has a password | a client |
|---|---|---|
| users | | proves the password of the user that it names |
| users | yes | as above; that of `nyala` is the server's, unless the user has one of its own |
| no users | yes | proves the server's password, under any name |
| no users | no | needs none on loopback, and is refused elsewhere |

An exchange for a name that is no user, or has no password, looks like any other and fails at its end. Whether there
are users is looked up for each client: the first CREATE USER closes the server to everyone without a password.
"""

from __future__ import annotations

import hmac
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ..errors import AuthenticationFailed, InterfaceError, InvalidPassword
from ..model.access.passwords import Verifier, is_expired, login_failure, make_verifier, mock_verifier, read_verifier
from ..model.access.roles import STORE_ROLE, Access
from ..model.access.scram import ServerExchange, new_nonce
from .endpoints import resolves_to_loopback

if TYPE_CHECKING:
    from ..driver.connection import Connection

_SECRET_BYTES: Final = 32


class Authentication:
    """Decides who may enter a server.

    Parameters
    ----------
    access : callable
        Returns the present users of the store.
    password : str, optional
        The server's own. Raises `InterfaceError` for an empty one.
    is_open : bool
        Without users and password, clients enter: the server can be reached from this machine alone.
    """

    def __init__(self, access: Callable[[], Access], password: str | None = None, is_open: bool = True):
        self._access = access
        self._own = None if password is None else make_verifier(password)
        self._is_open = is_open
        self._secret = secrets.token_bytes(_SECRET_BYTES)

    def __repr__(self) -> str:
        return "Authentication(...)"

    @property
    def is_needed(self) -> bool:
        """True if clients must prove a password."""
        return self._access().has_users or self._own is not None or not self._is_open

    @property
    def has_users(self) -> bool:
        """True if the store has users."""
        return self._access().has_users

    def is_superuser(self, user: str) -> bool:
        """True if a user may do everything."""
        return self._access().is_superuser(user)

    def exchange(self, user: str) -> ServerExchange | None:
        """The exchange with a client that names a user; None: it needs no password."""
        if not self.is_needed:
            return None
        return ServerExchange(self._verifier_or_mock(user), new_nonce(), login_failure(user))

    def check(self, user: str, password: str) -> None:
        """Raises `InvalidPassword` unless this is the password of a user; for protocols that send it, under TLS."""
        verifier = self._verifier_or_mock(user)
        given = make_verifier(password or "\0", verifier.salt, verifier.iterations)
        if not hmac.compare_digest(given.stored_key, verifier.stored_key):
            raise InvalidPassword(login_failure(user))

    def _verifier_or_mock(self, user: str) -> Verifier:
        return self._verifier(user, self._access()) or mock_verifier(user, self._secret)

    def _verifier(self, user: str, access: Access) -> Verifier | None:
        if not access.has_users:
            return self._own
        role = access.role(user)
        kept = read_verifier(role.verifier) if role is not None else None
        return self._own if kept is None and user == STORE_ROLE else kept

    def admits_as_user(self, user: str) -> bool:
        """True if a client that has proved its password acts as the user of its name; False in a store without users.

        Raises
        ------
        AuthenticationFailed
            The role cannot log in.
        InvalidPassword
            The password is not valid any more.
        """
        access = self._access()
        if not access.has_users:
            return False
        role = access.role(user)
        if role is None or not role.can_login:
            raise AuthenticationFailed(f'role "{user}" is not permitted to log in')
        if is_expired(role):
            raise InvalidPassword(login_failure(user))
        return True


class Listening(Protocol):
    """Options of a door for clients of a store."""

    @property
    def password(self) -> str | None: ...

    def endpoint(self, has_users: bool) -> tuple[str, int]:
        """Host and port; raises `InterfaceError` for an address at which the door may not listen."""


def entrance(connection: Connection, options: Listening) -> tuple[str, int, Authentication]:
    """Host and port of a door for clients of a connection's store, and the authentication of those clients.

    Raises `InterfaceError` if the address is refused, or the connection's user is not allowed to check the passwords
    of others.
    """
    store = connection.session.transactions.store
    access, user = store.access, connection.session.facts.session_user
    if access.has_users and not access.is_superuser(user):
        raise InterfaceError(
            f"user {user} is no superuser: a server for other clients checks their passwords and acts as their users. "
            "Let it log in as one (NYALA_USER, NYALA_PASSWORD), or with the certificate of an administrator"
        )
    host, port = options.endpoint(access.has_users)
    is_open = resolves_to_loopback(host)
    return host, port, Authentication(lambda: store.access, options.password, is_open)


def read_secret(path: str | Path, kind: str = "password") -> str:
    """The secret of a kind in a file, without the line end behind it. Raises `InterfaceError` if others can read the
    file."""
    try:
        mode = Path(path).stat().st_mode
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InterfaceError(f"{path}: the {kind} cannot be read: {error}") from None
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InterfaceError(f"{path}: other users can read the {kind}: chmod 600 {path}")
    return text.removesuffix("\n").removesuffix("\r")
