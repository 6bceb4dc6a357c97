"""Resources of a statement are freed by reference counts alone: pinned rows, files, memory accounts, cursors.

Reference cycles would keep files of replaced rowsets, and memory, until the cyclic collector happens to run.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nyala
import pytest
from examples import few
from nyala.driver.connection import Connection
from nyala.driver.cursor import Cursor
from nyala.driver.session.executions import Execution
from nyala.driver.tables.table_scans import Scan
from nyala.errors import Error
from nyala.executor.run.memory import Account
from nyala.model.store import ScanToken
from nyala.storage.database import Database
from nyala.storage.files.os_filesystem import _OpenFile
from nyala.storage.files.spill_file import SpillFile
from nyala.storage.tablet.tablet import Pin, TabletView

ROWS = 40_000
HOLDING = (Account, Connection, Cursor, Execution, Pin, Scan, ScanToken, SpillFile, TabletView, _OpenFile)

STATEMENTS = (
    "SELECT count(*) FROM t",
    "SELECT * FROM t WHERE k < 10",
    "SELECT v, count(*) FROM t GROUP BY v",
    "SELECT DISTINCT g FROM t",
    "SELECT g, string_agg(v, ',') FROM t WHERE k < 100 GROUP BY g",
    "SELECT g, count(DISTINCT v) FROM t GROUP BY ROLLUP (g)",
    "SELECT * FROM t ORDER BY v LIMIT 3",
    "SELECT k FROM t ORDER BY v, k",
    "SELECT k FROM t LIMIT 5",
    "SELECT a.k FROM t a JOIN t b USING (k) WHERE b.k < 5",
    "SELECT a.k FROM t a LEFT JOIN t b ON a.k = b.k + 1",
    "SELECT a.k FROM t a FULL JOIN u b ON a.k = b.k",
    "SELECT a.k FROM t a JOIN u b ON a.k < b.k AND b.k < 20",
    "SELECT k FROM t WHERE k IN (SELECT k FROM u)",
    "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u)",
    "SELECT k, (SELECT max(k) FROM u WHERE u.g = t.g) FROM t",
    "SELECT k, row_number() OVER (PARTITION BY g ORDER BY v, k) FROM t",
    "SELECT k, sum(k) OVER (ORDER BY k ROWS 3 PRECEDING) FROM t",
    "SELECT k FROM t UNION SELECT k + 1 FROM t",
    "SELECT k FROM t EXCEPT SELECT k FROM u",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r JOIN t ON t.k = r.n",
    "WITH c AS (SELECT g, count(*) AS n FROM t GROUP BY g) SELECT * FROM c a JOIN c b USING (g)",
    "SELECT k FROM t FOR SYSTEM_TIME AS OF now()",
    "SELECT k FROM t FOR SYSTEM_TIME FROM now() - INTERVAL 1 HOUR TO now()",
    "EXPLAIN ANALYZE SELECT count(*) FROM t a JOIN u b USING (k)",
    "INSERT INTO t SELECT k + 1000000, g, v FROM t WHERE k <= 10",
    "UPSERT INTO t SELECT k, g, v FROM t WHERE k <= 10",
    "UPDATE t SET v = 'x' WHERE k < 100",
    "UPDATE t SET v = v || 'y'",
    "DELETE FROM t WHERE k > 1000000",
    "CREATE TABLE made AS SELECT k, v FROM u; DROP TABLE made",
    "ANALYZE TABLE t",
    "COMPACT TABLE t",
    "SHOW STATS t",
    # Wrong ones, and ones that fail in the middle.
    "SELECT 10 / (k - 7) FROM t",
    "SELECT g, sum(10 / (k - 7)) FROM t GROUP BY g",
    "SELECT a.k FROM t a JOIN t b ON a.k = b.k / (b.k - 7)",
    "SELECT k FROM t ORDER BY 10 / (k - 7)",
    "UPDATE t SET g = 10 / (k - 7)",
    "INSERT INTO t SELECT k, g, v FROM u",
    "INSERT INTO t VALUES (1, 1, 'there already')",
    "SELECT nothing FROM t",
    "SELECT k FROM t WHERE v = 1 + 'a'",
    "SELEC",
    "SELECT * FROM nowhere",
)


@pytest.fixture(scope="module", autouse=True)
def _frozen_heap() -> None:
    """The collector skips objects made before these tests: a collection takes milliseconds. They stay frozen, as those
    that `conftest` froze would thaw with them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=few(["several", "one thread"], 1), scope="module")
def connection(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    path = tmp_path_factory.mktemp("cycles") / "store"
    threads = 1 if request.param == "one thread" else 3
    with nyala.connect(path, durability="os", threads=threads) as made:
        made.execute("CREATE TABLE t (k INT PRIMARY KEY, g INT, v STRING) PARTITION BY HASH (k) PARTITIONS 3")
        made.execute("CREATE TABLE u (k INT PRIMARY KEY, g INT, v STRING)")
        made.execute(f"INSERT INTO t SELECT n, n % 7, 'v' || n FROM generate_series(1, {ROWS}) AS s(n)")
        made.execute("INSERT INTO u SELECT n, n % 7, 'v' || n FROM generate_series(1, 100) AS s(n)")
        made.execute("COMPACT TABLE t")
        yield made


def garbage_of(work: Callable[[], Any]) -> list[str]:
    """Kinds of the objects with files, rows or memory that only the cyclic collector would free."""
    gc.collect()
    gc.disable()
    try:
        work()
        gc.garbage.clear()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return sorted({type(each).__name__ for each in gc.garbage if isinstance(each, HOLDING)})
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def held_pins(connection: Connection) -> int:
    store = connection.store
    assert isinstance(store, Database)
    return sum(len(tablet.held_pins()) for tablet in store._tablets())


def check(connection: Connection, work: Callable[[], Any]) -> None:
    gc.collect()
    before = held_pins(connection)
    left: list[int] = []

    def then_count() -> None:
        work()
        # A thread of the pool may still be on its way out of the last task.
        deadline = time.monotonic() + 90
        while held_pins(connection) > before and time.monotonic() < deadline:
            time.sleep(0.01)
        left.append(held_pins(connection))

    assert garbage_of(then_count) == []
    assert left[0] <= before


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements(connection: Connection, statement: str) -> None:
    def work() -> None:
        try:
            cursor = connection.execute(statement)
            if cursor.description:
                cursor.fetchall()
        except Error as error:
            error.__traceback__ = None

    check(connection, work)


@pytest.mark.parametrize("statement", [s for s in STATEMENTS if s.startswith(("SELECT", "WITH"))])
def test_cursors_that_are_dropped_half_read(connection: Connection, statement: str) -> None:
    def work() -> None:
        try:
            connection.execute(statement).fetchone()
        except Error as error:
            error.__traceback__ = None

    check(connection, work)


def test_statements_that_are_cancelled(connection: Connection) -> None:
    def work() -> None:
        cursor = connection.execute("SELECT a.v, b.v FROM t a JOIN t b ON a.g = b.g")
        cursor.fetchone()
        cursor.cancel()
        try:
            cursor.fetchall()
        except Error as error:
            error.__traceback__ = None

    check(connection, work)


def test_spilling_statements(connection: Connection) -> None:
    def work() -> None:
        with connection.at(connection.store.now()) as other:
            other.execute("SET memory_limit = '2MB'")
            for text in (
                "SELECT v, count(*) FROM t GROUP BY v",
                "SELECT a.v FROM t a JOIN t b ON a.v = b.v",
                "SELECT a.v FROM t a FULL JOIN t b ON a.v = b.v || 'z'",
                "SELECT v, k FROM t ORDER BY v",
                "SELECT k, row_number() OVER (PARTITION BY v ORDER BY k) FROM t",
            ):
                assert len(other.execute(text).fetchall()) > ROWS // 2

    check(connection, work)


def test_tables_without_sql(connection: Connection) -> None:
    def work() -> None:
        table, since = connection.table("t"), connection.store.now()
        table.get(1)
        table.count(("k", "<", 100))
        table.scan().to_arrow()
        table.scan(["v"], ("k", ">=", 5), ordered=True, limit=10).to_arrow()
        list(table.scan(limit=10, ordered=True).rows())
        next(iter(table.scan()))
        next(table.scan().rows())
        table.scan().reader().read_next_batch()
        for token in table.scan_tokens(split_size_bytes=10_000):
            next(iter(token.open(connection)), None)
        table.upsert([{"k": 1, "g": 1, "v": str(since)}, {"k": 2, "g": 1, "v": str(since)}])
        table.changes(since).to_arrow()
        next(iter(table.changes(since, net=True)))

    check(connection, work)


def test_arrow_and_asyncio(connection: Connection, tmp_path: Path) -> None:
    def work() -> None:
        connection.execute("SELECT * FROM t").arrow()
        next(connection.execute("SELECT * FROM t").record_batches())
        connection.execute(f"COPY t TO '{tmp_path}/t.parquet'")

    check(connection, work)

    async def main() -> None:
        async with nyala.aio.connect(":memory:") as own:
            await own.execute("CREATE TABLE t (k INT PRIMARY KEY)")
            await own.execute("INSERT INTO t SELECT n FROM generate_series(1, 200000) AS g(n)")
            cursor = await own.execute("SELECT k FROM t")
            await cursor.fetchone()
            await (await own.execute("SELECT k FROM t ORDER BY k")).fetchall()
            with pytest.raises(nyala.Error):
                await own.execute("SELECT 1 / (k - 3) FROM t ORDER BY 1")

    assert garbage_of(lambda: asyncio.run(main())) == []
