"""Errors as the protocol reports them: sqlstate, message, and the place in the statement."""

from __future__ import annotations

import logging
from typing import Final

from ....errors import Cancelled, Error, InterfaceError, StatementError, StatementTooComplex
from ..protocol.replies import Report

_logger = logging.getLogger("nyala.doors.postgres")

_EXCERPT: Final = "\nLINE "
_PROTOCOL_VIOLATION: Final = "08P01"
"""A wrong number of parameters, say: what the driver did wrong."""
TIMED_OUT: Final = "canceling statement due to statement timeout"


class Refused(Error):
    """Correct the statement: the protocol, or the state of the connection, does not allow it.

    Parameters
    ----------
    message : str
    sqlstate : str
        In place of the class's own.
    hint : str
    """

    def __init__(self, message: str, sqlstate: str, hint: str = ""):
        super().__init__(message)
        self.code = sqlstate
        self.hint = hint


def report(error: BaseException, start: int = 0, timed_out: bool = False) -> Report:
    """The report of an error.

    Parameters
    ----------
    error : BaseException
    start : int
        Place of the statement in the text that the client sent, in characters.
    timed_out : bool
        The statement was cancelled because its time was over.
    """
    if isinstance(error, Refused):
        return Report("ERROR", error.code, str(error), hint=error.hint)
    if isinstance(error, Cancelled) and timed_out:
        return Report("ERROR", error.sqlstate, TIMED_OUT)
    if isinstance(error, Error):
        message = str(error).partition(_EXCERPT)[0]
        notes = "\n".join(getattr(error, "__notes__", ()))
        sqlstate = _PROTOCOL_VIOLATION if isinstance(error, InterfaceError) else error.sqlstate
        return Report("ERROR", sqlstate, message, detail=notes, position=_position(error, start))
    if isinstance(error, RecursionError):
        return Report("ERROR", StatementTooComplex.sqlstate, "the statement is nested too deeply")
    if isinstance(error, MemoryError):
        return Report("ERROR", "53200", "the server has no memory for this statement")
    _logger.error("a statement failed by a bug", exc_info=error)
    return Report("ERROR", "XX000", f"a bug in nyala: {type(error).__name__}: {error}")


def _position(error: Error, start: int) -> int:
    """1-based place in the client's text; 0 if it is unknown."""
    position = error.position if isinstance(error, StatementError) else getattr(error, "drawn_position", None)
    return 0 if position is None else start + position + 1
