"""A right that is revoked is lost with the next statement, on every road to the rows: kept plans, rows by their key,
prepared statements, open transactions, tables without SQL, loads, write sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import nyala
import pyarrow as pa
import pytest
from nyala.driver.session.identity import as_user
from nyala.errors import PermissionDenied, RowsRefused, SerializationFailure


@pytest.fixture
def owner() -> Iterator[nyala.Connection]:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2)")
        connection.execute("CREATE USER ann; GRANT ALL ON t TO ann")
        yield connection


@pytest.fixture
def ann(owner: nyala.Connection) -> Iterator[nyala.Connection]:
    with as_user(owner, "ann") as connection:
        yield connection


def _prepared(ann: nyala.Connection) -> None:
    ann.execute("EXECUTE p (1)").fetchall()


ROADS: dict[str, Callable[[nyala.Connection], object]] = {
    "a planned query": lambda ann: ann.execute("SELECT count(*) FROM t WHERE v > ?", [0]).fetchall(),
    "a row by its key": lambda ann: ann.execute("SELECT v FROM t WHERE k = ?", [1]).fetchall(),
    "a text with literals": lambda ann: ann.execute("SELECT v FROM t WHERE k = 1").fetchall(),
    "a prepared statement": _prepared,
    "an insert of a row": lambda ann: ann.execute("UPSERT INTO t VALUES (?, ?)", [3, 3]),
    "an update of a row": lambda ann: ann.execute("UPDATE t SET v = ? WHERE k = ?", [3, 1]),
    "executemany": lambda ann: ann.executemany("UPSERT INTO t VALUES (?, ?)", [(k, k) for k in range(5, 20)]),
    "a load": lambda ann: ann.load("t", pa.table({"k": pa.array([], pa.int32()), "v": pa.array([], pa.int32())})),
    "get": lambda ann: ann.table("t").get(1),
    "scan": lambda ann: ann.table("t").scan().to_arrow(),
    "scan tokens": lambda ann: ann.table("t").scan_tokens(),
    "changes": lambda ann: list(ann.table("t").changes(ann.store.now() - 1)),
    "count": lambda ann: ann.table("t").count(),
    "statistics": lambda ann: ann.table("t").num_rows,
    "upsert": lambda ann: ann.table("t").upsert({"k": 4, "v": 4}),
    "update": lambda ann: ann.table("t").update([{"k": 1, "v": 4}]),
    "delete": lambda ann: ann.table("t").delete_ignore({"k": 4}),
    "the past": lambda ann: ann.at(ann.store.now()).execute("SELECT * FROM t").fetchall(),
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("in_transaction", [False, True], ids=["", "in a transaction"])
def test_a_revoked_right_is_lost(
    owner: nyala.Connection, ann: nyala.Connection, road: str, in_transaction: bool
) -> None:
    ann.execute("PREPARE p AS SELECT v FROM t WHERE k = $1")
    if in_transaction:
        ann.begin()
    for _ in range(3):
        ROADS[road](ann)
    owner.execute("REVOKE ALL ON t FROM ann")
    with pytest.raises(PermissionDenied, match="permission denied for table t: user ann needs"):
        ROADS[road](ann)
    owner.execute("GRANT ALL ON t TO ann")
    ROADS[road](ann)


def test_a_write_session_needs_the_right_when_it_flushes(owner: nyala.Connection, ann: nyala.Connection) -> None:
    with ann.new_session("MANUAL_FLUSH") as session:
        session.insert("t", {"k": 10, "v": 1})
        session.flush()
        session.insert("t", {"k": 11, "v": 1})
        owner.execute("REVOKE INSERT ON t FROM ann")
        with pytest.raises((RowsRefused, PermissionDenied), match="user ann needs INSERT"):
            session.flush()
        assert len(session.pending_errors().errors) == 1
    assert owner.execute("SELECT k FROM t WHERE k > 9").fetchall() == [(10,)]


def test_a_role_that_is_left_is_lost(owner: nyala.Connection, ann: nyala.Connection) -> None:
    owner.execute("CREATE ROLE readers; REVOKE ALL ON t FROM ann; GRANT SELECT ON t TO readers; GRANT readers TO ann")
    assert ann.execute("SELECT count(*) FROM t").fetchone() == (2,)
    ann.execute("SET ROLE readers")
    assert ann.execute("SELECT current_user, session_user").fetchone() == ("readers", "ann")
    with as_user(ann, "ann") as other:
        assert other.execute("SELECT current_user").fetchone() == ("ann",)
    with ann.duplicate() as same:
        assert same.execute("SELECT current_user").fetchone() == ("readers",)
    owner.execute("REVOKE readers FROM ann")
    with pytest.raises(PermissionDenied, match="user ann is no member of role readers any more; RESET ROLE"):
        ann.execute("SELECT count(*) FROM t")
    ann.execute("RESET ROLE")
    with pytest.raises(PermissionDenied, match="user ann needs SELECT"):
        ann.execute("SELECT count(*) FROM t")


def test_a_user_that_is_dropped_or_loses_superuser(owner: nyala.Connection) -> None:
    owner.execute("CREATE USER root SUPERUSER")
    with as_user(owner, "root") as root:
        assert root.execute("SELECT count(*) FROM t").fetchone() == (2,)
        owner.execute("ALTER USER root NOSUPERUSER")
        with pytest.raises(PermissionDenied, match="user root needs SELECT"):
            root.execute("SELECT count(*) FROM t")
        owner.execute("DROP USER root")
        with pytest.raises(PermissionDenied, match="user root has been dropped"):
            root.execute("SELECT 1 FROM t")


def test_a_session_from_before_the_first_user_is_over(owner: nyala.Connection) -> None:
    owner.execute("REVOKE ALL ON t FROM ann; DROP USER ann FORCE")
    with as_user(owner, "joe", is_authenticated=False) as joe, as_user(owner, "jim", is_authenticated=False) as jim:
        assert joe.execute("SELECT count(*) FROM t").fetchone() == (2,)
        jim.execute("SELECT count(*) FROM t").fetchall()
        joe.execute("CREATE USER ann PASSWORD 'x'")
        joe.execute("GRANT SELECT ON t TO ann")
        assert joe.execute("SELECT count(*) FROM t").fetchone() == (2,)
        with pytest.raises(PermissionDenied, match="the store has users since this session began"):
            jim.execute("SELECT count(*) FROM t")
        with pytest.raises(PermissionDenied, match="the store has users since this session began"):
            jim.table("t").get(1)


@pytest.mark.embedded_only("a transaction of another store changes no grants")
def test_a_transaction_that_grants_sees_its_grants_until_others_change_some(owner: nyala.Connection) -> None:
    with owner.duplicate() as other:
        other.begin()
        other.execute("CREATE TABLE n (k INT PRIMARY KEY); GRANT SELECT ON n TO ann; SET ROLE ann")
        assert other.execute("SELECT count(*) FROM n").fetchone() == (0,)
        other.execute("RESET ROLE; SAVEPOINT s; REVOKE SELECT ON n FROM ann; ROLLBACK TO s; SET ROLE ann")
        assert other.execute("SELECT count(*) FROM n").fetchone() == (0,)
        owner.execute("CREATE ROLE late")
        with pytest.raises(SerializationFailure, match="users or grants were changed"):
            other.execute("SELECT count(*) FROM n")
        other.rollback()
        other.execute("RESET ROLE")
        other.begin()
        other.execute("CREATE TABLE n (k INT PRIMARY KEY); GRANT SELECT ON n TO ann")
        other.commit()
    with as_user(owner, "ann") as ann:
        assert ann.execute("SELECT count(*) FROM n").fetchone() == (0,)


def test_views_read_with_the_rights_of_their_owner(owner: nyala.Connection, ann: nyala.Connection) -> None:
    owner.execute("CREATE USER ben; GRANT CREATE ON SCHEMA public TO ann")
    ann.execute("CREATE VIEW mine AS SELECT v FROM t WHERE k = 1; CREATE VIEW upper AS SELECT * FROM mine")
    ann.execute("GRANT SELECT ON upper TO ben")
    with as_user(owner, "ben") as ben:
        assert ben.execute("SELECT * FROM upper").fetchall() == [(1,)]
        with pytest.raises(PermissionDenied, match="for view mine: user ben needs SELECT"):
            ben.execute("SELECT * FROM upper, mine")
        with pytest.raises(PermissionDenied, match="must be owner of view mine"):
            ben.execute("CREATE OR REPLACE VIEW mine AS SELECT 9 AS v")
        owner.execute("REVOKE SELECT ON t FROM ann")
        with pytest.raises(
            PermissionDenied, match="in view upper: in view mine: permission denied for table t: user ann"
        ):
            ben.execute("SELECT * FROM upper")
        owner.execute("GRANT SELECT ON t TO ann; CREATE OR REPLACE VIEW mine AS SELECT v FROM t WHERE k = 2")
        assert ben.execute("SELECT * FROM upper").fetchall() == [(2,)]
        owners = owner.execute("SELECT viewname, viewowner FROM pg_views ORDER BY 1").fetchall()
        assert owners == [("mine", "ann"), ("upper", "ann")]
        owner.execute("DROP VIEW upper")
        ann.execute("CREATE VIEW upper AS SELECT 1 AS one")
        with pytest.raises(PermissionDenied, match="for view upper: user ben needs SELECT"):
            ben.execute("SELECT * FROM upper")


def test_a_restored_store_has_its_own_users(tmp_path: Path) -> None:
    from nyala.backup.backup import backup
    from nyala.backup.restore import restore

    with nyala.connect(tmp_path / "store") as owner:
        owner.execute("CREATE TABLE t (k INT PRIMARY KEY); CREATE USER ann; GRANT SELECT ON t TO ann")
        owner.execute("GRANT CREATE ON SCHEMA public TO ann; SET ROLE ann")
        owner.execute("CREATE TABLE own (k INT PRIMARY KEY); CREATE VIEW mine AS SELECT k FROM t; RESET ROLE")
        assert {found.owner for found in owner.store.views()} == {"ann"}
    backup(tmp_path / "store", tmp_path / "backup")
    with nyala.connect(tmp_path / "other") as other:
        other.execute("CREATE USER ann")
    restore(tmp_path / "backup", tmp_path / "other")
    with nyala.connect(tmp_path / "other") as other:
        assert {found.owner for found in (*other.store.tables(), *other.store.views())} == {""}
        assert list(other.store.access.roles) == ["ann"]
