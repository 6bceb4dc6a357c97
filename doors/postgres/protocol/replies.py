"""Messages of the server, as bytes.

    kind (1 byte)   length (4 bytes, with itself)   body

Rows are not here: `values.rows` makes them, many at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ....model.lazy_dataclass import dataclass

_FIELD: Final = struct.Struct("!IhIhih")
_HEAD: Final = struct.Struct("!cI")


class Field(NamedTuple):
    """A column of a result: its name, the type's oid, size (-1: varying) and modifier (-1: none), and the format."""

    name: str
    oid: int
    size: int
    modifier: int
    format: int


@dataclass(frozen=True, slots=True)
class Report:
    """An error or a notice.

    Parameters
    ----------
    severity : str
        ERROR, FATAL (ends the connection), WARNING, NOTICE.
    sqlstate : str
    message : str
    detail, hint : str
        "" for none.
    position : int
        1-based place in the statement's text, in characters; 0 for none.
    """

    severity: str
    sqlstate: str
    message: str
    detail: str = ""
    hint: str = ""
    position: int = 0

    def fields(self) -> Iterable[tuple[bytes, str]]:
        """Code and text of each field."""
        yield b"S", self.severity
        yield b"V", self.severity
        yield b"C", self.sqlstate
        yield b"M", self.message
        if self.detail:
            yield b"D", self.detail
        if self.hint:
            yield b"H", self.hint
        if self.position:
            yield b"P", str(self.position)


def message(kind: bytes, body: bytes = b"") -> bytes:
    """A message of a kind."""
    return _HEAD.pack(kind, len(body) + 4) + body


TLS_ACCEPTED: Final = b"S"
REFUSED: Final = b"N"
AUTHENTICATED: Final = message(b"R", struct.pack("!I", 0))
PARSE_COMPLETE: Final = message(b"1")
BIND_COMPLETE: Final = message(b"2")
CLOSE_COMPLETE: Final = message(b"3")
NO_DATA: Final = message(b"n")
EMPTY_QUERY: Final = message(b"I")
PORTAL_SUSPENDED: Final = message(b"s")
COPY_DONE: Final = message(b"c")
IDLE, IN_TRANSACTION, FAILED = b"I", b"T", b"E"
READY: Final = {status: message(b"Z", status) for status in (IDLE, IN_TRANSACTION, FAILED)}


def _text(text: str) -> bytes:
    """A text with the zero byte that ends it; zero bytes in it would end it early."""
    return text.encode(errors="replace").replace(b"\0", b"?") + b"\0"


def sasl_mechanisms(names: Sequence[str]) -> bytes:
    """AuthenticationSASL: the mechanisms that the client may choose from."""
    return message(b"R", struct.pack("!I", 10) + b"".join(map(_text, names)) + b"\0")


def sasl_continue(data: str) -> bytes:
    """AuthenticationSASLContinue."""
    return message(b"R", struct.pack("!I", 11) + data.encode())


def sasl_final(data: str) -> bytes:
    """AuthenticationSASLFinal."""
    return message(b"R", struct.pack("!I", 12) + data.encode())


def parameter_status(name: str, value: str) -> bytes:
    """ParameterStatus: the value of a setting that drivers follow."""
    return message(b"S", _text(name) + _text(value))


def backend_key(process: int, key: bytes) -> bytes:
    """BackendKeyData: what a cancel request must name."""
    return message(b"K", struct.pack("!I", process) + key)


def negotiate_version(minor: int, unknown: Sequence[str]) -> bytes:
    """NegotiateProtocolVersion: the newest minor version here, and the options that are not known."""
    return message(b"v", struct.pack("!II", 3 << 16 | minor, len(unknown)) + b"".join(map(_text, unknown)))


def error_response(report: Report) -> bytes:
    """ErrorResponse."""
    return message(b"E", b"".join(code + _text(text) for code, text in report.fields()) + b"\0")


def notice_response(report: Report) -> bytes:
    """NoticeResponse."""
    return message(b"N", b"".join(code + _text(text) for code, text in report.fields()) + b"\0")


def command_complete(tag: str) -> bytes:
    """CommandComplete."""
    return message(b"C", tag.encode() + b"\0")


def row_description(fields: Sequence[Field]) -> bytes:
    """RowDescription."""
    parts = [struct.pack("!H", len(fields))]
    for field in fields:
        parts += _text(field.name), _FIELD.pack(0, 0, field.oid, field.size, field.modifier, field.format)
    return message(b"T", b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """ParameterDescription."""
    return message(b"t", struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def copy_response(kind: bytes, is_binary: bool, columns: int) -> bytes:
    """CopyInResponse (`kind` b"G") or CopyOutResponse (b"H")."""
    return message(kind, struct.pack(f"!BH{columns}H", is_binary, columns, *[int(is_binary)] * columns))


def copy_data(data: bytes) -> bytes:
    """CopyData."""
    return message(b"d", data)


def parameter_statuses(values: Mapping[str, str]) -> bytes:
    """ParameterStatus of each setting."""
    return b"".join(parameter_status(name, value) for name, value in values.items())
