"""Estimated row counts in cases where a wrong estimate once led to a bad plan."""

from __future__ import annotations

import re

import nyala
import pyarrow as pa
import pytest


@pytest.fixture(scope="module")
def connection():
    """200 years of days, two of them with sales."""
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE days (day INT PRIMARY KEY, year INT, week_day INT)")
        connection.execute("CREATE TABLE sales (day INT, number INT, amount INT, PRIMARY KEY (day, number))")
        days = pa.array(range(73_000))
        years = pa.array([day // 365 for day in range(73_000)])
        connection.load("days", pa.table({"day": days, "year": years, "week_day": [day % 7 for day in range(73_000)]}))
        sold = [day for day in range(36_500, 37_230, 7) for _ in range(50)]
        numbers = list(range(len(sold)))
        connection.load("sales", pa.table({"day": sold, "number": numbers, "amount": numbers}))
        yield connection


def expected_rows(connection, query: str) -> tuple[float, int, str]:
    """Return the estimated and actual rows of the topmost join, and the plan."""
    lines = [row[0] for row in connection.execute(f"EXPLAIN ANALYZE {query}").fetchall()]
    join = next(line for line in lines if "Join" in line)
    given, expected = re.search(r"\(([\d,]+) rows, ~([\d,]+) rows expected", join).groups()
    return float(expected.replace(",", "")), int(given.replace(",", "")), "\n".join(lines)


@pytest.mark.parametrize(
    "condition", ["year = 100", "year IN (100, 101)", "week_day = 2", "day BETWEEN 36600 AND 36700", "true"]
)
def test_facts_refer_to_a_few_keys_of_a_long_dimension(connection, condition):
    """The selected days are assumed to lie in the range of the sales."""
    query = f"SELECT sum(amount) FROM sales JOIN days USING (day) WHERE {condition}"
    expected, given, plan = expected_rows(connection, query)
    assert given / 3 <= expected <= given * 3, plan


def test_a_selective_dimension_filters_the_facts(connection):
    """Few of the days with possible sales are selected, though as many as there are days with sales."""
    query = "SELECT sum(amount) FROM sales JOIN days USING (day) WHERE year = 100 AND week_day = 2"
    assert "runtime filter on sales.day" in expected_rows(connection, query)[2]
