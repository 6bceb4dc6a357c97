"""Messages of clients: one class per message, made of its body.

Names and texts stay bytes here: what is not UTF-8 is an error of the statement, not of the protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ....errors import ProtocolError

_INT16: Final = struct.Struct("!H")
_INT32: Final = struct.Struct("!i")
_OID: Final = struct.Struct("!I")


class Startup(NamedTuple):
    """The first message: the version of the protocol, and the client's parameters."""

    major: int
    minor: int
    parameters: dict[str, str]


class SslRequest(NamedTuple):
    """Requests TLS."""


class GssRequest(NamedTuple):
    """Requests encryption by GSSAPI, which is not offered."""


class CancelRequest(NamedTuple):
    """Cancels the statement of another connection."""

    process: int
    key: bytes


class AuthenticationReply(NamedTuple):
    """A step of authentication: PasswordMessage, SASLInitialResponse or SASLResponse."""

    body: bytes


class Query(NamedTuple):
    """Statements to be run, as text."""

    text: bytes


class Parse(NamedTuple):
    """Makes a prepared statement; `types` are the oids of the first parameters, 0 where they are left open."""

    name: bytes
    text: bytes
    types: tuple[int, ...]


class Bind(NamedTuple):
    """Makes a portal of a prepared statement and values (None: NULL)."""

    portal: bytes
    statement: bytes
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


class Describe(NamedTuple):
    """Requests the columns of a portal (`kind` b"P"), or the columns and parameters of a statement (b"S")."""

    kind: bytes
    name: bytes


class Execute(NamedTuple):
    """Runs a portal, to its end or for `rows` rows."""

    portal: bytes
    rows: int


class Close(NamedTuple):
    """Discards a portal (`kind` b"P") or a prepared statement (b"S")."""

    kind: bytes
    name: bytes


class Sync(NamedTuple):
    """Ends a group of extended messages."""


class Flush(NamedTuple):
    """Requests the replies that are ready."""


class CopyData(NamedTuple):
    """A piece of the data of COPY FROM STDIN."""

    data: bytes


class CopyDone(NamedTuple):
    """The end of the data."""


class CopyFail(NamedTuple):
    """The client abandons its COPY FROM STDIN."""

    reason: bytes


class FunctionCall(NamedTuple):
    """The call of a function by its oid, which is not offered."""


class Terminate(NamedTuple):
    """The client ends the connection."""


Message = (
    Startup | SslRequest | GssRequest | CancelRequest | AuthenticationReply
    | Query | Parse | Bind | Describe | Execute | Close | Sync | Flush
    | CopyData | CopyDone | CopyFail | FunctionCall | Terminate
)  # fmt: skip

SSL_REQUEST: Final = (1234 << 16) | 5679
GSS_REQUEST: Final = (1234 << 16) | 5680
CANCEL_REQUEST: Final = (1234 << 16) | 5678
_LONGEST_KEY: Final = 256


def first_message(body: bytes) -> Message:
    """Reads the body of a message without a kind: one with which a connection begins."""
    try:
        (code,) = _OID.unpack_from(body)
    except struct.error:
        raise ProtocolError("the first message is too short") from None
    if code == SSL_REQUEST:
        return SslRequest()
    if code == GSS_REQUEST:
        return GssRequest()
    if code == CANCEL_REQUEST:
        if not 8 < len(body) <= 8 + _LONGEST_KEY:
            raise ProtocolError("a cancel request of invalid length")
        return CancelRequest(_OID.unpack_from(body, 4)[0], body[8:])
    parameters: dict[str, str] = {}
    if code >> 16 == 3:
        parts = body[4:].split(b"\0")
        # Pairs of name and value, then an empty name, each ended by a zero byte.
        if len(parts) < 2 or len(parts) % 2 or parts[-2] or parts[-1]:
            raise ProtocolError("the parameters of the start-up message are no pairs of names and values")
        texts = [part.decode(errors="replace") for part in parts[:-2]]
        parameters = dict(zip(texts[::2], texts[1::2], strict=True))
    return Startup(code >> 16, code & 0xFFFF, parameters)


def _text(body: bytes, start: int) -> tuple[bytes, int]:
    """The text that a zero byte ends, and the position behind it."""
    end = body.find(b"\0", start)
    if end < 0:
        raise ProtocolError("a text in a message has no end")
    return body[start:end], end + 1


def _numbers(body: bytes, start: int, kind: str) -> tuple[tuple[int, ...], int]:
    """A list that its length precedes, and the position behind it."""
    (count,) = _INT16.unpack_from(body, start)
    start += 2
    if not count:
        return (), start
    values = struct.unpack_from(f"!{count}{kind}", body, start)
    return values, start + count * (4 if kind == "I" else 2)


def _query(body: bytes) -> Query:
    text, end = _text(body, 0)
    _at_end(body, end)
    return Query(text)


def _parse(body: bytes) -> Parse:
    name, place = _text(body, 0)
    text, place = _text(body, place)
    types, place = _numbers(body, place, "I")
    _at_end(body, place)
    return Parse(name, text, types)


def _bind(body: bytes) -> Bind:
    portal, place = _text(body, 0)
    statement, place = _text(body, place)
    formats, place = _numbers(body, place, "H")
    (count,) = _INT16.unpack_from(body, place)
    place += 2
    values: list[bytes | None] = []
    for _ in range(count):
        (size,) = _INT32.unpack_from(body, place)
        place += 4
        if size == -1:
            values.append(None)
            continue
        if not 0 <= size <= len(body) - place:
            raise ProtocolError("a parameter is longer than its message")
        values.append(body[place : place + size])
        place += size
    result_formats, place = _numbers(body, place, "H")
    _at_end(body, place)
    return Bind(portal, statement, formats, tuple(values), result_formats)


def _named(make: type[Any]) -> Callable[[bytes], Any]:
    def read(body: bytes) -> Any:
        if body[:1] not in (b"S", b"P"):
            raise ProtocolError(f"{make.__name__} is for a statement (S) or a portal (P), not {body[:1]!r}")
        name, end = _text(body, 1)
        _at_end(body, end)
        return make(body[:1], name)

    return read


def _execute(body: bytes) -> Execute:
    portal, place = _text(body, 0)
    (rows,) = _INT32.unpack_from(body, place)
    _at_end(body, place + 4)
    return Execute(portal, max(0, rows))


def _empty(make: type[Any]) -> Callable[[bytes], Any]:
    message = make()

    def read(body: bytes) -> Any:
        _at_end(body, 0)
        return message

    return read


def _at_end(body: bytes, place: int) -> None:
    if place != len(body):
        raise ProtocolError(f"a message has {len(body) - place} bytes too many")


_READERS: Final[dict[int, Callable[[bytes], Any]]] = {
    ord("Q"): _query,
    ord("P"): _parse,
    ord("B"): _bind,
    ord("D"): _named(Describe),
    ord("E"): _execute,
    ord("C"): _named(Close),
    ord("S"): _empty(Sync),
    ord("H"): _empty(Flush),
    ord("d"): CopyData,
    ord("c"): _empty(CopyDone),
    ord("f"): lambda body: CopyFail(_text(body, 0)[0]),
    ord("F"): lambda body: FunctionCall(),
    ord("X"): _empty(Terminate),
    ord("p"): AuthenticationReply,
}
LONG: Final = frozenset(b"QPBdFp")
"""Messages that may be long: they hold statements, values or data."""


def is_known(kind: int) -> bool:
    """True if clients have messages of this kind."""
    return kind in _READERS


def typed_message(kind: int, body: bytes) -> Any:
    """Reads the body of a message of a known kind. Raises `ProtocolError` if it is malformed."""
    try:
        return _READERS[kind](body)
    except struct.error:
        raise ProtocolError(f"a message of kind {chr(kind)} is too short") from None
