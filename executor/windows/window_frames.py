"""Layout of a window's rows: partitions, peers, and the frame of every row.

    rows in window order   0 1 2 3 4 5 6 7        partitions start at 0 and 5, peers at 0, 1, 3, 5 and 7
                           a a a a a b b b
                           1 2 2 3 3 1 1 2

A frame is one run of rows, or two or three if EXCLUDE removes some from its middle. All frames are computed at once, as
arrays of the positions at which each row's runs begin and end (exclusive); an empty run begins where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Array, Batch, Const, Vector, concat
from ...sql.expressions import Expr, Literal, OrderItem, Window
from ...sql.functions.windows import check_offset
from ..expressions.evaluate import Compiler, physical
from ..kernels.groups.key_codes import combined_codes
from ..kernels.groups.row_order import densely, run_starts, sort_by_columns
from ..sorting.sort_keys import ordered_codes

_MOST_BITS = 62


@dataclass(frozen=True)
class Layout:
    """Rows in window order.

    Parameters
    ----------
    length : int
        Number of rows, at least one.
    partitions : ndarray of intp, shape (n_partitions,)
        Position at which each partition begins; ascending, the first 0.
    peers : ndarray of intp, shape (n_groups,)
        Position at which each group of rows begins that are equal in partition and order.
    """

    length: int
    partitions: Array
    peers: Array

    @cached_property
    def rows(self) -> Array:
        """The row numbers."""
        return np.arange(self.length)

    @cached_property
    def partition_of(self) -> Array:
        """Partition number of each row."""
        return np.repeat(np.arange(len(self.partitions)), np.diff(self.partitions, append=self.length))

    @cached_property
    def first(self) -> Array:
        """First row of each row's partition."""
        return self.partitions.take(self.partition_of)

    @cached_property
    def last(self) -> Array:
        """Row behind each row's partition."""
        return np.append(self.partitions[1:], self.length).take(self.partition_of)

    @cached_property
    def peer_of(self) -> Array:
        """Number of each row's group of peers."""
        return np.repeat(np.arange(len(self.peers)), np.diff(self.peers, append=self.length))

    @cached_property
    def peer_bounds(self) -> Array:
        """Positions at which groups of peers begin, and at which the last one ends."""
        return np.append(self.peers, self.length)

    @cached_property
    def first_peer(self) -> Array:
        """First of each row's peers."""
        return self.peer_bounds.take(self.peer_of)

    @cached_property
    def last_peer(self) -> Array:
        """Row behind each row's peers."""
        return self.peer_bounds.take(self.peer_of + 1)


def laid_out(
    partition: Sequence[Vector], order: Sequence[Vector], items: Sequence[OrderItem], length: int
) -> tuple[Array | None, Layout]:
    """Return the order by partition and order keys (None: the rows are sorted already), and the layout of the sorted
    rows."""
    by = [key for key in partition if not isinstance(key, Const)]
    columns = [combined_codes(by)] if by else []
    columns += [ordered_codes(k, item.descending, item.nulls_first) for k, item in zip(order, items, strict=True)]
    if not columns:
        return None, Layout(length, np.zeros(1, np.intp), np.zeros(1, np.intp))
    sequence, ordered = sort_by_columns(columns)
    peers = run_starts(*ordered)
    if not by:
        return sequence, Layout(length, np.zeros(1, np.intp), peers)
    parts = columns[0][0] if sequence is None else columns[0][0].take(sequence)
    return sequence, Layout(length, run_starts(parts), peers)


# ---- frames ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frames:
    """The frames of all rows.

    Parameters
    ----------
    runs : tuple of (ndarray, ndarray), each of intp, shape (n_rows,)
        Positions at which each row's runs begin and end (exclusive), in ascending order.
    growing : bool
        True if every frame is one run that begins with its partition.
    """

    runs: tuple[tuple[Array, Array], ...]
    growing: bool = False

    @cached_property
    def sizes(self) -> Array:
        """Number of rows of each frame."""
        sizes: Any = sum(end - start for start, end in self.runs)
        return np.asarray(sizes)

    @cached_property
    def largest(self) -> int:
        """Rows of the largest frame."""
        return int(self.sizes.max(initial=0))


def frames_of(call: Window, layout: Layout, values: Callable[[Expr], Vector]) -> Frames:
    """Return the frames that a call reads; `values` evaluates an expression over the rows."""
    frame = call.frame
    assert frame is not None
    if frame.unit == "rows":
        start, end = _counted(call, layout.length, layout.rows, layout.first, layout.last)
    elif frame.unit == "groups":
        start, end = _by_groups(call, layout)
    else:
        start, end = _by_range(call, layout, values)
    end = np.maximum(start, end)
    if frame.exclude:
        return Frames(_excluded(frame.exclude, start, end, layout))
    return Frames(((start, end),), frame.start == "unbounded preceding")


def _offset(offset: Expr | None, most: int) -> int:
    """Return the constant offset of a bound, at most `most`."""
    if offset is None:
        return 0
    value = physical(Compiler(()).compile(offset)(Batch([], 1)))
    check_offset(value)
    return min(int(value), most)


def _by_groups(call: Window, layout: Layout) -> tuple[Array, Array]:
    own = layout.peer_of
    start, end = _counted(call, layout.length, own, own.take(layout.first), own.take(layout.last - 1) + 1)
    return layout.peer_bounds.take(start), layout.peer_bounds.take(end)


def _counted(call: Window, most: int, own: Array, first: Array, behind: Array) -> tuple[Array, Array]:
    """Frames in numbers of rows or of groups: each row's `own`, the first of its partition, and the one behind it."""
    assert call.frame is not None
    back, forth = _offset(call.start, most), _offset(call.end, most)
    start, end = first, behind
    if call.frame.start == "preceding":
        start = np.maximum(first, own - back)
    elif call.frame.start != "unbounded preceding":
        start = np.minimum(behind, own + back)
    if call.frame.end == "preceding":
        end = np.maximum(first, own - forth + 1)
    elif call.frame.end != "unbounded following":
        end = np.minimum(behind, own + forth + 1)
    return start, end


def _by_range(call: Window, layout: Layout, values: Callable[[Expr], Vector]) -> tuple[Array, Array]:
    """Frames by values of the key: peers are in the frame together; a bound with an offset is looked up among the
    partition's keys."""
    assert call.frame is not None
    for offset in (call.start, call.end):
        if offset is not None and not isinstance(offset, Literal):
            check_offset(physical(Compiler(()).compile(offset)(Batch([], 1))))
    start = layout.first if call.frame.start == "unbounded preceding" else layout.first_peer
    end = layout.last if call.frame.end == "unbounded following" else layout.last_peer
    if call.range_key is not None:
        key, item = values(call.range_key), call.order[0]
        if call.range_start is not None:
            start = _places(key, values(call.range_start), item, layout, "left")
        if call.range_end is not None:
            end = _places(key, values(call.range_end), item, layout, "right")
    return start, end


def _places(key: Vector, limits: Vector, item: OrderItem, layout: Layout, side: str) -> Array:
    """Position of each row's limit among the keys of its partition, before (left) or behind equal keys.

    The limit of a row with key NULL is NULL, which is equal to the keys of its peers.
    """
    both = concat([key, limits])
    codes, size = ordered_codes(both, item.descending, item.nulls_first)
    if len(layout.partitions) * size > 1 << _MOST_BITS:
        codes, size = densely(codes, size)
    partition = layout.partition_of.astype(np.uint64) * np.uint64(size)
    keys = partition + codes[: layout.length].astype(np.uint64)
    wanted = partition + codes[layout.length :].astype(np.uint64)
    return np.searchsorted(keys, wanted, side="left" if side == "left" else "right")


def _excluded(exclude: str, start: Array, end: Array, layout: Layout) -> tuple[tuple[Array, Array], ...]:
    """Return the frames without the row itself, its peers, or its peers but itself."""
    rows = layout.rows
    first, behind = (rows, rows + 1) if exclude == "current row" else (layout.first_peer, layout.last_peer)
    before = start, np.maximum(start, np.minimum(first, end))
    after = np.minimum(end, np.maximum(behind, start)), end
    if exclude != "ties":
        return before, after
    inside = (start <= rows) & (rows < end)
    return before, (rows, rows + inside), after
