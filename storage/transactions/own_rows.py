"""Own rows of a transaction in one table: single rows in a dictionary, batches in runs (`own_run`).

    runs      [oldest, ..., newest]     immutable; merged before a look-up with older ones that are not much larger
    singles   {key: entry}              newer than all runs; becomes a run when there are many, or for a batch or a scan

A *mark* remembers the runs and how far the journal of the single rows was: going back to it restores the runs and
undoes the journal. So a savepoint costs nothing, and an undo what was done since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from ...errors import SchemaChanged
from ...model.arrow_arrays import arrow_array
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.partitions.partition import Partitioner
from ...model.schema import Table
from ...model.vectors.vector import Array
from ..single_rows.row_codec import MISSING, RowCodec
from ..writing.op_resolution import Given
from .base_rows import BaseRows
from .own_run import OwnRun, Presence, merged_runs

MOST_SINGLES = 4096
"""Entries of single rows that become a run: a scan makes one of them anew each time."""
MOST_SINGLE_BYTES = 8 << 20
_MOST_RUNS = 64
"""Runs that are merged at once: before a look-up, or where there are more."""
_MERGED_BYTES = 64 << 20
"""Runs of this size are not merged: texts of one Arrow array must stay below 2 GiB, and copies cost memory."""

IndexKey: TypeAlias = "int | bytes"


class Entry(NamedTuple):
    """The net state of one key: `own_run`.

    Parameters
    ----------
    base : int
        `Presence`.
    stored : list or None
        Values as `RowCodec.take` returns them, `MISSING` where a cell is not set; None: the row is deleted.
    key : tuple
        Physical values.
    """

    base: int
    stored: list[Any] | None
    key: tuple[Any, ...]


class SingleEntries:
    """Entries of single rows, and a journal of their changes."""

    def __init__(self) -> None:
        self.entries: dict[IndexKey, Entry] = {}
        self.journal: list[tuple[IndexKey, Entry | None]] = []
        """The entry that each change replaced, in order, while there are marks."""
        self.nbytes = 0
        """About the bytes of long values."""

    def undo(self, length: int) -> None:
        """Undo all changes but the first `length` of the journal."""
        while len(self.journal) > length:
            index, before = self.journal.pop()
            if before is None:
                del self.entries[index]
            else:
                self.entries[index] = before


class Mark(NamedTuple):
    """State to which `OwnRows.go_back` returns."""

    runs: tuple[OwnRun, ...]
    singles: SingleEntries
    journaled: int


@dataclass(frozen=True, slots=True, eq=False)
class TableContext:
    """Objects that are derived from one version of a table."""

    table: Table
    codec: RowCodec
    partitioner: Partitioner
    has_ranges: bool
    immutable: frozenset[int]
    """Positions of immutable columns."""


def table_context(table: Table) -> TableContext:
    """The context of a table; made once for a version."""
    key = table.id, table.version
    with _contexts_lock:
        context = _contexts.get(key)
    if context is not None and (context.table is table or context.table == table):
        return context
    context = TableContext(
        table,
        RowCodec(table),
        Partitioner(table.schema, table.partitions),
        table.partitions.range_rule is not None,
        frozenset(place for place, column in enumerate(table.schema.columns) if column.immutable),
    )
    with _contexts_lock:
        if len(_contexts) >= _MOST_CONTEXTS:
            _contexts.clear()
        _contexts[key] = context
    return context


_MOST_CONTEXTS = 256
_contexts: dict[tuple[str, int], TableContext] = {}
_contexts_lock = threading.Lock()


class OwnVersion:
    """All entries at one time. Immutable, but for what is computed and kept.

    Parameters
    ----------
    runs : tuple of OwnRun
        The newest last.
    """

    def __init__(self, runs: tuple[OwnRun, ...]):
        self.runs = runs

    def find(self, keys: Keys) -> tuple[Array, Array]:
        """The run and the row in it of each key's entry: two ndarrays of int64, shape (n_keys,); -1 where there is
        none."""
        which, row = np.full(len(keys), -1, np.int64), np.full(len(keys), -1, np.int64)
        for number, run in enumerate(self.runs):
            found = run.index.find(keys)
            hits = found >= 0
            which[hits], row[hits] = number, found[hits]
        return which, row

    @cached_property
    def current(self) -> tuple[Array, ...]:
        """For each run, the entries that no newer run has the key of: ndarrays of bool."""
        masks = []
        for number, run in enumerate(self.runs):
            mask = np.ones(len(run), np.bool_)
            for newer in self.runs[number + 1 :]:
                found = run.index.find(newer.keys)
                mask[found[found >= 0]] = False
            masks.append(mask)
        return tuple(masks)

    @cached_property
    def row_count(self) -> int:
        """Number of keys that differ from the store, or may."""
        return sum(
            int(np.count_nonzero(current & ~(run.is_deleted & (run.base == Presence.ABSENT))))
            for run, current in zip(self.runs, self.current)
        )

    @cached_property
    def growth(self) -> int:
        """About by how many rows the table has grown."""
        total = 0
        for run, current in zip(self.runs, self.current):
            total += int(np.count_nonzero(current & ~run.is_deleted & (run.base == Presence.ABSENT)))
            total -= int(np.count_nonzero(current & run.is_deleted & (run.base == Presence.PRESENT)))
        return total


NOTHING = OwnVersion(())


class OwnRows:
    """Own rows of one table. Writers hold the transaction's lock; versions may be read without."""

    def __init__(self, context: TableContext, base: BaseRows):
        self.context = context
        self.base = base
        self.runs: tuple[OwnRun, ...] = ()
        self.singles = SingleEntries()
        self.known: dict[IndexKey, bool] = {}
        """Keys that were looked up in the store, and whether it has them."""
        self._version: OwnVersion | None = NOTHING
        self._of_runs = NOTHING
        """For `growth`: the version of the runs alone."""

    @property
    def is_empty(self) -> bool:
        return not self.runs and not self.singles.entries

    @property
    def nbytes(self) -> int:
        """About the bytes of memory that `spill` would free."""
        return sum(run.nbytes for run in self.runs)

    def spill(self, move: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Move all runs to a file."""
        for run in self.runs:
            run.spill(move)

    def check_version(self, table: Table) -> None:
        """Raise `SchemaChanged` unless `table`, a caller's, is as it was when the transaction used it first."""
        mine = self.context.table
        if table is not mine and table.version != mine.version:
            raise SchemaChanged(
                f"table {mine.name} was altered since this transaction wrote to it; roll back and try again"
            )

    # ---- changes -------------------------------------------------------------------------------------------------

    def put(self, index: IndexKey, entry: Entry, is_journaled: bool, nbytes: int) -> None:
        """Replace the entry of one key."""
        singles = self.singles
        if is_journaled:
            singles.journal.append((index, singles.entries.get(index)))
        singles.entries[index] = entry
        singles.nbytes += nbytes
        self._version = None
        if len(singles.entries) >= MOST_SINGLES or singles.nbytes >= MOST_SINGLE_BYTES:
            self.seal()

    def add(self, run: OwnRun) -> None:
        """Add newer entries."""
        self.seal()
        self.runs = (*self.runs, run)
        if len(self.runs) > _MOST_RUNS:
            self._merge()
        self._version = None

    def _merge(self) -> None:
        """Merge the newest runs with those that are not much larger."""
        first, total, size = len(self.runs), 0, 0
        while first:
            run = self.runs[first - 1]
            size += run.size
            if total and (len(run) > 2 * total or size > _MERGED_BYTES):
                break
            total += len(run)
            first -= 1
        self.runs = (*self.runs[:first], merged_runs(self.runs[first:]))

    def seal(self) -> None:
        """Turn the single rows into a run."""
        if self.singles.entries:
            run, self.singles = run_of(self.context.table, self.singles.entries.values()), SingleEntries()
            self.add(run)

    def version(self) -> OwnVersion:
        """All entries now."""
        if self._version is None:
            if len(self.runs) > 1:
                self._merge()
            runs = self.runs
            if self.singles.entries:
                runs = (*runs, run_of(self.context.table, self.singles.entries.values()))
            self._version = OwnVersion(runs)
        return self._version

    def growth(self) -> int:
        """About by how many rows the table has grown; does not make a run of the single rows."""
        total = 0
        for entry in self.singles.entries.values():
            if entry.stored is None:
                total -= entry.base == Presence.PRESENT
            else:
                total += entry.base == Presence.ABSENT
        if self.runs:
            if self._of_runs.runs is not self.runs:
                self._of_runs = OwnVersion(self.runs)
            total += self._of_runs.growth
        return total

    # ---- marks ---------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """The state now."""
        return Mark(self.runs, self.singles, len(self.singles.journal))

    def go_back(self, mark: Mark | None) -> None:
        """Undo all changes since a mark; None: since the beginning."""
        if mark is None:
            self.runs, self.singles = (), SingleEntries()
        else:
            self.runs, self.singles = mark.runs, mark.singles
            self.singles.undo(mark.journaled)
        self._version = None

    # ---- single rows ---------------------------------------------------------------------------------------------

    def entry(self, index: IndexKey, key: Sequence[Any]) -> Entry | None:
        """The entry of one key (physical values); None if there is none."""
        found = self.singles.entries.get(index)
        if found is not None or not self.runs:
            return found
        if len(self.runs) > 1:
            self._merge()
        for run in reversed(self.runs):
            row = run.index.find_one(key)
            if row >= 0:
                if run.is_deleted[row]:
                    return Entry(int(run.base[row]), None, tuple(key))
                stored = [
                    array[row].as_py() if isset is True or (isset is not False and isset[row]) else MISSING
                    for array, isset in zip(run.rows.columns, run.isset)
                ]
                return Entry(int(run.base[row]), stored, tuple(key))
        return None

    def values(self, entry: Entry, columns: Sequence[str]) -> tuple[Any, ...] | None:
        """Columns of an entry's row as Python values, None if it is deleted."""
        if entry.stored is None:
            return None
        codec = self.context.codec
        values = [entry.stored[codec.place(name)] for name in columns]
        lacking = [place for place, value in enumerate(values) if value is MISSING]
        if lacking:
            key = entry.stored[: codec.key_columns]
            names = [columns[place] for place in lacking]
            found = self.base.store.read_row(self.context.table, key, names, self.base.snapshot)
            for place, value in zip(lacking, found or ()):
                values[place] = value
        return tuple(values)


def run_of(table: Table, entries: Sequence[Entry] | Any) -> OwnRun:
    """The entries of single rows as a run."""
    entries = list(entries)
    deleted = np.array([entry.stored is None for entry in entries], np.bool_)
    base = np.array([entry.base for entry in entries], np.uint8)
    width = table.schema.key_columns
    arrays = []
    isset: list[Given] = []
    for place, column in enumerate(table.schema.columns):
        if place < width and deleted.any():
            values = [column.type.to_python(entry.key[place]) for entry in entries]
        else:
            values = [MISSING if entry.stored is None else entry.stored[place] for entry in entries]
        mask = np.array([value is not MISSING for value in values], np.bool_)
        if mask.all():
            isset.append(True)
        else:
            isset.append(mask if mask.any() else False)
            values = [None if value is MISSING else value for value in values]
        arrays.append(arrow_array(values, column.type.arrow))
    rows = pa.RecordBatch.from_arrays(arrays, schema=table.schema.arrow)
    return OwnRun(table, rows, isset, base, deleted)
