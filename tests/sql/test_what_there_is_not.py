"""docs/sql.md's last section: each entry is refused as not supported, at its place, with an alternative."""

from __future__ import annotations

import re
from pathlib import Path

import nyala
import pytest

RECURSIVE = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3)"
TABLE = "CREATE TABLE a (k INT PRIMARY KEY, v "
STATEMENTS = {
    "`LOCK TABLE`": ["<LOCK> TABLE t"],
    "two-phase commit by clients": ["<PREPARE> TRANSACTION 'x'", "COMMIT <PREPARED> 'x'", "ROLLBACK <PREPARED> 'x'"],
    "`COMMIT AND CHAIN`": ["COMMIT AND <CHAIN>", "ROLLBACK AND <CHAIN>"],
    "`FOR UPDATE` in parts of statements": [
        "SELECT * FROM (SELECT * FROM t FOR UPDATE) AS x",
        "INSERT INTO t SELECT * FROM t FOR UPDATE",
        "SELECT * FROM t UNION SELECT * FROM t FOR UPDATE",
    ],
    "Statements inside WITH that write": ["WITH x AS (INSERT INTO t VALUES (1, 2) RETURNING k) SELECT * FROM x"],
    "`MERGE`": ["<MERGE> INTO t USING u ON t.k = u.k WHEN MATCHED THEN DELETE"],
    "UPDATE and DELETE with `LIMIT`": [
        "UPDATE t SET v = 1 <LIMIT> 1",
        "UPDATE t SET v = 1 WHERE k > 1 <ORDER BY> k LIMIT 1",
        "DELETE FROM t <LIMIT> 1",
        "DELETE FROM t WHERE k > 1 <ORDER BY> k LIMIT 1",
    ],
    "writing through views": [
        "INSERT INTO <w> VALUES (1, 2)",
        "UPSERT INTO <w> VALUES (1, 2)",
        "UPDATE <w> SET v = 1",
        "DELETE FROM <w>",
        "TRUNCATE TABLE <w>",
        "COPY <w> FROM 'x.csv'",
    ],
    "Secondary indexes": ["CREATE <INDEX> i ON t (v)", "CREATE <UNIQUE> INDEX i ON t (v)", "DROP <INDEX> i"],
    "`UNIQUE`": [TABLE + "INT <UNIQUE>)", TABLE + "INT, <UNIQUE> (v))", "ALTER TABLE t ADD <UNIQUE> (v)"],
    "`CHECK`": [TABLE + "INT <CHECK> (v > 0))", TABLE + "INT, <CHECK> (v > 0))"],
    "foreign keys": [TABLE + "INT <REFERENCES> t (k))", TABLE + "INT, <FOREIGN KEY> (v) REFERENCES t (k))"],
    "named constraints": [
        "CREATE TABLE a (k INT, <CONSTRAINT> pk PRIMARY KEY (k))",
        "ALTER TABLE t DROP <CONSTRAINT> pk",
    ],
    "defaults that are computed, such as `now()`": [
        TABLE + "TIMESTAMP DEFAULT <now>())",
        TABLE + "DOUBLE DEFAULT random())",
    ],
    "generated columns": [TABLE + "INT <GENERATED> ALWAYS AS (k + 1) STORED)", TABLE + "INT <AS> (k + 1))"],
    "sequences": [
        "CREATE <SEQUENCE> s",
        "CREATE TABLE a (k INT <GENERATED> BY DEFAULT AS IDENTITY PRIMARY KEY)",
        "CREATE TABLE a (k INTEGER PRIMARY KEY <AUTOINCREMENT>)",
        "CREATE TABLE a (k INT <AUTO_INCREMENT> PRIMARY KEY)",
    ],
    "Changes of a column's type, key or nullability, and other orders of columns, by `ALTER TABLE`": [
        "ALTER TABLE t ALTER COLUMN v <TYPE> BIGINT",
        "ALTER TABLE t ALTER COLUMN v SET <NOT> NULL",
        "ALTER TABLE t ADD <PRIMARY KEY> (v)",
        "ALTER TABLE t ADD COLUMN z INT <FIRST>",
        "ALTER TABLE t ADD COLUMN z INT <AFTER> k",
    ],
    "materialized views": ["CREATE <MATERIALIZED> VIEW m AS SELECT 1"],
    "external tables": [
        "CREATE <EXTERNAL> TABLE a (k INT PRIMARY KEY)",
    ],
    "`DROP` and `TRUNCATE` of several tables at once": ["DROP TABLE t<,> u", "TRUNCATE TABLE t<,> u"],
    "arrays": [TABLE + "INT[])", TABLE + "ARRAY<INT>)"],
    "structs": [TABLE + "STRUCT<a INT>)"],
    "JSON": [TABLE + "<JSON>)", TABLE + "<JSONB>)"],
    "UUID": ["CREATE TABLE a (k <UUID> PRIMARY KEY)"],
    "TIME": [TABLE + "<TIME>)"],
    "enumerations": [TABLE + "ENUM('a'))", "CREATE <TYPE> mood AS ENUM ('a')"],
    "SERIAL": ["CREATE TABLE a (k <SERIAL> PRIMARY KEY)", "CREATE TABLE a (k <BIGSERIAL> PRIMARY KEY)"],
    "and TIMESTAMP with a time zone": [TABLE + "TIMESTAMP WITH TIME ZONE)", TABLE + "<TIMESTAMPTZ>)"],
    "conversion between time zones (`AT TIME ZONE`, `SET timezone`)": [
        "SELECT <now() AT TIME ZONE 'Europe/Berlin'>",
        "SET timezone = <'Europe/Berlin'>",
    ],
    "`DISTINCT` and `ORDER BY` in window calls": [
        "SELECT <sum>(DISTINCT v) OVER () FROM t",
        "SELECT <sum>(v ORDER BY k) OVER () FROM t",
    ],
    "`SEARCH` and `CYCLE` of recursive queries": [
        RECURSIVE + " SEARCH DEPTH FIRST BY n SET o SELECT * FROM r",
        RECURSIVE + " CYCLE n SET c USING p SELECT * FROM r",
    ],
    "`PIVOT`": ["SELECT * FROM t PIVOT (sum(v) FOR k IN (1, 2))", "<PIVOT> t ON k", "<UNPIVOT> t ON k"],
    "`TABLESAMPLE`": ["SELECT * FROM t TABLESAMPLE (10)", "SELECT * FROM t TABLESAMPLE SYSTEM (10)"],
    "`MATCH_RECOGNIZE`": ["SELECT * FROM t <MATCH_RECOGNIZE> (ORDER BY k PATTERN (a) DEFINE a AS v > 1)"],
    "User-defined functions and procedures": ["CREATE <FUNCTION> f() RETURNS INT AS 'x'", "CREATE <PROCEDURE> p()"],
    "triggers": ["CREATE <TRIGGER> g BEFORE INSERT ON t"],
    "collations": ["SELECT <'a' COLLATE \"de_DE\">", 'CREATE TABLE a (k TEXT <COLLATE> "C" PRIMARY KEY)'],
    "Rights on single columns, and on other objects than tables, views and schemas": [
        "GRANT <SELECT> (k) ON t TO u",
        "GRANT <REFERENCES> ON t TO u",
        "GRANT USAGE ON <SEQUENCE> s TO u",
    ],
    "`SET SESSION AUTHORIZATION`": ["SET SESSION <AUTHORIZATION> u"],
    "`ALTER ROLE ... RENAME`": ["ALTER ROLE u <RENAME> TO w"],
    "`LISTEN`": ["<LISTEN> changes"],
    "COPY with standard input and output": ["COPY t FROM <STDIN>", "COPY t TO <STDOUT>"],
    "files in other places than the file system": [
        "COPY t FROM <'s3://b/x.csv'>",
        "COPY t TO <'s3://b/x.csv'>",
        "SELECT * FROM <'https://x/y.parquet'>",
    ],
}
"""By the entry. `<>` enclose the word that the caret must be under, if the refusal is about one word."""


def entries() -> list[str]:
    """Return the entries of the document."""
    text = (Path(nyala.__file__).parent / "docs" / "sql.md").read_text(encoding="utf-8")
    section = text.partition("## What is not supported\n")[2].partition("\n## ")[0]
    found = []
    for line in re.sub(r"\n  ", " ", section).strip().splitlines():
        for part in line.removeprefix("- ").removesuffix(".").removeprefix("Types: ").split("; "):
            known = [entry for entry in STATEMENTS if part.startswith(entry)]
            found += [part] if part in known else part.split(", ")
    return found


@pytest.fixture(scope="module")
def connection():
    with nyala.connect(":memory:") as found:
        for table in ("t", "u"):
            found.execute(f"CREATE TABLE {table} (k INT PRIMARY KEY, v INT)")
        found.execute("CREATE VIEW w AS SELECT k, v FROM t")
        yield found


def test_every_entry_has_statements_here():
    assert sorted(entries()) == sorted(STATEMENTS)


@pytest.mark.parametrize("marked", [text for texts in STATEMENTS.values() for text in texts])
def test_an_entry_is_refused_at_its_place_with_what_to_do(connection, marked):
    found = re.search(r"<([^<>]+)>", re.sub(r"(ARRAY|STRUCT)<.*?>", r"\1", marked))
    is_marked = found is not None
    text = marked.replace(f"<{found[1]}>", found[1], 1) if is_marked else marked
    with pytest.raises(nyala.NotSupportedError) as caught:
        connection.execute(text)
    assert caught.value.sqlstate == "0A000"
    message, line, carets = str(caught.value).splitlines()
    assert line == f"LINE 1: {text}"
    assert re.search("[;:,] .", message), f"what to do instead is missing: {message}"
    if is_marked:
        under = line[carets.index("^") : carets.rindex("^") + 1]
        assert under == found[1]


@pytest.mark.parametrize(
    ("text", "place", "advice"),
    [
        ("SELECT * FROM dbo.t", "dbo.t", "there are information_schema, nyala_catalog, pg_catalog, public"),
        ("SELECT * FROM t WHERE k = %s", "%s", "parameters are written ?"),
        ("SELECT * FROM t WHERE k = %s AND v = 1", "%s", "parameters are written ?"),
        ("INSERT INTO t VALUES (%(k)s, 1)", "%(k)s", "parameters are written ?"),
    ],
)
def test_habits_of_other_drivers_are_met_with_what_to_write(connection, text, place, advice):
    with pytest.raises(nyala.Error) as caught:
        connection.execute(text)
    message, line, carets = str(caught.value).splitlines()
    assert advice in message
    assert line[carets.index("^") : carets.rindex("^") + 1] == place
