"""pg_catalog and the functions that read it: numbers, names, arrays, settings; that they follow the catalog."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.errors import Error, NotSupportedError, StatementError, TypeMismatch, UnknownFunction, UnknownTable
from nyala.sql.binding.system.definitions import relations
from nyala.sql.binding.system.types import oid_of, postgres_types


@pytest.fixture
def c(connection: nyala.Connection) -> nyala.Connection:
    connection.execute(
        "CREATE TABLE t (k INT, j SMALLINT, v VARCHAR(9) DEFAULT 'x' COMMENT 'words', PRIMARY KEY (k, j))"
    )
    connection.execute("CREATE VIEW w (a) AS SELECT v FROM t")
    return connection


def rows(c: nyala.Connection, text: str, values: Any = None) -> list[tuple[Any, ...]]:
    return c.execute(text, values).fetchall()


def value(c: nyala.Connection, expression: str) -> Any:
    ((found,),) = rows(c, f"SELECT {expression}")
    return found


# ---- relations -------------------------------------------------------------------------------------------------------


def test_every_relation_has_its_columns(c):
    for (schema, name), relation in relations().items():
        cursor = c.execute(f"SELECT * FROM {schema}.{name}")
        assert [column[0] for column in cursor.description] == [column.name for column in relation.columns]
        cursor.fetchall()


def test_pg_catalog_is_searched_first(c):
    c.execute("CREATE TABLE pg_am (k INT PRIMARY KEY)")
    assert rows(c, "SELECT amname FROM pg_am ORDER BY 1") == [("btree",), ("heap",)]
    assert rows(c, "SELECT k FROM public.pg_am") == []
    assert rows(c, "WITH pg_am (k) AS (SELECT 7) SELECT k FROM pg_am") == [(7,)]
    assert value(c, "'pg_am'::regclass::oid") == 2601 != value(c, "'public.pg_am'::regclass::oid")
    assert value(c, "'public.pg_am'::regclass::oid::regclass::text") == "public.pg_am"
    assert not value(c, "pg_table_is_visible('public.pg_am'::regclass)")


def test_numbers_are_the_same_after_a_restart(tmp_path: Path):
    query = "SELECT oid, relname FROM pg_class WHERE relname LIKE 'x%' UNION ALL SELECT oid, conname FROM pg_constraint"
    found = []
    for _ in range(2):
        with nyala.connect(tmp_path / "db") as connection:
            if not found:
                connection.execute("CREATE TABLE gone (k INT PRIMARY KEY)")
                connection.execute("CREATE TABLE xt (k INT PRIMARY KEY)")
                connection.execute("CREATE VIEW xv AS SELECT k FROM xt")
                connection.execute("DROP TABLE gone")
            found.append(sorted(connection.execute(query).fetchall()))
    assert found[0] == found[1]
    assert len({oid for oid, _ in found[0]}) == len(found[0]) == 4


def test_numbers_are_unique(c):
    for name in ("pg_class", "pg_type", "pg_proc", "pg_constraint", "pg_attrdef", "pg_namespace"):
        found = [oid for (oid,) in rows(c, f"SELECT oid FROM {name}")]
        assert len(found) == len(set(found)) and all(0 < oid < 1 << 32 for oid in found), name


def test_references_lead_to_what_they_name(c):
    for query in (
        "pg_attribute a LEFT JOIN pg_class c ON c.oid = a.attrelid WHERE c.oid IS NULL",
        "pg_attribute a LEFT JOIN pg_type t ON t.oid = a.atttypid WHERE t.oid IS NULL",
        "pg_index i LEFT JOIN pg_class c ON c.oid = i.indexrelid WHERE c.oid IS NULL",
        "pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.oid IS NULL",
        "pg_class c LEFT JOIN pg_type t ON t.oid = c.reltype WHERE reltype <> 0 AND typrelid IS DISTINCT FROM c.oid",
        "pg_type t LEFT JOIN pg_proc p ON p.oid = t.typinput WHERE p.oid IS NULL",
        "pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem WHERE t.typelem <> 0 AND e.oid IS NULL AND t.typelem < 600",
    ):
        assert rows(c, f"SELECT count(*) FROM {query}") == [(0,)], query


def test_types_have_postgresqls_numbers(c):
    c.execute(
        "CREATE TABLE every (k INT PRIMARY KEY, a TINYINT, b SMALLINT, c BIGINT, d FLOAT, e DOUBLE, f DECIMAL(9,2), "
        "g BOOLEAN, h DATE, i TIMESTAMP, j TEXT, l BINARY, m VARCHAR(5))"
    )
    found = rows(c, "SELECT atttypid FROM pg_attribute WHERE attrelid = 'every'::regclass ORDER BY attnum")
    names = [
        "int4",
        "int2",
        "int2",
        "int8",
        "float4",
        "float8",
        "numeric",
        "bool",
        "date",
        "timestamp",
        "text",
        "bytea",
        "varchar",
    ]
    assert [oid for (oid,) in found] == [postgres_types()[name].oid for name in names]
    assert [oid for (oid,) in found] == [oid_of(column.type) for column in c.store.table("every").schema.columns]


def test_they_follow_the_catalog(c):
    query = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind <> 'i' ORDER BY 1"
    assert rows(c, query) == [("t",), ("w",)]
    c.execute("CREATE TABLE u (k INT PRIMARY KEY)")
    assert rows(c, query) == [("t",), ("u",), ("w",)]
    number = value(c, "'u'::regclass::oid")
    c.execute("ALTER TABLE u RENAME TO z")
    assert value(c, "'z'::regclass::oid") == number
    c.execute("INSERT INTO z VALUES (1), (2)")
    assert rows(c, "SELECT reltuples FROM pg_class WHERE relname = 'z'") == [(2.0,)]
    c.execute("DROP TABLE z")
    assert rows(c, query) == [("t",), ("w",)]


def test_a_view_over_the_catalogs_shows_itself(c):
    c.execute("CREATE VIEW columns_of (r, n) AS SELECT attrelid::regclass::text, attname FROM pg_attribute")
    assert rows(c, "SELECT n FROM columns_of WHERE r IN ('w', 'columns_of') ORDER BY 1") == [("a",), ("n",), ("r",)]
    assert rows(c, "SELECT viewname FROM pg_views ORDER BY 1") == [("columns_of",), ("w",)]


def test_they_cannot_be_written(c):
    for statement in ("INSERT INTO pg_catalog.pg_class VALUES (1)", "DROP TABLE pg_catalog.pg_class"):
        with pytest.raises(StatementError, match="pg_catalog can be read in FROM, and nothing else"):
            c.execute(statement)


# ---- numbers and names -----------------------------------------------------------------------------------------------


def test_references_are_numbers_that_are_shown_as_names(c):
    assert value(c, "'t'::regclass") == "t"
    assert value(c, "'t'::regclass = 'public.t'::regclass AND 't'::regclass = '\"t\"'::regclass")
    assert value(c, "23::regtype") == value(c, "'int4'::regtype") == "integer"
    assert value(c, "'character varying(3)[]'::regtype::oid") == 1015
    assert value(c, "99999999::regclass") == "99999999"
    assert value(c, "0::regproc") == "-"
    assert rows(c, "SELECT typinput FROM pg_type WHERE oid IN (16, 1000) ORDER BY oid") == [("boolin",), ("array_in",)]
    assert rows(c, "SELECT r FROM (SELECT 'w'::regclass AS r) AS s WHERE r = 'w'::regclass") == [("w",)]
    with pytest.raises(UnknownTable, match="table nope does not exist") as caught:
        c.execute("SELECT 'nope'::regclass")
    assert "^" in str(caught.value)
    assert value(c, "to_regclass('nope')") is None
    named = "SELECT quote_ident(n) FROM (VALUES ('t'), ('nope')) AS s (n)"
    assert rows(c, f"SELECT f::regclass::oid IS NULL FROM ({named}) AS s (f)") == [(False,), (True,)]


def test_texts_of_definitions(c):
    number = value(c, "'t'::regclass::oid")
    assert value(c, f"pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = {number}") == "PRIMARY KEY (k, j)"
    key = "pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 't'::regclass"
    assert value(c, key) == "CREATE UNIQUE INDEX t_pkey ON public.t USING btree (k, j)"
    assert value(c, "pg_get_indexdef(indexrelid, 2, true) FROM pg_index WHERE indrelid = 't'::regclass") == "j"
    assert value(c, "pg_get_viewdef('w'::regclass)") == "SELECT v FROM t;"
    assert value(c, "col_description('t'::regclass, 3)") == "words"
    assert value(c, "pg_get_expr(adbin, adrelid) FROM pg_attrdef") == "'x'"
    types = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass ORDER BY attnum"
    assert rows(c, types) == [("integer",), ("smallint",), ("character varying(9)",)]


# ---- arrays and functions of rows ------------------------------------------------------------------------------------


def test_arrays(c):
    key = "SELECT attname FROM pg_attribute a, pg_constraint n WHERE attrelid = conrelid AND attnum = ANY (conkey)"
    assert rows(c, f"{key} ORDER BY attnum") == [("k",), ("j",)]
    assert value(c, "indkey[0] + indkey[1] FROM pg_index WHERE indrelid = 't'::regclass") == 3
    assert value(c, "ARRAY (SELECT relname FROM pg_class WHERE oid >= 16384 ORDER BY relname DESC)") == "{w,t_pkey,t}"
    assert value(c, "array_agg(x ORDER BY x) FROM (VALUES (2), (1), (NULL)) AS s (x)") == "{1,2,NULL}"
    assert value(c, "ARRAY['a', 'b c'] || ARRAY['d']") == '{a,"b c",d}'
    assert rows(c, "SELECT k FROM (VALUES (1), (5)) AS s (k) WHERE k = ANY ($1)", ["{1,2}"]) == [(1,)]
    assert value(c, "3 <> ALL ('{1,2}'::int[]) AND 'ab' LIKE ANY (ARRAY['x%', 'a%'])")
    assert value(c, "3 = ANY ('{1,NULL}')") is None
    for wrong, error in (("1 = ANY (2)", TypeMismatch), ("1 = ANY ('{a}')", Error), ("1 < ANY (conkey)", Error)):
        with pytest.raises(error):
            c.execute(f"SELECT {wrong} FROM pg_constraint").fetchall()


def test_functions_of_rows(c):
    assert rows(c, "SELECT unnest('{a,b}'::text[]), generate_subscripts('{a,b}'::text[], 1)") == [("a", 1), ("b", 2)]
    assert rows(c, "SELECT generate_series(1, 2) AS n, 'x'") == [(1, "x"), (2, "x")]
    assert rows(c, "SELECT k, unnest(a) FROM (VALUES (1, '{x,y}'), (2, '{}'), (3, '{z}')) AS s (k, a)") == [
        (1, "x"), (1, "y"), (3, "z")
    ]  # fmt: skip
    assert rows(c, "SELECT * FROM unnest(ARRAY[5, 6]) WITH ORDINALITY AS u (x, n)") == [(5, 1), (6, 2)]
    assert rows(c, "SELECT unnest(ARRAY[$1, $2]) AS x", ["p", "q"]) == [("p",), ("q",)]
    keys = "SELECT information_schema._pg_expandarray(conkey) AS keys FROM pg_constraint"
    assert rows(c, f"SELECT (e.keys).x, (e.keys).n FROM ({keys}) AS e") == [(1, 1), (2, 2)]
    assert rows(c, "SELECT s FROM lower('A') AS s") == [("a",)]
    with pytest.raises(UnknownFunction):
        c.execute("SELECT * FROM nope(1)")


# ---- the session -----------------------------------------------------------------------------------------------------


def test_rows_of_several_arrays_and_of_cast_arrays(c):
    both = "SELECT * FROM unnest('{1,2,3}'::int[], '{a,b}'::text[])"
    assert rows(c, f"{both} AS u (x, y)") == rows(c, both) == [(1, "a"), (2, "b"), (3, None)]
    assert rows(c, "SELECT y, n FROM unnest(ARRAY[5], ARRAY[6, 7]) WITH ORDINALITY AS u (x, y, n)") == [(6, 1), (7, 2)]
    assert rows(c, "SELECT * FROM unnest($1::varchar(2)[], $2::float8[]) AS u (x, y)", ["{abc,NULL}", "{1.5,2}"]) == [
        ("ab", 1.5),
        (None, 2.0),
    ]
    day = datetime.date(2026, 1, 2)
    noon = datetime.datetime(2026, 1, 2, 12)
    arrays = "'{2026-01-02}'::date[]", "'{2026-01-02 12:00+00}'::timestamptz[]", "'{1.5}'::numeric(3,1)[]"
    assert rows(c, f"SELECT {', '.join(f'unnest({array})' for array in arrays)}") == [(day, noon, Decimal("1.5"))]
    with pytest.raises(nyala.ProgrammingError, match="unnest of several arrays is possible in FROM alone"):
        c.execute("SELECT unnest('{1}'::int[], '{2}'::int[])")
    with pytest.raises(nyala.DataError):
        c.execute("SELECT * FROM unnest('{x}'::date[]) AS u (x)").fetchall()


def test_settings_of_clients(c):
    c.execute("SET application_name TO 'report'")
    assert value(c, "current_setting('application_name')") == "report"
    assert value(c, "set_config('application_name', 'other', false)") == "other"
    assert rows(c, "SHOW application_name") == rows(c, "SELECT application_name FROM pg_stat_activity") == [("other",)]
    for accepted in (
        "SET extra_float_digits = 3", "SET client_encoding = 'utf-8'", "SET NAMES 'UTF8'",
        "SET standard_conforming_strings = on",
        'SET search_path = "$user", public', "SET DateStyle TO ISO", "SET statement_timeout = 0",
    ):  # fmt: skip
        c.execute(accepted)
    assert rows(c, "SHOW search_path") == [('"$user", public',)]
    c.execute("RESET ALL")
    assert rows(c, "SHOW application_name") == [("",)]
    assert rows(c, "SHOW server_version") == rows(c, "SELECT setting FROM pg_settings WHERE name = 'server_version'")
    for refused in (
        "SET client_encoding = 'latin1'",
        "SET standard_conforming_strings = off",
        "SET server_version = '9'",
    ):
        with pytest.raises((NotSupportedError, StatementError)):
            c.execute(f"SET {refused}")


def test_explain_sets_nothing(c):
    c.execute("EXPLAIN SELECT set_config('application_name', 'x', false)").fetchall()
    assert rows(c, "SHOW application_name") == [("",)]


def test_the_session(c):
    assert value(c, "current_schemas(true)") == "{pg_catalog,public}"
    assert rows(c, "SELECT current_user, session_user, current_database(), current_schema()") == [
        ("nyala", "nyala", "nyala", "public")
    ]
    c.execute('CREATE TABLE users ("user" INT PRIMARY KEY)')
    c.execute("INSERT INTO users VALUES (7)")
    assert rows(c, "SELECT user FROM users") == [(7,)]
    assert value(c, "has_table_privilege('t', 'SELECT') AND pg_backend_pid() > 0")


# ---- texts and operators ---------------------------------------------------------------------------------------------


def test_texts_with_escapes_and_between_dollars(c):
    assert value(c, r"E'a\tb\'c\\\x41\u00e9\101'") == "a\tb'c\\A\u00e9A"
    assert value(c, "$$it's$$ || $x$ $$ $x$") == "it's $$ "
    assert rows(c, "SELECT v FROM (VALUES (1, E'a\\'b')) AS s (k, v) WHERE k = 1 AND v = E'a\\'b'") == [("a'b",)]


def test_operators_and_collations(c):
    query = """SELECT relname FROM pg_class WHERE relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default"""
    assert rows(c, query) == [("t",)]
    assert value(c, "1 OPERATOR(pg_catalog.+) 2") == 3
    assert value(c, "TIMESTAMP '2026-01-01 10:00' AT TIME ZONE 'UTC' = '2026-01-01 10:00'::timestamptz")
