"""Each form of statement needs exactly the rights that it is listed with: without one of them it is refused, with all
of them it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import combinations

import nyala
import pytest
from examples import few
from nyala.driver.session import running_work
from nyala.driver.session.identity import as_user
from nyala.errors import PermissionDenied

SCHEMA = """
CREATE TABLE t (k INT PRIMARY KEY, v INT);
INSERT INTO t VALUES (1, 1), (2, 2);
CREATE TABLE o (k INT PRIMARY KEY, v INT);
INSERT INTO o VALUES (1, 1);
CREATE VIEW w AS SELECT k, v FROM o;
CREATE USER ann PASSWORD 'x';
"""
SELECT, INSERT, UPDATE, DELETE, TRUNCATE = (
    f"{right} ON t" for right in ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")
)
ON_O, ON_W, CREATE = "SELECT ON o", "SELECT ON w", "CREATE ON SCHEMA public"
FORMS = [
    ("SELECT * FROM t", [SELECT]),
    ("SELECT v FROM t WHERE k = 1", [SELECT]),
    ("SELECT count(*) FROM t", [SELECT]),
    ("SELECT 1 FROM t LIMIT 0", [SELECT]),
    ("TABLE t", [SELECT]),
    ("SELECT * FROM main.t AS x", [SELECT]),
    ("SELECT t.k FROM t JOIN o ON t.k = o.k", [SELECT, ON_O]),
    ("SELECT t.k FROM t, w WHERE t.k = w.k", [SELECT, ON_W]),
    ("SELECT k FROM o WHERE EXISTS (SELECT 1 FROM t WHERE t.k = o.k)", [SELECT, ON_O]),
    ("SELECT (SELECT max(v) FROM t)", [SELECT]),
    ("WITH x AS (SELECT * FROM t) SELECT * FROM x", [SELECT]),
    ("WITH x AS (SELECT * FROM t) SELECT 1", [SELECT]),
    ("WITH RECURSIVE r AS (SELECT k FROM t UNION SELECT o.k + r.k FROM r JOIN o ON o.k > r.k) SELECT * FROM r",
     [SELECT, ON_O]),
    ("SELECT k FROM t UNION SELECT k FROM o", [SELECT, ON_O]),
    ("SELECT * FROM o, LATERAL (SELECT v FROM t WHERE t.k = o.k) AS x", [SELECT, ON_O]),
    ("SELECT * FROM t FOR SYSTEM_TIME AS OF now()", [SELECT]),
    ("SELECT * FROM t FOR SYSTEM_TIME FROM now() - INTERVAL '0' SECOND TO now()", [SELECT]),
    ("SELECT * FROM w", [ON_W]),
    ("VALUES ((SELECT max(k) FROM t))", [SELECT]),
    ("SELECT k FROM t FOR UPDATE", [SELECT, UPDATE]),
    ("SELECT k FROM t FOR SHARE", [SELECT, UPDATE]),
    ("EXPLAIN SELECT * FROM t", [SELECT]),
    ("EXPLAIN ANALYZE SELECT * FROM t", [SELECT]),
    ("EXPLAIN DELETE FROM t", [DELETE]),
    ("PREPARE p AS SELECT * FROM t; EXECUTE p", [SELECT]),
    ("DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t", [SELECT]),
    ("SHOW STATS FOR t", [SELECT]),
    ("INSERT INTO t VALUES (9, 9)", [INSERT]),
    ("INSERT INTO t DEFAULT VALUES", [INSERT]),
    ("INSERT INTO t (k) SELECT k + 10 FROM o", [INSERT, ON_O]),
    ("INSERT INTO t SELECT k + 10, v FROM t", [INSERT, SELECT]),
    ("INSERT INTO t VALUES (9, 9) RETURNING k", [INSERT, SELECT]),
    ("INSERT IGNORE INTO t VALUES (1, 9)", [INSERT]),
    ("INSERT IGNORE INTO t VALUES (1, 9) RETURNING v", [INSERT, SELECT]),
    ("INSERT INTO t VALUES (1, 9) ON CONFLICT DO NOTHING", [INSERT]),
    ("INSERT INTO t VALUES (1, 9) ON CONFLICT (k) DO NOTHING", [INSERT, SELECT]),
    ("INSERT INTO t VALUES (1, 9) ON CONFLICT (k) DO UPDATE SET v = 3", [INSERT, UPDATE, SELECT]),
    ("INSERT INTO t VALUES (9, (SELECT max(v) FROM o))", [INSERT, ON_O]),
    ("WITH x AS (SELECT k + 20 AS k FROM o) INSERT INTO t (k) SELECT k FROM x", [INSERT, ON_O]),
    ("UPSERT INTO t VALUES (1, 9)", [INSERT, UPDATE]),
    ("UPSERT INTO t VALUES (1, 9) RETURNING v", [INSERT, UPDATE, SELECT]),
    ("UPDATE t SET v = 3", [UPDATE]),
    ("UPDATE t SET v = v + 1", [UPDATE, SELECT]),
    ("UPDATE t SET v = 3 WHERE k = 1", [UPDATE, SELECT]),
    ("UPDATE t SET v = 3 WHERE true", [UPDATE]),
    ("UPDATE t SET v = 3 RETURNING k", [UPDATE, SELECT]),
    ("UPDATE t SET v = o.v FROM o", [UPDATE, ON_O]),
    ("UPDATE t SET v = o.v FROM o WHERE o.k = t.k", [UPDATE, SELECT, ON_O]),
    ("UPDATE t SET v = (SELECT max(v) FROM o)", [UPDATE, ON_O]),
    ("UPDATE t SET v = (SELECT max(o.v) FROM o WHERE o.k = t.k)", [UPDATE, SELECT, ON_O]),
    ("UPDATE t SET v = 3 FROM t AS other", [UPDATE, SELECT]),
    ("DELETE FROM t", [DELETE]),
    ("DELETE FROM t WHERE k = 1", [DELETE, SELECT]),
    ("DELETE FROM t RETURNING v", [DELETE, SELECT]),
    ("DELETE FROM t USING o", [DELETE, ON_O]),
    ("DELETE FROM t USING w WHERE w.k = t.k", [DELETE, SELECT, ON_W]),
    ("TRUNCATE t", [TRUNCATE]),
    ("CREATE TABLE n (k INT PRIMARY KEY)", [CREATE]),
    ("CREATE TABLE n LIKE t", [CREATE, SELECT]),
    ("CREATE TABLE n (PRIMARY KEY (k)) AS SELECT * FROM t", [CREATE, SELECT]),
    ("CREATE VIEW n AS SELECT * FROM t", [CREATE, SELECT]),
]  # fmt: skip


@pytest.fixture
def owner() -> Iterator[nyala.Connection]:
    with nyala.connect(":memory:") as connection:
        connection.execute(SCHEMA)
        yield connection


def run(owner: nyala.Connection, text: str, rights: tuple[str, ...]) -> None:
    """Run a statement as ann, who has these rights, and undo it."""
    is_undone_by_rollback = owner.store.transactional_ddl or not text.startswith("CREATE")
    for right in rights:
        owner.execute(f"GRANT {right} TO ann")
    try:
        with as_user(owner, "ann") as ann:
            if is_undone_by_rollback:
                ann.begin()
            ann.execute(text).close()
            if is_undone_by_rollback:
                ann.rollback()
            else:
                owner.execute(f"DROP {text.split()[1]} n")
    finally:
        owner.execute("REVOKE ALL ON t, o, w FROM ann; REVOKE CREATE ON SCHEMA public FROM ann")


@pytest.mark.parametrize(("text", "rights"), few(FORMS, 20), ids=[text for text, _ in few(FORMS, 20)])
def test_a_statement_needs_its_rights(owner: nyala.Connection, text: str, rights: list[str]) -> None:
    for some in combinations(rights, len(rights) - 1):
        (missing,) = set(rights) - set(some)
        right, name = missing.split(" ON ")
        with pytest.raises(PermissionDenied) as caught:
            run(owner, text, some)
        kind = "schema" if "SCHEMA" in name else "view" if name == "w" else "table"
        assert caught.value.sqlstate == "42501"
        assert str(caught.value).partition("\nLINE")[0] == (
            f"permission denied for {kind} {name.removeprefix('SCHEMA ')}: user ann needs {right} "
            f"(GRANT {missing} TO ann)"
        )
    with contextlib.suppress(nyala.IntegrityError):  # the right was there: a column without a default, or a key
        run(owner, text, tuple(rights))


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ADD COLUMN n INT",
        "ALTER TABLE t RENAME TO n",
        "ALTER TABLE t OWNER TO ann",
        "DROP TABLE t CASCADE",
        "DROP VIEW w",
        "ALTER VIEW w RENAME TO n",
        "ALTER TABLE w RENAME TO n",
        "CREATE OR REPLACE VIEW w AS SELECT 1 AS one",
        "COMPACT TABLE t",
        "ANALYZE t",
    ],
)
def test_some_statements_are_for_the_owner(owner: nyala.Connection, text: str) -> None:
    owner.execute("GRANT ALL ON t, o, w TO ann; GRANT CREATE ON SCHEMA public TO ann")
    with as_user(owner, "ann") as ann:
        with pytest.raises(PermissionDenied, match=r"must be owner of (table t|view w): .* is for nyala") as caught:
            ann.execute(text)
        assert caught.value.sqlstate == "42501"


@pytest.mark.parametrize(
    "text",
    [
        "CREATE USER eve",
        "CREATE ROLE eve",
        "DROP ROLE ann",
        "ALTER USER ann SUPERUSER",
        "ALTER USER nyala PASSWORD 'y'",
        "COPY t TO '/tmp/never.csv'",
        "COPY t FROM '/tmp/never.csv'",
        "SELECT * FROM '/tmp/never.parquet'",
        "SELECT * FROM read_csv('/tmp/never.csv')",
    ],
)
def test_some_statements_are_for_superusers(owner: nyala.Connection, text: str) -> None:
    owner.execute("GRANT ALL ON t TO ann")
    with as_user(owner, "ann") as ann, pytest.raises(PermissionDenied, match="is for superusers, and user ann is none"):
        ann.execute(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("GRANT SELECT ON t TO PUBLIC", "user ann needs SELECT WITH GRANT OPTION to grant or revoke it"),
        ("REVOKE SELECT ON t FROM ann", "user ann needs SELECT WITH GRANT OPTION to grant or revoke it"),
        ("GRANT ALL ON t TO PUBLIC", "user ann needs SELECT WITH GRANT OPTION"),
        ("GRANT nyala TO ann", "role nyala is a superuser, whose members superusers choose"),
        ("SET ROLE nyala", "user ann is no member of it"),
    ],
)
def test_nobody_grants_without_the_option(owner: nyala.Connection, text: str, message: str) -> None:
    owner.execute("GRANT SELECT ON t TO ann")
    with as_user(owner, "ann") as ann, pytest.raises(PermissionDenied, match=message):
        ann.execute(text)


def test_tables_need_the_use_of_their_schema(owner: nyala.Connection) -> None:
    owner.execute("GRANT ALL ON t TO ann; REVOKE USAGE ON SCHEMA public FROM PUBLIC")
    with as_user(owner, "ann") as ann:
        for text in ("SELECT * FROM t", "DELETE FROM t", "INSERT INTO t VALUES (7, 7)"):
            with pytest.raises(PermissionDenied, match="permission denied for schema public: user ann needs USAGE"):
                ann.execute(text)
        for schema in ("pg_catalog", "information_schema", "nyala_catalog"):
            query = f"SELECT has_schema_privilege('{schema}', 'usage'), has_schema_privilege('{schema}', 'create')"
            assert ann.execute(query).fetchone() == (True, False), schema
        assert ann.execute("SELECT has_schema_privilege('public', 'usage')").fetchone() == (False,)
        owner.execute("GRANT USAGE ON SCHEMA public TO ann")
        assert ann.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_what_needs_no_right(owner: nyala.Connection) -> None:
    with as_user(owner, "ann") as ann:
        for text in ("SELECT 1", "DESCRIBE t", "SHOW TABLES", "SHOW CREATE TABLE t", "SELECT * FROM pg_class",
                     "SHOW GRANTS", "SHOW ROLES", "SHOW ALL", "ALTER USER ann PASSWORD 'new'", "ANALYZE"):  # fmt: skip
            ann.execute(text).close()


def test_operators_of_statements_are_those_of_their_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_work, "KEPT_SECONDS", 0.0)
    query = (
        "SELECT DISTINCT o.operator FROM nyala_catalog.statement_operators o, nyala_catalog.statements s "
        "WHERE s.id = o.statement_id AND o.user_name = ? ORDER BY 1"
    )
    with nyala.connect(":memory:") as owner:
        owner.execute("CREATE TABLE hidden (k INT PRIMARY KEY)")
        owner.execute("CREATE USER ann PASSWORD 'x'")
        owner.execute("SELECT count(*) FROM hidden WHERE k <> 4711").fetchall()
        with as_user(owner, "ann") as ann:
            ann.execute("SELECT count(*) FROM generate_series(1, 3)").fetchall()
            assert ann.execute(query, ("nyala",)).fetchall() == [("<insufficient privilege>",)]
            assert any("Series" in operator for (operator,) in ann.execute(query, ("ann",)).fetchall())
        assert any("hidden" in operator for (operator,) in owner.execute(query, ("nyala",)).fetchall())
