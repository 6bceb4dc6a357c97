"""ALTER SCHEMA: all tables and views get other names in one step, with the texts and grants that depend on them; owners
of schemas and views."""

from __future__ import annotations

from typing import Any

import nyala
import pytest
from nyala.driver.session.identity import as_user
from nyala.errors import (
    DuplicateSchema,
    InvalidTableDefinition,
    PermissionDenied,
    SerializationFailure,
    SqlSyntaxError,
    StatementError,
    UnknownRole,
    UnknownSchema,
    UnknownTable,
)

NO_DDL = pytest.mark.embedded_only("a transaction of another store has no DDL")
USERS = pytest.mark.embedded_only("the first user locks other tests out of a store that they share")


@pytest.fixture
def c(connection: nyala.Connection) -> nyala.Connection:
    """A schema with a table and a view of it, and a view of another schema that reads both."""
    connection.execute("CREATE SCHEMA s; CREATE TABLE s.t (k INT PRIMARY KEY); INSERT INTO s.t VALUES (1), (2)")
    connection.execute("CREATE VIEW s.v AS SELECT k FROM s.t WHERE k > 1")
    connection.execute("CREATE VIEW w AS SELECT v.k, t.k AS j FROM s.v JOIN s.t ON true")
    return connection


def rows(connection: nyala.Connection, text: str) -> list[Any]:
    return sorted(connection.execute(text).fetchall())


def test_everything_moves_with_a_schema(c: nyala.Connection) -> None:
    before = rows(c, "SELECT * FROM w")
    table = c.store.table("s.t").id
    c.execute("ALTER SCHEMA s RENAME TO r")
    assert [name for (name,) in c.execute("SHOW SCHEMAS").fetchall()] == ["public", "r"]
    assert c.store.table("r.t").id == table
    assert rows(c, "SELECT * FROM w") == before == [(2, 1), (2, 2)]
    assert rows(c, "SELECT k FROM r.v") == [(2,)]
    with pytest.raises(UnknownSchema):
        c.execute("SELECT * FROM s.t")
    c.execute("INSERT INTO r.t VALUES (3); CREATE SCHEMA s; CREATE TABLE s.t (k INT PRIMARY KEY)")
    assert rows(c, "SELECT count(*) FROM w") == [(6,)] and rows(c, "SELECT * FROM s.t") == []
    c.execute("ALTER SCHEMA s RENAME TO q; ALTER SCHEMA r RENAME TO s")
    assert rows(c, "SELECT k FROM s.t") == [(1,), (2,), (3,)] and rows(c, "SELECT * FROM q.t") == []


def test_names_that_need_quotes(c: nyala.Connection) -> None:
    c.execute('CREATE TABLE s."a.b" (k INT PRIMARY KEY); CREATE VIEW x AS SELECT * FROM s."a.b"')
    c.execute('ALTER SCHEMA s RENAME TO "The.Schema"')
    assert rows(c, 'SELECT count(*) FROM "The.Schema"."a.b"') == rows(c, "SELECT count(*) FROM x") == [(0,)]
    c.execute('ALTER SCHEMA "The.Schema" RENAME TO s; DROP TABLE s."a.b" CASCADE')
    assert rows(c, "SELECT * FROM s.v") == [(2,)]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("ALTER SCHEMA public RENAME TO x", InvalidTableDefinition, "schema public cannot be altered"),
        ("ALTER SCHEMA pg_catalog OWNER TO nyala", InvalidTableDefinition, "schema pg_catalog cannot be altered"),
        ("ALTER SCHEMA r RENAME TO x", UnknownSchema, "schema r does not exist"),
        ("ALTER SCHEMA s RENAME TO main", DuplicateSchema, "schema main exists already"),
        ("ALTER SCHEMA s RENAME TO s", DuplicateSchema, "schema s exists already"),
        ("ALTER SCHEMA s RENAME TO pg_x", InvalidTableDefinition, "a schema cannot be called pg_x"),
        ("ALTER SCHEMA s RENAME TO pg_temp", InvalidTableDefinition, "each session has one of its own"),
        ("ALTER SCHEMA s OWNER TO nobody", UnknownRole, "role nobody does not exist"),
        ("ALTER SCHEMA s SET x", SqlSyntaxError, "RENAME TO or OWNER TO expected"),
    ],
)
def test_what_is_refused(c: nyala.Connection, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        c.execute(text)
    assert rows(c, "SELECT * FROM s.v") == [(2,)]


def test_a_view_that_cannot_follow_stops_it(c: nyala.Connection) -> None:
    c.execute("CREATE VIEW x AS SELECT s.t.k FROM s.t")
    with pytest.raises(StatementError, match="view x would become invalid"):
        c.execute("ALTER SCHEMA s RENAME TO r")
    assert rows(c, "SELECT * FROM x") == [(1,), (2,)]


def test_a_temporary_view_follows(c: nyala.Connection) -> None:
    c.execute("CREATE TEMPORARY VIEW mine AS SELECT k FROM s.t")
    c.execute("ALTER SCHEMA s RENAME TO r; ALTER TABLE r.t RENAME TO u")
    assert rows(c, "SELECT * FROM mine") == [(1,), (2,)]
    assert rows(c, "SELECT * FROM w") == [(2, 1), (2, 2)]


@NO_DDL
def test_it_is_part_of_a_transaction(c: nyala.Connection) -> None:
    c.execute("BEGIN; ALTER SCHEMA s RENAME TO r; INSERT INTO r.t VALUES (3)")
    assert rows(c, "SELECT * FROM r.v") == [(2,), (3,)]
    c.execute("ROLLBACK")
    assert rows(c, "SELECT * FROM s.v") == [(2,)]
    with c.duplicate() as other:
        c.execute("BEGIN; ALTER SCHEMA s RENAME TO r")
        other.execute("CREATE TABLE s.more (k INT PRIMARY KEY)")
        with pytest.raises(SerializationFailure, match=r"s\.more was created by another transaction"):
            c.execute("COMMIT")
    c.execute("BEGIN; ALTER SCHEMA s RENAME TO r; COMMIT")
    assert rows(c, "SELECT * FROM r.v") == [(2,)]


@USERS
def test_owners_and_grants(c: nyala.Connection) -> None:
    c.execute("CREATE USER ann PASSWORD 'x'; CREATE USER ben PASSWORD 'x'; CREATE ROLE team; GRANT team TO ann")
    c.execute("GRANT USAGE ON SCHEMA s TO ben; GRANT SELECT ON s.v TO ben; GRANT CREATE ON SCHEMA public TO team")
    with as_user(c, "ann") as ann, as_user(c, "ben") as ben:
        for refused in ("ALTER SCHEMA s OWNER TO ben", "ALTER SCHEMA s RENAME TO r", "ALTER VIEW w OWNER TO ben"):
            with pytest.raises(PermissionDenied, match="must be owner of"):
                ben.execute(refused)
        c.execute("ALTER SCHEMA s OWNER TO ann; ALTER VIEW w OWNER TO ann; ALTER TABLE s.t OWNER TO ann")
        assert [each.owner for each in c.store.namespaces()] == ["", "ann"]
        with pytest.raises(PermissionDenied, match="superuser"):
            ann.execute("ALTER SCHEMA s RENAME TO r")
        for refused in ("ALTER SCHEMA s OWNER TO ben", "ALTER VIEW w OWNER TO ben"):
            with pytest.raises(PermissionDenied, match="ann is no member of role ben"):
                ann.execute(refused)
        ann.execute("GRANT SELECT ON w TO ben; ALTER VIEW w OWNER TO team")
        view = c.store.view("w")
        assert view is not None and view.owner == "team"
        # What ann has granted, her team has granted now.
        assert ("view", "w", "ben", "SELECT", "team", False) in c.execute("SHOW GRANTS").fetchall()
        with pytest.raises(PermissionDenied, match="in view w: permission denied for schema s: role team"):
            ben.execute("SELECT * FROM w")  # its owner has no right on what it reads
        ann.execute("ALTER SCHEMA s OWNER TO team")
        c.execute("ALTER SCHEMA s RENAME TO r")
        assert rows(ben, "SELECT * FROM r.v") == [(2,)]
        assert {grant[:3] for grant in c.execute("SHOW GRANTS").fetchall()} >= {
            ("schema", "r", "ben"),
            ("view", "r.v", "ben"),
        }
        c.execute("CREATE SCHEMA s; CREATE VIEW s.v AS SELECT 1 AS one")
        with pytest.raises(PermissionDenied):
            ben.execute("SELECT * FROM s.v")  # new objects of an old name have none of its grants
    assert c.execute("SHOW CREATE VIEW w").fetchone() is not None
    with pytest.raises(UnknownTable):
        c.execute("ALTER VIEW IF EXISTS s.v OWNER TO ann; ALTER VIEW nothing OWNER TO ann")
    c.execute("ALTER VIEW IF EXISTS nothing OWNER TO ann")
