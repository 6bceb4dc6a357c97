"""Space of rows that are gone: their log goes with them, and a store that is closed leaves no useless file."""

from __future__ import annotations

import time
from pathlib import Path

import nyala
from nyala.driver.connection import Connection
from nyala.storage.database import Database
from nyala.storage.files.os_filesystem import OsFileSystem
from nyala.storage.inspect.check.check_store import check_store


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
