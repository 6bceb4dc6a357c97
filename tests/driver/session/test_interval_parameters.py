"""Interval placeholders: `INTERVAL ? DAY` equals `INTERVAL 'value' DAY` for every unit, style, clause and value."""

from __future__ import annotations

import datetime
import decimal
import itertools
from typing import Any

import nyala
import pytest
from nyala.errors import DataError, Error, InvalidText, TypeMismatch

UNITS = ["YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "DAY TO SECOND", "YEAR TO MONTH", ""]
VALUES: list[Any] = [1, 3, -2, "2", " 5 ", "1-2", "1 day 2 hours", decimal.Decimal("1.5"), 0.25, 1e-6, "x", None]


@pytest.fixture
def c() -> Any:
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, d DATE, m TIMESTAMP)")
        connection.execute("INSERT INTO t VALUES (1, DATE '2024-01-31', TIMESTAMP '2024-01-31 10:00')")
        yield connection


def outcome(c: Any, text: str, parameters: Any = None) -> Any:
    try:
        return c.execute(text, parameters).fetchall()
    except Error as error:
        return type(error), str(error).split("\n")[0]


@pytest.mark.parametrize("unit", UNITS)
def test_values_are_as_literals(c: Any, unit: str) -> None:
    """The texts with placeholders are the same ones each time, so that a plan that was kept would be used."""
    for value, (mark, wrap) in itertools.product(
        VALUES, [("?", lambda v: [v, v]), ("$1", lambda v: [v]), (":n", lambda v: {"n": v})]
    ):
        text = f"SELECT d + INTERVAL {{0}} {unit} AS x, m - INTERVAL {{0}} {unit} AS y FROM t"
        if value is None:
            expected = [(None, None)]
        else:
            written = value if isinstance(value, str) else f"{decimal.Decimal(str(value)):f}"
            expected = outcome(c, text.format(f"'{written}'"))
        assert outcome(c, text.format(mark), wrap(value)) == expected, value


def test_clauses(c: Any) -> None:
    late = "SELECT count(*) FROM t WHERE m > TIMESTAMP '2024-02-01' - INTERVAL ? HOUR"
    assert [c.execute(late, [hours]).fetchone() for hours in (15, 13, 15, None)] == [(1,), (0,), (1,), (0,)]
    days = c.execute("SELECT * FROM generate_series(DATE '2024-01-01', DATE '2024-01-05', INTERVAL ? DAY) g", [2])
    assert [row[0].day for row in days.fetchall()] == [1, 3, 5]
    frame = "sum(k) OVER (ORDER BY m RANGE BETWEEN INTERVAL ? DAY PRECEDING AND CURRENT ROW)"
    assert c.execute(f"SELECT {frame} FROM t", [1]).fetchall() == [(1,)]
    c.execute("UPDATE t SET d = d + INTERVAL ? MONTH WHERE k = ?", [1, 1])
    c.executemany("UPDATE t SET d = d + INTERVAL ? DAY WHERE k = ?", [(1, 1), (2, 1)])
    c.executemany("INSERT INTO t (k, d) VALUES (?, DATE '2024-01-31' + INTERVAL ? DAY)", [(2, 1), (3, "7")])
    found = c.execute("SELECT d FROM t ORDER BY k").fetchall()
    assert [day.isoformat() for (day,) in found] == ["2024-03-03", "2024-02-01", "2024-02-07"]


def test_what_is_no_interval(c: Any) -> None:
    for value, advice in (
        (True, "not BOOLEAN"),
        (datetime.date(2024, 1, 1), "not DATE"),
        (datetime.timedelta(1), "not INTERVAL; give it without INTERVAL"),
    ):
        with pytest.raises(TypeMismatch, match=advice):
            c.execute("SELECT INTERVAL ? DAY", [value])
    with pytest.raises(InvalidText, match="is not an INTERVAL"):
        c.execute("SELECT INTERVAL ? DAY", [float("nan")])
    with pytest.raises(DataError):
        c.execute("SELECT INTERVAL ? DAY", [10**30])
    assert c.execute("SELECT interval FROM (VALUES (1)) AS v (interval)").fetchall() == [(1,)]
