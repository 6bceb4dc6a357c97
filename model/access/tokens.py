"""Tokens: a short proof that a server has checked a user's password, which other servers of its cluster accept.

    0x02 | key's number u32 | expiry i64, microseconds since 1970 | kind u8 | role's number u32 | its ended logins u32
         | user's name in UTF-8 | HMAC-SHA-256 of all before

The secret is the servers' own. The holder of a token is its user until it expires, so tokens travel where passwords
may: on loopback, or under TLS. A token ends before that if its role is dropped or gets another password
(`Role.logins_ended`): servers compare both numbers with those of the role of that name.

| kind | made for | valid for |
|---|---|---|
| LOGIN | a client that has proved its password | an hour, and renewed by the password |
| TASK | processes that work for a client, such as Spark's | the seconds requested, a day at most; never renewed |
"""

from __future__ import annotations

import hmac
import secrets
import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from ...errors import LoginExpired
from ..lazy_dataclass import dataclass
from .passwords import signature
from .roles import Role

TOKEN_SECONDS: Final = 3600
"""Life of a token; clients renew theirs before."""
TASK_SECONDS: Final = 24 * 3600
"""Longest life of a token for tasks."""
KEY_SECONDS: Final = 24 * 3600
"""Seconds for which a key signs new tokens."""
KEPT_SECONDS: Final = KEY_SECONDS + TASK_SECONDS + TOKEN_SECONDS
"""Seconds after which a key is forgotten: its last token has expired before."""
_HEAD: Final = struct.Struct(">BIqBII")
_VERSION: Final = 2
_MAC_BYTES: Final = 32
_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A key of servers: its number, its secret, and when it was made, in seconds since 1970."""

    number: int
    secret: bytes
    made: int

    def __repr__(self) -> str:
        return f"TokenKey({self.number}, ...)"


def new_key(keys: Iterable[TokenKey], now: float) -> TokenKey:
    """A further key; `now` in seconds since 1970."""
    return TokenKey(max((key.number for key in keys), default=0) + 1, secrets.token_bytes(32), int(now))


def signing_key(keys: Iterable[TokenKey], now: float) -> TokenKey | None:
    """The key for new tokens; None if a new one is due."""
    newest = max(keys, key=lambda key: key.number, default=None)
    return newest if newest is not None and now - newest.made < KEY_SECONDS else None


def kept_keys(keys: Iterable[TokenKey], now: float) -> tuple[TokenKey, ...]:
    """The keys that may have signed tokens which are still valid."""
    return tuple(key for key in keys if now - key.made < KEPT_SECONDS)


class TokenKind(IntEnum):
    """The use of a token."""

    LOGIN = 0
    TASK = 1


@dataclass(frozen=True, slots=True)
class Claims:
    """The content of a token: the user, the number and the ended logins of its role when it was made, and its kind."""

    user: str
    number: int
    logins_ended: int
    kind: TokenKind = TokenKind.LOGIN

    def is_of(self, role: Role) -> bool:
        """True if the login has not been ended since: the role is the same, and so is its password."""
        return (self.number, self.logins_ended) == (role.number, role.logins_ended)


def make_token(role: Role, expires: float, key: TokenKey, kind: TokenKind = TokenKind.LOGIN) -> bytes:
    """A token of a user; `expires` in seconds since 1970.

    >>> key = TokenKey(3, b"secret", 0)
    >>> read_token(make_token(Role("ann", number=16384), 100.0, key), [key], now=99.0)
    Claims(user='ann', number=16384, logins_ended=0, kind=<TokenKind.LOGIN: 0>)
    """
    micros = int(expires * _MICROSECONDS)
    content = _HEAD.pack(_VERSION, key.number, micros, kind, role.number, role.logins_ended) + role.name.encode()
    return content + signature(key.secret, content)


def token_expiry(token: bytes) -> float:
    """The expiry of a token that its holder has from a server, in seconds since 1970; its signature is not checked.
    Raises `LoginExpired` if it is malformed."""
    if len(token) < _HEAD.size + _MAC_BYTES:
        raise LoginExpired("the login's token is malformed")
    return float(_HEAD.unpack_from(token)[2]) / _MICROSECONDS


def token_user(token: bytes) -> str:
    """The user that a token names; its signature is not checked. Raises `LoginExpired` if it is malformed."""
    try:
        token_expiry(token)
        return token[_HEAD.size : -_MAC_BYTES].decode()
    except UnicodeDecodeError:
        raise LoginExpired("the login's token is malformed") from None


def read_token(token: bytes, keys: Iterable[TokenKey], now: float) -> Claims:
    """The content of a token; `now` in seconds since 1970. Raises `LoginExpired` if no key of these has signed it, or
    it is not valid any more: which of both, a caller cannot know by itself."""
    content, mac = token[:-_MAC_BYTES], token[-_MAC_BYTES:]
    if len(content) < _HEAD.size:
        raise LoginExpired("the login's token is malformed")
    version, number, expires, kind, role, logins_ended = _HEAD.unpack_from(content)
    key = next((key for key in keys if key.number == number), None)
    if version != _VERSION or key is None or not hmac.compare_digest(mac, signature(key.secret, content)):
        raise LoginExpired("the login's token has not been signed by these servers, or with a key that they forgot")
    if expires <= now * _MICROSECONDS:
        raise LoginExpired("the login has expired")
    return Claims(content[_HEAD.size :].decode(), role, logins_ended, TokenKind(kind))
