"""Rights in several schemas: how names are reached, what moves with a table, what is gone with a schema, and whose the
temporary objects are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nyala
import pyarrow as pa
import pytest
from nyala.driver.session.identity import as_user
from nyala.errors import (
    InvalidTableDefinition,
    NotSupportedError,
    PermissionDenied,
    StatementError,
    UnknownSchema,
    UnknownTable,
)

IN_TRANSACTION = pytest.param(
    True, marks=pytest.mark.embedded_only("a transaction of another store has no DDL"), id="in a transaction"
)
SCHEMA = """
CREATE SCHEMA s;
CREATE SCHEMA z;
CREATE TABLE s.t (k INT PRIMARY KEY, v STRING);
INSERT INTO s.t VALUES (1, 's');
CREATE TABLE s.o (k INT PRIMARY KEY, v STRING);
CREATE VIEW s.w AS SELECT k, v FROM s.t;
CREATE USER ann;
CREATE USER ben;
"""
NEEDS_USAGE = "permission denied for schema s: user ann needs USAGE .GRANT USAGE ON SCHEMA s TO ann"


@pytest.fixture
def owner() -> Iterator[nyala.Connection]:
    with nyala.connect(":memory:") as connection:
        connection.execute(SCHEMA)
        yield connection


@pytest.fixture
def ann(owner: nyala.Connection) -> Iterator[nyala.Connection]:
    with as_user(owner, "ann") as connection:
        yield connection


def rows(connection: nyala.Connection, text: str) -> list[Any]:
    return connection.execute(text).fetchall()


# ---- reaching objects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM s.t",
        "SELECT * FROM s.w",
        "SELECT * FROM s.nothing",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM s.t)",
        "SELECT * FROM s.t FOR SYSTEM_TIME AS OF now()",
        "INSERT INTO s.t VALUES (9, 'x')",
        "UPSERT INTO s.t VALUES (9, 'x')",
        "UPDATE s.t SET v = 'x'",
        "DELETE FROM s.t",
        "TRUNCATE s.t",
        "EXPLAIN SELECT * FROM s.t",
        "PREPARE p AS SELECT * FROM s.t; EXECUTE p",
        "CREATE TEMP TABLE n LIKE s.t",
        "CREATE TEMP TABLE n (PRIMARY KEY (k)) AS SELECT * FROM s.t",
        "CREATE TEMP VIEW n AS SELECT * FROM s.t",
        "SHOW STATS FOR s.t",
        "DESCRIBE s.t",
        "DROP TABLE s.t",
        "DROP TABLE IF EXISTS s.nothing",
        "ALTER TABLE s.t SET SCHEMA public",
        "GRANT SELECT ON s.t TO ben",
        "SELECT k FROM t",
    ],
)
def test_all_statements_need_the_use_of_the_schema(owner: nyala.Connection, ann: nyala.Connection, text: str) -> None:
    owner.execute("GRANT ALL ON ALL TABLES IN SCHEMA s TO ann")
    ann.execute("SET search_path = s, public")
    with pytest.raises(PermissionDenied, match=NEEDS_USAGE) as caught:
        ann.execute(text)
    assert caught.value.sqlstate == "42501"


def test_ways_without_sql_need_the_use_of_the_schema(owner: nyala.Connection, ann: nyala.Connection) -> None:
    owner.execute("GRANT ALL ON s.t TO ann; GRANT USAGE ON SCHEMA s TO ann")
    table = ann.table("s.t")
    owner.execute("REVOKE USAGE ON SCHEMA s FROM ann")
    new = pa.table({"k": pa.array([5], pa.int32()), "v": ["x"]})
    session = ann.new_session("MANUAL_FLUSH")
    ways = [
        lambda: ann.table("s.t"),
        lambda: ann.load("s.t", new),
        lambda: table.get(1),
        lambda: table.upsert((5, "x")),
    ]
    for way in ways:
        with pytest.raises(PermissionDenied, match=NEEDS_USAGE):
            way()
    session.close()
    assert rows(owner, "SELECT k FROM s.t") == [(1,)]


def test_the_use_of_a_schema_gives_no_right_on_its_tables(owner: nyala.Connection, ann: nyala.Connection) -> None:
    owner.execute("GRANT USAGE ON SCHEMA s TO ann")
    with pytest.raises(PermissionDenied, match=r"for table s\.t: user ann needs SELECT .GRANT SELECT ON s\.t TO ann"):
        ann.execute("SELECT * FROM s.t")
    with pytest.raises(UnknownTable, match=r"table s\.nothing does not exist"):
        ann.execute("SELECT * FROM s.nothing")


def test_the_path_passes_over_schemas_that_may_not_be_used(owner: nyala.Connection, ann: nyala.Connection) -> None:
    owner.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING); INSERT INTO t VALUES (1, 'public')")
    owner.execute("GRANT SELECT ON t, s.t TO ann")
    ann.execute("SET search_path = s, public")
    # The same text each time: a kept plan must not outlive what the name means.
    for right, found, current in [("REVOKE", "public", "public"), ("GRANT", "s", "s"), ("REVOKE", "public", "public")]:
        owner.execute(f"{right} USAGE ON SCHEMA s {'TO' if right == 'GRANT' else 'FROM'} ann")
        for _ in range(3):
            assert rows(ann, "SELECT v FROM t WHERE k = 1") == [(found,)]
        assert rows(ann, "SELECT current_schema(), current_schemas(false)") == [(current, found_path(current))]
        assert ann.table("t").get(1) == {"k": 1, "v": found}


def found_path(current: str) -> str:
    return "{public}" if current == "public" else "{s,public}"


def test_a_first_table_without_rights_is_refused_and_not_passed_over(
    owner: nyala.Connection, ann: nyala.Connection
) -> None:
    owner.execute("CREATE TABLE t (k INT PRIMARY KEY); GRANT SELECT ON t TO ann; GRANT USAGE ON SCHEMA s TO ann")
    ann.execute("SET search_path = s, public")
    with pytest.raises(PermissionDenied, match=r"for table s\.t"):
        ann.execute("SELECT * FROM t")


def test_plans_are_kept_for_one_role_and_one_path(owner: nyala.Connection) -> None:
    owner.execute("CREATE SCHEMA ann; CREATE TABLE ann.t (k INT PRIMARY KEY, v STRING); CREATE TABLE t LIKE ann.t")
    owner.execute("INSERT INTO ann.t VALUES (1, 'ann'); INSERT INTO t VALUES (1, 'public')")
    owner.execute("GRANT SELECT ON t TO ben; GRANT SELECT ON ann.t TO ann; GRANT USAGE ON SCHEMA ann TO ann, ben")
    text = "SELECT v FROM t WHERE k = 1"
    for _ in range(2):
        for role, found in (("ann", "ann"), ("ben", "public")):
            owner.execute(f"SET ROLE {role}")
            assert [rows(owner, text) for _ in range(3)] == [[(found,)]] * 3
            owner.execute("SET search_path = public")
            if role == "ben":
                assert rows(owner, text) == [("public",)]
            else:
                with pytest.raises(PermissionDenied, match="for table t"):
                    owner.execute(text)
            owner.execute("RESET search_path")
    owner.execute("RESET ROLE")


# ---- creating and owning ---------------------------------------------------------------------------------------------


def test_creation_needs_the_right_on_its_schema(owner: nyala.Connection, ann: nyala.Connection) -> None:
    owner.execute("GRANT CREATE ON SCHEMA public TO ann; GRANT USAGE ON SCHEMA s TO ann")
    for text in ("CREATE TABLE s.n (k INT PRIMARY KEY)", "CREATE VIEW s.n AS SELECT 1 AS one"):
        with pytest.raises(PermissionDenied, match="for schema s: user ann needs CREATE"):
            ann.execute(text)
    ann.execute("CREATE TABLE n (k INT PRIMARY KEY)")
    with pytest.raises(PermissionDenied, match="for schema s: user ann needs CREATE"):
        ann.execute("ALTER TABLE n SET SCHEMA s")
    owner.execute("GRANT CREATE ON SCHEMA s TO ann; REVOKE CREATE ON SCHEMA public FROM ann")
    ann.execute("ALTER TABLE n SET SCHEMA s; CREATE TABLE s.m (k INT PRIMARY KEY)")
    with pytest.raises(PermissionDenied, match=r"must be owner of table s\.t"):
        ann.execute("ALTER TABLE s.t SET SCHEMA s")
    owners = "SELECT relname, pg_get_userbyid(relowner) FROM pg_class WHERE relname IN ('n', 'm') ORDER BY 1"
    assert rows(owner, owners) == [("m", "ann"), ("n", "ann")]


def test_the_owner_of_a_schema_drops_it(owner: nyala.Connection, ann: nyala.Connection) -> None:
    owner.execute("CREATE SCHEMA mine AUTHORIZATION ann")
    ann.execute("CREATE TABLE mine.t (k INT PRIMARY KEY)")
    with pytest.raises(PermissionDenied, match="must be owner of schema s: DROP SCHEMA is for nyala"):
        ann.execute("DROP SCHEMA s CASCADE")
    with pytest.raises(PermissionDenied, match="CREATE SCHEMA is for superusers"):
        ann.execute("CREATE SCHEMA more")
    with pytest.raises(StatementError, match="role ann cannot be dropped: it owns schema mine"):
        owner.execute("DROP ROLE ann")
    assert rows(owner, "SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'mine'") == [("ann",)]
    ann.execute("DROP SCHEMA mine CASCADE")


# ---- what moves with a table, and what is gone -----------------------------------------------------------------------


@pytest.mark.parametrize("in_transaction", [pytest.param(False, id=""), IN_TRANSACTION])
def test_grants_move_with_a_table_and_not_with_its_name(
    owner: nyala.Connection, ann: nyala.Connection, in_transaction: bool
) -> None:
    owner.execute("GRANT SELECT ON s.t TO ann; GRANT USAGE ON SCHEMA s, z TO ann; DROP VIEW s.w")
    owner.execute("ALTER TABLE s.t OWNER TO nyala")
    move = "ALTER TABLE s.t SET SCHEMA z; CREATE TABLE s.t (k INT PRIMARY KEY)"
    owner.execute(f"BEGIN; {move}; COMMIT" if in_transaction else move)
    assert rows(ann, "SELECT v FROM z.t") == [("s",)]
    with pytest.raises(PermissionDenied, match=r"for table s\.t"):
        ann.execute("SELECT * FROM s.t")
    assert rows(owner, "SHOW GRANTS ON z.t") == [("table", "z.t", "ann", "SELECT", "nyala", False)]
    assert rows(owner, "SHOW GRANTS ON s.t") == []


@pytest.mark.parametrize("in_transaction", [pytest.param(False, id=""), IN_TRANSACTION])
def test_grants_are_gone_with_a_schema(owner: nyala.Connection, ann: nyala.Connection, in_transaction: bool) -> None:
    owner.execute("GRANT USAGE, CREATE ON SCHEMA s TO ann; GRANT SELECT ON ALL TABLES IN SCHEMA s TO ann")
    owner.execute("CREATE VIEW z.over AS SELECT k FROM s.t; GRANT SELECT ON z.over TO ann")
    again = "CREATE SCHEMA s; CREATE TABLE s.t (k INT PRIMARY KEY); CREATE VIEW s.w AS SELECT k FROM s.t"
    again = f"DROP SCHEMA s CASCADE; {again}; CREATE VIEW z.over AS SELECT k FROM s.t"
    owner.execute(f"BEGIN; {again}; COMMIT" if in_transaction else again)
    assert [row for row in rows(owner, "SHOW GRANTS") if row[2] == "ann"] == []
    for name in ("s.t", "s.w", "z.over"):
        with pytest.raises(PermissionDenied, match="for schema"):
            ann.execute(f"SELECT * FROM {name}")


def test_all_tables_are_those_of_the_schema(owner: nyala.Connection, ann: nyala.Connection) -> None:
    owner.execute("CREATE TABLE t (k INT PRIMARY KEY); GRANT USAGE ON SCHEMA s TO ann")
    owner.execute("GRANT SELECT ON ALL TABLES IN SCHEMA s TO ann; CREATE TABLE s.later (k INT PRIMARY KEY)")
    rights = "SELECT has_table_privilege('ann', 's.{}', 'SELECT')"
    assert [rows(owner, rights.format(name)) for name in ("t", "o", "w")] == [[(True,)]] * 3
    assert rows(owner, rights.format("later")) == [(False,)]
    assert rows(ann, "SELECT has_table_privilege('t', 'SELECT'), has_table_privilege('s.t', 'INSERT')") == [
        (False, False)
    ]
    owner.execute("REVOKE ALL ON ALL TABLES IN SCHEMA s FROM ann")
    assert rows(owner, rights.format("w")) == [(False,)]


def test_rights_on_schemas_are_shown(owner: nyala.Connection, ann: nyala.Connection) -> None:
    owner.execute("GRANT USAGE ON SCHEMA s TO ann WITH GRANT OPTION; CREATE TABLE names (n STRING PRIMARY KEY)")
    for right, has_right in (("USAGE", True), ("CREATE", False)):
        assert rows(ann, f"SELECT has_schema_privilege('s', '{right}')") == [(has_right,)]
        assert rows(ann, f"SELECT has_schema_privilege('ben', 's', '{right}')") == [(False,)]
        assert rows(ann, f"SELECT has_schema_privilege('z', '{right}')") == [(False,)]
    each = (
        "SELECT nspname FROM pg_namespace WHERE has_schema_privilege({}, 'USAGE') AND nspname IN ('s', 'z', 'public')"
    )
    assert sorted(rows(ann, each.format("nspname"))) == sorted(rows(ann, each.format("oid"))) == [("public",), ("s",)]
    assert rows(ann, "SELECT nspacl FROM pg_namespace WHERE nspname = 's'") == [("{nyala=UC/nyala,ann=U*/nyala}",)]
    ann.execute("GRANT USAGE ON SCHEMA s TO ben")
    assert ("schema", "s", "ben", "USAGE", "ann", False) in rows(ann, "SHOW GRANTS")
    with pytest.raises(UnknownSchema, match="schema nothing does not exist"):
        ann.execute("SELECT has_schema_privilege('nothing', 'USAGE')")


# ---- views -----------------------------------------------------------------------------------------------------------


def test_a_view_reads_another_schema_with_the_rights_of_its_owner(
    owner: nyala.Connection, ann: nyala.Connection
) -> None:
    owner.execute("GRANT USAGE ON SCHEMA z TO ben; GRANT CREATE, USAGE ON SCHEMA z TO ann; GRANT SELECT ON s.t TO ann")
    with pytest.raises(PermissionDenied, match=NEEDS_USAGE):
        ann.execute("CREATE VIEW z.v AS SELECT v FROM s.t")
    owner.execute("GRANT USAGE ON SCHEMA s TO ann")
    ann.execute("SET search_path = s; CREATE VIEW z.v AS SELECT v FROM t; GRANT SELECT ON z.v TO ben")
    with as_user(owner, "ben") as ben:
        # Neither ben's path nor his own tables change what the view reads.
        ben.execute("CREATE TEMP TABLE t (k INT PRIMARY KEY, v STRING); INSERT INTO t VALUES (1, 'mine')")
        assert rows(ben, "SELECT v FROM z.v") == [("s",)]
        with pytest.raises(PermissionDenied, match="for schema s: user ben needs USAGE"):
            ben.execute("SELECT * FROM s.t")
        owner.execute("REVOKE SELECT ON s.t FROM ann")
        with pytest.raises(PermissionDenied, match=r"in view z\.v: permission denied for table s\.t: user ann"):
            ben.execute("SELECT v FROM z.v")


# ---- temporary objects -----------------------------------------------------------------------------------------------


def test_temporary_objects_need_no_right_of_the_store(owner: nyala.Connection, ann: nyala.Connection) -> None:
    owner.execute("REVOKE USAGE ON SCHEMA public FROM PUBLIC")
    ann.execute(
        "CREATE TEMP TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (7); CREATE TEMP VIEW w AS SELECT k FROM t"
    )
    assert rows(ann, "SELECT k FROM w") == rows(ann, "SELECT k FROM pg_temp.t") == [(7,)]
    assert ann.table("t").get(7) == {"k": 7}
    with as_user(owner, "ann") as again, pytest.raises(StatementError):
        again.execute("SELECT * FROM t")
    assert rows(owner, "SELECT relname FROM pg_class WHERE relname IN ('t', 'w') AND relpersistence = 't'") == []


@pytest.mark.parametrize(
    "text",
    [
        "GRANT SELECT ON mine TO ben",
        "GRANT SELECT ON ALL TABLES IN SCHEMA pg_temp TO ben",
        "GRANT USAGE ON SCHEMA pg_temp TO ben",
        "ALTER TABLE mine OWNER TO ben",
        "ALTER TABLE mine SET SCHEMA public",
        "ALTER TABLE own SET SCHEMA pg_temp",
    ],
)
def test_temporary_objects_are_neither_granted_nor_moved(
    owner: nyala.Connection, ann: nyala.Connection, text: str
) -> None:
    owner.execute("GRANT CREATE ON SCHEMA public TO ann")
    ann.execute("CREATE TEMP TABLE mine (k INT PRIMARY KEY); CREATE TABLE own (k INT PRIMARY KEY)")
    with pytest.raises(NotSupportedError, match="temporary objects"):
        ann.execute(text)


def test_what_a_role_made_is_lost_with_the_membership(owner: nyala.Connection, ann: nyala.Connection) -> None:
    owner.execute(
        "CREATE ROLE staff; GRANT staff TO ann; GRANT USAGE ON SCHEMA s TO staff; GRANT SELECT ON s.t TO staff"
    )
    ann.execute("SET ROLE staff; CREATE TEMP VIEW seen AS SELECT v FROM s.t; RESET ROLE")
    assert rows(ann, "SELECT v FROM seen") == [("s",)]
    owner.execute("REVOKE staff FROM ann")
    with pytest.raises(PermissionDenied, match=r"permission denied for view pg_temp\.seen"):
        ann.execute("SELECT v FROM seen")


def test_no_name_leads_to_the_rows_of_another_store(owner: nyala.Connection, ann: nyala.Connection) -> None:
    """Stores number their tables in the same way: a name that is taken for a temporary one must not pair the number of
    one store with the rows of the other."""
    owner.execute("GRANT CREATE ON SCHEMA public TO ann")
    ann.execute("CREATE TEMP TABLE x (k INT PRIMARY KEY, v STRING)")
    ann.execute("CREATE TABLE y (k INT PRIMARY KEY)")
    for text in (
        'CREATE TABLE "pg_temp.y" (k INT PRIMARY KEY, v STRING)',
        'CREATE VIEW "pg_temp.y" AS SELECT 1 AS one',
        'CREATE TABLE "s.y" (k INT PRIMARY KEY)',
        'ALTER TABLE y RENAME TO "s.y"',
    ):
        with pytest.raises(InvalidTableDefinition, match='cannot be called "'):
            ann.execute(text)
    ann.execute('CREATE TABLE "later.y" (k INT PRIMARY KEY)')
    with pytest.raises(InvalidTableDefinition, match=r'schema later cannot be created: "later\.y" of schema public'):
        owner.execute("CREATE SCHEMA later")
