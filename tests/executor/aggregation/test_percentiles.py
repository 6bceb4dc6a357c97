"""Percentiles of partitioned groups, of sorted groups, and of a fraction that is computed by row are the same."""

from __future__ import annotations

import math

import numpy as np
import nyala
import pyarrow as pa
import pytest
from examples import few
from nyala.executor.aggregation import percentiles

ROWS = 3000
EXPRESSIONS = {
    "BIGINT": "w",
    "DOUBLE": "x",
    "FLOAT": "CAST(x AS FLOAT)",
    "DECIMAL(9,2)": "CAST(k % 977 AS DECIMAL(9,2)) / 4",
    "DECIMAL(38,5)": "CAST(w AS DECIMAL(38,5)) * 1000",
    "DATE": "DATE '2000-01-01' + CAST(k % 911 AS INT)",
    "TIMESTAMP": "TIMESTAMP '2000-01-01 00:00:00' + INTERVAL '1 second' * (k % 911)",
    "STRING": "CAST(k % 300 AS STRING)",
}


@pytest.fixture(scope="module")
def connection():
    rng = np.random.default_rng(5)
    k = np.arange(ROWS)
    w = rng.integers(-(2**63), 2**63 - 1, ROWS)
    x = rng.choice([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, *rng.normal(size=200)], ROWS)
    nulls = k % 7 == 3
    columns = {"k": k, "g": np.where(k % 50 == 0, k, k % 4), "w": pa.array(w, mask=nulls), "x": pa.array(x, mask=nulls)}
    with nyala.connect(":memory:", threads=2) as connection:
        connection.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, g BIGINT, w BIGINT, x DOUBLE)")
        connection.load("r", pa.table(columns))
        yield connection


@pytest.mark.parametrize("kind", few(list(EXPRESSIONS)))
@pytest.mark.parametrize("direction", ["", "DESC"])
@pytest.mark.parametrize("by", ["GROUP BY g", "GROUP BY k", "WHERE k < 0"])
def test_all_ways_agree(
    connection: nyala.Connection, monkeypatch: pytest.MonkeyPatch, kind: str, direction: str, by: str
) -> None:
    expression = EXPRESSIONS[kind]
    is_number = expression.startswith(("w", "x", "CAST(x", "CAST(w", "CAST(k % 977"))
    key = "min(k)"

    def rows(fraction: str) -> list[str]:
        functions = ["percentile_disc", *(["percentile_cont"] if is_number else [])]
        calls = [
            f"{function}({fraction.format(value)}) WITHIN GROUP (ORDER BY {expression} {direction}) {where}"
            for function in functions
            for value in (0, 0.25, 0.5, 1)
            for where in ("", "FILTER (WHERE k % 3 > 0)")
        ]
        found = connection.execute(f"SELECT {key}, {', '.join(calls)} FROM r {by} ORDER BY 1").fetchall()
        return [repr([v + 0.0 if isinstance(v, float) else v for v in row]) for row in found]

    monkeypatch.setattr(percentiles, "PARTITIONED_ROWS", 0)
    partitioned = rows("{}")
    monkeypatch.setattr(percentiles, "PARTITIONED_ROWS", 10**9)
    assert rows("{}") == partitioned
    assert rows("CASE WHEN k >= 0 THEN {} END") == partitioned


def test_percentiles_of_spilled_groups_are_the_same(connection: nyala.Connection) -> None:
    text = "SELECT k % 40, median(x), percentile_disc(0.2) WITHIN GROUP (ORDER BY w) FROM r GROUP BY k % 40 ORDER BY 1"
    wanted = connection.execute(text).fetchall()
    with nyala.connect(":memory:", threads=2, memory_limit="100kB") as small:
        small.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, g BIGINT, w BIGINT, x DOUBLE)")
        small.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", connection.execute("SELECT * FROM r").fetchall())
        assert repr(small.execute(text).fetchall()) == repr(wanted)


def test_a_fraction_that_is_null_has_no_value(connection: nyala.Connection) -> None:
    text = "SELECT percentile_cont(NULL) WITHIN GROUP (ORDER BY x) FROM r"
    assert connection.execute(text).fetchall() == [(None,)]
