"""SCRAM-SHA-256 (RFC 5802, RFC 7677) with one password: a store has no users yet, so a client's name is not checked.

    client                                   server
    n,,n=,r=NONCE                    ──►
                                     ◄──     r=NONCE+MORE,s=SALT,i=ITERATIONS
    c=biws,r=NONCE+MORE,p=PROOF      ──►
                                     ◄──     v=SIGNATURE

What is kept of the password is a verifier, as PostgreSQL keeps it: keys with which the proof of a client is checked,
and from which no client can compute one. It is written here because scramp, the package for it, refuses the empty user
name that libpq always sends.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stat
import stringprep
import unicodedata
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final

from ....errors import AuthenticationFailed, InterfaceError

ITERATIONS: Final = 4096
"""Of PBKDF2, as in PostgreSQL."""
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 18
_WRONG: Final = "password authentication failed"


class Password:
    """The verifier of a password (`protocol.startup.Authenticator`). Raises `InterfaceError` for an empty one.

    `salt` is random unless it is given.
    """

    def __init__(self, password: str, salt: bytes | None = None, iterations: int = ITERATIONS):
        if not password:
            raise InterfaceError("the password is empty")
        self.salt = salt or secrets.token_bytes(_SALT_BYTES)
        self.iterations = iterations
        salted = hashlib.pbkdf2_hmac("sha256", prepared(password).encode(), self.salt, iterations)
        self.stored_key = hashlib.sha256(_signature(salted, b"Client Key")).digest()
        self.server_key = _signature(salted, b"Server Key")

    def __repr__(self) -> str:
        return "Password(...)"

    def exchange(self) -> ScramExchange:
        """Begins with a client."""
        return ScramExchange(self, b64encode(secrets.token_bytes(_NONCE_BYTES)).decode())


def _signature(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


class ScramExchange:
    """See `protocol.startup.Exchange`. `nonce` is the server's part of the nonce."""

    def __init__(self, password: Password, nonce: str):
        self._password = password
        self._nonce = nonce
        self._signed = ""
        """client-first-message-bare "," server-first-message, which both sides sign."""
        self._header = ""

    def first(self, message: str) -> str:
        """Returns the server's first message for the client's."""
        binding, comma, rest = message.partition(",")
        identity, second_comma, bare = rest.partition(",")
        # "n": the client has no channel binding; "y": it has, and the server offers none. "p=..." was not offered.
        if binding not in ("n", "y") or not comma or not second_comma or identity:
            raise AuthenticationFailed(_WRONG)
        self._header = f"{binding},,"
        name, _, more = bare.partition(",")
        nonce = more.partition(",")[0]
        if not name.startswith("n=") or not nonce.startswith("r=") or len(nonce) < 10 or not nonce.isprintable():
            raise AuthenticationFailed(_WRONG)
        self._nonce = nonce[2:] + self._nonce
        salt = b64encode(self._password.salt).decode()
        reply = f"r={self._nonce},s={salt},i={self._password.iterations}"
        self._signed = f"{bare},{reply}"
        return reply

    def final(self, message: str) -> str:
        """Checks the client's proof, and returns the server's."""
        without_proof, mark, proof_text = message.rpartition(",p=")
        expected = f"c={b64encode(self._header.encode()).decode()},r={self._nonce}"
        try:
            proof = b64decode(proof_text, validate=True)
        except ValueError:
            proof = b""
        if not mark or not self._signed or without_proof != expected or len(proof) != hashlib.sha256().digest_size:
            raise AuthenticationFailed(_WRONG)
        signed = f"{self._signed},{without_proof}".encode()
        signature = _signature(self._password.stored_key, signed)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self._password.stored_key):
            raise AuthenticationFailed(_WRONG)
        return "v=" + b64encode(_signature(self._password.server_key, signed)).decode()


_PROHIBITED: Final = (
    stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
    stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8,
    stringprep.in_table_c9, stringprep.in_table_a1,
)  # fmt: skip


def prepared(password: str) -> str:
    """The password by SASLprep (RFC 4013), as clients prepare theirs; as it is, if that does not allow it.

    >>> prepared("I\u00adX"), prepared("\u2168")
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


def read_password_file(path: str | Path) -> str:
    """The password in a file, without the line end behind it. Raises `InterfaceError` if others can read the file."""
    try:
        mode = Path(path).stat().st_mode
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InterfaceError(f"{path}: the password cannot be read: {error}") from None
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InterfaceError(f"{path}: other users can read the password: chmod 600 {path}")
    return text.removesuffix("\n").removesuffix("\r")
