"""The driver for asyncio: nothing blocks the loop, tasks that are cancelled take their statements with them."""

import asyncio
import contextlib
import threading

import nyala
import pyarrow as pa
import pytest
from nyala.errors import Cancelled

SLOW = "SELECT count(*) FROM n a, n b, n c WHERE a.k + b.k + c.k = -1"
"""A cross join of 8 billion rows."""


def run(work, **options):
    """Run `work(connection)` on a connection with a table of 2000 numbers."""

    async def main():
        async with nyala.aio.connect(":memory:", threads=2, **options) as connection:
            await connection.execute("CREATE TABLE n (k INT PRIMARY KEY)")
            await connection.load("n", pa.table({"k": pa.array(range(2000), pa.int32())}))
            return await asyncio.wait_for(work(connection), 60)

    return asyncio.run(main())


async def has_begun(connection):
    """Wait until a statement runs."""
    while not len(connection.connection.session._running):
        await asyncio.sleep(0.01)


def test_statements_rows_and_batches():
    async def work(connection):
        cursor = await connection.executemany("INSERT INTO n VALUES (?)", [(k,) for k in range(2000, 2010)])
        assert cursor.rowcount == 10
        assert connection.last_timestamp is not None and connection.autocommit
        async with await connection.execute("SELECT k FROM n WHERE k >= ? ORDER BY k", [2005]) as cursor:
            assert await cursor.fetchone() == (2005,)
            cursor.arraysize = 2
            assert await cursor.fetchmany() == [(2006,), (2007,)]
            assert cursor.rownumber == 3
            assert await cursor.fetchall() == [(2008,), (2009,)]
            assert (cursor.rowcount, cursor.description[0][0]) == (5, "k")
        with pytest.raises(nyala.InterfaceError, match="the cursor is closed"):
            await cursor.fetchone()
        cursor = await connection.execute("SELECT k FROM n ORDER BY k")
        assert [k async for (k,) in cursor] == list(range(2010))
        cursor = await connection.execute("SELECT k FROM n ORDER BY k")
        assert [k async for batch in cursor.record_batches() for k in batch.column(0).to_pylist()] == list(range(2010))
        assert (await (await connection.execute("SELECT k FROM n")).arrow()).num_rows == 2010
        await connection.commit()
        await connection.rollback()
        with pytest.raises(nyala.ProgrammingError, match="nothing"):
            await connection.execute("SELECT * FROM nothing")

    run(work)


def test_the_loop_goes_on_while_a_statement_runs():
    async def work(connection):
        statement = asyncio.create_task(connection.execute(SLOW))
        await has_begun(connection)
        for _ in range(20):  # a loop that is blocked would not come back before the statement's end
            await asyncio.sleep(0)
            assert not statement.done()
        connection.cancel()
        with pytest.raises(Cancelled):
            await statement

    run(work)


def test_every_wait_is_in_another_thread(monkeypatch):
    loops = threading.get_ident()
    met = []
    for name in ("execute", "executemany", "fetchall", "fetchone", "fetchmany", "arrow", "close"):
        plain = getattr(nyala.driver.cursor.Cursor, name)

        def watched(self, *given, name=name, plain=plain):
            if name != "fetchone" or not self.rows_at_hand:
                met.append((name, threading.get_ident()))
            return plain(self, *given)

        monkeypatch.setattr(nyala.driver.cursor.Cursor, name, watched)

    async def work(connection):
        await connection.executemany("UPSERT INTO n VALUES (?)", [(1,)])
        for read in ("fetchall", "fetchone", "fetchmany", "arrow"):
            async with await connection.execute("SELECT k FROM n") as cursor:
                await getattr(cursor, read)()

    run(work)
    assert {name for name, _ in met} == {
        "execute",
        "executemany",
        "fetchall",
        "fetchone",
        "fetchmany",
        "arrow",
        "close",
    }
    assert loops not in {thread for _, thread in met}


def test_a_cancelled_task_takes_its_statement_with_it_and_no_other():
    async def work(connection):
        other = connection.cursor()
        await other.execute("SELECT a.k FROM n a, n b")
        await other.fetchone()
        task = asyncio.create_task(connection.execute(SLOW))
        await has_begun(connection)
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await other.fetchone() is not None
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await connection.execute(SLOW)
        assert len(await other.fetchmany(10_000)) == 10_000
        await other.close()
        assert len(connection.connection.session._running) == 0
        assert await (await connection.execute("SELECT count(*) FROM n")).fetchone() == (2000,)

    run(work)


@pytest.mark.parametrize("yields", range(6))
def test_tasks_are_cancelled_at_any_time(yields):
    async def work(connection):
        task = asyncio.create_task(connection.execute(SLOW))
        for _ in range(yields):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(work)


def test_a_cancelled_write_has_happened_or_not():
    async def work(connection):
        for start in range(0, 100_000, 10_000):
            await connection.execute("CREATE TABLE IF NOT EXISTS t (k INT PRIMARY KEY)")
            text = "INSERT INTO t SELECT g FROM generate_series(?, ? - 1) AS g(g)"
            task = asyncio.create_task(connection.execute(text, [start, start + 10_000]))
            await asyncio.sleep(0.002 * (start // 10_000))
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            cursor = await connection.execute("SELECT count(*) FROM t WHERE k >= ?", [start])
            assert await cursor.fetchone() in [(0,), (10_000,)]

    run(work)


def test_a_cancelled_load_leaves_no_trace():
    async def work(connection):
        taken = threading.Event()

        def source():
            for start in range(10_000, 10_000_000, 1_000):
                taken.set()
                yield pa.record_batch({"k": pa.array(range(start, start + 1000), pa.int32())})

        task = asyncio.create_task(connection.load("n", source()))
        await asyncio.to_thread(taken.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await (await connection.execute("SELECT count(*) FROM n")).fetchone() == (2000,)

    run(work)


@pytest.mark.parametrize("workers", [1, 3])
def test_many_cursors_on_one_connection(workers):
    async def one(connection, number):
        cursor = connection.cursor()
        await cursor.execute("UPSERT INTO n VALUES (?)", [10_000 + number])
        await cursor.execute("SELECT k FROM n WHERE k % 40 = ? AND k < 2000 ORDER BY k", [number])
        return [k async for (k,) in cursor]

    async def work(connection):
        found = await asyncio.gather(*(one(connection, number) for number in range(40)))
        assert found == [list(range(number, 2000, 40)) for number in range(40)]
        cursor = await connection.execute("SELECT count(*) FROM n WHERE k >= 10000")
        assert await cursor.fetchone() == (40,)

    run(work, workers=workers)


def test_tasks_may_share_a_cursor():
    async def work(connection):
        cursor = await connection.execute("SELECT k FROM n")
        rows = await asyncio.gather(*(cursor.fetchmany(100) for _ in range(20)))
        assert sorted(k for some in rows for (k,) in some) == list(range(2000))

    run(work)


def test_closing_ends_what_runs():
    async def main():
        connection = await nyala.aio.connect(":memory:", workers=1)
        await connection.execute("CREATE TABLE n (k INT PRIMARY KEY)")
        await connection.load("n", pa.table({"k": pa.array(range(2000), pa.int32())}))
        half_read = await connection.execute("SELECT a.k FROM n a, n b")
        task = asyncio.create_task(connection.execute(SLOW))
        await has_begun(connection)
        await connection.close()
        await connection.close()
        with pytest.raises((Cancelled, nyala.InterfaceError)):
            await task
        await half_read.close()
        with pytest.raises(nyala.InterfaceError, match="the connection is closed"):
            await connection.execute("SELECT 1")

    asyncio.run(main())


def test_views_of_the_past():
    async def work(connection):
        await connection.execute("DELETE FROM n WHERE k >= 10")
        before = connection.last_timestamp
        await connection.execute("DELETE FROM n")
        async with await connection.at(before) as view:
            assert await (await view.execute("SELECT count(*) FROM n")).fetchone() == (10,)
            with pytest.raises(nyala.NotSupportedError, match="changes nothing"):
                await view.load("n", pa.table({"k": pa.array([1], pa.int32())}))
        assert await (await connection.execute("SELECT count(*) FROM n")).fetchone() == (0,)

    run(work)


def test_wrong_options(tmp_path):
    async def main():
        with pytest.raises(nyala.InterfaceError, match="no option thread"):
            await nyala.aio.connect(tmp_path, thread=2)
        with pytest.raises(nyala.InterfaceError, match="workers=0"):
            await nyala.aio.connect(tmp_path, workers=0)

    asyncio.run(main())
