"""Classes of the messages, and their bytes.

    bytes ── Any ──► type_url "type.googleapis.com/arrow.flight.protocol.sql.CommandGetTables", value ──► message

The classes are made from `declarations`, in a pool of their own: another package of the process may have registered the
same messages, and code that protoc generates is bound to a range of versions of protobuf. protobuf's parser checks the
bytes: lengths, UTF-8, depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from ....errors import NotSupportedError, ProtocolError
from . import declarations

try:
    from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError
except ImportError:
    raise NotSupportedError(
        "Flight SQL needs protobuf, which is not installed; try: pip install nyala[flight-sql]"
    ) from None

PACKAGE: Final = "arrow.flight.protocol.sql"
_FLIGHT: Final = "arrow.flight.protocol"
_URL: Final = f"type.googleapis.com/{PACKAGE}."
_SCALARS: Final = {
    "double": 1,
    "int64": 3,
    "int32": 5,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
    "sfixed64": 16,
}
"""Numbers of `FieldDescriptorProto.Type`."""
_MESSAGE: Final = 11
_OPTIONAL: Final = 1
_REPEATED: Final = 3


def message(name: str, /, **fields: Any) -> Any:
    """A new message of Flight SQL or Flight.

    >>> message("TicketStatementQuery", statement_handle=b"x").SerializeToString()
    b'\\n\\x01x'
    """
    return _classes()[name](**fields)


def read(name: str, data: bytes) -> Any:
    """The message of this name in bytes. Raises `ProtocolError` if they are none."""
    try:
        return _classes()[name].FromString(data)
    except DecodeError as error:
        raise ProtocolError(f"the bytes are no {name}: {error}") from None


def in_any(content: Any) -> bytes:
    """A message within an Any, as commands, tickets and the results of actions are sent.

    >>> name, found = from_any(in_any(message("CommandGetDbSchemas", catalog="nyala")))
    >>> name, found.catalog, found.HasField("db_schema_filter_pattern")
    ('CommandGetDbSchemas', 'nyala', False)
    """
    url = _URL + content.DESCRIPTOR.name
    data: bytes = any_pb2.Any(type_url=url, value=content.SerializeToString()).SerializeToString()
    return data


def from_any(data: bytes) -> tuple[str, Any]:
    """Name and content of a message of Flight SQL within an Any.

    Raises
    ------
    ProtocolError
        The bytes are no Any, or its content is not what its name says.
    NotSupportedError
        It is a message that this server does not know.
    """
    try:
        envelope = any_pb2.Any.FromString(data)
    except DecodeError as error:
        raise ProtocolError(f"the bytes are no command of Flight SQL: {error}") from None
    name = envelope.type_url.rpartition(".")[2]
    if envelope.type_url != _URL + name:
        raise ProtocolError("the bytes are no command of Flight SQL")
    if name not in _classes():
        raise NotSupportedError(f"the command {name[:100]} of Flight SQL is not supported")
    return name, read(name, envelope.value)


def given(content: Any, field: str) -> Any:
    """The value of a field; None if the message does not have it."""
    return getattr(content, field) if content.HasField(field) else None


@cache
def _classes() -> dict[str, Any]:
    """The classes of all messages by name."""
    pool = descriptor_pool.DescriptorPool()
    found: dict[str, Any] = {}
    for package, text in ((_FLIGHT, declarations.FLIGHT), (PACKAGE, declarations.FLIGHT_SQL)):
        file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        for name, *fields in _lines(text):
            _declare(file.message_type.add(name=name), fields, package)
        pool.Add(file)
        for declared in file.message_type:
            descriptor = pool.FindMessageTypeByName(f"{package}.{declared.name}")
            found[declared.name] = message_factory.GetMessageClass(descriptor)
    return found


def _lines(text: str) -> Iterator[list[str]]:
    """The words of each declaration."""
    for line in text.replace("\n  ", " ").splitlines():
        if line:
            yield line.split()


def _declare(declared: Any, fields: list[str], package: str) -> None:
    """Adds the fields to the descriptor of a message."""
    for place, written in enumerate(fields, 1):
        written, _, number = written.partition("=")
        name, _, kind = written.partition(":")
        field = declared.field.add(name=name, number=int(number or place), label=_OPTIONAL)
        if kind.endswith("*"):
            field.label = _REPEATED
        elif kind.endswith("?"):
            # As protoc has it: presence of a scalar is a oneof of this one field.
            field.proto3_optional = True
            field.oneof_index = len(declared.oneof_decl)
            declared.oneof_decl.add(name=f"_{name}")
        kind = kind.rstrip("*?")
        field.type = _SCALARS.get(kind, _MESSAGE)
        if kind not in _SCALARS:
            field.type_name = f".{package}.{kind}"
