"""INSERT ... ON CONFLICT beside SQLite: the same statements, the same rows written and given back."""

from __future__ import annotations

import sqlite3
import threading
from typing import Any

import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import AlreadyPresent, CardinalityViolation, NotNullViolation

KEYS = st.integers(0, 6)
NUMBERS = st.integers(0, 9)
ROWS = st.lists(st.tuples(KEYS, NUMBERS), min_size=1, max_size=5)
UNIQUE_ROWS = st.lists(st.tuples(KEYS, NUMBERS), min_size=1, max_size=5, unique_by=lambda row: row[0])
TABLE = "CREATE TABLE t (k INT PRIMARY KEY, n INT, s {text} DEFAULT 'new', m INT)"


def values(rows: list[tuple[int, int]]) -> str:
    return ", ".join(f"({k}, {n})" for k, n in rows)


STATEMENTS = st.one_of(
    UNIQUE_ROWS.map(
        lambda rows: f"INSERT INTO t (k, n) VALUES {values(rows)} ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n"
    ),
    st.tuples(UNIQUE_ROWS, NUMBERS).map(
        lambda drawn: (
            f"INSERT INTO t (k, n) VALUES {values(drawn[0])} ON CONFLICT (k) DO UPDATE "
            f"SET s = 'was ' || t.n, n = excluded.n, m = excluded.k WHERE t.n < {drawn[1]}"
        )
    ),
    UNIQUE_ROWS.map(
        lambda rows: (
            f"INSERT INTO t (k, n) SELECT k + 1, n FROM t WHERE k < {rows[0][0]} ON CONFLICT (k) "
            "DO UPDATE SET (n, s) = (excluded.n, (SELECT 'max ' || max(n) FROM t))"
        )
    ),
    ROWS.map(lambda rows: f"INSERT INTO t (k, n) VALUES {values(rows)} ON CONFLICT DO NOTHING"),
    st.tuples(KEYS, NUMBERS).map(lambda d: f"UPDATE t SET n = n + 1, (s, m) = (s || '!', n) WHERE k < {d[0]}"),
    NUMBERS.map(lambda n: f"DELETE FROM t WHERE n = {n}"),
)
RETURNING = st.sampled_from(["*", "k, n", "n * 2 AS twice, upper(s), t.k", "k + m"])


@settings(max_examples=examples(63), deadline=None)
@given(st.lists(st.tuples(STATEMENTS, RETURNING), min_size=1, max_size=8))
def test_the_same_as_in_sqlite(script: list[tuple[str, str]]) -> None:
    model = sqlite3.connect(":memory:")
    model.execute(TABLE.format(text="TEXT"))
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute(TABLE.format(text="STRING"))
        for statement, returning in script:
            # SQLite reads `SELECT ... ON CONFLICT` as a join's ON without this WHERE, and has no alias in RETURNING.
            text = f"{statement} RETURNING {returning}"
            expected = model.execute(text.replace("t.k", "k")).fetchall()
            cursor = connection.execute(text)
            found = cursor.fetchall()
            assert sorted(map(repr, found)) == sorted(map(repr, expected)), text
            assert cursor.rowcount == len(expected)
            assert table(connection) == model.execute("SELECT * FROM t ORDER BY k").fetchall(), text


def table(connection: Any) -> list[tuple[Any, ...]]:
    return list(connection.execute("SELECT * FROM t ORDER BY k").fetchall())


@pytest.fixture
def numbers(connection: Any) -> Any:
    connection.execute("CREATE TABLE t (k INT, l INT, n INT NOT NULL, s STRING DEFAULT 'd', PRIMARY KEY (k, l))")
    connection.execute("INSERT INTO t VALUES (1, 1, 10, 'a'), (2, 1, 20, 'b')")
    return connection


def test_the_rowcount_counts_rows_that_were_written(numbers: Any) -> None:
    text = "INSERT INTO t (k, l, n) VALUES (1, 1, 5), (2, 1, 5), (3, 1, 5) ON CONFLICT (k, l) DO UPDATE SET n = 0"
    assert numbers.execute(text + " WHERE t.n > 15").rowcount == 2
    assert table(numbers) == [(1, 1, 10, "a"), (2, 1, 0, "b"), (3, 1, 5, "d")]


def test_columns_that_set_does_not_name_stay(numbers: Any) -> None:
    numbers.execute("INSERT INTO t VALUES (1, 1, 11, 'other') ON CONFLICT DO UPDATE SET n = excluded.n")
    assert table(numbers)[0] == (1, 1, 11, "a")


def test_a_row_is_changed_once(numbers: Any) -> None:
    for rows in ("(1, 1, 5), (1, 1, 6)", "(7, 7, 5), (7, 7, 6)"):
        with pytest.raises(CardinalityViolation, match="is twice among the proposed rows"):
            numbers.execute(f"INSERT INTO t (k, l, n) VALUES {rows} ON CONFLICT DO UPDATE SET n = 0")
    # A row that was left alone may come again (PostgreSQL).
    text = "INSERT INTO t (k, l, n) VALUES (1, 1, 5), (1, 1, 6) ON CONFLICT DO UPDATE SET n = excluded.n"
    assert numbers.execute(f"{text} WHERE excluded.n = 6").rowcount == 1
    assert table(numbers) == [(1, 1, 6, "a"), (2, 1, 20, "b")]


def test_nothing_is_written_where_one_row_is_refused(numbers: Any) -> None:
    with pytest.raises(NotNullViolation):
        numbers.execute(
            "INSERT INTO t (k, l, n) VALUES (9, 9, 9), (1, 1, 5) ON CONFLICT DO UPDATE SET n = nullif(t.n, 10)"
        )
    assert len(table(numbers)) == 2


def test_an_alias_and_a_query_with_ctes(numbers: Any) -> None:
    text = """WITH more AS (SELECT k + 1 AS k, l, n FROM t)
              INSERT INTO t AS old (k, l, n) SELECT * FROM more
              ON CONFLICT (l, k) DO UPDATE SET n = old.n * excluded.n, s = DEFAULT RETURNING old.k, n, s"""
    assert sorted(numbers.execute(text).fetchall()) == [(2, 200, "d"), (3, 20, "d")]


def test_upsert_gives_back_what_it_leaves_behind(numbers: Any) -> None:
    text = "UPSERT INTO t (k, l, n) VALUES (1, 1, 5), (5, 5, 5), (5, 5, 6) RETURNING *"
    assert sorted(numbers.execute(text).fetchall()) == [(1, 1, 5, "a"), (5, 5, 6, "d")]


def test_writers_at_once_lose_and_double_no_row(connection: Any) -> None:
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, n INT)")
    failures: list[BaseException] = []

    def write(start: int) -> None:
        try:
            for i in range(40):
                rows = ", ".join(f"({(start + i + j) % 50}, {start})" for j in range(5))
                connection.execute(f"INSERT INTO t VALUES {rows} ON CONFLICT DO UPDATE SET n = excluded.n")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    found = connection.execute("SELECT k, count(*) FROM t GROUP BY k ORDER BY k").fetchall()
    assert found == [(k, 1) for k in range(46)]


def test_plain_inserts_still_refuse(numbers: Any) -> None:
    with pytest.raises(AlreadyPresent):
        numbers.execute("INSERT INTO t (k, l, n) VALUES (1, 1, 5) RETURNING n")
    assert (
        numbers.executemany(
            "INSERT INTO t (k, l, n) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = excluded.n", [(1, 1, 1), (8, 8, 8)]
        ).rowcount
        == 2
    )
