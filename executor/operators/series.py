"""generate_series: every row of the input once for each value of its series, produced in pieces.

The number of values of each row's series is computed for all rows at once. The output is then cut into batches by
counting through these numbers, so a series of a billion values takes no more memory than a batch. A step of months,
which has no fixed length, is applied step by step to all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...errors import DataError, NumericOutOfRange
from ...model.types import Interval, Kind
from ...model.vectors.vector import Array, Batch, Flat, Vector
from ...planner.algebra.physical import Series
from ..expressions.evaluate import Compiler, Evaluation, physical
from ..kernels.times.temporal import shift
from ..run.context import ExecutionContext
from ..run.stream import BATCH_ROWS, Stream

_DAY = 86_400_000_000
_LONGEST = 1 << 62
"""Number of values at which a series is cut; no query can read that many."""


def open_series(node: Series, source: Stream, context: ExecutionContext) -> Stream:
    """Open a series: each row with each value of its series."""
    compiler = Compiler(source.columns)
    start, stop, step = (compiler.compile(expr) for expr in (node.start, node.stop, node.step))
    positions = {column.id: i for i, column in enumerate(source.columns)}
    kept = [positions[column.id] for column in node.columns[:-1]]
    in_time = node.step.type.kind is Kind.INTERVAL

    def run(batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            if batch.length:
                make = _moments if in_time else _numbers
                for rows, values in make(batch, start, stop, step, context):
                    if len(rows):
                        yield batch.select(rows).project(kept).append([values])

    return source.through(node.columns, run)


Pieces = Iterator[tuple[Array, Vector]]
"""Row number of the input, and value, for each row of a batch of output."""


def _numbers(batch: Batch, start: Evaluation, stop: Evaluation, step: Evaluation, context: ExecutionContext) -> Pieces:
    first = start(batch)
    rows = _present(first, (stop_values := stop(batch)), (steps := step(batch)))
    low, high, by = (_integers(vector).take(rows) for vector in (first, stop_values, steps))
    yield from _counted(first, rows, low, high, by, context)


def _counted(like: Vector, rows: Array, low: Array, high: Array, by: Array, context: ExecutionContext) -> Pieces:
    if (by == 0).any():
        raise DataError("the step of generate_series must not be zero")
    up = by > 0
    # Distances of 64-bit integers need all 64 bits, so they are unsigned.
    distance = np.where(up, high.view(np.uint64) - low.view(np.uint64), low.view(np.uint64) - high.view(np.uint64))
    size = np.where(up, by, -by).view(np.uint64)
    counts = np.minimum(distance // size, np.uint64(_LONGEST)).astype(np.int64) + 1
    counts[np.where(up, low > high, low < high)] = 0
    if float(counts.astype(np.float64).sum()) > _LONGEST and len(counts) > 1:
        raise DataError("generate_series would produce more rows than 64 bits can count")
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    begins = ends - counts
    for begin in range(0, total, BATCH_ROWS):
        context.check()
        places = np.arange(begin, min(total, begin + BATCH_ROWS))
        owner = np.searchsorted(ends, places, side="right")
        values = low.take(owner) + (places - begins.take(owner)) * by.take(owner)
        yield rows.take(owner), Flat(like.type, values.astype(like.type.dtype))


def _moments(batch: Batch, start: Evaluation, stop: Evaluation, step: Evaluation, context: ExecutionContext) -> Pieces:
    first, last, span = start(batch), stop(batch), step(batch)
    rows = _present(first, last, span)
    value: Interval | None = physical(span)
    if value is None:
        return
    is_date = first.type.kind is Kind.DATE
    if value.months == 0:
        size = value.days if is_date else value.days * _DAY + value.microseconds
        low, high = (_integers(vector).take(rows) for vector in (first, last))
        yield from _counted(first, rows, low, high, np.full(len(rows), size, np.int64), context)
        return
    parts = (value.months, value.days, value.microseconds)
    if min(parts) < 0 < max(parts):
        raise DataError("the step of generate_series must not go both forward and back")
    forward = value.months > 0
    ends, moment = _integers(last), first.take(rows)
    while len(rows):
        context.check()
        values = _integers(moment)
        there = np.flatnonzero(values <= ends.take(rows) if forward else values >= ends.take(rows))
        rows, moment = rows.take(there), moment.take(there)
        yield rows, Flat(first.type, _integers(moment).astype(first.type.dtype))
        inside, moment = _successors(moment, span)
        rows = rows.take(inside)


def _successors(moment: Vector, span: Vector) -> tuple[Array, Vector]:
    """Return the next timestamps, and the positions of those that have one: the last before the calendar's end have
    none."""
    places: Array = np.arange(len(moment))
    try:
        return places, _shifted(moment, span)
    except NumericOutOfRange:
        # One by one, at most once for each row of the input: in the years 1 and 9999.
        each = [moment.slice(place, place + 1) for place in range(len(moment))]
        places = np.array([place for place, one in enumerate(each) if _has_successor(one, span)], np.intp)
    return places, _shifted(moment.take(places), span)


def _has_successor(moment: Vector, span: Vector) -> bool:
    try:
        _shifted(moment, span)
    except NumericOutOfRange:
        return False
    return True


def _shifted(moment: Vector, span: Vector) -> Vector:
    return shift(moment.type, moment, span.take(np.zeros(len(moment), np.intp)), 1)


def _integers(vector: Vector) -> Array:
    values: Array = np.broadcast_to(np.asarray(vector.values()), (len(vector),)).astype(np.int64)
    return values


def _present(*vectors: Vector) -> Array:
    """Numbers of the rows in which no vector is NULL."""
    there = np.ones(len(vectors[0]), np.bool_)
    for vector in vectors:
        if vector.validity is not None:
            there &= np.asarray(vector.validity)
    return np.flatnonzero(there)
