"""Statistics of a table for the planner: the merged sketches of its rowsets, and those of its MemRowSets.

Rowsets have sketches (`ColumnSketch`, made while they were written). Rows in MemRowSets are examined: bounds and NULLs
and, unless they are few among many, distinct values.

The row count is exact and excludes deleted rows. All other values are estimates: of the values at insertion, without
updates (ANALYZE includes these: `analysis`), and may be slightly out of date. They may only be used to choose among
plans with equal results.

Statistics of a column are computed at their first use: a statement uses few columns, often only the number of rows, and
a hundred thousand rows in memory take 50 ms per column.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from ...model.schema import Table
from ...model.store import ColumnStatistics, TableStatistics
from ..columns.sketch import ColumnSketch, SketchBuilder
from ..rowsets.memrowset import MemRowSet
from ..rowsets.stored_rowset import StoredRowSet
from ..tablet.tablet import Pin
from .analysis import Analysis
from .value_sketches import add_values

MEMORY_SHARE = 0.1
"""Distinct values in MemRowSets are counted where these hold at least this share of the rows on disk."""
GROWTH = 1.1
"""MemRowSets are looked at again when they have grown by this factor."""


_Made = TypeVar("_Made")


class ByColumn(Mapping[str, _Made], Generic[_Made]):
    """Results of `make` for each of the names, made at first use and cached. Safe for several threads, of which one
    computes and the others wait."""

    def __init__(self, names: Sequence[str], make: Callable[[str], _Made]):
        self._names = dict.fromkeys(names)
        self._make = make
        self._made: dict[str, _Made] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> _Made:
        made = self._made.get(name)
        if made is None:
            if name not in self._names:
                raise KeyError(name)
            with self._lock:
                made = self._made.get(name)
                if made is None:
                    made = self._made[name] = self._make(name)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class StatisticsCache:
    """The statistics of one table, kept until its rows have changed enough. Safe for several threads."""

    def __init__(self, table: Table, analysis: Analysis):
        self.table = table
        self.analysis = analysis
        self._lock = threading.Lock()
        self._rowsets: tuple[StoredRowSet, ...] = ()
        self._sketched_rows = -1
        self._columns: Mapping[str, ColumnStatistics] = {}
        self._sketches: Mapping[str, ColumnSketch] = {}

    def get(self, tablets: Mapping[str, Pin]) -> TableStatistics:
        """The statistics of a table, from the pinned states of its tablets, by their ids."""
        return self.get_with_sketches(tablets)[0]

    def get_with_sketches(self, tablets: Mapping[str, Pin]) -> tuple[TableStatistics, Mapping[str, ColumnSketch]]:
        """The statistics, and the sketches by column name that they were made of: those of other tablets' rows can be
        merged with them."""
        states = [pin.state for pin in tablets.values()]
        rowsets = tuple(r for state in states for r in state.rowsets)
        memrowsets = [m for state in states for m in state.memrowsets if m.row_count]
        stored_rows = sum(r.row_count for r in rowsets)
        memory_rows = sum(m.row_count for m in memrowsets)
        live_rows = sum(r.live_count for r in rowsets) + sum(m.live_count for m in memrowsets)
        with self._lock:
            if self._is_stale(rowsets, memory_rows):
                self._rowsets = rowsets
                self._sketched_rows = memory_rows
                small = memory_rows < MEMORY_SHARE * stored_rows
                of_rowsets = [
                    self.analysis.of(name, r.rowset) for name, pin in tablets.items() for r in pin.state.rowsets
                ]
                sketches = _sketches(self.table, of_rowsets, memrowsets, not small)
                self._sketches = sketches
                self._columns = ByColumn(self.table.schema.names, lambda name: sketches[name].to_statistics())
            return TableStatistics(live_rows, self._columns), self._sketches

    def _is_stale(self, rowsets: tuple[StoredRowSet, ...], memory_rows: int) -> bool:
        if len(rowsets) != len(self._rowsets) or any(a is not b for a, b in zip(rowsets, self._rowsets)):
            return True
        return not self._sketched_rows <= memory_rows <= self._sketched_rows * GROWTH


def _sketches(
    table: Table, sketches: Sequence[Mapping[int, ColumnSketch]], memrowsets: Sequence[MemRowSet], count_distinct: bool
) -> Mapping[str, ColumnSketch]:
    # One that has been flushed in the meantime is not cached: the next call finds its rowsets.
    in_memory = [weakref.ref(memrowset) for memrowset in memrowsets]

    def make(name: str) -> ColumnSketch:
        column = table.schema.column(name)
        builder = SketchBuilder()
        for of_rowset in sketches:
            if column.id in of_rowset:
                builder.add_sketch(of_rowset[column.id])
        for memrowset in filter(None, (reference() for reference in in_memory)):
            snapshot = memrowset.snapshot(table.schema)
            if snapshot.chunks:
                add_values(builder, column, snapshot.column_array(column, snapshot.chunks), count_distinct)
        return builder.finish()

    return ByColumn(table.schema.names, make)
