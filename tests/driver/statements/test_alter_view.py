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
    UnknownRole,
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
        ("ALTER VIEW v ALTER n SET DEFAULT 1", NotSupportedError, "only RENAME TO, SET SCHEMA and OWNER TO"),
        ("ALTER VIEW v OWNER TO ann", UnknownRole, "role ann does not exist"),
        ("ALTER TABLE v OWNER TO ann", UnknownRole, "role ann does not exist"),
        ("ALTER VIEW w OWNER TO nyala", UnknownTable, "view w does not exist"),
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


# ---- views that read what is renamed ---------------------------------------------------------------------------------

OVER = "CREATE VIEW over AS SELECT v.n, (SELECT count(*) FROM t) AS all_rows FROM v WHERE n IN (SELECT k FROM t AS x)"


@NO_DDL
@pytest.mark.parametrize("transaction", ["{}", "BEGIN; {}; COMMIT"], ids=["alone", "in a transaction"])
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ("ALTER VIEW v RENAME TO w", "FROM w AS v"),
        ("ALTER VIEW v SET SCHEMA s", "FROM s.v "),
        ("ALTER TABLE v RENAME TO w; ALTER VIEW w SET SCHEMA s", "FROM s.w AS v"),
        ("ALTER VIEW v RENAME TO w; ALTER VIEW w RENAME TO v", "FROM v "),
        ("ALTER TABLE t RENAME TO u", "FROM u AS t"),
        ("ALTER TABLE t RENAME TO u, ADD COLUMN z INT, RENAME TO y", "FROM y AS x"),
        ("ALTER TABLE t SET SCHEMA s; ALTER TABLE s.t RENAME TO u", "FROM s.u AS x"),
        ("ALTER VIEW v RENAME TO pg_like", "FROM public.pg_like AS v"),
        ('ALTER VIEW v RENAME TO "V 2"', 'FROM "V 2" AS v'),
    ],
)
def test_views_read_on_under_the_new_name(c: nyala.Connection, transaction: str, changes: str, text: str) -> None:
    c.execute(OVER)
    c.execute("CREATE VIEW above AS SELECT n + 1 AS m FROM over")
    c.execute(transaction.format(changes))
    assert text in c.execute("SHOW CREATE VIEW over").fetchall()[0][0]
    # A new object under the old name is not theirs.
    c.execute("CREATE TABLE IF NOT EXISTS t (k INT PRIMARY KEY); CREATE VIEW IF NOT EXISTS v AS SELECT 9 AS n")
    assert rows(c, "SELECT n, all_rows FROM over") == [(2, 2)]
    assert rows(c, "SELECT m FROM above") == [(3,)]


@NO_DDL
def test_queries_of_with_do_not_take_the_new_name(c: nyala.Connection) -> None:
    c.execute("CREATE VIEW over AS WITH w AS (SELECT 5 AS five), q AS (SELECT n FROM v) SELECT n, five FROM q, w")
    c.execute("CREATE VIEW other AS WITH v AS (SELECT 7 AS n) SELECT n FROM v")
    c.execute("ALTER VIEW v RENAME TO w")
    assert "FROM public.w AS v" in rows(c, "SHOW CREATE VIEW over")[0][0]
    assert rows(c, "SELECT * FROM over, other") == [(2, 5, 7)]
    assert rows(c, "SHOW CREATE VIEW other") == [
        ("CREATE VIEW other (n) AS\nWITH v AS (SELECT 7 AS n) SELECT n FROM v",)
    ]


@NO_DDL
def test_what_goes_with_a_renamed_view(c: nyala.Connection) -> None:
    """As dbt replaces a view that others read: those go with the old one, and are made again."""
    c.execute(OVER)
    c.execute(
        "BEGIN; CREATE VIEW v__new AS SELECT 2 AS n; ALTER TABLE v RENAME TO v__old; ALTER TABLE v__new RENAME TO v"
    )
    c.execute("COMMIT")
    readers = (
        "SELECT v.relname, d.refobjid::regclass FROM pg_depend AS d JOIN pg_rewrite AS r ON r.oid = d.objid "
        "JOIN pg_class AS v ON v.oid = r.ev_class WHERE d.deptype = 'n' AND v.relname = 'over' ORDER BY 2"
    )
    assert sorted(rows(c, readers)) == [("over", "t"), ("over", "v__old")]
    c.execute("DROP VIEW v__old CASCADE")
    assert view_names(c) == ["v"]


def test_readers_follow_on_all_stores(c: nyala.Connection) -> None:
    c.execute(OVER)
    before = rows(c, "SELECT * FROM over")
    c.execute("ALTER VIEW v RENAME TO w; ALTER TABLE w SET SCHEMA s; ALTER TABLE t RENAME TO u")
    assert rows(c, "SELECT * FROM over") == before
    c.execute("CREATE TABLE t (k INT PRIMARY KEY); CREATE VIEW v AS SELECT 7 AS n")
    assert rows(c, "SELECT * FROM over") == before


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


def test_views_do_not_depend_on_the_name_of_the_database(c: nyala.Connection) -> None:
    """A client of PostgreSQL gives the database a name of its own."""
    c.execute("CREATE VIEW over AS SELECT v.n FROM nyala.public.v JOIN nyala.public.t AS u ON u.k = v.n")
    assert rows(c, "SHOW CREATE VIEW over") == [
        ('CREATE VIEW "over" (n) AS\nSELECT v.n FROM public.v JOIN public.t AS u ON u.k = v.n',)
    ]
    assert rows(c, "SELECT n FROM over") == [(2,)]


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
