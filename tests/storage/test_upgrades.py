"""Stores that earlier versions have written open, read right, take writes of every kind, and are copied and repaired.

`old_files/write_store.py` wrote each of `old_files/<date>.zip` with the version of that day.
"""

from __future__ import annotations

import datetime
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.errors import UnsupportedFormat
from nyala.storage.files.os_filesystem import OsFileSystem
from nyala.storage.inspect.check.check_store import check_store
from nyala.storage.inspect.copying.copy_store import copy_store
from nyala.storage.inspect.repair.repair_store import propose_repair

pytestmark = pytest.mark.slow

STORES = sorted((Path(__file__).parent / "old_files").glob("20*.zip"))


@pytest.fixture(params=STORES, ids=lambda path: path.stem)
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    zipfile.ZipFile(request.param).extractall(tmp_path / "old")
    return tmp_path / "old"


def expected_readings() -> list[tuple[Any, ...]]:
    rows: dict[int, tuple[Any, ...]] = {}
    for n in range(60):
        at = datetime.datetime(2026, 11, 22, 4, 0, n % 60)
        day = datetime.date(2026, 11, n % 28 + 1)
        degrees, remark = (n / 4 + 1, "corrected") if 10 <= n <= 19 else (n / 4, f"remark {n % 5}")
        rows[n] = (f"station {n % 7}", n, at, day, degrees, Decimal(f"{n}.25"), remark, bool(n % 2), 7)
    del rows[20]
    rows[1000] = ("empty", 1000, *[None] * 6, 7)
    for n, station, degrees in ((2000, "new", 30.0), (2001, "new", 31.0), (2002, "other", 32.0)):
        rows[n] = (station, n, None, None, degrees, None, None, None, 7)
    return list(rows.values())


def expected_stations(has_transaction: bool) -> list[tuple[int, str]]:
    rows = {n: f"station {n}" for n in (*range(7), *range(100, 107)) if n != 3}
    rows |= {5: "moved", 105: "moved"}
    if has_transaction:
        rows |= {50: "both", 150: "both", 51: "last", 151: "last"}
    return sorted(rows.items())


def verify(connection: nyala.Connection) -> bool:
    """Compare all rows of a store as it was written; True if it has the transaction of later versions."""
    stations = connection.execute("SELECT id, name FROM stations ORDER BY id").fetchall()
    has_transaction = any(id_ == 50 for id_, _ in stations)
    assert stations == expected_stations(has_transaction)
    expected = expected_readings()
    if has_transaction:
        expected[1] = (*expected[1][:7], None, *expected[1][8:])
    assert connection.execute("SELECT * FROM readings ORDER BY n").fetchall() == expected
    assert connection.execute("SELECT n FROM warm ORDER BY n").fetchall() == [(2000,), (2001,), (2002,)]
    assert connection.execute("SELECT remark FROM readings WHERE station = 'station 4' AND n = 11").fetchall() == [
        ("corrected",)
    ]
    return has_transaction


def test_a_store_of_an_earlier_version_opens_and_takes_writes(directory: Path) -> None:
    assert check_store(OsFileSystem(), str(directory)).findings == []
    with nyala.connect(directory) as connection:
        before = connection.store.now()
        verify(connection)
        connection.execute("BEGIN")
        connection.execute("DELETE FROM readings WHERE n < 30")
        connection.execute("INSERT INTO stations VALUES (60, 'new'), (160, 'new')")
        connection.execute("COMMIT")
        connection.execute("UPDATE readings SET rain = 1.5 WHERE n >= 30")
        connection.execute("ALTER TABLE stations ADD COLUMN height DOUBLE DEFAULT 1.0")
        connection.execute("CREATE TABLE more PRIMARY KEY (id) AS SELECT id FROM stations")
    for statement in ("COMPACT TABLE readings", "COMPACT TABLE stations"):
        with nyala.connect(directory) as connection:
            connection.execute(statement)
            with connection.at(before) as past:
                verify(past)
            assert connection.execute("SELECT count(*), sum(rain) FROM readings").fetchall() == [(34, Decimal("51.00"))]
            assert connection.execute("SELECT count(height) FROM stations WHERE id IN (60, 160)").fetchall() == [(2,)]
            connection.store.check()
    assert check_store(OsFileSystem(), str(directory)).findings == []


def test_the_tools_read_an_earlier_version(directory: Path, tmp_path: Path) -> None:
    fs = OsFileSystem()
    report = check_store(fs, str(directory))
    assert propose_repair(fs, str(directory), report).lines() == ["repair: nothing to do"]
    copy_store(fs, str(directory), str(tmp_path / "copy"))
    with nyala.connect(tmp_path / "copy") as connection:
        verify(connection)


def test_a_later_version_is_refused_by_name(tmp_path: Path) -> None:
    with nyala.connect(tmp_path / "db") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    (tmp_path / "db" / "FORMAT").write_bytes(b"nyala store, format 2\n")
    with pytest.raises(UnsupportedFormat, match="format 2"):
        nyala.connect(tmp_path / "db")
