"""Replies of a tablet server, made of the results of a tablet, whether of a replica or of an embedded store."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ...errors import ProtocolError
from ...model.codec.values import value_to_plain
from ...model.store import AnalyzeResult, CompactionResult, Op, WriteResult
from ..wire.messages import methods


class Workable(Protocol):
    """A tablet that `work_on` can work on."""

    def flush(self) -> int: ...

    def compact(self, check: Callable[[], None]) -> CompactionResult: ...

    def analyze(self, check: Callable[[], None]) -> AnalyzeResult: ...


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
    return methods.RowReply(
        row=None if row is None else tuple([value_to_plain(value) for value in row]), timestamp=timestamp
    )


def key_samples_reply(keys: Iterable[Sequence[Any]]) -> methods.KeySamplesReply:
    """Returns the reply with keys of physical values."""
    return methods.KeySamplesReply(keys=tuple(tuple(value_to_plain(v) for v in key) for key in keys))


def work_on(tablet: Workable, work: str, check: Callable[[], None]) -> methods.WorkReply:
    """Does the work of a `WorkOnTablet`; `check` is called before each step. Raises `ProtocolError` for unknown
    work."""
    if work == "flush":
        return methods.WorkReply(numbers={"rows": tablet.flush()})
    if work == "compact":
        return methods.WorkReply(numbers=dataclasses.asdict(tablet.compact(check)))
    if work == "analyze":
        return methods.WorkReply(numbers=dataclasses.asdict(tablet.analyze(check)))
    raise ProtocolError(f"unknown work {work!r}: expected flush, compact or analyze")
