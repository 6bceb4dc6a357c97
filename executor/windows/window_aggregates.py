"""Aggregates over frames: a value for every row, without accumulating every frame from its beginning.

| what | over which frames | how |
|---|---|---|
| counts, exact sums | any | sums of all rows up to each row; a run's sum is the difference of two of them |
| sums of floats | growing | running sums within each partition, by doubling steps |
| | any | sums of 2, 4, 8, ... rows, of which every run is composed (no differences: NaN and rounding stay local) |
| min, max | growing | running maxima of the rows' ranks |
| | any | maxima of 2, 4, 8, ... rows from each row on, two of which cover any run |
| all others | large | states of 2, 4, 8, ... rows, of which every run is composed (`window_blocks`) |
| | any | the rows of each distinct frame, one after the other, as groups (`aggregate_calls`) |

Differences of 64-bit sums are correct even if the sums themselves overflow, as long as the difference fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...model.vectors.vector import Array, Const, Flat, LazyColumn, Vector, Wide, concat
from ...sql.expressions import Aggregate, Expr, Window
from ...sql.functions import AGGREGATES
from ..aggregation.accumulators import Total
from ..aggregation.aggregate_calls import Part, aggregate_rows, parts_of, result_of
from ..kernels.groups.row_order import sort_rows
from ..kernels.groups.segments import Segments
from ..kernels.numbers.arithmetic import refuse_overflow
from ..kernels.numbers.bounded_integers import INT64, floats, limbs_of, measured_bounds
from ..lazy import with_validity
from ..sorting.sort_keys import ordered_codes
from .window_blocks import Runs, aggregate_of_blocks, has_blocks
from .window_frames import Frames, Layout

_ROWS_AT_ONCE = 1 << 22
"""Rows of frames that are materialized at a time."""
_WORTH_BLOCKS = 32
"""Blocks are used if frames have in total at least this many times as many rows as the input."""

Values = Callable[[Expr], Vector]


def aggregate(
    call: Window, layout: Layout, frames: Frames, values: Values, chosen: Array | None, check: Callable[[], None]
) -> Vector:
    """Return the value of an aggregate over each row's frame.

    Parameters
    ----------
    values : callable
        Evaluates an expression of the call over the rows.
    chosen : ndarray of bool, shape (n_rows,), optional
        True for rows that pass the call's FILTER.
    check : callable
        Called periodically; it raises if the statement was cancelled.
    """
    plain = Aggregate(call.type, call.nullable, call.function, call.args, False, call.filter)
    parts = parts_of(plain)
    if all(part.kind in _FAST and not part.distinct for part in parts):
        states = [_FAST[part.kind](part, layout, frames, values, chosen) for part in parts]
        computed = result_of(plain, states, layout.length)
        return computed.get() if isinstance(computed, LazyColumn) else computed
    return _by_distinct_frames(plain, frames, values, chosen, check)


def _input(part: Part, values: Values, chosen: Array | None) -> Vector:
    arg = values(part.inputs[0])
    return arg if chosen is None else with_validity(arg, chosen)


# ---- counts and sums -------------------------------------------------------------------------------------------------


def _over_runs(sums: Array, frames: Frames) -> Array:
    """Return the differences of running sums (of one more element than rows, the first 0) over each frame."""
    total: Any = 0
    with np.errstate(over="ignore"):
        for start, end in frames.runs:
            total = total + (sums.take(end) - sums.take(start))
    return np.asarray(total)


def _running(values: Array) -> Array:
    sums = np.zeros(len(values) + 1, np.int64)
    with np.errstate(over="ignore"):
        np.cumsum(values, dtype=np.int64, out=sums[1:])
    return sums


def _rows(part: Part, layout: Layout, frames: Frames, values: Values, chosen: Array | None) -> Array:
    return frames.sizes.astype(np.int64)


def _count(part: Part, layout: Layout, frames: Frames, values: Values, chosen: Array | None) -> Array:
    present = _input(part, values, chosen).validity if part.inputs else chosen
    return frames.sizes.astype(np.int64) if present is None else _over_runs(_running(present), frames)


def _sum(part: Part, layout: Layout, frames: Frames, values: Values, chosen: Array | None) -> Total:
    arg = _input(part, values, chosen)
    if arg.type.is_float:
        numbers = np.broadcast_to(np.asarray(floats(arg), np.float64), (layout.length,))
        numbers = _zeroed(numbers, arg)
        sums = _float_sums(numbers, layout, frames)
        if not np.isfinite(sums).all():
            refuse_overflow(~np.isfinite(sums) & (_over_runs(_running(~np.isfinite(numbers)), frames) == 0))
        return Total((sums,))
    if isinstance(arg, Wide):
        return Total(tuple(_over_runs(_running(limb), frames) for limb in limbs_of(arg)))
    low, high = measured_bounds(arg)
    most = max(abs(low), abs(high)) * max(1, frames.largest)
    if most <= INT64[1]:
        return Total((_over_runs(_running(_zeroed(arg.values(), arg)), frames),), most)
    return Total(tuple(_over_runs(_running(limb), frames) for limb in limbs_of(arg)), most)


def _zeroed(numbers: Array, arg: Vector) -> Array:
    """Return the numbers with 0 for NULLs."""
    if arg.validity is None:
        return numbers
    return np.where(arg.validity, numbers, numbers.dtype.type(0))


def _float_sums(numbers: Array, layout: Layout, frames: Frames) -> Array:
    with np.errstate(all="ignore"):
        return _growing_sums(numbers, layout, frames) if frames.growing else _sums_of_blocks(numbers, frames)


def _growing_sums(numbers: Array, layout: Layout, frames: Frames) -> Array:
    sums = np.array(numbers)
    if len(layout.partitions) == 1:
        np.cumsum(numbers, out=sums)
    else:
        within, step = layout.rows - layout.first, 1
        while (reaching := np.flatnonzero(within >= step)).size:
            sums[reaching] = sums[reaching] + sums[reaching - step]
            step *= 2
    ((start, end),) = frames.runs
    return np.where(end > start, sums.take(np.maximum(end - 1, 0)), 0.0)


def _sums_of_blocks(numbers: Array, frames: Frames) -> Array:
    """Sum frames from blocks: a run consists of at most two aligned blocks of each power of two."""
    sums = np.zeros(len(numbers))
    runs = [(np.array(start), np.array(end)) for start, end in frames.runs]
    blocks = numbers
    while any((start < end).any() for start, end in runs):
        for start, end in runs:
            odd = np.flatnonzero((start & 1 == 1) & (start < end))
            sums[odd] += blocks.take(start[odd])
            start[odd] += 1
            odd = np.flatnonzero((end & 1 == 1) & (start < end))
            end[odd] -= 1
            sums[odd] += blocks.take(end[odd])
            start >>= 1
            end >>= 1
        even = np.append(blocks, 0.0) if len(blocks) % 2 else blocks
        blocks = even[0::2] + even[1::2]
    return sums


# ---- min and max -----------------------------------------------------------------------------------------------------


def _extreme(part: Part, layout: Layout, frames: Frames, values: Values, chosen: Array | None) -> Vector:
    arg = _input(part, values, chosen)
    present = arg.validity
    if present is not None and not present.any():
        return Const(arg.type, None, layout.length)
    codes, size = ordered_codes(arg, part.kind == "min", False)
    sequence, _ = sort_rows(codes, size)
    ranks = np.empty(layout.length, np.int64)
    ranks[sequence] = layout.rows
    if present is not None:
        ranks[~present] = -1
    best = _growing_maxima(ranks, layout, frames) if frames.growing else _maxima(ranks, frames)
    extremes = arg.take(sequence.take(np.maximum(best, 0)))
    return extremes if (best >= 0).all() else with_validity(extremes, best >= 0)


def _growing_maxima(ranks: Array, layout: Layout, frames: Frames) -> Array:
    """Running maxima. Ranks of later partitions are raised above those of earlier ones, so that one pass covers all."""
    lift = layout.partition_of * (layout.length + 1)
    running = np.maximum.accumulate(ranks + 1 + lift) - lift - 1
    ((start, end),) = frames.runs
    return np.where(end > start, running.take(np.maximum(end - 1, 0)), -1)


def _maxima(ranks: Array, frames: Frames) -> Array:
    best = np.full(len(ranks), -1)
    levels = [np.frexp(end - start)[1] - 1 for start, end in frames.runs]  # -1 for an empty run
    blocks, level = ranks, 0
    while any((wanted >= level).any() for wanted in levels):
        for (start, end), wanted in zip(frames.runs, levels, strict=True):
            rows = np.flatnonzero(wanted == level)
            first, second = blocks.take(start[rows]), blocks.take(end[rows] - (1 << level))
            best[rows] = np.maximum(best[rows], np.maximum(first, second))
        blocks = np.maximum(blocks[: -(1 << level)], blocks[1 << level :])
        level += 1
    return best


_FAST: dict[str, Callable[[Part, Layout, Frames, Values, Array | None], Any]] = {
    "rows": _rows,
    "count": _count,
    "sum": _sum,
    "min": _extreme,
    "max": _extreme,
}


# ---- any aggregate ---------------------------------------------------------------------------------------------------


def _by_distinct_frames(
    call: Aggregate, frames: Frames, values: Values, chosen: Array | None, check: Callable[[], None]
) -> Vector:
    """Aggregate each distinct frame once: consecutive rows often have the same frame."""
    change = np.zeros(len(frames.sizes), np.bool_)
    change[0] = True
    for start, end in frames.runs:
        change[1:] |= (start[1:] != start[:-1]) | (end[1:] != end[:-1])
    distinct = np.flatnonzero(change)
    runs = [(start.take(distinct), end.take(distinct)) for start, end in frames.runs]
    filled = np.flatnonzero(frames.sizes.take(distinct) > 0)
    nothing: Vector = Const(call.type, 0 if AGGREGATES[call.function].zero_over_nothing else None, len(distinct))
    aggregated = nothing
    if len(filled):
        kept_runs = [(start.take(filled), end.take(filled)) for start, end in runs]
        total = int(frames.sizes.take(distinct).sum())
        if total > _WORTH_BLOCKS * len(change) and all(has_blocks(part) for part in parts_of(call)):
            aggregated = aggregate_of_blocks(call, len(change), kept_runs, values, chosen, check)
        else:
            aggregated = _of_rows(call, kept_runs, values, chosen, check)
        if len(filled) < len(distinct):
            aggregated = _spread(aggregated, filled, nothing)
    return aggregated.take(np.cumsum(change) - 1)


def _of_rows(
    call: Aggregate,
    runs: Sequence[tuple[Array, Array]],
    values: Values,
    chosen: Array | None,
    check: Callable[[], None],
) -> Vector:
    pieces = []
    for rows, groups in _pieces(runs):
        check()
        kept = None if chosen is None else chosen.take(rows)
        pieces.append(aggregate_rows(call, _taking(values, rows), groups, kept))
    return concat(pieces)


def _taking(values: Values, rows: Array) -> Values:
    return lambda expr: values(expr).take(rows)


def _pieces(runs: Runs) -> Iterator[tuple[Array, Segments]]:
    """Yield the rows of all frames, none of them empty, in portions of whole frames."""
    sizes: Any = sum(end - start for start, end in runs)
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        before = int(ends[begin - 1]) if begin else 0
        stop = max(begin + 1, int(np.searchsorted(ends, before + _ROWS_AT_ONCE, side="right")))
        own = slice(begin, stop)
        starts = np.concatenate([[0], np.cumsum(sizes[own])[:-1]])
        rows = _rows_of([(start[own], end[own]) for start, end in runs])
        yield rows, Segments(None, starts.astype(np.intp), len(rows))
        begin = stop


def _rows_of(runs: Runs) -> Array:
    """Return the rows of each frame one after the other, frame by frame."""
    starts = np.stack([start for start, _ in runs], axis=1).ravel()
    sizes = np.stack([end - start for start, end in runs], axis=1).ravel()
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _spread(found: Vector, places: Array, nothing: Vector) -> Vector:
    """Put the values at their positions, and elsewhere the aggregate's value over no rows."""
    rows = np.full(len(nothing), -1)
    rows[places] = np.arange(len(places))
    taken = found.take(np.maximum(rows, 0))
    if isinstance(nothing, Const) and nothing.value is not None:
        numbers = np.where(rows >= 0, taken.values(), nothing.value)
        return Flat(nothing.type, numbers)
    return with_validity(taken, rows >= 0)
