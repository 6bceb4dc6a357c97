"""What a tablet server answers, made of what a tablet gives, of a replica or of an embedded store alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ...errors import ProtocolError
from ...model.codec.values import value_to_plain
from ...model.store import AnalyzeResult, CompactionResult, Op, WriteResult
from ..wire.messages import methods


class Workable(Protocol):
    """A tablet that can be worked on."""

    def flush(self) -> int: ...

    def compact(self, check: Callable[[], None]) -> CompactionResult: ...

    def analyze(self, check: Callable[[], None]) -> AnalyzeResult: ...


def op_of(request: methods.WriteRow) -> Op:
    """What a row asks for; `ProtocolError` where there is no such op."""
    try:
        return Op(request.op)
    except ValueError:
        raise ProtocolError(f"no op of a write has the number {request.op}") from None


def write_reply(result: WriteResult) -> methods.WriteReply:
    """What became of a write."""
    errors = tuple([methods.WrittenRow(e.row, type(e.error).__name__, str(e.error)) for e in result.errors])
    return methods.WriteReply(applied=result.applied, timestamp=result.timestamp, errors=errors)


def row_reply(row: tuple[Any, ...] | None, timestamp: int) -> methods.RowReply:
    """A row of physical values, None where there is none, as it was at a time."""
    return methods.RowReply(
        row=None if row is None else tuple([value_to_plain(value) for value in row]), timestamp=timestamp
    )


def key_samples_reply(keys: Iterable[Sequence[Any]]) -> methods.KeySamplesReply:
    """Keys of physical values."""
    return methods.KeySamplesReply(keys=tuple(tuple(value_to_plain(v) for v in key) for key in keys))


def work_on(tablet: Workable, work: str, check: Callable[[], None]) -> methods.WorkReply:
    """Do the work of a `WorkOnTablet`; `check` is called before each step. `ProtocolError` where there is no such."""
    if work == "flush":
        return methods.WorkReply(numbers={"rows": tablet.flush()})
    if work == "compact":
        return methods.WorkReply(numbers=dataclasses.asdict(tablet.compact(check)))
    if work == "analyze":
        return methods.WorkReply(numbers=dataclasses.asdict(tablet.analyze(check)))
    raise ProtocolError(f"no work {work!r}: there are flush, compact and analyze")
