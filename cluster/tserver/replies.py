"""Replies of a tablet server, made of the results of a tablet, whether of a replica or of an embedded store."""

from __future__ import annotations

from typing import Any

from ...errors import ProtocolError
from ...model.codec.values import row_to_plain
from ...model.store import Op, WriteResult
from ..wire.messages import methods


def op_of(request: methods.WriteRow) -> Op:
    """Returns the op of a request; raises `ProtocolError` for an unknown one."""
    try:
        return Op(request.op)
    except ValueError:
        raise ProtocolError(f"no write op has the number {request.op}") from None


def write_reply(result: WriteResult) -> methods.WriteReply:
    """Returns the reply with a write's outcome."""
    errors = tuple([methods.WrittenRow(e.row, type(e.error).__name__, str(e.error)) for e in result.errors])
    return methods.WriteReply(applied=result.applied, timestamp=result.timestamp, errors=errors)


def row_reply(row: tuple[Any, ...] | None, timestamp: int) -> methods.RowReply:
    """Returns the reply with a row of physical values (None: no row) and its timestamp."""
    return methods.RowReply(row=None if row is None else row_to_plain(row), timestamp=timestamp)
