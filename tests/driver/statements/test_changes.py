"""UPDATE, DELETE, UPSERT and INSERT IGNORE beside SQLite, which has the same statements in other words."""

from __future__ import annotations

import datetime
import sqlite3

import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

SETUP = [
    "CREATE TABLE t (k BIGINT PRIMARY KEY, a BIGINT, s TEXT)",
    "CREATE TABLE u (k BIGINT PRIMARY KEY, b BIGINT)",
    "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, NULL, 'x'), (4, 40, NULL)",
    "INSERT INTO u VALUES (1, 5), (3, NULL), (7, 70)",
]
CONDITIONS = [
    "",
    " WHERE a > 15",
    " WHERE s = 'x'",
    " WHERE a IS NULL OR k % 2 = 0",
    " WHERE k IN (SELECT k FROM u)",
    " WHERE a < (SELECT max(b) FROM u)",
    " WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
]
STATEMENTS = st.one_of(
    st.builds("DELETE FROM t{}".format, st.sampled_from(CONDITIONS[1:])),
    st.builds(
        "UPDATE t SET {}{}".format,
        st.sampled_from(["a = a + 1", "s = 'z', a = NULL", "a = (SELECT max(b) FROM u WHERE u.k = t.k)"]),
        st.sampled_from(CONDITIONS),
    ),
    st.just("UPDATE t SET a = u.b FROM u WHERE u.k = t.k"),
    st.builds("INSERT INTO t SELECT k + {0}, b, 'new' FROM u ON CONFLICT DO NOTHING".format, st.integers(0, 3)),
    st.builds("UPSERT INTO t (k, a) VALUES ({}, {}), ({}, 0)".format, *[st.integers(1, 8)] * 3),
    st.builds("UPSERT INTO t (k, s) SELECT k, 'up' FROM u WHERE k <> {}".format, st.integers(1, 8)),
)


def in_sqlite(text: str) -> str:
    """The statement in SQLite's words."""
    if text.startswith("INSERT"):
        return text.replace("FROM u ON", "FROM u WHERE true ON")
    if not text.startswith("UPSERT"):
        return text
    column = text[text.index("(k, ") + 4]
    tail = "" if "WHERE" in text or "VALUES" in text else " WHERE true"
    return f"INSERT{text.removeprefix('UPSERT')}{tail} ON CONFLICT (k) DO UPDATE SET {column} = excluded.{column}"


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STATEMENTS, min_size=1, max_size=6), st.sampled_from(["", "flush", "compact"]))
def test_changes_are_sqlites(statements, between):
    with nyala.connect(":memory:") as ours, sqlite3.connect(":memory:") as theirs:
        for text in SETUP:
            ours.execute(text)
            theirs.execute(text)
        for text in statements:
            counted = ours.execute(text).rowcount
            assert counted == theirs.execute(in_sqlite(text)).rowcount, text
            if between == "flush":
                ours.store.flush()
            elif between == "compact":
                ours.execute("COMPACT TABLE t")
            query = "SELECT k, a, s FROM t ORDER BY k"
            assert ours.execute(query).fetchall() == theirs.execute(query).fetchall(), text


def test_a_row_that_is_there_twice_in_from_is_updated_once():
    with nyala.connect(":memory:") as connection:
        for text in SETUP:
            connection.execute(text)
        connection.execute("UPDATE t SET a = x.b FROM (VALUES (1, 7), (1, 7), (9, 9)) AS x (k, b) WHERE x.k = t.k")
        assert connection.execute("SELECT a FROM t WHERE k = 1").fetchall() == [(7,)]
        connection.execute("DELETE FROM t USING (VALUES (1), (1)) AS x (k) WHERE x.k = t.k")
        assert connection.execute("SELECT k FROM t ORDER BY k").fetchall() == [(2,), (3,), (4,)]


def test_aggregates_of_a_column_that_was_updated_in_all_rows():
    columns = "b BOOLEAN, i SMALLINT, d DATE, n DECIMAL(30, 2), x FLOAT, s STRING"
    with nyala.connect(":memory:") as connection:
        connection.execute(f"CREATE TABLE u (k INT PRIMARY KEY, {columns})")
        connection.execute("INSERT INTO u VALUES (1, TRUE, 1, '2020-01-01', 1, 1, 'a'), (2, TRUE, 2, NULL, 2, 2, 'b')")
        connection.execute("COMPACT TABLE u")
        connection.execute("UPDATE u SET b = k = 1, i = 7 - k, d = DATE '2021-01-01' + k, n = -k, x = k / 4.0, s = 'u'")
        query = "SELECT {0}(b), {0}(i), {0}(d), {0}(n), {0}(x), {0}(s) FROM u"
        day = datetime.date(2021, 1, 2)
        assert connection.execute(query.format("min")).fetchall() == [(False, 5, day, -2, 0.25, "u")]
        day += datetime.timedelta(1)
        assert connection.execute(query.format("max")).fetchall() == [(True, 6, day, -1, 0.5, "u")]


def test_executemany_upserts():
    with nyala.connect(":memory:") as connection:
        connection.execute(SETUP[0])
        cursor = connection.cursor()
        for text in ("a", "b"):
            cursor.executemany("UPSERT INTO t (k, s) VALUES (?, ?)", [(k, f"{text}{k}") for k in range(3)])
        assert connection.execute("SELECT k, s FROM t ORDER BY k").fetchall() == [(0, "b0"), (1, "b1"), (2, "b2")]


def test_a_refused_value_changes_nothing():
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE n (k INT PRIMARY KEY, v TINYINT NOT NULL)")
        connection.execute("INSERT INTO n VALUES (1, 1), (2, 2)")
        with pytest.raises(nyala.DataError):
            connection.execute("UPDATE n SET v = v + 126")
        with pytest.raises(nyala.IntegrityError, match="NOT NULL"):
            connection.execute("UPDATE n SET v = (SELECT max(v) FROM n AS m WHERE m.k > n.k)")
        assert connection.execute("SELECT k, v FROM n ORDER BY k").fetchall() == [(1, 1), (2, 2)]
