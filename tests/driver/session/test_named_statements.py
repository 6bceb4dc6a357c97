"""PREPARE and EXECUTE, DECLARE and FETCH: what a session keeps by name."""

from __future__ import annotations

from typing import Any

import nyala
import pytest
from nyala.errors import (
    Error,
    InterfaceError,
    NoActiveTransaction,
    NotSupportedError,
    ProgrammingError,
    SqlSyntaxError,
    UnknownCursor,
    UnknownPreparedStatement,
    UnknownTable,
)
from nyala.sql import generate, parse


@pytest.fixture
def c(connection: nyala.Connection) -> nyala.Connection:
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)")
    connection.execute("INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, 10) AS s (n)")
    return connection


def rows(c: nyala.Connection, text: str) -> list[tuple[Any, ...]]:
    return c.execute(text).fetchall()


def keys(c: nyala.Connection, text: str) -> list[int]:
    return [row[0] for row in rows(c, text)]


# ---- prepared statements ---------------------------------------------------------------------------------------------


def test_a_prepared_statement_runs_with_values(c):
    c.execute("PREPARE one (INT) AS SELECT v FROM t WHERE k = $1")
    assert rows(c, "EXECUTE one (3)") == rows(c, "EXECUTE one ('3')") == [("v3",)]
    c.execute("PREPARE into_t AS INSERT INTO t VALUES (?, ?)")
    assert c.execute("EXECUTE into_t (11, 'x')").rowcount == 1
    assert rows(c, "EXECUTE one (11)") == [("x",)]
    assert c.execute("EXECUTE one (?)", [2]).fetchall() == [("v2",)]
    c.execute("DEALLOCATE one")
    with pytest.raises(UnknownPreparedStatement, match="one does not exist") as caught:
        c.execute("EXECUTE one (3)")
    assert caught.value.sqlstate == "26000"


def test_names_and_numbers_of_values_are_checked(c):
    c.execute("PREPARE one AS SELECT $1 + 1")
    with pytest.raises(ProgrammingError, match="exists already"):
        c.execute("PREPARE one AS SELECT 2")
    with pytest.raises(InterfaceError):
        c.execute("EXECUTE one")
    with pytest.raises(NotSupportedError, match="EXECUTE takes constants"):
        c.execute("EXECUTE one (random())")
    with pytest.raises(SqlSyntaxError):
        c.execute("PREPARE two AS SELEC 2")
    c.execute("DEALLOCATE ALL")
    c.execute("PREPARE one AS SELECT 3")
    assert rows(c, "EXECUTE one") == [(3,)]


def test_a_prepared_statement_follows_the_catalog(c):
    c.execute("PREPARE every AS SELECT * FROM t WHERE k = 1")
    c.execute("ALTER TABLE t ADD COLUMN w INT")
    assert rows(c, "EXECUTE every") == [(1, "v1", None)]
    c.execute("DROP TABLE t")
    with pytest.raises(UnknownTable):
        c.execute("EXECUTE every")


# ---- cursors ---------------------------------------------------------------------------------------------------------


def test_a_cursor_reads_forward(c):
    c.execute("BEGIN")
    c.execute("DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k")
    assert keys(c, "FETCH 2 FROM c") == [1, 2]
    assert keys(c, "FETCH c") == [3]
    assert c.execute("MOVE 3 IN c").rowcount == 3
    assert keys(c, "FETCH FORWARD 100 FROM c") == [7, 8, 9, 10]
    assert keys(c, "FETCH ALL FROM c") == []
    with pytest.raises(NotSupportedError, match="SCROLL"):
        c.execute("FETCH PRIOR FROM c")
    c.execute("COMMIT")
    with pytest.raises(UnknownCursor) as caught:
        c.execute("FETCH c")
    assert caught.value.sqlstate == "34000"


def test_a_scroll_cursor_reads_in_any_order(c):
    c.execute("BEGIN")
    c.execute("DECLARE c SCROLL CURSOR FOR SELECT k FROM t ORDER BY k")
    steps = {
        "LAST": [10], "PRIOR": [9], "BACKWARD 3": [8, 7, 6], "ABSOLUTE 2": [2], "RELATIVE -1": [1], "0": [1],
        "BACKWARD ALL": [], "NEXT": [1], "ALL": [2, 3, 4, 5, 6, 7, 8, 9, 10], "FORWARD 1": [], "ABSOLUTE -2": [9],
        "ABSOLUTE 0": [], "FIRST": [1], "-1": [],
    }  # fmt: skip
    assert {step: keys(c, f"FETCH {step} FROM c") for step in steps} == steps
    c.execute("ROLLBACK")


def test_a_cursor_with_hold_outlives_its_transaction(c):
    c.execute("BEGIN")
    c.execute("DECLARE c CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k")
    c.execute("DELETE FROM t WHERE k > 2")
    c.execute("COMMIT")
    assert keys(c, "FETCH 9 FROM c") == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    c.execute("CLOSE c")
    with pytest.raises(UnknownCursor):
        c.execute("CLOSE c")


def test_a_cursor_needs_a_transaction_and_a_name_of_its_own(c):
    with pytest.raises(NoActiveTransaction):
        c.execute("DECLARE c CURSOR FOR SELECT 1")
    c.execute("BEGIN")
    c.execute("DECLARE c CURSOR FOR SELECT k FROM t")
    with pytest.raises(ProgrammingError, match="exists already"):
        c.execute("DECLARE c CURSOR FOR SELECT 1")
    with pytest.raises(Error):
        c.execute("DECLARE d CURSOR FOR SELECT nope FROM t")
    c.execute("ROLLBACK")
    c.execute("BEGIN")
    c.execute("DECLARE c CURSOR FOR SELECT 7")
    assert keys(c, "FETCH ALL IN c") == [7]
    c.execute("ROLLBACK")


# ---- DISCARD ---------------------------------------------------------------------------------------------------------


def test_discard_all_forgets_everything(c):
    c.execute("PREPARE one AS SELECT 1")
    c.execute("DECLARE c CURSOR WITH HOLD FOR SELECT 1")
    c.execute("SET application_name = 'report'")
    c.execute("DISCARD PLANS")
    assert rows(c, "EXECUTE one") == [(1,)]
    c.execute("DISCARD ALL")
    assert rows(c, "SHOW application_name") == [("",)]
    for text in ("EXECUTE one", "FETCH c"):
        with pytest.raises((UnknownPreparedStatement, UnknownCursor)):
            c.execute(text)
    c.execute("BEGIN")
    with pytest.raises(NotSupportedError):
        c.execute("DISCARD ALL")
    c.execute("ROLLBACK")
    c.execute("UNLISTEN *")


@pytest.mark.parametrize(
    "text",
    [
        "PREPARE p (INT, DATE) AS SELECT $1, $2",
        "EXECUTE p (1, 'a')",
        "DEALLOCATE p",
        "DEALLOCATE ALL",
        "DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 1",
        "FETCH ABSOLUTE -1 FROM c",
        "MOVE BACKWARD ALL FROM c",
        "CLOSE ALL",
        "DISCARD ALL",
        "UNLISTEN *",
    ],
)
def test_statements_are_written_as_they_are_read(text: str) -> None:
    (parsed,) = parse(text)
    assert generate(parsed.tree) == text
