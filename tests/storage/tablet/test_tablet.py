"""One tablet, step by step: what happens between two writers, or between a writer and a flush, in the worst order."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from nyala.errors import AlreadyPresent, DiskError
from nyala.model.store import Op, WriteBatch
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from nyala.storage.maintenance.tablet_flush import flush
from nyala.storage.writing.incoming_rows import incoming
from nyala.storage.writing.tablet_write import TabletWrite
from tablet_support import batch, definition, insert, keys_of


@pytest.fixture
def fs():
    return FaultyFileSystem(CrashableFileSystem())


@pytest.fixture
def db(fs):
    with Database("db", fs=fs) as database:
        database.create_table(definition())
        yield database
        if not database._closed:
            database.check()


@pytest.fixture
def tablet(db):
    return db._stores[db.table("t").id].tablets[0]


def begin(tablet, keys, op: Op = Op.INSERT, text: str = "v") -> TabletWrite:
    """A write that is in the log and in memory; `finish` is still to come."""
    rows = incoming(tablet.table, WriteBatch(batch(keys, text), op))
    part = TabletWrite(tablet, tablet.table, rows, np.arange(len(rows)))
    part.probe()
    with tablet.write_lock:
        part.check()
        part.encode()
        if part.has_changes:
            part.apply(tablet.mvcc.start())
    return part


def in_thread(action) -> tuple[threading.Thread, threading.Event]:
    done = threading.Event()
    thread = threading.Thread(target=lambda: (action(), done.set()))
    thread.start()
    return thread, done


def test_a_row_is_seen_when_it_is_durable_and_not_before(db, tablet):
    part = begin(tablet, [1])
    table = db.table("t")
    found: list[list[int]] = []
    thread, done = in_thread(lambda: found.append(keys_of(db, table)))
    assert not done.wait(0.05), "the reader's snapshot is above the write: it must wait for it"
    part.finish()
    thread.join()
    assert found == [[1]]


def test_a_row_that_failed_refuses_no_other_even_before_its_writer_knows(fs, db, tablet):
    first, second = begin(tablet, [1]), begin(tablet, [2])
    fs.fail("sync", "*/wal/*", times=1)
    with pytest.raises(DiskError):
        tablet.log.sync(tablet.undecided[-1].ticket)
    third = begin(tablet, [1, 2])
    assert third.errors == []
    third.finish()
    for part in (first, second):
        with pytest.raises(DiskError):
            part.finish()
    assert keys_of(db, db.table("t")) == [1, 2]


def test_a_refusal_fails_with_the_row_that_it_refers_to(fs, tablet):
    first = begin(tablet, [1])
    refused = begin(tablet, [1])
    assert [error.row for error in refused.errors] == [0]
    fs.fail("sync", "*/wal/*", times=1)
    for part in (refused, first):
        with pytest.raises(DiskError):
            part.finish()


@pytest.mark.parametrize("fails", [False, True])
def test_a_flush_waits_for_writes_in_flight(fs, db, tablet, fails):
    insert(db, db.table("t"), [1, 2])
    part = begin(tablet, [3])
    thread, done = in_thread(lambda: flush(tablet))
    assert not done.wait(0.05)
    if fails:
        fs.fail("sync", "*/wal/*", times=1)
        with pytest.raises(DiskError):
            part.finish()
    else:
        part.finish()
    thread.join()
    assert [r.rowset.row_count for r in tablet.state.rowsets] == [2 if fails else 3]
    assert tablet.metadata.durable_index == (2 if fails else 3)  # an entry for each row
    # After a failed entry its index is used again: the flush must not have claimed it.
    insert(db, db.table("t"), [9])
    db.close()
    with Database("db", fs=fs) as again:
        assert keys_of(again, again.table("t")) == ([1, 2, 9] if fails else [1, 2, 3, 9])


def test_a_flush_empties_the_log(fs, db, tablet):
    insert(db, db.table("t"), range(100))
    assert fs.list(f"{tablet.directory}/wal") != []
    db.flush()
    assert fs.list(f"{tablet.directory}/wal") == []
    assert tablet.log.size == 0


def test_a_load_sees_rows_that_were_flushed_after_its_first_check(db, tablet):
    table = db.table("t")
    store = db._stores[table.id]

    def meanwhile():
        begin(tablet, [7]).finish()
        flush(tablet)

    with db.bulk_loader(table) as loader:
        loader.append(batch(range(10)))
        store.repairs.append(meanwhile)  # runs when the load is about to be published
        with pytest.raises(AlreadyPresent, match=r"key \(k = 7\) is in table t already"):
            loader.finish()
    assert keys_of(db, table) == [7]


def test_inserts_go_on_during_a_flush(db, tablet):
    table = db.table("t")
    insert(db, table, range(1000))
    part = begin(tablet, [1000])  # holds the flush where the old MemRowSet has been swapped out
    thread, _ = in_thread(lambda: flush(tablet))
    while tablet.state.flushing is None:
        pass
    result = insert(db, table, [5, 1000, 2000])
    assert [error.row for error in result.errors] == [0, 1]
    assert tablet.state.memrowset.row_count == 1
    part.finish()
    thread.join()
    assert keys_of(db, table) == [*range(1001), 2000]
