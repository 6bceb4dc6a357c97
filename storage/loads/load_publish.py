"""The last step of a bulk load: no key twice, then all rows durable and visible at one timestamp.

Writers of the tablets wait meanwhile, so that no row can slip in between the check and the load. Most of the check is
done before (`storage.loads.bulk_load`); what is left are the MemRowSets and the rowsets that were flushed since.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import field, replace
from itertools import chain
from typing import Any

import numpy as np

from ...errors import AlreadyPresent, DiskError, NoPartition
from ...model.codec.packing import pack
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import Timestamp
from ..keys.rowset_tree import RowSetTree
from ..log.tablet_log import TabletLog
from ..log.wal import LogTicket
from ..log.wal_format import EntryKind
from ..rowsets.disk_rowset import DiskRowSet, rowset_keys
from ..rowsets.memrowset import index_keys
from ..rowsets.rowset_metadata import RowSetMetadata
from ..rowsets.stored_rowset import StoredRowSet
from ..tables.table_store import TableStore
from ..tablet.mvcc import start_together
from ..tablet.tablet import Pin, Tablet
from ..writing.incoming_rows import describe_key
from .load_record import LoadRecord, TabletLoad


@dataclass(slots=True)
class Run:
    """The new rowsets of one tablet, and the rowsets of the tablet that were found to share no key with them, whether
    their rows are deleted or not."""

    tablet: Tablet
    rowsets: list[StoredRowSet]
    checked: set[DiskRowSet] = field(default_factory=set)

    def settle(self, timestamp: int) -> None:
        """Give the rowsets the load's timestamp and its place in the log: no entry so far changed a row of theirs.
        Needs `write_lock`, and a tablet without undecided writes."""
        index = self.tablet.log.last_index
        for stored in self.rowsets:
            stored.rowset.metadata = replace(stored.rowset.metadata, inserted=timestamp, redo_index=index)

    def metadata(self) -> tuple[RowSetMetadata, ...]:
        """Of the rowsets."""
        return tuple(stored.rowset.metadata for stored in self.rowsets)


# ---- no key twice ------------------------------------------------------------------------------------------------


def common_keys(table: Table, one: DiskRowSet, other: DiskRowSet) -> Iterator[Keys]:
    """The keys that two rowsets share, deleted rows included, in pieces; none of them is empty."""
    if one.metadata.min_key > other.metadata.max_key or other.metadata.min_key > one.metadata.max_key:
        return
    small, large = sorted((one, other), key=lambda rowset: rowset.row_count)
    tree = RowSetTree([(large.metadata.min_key, large.metadata.max_key, large)])
    for keys in rowset_keys(table.schema, small):
        for _, rows in tree.candidates(keys):
            hits = rows[large.find(keys.take(rows)) >= 0]
            if len(hits):
                yield keys.take(hits)


def check_against_rowsets(run: Run, pin: Pin) -> None:
    """Raise `AlreadyPresent` where a new rowset shares a key with a row of the tablet's that is not deleted."""
    table = run.tablet.table
    for stored in pin.state.rowsets:
        if stored.rowset in run.checked:
            continue
        has_ghosts = False
        for keys in chain.from_iterable(common_keys(table, new.rowset, stored.rowset) for new in run.rowsets):
            hits = np.flatnonzero(stored.find_live(keys) >= 0)
            if len(hits):
                raise _present(table, keys.values_at(int(hits[0])))
            has_ghosts = True
        if not has_ghosts:  # a deletion may still fail, and its row come back
            run.checked.add(stored.rowset)


def _check_against_memory(run: Run) -> None:
    table = run.tablet.table
    tree = RowSetTree([(r.rowset.metadata.min_key, r.rowset.metadata.max_key, r.rowset) for r in run.rowsets])
    for memrowset in run.tablet.state.memrowsets:
        if not memrowset.row_count:
            continue
        keys = Keys.from_rows(table.schema, memrowset.snapshot(table.schema).to_table()[0])
        for rowset, rows in tree.candidates(keys):
            hits = keys.take(rows[rowset.find(keys.take(rows)) >= 0])
            alive = memrowset.contains(index_keys(hits)) if len(hits) else None
            if alive is not None:
                raise _present(table, hits.values_at(int(np.argmax(alive))))


def _present(table: Table, key: tuple[Any, ...]) -> AlreadyPresent:
    return AlreadyPresent(f"a row with key {describe_key(table, key)} is in table {table.name} already")


# ---- all at once -------------------------------------------------------------------------------------------------


def publish(store: TableStore, runs: list[Run]) -> Timestamp:
    """Make the runs part of their tablets, all or none, at the timestamp that is returned.

    Raises `AlreadyPresent`, `NoPartition` where the table lost a range partition meanwhile, or `DiskError`: the load
    has not happened then.
    """
    if not runs:
        return store.clock.now()
    with store.load_lock, ExitStack() as locks:
        store.repair()
        for run in runs:
            locks.enter_context(run.tablet.write_lock)
        _follow_alterations(store, runs)
        for run in runs:
            run.tablet.decide_all()
            check_against_rowsets(run, run.tablet.pin())
            _check_against_memory(run)
        timestamp = start_together([run.tablet.mvcc for run in runs])
        try:
            record = _commit(store, runs, timestamp)
            _install(store, runs, record)
        finally:
            for run in runs:
                run.tablet.mvcc.commit(timestamp)
        return timestamp


def _follow_alterations(store: TableStore, runs: list[Run]) -> None:
    """The table may have been altered while the load collected its rows: they are then rows written before."""
    tablets = store.tablets
    if any(run.tablet not in tablets for run in runs):
        raise NoPartition(
            f"table {store.table.name} lost a range partition while rows were loaded into it; start the load again"
        )
    for run in runs:
        run.rowsets = [stored.with_schema(run.tablet.table.schema) for stored in run.rowsets]


def _commit(store: TableStore, runs: list[Run], timestamp: int) -> LoadRecord:
    """Steps 2 and 3 of `storage.loads.load_record`."""
    for run in runs:
        run.settle(timestamp)
    record = LoadRecord(
        timestamp,
        {
            run.tablet.id: TabletLoad(run.metadata(), run.tablet.unused_rowset_id, run.tablet.next_number)
            for run in runs
        },
    )
    tickets = []
    for run in runs:
        body = pack([m.to_dict() for m in run.metadata()])
        tickets.append((run.tablet.log, run.tablet.log.append(timestamp, EntryKind.LOAD, [body])))
    list(store.pool.map(_sync, tickets))
    try:
        record.write(store.fs, store.directory)
    except DiskError:
        # The record may be on the disk all the same; a crash must not find it once the load was reported as failed.
        store.repairs.append(lambda: record.remove(store.fs, store.directory))
        store.repair()
        raise
    return record


def _sync(place: tuple[TabletLog, LogTicket]) -> None:
    log, ticket = place
    log.sync(ticket)
    # The rowsets' metadata refers to the log's end: whatever the durability, a power failure must not take it back.
    log.sync_now()


def _install(store: TableStore, runs: list[Run], record: LoadRecord) -> None:
    """Steps 4 and 5. A disk that fails now cannot undo the load: the record stays until the metadata is written."""
    is_complete = True
    for run in runs:
        tablet = run.tablet
        load = record.tablets[tablet.id]
        with tablet.metadata_lock:
            metadata = load.applied_to(tablet.metadata, record.timestamp)
            try:
                tablet.write_metadata(metadata)
            except DiskError:
                is_complete = False
                tablet.metadata = metadata  # what the next replacement writes
            tablet.newest = max(tablet.newest, record.timestamp)
            tablet.replace_rowsets((), run.rowsets)
    if is_complete:
        try:
            record.remove(store.fs, store.directory)
        except DiskError:
            is_complete = False
    if not is_complete:
        store.unfinished_loads.append(record)
