"""Views: what they show, what depends on them, and that they are as durable as tables."""

from __future__ import annotations

import random

import nyala
import pytest
from nyala.errors import DuplicateTable, InvalidTableDefinition, NotSupportedError, StatementError, UnknownTable
from nyala.model.schema import View
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem
from tablet_support import definition


@pytest.fixture
def c(connection):
    """A connection with a table of three rows and two views, one on the other."""
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, a STRING, b INT)")
    connection.execute("INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20), (3, 'x', NULL)")
    connection.execute("CREATE VIEW v AS SELECT * FROM t WHERE k > 1")
    connection.execute("CREATE VIEW w (letter, n) AS SELECT a, count(*) FROM v GROUP BY a")
    return connection


def rows(connection, text, *parameters):
    return sorted(connection.execute(text, *parameters).fetchall())


# ---- what they show --------------------------------------------------------------------------------------------------


def test_a_view_is_read_like_a_table(c):
    assert rows(c, "SELECT * FROM v") == [(2, "y", 20), (3, "x", None)]
    assert rows(c, "SELECT * FROM w") == [("x", 1), ("y", 1)]
    assert rows(c, "SELECT x.k FROM main.v AS x (k) JOIN w ON w.letter = x.a WHERE b IS NULL") == [(3,)]
    c.execute("INSERT INTO t VALUES (4, 'x', 1)")
    assert rows(c, "SELECT n FROM w WHERE letter = 'x'") == [(2,)]
    assert rows(c, "SELECT main.v.k FROM main.v WHERE main.v.k > 3") == [(4,)]


def test_nothing_of_the_statement_is_seen_inside_a_view(c):
    assert rows(c, "WITH t AS (SELECT 99 AS k) SELECT v.k, t.k FROM v, t") == [(2, 99), (3, 99)]
    # but a CTE goes before a view of its name, unless the schema is said
    assert rows(c, "WITH v AS (SELECT 7 AS k) SELECT k FROM v UNION ALL SELECT k FROM main.v") == [(2,), (3,), (7,)]
    assert rows(c, "SELECT k, (SELECT max(k) FROM v) FROM t WHERE k IN (SELECT k FROM v)") == [(2, 3), (3, 3)]


def test_a_column_that_comes_later_does_not_come_into_a_view(c):
    c.execute("ALTER TABLE t ADD COLUMN z INT DEFAULT 5")
    assert rows(c, "SELECT * FROM v") == [(2, "y", 20), (3, "x", None)]
    c.execute("CREATE OR REPLACE VIEW v AS SELECT * FROM t WHERE k > 2")
    assert rows(c, "SELECT * FROM v") == [(3, "x", None, 5)]


def test_stars_of_joins_keep_meaning_the_same_columns(c):
    c.execute('CREATE TABLE u (k INT PRIMARY KEY, "Odd ""name" INT)')
    c.execute("INSERT INTO u VALUES (2, 200)")
    c.execute("CREATE VIEW j AS SELECT * FROM t JOIN u USING (k)")
    c.execute("CREATE VIEW q AS SELECT u.*, s.* FROM u, (SELECT b AS one, a FROM t) AS s (two) WHERE two = 20")
    c.execute("ALTER TABLE t ADD COLUMN z INT DEFAULT 5")
    c.execute("ALTER TABLE u ADD COLUMN z INT DEFAULT 6")
    assert rows(c, "SELECT * FROM j") == [(2, "y", 20, 200)]
    assert rows(c, "SELECT * FROM q") == [(2, 200, 20, "y")]


def test_a_view_that_is_used_twice_is_computed_once(c):
    plan = "\n".join(line for (line,) in c.execute("EXPLAIN SELECT * FROM w x JOIN w y USING (letter)").fetchall())
    assert plan.count("TableScan") == 1, plan
    assert rows(c, "SELECT x.n + y.n FROM w x JOIN w y USING (letter)") == [(2,), (2,)]
    # also where the second use is inside another view
    assert rows(c, "SELECT count(*) FROM v JOIN w ON a = letter") == [(2,)]


def test_now_is_the_time_of_the_statement(c):
    c.execute("CREATE VIEW clock AS SELECT now() AS at")
    assert rows(c, "SELECT count(*) FROM clock WHERE at = now()") == [(1,)]


def test_show_and_describe(c):
    assert c.execute("SHOW TABLES").fetchall() == [("t", "table"), ("v", "view"), ("w", "view")]
    assert c.execute("SHOW VIEWS LIKE 'w%'").fetchall() == [("w",)]
    assert c.execute("DESCRIBE w").fetchall() == [("letter", "STRING", True), ("n", "BIGINT", False)]
    ((text,),) = c.execute("SHOW CREATE VIEW w").fetchall()
    c.execute("DROP VIEW w")
    c.execute(text)
    assert c.execute("SHOW CREATE TABLE w").fetchall() == [(text,)]


# ---- names and dependencies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("CREATE VIEW t AS SELECT 1 AS a", DuplicateTable, "table t exists already"),
        ("CREATE OR REPLACE VIEW t AS SELECT 1 AS a", DuplicateTable, "table t exists already"),
        ("CREATE VIEW v AS SELECT 1 AS a", DuplicateTable, "view v exists already"),
        ("CREATE TABLE v (k INT PRIMARY KEY)", DuplicateTable, "view v exists already"),
        ("ALTER TABLE t RENAME TO v", DuplicateTable, "v exists already"),
        ("DROP TABLE v", StatementError, "v is a view, not a table; DROP VIEW drops it"),
        ("DROP VIEW t", StatementError, "t is a table, not a view; DROP TABLE drops it"),
        ("DROP VIEW nope", UnknownTable, "view nope does not exist"),
        ("DROP TABLE t", StatementError, "needed by views v, w"),
        ("DROP VIEW v", StatementError, "needed by view w"),
        ("INSERT INTO v VALUES (1)", NotSupportedError, "v is a view"),
        ("DELETE FROM v", NotSupportedError, "v is a view"),
        ("UPDATE v SET b = 1", NotSupportedError, "v is a view"),
        ("ALTER TABLE v ADD COLUMN c INT", StatementError, "v is a view"),
        ("ALTER TABLE t DROP COLUMN a", StatementError, "view v would become invalid: .*no column t?.?a"),
        ("ALTER TABLE t RENAME COLUMN a TO z", StatementError, "view v would become invalid"),
        ("CREATE OR REPLACE VIEW v AS SELECT k FROM t", StatementError, "view w would become invalid"),
        ("CREATE OR REPLACE VIEW v AS SELECT letter FROM w", StatementError, "v needs itself: v uses w uses v"),
        ("CREATE VIEW x AS SELECT k, k FROM t", InvalidTableDefinition, "two columns k"),
        ("CREATE VIEW x (a, b) AS SELECT 1", InvalidTableDefinition, "2 names for a query of 1 column"),
        ("CREATE VIEW x AS SELECT * FROM t WHERE k = ?", InvalidTableDefinition, "parameters"),
        ("SELECT * FROM v FOR SYSTEM_TIME AS OF now()", StatementError, "FOR SYSTEM_TIME is for tables; v is a view"),
        ("SELECT * FROM other.v", UnknownTable, "schema other does not exist"),
    ],
)
def test_what_is_refused(c, statement, error, message):
    before = c.execute("SHOW TABLES").fetchall(), rows(c, "SELECT * FROM w")
    with pytest.raises(error, match=message) as found:
        c.execute(statement, (1,) if "?" in statement else None)
    assert "\nLINE 1: " in str(found.value) and "^" in str(found.value)
    assert (c.execute("SHOW TABLES").fetchall(), rows(c, "SELECT * FROM w")) == before


def test_cascade_takes_what_depends(c):
    c.execute("CREATE VIEW alone AS SELECT 1 AS one")
    c.execute("DROP TABLE t CASCADE")
    assert c.execute("SHOW TABLES").fetchall() == [("alone", "view")]
    c.execute("DROP VIEW alone RESTRICT")
    c.execute("DROP VIEW IF EXISTS alone CASCADE")
    assert c.execute("SHOW TABLES").fetchall() == []


def test_if_not_exists_leaves_what_is_there(c):
    c.execute("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS other")
    c.execute("CREATE TABLE IF NOT EXISTS v (k INT PRIMARY KEY)")
    assert rows(c, "SELECT * FROM v") == [(2, "y", 20), (3, "x", None)]


def test_a_view_that_does_not_work_any_more_says_why(c):
    c.store.drop_table("t")  # which only SQL guards
    with pytest.raises(UnknownTable, match=r"in view v: table t does not exist(.|\n)*\^"):
        c.execute("SELECT * FROM v")
    with pytest.raises(UnknownTable, match="in view w: in view v: table t does not exist"):
        c.execute("SELECT * FROM w")
    assert [name for (name, *_) in c.execute("SHOW VIEWS").fetchall()] == ["v", "w"]
    c.execute("CREATE TABLE t (k INT PRIMARY KEY, a STRING, b INT)")
    assert rows(c, "SELECT * FROM w") == []
    c.execute("DROP VIEW v CASCADE")


def test_the_catalog_version_grows_with_every_change(c):
    seen = [c.store.catalog_version]
    for statement in ("CREATE VIEW x AS SELECT 1 AS a", "CREATE OR REPLACE VIEW x AS SELECT 2 AS a", "DROP VIEW x"):
        c.execute(statement)
        seen.append(c.store.catalog_version)
    assert seen == sorted(set(seen))


# ---- durability ------------------------------------------------------------------------------------------------------


def test_views_are_there_after_reopening(tmp_path):
    with nyala.connect(tmp_path) as c:
        c.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        c.execute("CREATE VIEW v (n) AS SELECT k + 1 FROM t")
        c.execute("CREATE VIEW gone AS SELECT 1 AS a")
        c.execute("DROP VIEW gone")
        c.execute("INSERT INTO t VALUES (1)")
    with nyala.connect(tmp_path) as c:
        assert c.execute("SHOW TABLES").fetchall() == [("t", "table"), ("v", "view")]
        assert rows(c, "SELECT n FROM v") == [(2,)]


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_a_crash_at_any_sync_leaves_a_view_whole_or_not_at_all(keep):
    rng = random.Random(3)
    states: list[dict[str, str]] = [{}]
    images: list[tuple[CrashableFileSystem, int]] = []
    fs = CrashableFileSystem(lambda what: images.append((fs.crash(keep, rng), len(states))))

    def now(db):
        return {**{view.name: view.text for view in db.views()}, **{table.name: "" for table in db.tables()}}

    with Database("db", fs=fs, background=False) as db:
        for step in (
            lambda: db.create_table(definition()),
            lambda: db.create_view(View("v", "SELECT 1", ("a",))),
            lambda: db.create_view(View("w", "SELECT * FROM v", ("b",))),
            lambda: db.create_view(View("v", "SELECT 2", ("a", "c")), replace=True),
            lambda: db.drop_views(["w"]),
            lambda: db.create_view(View("w", "SELECT 3", ("a",))),
            lambda: db.rename_view("w", "x", "public"),
            lambda: db.drop_table("t", ["v", "x"]),
        ):
            step()
            states.append(now(db))
    assert len(images) > 12
    for image, acknowledged in images:
        with Database("db", fs=image, background=False) as db:
            # What was acknowledged, or what was under way.
            assert now(db) in states[acknowledged - 1 : acknowledged + 1]
            db.create_view(View("after", "SELECT 4", ("a",)))
        with Database("db", fs=image, background=False) as db:
            assert db.view("after") == View("after", "SELECT 4", ("a",))
