"""Quotas of tables: writes above them are refused with advice, deletions and compactions go on and make room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nyala
import pyarrow as pa
import pytest
from nyala.errors import InterfaceError, QuotaExceeded
from nyala.model.alterations import SetQuota
from nyala.model.store import Op, WriteBatch
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.files.page_cache import PageCache
from nyala.storage.maintenance.memory import Memory
from nyala.storage.tables.quotas import table_bytes
from tablet_support import HASHED, batch, definition, insert, keys_of, load


@pytest.fixture
def db() -> Any:
    with Database("/db", fs=MemoryFileSystem(), background=False, history_seconds=0) as db:
        yield db


def limited(db: Database, quota: int) -> Any:
    """Table `t` with 2,000 rows on disk, and a quota."""
    table = db.create_table(definition("t", HASHED))
    insert(db, table, range(2000))
    db.flush(table)
    return db.alter_table("t", [SetQuota(quota)])


def test_every_way_to_write_is_refused_and_deletions_are_not(db: Database) -> None:
    table = limited(db, 1000)
    other = db.create_table(definition("other"))
    attempts = [
        lambda: insert(db, table, [3000]),
        lambda: insert(db, table, [1], "new", Op.UPDATE),
        lambda: db.write(table, WriteBatch(batch([1, 2]), ops=pa.array([5, 3], pa.uint8()).to_numpy())),
        lambda: db.write_row(table, Op.UPSERT, {"k": 3000, "v": "x"}),
        lambda: load(db, table, range(3000, 3100)) if db.bulk_loader(table) else None,
        lambda: committed(db, table, other),
    ]
    for attempt in attempts:
        with pytest.raises(QuotaExceeded, match=r"table t has reached its quota: .* of 1,000 bytes") as raised:
            attempt()
        assert raised.value.sqlstate == "53100" and "... SET QUOTA" in str(raised.value)
    assert keys_of(db, table) == list(range(2000)) and keys_of(db, other) == []
    assert db.write(table, WriteBatch(batch([1, 2]), Op.DELETE)).applied == 2
    db.write_row(table, Op.DELETE, {"k": 3})
    assert insert(db, other, [1]).applied == 1
    db.alter_table("t", [SetQuota(None)])
    assert insert(db, db.table("t"), [1, 2, 3]).applied == 3


def committed(db: Database, table: Any, other: Any) -> None:
    transaction = db.begin()
    transaction.write(other, WriteBatch(batch([7])))
    transaction.write(table, WriteBatch(batch([3000])))
    transaction.commit()


def test_a_transaction_that_changes_tables_is_refused_too(db: Database) -> None:
    table = limited(db, 1000)
    transaction = db.begin()
    transaction.create_table(definition("new"))
    transaction.write(table, WriteBatch(batch([3000])))
    with pytest.raises(QuotaExceeded):
        transaction.commit()
    assert [each.name for each in db.tables()] == ["t"]


def test_deleted_rows_make_room_after_a_compaction(db: Database) -> None:
    table = limited(db, 1000)
    size = table_bytes(db.open_table(table).whole_tablets)
    table = db.alter_table("t", [SetQuota(size)])
    with pytest.raises(QuotaExceeded):
        insert(db, table, [3000])
    db.write(table, WriteBatch(batch(range(1500)), Op.DELETE))
    db.compact_table(table)
    assert table_bytes(db.open_table(table).whole_tablets) < size / 2
    assert insert(db, table, [3000]).applied == 1


def test_a_quota_is_stored_shown_and_of_directories_only(tmp_path: Path) -> None:
    with nyala.connect(tmp_path / "db") as connection:
        connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY) QUOTA '1.5GB' COMMENT 'limited'")
        assert "QUOTA 1610612736\nCOMMENT" in connection.execute("SHOW CREATE TABLE t").fetchone()[0]
        connection.execute("CREATE TABLE u (k BIGINT PRIMARY KEY)")
        connection.execute("ALTER TABLE u SET QUOTA 5000")
        connection.execute("ALTER TABLE t SET QUOTA NONE")
        with pytest.raises(InterfaceError, match="QUOTA"):
            connection.execute("ALTER TABLE t SET QUOTA 'much'")
        with pytest.raises(nyala.Error):
            connection.execute("ALTER TABLE t SET QUOTA 0")
    with nyala.connect(tmp_path / "db") as connection:
        assert "QUOTA" not in connection.execute("SHOW CREATE TABLE t").fetchone()[0]
        text = connection.execute("SHOW CREATE TABLE u").fetchone()[0]
        assert text.endswith("QUOTA 5000")
        connection.execute("DROP TABLE u")
        connection.execute(text)
        assert connection.store.table("u").quota_bytes == 5000


class Full:
    """A store whose memory is full until a writer that waits flushes it."""

    bytes = 1000

    def own(self) -> int:
        return self.bytes

    def relieve(self) -> bool:
        self.bytes = 0
        return True


def test_a_write_that_waits_for_memory_is_counted_and_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nyala.storage.maintenance.memory.LOGGED_WAIT", 0.0)
    store = Full()
    memory = Memory(store.own, PageCache(0), store.relieve, limit_bytes=500)
    memory.admit(100)
    assert memory.measure().waited_writes == 1
    assert "store_memory is full" in caplog.text
    store.bytes = 1000
    memory.measure()
    memory.admit(100)
    assert memory.measure().waited_writes == 2
    assert caplog.text.count("store_memory is full") == 1  # one line a minute
    memory.close()
