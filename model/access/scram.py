"""SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding: both sides of an exchange, as messages in and out.

    client                                   server
    n,,n=,r=NONCE                    ──►
                                     ◄──     r=NONCE+MORE,s=SALT,i=ITERATIONS
    c=biws,r=NONCE+MORE,p=PROOF      ──►
                                     ◄──     v=SIGNATURE

It is written here because scramp, the package for it, refuses the empty user name that libpq always sends.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from typing import Final

from ...errors import InvalidPassword
from .passwords import KEY_BYTES, Verifier, salted_password, signature

_NONCE_BYTES: Final = 18
_HEADER: Final = "n,,"
_MOST_ITERATIONS: Final = 1_000_000
"""That a client computes for a server."""


def new_nonce() -> str:
    """A nonce for one exchange."""
    return b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()


class ServerExchange:
    """The server's side. Both methods raise `InvalidPassword`.

    Parameters
    ----------
    verifier : Verifier
    nonce : str
        The server's part of the nonce.
    failure : str
        The message of a refusal.
    """

    def __init__(self, verifier: Verifier, nonce: str, failure: str = "password authentication failed"):
        self._verifier = verifier
        self._nonce = nonce
        self._failure = failure
        self._signed = ""
        """client-first-message-bare "," server-first-message, which both sides sign."""
        self._header = ""

    def first(self, message: str) -> str:
        """Returns the server's first message for the client's."""
        binding, comma, rest = message.partition(",")
        identity, second_comma, bare = rest.partition(",")
        # "n": the client has no channel binding; "y": it has, and the server offers none. "p=..." was not offered.
        if binding not in ("n", "y") or not comma or not second_comma or identity:
            raise InvalidPassword(self._failure)
        self._header = f"{binding},,"
        name, _, more = bare.partition(",")
        nonce = more.partition(",")[0]
        if not name.startswith("n=") or not nonce.startswith("r=") or len(nonce) < 10 or not nonce.isprintable():
            raise InvalidPassword(self._failure)
        self._nonce = nonce[2:] + self._nonce
        salt = b64encode(self._verifier.salt).decode()
        reply = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
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
        if not mark or not self._signed or without_proof != expected or len(proof) != KEY_BYTES:
            raise InvalidPassword(self._failure)
        signed = f"{self._signed},{without_proof}".encode()
        client_key = _xor(proof, signature(self._verifier.stored_key, signed))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key):
            raise InvalidPassword(self._failure)
        return "v=" + b64encode(signature(self._verifier.server_key, signed)).decode()


class ClientExchange:
    """The client's side. `final` and `check` raise `InvalidPassword` if the server does not follow the protocol."""

    def __init__(self, password: str, nonce: str | None = None):
        self._password = password
        self._nonce = nonce or new_nonce()
        self._bare = f"n=,r={self._nonce}"
        self._signature = b""

    def first(self) -> str:
        """The client's first message."""
        return _HEADER + self._bare

    def final(self, message: str) -> str:
        """The client's proof, for the server's first message."""
        parts = dict(part.split("=", 1) for part in message.split(",") if "=" in part)
        try:
            nonce, salt, iterations = parts["r"], b64decode(parts["s"], validate=True), int(parts["i"])
        except (KeyError, ValueError):
            raise InvalidPassword("the server's message is not of SCRAM-SHA-256") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not 0 < iterations <= _MOST_ITERATIONS:
            raise InvalidPassword("the server's message is not of this exchange")
        salted = salted_password(self._password, salt, iterations)
        client_key = signature(salted, b"Client Key")
        without_proof = f"c={b64encode(_HEADER.encode()).decode()},r={nonce}"
        signed = f"{self._bare},{message},{without_proof}".encode()
        proof = _xor(client_key, signature(hashlib.sha256(client_key).digest(), signed))
        self._signature = signature(signature(salted, b"Server Key"), signed)
        return f"{without_proof},p={b64encode(proof).decode()}"

    def check(self, message: str) -> None:
        """Checks that the server has the verifier of the password."""
        if not hmac.compare_digest(message, "v=" + b64encode(self._signature).decode()):
            raise InvalidPassword("the server does not have this user's password")


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
