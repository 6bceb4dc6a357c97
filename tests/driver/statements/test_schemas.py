"""Schemas and the search path: names against a model, what is kept by the text of a statement, other connections."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DependentObjects, DuplicateSchema, NotSupportedError, SerializationFailure, UnknownTable

SCRIPTS = Path(__file__).parent / "golden" / "schemas"


@pytest.mark.parametrize("script", sorted(path.stem for path in SCRIPTS.glob("*.txt")))
def test_script(
    script: str, golden: Callable[[Path, Callable[[str], str]], None], connection: nyala.Connection
) -> None:
    def run(command: str) -> str:
        cursor = connection.execute(command)
        if cursor.description is None:
            return "OK"
        rows = [" | ".join("" if value is None else str(value) for value in row) for row in cursor.fetchall()]
        return "\n".join([" | ".join(column[0] for column in cursor.description), *(row or "(empty)" for row in rows)])

    golden(SCRIPTS / f"{script}.txt", run)


# ---- names against a model -------------------------------------------------------------------------------------------

SCHEMAS = ("public", "a", "b", "B.c", "main")
TABLES = ("t", "u", "T", "b.t", "a.t")
WITHIN = st.sets(st.tuples(st.sampled_from(SCHEMAS[:-1]), st.sampled_from(TABLES)))
PATHS = st.lists(st.sampled_from([*SCHEMAS, "nobody"]), max_size=4)


def quoted(*parts: str) -> str:
    return ".".join('"{}"'.format(part.replace('"', '""')) for part in parts)


def collides(tables: set[tuple[str, str]]) -> bool:
    """True if a name of the default schema is the name in the store of a table of another one."""
    return any(schema == "public" and "." in name for schema, name in tables)


@pytest.mark.embedded_only("makes dozens of tables for each of its examples")
@settings(max_examples=examples(100), deadline=None)
@given(tables=WITHIN, temporary=st.sets(st.sampled_from(TABLES)), paths=st.lists(PATHS, min_size=1, max_size=4))
def test_names_mean_what_a_model_says(tables, temporary, paths):
    if collides(tables):
        tables = {(schema, name) for schema, name in tables if schema != "public" or "." not in name}
    with nyala.connect(":memory:") as c:
        for schema in ("a", "b", "B.c"):
            c.execute(f"CREATE SCHEMA {quoted(schema)}")
        for schema, name in sorted(tables):
            c.execute(f"CREATE TABLE {quoted(schema, name)} (k STRING PRIMARY KEY)")
            c.execute(f"INSERT INTO {quoted(schema, name)} VALUES (?)", [f"{schema} {name}"])
        for name in sorted(temporary):
            c.execute(f"CREATE TEMP TABLE {quoted(name)} (k STRING PRIMARY KEY)")
            c.execute(f"INSERT INTO pg_temp.{quoted(name)} VALUES (?)", [f"pg_temp {name}"])
        there = {
            **{key: " ".join(key) for key in tables},
            **{("pg_temp", name): f"pg_temp {name}" for name in temporary},
        }
        for path in paths:
            c.execute(f"SET search_path = {', '.join(map(quoted, path)) or quoted('nobody')}")
            names = ["public" if schema == "main" else schema for schema in path]
            searched = ["pg_temp", *names]
            for name in TABLES:
                wanted = next((there[schema, name] for schema in searched if (schema, name) in there), None)
                assert read(c, quoted(name)) == wanted, (path, name)
                assert (c.execute("SELECT to_regclass(?)", [quoted(name)]).fetchone()[0] is None) == (wanted is None)
                for schema in SCHEMAS:
                    key = ("public" if schema == "main" else schema, name)
                    assert read(c, quoted(schema, name)) == there.get(key)
            existing = [schema for schema in names if schema != "nobody"]
            assert c.execute("SELECT current_schema()").fetchone() == (existing[0] if existing else None,)


def read(c: nyala.Connection, name: str) -> str | None:
    """The one row of a table; None if there is no such table."""
    try:
        (row,) = c.execute(f"SELECT k FROM {name}").fetchall()
    except UnknownTable:
        return None
    return str(row[0])


# ---- what is kept under a name ---------------------------------------------------------------------------------------


@pytest.fixture
def c(connection):
    """A table `t` in public with 1, in a with 2 and 3; `t` without a schema is the former."""
    connection.execute("CREATE SCHEMA a")
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    connection.execute("CREATE TABLE a.t (k INT PRIMARY KEY, v INT)")
    connection.execute("INSERT INTO t VALUES (1, 10)")
    connection.execute("INSERT INTO a.t VALUES (2, 20), (3, 30)")
    return connection


def rows(c, text, *parameters):
    return c.execute(text, parameters).fetchall()


def test_statements_that_are_kept_are_those_of_the_path(c):
    for text, parameters, public, a in (
        ("SELECT k FROM t ORDER BY k", (), [(1,)], [(2,), (3,)]),
        ("SELECT v FROM t WHERE k = ?", (1,), [(10,)], []),
        ("SELECT v FROM t WHERE k = 2", (), [], [(20,)]),
        ("SELECT count(*) FROM t WHERE v > ?", (5,), [(1,)], [(2,)]),
        ("EXPLAIN SELECT k FROM t WHERE k = 1", (), None, None),
    ):
        for _ in range(3):
            c.execute("SET search_path = public")
            first = rows(c, text, *parameters)
            c.execute("SET search_path = a")
            second = rows(c, text, *parameters)
            assert first != second
            assert public is None or (first, second) == (public, a)
    c.execute("RESET search_path")
    assert rows(c, "SELECT k FROM t") == [(1,)]
    c.execute("SELECT set_config('search_path', 'a, public', false)")
    assert rows(c, "SELECT k FROM t ORDER BY k") == [(2,), (3,)]
    c.execute("DISCARD ALL")
    assert rows(c, "SELECT k FROM t") == [(1,)]


def test_rows_of_parameters_go_to_the_table_of_the_path(c):
    for _ in range(2):
        for path in ("public", "a"):
            c.execute(f"SET search_path = {path}")
            c.cursor().executemany("UPSERT INTO t VALUES (?, ?)", [(100 + n, n) for n in range(50)])
            c.execute("UPSERT INTO t VALUES (?, ?)", [200 if path == "a" else 300, 1])
    assert rows(c, "SELECT (SELECT count(*) FROM public.t), (SELECT count(*) FROM a.t)") == [(52, 53)]
    assert rows(c, "SELECT k FROM a.t WHERE k >= 200") == [(200,)]


def test_a_new_table_earlier_on_the_path_is_found_at_once(c):
    c.execute("CREATE SCHEMA first")
    c.execute("SET search_path = first, public")
    assert rows(c, "SELECT k FROM t") == [(1,)]
    c.execute("CREATE TABLE first.t (k INT PRIMARY KEY)")
    assert rows(c, "SELECT k FROM t") == []
    c.execute("DROP SCHEMA first CASCADE")
    assert rows(c, "SELECT k FROM t") == [(1,)]


def test_each_connection_has_its_own_path_and_its_own_temporary_tables(c):
    with c.duplicate() as other:
        other.execute("SET search_path = a")
        other.execute("CREATE TEMP TABLE mine (k INT PRIMARY KEY)")
        other.execute("INSERT INTO mine VALUES (1)")
        assert rows(other, "SELECT count(*) FROM t, mine") == [(2,)]
        assert rows(c, "SELECT count(*) FROM t") == [(1,)]
        with pytest.raises(UnknownTable, match="mine"):
            c.execute("SELECT * FROM mine")
        c.execute("CREATE TEMP TABLE mine (other STRING PRIMARY KEY)")
        assert rows(other, "SELECT k FROM mine") == [(1,)]
    with c.duplicate() as other, pytest.raises(UnknownTable, match="mine"):
        other.execute("SELECT * FROM mine")


def test_schemas_are_seen_by_other_connections(c):
    with c.duplicate() as other:
        other.execute("CREATE SCHEMA late")
        with pytest.raises(DuplicateSchema):
            c.execute("CREATE SCHEMA late")
        c.execute("CREATE SCHEMA IF NOT EXISTS late")
        other.execute("CREATE TABLE late.x (k INT PRIMARY KEY)")
        with pytest.raises(DependentObjects):
            c.execute("DROP SCHEMA late")
        c.execute("DROP SCHEMA late CASCADE")
        other.execute("DROP SCHEMA IF EXISTS late")


def test_tables_without_sql_are_named_with_schemas(c):
    assert c.table("a.t").count() == 2 and c.table("t").count() == c.table("main.t").count() == 1
    c.execute("SET search_path = a")
    assert c.table("t").count() == 2
    c.table("public.t").insert([(7, 70)])
    assert rows(c, "SELECT k FROM public.t ORDER BY k") == [(1,), (7,)]
    with pytest.raises(UnknownTable):
        c.table("a.u")
    with pytest.raises(UnknownTable, match="schema nope does not exist"):
        c.table("nope.t")
    assert c.load("a.t", [{"k": 9, "v": 1}]) == 1 and c.table("a.t").count() == 3


# ---- temporary tables in transactions --------------------------------------------------------------------------------


def test_a_transaction_holds_for_temporary_tables_too(c):
    c.execute("CREATE TEMP TABLE s (k INT PRIMARY KEY)")
    c.begin()
    c.execute("INSERT INTO s VALUES (1)")
    c.execute("SAVEPOINT one")
    c.execute("INSERT INTO s VALUES (2)")
    c.execute("UPDATE t SET v = 11")
    c.execute("ROLLBACK TO one")
    assert rows(c, "SELECT s.k, v FROM s, t") == [(1, 10)]
    c.commit()
    c.begin()
    c.execute("DELETE FROM s")
    c.execute("DELETE FROM t")
    c.rollback()
    assert rows(c, "SELECT s.k, v FROM s, t") == [(1, 10)]


def test_a_first_temporary_table_is_part_of_the_open_transaction(c):
    c.begin()
    c.execute("UPDATE t SET v = 12")
    c.execute("SAVEPOINT before")
    c.execute("CREATE TEMP TABLE s (k INT PRIMARY KEY)")
    c.execute("INSERT INTO s SELECT k FROM t")
    assert rows(c, "SELECT s.k, v FROM s JOIN t USING (k)") == [(1, 12)]
    c.execute("ROLLBACK TO before")
    with pytest.raises(UnknownTable):
        c.execute("SELECT * FROM s")
    c.execute("CREATE TEMP TABLE s (k INT PRIMARY KEY)")
    c.commit()
    assert rows(c, "SELECT v FROM t") == [(12,)] and rows(c, "SELECT * FROM s") == []


def test_a_commit_that_is_refused_rolls_temporary_rows_back(c):
    c.execute("CREATE TEMP TABLE s (k INT PRIMARY KEY)")
    c.begin()
    c.execute("INSERT INTO s VALUES (1)")
    c.execute("UPDATE t SET v = v + 1")
    with c.duplicate() as other:
        other.execute("UPDATE t SET v = 99")
    with pytest.raises(SerializationFailure):
        c.commit()
    assert rows(c, "SELECT * FROM s") == [] and rows(c, "SELECT v FROM t") == [(99,)]


@pytest.mark.embedded_only("its transactions change the catalog")
def test_a_schema_is_made_and_filled_by_a_transaction(c):
    c.begin()
    c.execute("CREATE SCHEMA n")
    c.execute("CREATE TABLE n.t PRIMARY KEY (k) AS SELECT * FROM a.t")
    c.execute("CREATE VIEW n.v AS SELECT k FROM n.t")
    c.execute("SET search_path = n")
    assert rows(c, "SELECT count(*) FROM v") == [(2,)]
    with c.duplicate() as other, pytest.raises(UnknownTable):
        other.execute("SELECT * FROM n.t")
    c.commit()
    with c.duplicate() as other:
        assert rows(other, "SELECT count(*) FROM n.v") == [(2,)]
    c.begin()
    c.execute("DROP SCHEMA n CASCADE")
    c.rollback()
    assert rows(c, "SELECT count(*) FROM v") == [(2,)]


def test_an_engine_of_other_processes_does_not_read_temporary_tables(c):
    from nyala.driver.session.temporary_objects import refuse_temporary
    from nyala.planner import plan_query
    from nyala.sql import bind, parse

    c.execute("CREATE TEMP TABLE s (k INT PRIMARY KEY)")
    (parsed,) = parse("SELECT k FROM (SELECT k FROM t UNION ALL SELECT k FROM s) AS x")
    plan = plan_query(bind(parsed, c.store).query, c.store)
    with pytest.raises(NotSupportedError, match=r"pg_temp\.s is a temporary table"):
        refuse_temporary(plan)
