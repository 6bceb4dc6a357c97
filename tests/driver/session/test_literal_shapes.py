"""Texts that differ in their literals share a prepared statement, and do what they would do alone."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.driver.connection import Connection
from nyala.driver.session.literal_shapes import LONGEST_TEXT, MOST_LITERALS, Shape, shape_of
from nyala.errors import Error

TABLE = "CREATE TABLE t (k INT PRIMARY KEY, b BIGINT, d DECIMAL(9,2), s VARCHAR(5), day DATE, x DOUBLE, at TIMESTAMP)"
ROWS = (
    "INSERT INTO t VALUES (1, 10, 1.50, 'one', '2020-01-01', 0.5, '2020-01-01 00:00:00'),"
    " (2, NULL, 2.25, 'two', '2020-02-02', 2, NULL), (3, 30, NULL, NULL, NULL, NULL, '2020-01-03 10:00:00.5')"
)


@pytest.fixture
def connection() -> Iterator[Connection]:
    with nyala.connect(":memory:") as connection:
        connection.execute(TABLE)
        connection.execute(ROWS)
        yield connection


# ---- what a shape is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape", "values"),
    [
        ("SELECT s FROM t WHERE k = 5", "SELECT s FROM t WHERE k = ?", (5,)),
        ("SELECT s FROM t WHERE k=-5", "SELECT s FROM t WHERE k=?", (-5,)),
        (
            "SELECT s FROM t WHERE d >= 1.50 AND s <> 'it''s';",
            "SELECT s FROM t WHERE d >= ? AND s <> ?;",
            (Decimal("1.50"), "it's"),
        ),
        ("DELETE FROM t WHERE k BETWEEN 1 AND 9", "DELETE FROM t WHERE k BETWEEN ? AND ?", (1, 9)),
        ("UPDATE t SET b = 7, s = 'x' WHERE k = 1", "UPDATE t SET b = ?, s = ? WHERE k = ?", (7, "x", 1)),
        ("upsert into t (k, s) values (1, '')", "upsert into t (k, s) values (?, ?)", (1, "")),
        (
            "SELECT k FROM t WHERE day = DATE '2020-01-01'",
            "SELECT k FROM t WHERE day = ?",
            (datetime.date(2020, 1, 1),),
        ),
        (
            "SELECT k FROM t WHERE at < timestamp '2020-01-01 10:00:00.5'",
            "SELECT k FROM t WHERE at < ?",
            (datetime.datetime(2020, 1, 1, 10, 0, 0, 500_000),),
        ),
        ("SELECT 1 FROM t WHERE k = 5 LIMIT 3", "SELECT 1 FROM t WHERE k = ? LIMIT 3", (5,)),
        ("SELECT k FROM t WHERE s = 'k = 5' -- AND k = 6", "SELECT k FROM t WHERE s = ? -- AND k = 6", ("k = 5",)),
        ('SELECT "a = 5" FROM t /* k = 6 */ WHERE b = 7', 'SELECT "a = 5" FROM t /* k = 6 */ WHERE b = ?', (7,)),
    ],
)
def test_literals_that_are_compared_assigned_or_inserted_are_taken_out(
    text: str, shape: str, values: tuple[Any, ...]
) -> None:
    found = shape_of(text)
    assert found == Shape(shape, values)
    assert [type(value) for value in found.values] == [type(value) for value in values]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM t",
        "SELECT k FROM t WHERE k = ?",
        "SELECT k FROM t WHERE k = $1 AND b = 5",
        "SELECT k FROM t WHERE k = 5 + 1",
        "SELECT k FROM t WHERE k = 5::BIGINT",
        "SELECT k FROM t WHERE x = 1e3",
        "SELECT k FROM t WHERE s LIKE 'a%'",
        "SELECT k FROM t WHERE k IN (1, 2)",
        "SELECT k FROM t WHERE day = DATE 'today'",
        "SELECT k FROM t WHERE s = X'00'",
        "SELECT k FROM t WHERE k = 1234567890123456789",
        "SELECT k FROM t ORDER BY 1 LIMIT 5",
        f"SELECT k FROM t WHERE k = 5{' ' * LONGEST_TEXT}",
        f"INSERT INTO t VALUES {', '.join(['(1)'] * (MOST_LITERALS + 1))}",
    ],
)
def test_other_literals_stay(text: str) -> None:
    assert shape_of(text) is None


# ---- what is shared --------------------------------------------------------------------------------------------------


def kept(connection: Connection, text: str) -> list[str]:
    """The kinds of the prepared statements of a shape."""
    variants = connection.session.plans.find(text)
    assert variants is not None
    return ["row" if prepared.single is not None else "plan" for prepared in variants]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SELECT s FROM t WHERE k = {}", "row"),
        ("INSERT INTO t (k, b) VALUES ({}, 1)", "row"),
        ("UPDATE t SET b = b + 1 WHERE k = {}", "row"),
        ("DELETE FROM t WHERE k = {}", "row"),
        ("SELECT sum(b) FROM t WHERE k < {}", "plan"),
        ("SELECT s, count(*) FROM t WHERE b > {} GROUP BY 1 ORDER BY 1", "plan"),
        ("DELETE FROM t WHERE b > {}", "plan"),
    ],
)
def test_a_shape_is_prepared_when_it_comes_again(connection: Connection, text: str, kind: str) -> None:
    for value in range(10, 15):
        connection.execute(text.format(value))
    plans = connection.session.plans
    shape = shape_of(text.format(10))
    assert shape is not None
    assert kept(connection, shape.text) == [kind]
    assert [plans.find(text.format(value)) is None for value in range(10, 15)] == [False, *[True] * 4]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT u.s FROM t JOIN t u ON t.b = u.b WHERE t.k = {}",
        "SELECT k, {0} AS n FROM t WHERE k > now() - {0}",
        "SELECT s FROM t FOR SYSTEM_TIME AS OF now() WHERE k = {}",
        "EXPLAIN SELECT s FROM t WHERE k = {}",
        "SELECT CASE WHEN k = {} THEN 1 END FROM t ORDER BY CASE WHEN 1 = {} THEN 1 END",
    ],
)
def test_plans_that_depend_on_values_are_not_shared(connection: Connection, text: str) -> None:
    for value in range(1, 5):
        try:
            connection.execute(text.format(value, value)).fetchall()
        except Error:
            continue
        shape = shape_of(text.format(value, value))
        assert shape is not None
        assert not any(prepared.scans > 1 for prepared in connection.session.plans.find(shape.text) or ())


def test_a_shape_is_bound_again_after_the_table_was_altered(connection: Connection) -> None:
    text = "SELECT * FROM t WHERE k = {}"
    widths = [len(connection.execute(text.format(k)).fetchall()[0]) for k in (1, 2, 3)]
    connection.execute("ALTER TABLE t ADD COLUMN more INT DEFAULT 4")
    widths += [len(connection.execute(text.format(k)).fetchall()[0]) for k in (1, 2, 3)]
    assert widths == [7, 7, 7, 8, 8, 8]
    connection.execute("ALTER TABLE t DROP COLUMN s")
    for k in (1, 2, 3):
        with pytest.raises(Error, match="s"):
            connection.execute(f"SELECT s FROM t WHERE k = {k}")


# ---- the same as alone -----------------------------------------------------------------------------------------------

VALUES = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([1 << 31, -(1 << 31) - 1, (1 << 62), 10**17, 10**18, 10**19, 10**38]),
    st.decimals(-100, 100, places=2),
    st.sampled_from([Decimal("1.5"), Decimal("0.000"), Decimal("12345678.901")]),
    st.sampled_from(["one", "it's", "", "2", "2020-01-01", "x" * 9, "é", "%", "-- no", "\n"]),
    st.dates(datetime.date(2019, 12, 30), datetime.date(2020, 1, 3)),
    st.datetimes(datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2)),
    st.sampled_from([None, True, 1.5e300]),
)


def spelt(value: Any) -> str:
    """A literal."""
    if value is None or value is True:
        return str(value).replace("None", "NULL").upper()
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


STATEMENTS = (
    "SELECT * FROM t WHERE k = {}",
    "SELECT s FROM t WHERE b >= {} AND x < {} ORDER BY k",
    "SELECT k, 10 / (k - 2) FROM t WHERE d = {} OR s = {} ORDER BY 1",
    "SELECT count(*) FROM t WHERE day BETWEEN {} AND {}",
    "SELECT k FROM t WHERE at > {} AND s <> {} LIMIT 2",
    "SELECT sum(b), max(s) FROM t WHERE k <= {} HAVING count(*) > {}",
    "SELECT k FROM t WHERE (k = {}) = (b = {}) ORDER BY k",
    "SELECT k FROM t WHERE k = {}+1 AND b = -{}",
    "SELECT coalesce(s = {}, x > {}) FROM t ORDER BY k",
    "SELECT k = {} FROM t WHERE day=DATE {} ORDER BY k",
    "INSERT INTO t (k, b, s) VALUES ({}, {}, 'new')",
    "INSERT INTO t (k, d) VALUES ({}, 3), (8, {})",
    "UPSERT INTO t (k, x, day, at) VALUES (2, {0}, {1}, {1})",
    "UPDATE t SET b = {}, s = 'upd' WHERE k = {}",
    "UPDATE t SET b = b + {} WHERE k = {}",
    "UPDATE t SET d = {} WHERE s = {}",
    "DELETE FROM t WHERE k = {} AND b = {}",
    "DELETE FROM t WHERE x > {} AND x < {}",
)


def outcome(connection: Connection, text: str) -> Any:
    try:
        cursor = connection.execute(text)
        rows = cursor.fetchall() if cursor.description is not None else None
        return cursor.rowcount, cursor.description, repr(rows)
    except Error as error:
        return type(error), str(error)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STATEMENTS), VALUES, VALUES), min_size=1, max_size=15))
def test_statements_do_what_they_would_do_alone(steps: list[tuple[str, Any, Any]]) -> None:
    """One connection prepares nothing. The other runs each statement with other values too, so that it is shared."""
    with nyala.connect(":memory:") as alone, nyala.connect(":memory:") as shared:
        alone.session.plans.enabled = False
        for connection in (alone, shared):
            connection.execute(TABLE)
            connection.execute(ROWS)
        for text, first, second in steps:
            for values in ((first, second), (second, first), (first, 1), (2, second)):
                statement = text.format(*map(spelt, values))
                assert outcome(shared, statement) == outcome(alone, statement), statement
        contents = "SELECT * FROM t ORDER BY k"
        assert outcome(shared, contents) == outcome(alone, contents)


def test_a_shape_may_be_that_of_a_statement_with_parameters(connection: Connection) -> None:
    assert connection.execute("SELECT s FROM t WHERE k = ?", [1]).fetchall() == [("one",)]
    assert connection.execute("SELECT s FROM t WHERE k = 2").fetchall() == [("two",)]
    assert connection.execute("SELECT s FROM t WHERE k = ?", [2]).fetchall() == [("two",)]
    with pytest.raises(Error, match="1 placeholder, 0 given"):
        connection.execute("SELECT s FROM t WHERE k = ?")
    assert shape_of("SELECT s FROM t WHERE k = 2") == Shape("SELECT s FROM t WHERE k = ?", (2,))
