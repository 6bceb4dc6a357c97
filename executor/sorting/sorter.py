"""A sort that spills: collects rows, writes a sorted run when memory is full, merges the runs at the end.

Runs that are too many for one merge are merged in several passes, as many at a time as memory allows. A chunk is small
enough for `FAN_IN` of them to be merged within the operator's guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from ...model.types import DataType
from ...model.vectors.vector import Batch, Vector
from ...sql.expressions import Column, OrderItem
from ...storage.files.spill_file import SpillFile
from ..expressions.evaluate import Compiler
from ..run.context import ExecutionContext
from ..run.memory import Account
from ..run.stream import BATCH_ROWS, Stream
from .held_rows import HeldRows
from .runs import Ordering, Run, cost_of, merged, rewritten, write_run
from .sort_keys import order_of

FAN_IN = 16
_LEAST_CHUNK = 32
_BYTES_PER_KEY = 16
"""Bytes of a row's code, and of its copy while it is sorted."""


class Sorter:
    """Collects rows and sorts them.

    Parameters
    ----------
    columns : sequence of Column
        Columns of the input.
    kept : sequence of int
        Positions of the output columns, in that order.
    order : sequence of OrderItem
        Equal rows keep their order.
    account : Account
        The operator's account. 1 / `share` of it is for merging.
    extra : int
        Bytes per row that the operator itself needs if nothing is spilled.
    first : int, optional
        Number of rows needed; None: all.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        kept: Sequence[int],
        order: Sequence[OrderItem],
        context: ExecutionContext,
        account: Account,
        share: int = 1,
        extra: int = 0,
        first: int | None = None,
    ):
        positions = {column.id: place for place, column in enumerate(columns)}
        self._columns = columns
        self._kept = list(kept)
        self._order = order
        self._context = context
        self._account = account
        self._room = account.room
        self._share = share
        self._first = first
        self._keys = Compiler(columns).compile_all([item.expr for item in order])
        places: list[int] = []
        self._computed: list[int] = []
        """The keys that are not among the kept columns: they are spilled behind those."""
        for number, item in enumerate(order):
            place = positions.get(item.expr.id) if isinstance(item.expr, Column) else None
            if place is not None and place in kept:
                places.append(self._kept.index(place))
            else:
                places.append(len(self._kept) + len(self._computed))
                self._computed.append(number)
        self._by = Ordering(places, order)
        plain = {positions[item.expr.id] for item in order if isinstance(item.expr, Column)}
        wanted = sorted({*self._kept, *plain})
        self._held = HeldRows(columns, wanted, account, extra + _BYTES_PER_KEY * (1 + len(order)))
        self._wanted = wanted
        self._runs: list[Run] = []
        self._chunk_rows = 0

    def collect(self, source: Stream, finish: Callable[[Batch], Batch] = lambda batch: batch) -> None:
        """Read a stream to its end; `finish` is applied to each batch, in several threads."""
        for batch in self._context.iterate(source, finish):
            if batch.length:
                self.add(batch)

    def add(self, batch: Batch) -> None:
        """Add some rows."""
        if not self._held.add(batch):
            self._spill()

    @property
    def spilled(self) -> bool:
        """True if memory was insufficient."""
        return bool(self._runs)

    def held(self) -> list[Batch]:
        """Return the input, if nothing was spilled."""
        return self._held.batches

    def rows(self) -> Batch:
        """Return all input rows as one batch, if nothing was spilled."""
        return self._held.whole()

    def keys(self, rows: Batch) -> list[Vector]:
        """Sort keys of input rows."""
        return [evaluate(rows) for evaluate in self._keys]

    def spilled_keys(self, rows: Batch) -> list[Vector]:
        """Sort keys of rows of `merged`."""
        return self._by.keys_of(rows)

    @property
    def places(self) -> Sequence[int]:
        """Positions of the sort keys in the rows of `merged`."""
        return self._by.keys

    @property
    def types(self) -> Sequence[DataType]:
        """Types of the columns of the rows of `merged`."""
        return self._runs[0].rows.types

    def merged(self) -> Callable[[], Iterator[Batch]]:
        """Return a function that yields the rows in order, if something was spilled.

        The rows hold the kept columns, followed by the keys that are not among those. Calling the function starts the
        last merge; the merges before it run now.
        """
        if self._held.rows:
            self._spill()
        while (memory := self._memory_of_a_merge()) is None:
            self._pass()
        runs, account, width = self._runs, self._account, len(self._kept) + len(self._computed)
        taken = [memory]

        def run() -> Iterator[Batch]:
            if not taken:
                account.hold(memory)
                taken.append(memory)
            try:
                yield from merged(runs, self._by, width, memory, self._context)
            finally:
                account.shrink(taken.pop())

        return run

    # ---- runs -------------------------------------------------------------------------------------------------------

    def _spill(self) -> None:
        """Write the held rows as a run."""
        batches = self._held.batches
        self._context.parallel([partial(_read, batch, self._wanted) for batch in batches])
        rows = self._held.whole()
        keys = self.keys(rows)
        order = order_of(keys, self._order, rows.length, self._first)
        if not self._runs:
            self._chunk_rows = self._rows_per_chunk()
        kept = rows.project(self._kept).append([keys[number] for number in self._computed])
        kept = Batch(kept.columns(), kept.length)
        file = self._runs[-1].rows.file if self._runs else self._context.spill_file()
        self._runs.append(write_run(kept, order, self._by, file, self._chunk_rows, self._context))
        self._held.clear()

    def _rows_per_chunk(self) -> int:
        rows = self._assured() // FAN_IN // cost_of(self._held.width + _BYTES_PER_KEY * len(self._computed), 1)
        return min(BATCH_ROWS, max(_LEAST_CHUNK, rows))

    def _assured(self) -> int:
        """Bytes that a merge may use whatever other operators hold."""
        assert self._room is not None
        return self._room // self._share

    def _memory_of_a_merge(self) -> int | None:
        """Bytes for merging all runs, which the account holds from now on; None: there are too many runs to merge."""
        need, assured = sum(run.cost for run in self._runs), self._assured()
        if need <= assured:
            self._account.hold(assured)
            more = self._share == 1 and self._account.grow(assured)
            return 2 * assured if more else assured
        if len(self._runs) <= 2:
            self._account.hold(need)
            return need
        return need if self._share == 1 and self._account.grow(need) else None

    def _pass(self) -> None:
        """Merge as many runs as memory allows, repeatedly, until each has been merged once."""
        file = self._context.spill_file()
        runs, self._runs = self._runs, []
        while runs:
            count = self._mergeable(runs)
            group, runs = runs[:count], runs[count:]
            self._runs.append(group[0] if count == 1 else self._one_of(group, file))

    def _mergeable(self, runs: Sequence[Run]) -> int:
        """Number of the runs, from the first on, that can be merged: at least two if there are two."""
        costs = np.cumsum([run.cost for run in runs])
        return min(len(runs), max(2, int(np.searchsorted(costs, self._assured(), side="right"))))

    def _one_of(self, runs: Sequence[Run], file: SpillFile) -> Run:
        memory = max(self._assured(), sum(run.cost for run in runs))
        self._account.hold(memory)
        batches = merged(runs, self._by, len(self._kept) + len(self._computed), memory, self._context)
        run = rewritten(between(batches, 0, self._first), self._by, file, self._chunk_rows, self._context)
        self._account.shrink(memory)
        return run


def _read(batch: Batch, places: Sequence[int]) -> None:
    for place in places:
        batch.column(place)


def between(batches: Iterator[Batch], skipped: int, wanted: int | None) -> Iterator[Batch]:
    """Yield the rows behind the first `skipped` and among the first `wanted` (None: all)."""
    seen = 0
    for batch in batches:
        before, seen = seen, seen + batch.length
        start = max(0, skipped - before)
        stop = batch.length if wanted is None else min(batch.length, wanted - before)
        if start < stop:
            yield batch.slice(start, stop)
        if wanted is not None and seen >= wanted:
            return
