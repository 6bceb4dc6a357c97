"""The setting `ddl_commits = on`, for stores whose transactions cannot change the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nyala
import pytest
from nyala.errors import (
    CatalogInTransaction,
    DataError,
    ImplicitCommitWarning,
    ReadOnlyTransaction,
    SerializationFailure,
    StatementError,
)


@pytest.fixture
def c(tmp_path: Path) -> Iterator[nyala.Connection]:
    with nyala.connect(tmp_path / "store", durability="os") as owner, nyala.connect(owner.serve()) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY); CREATE VIEW v AS SELECT k FROM t")
        yield connection


@pytest.fixture
def commits(c: nyala.Connection) -> nyala.Connection:
    c.execute("SET ddl_commits = on")
    return c


def count(connection: nyala.Connection, table: str = "t") -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def test_ddl_is_refused_by_default(c: nyala.Connection) -> None:
    assert c.execute("SHOW ddl_commits").fetchone() == ("off",)
    c.execute("BEGIN; INSERT INTO t VALUES (1)")
    for text in ("CREATE TABLE u (k INT PRIMARY KEY)", "ALTER TABLE t RENAME TO u", "DROP VIEW v", "CREATE SCHEMA s"):
        with pytest.raises(CatalogInTransaction, match="inside a transaction on a cluster"):
            c.execute(text)
    c.execute("ROLLBACK")
    assert count(c) == 0
    with pytest.raises(StatementError, match="ddl_commits is on or off, not refuse"):
        c.execute("SET ddl_commits = refuse")


def test_it_commits_what_came_before_and_begins_again(commits: nyala.Connection) -> None:
    commits.execute("BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO t VALUES (1)")
    with pytest.warns(ImplicitCommitWarning, match="the transaction is committed, and another one begun"):
        commits.execute("CREATE TABLE u PRIMARY KEY (k) AS SELECT k FROM t")
    assert commits.in_transaction
    assert commits.execute("SHOW transaction_isolation").fetchone() == ("serializable",)
    commits.execute("INSERT INTO u VALUES (2); INSERT INTO t VALUES (2)")
    assert count(commits, "u") == 2
    with commits.duplicate() as other:
        assert (count(other), count(other, "u")) == (1, 1)
    commits.execute("ROLLBACK")
    assert (count(commits), count(commits, "u")) == (1, 1) and not commits.in_transaction


def test_a_table_that_views_read_gets_another_name(commits: nyala.Connection) -> None:
    commits.execute("BEGIN")
    with pytest.warns(ImplicitCommitWarning):
        commits.execute("ALTER TABLE t RENAME TO old")
    with pytest.warns(ImplicitCommitWarning):
        commits.execute("DROP TABLE old CASCADE")
    commits.execute("COMMIT")
    assert commits.store.tables() == [] and commits.store.views() == []


def test_the_transaction_goes_on_after_ddl_that_fails(commits: nyala.Connection) -> None:
    commits.execute("BEGIN; INSERT INTO t VALUES (1)")
    with pytest.warns(ImplicitCommitWarning), pytest.raises(DataError):
        commits.execute("CREATE TABLE u PRIMARY KEY (k) AS SELECT k % (k - 1) AS k FROM t")
    assert commits.in_transaction and count(commits) == 1
    commits.execute("ROLLBACK")
    assert count(commits) == 1


def test_a_conflict_ends_the_transaction_without_the_ddl(commits: nyala.Connection) -> None:
    commits.execute("INSERT INTO t VALUES (1); CREATE TABLE n (k INT PRIMARY KEY, v INT); INSERT INTO n VALUES (1, 1)")
    commits.execute("BEGIN; UPDATE n SET v = 2")
    with commits.duplicate() as other:
        other.execute("UPDATE n SET v = 3")
    with pytest.raises(SerializationFailure):
        commits.execute("DROP TABLE t CASCADE")
    assert not commits.in_transaction and count(commits) == 1
    assert commits.execute("SELECT v FROM n").fetchall() == [(3,)]


def test_what_is_no_part_of_the_rule(commits: nyala.Connection) -> None:
    commits.execute("BEGIN; CREATE TEMPORARY TABLE mine (k INT PRIMARY KEY); INSERT INTO mine VALUES (1)")  # no warning
    commits.execute("INSERT INTO t VALUES (1); ROLLBACK")
    assert count(commits) == 0
    commits.execute("BEGIN; SAVEPOINT s")
    with pytest.raises(CatalogInTransaction, match="with savepoints"):
        commits.execute("DROP VIEW v")
    commits.execute("ROLLBACK; BEGIN READ ONLY")
    with pytest.raises(ReadOnlyTransaction):
        commits.execute("DROP VIEW v")
    commits.execute("ROLLBACK")
    assert [view.name for view in commits.store.views()] == ["v"]


@pytest.mark.embedded_only("changes the catalog inside a transaction, which other stores refuse")
def test_a_directory_has_ddl_in_transactions_all_the_same() -> None:
    with nyala.connect(":memory:") as connection:
        connection.execute("SET ddl_commits = on; BEGIN; CREATE TABLE t (k INT PRIMARY KEY); ROLLBACK")
        assert connection.store.tables() == []
