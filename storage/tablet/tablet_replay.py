"""Opening a tablet: its files are what its metadata says, and its log is brought into memory again.

The log says what happened to keys, not where rows lie, which flushes and compactions have changed since. What entry i
did to key k is found out so:

    INSERT   i <= durable_index of the tablet: the row is in a rowset. Else it goes into the MemRowSet.
    UPDATE   k is alive in the MemRowSet, as replayed so far: there. Else, of the rowsets that hold k: those with
    DELETE   redo_index >= i have it in their files; of the others, the one where k is alive gets it. There may be none.

At every time a key is alive in at most one place, so this is exact, and doing it twice is as doing it once.

Entries are replayed by the thousand. Within one step each key may be inserted, then updated any number of times, then
deleted: so a step ends before a key that it deleted occurs again. (Not always with an INSERT: what was inserted then
may be in a rowset.)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import CorruptionError
from ..clock import HybridClock
from ..deltas.deltas import DeltaColumn, DeltaKind, Deltas, merge
from ..files.filesystem import FileSystem
from ..files.page_cache import PageCache
from ..keys.rowset_tree import RowSetTree
from ..log.logged_rows import LoggedPart, LoggedRows
from ..log.wal import WriteAheadLog
from ..log.wal_format import LogEntry, entry_parts, log_schema
from ..rowsets.memrowset import IndexKeys, MemRowSet, index_keys
from ..rowsets.stored_rowset import StoredRowSet, open_rowset
from ..schema import Schema, Table
from ..store import Op, Timestamp
from ..vector import Array
from .mvcc import MvccManager
from .tablet import StoreOptions, Tablet, TabletState, rowset_files
from .tablet_metadata import TabletMetadata

STEP_ENTRIES = 4096
"""Log entries that are replayed together: a single row costs as much as some hundred."""
STEP_ROWS = 1 << 17


def open_tablet(
    fs: FileSystem,
    directory: str,
    table: Table,
    metadata: TabletMetadata,
    *,
    cache: PageCache,
    clock: HybridClock,
    options: StoreOptions,
) -> Tablet:
    """Recover a tablet: remove files that no metadata names, replay the log. `CorruptionError` names a file that is
    damaged or missing."""
    rowset_directory = f"{directory}/rowsets"
    check_files(fs, rowset_directory, metadata)
    rowsets = [open_rowset(fs, rowset_directory, table.schema, m, cache) for m in metadata.rowsets]
    clock.update(Timestamp(metadata.newest))
    replay = Replay(table.schema, rowsets, metadata.durable_index, f"{directory}/wal")

    def add(entry: LogEntry, schema: pa.Schema) -> None:
        clock.update(Timestamp(entry.timestamp))
        replay.add(entry, schema)

    log = WriteAheadLog.recover(
        fs,
        f"{directory}/wal",
        log_schema(table.schema),
        metadata.replay_index,
        add,
        syncs=options.durability == "fsync",
        segment_bytes=options.segment_bytes,
        known_index=metadata.known_index,
    )
    replay.finish()
    return Tablet(
        id=metadata.tablet_id,
        table=table,
        fs=fs,
        directory=directory,
        cache=cache,
        options=options,
        metadata=metadata,
        state=TabletState.of(replay.memrowset, None, rowsets),
        log=log,
        mvcc=MvccManager(clock),
        newest=max(metadata.newest, replay.newest),
        next_number=max(metadata.next_number, replay.next_number, _number_after(table.schema, rowsets)),
        _next_rowset_id=metadata.next_rowset_id,
    )


def check_files(fs: FileSystem, directory: str, metadata: TabletMetadata) -> None:
    """Remove what a crash left of unfinished flushes and loads; `CorruptionError` where a rowset's file is missing."""
    wanted = {name for rowset in metadata.rowsets for name in rowset_files(rowset)}
    found = set(fs.list(directory))
    if missing := sorted(wanted - found):
        raise CorruptionError("the file is missing", f"{directory}/{missing[0]}", "whole file")
    for name in sorted(found - wanted):
        fs.remove(f"{directory}/{name}")


def _number_after(schema: Schema, rowsets: Sequence[StoredRowSet]) -> int:
    """A number above all that the AUTO_INCREMENT column has in rowsets."""
    column = schema.key[-1]
    if not column.auto_increment:
        return 1
    highest = [stored.rowset.statistics()[column.id].high for stored in rowsets]
    return max((int(high) + 1 for high in highest if high is not None), default=1)


class Replay:
    """Brings log entries into a MemRowSet and into the DeltaMemStores of rowsets.

    Parameters
    ----------
    schema : Schema
        The table's today.
    rowsets : sequence of StoredRowSet
        As their files have them.
    durable_index : int
        What was inserted by entries up to here is in rowsets.
    path : str
        Of the log, for errors.
    """

    def __init__(self, schema: Schema, rowsets: Sequence[StoredRowSet], durable_index: int, path: str):
        self.memrowset = MemRowSet(schema)
        self.newest = 0
        """The greatest timestamp of an entry."""
        self.next_number = 1
        """Above all numbers that the AUTO_INCREMENT column was given."""
        self._schema = schema
        self._tree = RowSetTree([(r.metadata.min_key, r.metadata.max_key, r) for r in rowsets])
        self._durable_index = durable_index
        self._path = path
        self._pending: list[LoggedPart] = []
        self._entries = 0
        self._rows = 0

    def add(self, entry: LogEntry, schema: pa.Schema) -> None:
        """Take the next entry; `schema` is that of its segment. What a bulk load did, the metadata says."""
        self.newest = max(self.newest, entry.timestamp)
        for part in entry_parts(entry, schema):
            if part.op is not Op.INSERT or entry.index > self._durable_index:
                self._pending.append(LoggedPart(part, schema, entry.index, entry.timestamp))
                self._rows += part.row_count
        self._entries += 1
        if self._entries >= STEP_ENTRIES or self._rows >= STEP_ROWS:
            self.finish()

    def finish(self) -> None:
        """Do what is pending."""
        pending, self._pending = self._pending, []
        self._entries = self._rows = 0
        if not pending:
            return
        logged = LoggedRows.of(pending, self._schema)
        number = self._schema.key[-1]
        if number.auto_increment:
            self.next_number = max(self.next_number, pc.max(logged.columns[number.id].values).as_py() + 1)
        bounds = [0, *_step_bounds(logged), len(logged)]
        for start, stop in pairwise(bounds):
            self._step(logged.slice(start, stop))

    def _step(self, logged: LoggedRows) -> None:
        """Rows of which none comes after the DELETE of its key, or before its INSERT."""
        index = index_keys(logged.keys)
        is_insert = logged.ops == Op.INSERT
        reinserts = self._insert(logged, index, np.flatnonzero(is_insert))
        rest = np.flatnonzero(~is_insert)
        rest = self._mutate(logged, index, rest, reinserts)
        if not len(rest):
            return
        for stored, among in self._tree.candidates(logged.keys.take(rest)):
            chosen = np.sort(rest[among])
            chosen = chosen[logged.indexes[chosen] > stored.metadata.redo_index]
            offsets = stored.find_live(logged.keys.take(chosen))
            chosen, offsets = chosen[offsets >= 0], offsets[offsets >= 0]
            if len(chosen):
                deltas = logged.deltas(chosen, offsets, _KINDS[logged.ops[chosen]])
                stored.memstore.append(deltas, int(logged.indexes[chosen[0]]))
                stored.deleted.add(deltas.rows[deltas.kinds == DeltaKind.DELETE])

    def _insert(self, logged: LoggedRows, index: IndexKeys, chosen: Array) -> Deltas:
        """Insert rows; the REINSERTs of those whose ghosts are in the MemRowSet are still to be done."""
        if not len(chosen):
            return Deltas.empty()
        keys = index if len(chosen) == len(index) else [index[row] for row in chosen.tolist()]
        rows = self.memrowset.find(keys)
        if rows is None:
            fresh, ghosts = np.ones(len(chosen), np.bool_), np.empty(0, np.int64)
        else:
            fresh = rows < 0
            ghosts = rows[~fresh]
            if not self.memrowset.deleted.contains(ghosts).all():
                first, last = int(logged.indexes[chosen[0]]), int(logged.indexes[chosen[-1]])
                raise CorruptionError("a key was inserted twice", self._path, f"entries {first} to {last}")
            keys = list(itertools.compress(keys, fresh.tolist()))
        new, again = chosen[fresh], chosen[~fresh]
        if len(new):
            stamps, first = logged.timestamps[new], int(logged.indexes[new[0]])
            self.memrowset.insert(logged.whole_rows(new), keys, stamps, first)
        if not len(again):
            return Deltas.empty()
        whole = logged.whole_rows(again)
        everywhere = np.arange(len(again))
        columns = {
            column.id: DeltaColumn(everywhere, values)
            for column, values in zip(self._schema.columns, whole.columns)
            if column not in self._schema.key
        }
        kinds = np.full(len(again), DeltaKind.REINSERT, np.uint8)
        return Deltas(ghosts, logged.timestamps[again], kinds, columns).renumbered(ghosts)

    def _mutate(self, logged: LoggedRows, index: IndexKeys, chosen: Array, reinserts: Deltas) -> Array:
        """Do to rows of the MemRowSet what is done to them; the others of the chosen rows, whose keys are not there."""
        rows = self.memrowset.find([index[row] for row in chosen.tolist()])
        if rows is None:
            rows = np.full(len(chosen), -1)
        is_here = rows >= 0
        is_here[is_here] = ~self.memrowset.deleted.contains(rows[is_here]) | np.isin(rows[is_here], reinserts.rows)
        here, rows = chosen[is_here], rows[is_here]
        if len(here) or len(reinserts):
            mutations = merge([reinserts, logged.deltas(here, rows, _KINDS[logged.ops[here]])])
            self.memrowset.mutations.append(mutations, int(logged.indexes[0]))
            self.memrowset.deleted.remove(reinserts.rows)
            self.memrowset.deleted.add(mutations.rows[mutations.kinds == DeltaKind.DELETE])
        return chosen[~is_here]


_KINDS = np.zeros(max(Op) + 1, np.uint8)
_KINDS[Op.UPDATE] = DeltaKind.UPDATE
_KINDS[Op.DELETE] = DeltaKind.DELETE


def _step_bounds(logged: LoggedRows) -> list[int]:
    """Where rows must be divided so that no step has anything of a key after its DELETE, or before its INSERT: the
    fewest places."""
    repeated = logged.keys.duplicates()
    if not len(repeated):
        return []
    is_repeated = np.zeros(len(logged), np.bool_)
    is_repeated[repeated] = True
    order = logged.keys.order()
    again = np.flatnonzero(is_repeated[order])
    rows, before = order[again], order[again - 1]
    divided = (logged.ops[rows] == Op.INSERT) | (logged.ops[before] == Op.DELETE)
    rows, before = rows[divided], before[divided]
    bounds: list[int] = []
    for place in np.argsort(rows).tolist():
        if not bounds or before[place] >= bounds[-1]:
            bounds.append(int(rows[place]))
    return bounds
