"""Errors across the wire: an error raised at a server is raised at its caller, of the same class with the same
attributes.

A class that the caller does not have (a newer server's) is raised as the nearest base class that it has. An exception
that is not one of nyala's errors is a bug of the server: its caller gets an `InternalError` in one line, the server's
log the traceback.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import flight

from .... import errors
from ....model.clock import HybridClock
from ...decoders import converter, msgpack_decoder
from ..client_clock import ClientClock
from .envelope import ErrorBody

_logger = logging.getLogger("nyala.cluster.wire")

_BEHIND = re.compile(r"\. (?:Detail:|gRPC client debug context:|Client context:)")
"""The text after these is a repetition, or of no use to a reader."""
_WRAPPINGS = (
    re.compile(r"^Flight returned "),
    re.compile(r"^\w+ error, with message: "),
    re.compile(r"^failed to connect to all addresses; last error: "),
    re.compile(r"^[A-Z_]+: (?=ip)"),
    # The address, which the caller prints as it was given.
    re.compile(r"^ipv[46]:\S+: "),
    re.compile(r"^Failed to connect to remote host: (?:connect: )?"),
)
_RESOLVING = re.compile(r"^errors resolving \S+: \[.*lookup error:(.*)\]$")
_NOBODY_LISTENS = ("Connection refused", "lookup failed", "DNS resolution failed")

_body_decoder = msgpack_decoder(ErrorBody)
_body_from_plain = converter(ErrorBody)

_PLAIN = (str, int, float, bool, bytes, type(None))
_KNOWN: dict[str, type[errors.Error]] = {
    name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.Error)
}


def error_to_body(error: BaseException) -> ErrorBody:
    """Returns the error for transport; an exception that is not one of nyala's is logged here with its traceback."""
    if isinstance(error, errors.Error):
        classes = tuple(c.__name__ for c in type(error).__mro__ if issubclass(c, errors.Error))
        # Not str(error), which some classes compose of their attributes.
        message = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
        return ErrorBody(classes, message, error.retryable, _fields(error))
    _logger.error("an error that should not have come to the wire", exc_info=error)
    if isinstance(error, MemoryError):
        return ErrorBody(("MemoryLimitExceeded", "OperationalError"), "the server has no memory left", True)
    first_line = (str(error).splitlines() or [""])[0][:300]
    return ErrorBody(("InternalError",), f"{type(error).__name__} at the server: {first_line}")


def error_of_server(body: ErrorBody, clock: HybridClock, address: str) -> errors.Error:
    """Returns the error in a server's reply, whose time the caller's clock has seen.

    A server that refuses a client's time, which most others have shown, is behind them, as behind a restart before the
    first message of its peers: it counts as unavailable.
    """
    error = error_from_body(body)
    if isinstance(error, errors.ClockTooFarAhead) and isinstance(clock, ClientClock) and clock.is_behind_most(address):
        return errors.ServerUnavailable(f"server {address} is behind the others: {error}")
    return error


def error_from_body(body: ErrorBody) -> errors.Error:
    """Returns the error to raise at the caller."""
    known = next((_KNOWN[name] for name in body.classes if name in _KNOWN), errors.InternalError)
    error: errors.Error = known.__new__(known)
    error.args = (body.message,)
    for name, value in body.fields.items():
        if name == "refused" and isinstance(value, list):
            value = tuple(_refused_row(*row) for row in value)
        setattr(error, name, value)
    return error


def _fields(error: errors.Error) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in vars(error).items():
        if name == "refused" and isinstance(error, errors.RowsRefused):
            fields[name] = [
                (row.row, {key: _shown(cell) for key, cell in row.key.items()}, error_to_body(row.error))
                for row in error.refused
            ]
        elif name == "__notes__" and isinstance(value, list):
            fields[name] = [str(note) for note in value]
        elif isinstance(value, _PLAIN):
            fields[name] = _shown(value)
    return fields


def _refused_row(row: int, key: dict[str, Any], error: Any) -> errors.RefusedRow:
    refused = error_from_body(_body_from_plain(error))
    assert isinstance(refused, errors.IntegrityError)
    return errors.RefusedRow(row, key, refused)


def _shown(value: Any) -> Any:
    """Returns a value of an error's attributes: unchanged if msgpack supports it, otherwise as text."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value if isinstance(value, _PLAIN) else str(value)
    return value if -(2**63) <= value < 2**64 else str(value)


def raised_by_flight(error: pa.ArrowException | OSError, address: str) -> errors.Error:
    """Returns the error for an exception of Flight itself at the caller: connection, deadline, or a server of another
    program."""
    told = getattr(error, "extra_info", b"")
    if told:
        try:
            return error_from_body(_body_decoder.decode(told))
        except (msgspec.DecodeError, ValueError):
            pass
    text = flight_text(error)
    if isinstance(error, flight.FlightTimedOutError):
        return errors.DeadlineExceeded(f"{address} has not answered in time")
    if isinstance(error, flight.FlightUnavailableError):
        if any(word in text for word in _NOBODY_LISTENS):
            return errors.ConnectionRefused(f"{address} cannot be reached: {text}")
        return errors.ServerUnavailable(f"{address} cannot be reached: {text}")
    if isinstance(error, flight.FlightCancelledError | pa.ArrowCancelled):
        return errors.Cancelled(f"the call to {address} was cancelled")
    if isinstance(error, flight.FlightInternalError):
        # gRPC reports a connection that broke in the middle of a call this way.
        return errors.ServerUnavailable(f"the connection to {address} broke: {text}")
    return errors.ProtocolError(f"{address} does not answer as a server of nyala: {text}")


def flight_error(error: BaseException) -> flight.FlightError:
    """Returns the error as gRPC's own, for a caller that may not understand a reply."""
    body = error_to_body(error)
    short = ErrorBody(body.classes, body.message[:1000], body.retryable)
    return flight.FlightServerError(short.message, extra_info=msgspec.msgpack.encode(short))


def flight_text(error: BaseException) -> str:
    """Returns the cause in a message of gRPC, without its wrapping.

    >>> flight_text(OSError("Flight returned unavailable error, with message: failed to connect to all addresses; "
    ...                     "last error: UNKNOWN: ipv4:127.0.0.1:7051: Failed to connect to remote host: refused"))
    'refused'
    """
    text = _BEHIND.split(str(error), maxsplit=1)[0]
    for wrapping in _WRAPPINGS:
        text = wrapping.sub("", text, count=1)
    if resolving := _RESOLVING.search(text):
        text = resolving[1]
    return next(iter(text.splitlines()), "")[:300]
