"""The first row of each group: rows behind the least key of their group are dropped, or all rows are sorted."""

from __future__ import annotations

import datetime
import importlib
import random
from decimal import Decimal
from typing import Any

import nyala
import pytest

ROWS = 400
VALUES: dict[str, tuple[str, list[Any]]] = {
    "small": ("SMALLINT", [*range(-5, 5), -32768, 32767]),
    "large": ("BIGINT", [-(2**63), 2**63 - 1, 0, -1, 2**62, *range(20)]),
    "double": ("DOUBLE", [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 5e-324, -1.5, 1e300, 2.5]),
    "text": ("VARCHAR", ["", "a", "ab", "b", "z" * 40, "é", "A", *(str(i) for i in range(30))]),
    "narrow": ("DECIMAL(9, 2)", [Decimal(n) / 100 for n in range(-20, 20)]),
    "wide": ("DECIMAL(38, 3)", [Decimal(n) * 10**30 for n in range(-9, 10)]),
    "day": ("DATE", [datetime.date(2020, 1, 1) + datetime.timedelta(n * 40) for n in range(15)]),
    "moment": ("TIMESTAMP", [datetime.datetime(2020, 1, 1, 3) + datetime.timedelta(seconds=n) for n in range(15)]),
    "bit": ("BOOLEAN", [True, False]),
}


@pytest.fixture(scope="module")
def connection() -> nyala.Connection:
    connection = nyala.connect(":memory:", threads=1)
    draw = random.Random(5)
    kinds = ", ".join(f"{name}_ {type_}" for name, (type_, _) in VALUES.items())
    connection.execute(f"CREATE TABLE f (k INT PRIMARY KEY, g SMALLINT, {kinds})")
    rows = [
        (k, draw.choice([None, *range(6)]), *(draw.choice([None, *values]) for _, values in VALUES.values()))
        for k in range(ROWS)
    ]
    marks = ", ".join("?" * (2 + len(VALUES)))
    connection.cursor().executemany(f"INSERT INTO f VALUES ({marks})", rows)
    return connection


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("direction", ["ASC", "DESC NULLS LAST", "NULLS FIRST"])
def test_the_first_of_a_group_is_that_of_a_sort(
    connection: nyala.Connection, name: str, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    top_rows = importlib.import_module("nyala.executor.operators.top_rows")
    texts = [
        f"SELECT DISTINCT ON (g) g, k, {name}_ FROM f ORDER BY g, {name}_ {direction}, k",
        f"SELECT DISTINCT ON (g) g, k, {name}_ FROM f WHERE k < 0 ORDER BY g, {name}_ {direction}, k",
        f"SELECT DISTINCT ON ({name}_) {name}_, k FROM f ORDER BY {name}_, small_ {direction}, k",
        f"SELECT k, {name}_ FROM f ORDER BY {name}_ {direction} FETCH FIRST 1 ROW WITH TIES",
        f"SELECT s.k, s.{name}_ FROM (VALUES (1), (2), (9)) AS t(g) JOIN LATERAL (SELECT k, {name}_ FROM f "
        f"WHERE f.g <= t.g ORDER BY {name}_ {direction}, k LIMIT 1) AS s ON true",
    ]
    for text in texts:
        found = []
        for fewest, worth in ((1, 1), (ROWS * 100, 1)):
            monkeypatch.setattr(top_rows, "_FEWEST", fewest)
            monkeypatch.setattr(top_rows, "_WORTH_SELECTING", worth)
            found.append(sorted(map(repr, connection.execute(text).fetchall())))
        assert found[0] == found[1], text


def test_explain_analyze_reports_the_rows_that_were_dropped() -> None:
    connection = nyala.connect(":memory:", threads=1)
    text = "SELECT DISTINCT ON (a) a, b FROM (SELECT n % 7 AS a, n AS b FROM generate_series(1, 7000) AS s(n)) AS t "
    plan = connection.execute("EXPLAIN ANALYZE " + text + "ORDER BY a, b").fetchall()
    assert any("first keys of groups: 6,993 of 7,000 rows dropped" in row[0] for row in plan), plan
