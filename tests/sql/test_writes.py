"""Statements that change rows, COPY and settings: their bound form, the errors of wrong ones, and that each can be
written and read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from nyala.sql import generate, parse

GOLDEN = Path(__file__).parent / "golden"


def test_what_they_are_bound_to(
    golden: Callable[[Path, Callable[[str], str]], None], explain_binding: Callable[[str], str]
) -> None:
    golden(GOLDEN / "bound_writes.txt", explain_binding)


def test_wrong_statements_say_what_is_wrong_and_where(
    golden: Callable[[Path, Callable[[str], str]], None], explain_binding: Callable[[str], str]
) -> None:
    golden(GOLDEN / "errors_writes.txt", explain_binding)


STATEMENTS = {
    "INSERT INTO t VALUES (1, DEFAULT) RETURNING *": "",
    "insert into t as a (b, c) select 1, 2 on conflict (b) do update set c = a.c + excluded.c where a.c < 3 "
    "returning b as x, (select 1)": "INSERT INTO t AS a (b, c) SELECT 1, 2 ON CONFLICT (b) DO UPDATE SET "
    "c = a.c + excluded.c WHERE a.c < 3 RETURNING b AS x, (SELECT 1)",
    "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING RETURNING t.*": "",
    "INSERT INTO t DEFAULT VALUES RETURNING a": "",
    "UPSERT INTO t (a) VALUES (1) RETURNING a": "",
    "WITH w AS (SELECT 1 AS a) INSERT INTO t SELECT * FROM w": "",
    "WITH w AS (SELECT 1 AS a) UPSERT INTO t SELECT * FROM w RETURNING *": "",
    "WITH w AS (SELECT 1 AS a) UPDATE t SET b = 1 FROM w WHERE t.a = w.a RETURNING w.a": "",
    "WITH w AS (SELECT 1 AS a) DELETE FROM t AS x USING w WHERE x.a = w.a RETURNING x.a + 1": "",
    "UPDATE t SET (a, b) = (1, DEFAULT), c = DEFAULT, (d, e) = (SELECT 1, 2)": "",
    "update t set (a, b) = row (1, 2)": "UPDATE t SET (a, b) = (1, 2)",
    "copy t (a, b) to 'x.csv' with csv header delimiter as '|'": "COPY t (a, b) TO 'x.csv' "
    "(FORMAT csv, header, delimiter '|')",
    "COPY (SELECT 1 AS a) TO 'x' (FORMAT parquet, ROW_GROUP_SIZE 10)": "",
    "COPY t FROM 'a*.parquet'": "",
    "SELECT * FROM 'a''b.csv' AS x, READ_CSV('y.csv', header => TRUE, delim => '|') AS y(a, b)": "",
    "set session threads to 2": "SET threads = 2",
    "SET memory_limit = '1GB'": "",
    "SET threads = DEFAULT": "",
    "set time zone 'UTC'": "SET timezone = 'UTC'",
    "RESET threads": "",
    "RESET ALL": "",
    "SHOW threads": "",
    "show settings": "SHOW ALL",
}


@pytest.mark.parametrize(("text", "written"), STATEMENTS.items(), ids=range(len(STATEMENTS)))
def test_what_is_read_can_be_written(text: str, written: str) -> None:
    (parsed,) = parse(text)
    once = generate(parsed.tree)
    assert once == (written or text)
    (again,) = parse(once)
    assert again.tree == parsed.tree
