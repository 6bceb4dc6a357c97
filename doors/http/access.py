"""Access to the server: names of hosts, passwords, and tokens of forms.

1. Host: a page of another site that lets its own name point to 127.0.0.1 could read a server without a password. So
   that server accepts only names of this machine.
2. Credentials: Basic authentication with the one password; in a store with users, with the name and password of a
   superuser, since the pages show all of the store.
3. Token: a POST carries the token of this process's forms, which no other site can read.
"""

from __future__ import annotations

import binascii
import hashlib
import secrets
from base64 import b64decode
from collections.abc import Callable
from typing import Final, Protocol

from ...errors import AuthenticationFailed, InvalidPassword
from ...net.addresses import is_loopback
from ..authentication import Authentication

USER: Final = "operator"
"""The user of a server without a password."""


class Access(Protocol):
    """Authentication of requests."""

    def user_of(self, authorization: str | None) -> str | None:
        """The user whom the header `Authorization` proves; None if it proves none."""


class Everyone:
    """Access without a password."""

    def user_of(self, authorization: str | None) -> str | None:
        return USER


class OnePassword:
    """Basic authentication with one password; any name is accepted.

    >>> access = OnePassword("secret")
    >>> access.user_of("Basic YW5hOnNlY3JldA=="), access.user_of("Basic YW5hOndyb25n"), access.user_of(None)
    ('ana', None, None)
    """

    def __init__(self, password: str):
        self._salt = secrets.token_bytes(16)
        self._digest = self._of(password)

    def _of(self, password: str) -> bytes:
        return hashlib.blake2b(password.encode(), key=self._salt).digest()

    def user_of(self, authorization: str | None) -> str | None:
        given = _basic(authorization)
        if given is None:
            return None
        name, password = given
        # Digests have one length: the comparison takes as long for a short password as for the right one.
        is_right = secrets.compare_digest(self._of(password), self._digest)
        return (name or USER) if is_right else None


class WithUsers:
    """Access to a store, which may have users: then it is for superusers with their passwords.

    Parameters
    ----------
    plain : Access
        Of a store without users.
    authentication : callable
        Returns the authentication of the store's users; None where there is no such store, or it is not open.
    """

    def __init__(self, plain: Access, authentication: Callable[[], Authentication | None]):
        self._plain = plain
        self._authentication = authentication

    def user_of(self, authorization: str | None) -> str | None:
        users = self._authentication()
        if users is None or not users.has_users:
            return self._plain.user_of(authorization)
        given = _basic(authorization)
        if given is None:
            return None
        name, password = given
        try:
            users.check(name, password)
            users.admits_as_user(name)
        except (AuthenticationFailed, InvalidPassword):
            return None
        return name if users.is_superuser(name) else None


def _basic(authorization: str | None) -> tuple[str, str] | None:
    """Name and password in the header of Basic authentication; None if there is no such header."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, mark, password = b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if mark else None


def named_user(authorization: str) -> str:
    """The user whom a header names, with whatever password; "" if it names none."""
    given = _basic(authorization)
    return "" if given is None else given[0]


def access_of(password: str | None) -> Access:
    """The authentication for a password; None: everyone."""
    return Everyone() if password is None else OnePassword(password)


def is_own_name(host: str | None, bound: str) -> bool:
    """True if the header `Host` names this machine, or the address that the server listens at.

    >>> names = "localhost:8050", "127.0.0.1:8050", "[::1]", "evil.example:8050", None
    >>> [is_own_name(name, "127.0.0.1") for name in names]
    [True, True, True, False, False]
    """
    if not host:
        return False
    name = host.partition("]")[0].strip("[") if host.startswith("[") else host.rpartition(":")[0] or host
    return name.lower().rstrip(".") == bound.lower() or is_loopback(name)
