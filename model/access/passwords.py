"""Verifiers of passwords, as PostgreSQL keeps them: a proof of the password can be checked with one, and not be made.

    SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>          the three last in base64

`CREATE USER ... PASSWORD` takes a password, or such a text, which `psql`'s `\\password` sends.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import stringprep
import time
import unicodedata
from base64 import b64decode, b64encode
from typing import Final

from ...errors import InterfaceError
from ..lazy_dataclass import dataclass
from .roles import Role

ITERATIONS: Final = 4096
"""Of PBKDF2, as in PostgreSQL."""
KEY_BYTES: Final = hashlib.sha256().digest_size
_SALT_BYTES: Final = 16
_TEXT: Final = re.compile(r"SCRAM-SHA-256\$(\d{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]{44}):([A-Za-z0-9+/=]{44})")


@dataclass(frozen=True, slots=True)
class Verifier:
    """The keys that belong to a password under a salt."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return "Verifier(...)"

    @property
    def text(self) -> str:
        """As it is kept."""
        salt, stored, server = (b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key))
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"


def make_verifier(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> Verifier:
    """The verifier of a password. Raises `InterfaceError` for an empty one.

    `salt` is random unless it is given.
    """
    if not password:
        raise InterfaceError("the password is empty")
    salt = salt or secrets.token_bytes(_SALT_BYTES)
    salted = salted_password(password, salt, iterations)
    stored = hashlib.sha256(signature(salted, b"Client Key")).digest()
    return Verifier(salt, iterations, stored, signature(salted, b"Server Key"))


def read_verifier(text: str) -> Verifier | None:
    """The verifier in a text; None for any other text.

    >>> read_verifier(make_verifier("pencil", b"0123456789abcdef").text).iterations
    4096
    >>> read_verifier("pencil") is None
    True
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    try:
        salt, stored, server = (b64decode(part, validate=True) for part in match.groups()[1:])
    except ValueError:
        return None
    if not int(match[1]) or len(stored) != KEY_BYTES or len(server) != KEY_BYTES:
        return None
    return Verifier(salt, int(match[1]), stored, server)


def verifier_text(password: str) -> str:
    """The text that is stored for a password; one that is a verifier already is returned unchanged."""
    return password if read_verifier(password) is not None else make_verifier(password).text


def mock_verifier(name: str, secret: bytes) -> Verifier:
    """A verifier for a name that has no password: no proof fits, and its exchange looks like any other.

    It is the same for the same name and `secret`, as that of a user is each time.
    """
    salt = signature(secret, b"salt:" + name.encode())[:_SALT_BYTES]
    return Verifier(salt, ITERATIONS, secrets.token_bytes(KEY_BYTES), secrets.token_bytes(KEY_BYTES))


def is_expired(role: Role) -> bool:
    """True if the role's password is not valid any more."""
    return role.valid_until is not None and role.valid_until <= time.time_ns() // 1000


def login_failure(user: str) -> str:
    """The message of a refused login, the same for a wrong password and a wrong name."""
    return f'password authentication failed for user "{user}"'


def salted_password(password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 of the prepared password, from which both keys follow."""
    return hashlib.pbkdf2_hmac("sha256", prepared(password).encode(), salt, iterations)


def signature(key: bytes, data: bytes) -> bytes:
    """HMAC-SHA-256."""
    return hmac.digest(key, data, "sha256")


_PROHIBITED: Final = (
    stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
    stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8,
    stringprep.in_table_c9, stringprep.in_table_a1,
)  # fmt: skip


def prepared(password: str) -> str:
    """The password by SASLprep (RFC 4013), as clients prepare theirs; as it is, if that does not allow it.

    >>> prepared("I\\u00adX"), prepared("\\u2168")
    ('IX', 'IX')
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char for char in password if not stringprep.in_table_b1(char)
    )
    found = unicodedata.normalize("NFKC", mapped)
    right = [stringprep.in_table_d1(char) for char in found]
    mixed = any(right) and (any(map(stringprep.in_table_d2, found)) or not (right[0] and right[-1]))
    if not found or mixed or any(prohibited(char) for char in found for prohibited in _PROHIBITED):
        return password
    return found
