"""The last step of a bulk load: no key twice, then all rows durable and visible at one timestamp.

Writers of the tablets wait meanwhile, so that no row can slip in between the check and the load. Most of the check is
done before (`bulk_load`); what is left are the MemRowSets and the rowsets that were flushed since.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import msgpack

from ..errors import AlreadyPresent, DiskError
from .disk_rowset import DiskRowSet
from .incoming_rows import describe_key
from .keys import Keys
from .load_record import LoadRecord, TabletLoad
from .mvcc import start_together
from .rowset_tree import RowSetTree
from .schema import Table
from .table_store import TableStore
from .tablet import StoredRowSet, Tablet, rowset_keys
from .tablet_write import settle
from .wal_format import EntryKind


@dataclass(slots=True)
class Run:
    """The new rowsets of one tablet, and the rowsets of the tablet that were found to share no key with them."""

    tablet: Tablet
    rowsets: list[StoredRowSet]
    checked: set[StoredRowSet] = field(default_factory=set)

    def dated(self, timestamp: int) -> list[StoredRowSet]:
        """The rowsets with the load's timestamp."""
        found = []
        for stored in self.rowsets:
            stored.rowset.metadata = replace(stored.rowset.metadata, newest_undo=timestamp)
            found.append(StoredRowSet(stored.rowset, timestamp, timestamp))
        return found


# ---- no key twice ------------------------------------------------------------------------------------------------


def find_common_key(table: Table, one: DiskRowSet, other: DiskRowSet) -> tuple[Any, ...] | None:
    """The physical values of a key that two rowsets share; None where there is none."""
    small, large = sorted((one, other), key=lambda rowset: rowset.row_count)
    tree = RowSetTree([(large.metadata.min_key, large.metadata.max_key, large)])
    for keys in rowset_keys(table.schema, small):
        for _, rows in tree.candidates(keys):
            hits = rows[large.find(keys.take(rows)) >= 0]
            if len(hits):
                return keys.values_at(int(hits[0]))
    return None


def check_against_rowsets(run: Run, rowsets: Iterable[StoredRowSet]) -> None:
    """Raise `AlreadyPresent` where a new rowset shares a key with one of the tablet's."""
    table = run.tablet.table
    for stored in rowsets:
        if stored in run.checked:
            continue
        old = stored.rowset.metadata
        for new in run.rowsets:
            mine = new.rowset.metadata
            if mine.min_key <= old.max_key and old.min_key <= mine.max_key:
                key = find_common_key(table, new.rowset, stored.rowset)
                if key is not None:
                    raise _present(table, key)
        run.checked.add(stored)


def _check_against_memory(run: Run) -> None:
    table = run.tablet.table
    tree = RowSetTree([(r.rowset.metadata.min_key, r.rowset.metadata.max_key, r.rowset) for r in run.rowsets])
    for memrowset in run.tablet.state.memrowsets:
        if not memrowset.row_count:
            continue
        keys = Keys.from_rows(table.schema, memrowset.snapshot().to_table()[0])
        for rowset, rows in tree.candidates(keys):
            hits = rows[rowset.find(keys.take(rows)) >= 0]
            if len(hits):
                raise _present(table, keys.values_at(int(hits[0])))


def _present(table: Table, key: tuple[Any, ...]) -> AlreadyPresent:
    return AlreadyPresent(f"a row with key {describe_key(table, key)} is in table {table.name} already")


# ---- all at once -------------------------------------------------------------------------------------------------


def publish(store: TableStore, runs: list[Run]) -> None:
    """Make the runs part of their tablets, all or none.

    Raises `AlreadyPresent`, or `DiskError`: the load has not happened then.
    """
    if not runs:
        return
    with store.load_lock, ExitStack() as locks:
        store.repair()
        for run in runs:
            locks.enter_context(run.tablet.write_lock)
        for run in runs:
            settle(run.tablet)
            check_against_rowsets(run, run.tablet.state.rowsets)
            _check_against_memory(run)
        timestamp = start_together([run.tablet.mvcc for run in runs])
        try:
            record = _commit(store, runs, timestamp)
            _install(store, runs, record)
        finally:
            for run in runs:
                run.tablet.mvcc.commit(timestamp)


def _commit(store: TableStore, runs: list[Run], timestamp: int) -> LoadRecord:
    """Steps 2 and 3 of `load_record`."""
    dated = {run.tablet.id: [stored.rowset.metadata for stored in run.dated(timestamp)] for run in runs}
    record = LoadRecord(
        timestamp,
        {run.tablet.id: TabletLoad(tuple(dated[run.tablet.id]), run.tablet.unused_rowset_id) for run in runs},
    )
    tickets = []
    for run in runs:
        body = msgpack.packb([m.to_dict() for m in dated[run.tablet.id]], use_bin_type=True)
        tickets.append((run.tablet.log, run.tablet.log.append(timestamp, EntryKind.LOAD, [body])))
    for _ in _side_by_side(store.pool, tickets):
        pass
    try:
        record.write(store.fs, store.directory)
    except DiskError:
        # The record may be on the disk all the same; a crash must not find it once the load was reported as failed.
        store.repairs.append(lambda: record.remove(store.fs, store.directory))
        store.repair()
        raise
    return record


def _side_by_side(pool: Executor, tickets: list[Any]) -> Iterable[None]:
    return list(pool.map(lambda pair: pair[0].sync(pair[1]), tickets))


def _install(store: TableStore, runs: list[Run], record: LoadRecord) -> None:
    """Steps 4 and 5. A disk that fails now cannot undo the load: the record stays until the metadata is written."""
    is_complete = True
    for run in runs:
        tablet = run.tablet
        load = record.tablets[tablet.id]
        with tablet.metadata_lock:
            metadata = tablet.metadata.with_load(list(load.rowsets), load.next_rowset_id, record.timestamp)
            try:
                metadata.write(tablet.fs, tablet.directory)
            except DiskError:
                is_complete = False
            tablet.add_rowsets(metadata, run.dated(record.timestamp), None)
    if is_complete:
        try:
            record.remove(store.fs, store.directory)
        except DiskError:
            is_complete = False
    if not is_complete:
        store.unfinished_loads.append(record)
