"""The envelope of every message, and its packing.

    request   "nyla" | version u16 | msgpack [clock, remaining seconds, caller, method, token, traceparent]
    reply     "nyla" | version u16 | msgpack [clock, server, reply | None, error | None]

`method` is a tagged map of one of the classes of `methods`; a tag of no class is an unknown method. The version
precedes everything that may change with it, so any two versions can at least detect that they differ. A server's errors
are sent in the reply, not as gRPC's own: they may then be of any length, and include the clock.

A traceparent is sent only by callers whose statements have spans (`TracedEnvelope`). Servers that do not know it ignore
it, as msgspec does with further elements of an array.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from .... import errors
from ....model.clock import DRIFT, LEAD_SECONDS, LOGICAL_BITS, HybridClock, format_timestamp, make_timestamp
from ....model.store import Timestamp
from ....net.frames import VERSION
from ...decoders import msgpack_decoder
from ..client_clock import ClientClock
from .methods import Reply, Request, ScanTablet
from .value_count import check_value_count

PROTOCOL_VERSION = VERSION
"""Incremented by each change of a message that makes the sides incompatible."""
MAX_BODY_BYTES = 16 << 20
"""Of a request, before it is decoded."""
MAX_MESSAGE_BYTES = 96 << 20
"""Of a message between servers, which may have the entries of several large writes."""
MAX_TICKET_BYTES = 64 << 20
"""Of a scan's ticket, which may carry runtime filters (a bitmap has up to 8 MiB)."""
MAX_REPLY_BYTES = 256 << 20
"""Of a reply, or of a message of a stream: a longer one ends the connection."""

_MAGIC = b"nyla"
_HEAD = struct.Struct("<4sH")
_OWN_HEAD = _HEAD.pack(_MAGIC, PROTOCOL_VERSION)
_encoder = msgspec.msgpack.Encoder()

R = TypeVar("R", bound=Reply)


class Caller(Struct, frozen=True, array_like=True):
    """The caller: a server's id and address, or a client's own name and no address."""

    id: str = ""
    address: str = ""


class ErrorBody(Struct, frozen=True, array_like=True):
    """An error in transit; see `wire.messages.errors`. `classes`: names of its class and of the classes that it derives
    from, the nearest first. `fields`: its attributes."""

    classes: tuple[str, ...]
    message: str
    retryable: bool = False
    fields: dict[str, Any] = {}


class RequestEnvelope(Struct, frozen=True, array_like=True):
    """A method with its caller. `clock`: the caller's hybrid time. `remaining`: seconds until its deadline. `token`: of
    a login, if the caller is a user (`model.access.tokens`)."""

    clock: int
    remaining: float
    caller: Caller
    method: Any
    token: bytes = b""


class TracedEnvelope(RequestEnvelope, frozen=True, array_like=True):
    """A method of a statement that has a span. `traceparent`: the W3C's, of the caller's span."""

    traceparent: str = ""


class ReplyEnvelope(Struct, Generic[R], frozen=True, array_like=True):
    """A reply or an error, with the server's id and clock."""

    clock: int
    server: str
    reply: R | None
    error: ErrorBody | None = None


class Welcome(Struct, frozen=True, array_like=True):
    """The greeting of a server: its id, and the port of its streams (0: none)."""

    server: str = ""
    flight_port: int = 0


welcome_decoder = msgpack_decoder(Welcome)


def pack(message: Struct) -> bytes:
    """Returns the message with its head."""
    return _OWN_HEAD + _encoder.encode(message)


def unpack(
    body: bytes | memoryview, decoder: msgspec.msgpack.Decoder[Any], what: str, *, is_trusted: bool = False
) -> Any:
    """Returns the message of a body, as `decoder` reads it. Raises `ProtocolError` with fault and place; `what` names
    the expected message. `is_trusted`: a server's, with too many small parts to count them first."""
    if body[: _HEAD.size] != _OWN_HEAD:
        _refuse_head(memoryview(body), what)
    content = memoryview(body)[_HEAD.size :]
    if not is_trusted:
        check_value_count(content, what)
    try:
        return decoder.decode(content)
    except RecursionError:
        raise errors.ProtocolError(f"a {what} is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, OverflowError) as error:
        raise errors.ProtocolError(
            f"a malformed {what} (version {PROTOCOL_VERSION} of the protocol): {error}"
        ) from None


def _refuse_head(data: memoryview, what: str) -> None:
    """Raises the `ProtocolError` of a body that does not begin with this version's head."""
    if len(data) < _HEAD.size:
        raise errors.ProtocolError(f"a {what} of {len(data)} bytes is cut short: its head alone has {_HEAD.size}")
    magic, version = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise errors.ProtocolError(f"this is no {what} of nyala: it begins with {magic!r} instead of {_MAGIC!r}")
    raise errors.ProtocolError(
        f"a {what} of version {version} of the protocol came; this side speaks version {PROTOCOL_VERSION}"
    )


def note_caller(clock: HybridClock, envelope: RequestEnvelope, who: str = "") -> None:
    """Follows the clock of a caller; raises `ClockTooFarAhead` if it is too far ahead.

    A hybrid clock follows every timestamp that it receives and never goes back, and all servers exchange messages: one
    message with an absurd time would do lasting damage everywhere.
    """
    if envelope.clock <= clock.latest:
        return
    if too_far_ahead(clock, envelope.clock, is_peer=bool(envelope.caller.address)):
        caller = who or envelope.caller.address or envelope.caller.id or "the client"
        raise errors.ClockTooFarAhead(describe_lead(clock, envelope.clock, caller))
    clock.update(Timestamp(envelope.clock))


def note_server(clock: HybridClock, timestamp: int, address: str) -> None:
    """Follows the clock of a server that has replied. A server that is too far ahead counts as unavailable
    (`ServerUnavailable`): another replica may do what was requested, and this one's time is ignored."""
    is_ahead = too_far_ahead(clock, timestamp, is_peer=True)
    if isinstance(clock, ClientClock):
        is_ahead = not clock.heard(address, timestamp, is_ahead)
    if is_ahead:
        raise errors.ServerUnavailable(describe_lead(clock, timestamp, f"server {address}"))
    clock.update(Timestamp(timestamp))


def too_far_ahead(clock: HybridClock, timestamp: int, is_peer: bool) -> bool:
    """True if the clock must not follow a timestamp of another machine, a server's if `is_peer`."""
    # A limit is at least a drift above the latest timestamp: most messages need no look at the wall clock.
    if timestamp <= clock.latest + DRIFT:
        return False
    return timestamp > (clock.limit_of_peers() if is_peer else clock.limit())


def describe_lead(clock: HybridClock, timestamp: int, who: str) -> str:
    """Returns the message for a clock that is too far ahead: both times, the difference, and the limit."""
    wall = make_timestamp(clock.wall())
    lead = (timestamp - wall >> LOGICAL_BITS) / 1e6
    try:
        theirs = format_timestamp(Timestamp(timestamp))
    except (OverflowError, ValueError):
        theirs = f"no time at all ({timestamp})"
    return (
        f"the clock of {who} shows {theirs}, {lead:.0f} s ahead of this machine's, which shows "
        f"{format_timestamp(wall)}; at most {LEAD_SECONDS} s are accepted"
    )


def request_decoder() -> msgspec.msgpack.Decoder[Any]:
    """Returns a decoder of `RequestEnvelope`s of all methods that are defined by now."""
    return _envelope_decoder(reduce(or_, methods()))


def ticket_decoder() -> msgspec.msgpack.Decoder[Any]:
    """Returns a decoder of `RequestEnvelope`s of scans."""
    return _tickets


def reply_decoder(reply: type[Reply]) -> msgspec.msgpack.Decoder[Any]:
    """Returns a decoder of `ReplyEnvelope`s around one class of replies."""
    decoder = _replies.get(reply)
    if decoder is None:  # a class that was defined after this module was imported
        decoder = _replies[reply] = _reply_decoder(reply)
    return decoder


def methods() -> list[Any]:
    """Returns the classes of `Request` that have a tag, in the order of tags."""
    return sorted(_tagged(Request), key=lambda method: str(method.__struct_config__.tag))


def _tagged(base: type[Request]) -> Iterator[type[Request]]:
    for method in base.__subclasses__():
        if method.__struct_config__.tag is not None:
            yield method
        yield from _tagged(method)


def _envelope_decoder(method: Any) -> msgspec.msgpack.Decoder[Any]:
    """Returns `RequestEnvelope` with these methods; a new class, as msgspec reads types from annotations."""
    fields: list[Any] = [("clock", int), ("remaining", float), ("caller", Caller), ("method", method)]
    fields += [("token", bytes, b""), ("traceparent", str, "")]
    envelope = msgspec.defstruct("TracedEnvelope", fields, frozen=True, array_like=True)
    return msgpack_decoder(envelope)


def _reply_decoder(reply: type[Reply]) -> msgspec.msgpack.Decoder[Any]:
    return msgpack_decoder(ReplyEnvelope[reply])  # type: ignore[valid-type]  # a class made for it


_tickets = _envelope_decoder(ScanTablet)
_replies = {reply: _reply_decoder(reply) for reply in Reply.__subclasses__()}
"""Built when the module is imported: threads only read it."""
