"""Tokens: a short proof that a server has checked a user's password, which other servers of its cluster accept.

    0x01 | key's number u32 | expiry i64, microseconds since 1970 | user's name in UTF-8 | HMAC-SHA-256 of all before

The secret is the servers' own. Who has a token is its user until it expires, so tokens travel where passwords may:
on loopback, or under TLS.
"""

from __future__ import annotations

import hmac
import secrets
import struct
from collections.abc import Iterable
from typing import Final

from ...errors import LoginExpired
from ..lazy_dataclass import dataclass
from .passwords import signature

TOKEN_SECONDS: Final = 3600
"""Life of a token; clients renew theirs before."""
KEY_SECONDS: Final = 24 * 3600
"""Seconds for which a key signs new tokens."""
KEPT_SECONDS: Final = KEY_SECONDS + 2 * TOKEN_SECONDS
"""Seconds after which a key is forgotten: its last token has expired before."""
_HEAD: Final = struct.Struct(">BIq")
_VERSION: Final = 1
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


def make_token(user: str, expires: float, key: TokenKey) -> bytes:
    """A token of a user; `expires` in seconds since 1970.

    >>> key = TokenKey(3, b"secret", 0)
    >>> read_token(make_token("ann", 100.0, key), [key], now=99.0)
    'ann'
    """
    content = _HEAD.pack(_VERSION, key.number, int(expires * _MICROSECONDS)) + user.encode()
    return content + signature(key.secret, content)


def read_token(token: bytes, keys: Iterable[TokenKey], now: float) -> str:
    """The user of a token; `now` in seconds since 1970. Raises `LoginExpired` if no key of these has signed it, or it
    is not valid any more: which of both, a caller cannot know by itself."""
    content, mac = token[:-_MAC_BYTES], token[-_MAC_BYTES:]
    if len(content) < _HEAD.size:
        raise LoginExpired("the login's token is malformed")
    version, number, expires = _HEAD.unpack_from(content)
    key = next((key for key in keys if key.number == number), None)
    if version != _VERSION or key is None or not hmac.compare_digest(mac, signature(key.secret, content)):
        raise LoginExpired("the login's token has not been signed by these servers, or with a key that they forgot")
    if expires <= now * _MICROSECONDS:
        raise LoginExpired("the login has expired")
    return content[_HEAD.size :].decode()
