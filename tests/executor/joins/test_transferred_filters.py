"""Conditions that pass from one table to another over a join's keys (`planner.physical.transferred_filters`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import nyala
import pyarrow as pa
import pytest

DAYS, SALES, STOCK = 3_650, 3_000, 60_000


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[Any, Any]]:
    """Sales and stock of items by day, in nyala and in DuckDB; some days and weeks are NULL."""
    rng = np.random.default_rng(3)

    def some_null(values: np.ndarray) -> pa.Array:
        return pa.array(values, pa.int32(), mask=rng.random(len(values)) < 0.02)

    days = np.arange(DAYS)
    tables = {
        "days": pa.table(
            {
                "day": pa.array(days, pa.int32()),
                "week": some_null(days // 7),
                "year": pa.array(2000 + days // 365, pa.int32()),
                "name": [f"day {day % 7}" for day in days],
            }
        ),
        "sales": pa.table(
            {
                "n": np.arange(SALES),
                "item": pa.array(rng.integers(0, 300, SALES), pa.int32()),
                "sold": some_null(rng.integers(0, DAYS, SALES)),
            }
        ),
        "stock": pa.table(
            {
                "m": np.arange(STOCK),
                "item": pa.array(rng.integers(0, 300, STOCK), pa.int32()),
                "counted": some_null(rng.integers(0, DAYS, STOCK)),
            }
        ),
    }
    peer = duckdb.connect()
    with nyala.connect(":memory:", threads=2) as store:
        for name, source in tables.items():
            types = {"int32": "INT", "int64": "BIGINT", "string": "STRING"}
            columns = ", ".join(f"{field.name} {types[str(field.type)]}" for field in source.schema)
            store.execute(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({source.schema.names[0]}))")
            store.load(name, source)
            store.execute(f"ANALYZE {name}")
            peer.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
        yield store, peer
    peer.close()


CONDITIONS = {
    "a range": "s.year = 2001",
    "a residual": "(s.year + s.day) % 3 = 0 AND s.year = 2001",
    "a text": "s.name LIKE '%3' AND s.week < 20",
    "no row": "s.year = 1999",
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS.keys())
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_rows_are_those_of_duckdb(stores: tuple[Any, Any], condition: str, join: str) -> None:
    store, peer = stores
    query = f"""
        SELECT s.week, count(*), sum(m), min(n) FROM sales JOIN stock ON sales.item = stock.item
        {join} days AS s ON sold = s.day AND {condition} JOIN days AS c ON counted = c.day
        WHERE s.week = c.week GROUP BY s.week ORDER BY 1
    """
    assert store.execute(query).fetchall() == peer.execute(query).fetchall()


def test_the_weeks_of_sales_filter_days_and_stock(stores: tuple[Any, Any]) -> None:
    """The scan of the larger table yields the rows of one year and the items, not of all days."""
    store, _ = stores
    query = """
        SELECT count(*) FROM sales JOIN stock ON sales.item = stock.item
        JOIN days AS s ON sold = s.day JOIN days AS c ON counted = c.day WHERE s.week = c.week AND s.year = 2002
    """
    text = "\n".join(row[0] for row in store.execute(f"EXPLAIN ANALYZE {query}").fetchall())
    assert "runtime filter on c.week" in text and "runtime filter on stock.counted" in text, text
    scanned = re.search(r"TableScan stock  \(([\d,]+) rows", text)
    assert scanned and int(scanned[1].replace(",", "")) < STOCK / 8, text
