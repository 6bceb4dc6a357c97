"""Statements that are run again with other values do what they would do if they were new."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import nyala
import pytest
from examples import examples, few
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.driver.connection import Connection
from nyala.driver.session.plan_cache import Prepared
from nyala.errors import AlreadyPresent, DataError, Error, InterfaceError, ProgrammingError

DAY = datetime.date(2020, 1, 1)
TABLE = "CREATE TABLE t (k INT PRIMARY KEY, b BIGINT, d DECIMAL(9,2), s VARCHAR(5), day DATE, x DOUBLE)"


@pytest.fixture
def connection() -> Iterator[Connection]:
    with nyala.connect(":memory:") as connection:
        connection.execute(
            "CREATE TABLE t (k INT PRIMARY KEY, b BIGINT, d DECIMAL(9,2), s VARCHAR(5), day DATE, x DOUBLE)"
        )
        connection.execute(
            "INSERT INTO t VALUES (1, 10, 1.50, 'one', '2020-01-01', 0.5), (2, NULL, 2.25, 'two', '2020-02-02', 2),"
            " (3, 30, NULL, NULL, NULL, NULL)"
        )
        yield connection


def kept(connection: Connection, text: str) -> list[str]:
    """Kind of each cached variant of a text."""
    found = connection.session.plans.find(text)
    assert found is not None
    return ["row" if prepared.single is not None else "plan" for prepared in found]


def rows(connection: Connection, text: str, *parameters: Any) -> list[Any]:
    return connection.execute(text, parameters).fetchall()


def test_a_statement_is_planned_once(connection: Connection) -> None:
    text = "SELECT k FROM t WHERE b > ? ORDER BY k"
    assert rows(connection, text, 5) == [(1,), (3,)]
    assert rows(connection, text, 20) == [(3,)]
    assert rows(connection, text, 1 << 40) == []
    assert kept(connection, text) == ["plan"]


def test_the_short_way_is_taken_where_a_row_is_named_by_its_key(connection: Connection) -> None:
    for text, parameters in {
        "SELECT s, d FROM t WHERE k = ?": (1,),
        "INSERT INTO t (k, s) VALUES (?, ?)": (7, "x"),
        "UPSERT INTO t (k, s) VALUES (?, 'y')": (7,),
        "UPDATE t SET s = ? WHERE ? = k": ("z", 7),
        "DELETE FROM t WHERE k = ?": (7,),
        "SELECT s FROM t WHERE k = ? AND b = 5": (1,),
        "UPDATE t SET b = ? WHERE s IS NOT NULL AND k = 1 AND ? > d": (1, 2),
        "DELETE FROM t WHERE k = ? AND s <> 'x'": (7,),
        "UPDATE t SET b = b + ? WHERE k = 1": (1,),
        "UPDATE t SET b = b + 1, s = upper(s), d = CASE WHEN x > 0 THEN d END WHERE k = ? AND d > 0": (1,),
    }.items():
        connection.execute(text, parameters)
        assert kept(connection, text) == ["row"]
    for text, parameters in {
        "SELECT s FROM t WHERE k > ?": (1,),
        "SELECT s FROM t WHERE k = ? AND x = 0.5": (1,),
        "SELECT s FROM t WHERE k = ? AND b = 5 + k": (1,),
        "SELECT s, k + 1 FROM t WHERE k = ?": (1,),
        "SELECT DISTINCT s FROM t WHERE k = ?": (1,),
        "SELECT count(*) FROM t WHERE k = ?": (1,),
        "UPDATE t SET b = b + (SELECT count(*) FROM t) WHERE k = ?": (1,),
        "UPDATE t SET x = x + random() WHERE k = ?": (1,),
        "UPDATE t SET b = b + 1 WHERE k = ? RETURNING b": (1,),
    }.items():
        connection.execute(text, parameters)
        assert kept(connection, text) == ["plan"]


def test_other_types_of_values_are_other_variants(connection: Connection) -> None:
    text = "SELECT ? + 1, k FROM t WHERE k = 1"
    assert rows(connection, text, 1) == [(2, 1)]
    assert rows(connection, text, Decimal("1.5")) == [(Decimal("2.5"), 1)]
    assert rows(connection, text, None) == [(None, 1)]
    assert rows(connection, text, 2) == [(3, 1)]
    text = "SELECT k FROM t WHERE k = ?"
    assert rows(connection, text, 2) == [(2,)]
    assert rows(connection, text, "2") == [(2,)]
    assert rows(connection, text, Decimal("2.00")) == [(2,)]
    assert rows(connection, text, Decimal("2.5")) == []
    assert rows(connection, text, None) == []
    assert rows(connection, text, 1 << 40) == []
    with pytest.raises(DataError, match=r"LINE 1: .*k = \?"):
        rows(connection, text, "two")
    assert rows(connection, text, 3) == [(3,)]


def test_values_that_must_be_known_are_known(connection: Connection) -> None:
    text = "SELECT round(x, ?) FROM t WHERE k = 2 LIMIT ?"
    assert rows(connection, text, 1, 5) == [(2.0,)]
    assert rows(connection, text, 0, 0) == []
    with pytest.raises(ProgrammingError, match="must not be negative"):
        rows(connection, "SELECT k FROM t LIMIT ?", -1)
    assert len(rows(connection, "SELECT k FROM t LIMIT ?", 2)) == 2
    with pytest.raises(ProgrammingError, match="must not be negative"):
        rows(connection, "SELECT k FROM t LIMIT ?", -1)


def test_wrong_parameters_are_wrong_every_time(connection: Connection) -> None:
    text = "SELECT s FROM t WHERE k = ?"
    assert rows(connection, text, 1) == [("one",)]
    for parameters in ([], [1, 2], {"k": 1}, None):
        with pytest.raises(InterfaceError):
            connection.execute(text, parameters)
    named = "SELECT s FROM t WHERE k = :k"
    assert connection.execute(named, {"k": 1}).fetchall() == [("one",)]
    assert connection.execute(named, {"k": 2}).fetchall() == [("two",)]
    for parameters in ({"j": 1}, {"k": 1, "j": 2}, [1]):
        with pytest.raises(InterfaceError):
            connection.execute(named, parameters)


def test_time_goes_on(connection: Connection) -> None:
    text = "SELECT now() FROM t WHERE day < now() LIMIT 1"
    ((first,),) = rows(connection, text)
    ((second,),) = rows(connection, text)
    assert kept(connection, text) == ["plan"]
    assert second > first
    past = "SELECT count(*) FROM t FOR SYSTEM_TIME AS OF now()"
    assert rows(connection, past) == [(3,)]
    rows_before = connection.execute("DELETE FROM t WHERE k = 1").rowcount
    assert rows_before == 1
    assert rows(connection, past) == [(2,)]


def test_time_goes_on_for_single_rows(connection: Connection) -> None:
    connection.execute("CREATE TABLE events (k INT PRIMARY KEY, at TIMESTAMP)")
    insert, update = "INSERT INTO events VALUES (?, now())", "UPDATE events SET at = now() WHERE k = ?"
    times = []
    for text in (insert, update, update):
        connection.execute(text, (1,))
        assert kept(connection, text) == ["row"]
        times += [at for (at,) in rows(connection, "SELECT at FROM events WHERE k = 1")]
    assert times == sorted(set(times)) and len(times) == 3


@pytest.mark.parametrize(
    ("change", "after"),
    [
        ("ALTER TABLE t DROP COLUMN s", None),
        ("ALTER TABLE t RENAME COLUMN s TO r", None),
        ("DROP TABLE t", None),
        ("ALTER TABLE t RENAME TO u", None),
        (
            "ALTER TABLE t ADD COLUMN more INT DEFAULT 7",
            [(1, 10, Decimal("1.50"), "one", datetime.date(2020, 1, 1), 0.5, 7)],
        ),
    ],
)
@pytest.mark.parametrize("same", [True, False])
def test_ddl_of_any_connection_counts(tmp_path: Path, change: str, after: Any, same: bool) -> None:
    with nyala.connect(tmp_path) as first, nyala.connect(tmp_path) as second:
        first.execute(TABLE)
        first.execute("INSERT INTO t VALUES (1, 10, 1.50, 'one', '2020-01-01', 0.5)")
        texts = [
            "SELECT * FROM t WHERE k = ?",
            "SELECT *, s FROM t WHERE k < ? + 1",
            "UPDATE t SET s = 'x' WHERE k = ? - 1",
        ]
        for text in texts:
            first.execute(text, [1])
        (first if same else second).execute(change)
        for text in texts if after is None else []:
            if text == texts[0] and "COLUMN" in change:
                continue
            with pytest.raises(ProgrammingError):
                first.execute(text, [1])
        if after is not None:
            assert rows(first, texts[0], 1) == after


def test_views_follow_their_definition(connection: Connection) -> None:
    connection.execute("CREATE VIEW v AS SELECT k FROM t WHERE k < 2")
    text = "SELECT count(*) FROM v WHERE k > ?"
    assert rows(connection, text, 0) == [(1,)]
    connection.execute("CREATE OR REPLACE VIEW v AS SELECT k FROM t")
    assert rows(connection, text, 0) == [(3,)]


def test_a_table_that_has_grown_is_planned_for_anew(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nyala.driver.session.plan_cache.STATISTICS_SECONDS", 0.0)
    text = "SELECT count(*) FROM t WHERE b >= ?"
    rows(connection, text, 0)
    (before,) = connection.session.plans.find(text) or ()
    connection.execute("INSERT INTO t (k, b) SELECT n, n FROM generate_series(10, 5000) AS g(n)")
    assert rows(connection, text, 0) == [(4993,)]
    (after,) = connection.session.plans.find(text) or ()
    assert after is not before


def test_old_texts_are_forgotten(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nyala.driver.session.plan_cache.MOST_TEXTS", 3)
    for number in range(10):
        assert rows(connection, f"SELECT {number}") == [(number,)]
    assert len(connection.session.plans) == 3


def test_threads_share_what_is_kept(connection: Connection) -> None:
    wrong: list[Any] = []

    def work(number: int) -> None:
        for i in range(100):
            key = 1000 + number * 100 + i
            connection.execute("INSERT INTO t (k, b) VALUES (?, ?)", [key, i])
            found = rows(connection, "SELECT b FROM t WHERE k = ?", key)
            found += rows(connection, "SELECT b FROM t WHERE k = ? AND b < ?", key, i + 1)
            if found != [(i,), (i,)]:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arrow_of_a_single_row(connection: Connection) -> None:
    text = "SELECT s, day, d FROM t WHERE k = ?"
    for _ in range(2):
        single = connection.execute(text, [1]).arrow()
        planned = connection.execute("SELECT s, day, d FROM t WHERE k = 1 OR k = 1").arrow()
        assert single.equals(planned)
        assert connection.execute(text, [99]).arrow().num_rows == 0


# ---- the same with and without -------------------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(),
    st.integers(-3, 12),
    st.sampled_from([1 << 31, 1 << 63, -(1 << 70), 0.5, 2.0, 1e30, True]),
    st.decimals(-100, 100, places=1, allow_nan=False),
    st.sampled_from([Decimal("1.505"), Decimal("1e9"), Decimal("2.25"), Decimal("3")]),
    st.sampled_from(["one", "two", "2", " 3", "2020-01-01", "x", "toolong", "", "1.5"]),
    st.sampled_from([datetime.date(2020, 1, 1), datetime.datetime(2020, 2, 2), datetime.datetime(2020, 2, 2, 1)]),
    st.datetimes(timezones=st.sampled_from([None, datetime.timezone(datetime.timedelta(hours=2))])),
)
READS = [
    "SELECT * FROM t WHERE k = ? ORDER BY k",
    "SELECT k, s FROM t WHERE k = ?",
    "SELECT k, d FROM t WHERE k = 1 AND s <= ?",
    "SELECT k, s FROM t WHERE k = 2 AND ? > b",
    "SELECT s FROM t WHERE k = 2 AND day >= ? AND d IS NOT NULL",
    "SELECT k FROM t WHERE k = ? AND k <> 2 AND b IS NULL",
    "SELECT k FROM t WHERE b >= ? ORDER BY k",
    "SELECT count(*) FROM t WHERE b >= ? AND b < 20 AND d > 1",
    "SELECT count(*) FROM t WHERE s LIKE ? AND k > 1",
    "SELECT k FROM t WHERE day > ? AND k + 1 > 2 ORDER BY k",
    "SELECT k FROM t WHERE d = ?",
    "SELECT k FROM t WHERE day <= ? ORDER BY k",
    "SELECT k FROM t WHERE s > ? ORDER BY k",
    "SELECT k FROM t WHERE x BETWEEN ? AND 3 ORDER BY k",
    "SELECT k, coalesce(b, ?) FROM t ORDER BY k",
    "SELECT k, b + ? FROM t ORDER BY k",
    "SELECT d * ? FROM t ORDER BY k",
    "SELECT k FROM t WHERE k IN (1, ?) ORDER BY k",
    "SELECT CASE WHEN k = ? THEN 'a' ELSE 'b' END FROM t ORDER BY k",
    "SELECT k FROM t WHERE k < 10 ORDER BY k LIMIT ?",
    "SELECT ?",
    "SELECT k FROM t WHERE b = (SELECT max(b) FROM t WHERE k <= ?)",
    "SELECT d, count(*) FROM t WHERE x IS NULL OR k > ? GROUP BY d ORDER BY d",
]
WRITES = [
    "INSERT INTO t (k, s) VALUES (?, 'new')",
    "INSERT INTO t (k, b) VALUES (5, ?)",
    "INSERT INTO t (k, d, s) VALUES (6, ?, 'a')",
    "INSERT IGNORE INTO t (k, day) VALUES (6, ?)",
    "UPSERT INTO t (k, x) VALUES (2, ?)",
    "UPSERT INTO t (k, s) VALUES (2, ?)",
    "UPDATE t SET d = ? WHERE k = 2",
    "UPDATE t SET s = 'u' WHERE k = ?",
    "UPSERT INTO t (k, seen) VALUES (2, ?)",
    "UPDATE t SET seen = ? WHERE k = 1 AND seen IS NULL",
    "UPDATE t SET b = b + ? WHERE k = 1",
    "DELETE FROM t WHERE k = ?",
    "UPDATE t SET d = ? WHERE k = 2 AND d > 1",
    "UPDATE t SET b = 3 WHERE k = 1 AND d <> ?",
    "DELETE FROM t WHERE k = 2 AND s = ?",
    "UPDATE t SET b = b + 1 WHERE k = ?",
    "UPDATE t SET d = d + ? WHERE k = 2",
    "UPDATE t SET s = s || ? WHERE k = 1",
    "UPDATE t SET b = CASE WHEN d > ? THEN b - 1 ELSE k END, x = b / 4 WHERE k = 1",
    "UPDATE t SET x = x / ?, b = -b WHERE k = 1",
    "UPDATE t SET day = day + 1, s = 'later' WHERE k = ? AND s IS NOT NULL",
    "UPDATE t SET s = upper(s), d = round(d * 2, 1) WHERE k = ? AND d > 1",
    "UPDATE t SET b = coalesce(b, ?) + 1, s = CAST(day AS STRING) WHERE k = 2",
]


def outcome(connection: Connection, text: str, value: Any) -> Any:
    try:
        cursor = connection.execute(text, [value])
        found = cursor.fetchall() if cursor.description is not None else None
        return cursor.rowcount, cursor.description, repr(found)
    except Error as error:
        return type(error), str(error)


@settings(max_examples=examples(40), deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from([*READS, *WRITES]), VALUES), min_size=1, max_size=12))
def test_kept_statements_do_what_new_ones_do(steps: list[tuple[str, Any]]) -> None:
    """One connection keeps nothing, one keeps plans, one goes the short ways as well."""
    with nyala.connect(":memory:") as fresh, nyala.connect(":memory:") as planned, nyala.connect(":memory:") as short:
        fresh.session.plans.enabled = False
        planned.session.plans.short_ways = False
        for connection in (fresh, planned, short):
            connection.execute(TABLE)
            connection.execute("ALTER TABLE t ADD COLUMN seen TIMESTAMP")
            connection.execute(
                "INSERT INTO t (k, b, d, s, day, x) "
                "VALUES (1, 10, 1.50, 'one', '2020-01-01', 0.5), (2, NULL, 2.25, 'two', '2020-02-02', 2)"
            )
        for text, value in steps:
            expected = outcome(fresh, text, value)
            assert outcome(planned, text, value) == expected, (text, value)
            assert outcome(short, text, value) == expected, (text, value)
        assert rows(planned, "SELECT * FROM t ORDER BY k") == rows(fresh, "SELECT * FROM t ORDER BY k")
        assert rows(short, "SELECT * FROM t ORDER BY k") == rows(fresh, "SELECT * FROM t ORDER BY k")


COMPUTED = {
    "b": ("b + 1", "-b", "b * 2", "b - b", "3 - b", "abs(b)", "CASE WHEN o THEN b ELSE i END"),
    "i": (
        "i + 1",
        "i - b",
        "-i",
        "i * i",
        "i / 2",
        "n",
        "length(s)",
        "year(day)",
        "i << 1",
        "nullif(i, 7)",
        "CAST(s AS INT)",
    ),
    "n": ("n + 1", "n - 1", "n * -1", "n * n", "i * i", "n - i", "n / 3", "epoch(at)", "CAST(w AS BIGINT)"),
    "x": ("x + 1", "x * x", "-x", "x - n", "i * 2", "sqrt(x)", "x + f", "d / 3"),
    "f": ("f / 3", "x"),
    "d": ("d + 1", "d - 0.5", "d - i", "-d", "d * 2", "d * d", "d * 1.1", "round(d, 1)", "i", "w"),
    "w": ("w * 2", "w + d", "w - 1", "d * d", "w / 3", "n"),
    "s": (
        "s || 'x'",
        "substring(s, 2)",
        "CAST(at AS STRING)",
        "CAST(f AS STRING)",
        "concat(s, i, NULL)",
        "CAST(raw AS STRING)",
    ),
    "v": ("v || 'y'", "left(v || 'abc', 3)"),
    "raw": ("raw", "CAST(s AS BINARY)"),
    "day": ("day + 1", "day - 1", "CAST(at AS DATE)"),
    "at": ("at + INTERVAL '1' DAY", "at - INTERVAL '1' SECOND", "day"),
    "o": ("NOT o", "s LIKE 'a%'", "o AND x > 1", "n IN (11, 12)"),
    "nn": ("nn + 1", "i", "nn / (nn - nn)"),
}
"""By column, values computed from a row; some of them refused."""
EXTREMES = (
    "(1, 127, 2147483647, 9223372036854775807, 0.1, -0.0, 9999999.99, 1e27, 'abc', 'abc', x'00ff', '9999-12-31', "
    "'9999-12-31 23:59:59.999999', TRUE, 2147483647)",
    "(2, -128, -2147483648, -9223372036854775808, 'NaN', 'Infinity', -9999999.99, 0.0000000001, '', '', x'', "
    "'0001-01-01', '0001-01-01 00:00:00', FALSE, 0)",
    f"(3, {', '.join(['NULL'] * 13)}, 1)",
)


def test_new_values_of_a_row_are_those_of_a_plan() -> None:
    table = (
        "CREATE TABLE t (k INT PRIMARY KEY, b TINYINT, i INT, n BIGINT, f FLOAT, x DOUBLE, d DECIMAL(9,2), "
        "w DECIMAL(38,10), s STRING, v VARCHAR(3), raw BINARY, day DATE, at TIMESTAMP, o BOOLEAN, nn INT NOT NULL)"
    )
    with nyala.connect(":memory:") as planned, nyala.connect(":memory:") as short:
        planned.session.plans.short_ways = False
        for connection in (planned, short):
            connection.execute(table)
        for column, expressions in COMPUTED.items():
            for expression in few(expressions):
                text, found = f"UPDATE t SET {column} = {expression} WHERE k = ?", []
                for connection in (planned, short):
                    connection.execute(f"UPSERT INTO t VALUES {', '.join(EXTREMES)}")
                    found.append([outcome(connection, text, key) for key in (1, 2, 3)])
                    found[-1] += [repr(rows(connection, "SELECT * FROM t ORDER BY k"))]
                assert found[0] == found[1], text
                assert kept(short, text) == ["row"], text


@pytest.mark.parametrize(
    "text",
    ["INSERT INTO t (k, s) VALUES (?, 'new')", "UPSERT INTO t (k, x) VALUES (2, ?)", "SELECT s FROM t WHERE k = ?"],
)
def test_null_does_not_stand_for_other_values(connection: Connection, text: str) -> None:
    with nyala.connect(":memory:") as other:
        other.session.plans.enabled = False
        other.execute(TABLE)
        other.execute("INSERT INTO t (k) VALUES (1), (2), (3)")
        connection.execute("DELETE FROM t")
        connection.execute("INSERT INTO t (k) VALUES (1), (2), (3)")
        for value in (None, 8, None, 9):
            assert outcome(connection, text, value) == outcome(other, text, value)
        assert rows(connection, "SELECT * FROM t ORDER BY k") == rows(other, "SELECT * FROM t ORDER BY k")


def test_values_that_fit_a_column_are_taken_as_they_are(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute("CREATE TABLE fits (k INT PRIMARY KEY, d DECIMAL(9,2), seen TIMESTAMP)")
    text, moment = "INSERT INTO fits VALUES (?, ?, ?)", datetime.datetime(2020, 2, 2, 1, 2, 3, 4)
    connection.execute(text, (1, 7, moment))
    monkeypatch.setattr(Prepared, "literals", None)  # what any other value is converted by
    connection.execute(text, (2, -8, moment))
    connection.execute(text, (3, Decimal("0.5"), moment))
    monkeypatch.undo()
    found = [(1, Decimal("7.00"), moment), (2, Decimal("-8.00"), moment), (3, Decimal("0.50"), moment)]
    assert rows(connection, "SELECT * FROM fits ORDER BY k") == found


def test_a_refused_row_says_so_on_both_ways(connection: Connection) -> None:
    for _ in range(2):
        with pytest.raises(AlreadyPresent, match="k = 1"):
            connection.execute("INSERT INTO t (k) VALUES (?)", [1])
