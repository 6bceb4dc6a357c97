"""Single rows of a served store by asyncio: awaited on the loop, without a thread, with the results of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import nyala
import pyarrow as pa
import pytest
from embedded_server_support import ServedStore
from nyala import errors
from nyala.driver.aio import AsyncConnection
from nyala.driver.async_calls import Threads

READ = "SELECT v, n FROM t WHERE k = ?"
INSERT = "INSERT INTO t VALUES (?, ?, ?)"


def served(work: Callable[[AsyncConnection], Awaitable[Any]]) -> Any:
    """Runs `work(connection)` with a connection to a served store with a table of 100 rows."""

    async def main(url: str) -> Any:
        async with nyala.aio.connect(url, threads=2) as connection, asyncio.timeout(60):
            return await work(connection)

    with ServedStore() as store:
        connection = store.embedded()
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING, n INT)")
        connection.load("t", pa.table({"k": range(100), "v": [str(k) for k in range(100)], "n": range(100)}))
        return asyncio.run(main(store.server.url))


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions that are run in threads."""
    found: list[Any] = []
    run = Threads.run

    async def watched(self: Threads, work: Any, *args: Any, **named: Any) -> Any:
        found.append(work)
        return await run(self, work, *args, **named)

    monkeypatch.setattr(Threads, "run", watched)
    return found


def test_known_statements_on_one_row_need_no_thread(works: list[Any]) -> None:
    async def rows(connection: AsyncConnection, k: int) -> list[Any]:
        found: list[Any] = []
        cursor = connection.cursor()
        await cursor.execute(READ, [k])
        found += [await cursor.fetchone(), await cursor.fetchone(), cursor.rowcount, cursor.description]
        await cursor.execute(f"SELECT v FROM t WHERE k = {k} AND n < 50")
        found.append(await cursor.fetchall())
        await cursor.execute("UPSERT INTO t VALUES (?, ?, ?)", [k, "new", 0])
        found += [cursor.rowcount, cursor.description]
        await cursor.execute("UPDATE t SET v = ? WHERE k = ?", ["newer", k])
        await cursor.execute(READ, [k])
        found += [row async for row in cursor]
        await cursor.execute("DELETE FROM t WHERE k = ?", [k])
        await cursor.execute(READ, [k])
        found.append(await cursor.fetchmany(5))
        await cursor.close()
        return found

    async def work(connection: AsyncConnection) -> None:
        first = await rows(connection, 1)
        assert first[:3] == [("1", 1), None, 1]
        await rows(connection, 2)  # texts with literals are prepared when their shape comes again
        works.clear()
        before = connection.last_timestamp
        found = await asyncio.gather(*(rows(connection, k) for k in range(3, 50)))
        assert works == []
        assert found == [[(str(k), k), None, 1, first[3], [(str(k),)], 1, None, ("newer", 0), []] for k in range(3, 50)]
        assert before is not None and connection.last_timestamp is not None and connection.last_timestamp > before
        async with await connection.at(before) as past:
            await past.execute(READ, [7])
            works.clear()
            assert await (await past.execute(READ, [7])).fetchone() == ("7", 7)
            assert works == []
            with pytest.raises(nyala.NotSupportedError, match="changes nothing"):
                await past.execute(INSERT, [1, "x", 1])

    served(work)


def test_a_table_and_its_rows(works: list[Any]) -> None:
    async def work(connection: AsyncConnection) -> None:
        table = await connection.table("t")
        assert await table.get(4)  # the tablets' servers are known from now on
        works.clear()
        assert await table.get(5) == {"k": 5, "v": "5", "n": 5}
        assert await table.get((5,), ["n"]) == {"n": 5}
        written = await table.insert({"k": 200, "v": "x", "n": 1})
        assert (written.applied, connection.last_timestamp) == (1, written.timestamp)
        assert (await table.update_ignore({"k": 999, "v": "x"})).ignored == 1
        with pytest.raises(errors.RowsRefused, match="k = 200"):
            await table.insert((200, "y", 1))
        await table.delete((200,))
        assert await table.get(200) is None
        with pytest.raises(errors.UnknownColumn):
            await table.get(5, ["nothing"])
        assert works == []
        assert (await table.upsert([(201, "a", 1), (202, "b", 2)])).applied == 2
        assert await table.count() == 102
        assert (await table.to_arrow(["v"], ("k", "=", 202))).to_pylist() == [{"v": "b"}]
        assert await table.run(lambda handle: handle.name) == table.name == "t"
        assert len(works) == 4
        with pytest.raises(errors.UnknownTable):
            await connection.table("u")

    served(work)


def test_errors_of_statements() -> None:
    async def work(connection: AsyncConnection) -> None:
        await connection.execute(INSERT, [300, "a", 1])
        for _ in range(2):
            with pytest.raises(errors.AlreadyPresent):
                await connection.execute(INSERT, [300, "a", 1])
        with pytest.raises(nyala.DataError):
            await connection.execute(INSERT, [2**40, "a", 1])
        with pytest.raises(nyala.InterfaceError):
            await connection.execute(INSERT, [1])
        cursor = await connection.execute("UPDATE t SET n = n + 1 WHERE k = ?", [300])
        cursor = await connection.execute("UPDATE t SET n = n + 1 WHERE k = ?", [300])
        assert cursor.rowcount == 1
        assert await (await connection.execute(READ, [300])).fetchone() == ("a", 3)

    served(work)


def test_a_transaction_sees_its_own_rows() -> None:
    async def work(connection: AsyncConnection) -> None:
        table = await connection.table("t")
        await connection.execute(READ, [1])
        async with connection.transaction():
            await table.upsert((1, "mine", 1))
            assert await (await connection.execute(READ, [1])).fetchone() == ("mine", 1)
            assert await table.get(1, ["v"]) == {"v": "mine"}
            other = connection.connection.duplicate()
            assert other.execute(READ, [1]).fetchone() == ("1", 1)
        assert other.execute(READ, [1]).fetchone() == ("mine", 1)
        other.close()

    served(work)


def test_altered_tables_are_bound_again() -> None:
    async def work(connection: AsyncConnection) -> None:
        for _ in range(2):
            await connection.execute("SELECT * FROM t WHERE k = ?", [1])
        other = connection.connection.duplicate()
        other.execute("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
        assert await (await connection.execute("SELECT * FROM t WHERE k = ?", [1])).fetchone() == (1, "1", 1, 7)
        other.execute("ALTER TABLE t DROP COLUMN n")
        with pytest.raises(errors.UnknownColumn):
            await connection.execute(READ, [1])
        other.close()

    served(work)


def test_cancelled_calls_end_at_once_and_harm_no_other() -> None:
    async def work(connection: AsyncConnection) -> None:
        table = await connection.table("t")
        await table.get(1)
        await connection.execute(READ, [1])
        for _ in range(20):
            tasks = [asyncio.create_task(table.get(k)) for k in range(20)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert [row["k"] for row in found[1::2] if isinstance(row, dict)] == list(range(1, 20, 2))
            assert all(isinstance(row, dict | asyncio.CancelledError) for row in found)
        task = asyncio.create_task(table.upsert((1, "perhaps", 1)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        row = await table.get(1)
        assert row is not None and row["v"] in ("1", "perhaps")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await table.get(1)

        cursor = connection.cursor()
        mine = asyncio.create_task(cursor.execute(READ, [1]))
        others = asyncio.create_task(connection.execute(READ, [2]))
        await asyncio.sleep(0)
        cursor.cancel()
        with pytest.raises(errors.Cancelled):
            await mine
        assert await (await others).fetchone() == ("2", 2)
        running = asyncio.create_task(table.get(3))
        await asyncio.sleep(0)
        connection.cancel()
        with pytest.raises(errors.Cancelled):
            await running
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]

    served(work)


def test_a_connection_is_used_by_one_loop_after_the_other() -> None:
    with ServedStore() as store:
        store.embedded().execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        connection = asyncio.run(open_now(store.server.url))
        for _ in range(3):
            assert asyncio.run(connection_get(connection)) == {"k": 1}
        asyncio.run(connection.close())


async def open_now(url: str) -> AsyncConnection:
    return await nyala.aio.connect(url, threads=2)


async def connection_get(connection: AsyncConnection) -> Any:
    table = await connection.table("t")
    return await table.get(1)


def test_a_closed_connection_takes_no_calls() -> None:
    async def work(connection: AsyncConnection) -> None:
        table = await connection.table("t")
        await connection.execute(READ, [1])
        running = [asyncio.create_task(table.get(k)) for k in range(20)]
        await asyncio.sleep(0)
        await connection.close()
        for row in await asyncio.gather(*running, return_exceptions=True):
            assert isinstance(row, dict | errors.Cancelled | errors.InterfaceError | errors.StoreClosed)
        with pytest.raises(nyala.InterfaceError, match="the connection is closed"):
            await table.get(1)
        with pytest.raises(nyala.InterfaceError, match="the connection is closed"):
            await connection.execute(READ, [1])

    served(work)
