"""WITH RECURSIVE, round by round.

    anchor ──► working table ──► step ──► new rows ──► working table ──► ...
                    └──────────────────────────────► result

A round reads only the rows that the previous round produced (semi-naive evaluation). A step that keeps nothing of the
rows that it reads, such as filters and expressions over the working table, is opened once, and only run in each round.

With UNION a row is new if no round has produced it. The rows seen so far are kept, with their 64-bit hashes sorted, so
that a round compares in full only rows whose hash is present. Rounds run on demand, so a LIMIT above ends a recursion
that would never end by itself; the rows of small rounds are returned together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...errors import Error
from ...model.vectors.vector import Array, Batch, concat
from ...planner.algebra import physical
from ...planner.algebra.physical import PhysicalNode
from ...sql.expressions import Column
from ...storage.files.spill_file import Extent
from ..hashing import row_hashes
from ..kernels.groups.segments import segments
from ..lazy import joined
from ..run.context import ExecutionContext
from ..run.memory import Account
from ..run.stream import BATCH_ROWS, Morsel, Stream, sliced, stream_of
from ..spilling.partitions import SpilledRows
from ..spilling.sizes import batch_bytes

_HASH_BYTES = 16
"""A row's hash, and its position."""
_FEW_ROWS = 1024
"""Rounds of fewer rows are returned together: the operators above cost as much for one row as for a thousand."""

Open = Callable[[PhysicalNode], Stream]


def open_recursive(node: physical.Recursive, context: ExecutionContext, open_node: Open) -> Stream:
    """Open a recursive query: the anchor's rows, then those of each round."""
    per_round = _keys_of_one_round(node)
    opens_once = _streams(node.step)
    account = context.account("a recursive query")

    def rounds() -> Iterator[Batch]:
        seen = None if node.all else _Seen(node, context, account)
        held = 0
        rows = _collected(open_node(node.anchor), context)
        step: Stream | None = None
        while True:
            if seen is not None and rows.length:
                rows = seen.add(rows)
            if not rows.length:
                account.shrink(held)
                return
            account.shrink(held)
            held = batch_bytes(rows)
            account.hold(held)
            context.working[node.key] = rows
            yield rows
            context.check()
            # Another recursion may have run in between, but not one of the same key.
            context.working[node.key] = rows
            for key in per_round:
                context.shared.pop(key, None)
            step = step or open_node(node.step)
            is_kept = opens_once and rows.length <= BATCH_ROWS
            rows = _collected(step, context)
            step = step if is_kept else None

    return Stream(node.columns, (Morsel(lambda: _coalesced(node.columns, rounds())),), serial=True)


def _coalesced(columns: Sequence[Column], rounds: Iterator[Batch]) -> Iterator[Batch]:
    """Return the rows of rounds as batches, small rounds together.

    At most as many rows are held back as were returned before, so that a LIMIT ends a recursion after at most twice the
    rounds that it needs. An error in one of these is raised when the rows before it have been read.
    """
    held: list[Batch] = []
    count = returned = 0
    try:
        for rows in rounds:
            held.append(rows)
            count += rows.length
            if count >= min(returned, _FEW_ROWS):
                yield from sliced(_together(columns, held))
                held, count, returned = [], 0, returned + count
    except Error:
        if held:
            yield from sliced(_together(columns, held))
        raise
    if held:
        yield from sliced(_together(columns, held))


def _together(columns: Sequence[Column], parts: list[Batch]) -> Batch:
    return parts[0] if len(parts) == 1 else joined(columns, parts)


def open_working_table(node: physical.WorkingTable, context: ExecutionContext) -> Stream:
    """Open the working table: the rows of the round in which a morsel is run. Rows for several morsels are those of the
    round in which it was opened."""
    places = list(node.places)
    if context.working[node.key].length > BATCH_ROWS:
        return stream_of(node.columns, sliced(context.working[node.key].project(places)))
    return Stream(node.columns, (Morsel(lambda: sliced(context.working[node.key].project(places))),))


def _streams(step: PhysicalNode) -> bool:
    """True if the operators of a step keep nothing of the rows that they read, so that its stream can be run again."""
    if isinstance(step, physical.Filter | physical.Project | physical.UnionAll):
        return all(_streams(child) for child in step.children())
    return isinstance(step, physical.WorkingTable)


def _collected(stream: Stream, context: ExecutionContext) -> Batch:
    """Collect and read all rows of a stream: a chain of lazy columns through all rounds would keep all of their
    batches."""
    rows = joined(stream.columns, context.collect_batches(stream))
    return Batch(rows.columns(), rows.length)


def _keys_of_one_round(node: physical.Recursive) -> list[int]:
    """Keys of the step's shared subplans that read the working table, and so differ from round to round."""
    return [
        inner.key
        for inner in physical.nodes(node.step)
        if isinstance(inner, physical.Shared) and _reads(inner, node.key)
    ]


def _reads(node: PhysicalNode, key: int) -> bool:
    return any(isinstance(inner, physical.WorkingTable) and inner.key == key for inner in physical.nodes(node))


class _Seen:
    """All rows so far, for deciding which rows are new. NULLs are equal. If memory is full, the rows go to disk, and
    only their hashes stay."""

    def __init__(self, node: physical.Recursive, context: ExecutionContext, account: Account):
        self._node = node
        self._context = context
        self._account = account
        self._held = 0
        self._spilled: SpilledRows | None = None
        self._hashes = np.empty(0, np.uint64)
        self._places = np.empty(0, np.int64)
        self._rows: list[Batch | Extent] = []
        """The new rows of each round, or their extents on disk."""
        self._starts: list[int] = [0]

    def add(self, rows: Batch) -> Batch:
        """Add rows and return those that were not present before, each once."""
        columns = rows.columns()
        groups = segments(columns, rows.length) if columns else None
        first = np.zeros(1, np.intp) if groups is None else np.sort(groups.representatives)
        rows = rows.select(first)
        hashes = row_hashes(rows.columns(), rows.length)
        rows, hashes = self._unseen(rows, hashes)
        if not rows.length:
            return rows
        self._account.hold(rows.length * _HASH_BYTES)
        order = np.argsort(hashes, kind="stable")
        into = np.searchsorted(self._hashes, hashes.take(order))
        self._hashes = np.insert(self._hashes, into, hashes.take(order))
        self._places = np.insert(self._places, into, self._starts[-1] + order)
        self._rows.append(rows)
        self._starts.append(self._starts[-1] + rows.length)
        size = batch_bytes(rows)
        if self._account.grow(size):
            self._held += size
        else:
            self._spill()
        return rows

    def _spill(self) -> None:
        """Write the rows of all rounds that are still in memory."""
        for number, rows in enumerate(self._rows):
            if isinstance(rows, Batch):
                if self._spilled is None:
                    types = [column.type for column in rows.columns()]
                    self._spilled = SpilledRows(self._context.spill_file(self._node), types)
                self._spilled.add(rows)
                self._rows[number] = self._spilled.extents[-1]
        self._account.shrink(self._held)
        self._held = 0

    def _round(self, number: int) -> Batch:
        rows = self._rows[number]
        if isinstance(rows, Batch):
            return rows
        assert self._spilled is not None
        return self._spilled.read(rows)

    def _unseen(self, rows: Batch, hashes: Array) -> tuple[Batch, Array]:
        low, high = (np.searchsorted(self._hashes, hashes, side=side) for side in ("left", "right"))
        suspects = np.flatnonzero(high > low)
        if not len(suspects):
            return rows, hashes
        candidates = high.take(suspects) - low.take(suspects)
        offsets = np.arange(candidates.sum()) - np.repeat(np.cumsum(candidates) - candidates, candidates)
        known = self._gathered(np.unique(self._places.take(np.repeat(low.take(suspects), candidates) + offsets)))
        is_new = np.ones(rows.length, np.bool_)
        is_new[suspects[_in_both(rows.select(suspects), known)]] = False
        kept = np.flatnonzero(is_new)
        return _read(rows.select(kept)), hashes.take(kept)

    def _gathered(self, places: Array) -> Batch:
        """Return the rows at ascending positions."""
        owners = np.searchsorted(self._starts, places, side="right") - 1
        parts = [
            _read(self._round(owner).select(places[owners == owner] - self._starts[owner]))
            for owner in np.unique(owners).tolist()
        ]
        columns = [concat([part.column(i) for part in parts]) for i in range(parts[0].width)]
        return Batch(columns, len(places))


def _read(rows: Batch) -> Batch:
    return Batch(rows.columns(), rows.length)


def _in_both(rows: Batch, known: Batch) -> Array:
    """Return a mask of the rows that are among the known ones: ndarray of bool."""
    total = rows.length + known.length
    if not rows.width:
        return np.full(rows.length, known.length > 0)
    groups = segments([concat([rows.column(i), known.column(i)]) for i in range(rows.width)], total)
    numbers = groups.group_of_row()
    there = np.zeros(len(groups), np.bool_)
    there[numbers[rows.length :]] = True
    found: Array = there[numbers[: rows.length]]
    return found
