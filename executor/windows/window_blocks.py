"""Aggregates over many large frames: states of 1, 2, 4, 8, ... rows are computed once, and every frame is merged from a
few.

    rows      0 1 2 3 4 5 6 7         the frame of rows 1 to 6 is merged of the blocks
    blocks    0 1 2 3 4 5 6 7           1  of one row,  (2 3)  and  (4 5)  of two,  6  of one
              (0 1) (2 3) (4 5) (6 7)
              (0 1 2 3) (4 5 6 7)

A run of n rows has at most two blocks of each size, so a frame costs at most 2 log n merges. This works for all
accumulators whose states are one or a few values per group; the others need their rows (`window_aggregates`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...model.vectors.vector import Array, LazyColumn, Vector, concat
from ...sql.expressions import Aggregate, Expr
from ..aggregation.aggregate_calls import Part, accumulator_of, parts_of, result_of, state_of
from ..kernels.groups.row_order import sort_rows
from ..kernels.groups.segments import Segments

_BLOCKS_AT_ONCE = 1 << 22
"""Blocks of frames that are merged at a time."""
_NEED_ROWS = ("collected", "unsorted", "approx_count_distinct")

Runs = Sequence[tuple[Array, Array]]
"""Positions at which the runs of each frame begin and end; see `window_frames.Frames`."""


def has_blocks(part: Part) -> bool:
    """True if a part's states can be merged repeatedly, in any combination."""
    return part.kind not in _NEED_ROWS and not part.distinct


def aggregate_of_blocks(
    call: Aggregate,
    length: int,
    runs: Runs,
    values: Callable[[Expr], Vector],
    chosen: Array | None,
    check: Callable[[], None],
) -> Vector:
    """Return the call's value over each frame, none of them empty; `length` is the number of rows."""
    parts = parts_of(call)
    accumulators = [accumulator_of(part) for part in parts]
    sizes = _level_sizes(length)
    levels = []
    for part, accumulator in zip(parts, accumulators, strict=True):
        each = Segments(None, np.arange(length), length)
        states = [state_of(accumulator, [values(expr) for expr in part.inputs], chosen, each)]
        for size in sizes[:-1]:
            check()
            states.append(accumulator.merge([states[-1]], Segments(None, np.arange(0, size, 2), size)))
        levels.append(states)
    pieces = []
    for groups in _portions(runs, sizes):
        check()
        merged = [a.finish(a.merge(states, groups)) for a, states in zip(accumulators, levels, strict=True)]
        computed = result_of(call, merged, len(groups))
        pieces.append(computed.get() if isinstance(computed, LazyColumn) else computed)
    return concat(pieces)


def _level_sizes(length: int) -> list[int]:
    """Number of blocks of each size."""
    sizes = [length]
    while sizes[-1] > 1:
        sizes.append((sizes[-1] + 1) // 2)
    return sizes


def _portions(runs: Runs, sizes: Sequence[int]) -> Iterator[Segments]:
    """Yield the blocks of some frames at a time, as numbers among the blocks of all sizes, the smallest first."""
    frames = len(runs[0][0])
    step = max(1, _BLOCKS_AT_ONCE // (2 * len(sizes) * len(runs)))
    for first in range(0, frames, step):
        own = slice(first, first + step)
        yield _blocks([(start[own], end[own]) for start, end in runs], sizes)


def _blocks(runs: Runs, sizes: Sequence[int]) -> Segments:
    runs = [(np.array(start), np.array(end)) for start, end in runs]
    parts: list[tuple[Array, Array, Array]] = []
    offset = 0
    for level, size in enumerate(sizes):
        for start, end in runs:
            for odd, edge, back in ((start & 1, start, 0), (end & 1, end, 1)):
                frames = np.flatnonzero((odd == 1) & (start < end))
                blocks = edge.take(frames) - back
                edge[frames] += 1 - 2 * back
                parts.append((frames, blocks + offset, blocks << level))
            start >>= 1
            end >>= 1
        offset += size
    frame, block, place = (np.concatenate([part[i] for part in parts]) for i in range(3))
    codes: Any = frame.astype(np.uint64) * np.uint64(sizes[0]) + place.astype(np.uint64)
    order, _ = sort_rows(codes, len(runs[0][0]) * sizes[0])
    counts = np.bincount(frame, minlength=len(runs[0][0]))
    return Segments(block.take(order), np.cumsum(counts) - counts, len(order))
