"""Transactions by the driver: autocommit, blocks, retries, tables, loads, write sessions, open results."""

from __future__ import annotations

import threading

import nyala
import pyarrow as pa
import pytest
from nyala.driver.transaction_blocks import FIRST_SLEEP, LONGEST_SLEEP, sleep_before
from nyala.errors import (
    ActiveTransaction,
    FailedTransaction,
    InterfaceError,
    NoActiveTransaction,
    NotRolledBackWarning,
    NotSupportedError,
    RowsRefused,
    SerializationFailure,
    UnknownTable,
)


@pytest.fixture
def connection():
    with nyala.connect(":memory:") as found:
        found.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS")
        found.execute("INSERT INTO t VALUES (1, 10), (2, 20)")
        found.commit()
        yield found
        if not found._closed:
            found.rollback()


@pytest.fixture
def other(connection):
    with connection.duplicate() as found:
        yield found


def rows(connection, query="SELECT k, v FROM t ORDER BY k"):
    return connection.execute(query).fetchall()


OLD = [(1, 10), (2, 20)]

# ---- autocommit ------------------------------------------------------------------------------------------------------


def test_autocommit_is_on_and_a_transaction_is_begun_by_hand(connection, other):
    assert connection.autocommit is True and connection.in_transaction is False
    connection.begin()
    assert connection.in_transaction and not other.in_transaction
    connection.execute("INSERT INTO t VALUES (3, 30)")
    assert rows(other) == OLD
    connection.commit()
    assert not connection.in_transaction
    assert rows(other) == [*OLD, (3, 30)]
    connection.begin("serializable", read_only=True)
    assert rows(connection, "SHOW transaction_isolation") == [("serializable",)]
    with pytest.raises(ActiveTransaction):
        connection.begin()
    connection.rollback()


def test_without_autocommit_the_first_statement_begins_a_transaction(connection, other):
    connection.autocommit = False
    assert connection.autocommit is False and not connection.in_transaction
    other.execute("UPDATE t SET v = 11 WHERE k = 1")
    assert rows(connection) == [(1, 11), (2, 20)]  # the snapshot is that of the first statement
    assert connection.in_transaction
    other.execute("UPDATE t SET v = 12 WHERE k = 1")
    assert rows(connection) == [(1, 11), (2, 20)]
    connection.commit()
    assert not connection.in_transaction
    connection.execute("UPDATE t SET v = 0")
    connection.rollback()
    assert rows(connection) == [(1, 12), (2, 20)]
    connection.commit()
    connection.commit()
    connection.rollback()


def test_setting_autocommit_commits(connection, other):
    connection.autocommit = False
    connection.execute("UPDATE t SET v = 0")
    connection.autocommit = False
    assert rows(other) == OLD
    connection.autocommit = True
    assert rows(other) == [(1, 0), (2, 0)]
    assert not connection.in_transaction
    connection.begin()
    connection.execute("UPDATE t SET v = 1")
    connection.autocommit = True  # no change, no effect
    assert connection.in_transaction
    connection.autocommit = False
    connection.rollback()
    assert rows(connection) == [(1, 0), (2, 0)]
    with pytest.raises(InterfaceError, match="True or False"):
        connection.autocommit = None


def test_settings_and_begin_do_not_begin_one_by_themselves(connection):
    connection.autocommit = False
    connection.execute("SET default_transaction_isolation = serializable; SHOW threads")
    assert not connection.in_transaction
    connection.execute("SET TRANSACTION READ ONLY")
    assert connection.in_transaction
    assert rows(connection, "SHOW transaction_read_only") == [("on",)]
    connection.rollback()
    connection.execute("BEGIN ISOLATION LEVEL SNAPSHOT")
    assert rows(connection, "SHOW transaction_isolation") == [("snapshot",)]
    with pytest.raises(ActiveTransaction):
        connection.execute("BEGIN")
    connection.execute("COMMIT; COMMIT; ROLLBACK; SAVEPOINT a; RELEASE a")
    assert connection.in_transaction
    assert rows(connection, "SHOW transaction_isolation") == [("serializable",)]


@pytest.mark.embedded_only("changes the catalog inside a transaction, which other stores refuse")
def test_changes_of_the_catalog_are_part_of_the_transaction_that_they_begin(connection, other):
    connection.autocommit = False
    connection.execute("CREATE TABLE u (k INT PRIMARY KEY)")
    assert connection.in_transaction
    connection.execute("ALTER TABLE u ADD COLUMN v INT")
    connection.execute("INSERT INTO u VALUES (1, 1)")
    with pytest.raises(ActiveTransaction, match="COMMIT or ROLLBACK first"):
        connection.execute("COMPACT TABLE u")
    with pytest.raises(UnknownTable):
        other.execute("SELECT * FROM u")
    connection.commit()
    assert rows(other, "SELECT * FROM u") == [(1, 1)]
    connection.execute("DROP TABLE u")
    connection.rollback()
    assert rows(connection, "SELECT * FROM u") == [(1, 1)]
    connection.execute("COMPACT TABLE u")  # a transaction that has only read ends
    assert not connection.in_transaction


def test_a_rollback_with_autocommit_warns_that_nothing_is_undone(connection):
    connection.commit()
    connection.execute("UPDATE t SET v = 0")
    with pytest.warns(NotRolledBackWarning, match="nothing is rolled back"):
        connection.rollback()
    connection.rollback()
    connection.execute("UPDATE t SET v = 1")
    connection.commit()
    connection.rollback()


@pytest.mark.parametrize("autocommit", [True, False])
def test_leaving_a_connection_commits_or_rolls_back(tmp_path, autocommit):
    with nyala.connect(tmp_path / "s") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    with nyala.connect(tmp_path / "s", autocommit=autocommit) as connection:
        connection.begin()
        connection.execute("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(ZeroDivisionError), nyala.connect(tmp_path / "s", autocommit=autocommit) as connection:
        connection.begin()
        connection.execute("INSERT INTO t VALUES (2, 2)")
        raise ZeroDivisionError
    connection = nyala.connect(tmp_path / "s", autocommit=autocommit)
    connection.begin()
    connection.execute("INSERT INTO t VALUES (3, 3)")
    connection.close()
    with nyala.connect(tmp_path / "s") as connection:
        assert rows(connection) == [(1, 1)]


def test_options_of_connect(tmp_path):
    with nyala.connect(isolation_level="serializable", autocommit=False) as connection:
        assert connection.isolation_level == "SERIALIZABLE"
        assert connection.autocommit is False
        connection.isolation_level = "REPEATABLE READ"
        assert connection.isolation_level == "REPEATABLE READ"
        connection.isolation_level = None
        assert connection.isolation_level == "SNAPSHOT"
        with pytest.raises(InterfaceError, match="an isolation level is READ UNCOMMITTED, "):
            connection.isolation_level = "none"
    for wrong in ({"isolation_level": "high"}, {"autocommit": 1}):
        with pytest.raises(InterfaceError):
            nyala.connect(**wrong)


def test_a_past_connection_has_no_writing_transaction(connection):
    with connection.at(connection.now()) as past:
        with pytest.raises(NotSupportedError):
            past.execute("INSERT INTO t VALUES (5, 5)")
        with past.transaction():
            assert rows(past) == OLD
            with pytest.raises(NotSupportedError):
                past.execute("INSERT INTO t VALUES (5, 5)")


# ---- blocks ----------------------------------------------------------------------------------------------------------


def test_a_block_commits_or_rolls_back(connection, other):
    with connection.transaction() as inside:
        assert inside is connection
        connection.execute("UPDATE t SET v = 0 WHERE k = 1")
        assert rows(other) == OLD
    assert rows(other) == [(1, 0), (2, 20)]
    with pytest.raises(ZeroDivisionError), connection.transaction("SERIALIZABLE"):
        connection.execute("UPDATE t SET v = 0")
        raise ZeroDivisionError
    assert rows(other) == [(1, 0), (2, 20)]
    with connection.transaction(read_only=True), pytest.raises(nyala.OperationalError):
        connection.execute("UPDATE t SET v = 0")


def test_nested_blocks_are_savepoints(connection):
    with connection.transaction():
        connection.execute("INSERT INTO t VALUES (3, 3)")
        with pytest.raises(ZeroDivisionError), connection.transaction():
            connection.execute("INSERT INTO t VALUES (4, 4)")
            with connection.transaction():
                connection.execute("INSERT INTO t VALUES (5, 5)")
            raise ZeroDivisionError
        with connection.transaction():
            connection.execute("INSERT INTO t VALUES (6, 6)")
        with pytest.raises(ActiveTransaction, match="is a savepoint"), connection.transaction("SERIALIZABLE"):
            pass
    assert rows(connection) == [*OLD, (3, 3), (6, 6)]


def test_a_block_without_autocommit(connection, other):
    connection.autocommit = False
    with connection.transaction():
        connection.execute("INSERT INTO t VALUES (3, 3)")
    assert rows(other) == [*OLD, (3, 3)]
    connection.execute("INSERT INTO t VALUES (4, 4)")
    with connection.transaction():  # of the transaction that is open: a savepoint
        connection.execute("INSERT INTO t VALUES (5, 5)")
    assert rows(other) == [*OLD, (3, 3)]
    connection.commit()
    assert len(rows(other)) == 5


def test_a_block_may_end_its_transaction_itself(connection):
    with connection.transaction():
        connection.execute("INSERT INTO t VALUES (3, 3)")
        connection.rollback()
    with connection.transaction():
        connection.execute("INSERT INTO t VALUES (4, 4); COMMIT")
    assert rows(connection) == [*OLD, (4, 4)]
    block = connection.transaction()
    with block:
        pass
    with pytest.raises(InterfaceError, match="entered before"), block:
        pass


def test_the_error_of_a_block_whose_connection_is_closed_is_the_one_that_comes_out(connection):
    with pytest.raises(ZeroDivisionError), connection.transaction():
        connection.close()
        raise ZeroDivisionError


def test_a_conflict_in_a_nested_block_leaves_all_of_them(connection, other):
    outer, inner = connection.transaction(), connection.transaction()
    with pytest.raises(SerializationFailure, match="of a statement"), outer, inner, connection.session.turn():
        raise SerializationFailure("of a statement")
    assert not connection.in_transaction


# ---- retries ---------------------------------------------------------------------------------------------------------


def test_run_retries_until_the_commit_succeeds(connection, other):
    calls = []

    def increment(inside):
        assert inside is connection
        (value,) = inside.execute("SELECT v FROM t WHERE k = 1").fetchone()
        if len(calls) < 3:
            other.execute("UPDATE t SET v = v + 100 WHERE k = 1")
        calls.append(value)
        inside.execute("UPDATE t SET v = ? WHERE k = 1", [value + 1])
        return value

    assert connection.run(increment) == 310
    assert calls == [10, 110, 210, 310]
    assert rows(connection, "SELECT v FROM t WHERE k = 1") == [(311,)]


def test_run_gives_up_and_does_not_retry_other_errors(connection, other):
    calls = []

    def conflict(inside):
        calls.append(1)
        inside.execute("UPDATE t SET v = 0 WHERE k = 1")
        other.execute("UPDATE t SET v = v + 1 WHERE k = 1")

    with pytest.raises(SerializationFailure) as caught:
        connection.run(conflict, retries=2)
    assert len(calls) == 3 and "in each of 3 attempts" in caught.value.__notes__
    with pytest.raises(SerializationFailure) as caught:
        connection.run(conflict, retries=0)
    assert len(calls) == 4
    with pytest.raises(ZeroDivisionError):
        connection.run(lambda inside: calls.append(1) or 1 // 0)
    assert len(calls) == 5 and not connection.in_transaction
    with connection.transaction(), pytest.raises(ActiveTransaction, match="a whole transaction"):
        connection.run(conflict)
    with pytest.raises(InterfaceError, match="retries=-1"):
        connection.run(conflict, retries=-1)


def test_the_time_before_an_attempt_is_random_below_a_limit_that_doubles():
    for attempt in range(20):
        limit = min(LONGEST_SLEEP, FIRST_SLEEP * 2**attempt)
        sleeps = [sleep_before(attempt) for _ in range(50)]
        assert 0 <= min(sleeps) < max(sleeps) <= limit


def test_transfers_of_threads_lose_nothing(connection):
    connection.execute("INSERT INTO t SELECT k + 10, 100 FROM t")

    def work(number):
        with connection.duplicate() as mine:
            for step in range(15):
                first, second = (11, 12) if (number + step) % 2 else (12, 11)

                def transfer(inside, first=first, second=second):
                    (value,) = inside.execute("SELECT v FROM t WHERE k = ?", [first]).fetchone()
                    inside.execute("UPDATE t SET v = ? WHERE k = ?", [value - 1, first])
                    inside.execute("UPDATE t SET v = v + 1 WHERE k = ?", [second])

                mine.run(transfer, retries=1000)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows(connection, "SELECT sum(v) FROM t WHERE k > 10") == [(200,)]
    connection.commit()


# ---- tables, loads, write sessions -----------------------------------------------------------------------------------


def test_tables_without_sql_are_part_of_the_transaction(connection, other):
    with connection.transaction():
        table = connection.table("t")
        table.insert([(3, 30), (4, 40)])
        table.upsert((1, 11))
        table.delete((2,))
        table.update(pa.table({"k": [3], "v": [33]}))
        assert table.get(1) == {"k": 1, "v": 11} and table.get(2) is None
        assert table.scan(["v"], ("k", ">", 1), ordered=True).to_arrow().to_pydict() == {"v": [33, 40]}
        assert table.count() == 3
        assert sum(token.open(connection).count() for token in table.scan_tokens()) == 3
        assert sum(token.open(other).count() for token in table.scan_tokens()) == 2
        assert other.table("t").count() == 2
        with pytest.raises(RowsRefused):
            table.insert([(1, 1), (5, 50)])
        assert connection.load("t", pa.table({"k": [6, 7], "v": [60, 70]})) == 2
        with pytest.raises(nyala.IntegrityError):
            connection.load("t", pa.table({"k": [8, 7], "v": [60, 70]}))
        assert connection.executemany("INSERT INTO t VALUES (?, ?)", [(k, k) for k in range(20, 30)]).rowcount == 10
        assert rows(other) == OLD
    expected = [(1, 11), (3, 33), (4, 40), (5, 50), (6, 60), (7, 70), *((k, k) for k in range(20, 30))]
    assert rows(other) == expected


def test_tables_begin_a_transaction_without_autocommit(connection, other):
    connection.autocommit = False
    table = connection.table("t")
    connection.rollback()
    assert not connection.in_transaction
    table.upsert((1, 0))
    assert connection.in_transaction and rows(other) == OLD
    connection.commit()
    assert table.get(1) == {"k": 1, "v": 0}
    assert connection.in_transaction
    connection.rollback()
    connection.load("t", pa.table({"k": [3], "v": [3]}))
    connection.rollback()
    assert other.table("t").count() == 2


@pytest.mark.parametrize("mode", ["AUTO_FLUSH_SYNC", "AUTO_FLUSH_BACKGROUND", "MANUAL_FLUSH"])
@pytest.mark.parametrize("commits", [True, False])
def test_buffered_rows_belong_to_the_transaction_that_ends(connection, other, mode, commits):
    with connection.new_session(mode) as session:
        session.insert("t", [(k, k) for k in range(10, 20)])
        connection.begin()  # what was buffered before it is not part of it
        assert other.table("t").count() == 12
        session.insert("t", [(k, k) for k in range(20, 40)])
        session.update("t", (1, 11))
        assert other.table("t").count() == 12
        (connection.commit if commits else connection.rollback)()
        assert not session.has_pending
    assert other.table("t").count() == (32 if commits else 12)
    assert other.table("t").get(1)["v"] == (11 if commits else 10)


def test_refused_rows_of_a_session_keep_the_transaction_open(connection, other):
    session = connection.new_session("MANUAL_FLUSH")
    connection.begin()
    session.insert("t", [(1, 1), (3, 3)])
    with pytest.raises(RowsRefused):
        connection.execute("COMMIT")
    assert connection.in_transaction
    assert [error.row for error in session.pending_errors().errors] == [{"k": 1, "v": 1}]
    connection.commit()
    assert rows(other) == [*OLD, (3, 3)]
    session.close()


def test_rows_that_are_buffered_after_a_conflict_are_not_written_later(connection, other):
    session = connection.new_session("MANUAL_FLUSH")
    connection.begin()
    with pytest.raises(SerializationFailure), connection.session.turn():
        raise SerializationFailure("of a statement")
    table = other.table("t")
    session.insert(table, [(3, 3)])
    connection.rollback()
    assert isinstance(session.pending_errors().errors[0].error, FailedTransaction)
    session.close()
    assert rows(other) == OLD


# ---- results that are open at the end --------------------------------------------------------------------------------

QUERIES = {
    "scan": "SELECT k, v FROM t",
    "sort": "SELECT k, v FROM t ORDER BY v DESC, k",
    "join": "SELECT a.k, b.v FROM t AS a JOIN t AS b ON a.k = b.k",
    "union": "SELECT k, v FROM t UNION ALL SELECT k + 1000000, v FROM t",
    "group": "SELECT v % 1000 AS g, count(*) FROM t GROUP BY g",
    "window": "SELECT k, sum(v) OVER (ORDER BY k) FROM t",
    "top": "SELECT k, v FROM t ORDER BY v LIMIT 50000",
    "key order": "SELECT k, v FROM t ORDER BY k LIMIT 90000",
}


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "DELETE FROM t", "UPDATE t SET v = -1"])
def test_open_results_have_the_rows_of_their_beginning(connection, end):
    connection.execute("INSERT INTO t SELECT n, n * 7 % 100003 FROM generate_series(100, 60000) AS g(n)")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t SELECT n, n * 7 % 100003 FROM generate_series(60001, 100000) AS g(n)")
    connection.execute("DELETE FROM t WHERE k % 10 = 3; UPDATE t SET v = v + 1 WHERE k % 10 = 4")
    expected = {name: connection.execute(text).arrow() for name, text in QUERIES.items()}
    cursors = {name: connection.execute(text) for name, text in QUERIES.items()}
    first = {name: cursor.fetchmany(3) for name, cursor in cursors.items()}
    streams = {name: pa.RecordBatchReader.from_stream(connection.execute(text)) for name, text in QUERIES.items()}
    scan = connection.table("t").scan(["k", "v"], ordered=True)
    before = iter(scan.reader())
    rows_scanned = next(before).num_rows
    connection.execute(end)
    for name, found in expected.items():
        key = [(column, "ascending") for column in found.schema.names]
        columns = zip(*(first[name] + cursors[name].fetchall()))
        got = pa.table(list(columns), names=found.schema.names).cast(found.schema)
        assert got.sort_by(key) == found.sort_by(key), name
        assert streams[name].read_all().sort_by(key) == found.sort_by(key), name
    whole = rows_scanned + sum(batch.num_rows for batch in before)
    assert whole == len(rows(connection)) if end == "COMMIT" else whole > 80000


# ---- asyncio ---------------------------------------------------------------------------------------------------------


def test_asyncio():
    import asyncio

    async def main():
        async with nyala.aio.connect(isolation_level="SERIALIZABLE") as connection:
            await connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)")
            assert connection.autocommit and connection.isolation_level == "SERIALIZABLE"
            async with connection.transaction():
                await connection.execute("INSERT INTO t VALUES (2, 2)")
                with pytest.raises(ZeroDivisionError):
                    async with connection.transaction():
                        await connection.execute("INSERT INTO t VALUES (3, 3)")
                        raise ZeroDivisionError
            await connection.begin(read_only=True)
            assert connection.in_transaction
            await connection.rollback()
            await connection.set_autocommit(False)
            connection.isolation_level = "SNAPSHOT"
            await connection.execute("INSERT INTO t VALUES (4, 4)")
            await connection.commit()
            await connection.execute("INSERT INTO t VALUES (5, 5)")
            await connection.rollback()
            await connection.set_autocommit(True)

            calls = []

            async def update(inside):
                calls.append(1)
                await inside.execute("UPDATE t SET v = 0 WHERE k = 1")
                if len(calls) == 1:
                    with inside.connection.duplicate() as other:
                        other.execute("UPDATE t SET v = 9 WHERE k = 1")
                return len(calls)

            assert await connection.run(update) == 2
            with pytest.raises(ZeroDivisionError):
                async with connection.transaction():
                    await connection.execute("DELETE FROM t")
                    raise ZeroDivisionError
            cursor = await connection.execute("SELECT k, v FROM t ORDER BY k")
            return await cursor.fetchall()

    assert asyncio.run(main()) == [(1, 0), (2, 2), (4, 4)]


def test_an_error_of_a_commit_has_no_other_in_its_place(connection, other):
    with pytest.raises(NoActiveTransaction):
        connection.execute("COMMIT")
    connection.begin()
    connection.execute("UPDATE t SET v = 0")
    other.execute("UPDATE t SET v = 1")
    with pytest.raises(SerializationFailure):
        connection.commit()
    connection.commit()


def test_executemany_begins_a_transaction_without_autocommit() -> None:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        connection.autocommit = False
        connection.cursor().executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
        assert connection.in_transaction
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
        connection.rollback()
