"""Statistics of a table are computed for requested columns only, and once for concurrent requests."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from nyala.storage.database import Database
from nyala.storage.statistics import table_statistics
from tablet_support import HASHED, definition, insert


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns whose values in memory were looked at, in order."""
    names: list[str] = []
    add_values = table_statistics.add_values

    def noting(builder: Any, column: Any, *rest: Any) -> None:
        names.append(column.name)
        add_values(builder, column, *rest)

    monkeypatch.setattr(table_statistics, "add_values", noting)
    return names


def test_only_columns_that_are_asked_for_are_looked_at(looked_at: list[str]) -> None:
    with Database(":memory:") as db:
        table = db.create_table(definition(partitions=HASHED))
        insert(db, table, range(100))
        tablets = sum(tablet.rows > 0 for tablet in db.describe_tablets(table))
        statistics = db.statistics(table)
        assert statistics.row_count == 100
        assert looked_at == []
        assert statistics.columns["k"].low == 0
        assert statistics.columns["k"].high == 99
        assert looked_at == ["k"] * tablets
        assert "nothing" not in statistics.columns
        assert list(statistics.columns) == table.schema.names
        insert(db, table, range(100, 200))
        assert db.statistics(table).columns["k"].high == 199
        assert statistics.columns["k"].high == 99


def test_one_thread_looks_and_the_others_wait(looked_at: list[str]) -> None:
    with Database(":memory:") as db, ThreadPoolExecutor(8) as pool:
        table = db.create_table(definition())
        insert(db, table, range(1000))
        together = threading.Barrier(8)

        def ask(_: int) -> Any:
            together.wait()
            return db.statistics(table).columns["k"].distinct_count

        assert len(set(pool.map(ask, range(8)))) == 1
        assert looked_at == ["k"]


def test_rows_flushed_meanwhile_are_not_kept_for_the_statistics(looked_at: list[str]) -> None:
    with Database(":memory:") as db:
        table = db.create_table(definition())
        insert(db, table, range(100))
        before = db.statistics(table)
        db.flush()
        assert before.columns["k"].null_count == 0
        assert db.statistics(table).columns["k"].high == 99
        assert looked_at == []
