"""Errors of nyala as errors of Flight: a class, a message that ends in the sqlstate, and a JSON object.

    FlightServerError("table t does not exist (SQLSTATE 42P01)",
                      extra_info=b'{"sqlstate": "42P01", "class": "UnknownTable", "retryable": false, ...}')

The class decides the status of gRPC, from which clients choose their own class. `extra_info` reaches clients of
pyarrow as an attribute, and those of ADBC as a detail; the JDBC driver shows the message alone.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from pyarrow import flight

from ....errors import (
    AccessDenied,
    AuthenticationFailed,
    Cancelled,
    DeadlineExceeded,
    Error,
    InternalError,
    InvalidPassword,
    PermissionDenied,
    ServerUnavailable,
    StatementError,
    StatementTooComplex,
)

_logger = logging.getLogger("nyala.doors.flight_sql")

_MOST_CHARACTERS: Final = 4000
"""Of a message: gRPC sends it in a header, whose size clients limit."""
_NO_MEMORY: Final = "53200"
_CLASSES: Final[tuple[tuple[type[Error], Any], ...]] = (
    (AuthenticationFailed, flight.FlightUnauthenticatedError),
    (InvalidPassword, flight.FlightUnauthenticatedError),
    (AccessDenied, flight.FlightUnauthorizedError),
    (PermissionDenied, flight.FlightUnauthorizedError),
    (Cancelled, flight.FlightCancelledError),
    (DeadlineExceeded, flight.FlightTimedOutError),
    (ServerUnavailable, flight.FlightUnavailableError),
    (InternalError, flight.FlightInternalError),
)


class Refused(Error):
    """Correct the request: the protocol, or the state of the session, does not allow it.

    Parameters
    ----------
    message : str
    sqlstate : str
        In place of the class's own.
    retryable : bool
        True if the same request may succeed later.
    """

    def __init__(self, message: str, sqlstate: str, retryable: bool = False):
        super().__init__(message)
        self.code = sqlstate
        self.may_retry = retryable


def flight_error(error: BaseException) -> flight.FlightError:
    """The error for a client. One that is not nyala's is a bug: it is logged with its traceback, which stays here."""
    if isinstance(error, flight.FlightError):
        return error
    if not isinstance(error, Error):
        error = _wrapped(error)
    message = "\n".join((str(error), *getattr(error, "__notes__", ())))[:_MOST_CHARACTERS]
    sqlstate = sqlstate_of(error)
    facts: dict[str, Any] = {
        "sqlstate": sqlstate,
        "class": type(error).__name__,
        "retryable": error.may_retry if isinstance(error, Refused) else error.retryable,
        "message": message,
    }
    if isinstance(error, StatementError) and error.position is not None:
        facts["position"] = error.position
    class_ = next((theirs for ours, theirs in _CLASSES if isinstance(error, ours)), flight.FlightServerError)
    return class_(f"{message} (SQLSTATE {sqlstate})", extra_info=json.dumps(facts).encode())


def sqlstate_of(error: BaseException) -> str:
    """The sqlstate that `flight_error` gives to an error."""
    if isinstance(error, Refused):
        return error.code
    if isinstance(error, Error):
        return error.sqlstate
    if isinstance(error, RecursionError):
        return StatementTooComplex.sqlstate
    return _NO_MEMORY if isinstance(error, MemoryError) else InternalError.sqlstate


def _wrapped(error: BaseException) -> Error:
    if isinstance(error, RecursionError):
        return StatementTooComplex("the statement is nested too deeply")
    if isinstance(error, MemoryError):
        return Refused("the server has no memory for this statement", _NO_MEMORY, retryable=True)
    _logger.error("a call failed by a bug", exc_info=error)
    return InternalError(f"a bug in nyala: {type(error).__name__}: {error}")
