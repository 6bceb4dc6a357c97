"""ALTER VIEW: names and schemas of views change in one step, with what depends on them and the grants on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.driver.session.identity import as_user
from nyala.errors import (
    DuplicateTable,
    InvalidTableDefinition,
    NotSupportedError,
    PermissionDenied,
    SerializationFailure,
    StatementError,
    UnknownTable,
)

NO_DDL = pytest.mark.embedded_only("a transaction of another store has no DDL")
BOTH = pytest.mark.parametrize("kind", ["VIEW", "TABLE"])


@pytest.fixture
def c(connection: nyala.Connection) -> nyala.Connection:
    """A connection with a table, a view of it and a second schema."""
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, a STRING); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    connection.execute("CREATE VIEW v (n) AS SELECT k FROM t WHERE k > 1; CREATE SCHEMA s")
    return connection


def rows(connection: nyala.Connection, text: str) -> list[Any]:
    return connection.execute(text).fetchall()


def view_names(connection: nyala.Connection) -> list[str]:
    return [view.name for view in connection.store.views()]


@BOTH
def test_a_view_gets_another_name(c: nyala.Connection, kind: str) -> None:
    version = c.store.catalog_version
    c.execute(f"ALTER {kind} v RENAME TO w")
    assert c.store.catalog_version > version
    assert rows(c, "SELECT n FROM w") == [(2,)]
    with pytest.raises(UnknownTable, match="table v does not exist"):
        c.execute("SELECT * FROM v")
    c.execute("CREATE VIEW v AS SELECT 7 AS seven")
    assert rows(c, "SELECT * FROM v, w") == [(7, 2)]
    assert rows(c, "SHOW CREATE VIEW w") == [("CREATE VIEW w (n) AS\nSELECT k FROM t WHERE k > 1",)]


@BOTH
def test_a_view_moves_to_another_schema(c: nyala.Connection, kind: str) -> None:
    c.execute(f"ALTER {kind} public.v SET SCHEMA s")
    assert rows(c, "SELECT n FROM s.v") == [(2,)]
    c.execute(f"ALTER {kind} s.v SET SCHEMA s; ALTER {kind} s.v RENAME TO w")
    assert view_names(c) == ["s.w"]
    c.execute("ALTER VIEW s.w SET SCHEMA main")
    assert rows(c, "SELECT n FROM w") == [(2,)]
    c.execute("DROP SCHEMA s")


def test_plans_of_the_old_name_are_not_used_again(c: nyala.Connection) -> None:
    """As dbt replaces a view: the new one under another name, then two names change."""
    for generation in range(3):
        c.execute(f"CREATE VIEW v__new AS SELECT {generation} AS n")
        c.execute('ALTER VIEW v RENAME TO v__old; ALTER VIEW "nyala"."public"."v__new" RENAME TO "v"; DROP VIEW v__old')
        assert rows(c, "SELECT n FROM v") == [(generation,)]
    assert view_names(c) == ["v"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("ALTER VIEW w RENAME TO x", UnknownTable, "view w does not exist; there is only v"),
        ("ALTER TABLE w RENAME TO x", UnknownTable, "table w does not exist"),
        ("ALTER VIEW t RENAME TO x", StatementError, "t is a table, not a view; ALTER TABLE changes it"),
        ("ALTER VIEW v RENAME TO t", DuplicateTable, "table t exists already"),
        ("ALTER VIEW v RENAME TO v", DuplicateTable, "view v exists already"),
        ("ALTER VIEW v SET SCHEMA pg_temp", NotSupportedError, "into or out of the schema of temporary objects"),
        ('ALTER VIEW v RENAME TO "s.v"', InvalidTableDefinition, "which means one of schema s"),
        ("ALTER TABLE v RENAME COLUMN n TO m", StatementError, "v is a view, and this needs a table"),
        ("ALTER TABLE v RENAME TO x, SET SCHEMA s", StatementError, "v is a view, and this needs a table"),
        ("ALTER VIEW v OWNER TO ann", NotSupportedError, "only RENAME TO and SET SCHEMA"),
    ],
)
def test_what_is_refused(c: nyala.Connection, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        c.execute(text)
    assert view_names(c) == ["v"]


def test_if_exists_passes_over_nothing_but_views(c: nyala.Connection) -> None:
    c.execute("ALTER VIEW IF EXISTS w RENAME TO x; ALTER VIEW IF EXISTS nowhere.w SET SCHEMA s")
    with pytest.raises(StatementError, match="t is a table, not a view"):
        c.execute("ALTER VIEW IF EXISTS t RENAME TO x")
    c.execute("ALTER VIEW IF EXISTS v RENAME TO x")
    assert view_names(c) == ["x"]


def test_a_view_that_others_use_keeps_its_name(c: nyala.Connection) -> None:
    c.execute("CREATE VIEW over AS SELECT n FROM v")
    for change in ("RENAME TO w", "SET SCHEMA s"):
        with pytest.raises(StatementError, match="view over would become invalid: table v does not exist"):
            c.execute(f"ALTER VIEW v {change}")
    c.execute("ALTER VIEW over RENAME TO above; DROP VIEW above; ALTER VIEW v RENAME TO w")
    assert view_names(c) == ["w"]


def test_temporary_views_are_renamed_in_their_session(c: nyala.Connection) -> None:
    c.execute("CREATE TEMPORARY VIEW mine AS SELECT k AS twice FROM t; ALTER VIEW mine RENAME TO v")
    assert rows(c, "SELECT twice FROM v ORDER BY 1") == [(1,), (2,)]  # before that of the store
    assert rows(c, "SELECT n FROM public.v") == [(2,)]
    with pytest.raises(NotSupportedError, match="into or out of the schema of temporary objects"):
        c.execute("ALTER VIEW v SET SCHEMA public")
    c.execute("DISCARD TEMP")
    assert rows(c, "SELECT n FROM v") == [(2,)]


@pytest.mark.embedded_only("other users are sessions of the same store")
def test_grants_follow_the_view_and_not_its_name(c: nyala.Connection) -> None:
    c.execute("CREATE USER ann; GRANT SELECT ON v TO ann")
    c.execute("ALTER VIEW v RENAME TO w; CREATE VIEW v AS SELECT k FROM t")
    with as_user(c, "ann") as ann:
        assert rows(ann, "SELECT n FROM w") == [(2,)]
        with pytest.raises(PermissionDenied, match=r"for (table|view) v"):
            ann.execute("SELECT * FROM v")
        with pytest.raises(PermissionDenied, match="must be owner of view w"):
            ann.execute("ALTER VIEW w RENAME TO x")
    assert rows(c, "SHOW GRANTS ON w") == [("view", "w", "ann", "SELECT", "nyala", False)]
    c.execute("DROP VIEW v; DROP VIEW w; CREATE VIEW w AS SELECT k FROM t")
    assert rows(c, "SHOW GRANTS ON w") == []


@pytest.mark.embedded_only("other users are sessions of the same store")
def test_the_owner_needs_create_on_the_schema(c: nyala.Connection) -> None:
    c.execute("CREATE USER ann; GRANT CREATE ON SCHEMA public TO ann; GRANT USAGE ON SCHEMA s TO ann")
    with as_user(c, "ann") as ann:
        ann.execute("CREATE VIEW hers AS SELECT 1 AS one; ALTER VIEW hers RENAME TO still")
        with pytest.raises(PermissionDenied, match="for schema s: user ann needs CREATE"):
            ann.execute("ALTER VIEW still SET SCHEMA s")
        c.execute("GRANT CREATE ON SCHEMA s TO ann")
        ann.execute("ALTER VIEW still SET SCHEMA s")
        assert c.store.view("s.still").owner == "ann"  # type: ignore[union-attr]


# ---- transactions ----------------------------------------------------------------------------------------------------


@NO_DDL
def test_a_transaction_renames_with_its_commit(c: nyala.Connection) -> None:
    c.execute("CREATE USER ann")
    with c.duplicate() as other:
        c.execute("BEGIN; GRANT SELECT ON v TO ann; ALTER VIEW v RENAME TO w; CREATE VIEW v AS SELECT 5 AS n")
        c.execute("GRANT SELECT ON v TO ann; ALTER VIEW v RENAME TO x; ALTER VIEW x RENAME TO y")
        assert rows(c, "SELECT w.n, y.n FROM w, y") == [(2, 5)]
        assert rows(other, "SELECT n FROM v") == [(2,)]
        c.execute("COMMIT")
        assert rows(other, "SELECT w.n, y.n FROM w, y") == [(2, 5)]
    for name in ("w", "y"):
        assert rows(c, f"SHOW GRANTS ON {name}") == [("view", name, "ann", "SELECT", "nyala", False)]


@NO_DDL
def test_savepoints_and_rollback_give_names_back(c: nyala.Connection) -> None:
    c.execute("BEGIN; SAVEPOINT a; ALTER VIEW v RENAME TO w; ROLLBACK TO a")
    assert rows(c, "SELECT n FROM v") == [(2,)]
    c.execute("ALTER VIEW v RENAME TO w; ROLLBACK")
    assert view_names(c) == ["v"]


@NO_DDL
@pytest.mark.parametrize(
    "meanwhile",
    [
        "DROP VIEW v",
        "CREATE OR REPLACE VIEW v AS SELECT 1 AS n",
        "CREATE VIEW w AS SELECT 1",
        "ALTER VIEW v RENAME TO x",
    ],
)
def test_the_first_change_of_a_view_wins(c: nyala.Connection, meanwhile: str) -> None:
    with c.duplicate() as other:
        c.execute("BEGIN; ALTER VIEW v RENAME TO w")
        other.execute(meanwhile)
        with pytest.raises(SerializationFailure, match="by another transaction"):
            c.execute("COMMIT")


# ---- durability ------------------------------------------------------------------------------------------------------


def test_names_stay_after_reopening(tmp_path: Path) -> None:
    with nyala.connect(tmp_path) as c:
        c.execute("CREATE VIEW v AS SELECT 1 AS one; CREATE USER ann; GRANT SELECT ON v TO ann")
        c.execute("ALTER VIEW v RENAME TO w; CREATE SCHEMA s; ALTER VIEW w SET SCHEMA s")
    with nyala.connect(tmp_path) as c:
        assert view_names(c) == ["s.w"]
        assert rows(c, "SHOW GRANTS ON s.w") == [("view", "s.w", "ann", "SELECT", "nyala", False)]
