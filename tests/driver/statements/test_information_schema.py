"""information_schema: what it says of the catalog, and that it is queried like anything else."""

from __future__ import annotations

import pytest
from nyala.errors import StatementError, UnknownColumn, UnknownSchema, UnknownTable


@pytest.fixture
def c(connection):
    connection.execute(
        "CREATE TABLE t (k INT, s VARCHAR(5) DEFAULT 'it''s' COMMENT 'words', "
        "d DECIMAL(9,2) NOT NULL IMMUTABLE DEFAULT 1.5, PRIMARY KEY (k)) COMMENT 'a table'"
    )
    connection.execute("CREATE TABLE log (host STRING, at TIMESTAMP, NON UNIQUE PRIMARY KEY (host))")
    connection.execute("CREATE VIEW v (a, b) AS SELECT s, d FROM t")
    return connection


def rows(c, text):
    return c.execute(text).fetchall()


def test_tables_and_views(c):
    assert rows(c, "SELECT table_schema, table_name, table_type, table_comment FROM information_schema.tables") == [
        ("public", "log", "BASE TABLE", None), ("public", "t", "BASE TABLE", "a table"), ("public", "v", "VIEW", None)
    ]  # fmt: skip
    assert rows(c, "SELECT table_name, view_definition FROM information_schema.views") == [("v", "SELECT s, d FROM t")]
    assert rows(c, "SELECT schema_name FROM information_schema.schemata") == [
        ("information_schema",), ("nyala_catalog",), ("pg_catalog",), ("public",)
    ]  # fmt: skip


def test_columns_are_those_of_tables_and_of_views(c):
    wanted = (
        "column_name, ordinal_position, column_default, is_nullable, data_type, column_type, "
        "character_maximum_length, numeric_precision, numeric_scale, is_updatable, column_comment"
    )
    query = f"SELECT {wanted} FROM information_schema.columns WHERE table_name = "
    assert rows(c, f"{query} 't' ORDER BY 2") == [
        ("k", 1, None, "NO", "integer", "INT", None, 32, 0, "YES", None),
        ("s", 2, "'it''s'", "YES", "character varying", "STRING", 5, None, None, "YES", "words"),
        ("d", 3, "1.50", "NO", "numeric", "DECIMAL", None, 9, 2, "NO", None),
    ]
    assert [(r[0], r[1], r[5]) for r in rows(c, f"{query} 'v' ORDER BY 2")] == [("a", 1, "STRING"), ("b", 2, "DECIMAL")]


def test_hidden_numbers_are_no_columns_and_make_no_key(c):
    shown = "SELECT column_name, ordinal_position FROM information_schema.columns WHERE table_name = 'log' ORDER BY 2"
    visible = [column[0] for column in c.execute("SELECT * FROM log").description]
    assert rows(c, shown) == [(name, place) for place, name in enumerate(visible, 1)]
    attributes = "SELECT attname, attnum FROM pg_attribute WHERE attrelid = 'log'::regclass ORDER BY attnum"
    assert rows(c, attributes) == rows(c, shown)
    flags = "SELECT relhasindex, relnatts FROM pg_class WHERE relname = "
    assert rows(c, f"{flags}'log'") == [(False, len(visible))]
    assert rows(c, f"{flags}'t'") == [(True, 3)]
    for relation in ("pg_index WHERE indrelid", "pg_constraint WHERE conrelid"):
        assert rows(c, f"SELECT count(*) FROM {relation} = 'log'::regclass") == [(0,)]
        assert rows(c, f"SELECT count(*) FROM {relation} = 't'::regclass") == [(1,)]
    assert rows(c, "SELECT count(*) FROM pg_depend WHERE refobjid = 'log'::regclass AND classid <> 2618") == [(0,)]
    names = ", ".join(name for name, _ in rows(c, shown))
    c.execute(f"INSERT INTO log ({names}) SELECT {names} FROM log")  # as dbt fills incremental models


def test_keys(c):
    assert rows(
        c,
        "SELECT table_name, column_name, u.ordinal_position, constraint_type "
        "FROM information_schema.key_column_usage u JOIN information_schema.table_constraints n "
        "USING (constraint_name, table_name) ORDER BY 1, 3",
    ) == [
        ("t", "k", 1, "PRIMARY KEY"),
    ]


def test_it_is_queried_like_anything_else(c):
    assert rows(
        c,
        "SELECT t.table_type, count(*), max(c.ordinal_position) FROM information_schema.tables AS t "
        "JOIN information_schema.columns c ON c.table_name = t.table_name WHERE c.column_name <> 'k' "
        "GROUP BY t.table_type ORDER BY 1",
    ) == [("BASE TABLE", 4, 3), ("VIEW", 2, 2)]
    assert rows(c, "SELECT count(*) FROM (SELECT * FROM information_schema.columns) x, log") == [(0,)]
    c.execute("CREATE TABLE names (PRIMARY KEY (n)) AS SELECT table_name AS n FROM information_schema.tables")
    assert rows(c, "SELECT n FROM names ORDER BY n") == [("log",), ("t",), ("v",)]


def test_it_follows_the_catalog(c):
    query = "SELECT count(*) FROM information_schema.tables"
    assert rows(c, query) == [(3,)]
    c.execute("DROP VIEW v")
    assert rows(c, query) == [(2,)]
    assert rows(c, "SELECT * FROM information_schema.views") == []


def test_views_over_it_show_themselves(c):
    c.execute("CREATE VIEW w AS SELECT table_name, column_name FROM information_schema.columns WHERE table_name >= 'v'")
    c.execute("CREATE VIEW x AS SELECT * FROM w")
    expected = [("v", "a"), ("v", "b"), *((name, column) for name in "wx" for column in ("table_name", "column_name"))]
    assert rows(c, "SELECT * FROM w") == expected
    assert rows(c, "SELECT * FROM x") == expected


def test_a_view_that_does_not_work_has_no_columns(c):
    c.store.drop_table("t")
    assert rows(c, "SELECT table_name FROM information_schema.views") == [("v",)]
    assert rows(c, "SELECT * FROM information_schema.columns WHERE table_name = 'v'") == []


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("SELECT * FROM information_schema.colums", UnknownTable, "did you mean columns"),
        ("SELECT nope FROM information_schema.tables", UnknownColumn, "column nope does not exist"),
        ("SELECT * FROM tables", UnknownTable, "table tables does not exist"),
        ("INSERT INTO information_schema.tables VALUES (1)", StatementError, "can be read in FROM, and nothing else"),
        ("DROP TABLE information_schema.tables", StatementError, "can be read in FROM, and nothing else"),
        (
            "CREATE TABLE other.x (k INT PRIMARY KEY)",
            UnknownSchema,
            "schema other does not exist; there are information_schema, nyala_catalog, pg_catalog, public",
        ),
        ("SELECT * FROM other.public.t", StatementError, "no databases to choose from"),
    ],
)
def test_what_is_refused(c, statement, error, message):
    with pytest.raises(error, match=message) as found:
        c.execute(statement)
    assert "^" in str(found.value)
