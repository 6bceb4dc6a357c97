"""Space of rows that are gone: their log goes with them, and a store that is closed leaves no useless file."""

from __future__ import annotations

import random
import time
from pathlib import Path

import nyala
import pyarrow as pa
import pytest
from nyala.driver.connection import Connection
from nyala.model.clock import wall_microseconds
from nyala.model.store import Op, WriteBatch
from nyala.storage.database import Database
from nyala.storage.files.os_filesystem import OsFileSystem
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.maintenance.tablet_flush import flush_deltas
from tablet_support import batch, definition, read


def opened(path: Path) -> Connection:
    connection = nyala.connect(path, history_seconds=0, durability="os")
    connection.execute("CREATE TABLE IF NOT EXISTS t (k INT PRIMARY KEY, v STRING)")
    return connection


def files(path: Path) -> list[str]:
    return sorted(file.name for file in path.rglob("rowset-*"))


def test_the_log_of_rows_whose_rowset_is_dropped_goes(tmp_path: Path) -> None:
    """Nothing else is flushed; before, their deletions were replayed at each opening."""
    with opened(tmp_path / "s") as connection:
        store = connection.store
        assert isinstance(store, Database)
        connection.execute("INSERT INTO t SELECT n, 'abcdefgh' || n FROM generate_series(1, 20000) AS g(n)")
        store.flush()
        connection.execute("DELETE FROM t")
        time.sleep(0.01)  # history of no length is over
        store.maintain()
        (tablet,) = store._tablets()
        assert tablet.state.rowsets == () and tablet.log.size == 0
        assert tablet.metadata.replay_index == tablet.log.last_index
    assert files(tmp_path) == []
    with opened(tmp_path / "s") as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
    assert check_store(OsFileSystem(), str(tmp_path / "s")).errors == []


def test_rows_in_memory_keep_their_log(tmp_path: Path) -> None:
    """Log entries of rows in memory stay, although a rowset was dropped after them."""
    connection = opened(tmp_path / "s")
    store = connection.store
    assert isinstance(store, Database)
    connection.execute("INSERT INTO t SELECT n, 'abcdefgh' || n FROM generate_series(1, 1000) AS g(n)")
    store.flush()
    connection.execute("INSERT INTO t VALUES (5000, 'in memory')")
    connection.execute("DELETE FROM t WHERE k <= 1000")
    time.sleep(0.01)
    store.maintain()
    connection.close()
    with opened(tmp_path / "s") as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == [(5000, "in memory")]


def test_close_leaves_no_retired_files(tmp_path: Path) -> None:
    """Readers that are there keep files of replaced rowsets until then."""
    connection = opened(tmp_path / "s")
    connection.execute("INSERT INTO t SELECT n, 'abcdefgh' || n FROM generate_series(1, 20000) AS g(n)")
    connection.execute("COMPACT TABLE t")
    scan = connection.table("t").scan()
    cursor = connection.execute("SELECT * FROM t")
    cursor.fetchone()
    connection.execute("UPDATE t SET v = v || 'x'")
    connection.execute("COMPACT TABLE t")
    before = files(tmp_path)
    connection.close()
    assert len(files(tmp_path)) < len(before)
    report = check_store(OsFileSystem(), str(tmp_path / "s"))
    assert report.findings == []
    with opened(tmp_path / "s") as connection:
        assert connection.execute("SELECT count(*) FROM t WHERE v LIKE '%x'").fetchone() == (20000,)
    del scan, cursor


def test_history_that_is_over_gives_its_space_back_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that are overwritten and rows that are deleted: no COMPACT TABLE is needed."""
    monkeypatch.setattr("nyala.storage.maintenance.maintenance_ops.HISTORY_SECONDS", 0.0)  # looks at each round
    with Database(":memory:", background=False, history_seconds=3600) as db:
        later, rng = 0, random.Random(7)
        db.clock.steady = lambda: wall_microseconds() + later
        table = db.create_table(definition())
        db.write(table, WriteBatch(random_rows(rng)))
        db.flush(table)
        once = data_bytes(db)
        for _ in range(3):
            db.write(table, WriteBatch(random_rows(rng), Op.UPDATE))
            flush_all_deltas(db)
        db.write(table, WriteBatch(batch(range(3000)), Op.DELETE))
        flush_all_deltas(db)
        db.maintain()
        kept = data_bytes(db)
        assert kept > 2 * once
        later = 2 * 3600 * 1_000_000  # the history is older than history_seconds now
        db.maintain()
        assert data_bytes(db) < once
        assert [k for k, _ in read(db, table)] == list(range(3000, 4000))


def random_rows(rng: random.Random) -> pa.RecordBatch:
    """4,000 rows whose texts cannot be compressed."""
    return batch(range(4000)).set_column(1, "v", pa.array([rng.randbytes(20).hex() for _ in range(4000)]))


def flush_all_deltas(db: Database) -> None:
    for tablet in db._tablets():
        for stored in tablet.state.rowsets:
            flush_deltas(tablet, stored)


def data_bytes(db: Database) -> int:
    return sum(stored.metadata.data_bytes for tablet in db._tablets() for stored in tablet.state.rowsets)
