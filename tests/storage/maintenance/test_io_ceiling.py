"""Background work under a ceiling of I/O: what it delays, and which statements make it hurry."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from nyala.model.alterations import AddColumn
from nyala.model.schema import ColumnSchema
from nyala.model.types import BIGINT
from nyala.storage.database import Database
from nyala.storage.files.io_limit import LEAST_RATE
from nyala.storage.maintenance.manager import OperationRecord
from nyala.storage.maintenance.precedence import awaited
from tablet_support import definition, insert, keys_of, load, read

ROWS = 30_000


@pytest.fixture
def db() -> Iterator[Database]:
    with Database(background=False, memrowset_bytes=4 << 20, maintenance_io_limit=LEAST_RATE) as database:
        yield database


class Delayed:
    """One flush in a thread of its own, which waits for the ceiling: time does not pass for that."""

    def __init__(self, db: Database):
        self.limit = db._maintenance.io_limit
        self.limit._clock = lambda: 1.0
        self.limit._refilled = 1.0
        self.limit._wait = self._wait
        self.waits = threading.Event()
        self.records: list[OperationRecord] = []
        self._thread = threading.Thread(target=lambda: self.records.extend(db.maintain(until_idle=False)))
        self._thread.start()
        assert self.waits.wait(60)

    def _wait(self, seconds: float) -> None:
        self.waits.set()
        threading.Event().wait(0.001)

    def ended(self) -> list[str]:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return [record.kind for record in self.records]


@pytest.fixture
def flush(db: Database) -> Iterator[Delayed]:
    insert(db, db.create_table(definition()), range(ROWS))
    memrowset = db._tablets()[0].state.memrowset
    assert 4 << 20 <= memrowset.nbytes < 8 << 20, "a flush is due, and no writer flushes itself"
    delayed = Delayed(db)
    yield delayed
    delayed.limit.stop()
    delayed.ended()


def test_statements_are_served_while_a_flush_waits(db, flush):
    table = db.table("t")
    insert(db, table, range(ROWS, ROWS + 10))
    assert len(keys_of(db, table)) == ROWS + 10
    assert not flush.records
    db.limit_maintenance_io(None)
    assert flush.ended() == ["FlushMemRowSet"]
    assert len(keys_of(db, table)) == ROWS + 10


def test_a_change_of_the_schema_makes_the_flush_hurry(db, flush):
    column = ColumnSchema("n", BIGINT)
    assert db.alter_table("t", [AddColumn(column)]).schema.columns[-1].name == "n"
    assert flush.ended() == ["FlushMemRowSet"]


def test_dropping_the_table_makes_the_flush_hurry(db, flush):
    db.drop_table("t")
    flush.ended()


def test_memory_that_is_short_makes_the_flush_hurry(db, flush):
    db._maintenance.memory.limit = 1 << 10
    assert flush.ended() == ["FlushMemRowSet"]


def test_a_writer_that_waits_for_the_tablet_makes_the_flush_hurry(db, flush):
    with awaited(db._tablets()[0]):
        assert flush.ended() == ["FlushMemRowSet"]


def test_closing_the_store_does_not_wait_for_the_ceiling(db, flush):
    db.close()
    assert flush.ended() == ["FlushMemRowSet"]


def test_compactions_are_charged_for_reads_and_writes(db):
    db.limit_maintenance_io(None)
    table = db.create_table(definition())
    for n in range(4):
        load(db, table, range(n, 4 * ROWS, 4), text=f"text {n} ")
    before = sum(stored.metadata.data_bytes for stored in db._tablets()[0].state.rowsets)
    assert "CompactRowSets" in {record.kind for record in db.maintain()}
    after = sum(stored.metadata.data_bytes for stored in db._tablets()[0].state.rowsets)
    limit = db._maintenance.io_limit
    # The files' footers are not charged: they are read once, when a rowset is opened.
    assert 0.8 * before < limit.read_bytes < 1.5 * (before + after)
    assert 0.9 * after < limit.written_bytes < 1.2 * after
    shown = {sample.labels: sample.value for sample in limit.samples() if sample.labels}
    assert shown == {("read",): limit.read_bytes, ("written",): limit.written_bytes}


def test_statements_are_not_charged(db):
    table = db.create_table(definition())
    insert(db, table, range(ROWS))
    db.flush()
    db.compact_table(table)
    read(db, table)
    assert db._maintenance.io_limit.read_bytes == db._maintenance.io_limit.written_bytes == 0
