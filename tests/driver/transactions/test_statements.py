"""BEGIN, COMMIT, ROLLBACK, savepoints, modes and settings in SQL; wrong uses with PostgreSQL's states."""

from __future__ import annotations

import threading

import nyala
import pyarrow as pa
import pytest
from nyala.errors import (
    ActiveTransaction,
    Cancelled,
    FailedTransaction,
    InvalidSavepoint,
    NoActiveTransaction,
    NotRolledBackWarning,
    NotSupportedError,
    ReadOnlyTransaction,
    SerializationFailure,
)


@pytest.fixture
def connection(tmp_path):
    with nyala.connect(tmp_path / "store") as found:
        found.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT) DISTRIBUTE BY HASH (k) INTO 3 BUCKETS")
        found.execute("INSERT INTO t VALUES (1, 10), (2, 20)")
        yield found


def rows(connection, query="SELECT k, v FROM t ORDER BY k"):
    return connection.execute(query).fetchall()


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN WORK", "START TRANSACTION", "BEGIN ISOLATION LEVEL SERIALIZABLE"])
@pytest.mark.parametrize("end", ["COMMIT", "END", "END TRANSACTION", "COMMIT WORK"])
def test_a_transaction_is_seen_by_others_after_its_commit_only(connection, begin, end):
    with connection.duplicate() as other:
        connection.execute(begin)
        connection.execute("INSERT INTO t VALUES (3, 30)")
        connection.execute("UPDATE t SET v = v + 1")
        assert rows(connection) == [(1, 11), (2, 21), (3, 31)]
        assert rows(other) == [(1, 10), (2, 20)]
        connection.execute(end)
        assert rows(other) == [(1, 11), (2, 21), (3, 31)]
        assert rows(connection) == rows(other)


def test_a_commit_has_one_timestamp(connection):
    connection.execute("BEGIN; UPDATE t SET v = 1 WHERE k = 1; INSERT INTO t VALUES (3, 3); DELETE FROM t WHERE k = 2")
    before = connection.last_timestamp
    connection.execute("COMMIT")
    at = connection.last_timestamp
    assert at > before
    with connection.at(at) as after, connection.at(at - 1) as earlier:
        assert rows(after) == [(1, 1), (3, 3)]
        assert rows(earlier) == [(1, 10), (2, 20)]


def test_a_commit_survives_and_a_rollback_does_not(tmp_path):
    with nyala.connect(tmp_path / "s") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
        connection.execute("BEGIN; INSERT INTO t VALUES (1, 1); COMMIT")
        connection.execute("BEGIN; INSERT INTO t VALUES (2, 2); ROLLBACK")
        connection.execute("BEGIN; INSERT INTO t VALUES (3, 3)")
        connection.close()
    with nyala.connect(tmp_path / "s") as connection:
        assert rows(connection) == [(1, 1)]


@pytest.mark.parametrize("end", ["ROLLBACK", "ABORT", "ROLLBACK WORK"])
def test_a_rollback_undoes_everything(connection, end):
    connection.execute("BEGIN; DELETE FROM t; INSERT INTO t VALUES (9, 9)")
    assert rows(connection) == [(9, 9)]
    connection.execute(end)
    assert rows(connection) == [(1, 10), (2, 20)]


def test_several_statements_of_one_text(connection):
    found = connection.execute("BEGIN; INSERT INTO t VALUES (3, 3); UPDATE t SET v = 0; COMMIT; SELECT sum(v) FROM t")
    assert found.fetchall() == [(0,)]
    assert not connection.in_transaction
    with pytest.raises(nyala.IntegrityError):
        connection.execute("BEGIN; INSERT INTO t VALUES (4, 4); INSERT INTO t VALUES (1, 1); COMMIT")
    assert connection.in_transaction
    assert rows(connection)[-1] == (4, 4)
    connection.rollback()


def test_keys_that_are_not_unique_are_numbered_in_the_transaction(connection):
    connection.execute("CREATE TABLE n (k INT, v INT, NON UNIQUE PRIMARY KEY (k))")
    connection.execute("INSERT INTO n VALUES (1, 0)")
    with connection.duplicate() as other:
        connection.execute("BEGIN; INSERT INTO n VALUES (1, 1), (1, 2); UPDATE n SET v = v + 10 WHERE v > 0")
        other.execute("INSERT INTO n VALUES (1, 3)")
        assert rows(connection, "SELECT k, v FROM n ORDER BY v") == [(1, 0), (1, 11), (1, 12)]
        connection.execute("COMMIT")
        assert rows(other, "SELECT k, v FROM n ORDER BY v") == [(1, 0), (1, 3), (1, 11), (1, 12)]


# ---- statements that fail --------------------------------------------------------------------------------------------

FAILING = {
    "single row": "INSERT INTO t VALUES (1, 1)",
    "rows": "INSERT INTO t VALUES (7, 7), (1, 1), (8, 8)",
    "query": "INSERT INTO t SELECT k + 1, v FROM t",
    "value": "UPDATE t SET v = 1 / (k - 2)",
    "returning": "UPDATE t SET v = v + 1 RETURNING 1 / (k - 2)",
    "syntax": "UPDAT t",
    "name": "UPDATE t SET w = 1",
}


@pytest.mark.parametrize("statement", FAILING)
def test_a_statement_that_fails_undoes_itself_alone(connection, statement):
    connection.execute("BEGIN; INSERT INTO t VALUES (3, 30)")
    with pytest.raises(nyala.Error):
        connection.execute(FAILING[statement])
    assert rows(connection) == [(1, 10), (2, 20), (3, 30)]
    connection.execute("INSERT INTO t VALUES (4, 40); COMMIT")
    assert rows(connection) == [(1, 10), (2, 20), (3, 30), (4, 40)]


# ---- savepoints ------------------------------------------------------------------------------------------------------


def test_savepoints_nest_and_hide_each_other(connection):
    connection.execute("BEGIN; SAVEPOINT a; INSERT INTO t VALUES (3, 3)")
    connection.execute("SAVEPOINT A; INSERT INTO t VALUES (4, 4)")
    connection.execute("ROLLBACK TO a")
    assert rows(connection) == [(1, 10), (2, 20), (3, 3)]
    connection.execute("INSERT INTO t VALUES (5, 5); ROLLBACK TO SAVEPOINT a")
    assert rows(connection) == [(1, 10), (2, 20), (3, 3)]
    connection.execute("RELEASE a; ROLLBACK TO a")
    assert rows(connection) == [(1, 10), (2, 20)]
    connection.execute('SAVEPOINT "A"; INSERT INTO t VALUES (6, 6); RELEASE SAVEPOINT "A"; COMMIT')
    assert rows(connection) == [(1, 10), (2, 20), (6, 6)]


def test_releasing_a_savepoint_releases_later_ones(connection):
    connection.execute("BEGIN; SAVEPOINT a; SAVEPOINT b; RELEASE a")
    for name in ("a", "b"):
        with pytest.raises(InvalidSavepoint, match=f"savepoint {name} does not exist; none is set") as caught:
            connection.execute(f"ROLLBACK TO {name}")
        assert caught.value.sqlstate == "3B001"
    connection.execute("SAVEPOINT first_one")
    with pytest.raises(InvalidSavepoint, match="did you mean first_one"):
        connection.execute("RELEASE first_on")


# ---- wrong uses ------------------------------------------------------------------------------------------------------

WRONG = {
    "COMMIT outside": (["COMMIT"], NoActiveTransaction, "25P01", "no transaction in progress: BEGIN begins one"),
    "SAVEPOINT outside": (["SAVEPOINT a"], NoActiveTransaction, "25P01", "SAVEPOINT is for transactions"),
    "RELEASE outside": (["RELEASE a"], NoActiveTransaction, "25P01", "RELEASE SAVEPOINT is for transactions"),
    "ROLLBACK TO outside": (["ROLLBACK TO a"], NoActiveTransaction, "25P01", "ROLLBACK TO SAVEPOINT is for"),
    "SET TRANSACTION outside": (["SET TRANSACTION READ ONLY"], NoActiveTransaction, "25P01", "SET SESSION CHARACT"),
    "BEGIN inside": (["BEGIN", "BEGIN"], ActiveTransaction, "25001", "there is a transaction in progress"),
    "SET TRANSACTION after a query": (
        ["BEGIN", "SELECT 1", "SET TRANSACTION READ ONLY"],
        ActiveTransaction,
        "25001",
        "must come before the transaction's first query",
    ),
    "SET TRANSACTION after a savepoint": (
        ["BEGIN", "SAVEPOINT a", "SET transaction_isolation = 'serializable'"],
        ActiveTransaction,
        "25001",
        "first query and savepoint",
    ),
    "a write that is READ ONLY": (
        ["BEGIN READ ONLY", "UPDATE t SET v = 1 WHERE k = 99"],
        ReadOnlyTransaction,
        "25006",
        "BEGIN READ WRITE",
    ),
    "COMPACT TABLE": (["BEGIN", "COMPACT TABLE t"], ActiveTransaction, "25001", "COMMIT or ROLLBACK"),
    "CREATE TABLE in one that is READ ONLY": (
        ["BEGIN READ ONLY", "CREATE TABLE u (k INT PRIMARY KEY)"],
        ReadOnlyTransaction,
        "25006",
        "BEGIN READ WRITE",
    ),
}


@pytest.mark.parametrize("use", WRONG)
def test_a_wrong_use_has_its_state_and_says_what_to_do(connection, use):
    statements, kind, state, message = WRONG[use]
    for statement in statements[:-1]:
        connection.execute(statement)
    is_open = connection.in_transaction
    for _ in range(2):
        with pytest.raises(kind, match=message) as caught:
            connection.execute(statements[-1])
        assert caught.value.sqlstate == state
    assert connection.in_transaction is is_open


READ_ONLY_WRITES = [
    "INSERT INTO t VALUES (5, 5)",
    "INSERT INTO t SELECT k + 10, v FROM t WHERE k > 100",
    "UPDATE t SET v = v + 1 WHERE k = 1",
    "UPDATE t SET v = 5 WHERE k = 77",
    "DELETE FROM t WHERE v = 10",
    "UPSERT INTO t VALUES (1, 1)",
    "EXPLAIN ANALYZE DELETE FROM t",
]


@pytest.mark.parametrize("statement", READ_ONLY_WRITES)
def test_a_read_only_transaction_refuses_every_write(connection, statement):
    connection.execute("BEGIN; " + statement + "; ROLLBACK")  # so that its plan is cached
    connection.execute("BEGIN READ ONLY")
    for _ in range(3):
        with pytest.raises(ReadOnlyTransaction):
            connection.execute(statement)
    with pytest.raises(ReadOnlyTransaction):
        connection.table("t").upsert((1, 2))
    with pytest.raises(ReadOnlyTransaction):
        connection.load("t", pa.table({"k": [5], "v": [5]}))
    connection.execute("COMMIT")
    assert rows(connection) == [(1, 10), (2, 20)]


def test_rollback_outside_has_no_effect_and_warns_after_writes(connection):
    connection.commit()
    connection.execute("ROLLBACK")
    connection.execute("UPDATE t SET v = 0")
    with pytest.warns(NotRolledBackWarning, match="written outside of a transaction"):
        connection.execute("ROLLBACK")
    connection.execute("ROLLBACK")
    assert rows(connection) == [(1, 0), (2, 0)]


# ---- conflicts -------------------------------------------------------------------------------------------------------


def test_a_refused_commit_ends_the_transaction(connection):
    with connection.duplicate() as other:
        connection.execute("BEGIN; UPDATE t SET v = 1 WHERE k = 1; INSERT INTO t VALUES (3, 3)")
        other.execute("UPDATE t SET v = 2 WHERE k = 1")
        with pytest.raises(SerializationFailure, match=r"key \(k = 1\) of table t") as caught:
            connection.execute("COMMIT")
        assert caught.value.sqlstate == "40001" and caught.value.retryable
        assert not connection.in_transaction
        assert rows(connection) == [(1, 2), (2, 20)]
        connection.rollback()
        connection.execute("BEGIN; UPDATE t SET v = 1 WHERE k = 1; COMMIT")


def test_after_a_conflict_of_a_statement_only_rollback_helps(connection):
    connection.execute("BEGIN")
    with pytest.raises(SerializationFailure), connection.session.turn():
        raise SerializationFailure("of a statement")
    uses = ["SELECT 1", "INSERT INTO t VALUES (5, 5)", "SAVEPOINT a", "ROLLBACK TO a", "SET TRANSACTION READ ONLY"]
    for statement in uses:
        with pytest.raises(FailedTransaction, match="ROLLBACK, then retry it from its BEGIN") as caught:
            connection.execute(statement)
        assert caught.value.sqlstate == "25P02"
    with pytest.raises(FailedTransaction):
        connection.table("t")
    with pytest.raises(SerializationFailure, match="is rolled back; retry it from its BEGIN"):
        connection.execute("COMMIT")
    assert rows(connection) == [(1, 10), (2, 20)]


# ---- modes and settings ----------------------------------------------------------------------------------------------


def shown(connection, name):
    return rows(connection, f"SHOW {name}")[0][0]


def test_modes_and_their_defaults(connection):
    assert shown(connection, "TRANSACTION ISOLATION LEVEL") == "snapshot"
    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY")
    assert shown(connection, "transaction_isolation") == "read committed"
    assert shown(connection, "transaction_read_only") == "on"
    connection.execute("COMMIT")
    connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY")
    assert shown(connection, "default_transaction_isolation") == connection.isolation_level.lower() == "serializable"
    assert shown(connection, "transaction_read_only") == "on"
    connection.execute("BEGIN READ WRITE; UPDATE t SET v = 0")
    assert shown(connection, "transaction_read_only") == "off"
    assert shown(connection, "transaction_isolation") == "serializable"
    connection.execute("ROLLBACK; RESET default_transaction_read_only; SET default_transaction_isolation TO snapshot")
    assert connection.isolation_level == "SNAPSHOT"
    connection.execute("BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SET transaction_read_only = on")
    assert (shown(connection, "transaction_isolation"), shown(connection, "transaction_read_only")) == (
        "serializable",
        "on",
    )
    names = {row[0]: row[1] for row in rows(connection, "SHOW ALL")}
    assert names["transaction_isolation"] == "serializable"


def test_a_connection_as_of_a_time_has_read_only_transactions(connection):
    with connection.at(connection.last_timestamp) as past:
        connection.execute("DELETE FROM t")
        past.execute("BEGIN")
        assert shown(past, "transaction_read_only") == "on"
        assert rows(past) == [(1, 10), (2, 20)]
        past.execute("COMMIT")
        with pytest.raises(NotSupportedError, match="READ ONLY transactions"):
            past.execute("BEGIN READ WRITE")


def test_explain_analyze_counts_the_own_rows(connection):
    statement = "EXPLAIN ANALYZE SELECT count(*) FROM t WHERE v >= 0"
    assert "own rows" not in str(rows(connection, statement))
    connection.execute("BEGIN")
    assert "own rows" not in str(rows(connection, statement))
    connection.execute("INSERT INTO t VALUES (3, 3), (4, 4); DELETE FROM t WHERE k = 1")
    assert "3 own rows of the transaction" in str(rows(connection, statement))
    assert "3 own rows of the transaction" in str(rows(connection, "EXPLAIN ANALYZE SELECT v FROM t WHERE k = 3"))


def test_another_engine_does_not_see_the_writes(connection):
    connection.execute("BEGIN; UPDATE t SET v = 0")
    with pytest.raises(NotSupportedError, match="does not read the writes of the transaction in progress"):
        connection.execute("SET engine = spark")
    connection.execute("SET engine = nyala; COMMIT")


# ---- FOR UPDATE ------------------------------------------------------------------------------------------------------

LOCKING = {
    "key": "SELECT v FROM t WHERE k = 1 FOR UPDATE",
    "order": "SELECT v FROM t ORDER BY v, k LIMIT 1 FOR NO KEY UPDATE NOWAIT",
    "share": "SELECT v + 1 FROM t AS a WHERE v = 10 FOR SHARE OF a SKIP LOCKED",
    "join": "SELECT u.w FROM t JOIN u ON t.k = u.w WHERE t.k = 1 FOR UPDATE OF t",
    "parameters": "SELECT v FROM t WHERE k = ? FOR UPDATE",
    "condition": "SELECT v FROM t WHERE k = 1 AND v > 0 FOR UPDATE",
}


@pytest.mark.parametrize("query", LOCKING)
def test_rows_for_update_must_be_unchanged_at_commit(connection, query):
    connection.execute("CREATE TABLE u (w INT PRIMARY KEY); INSERT INTO u VALUES (1), (2)")
    given = [1] if query == "parameters" else None
    outside = connection.execute(LOCKING[query], given)
    assert len(outside.description) == 1 and len(outside.fetchall()) == 1
    with connection.duplicate() as other:
        for change, refused in (("k = 2", False), ("k = 1", True)):
            for _ in range(2):  # the second time by the plan that was kept
                connection.execute("BEGIN")
                assert len(connection.execute(LOCKING[query], given).fetchall()) == 1
                connection.execute("INSERT INTO u VALUES (5)")
                other.execute(f"UPDATE t SET v = v WHERE {change}")
                if refused:
                    with pytest.raises(SerializationFailure, match=r"key \(k = 1\)"):
                        connection.execute("COMMIT")
                else:
                    connection.execute("COMMIT; DELETE FROM u WHERE w = 5")


def test_for_update_is_not_for_read_only_transactions(connection):
    connection.execute("BEGIN READ ONLY")
    for query in ("SELECT v FROM t FOR UPDATE", "SELECT v FROM t WHERE k = 1 FOR UPDATE"):
        for _ in range(2):
            with pytest.raises(ReadOnlyTransaction):
                connection.execute(query)


def test_rows_by_key_that_do_not_satisfy_the_conditions_are_not_locked(connection):
    with connection.duplicate() as other:
        connection.execute("BEGIN")
        assert connection.execute("SELECT v FROM t WHERE k = 1 AND v < 0 FOR UPDATE").fetchall() == []
        other.execute("UPDATE t SET v = v + 1 WHERE k = 1")
        connection.execute("UPDATE t SET v = 0 WHERE k = 2")
        connection.execute("COMMIT")


def test_explain_says_that_a_row_is_locked_by_key(connection):
    connection.execute("BEGIN")
    lines = [line for (line,) in connection.execute("EXPLAIN SELECT v FROM t WHERE k = 1 FOR UPDATE").fetchall()]
    assert lines[0] == "Read and lock v of t by primary key, without a plan"
    with connection.duplicate() as other:
        connection.execute("EXPLAIN ANALYZE SELECT v FROM t WHERE k = 1 FOR UPDATE").fetchall()
        other.execute("UPDATE t SET v = v + 1 WHERE k = 1")
        with pytest.raises(SerializationFailure):
            connection.execute("COMMIT")


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_statements_of_threads_wait_for_each_other(connection):
    connection.execute("BEGIN")
    failures = []

    def work(number):
        for key in range(20):
            try:
                connection.execute("INSERT INTO t VALUES (?, ?), (?, ?)", [100 * number + key, 0, 1, 1])
            except nyala.IntegrityError:
                connection.execute("INSERT INTO t VALUES (?, ?)", [100 * number + key, number])
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    connection.execute("COMMIT")
    assert rows(connection, "SELECT v, count(*) FROM t WHERE v < 10 GROUP BY v ORDER BY v") == [
        (number, 20) for number in range(1, 5)
    ]


def test_a_statement_that_waits_can_be_cancelled(connection):
    connection.execute("BEGIN")
    held, release, found = threading.Event(), threading.Event(), []

    def hold():
        with connection.session.turn():
            held.set()
            release.wait(90)

    def wait():
        cursor = connection.cursor()
        cursors.append(cursor)
        started.set()
        try:
            cursor.execute("SELECT 1")
        except Cancelled as error:
            found.append(error)

    cursors, started = [], threading.Event()
    holder, waiter = threading.Thread(target=hold), threading.Thread(target=wait)
    holder.start()
    assert held.wait(90)
    waiter.start()
    assert started.wait(90)
    while waiter.is_alive():
        cursors[0].cancel()
        waiter.join(0.05)
    release.set()
    holder.join()
    assert len(found) == 1
    connection.rollback()
