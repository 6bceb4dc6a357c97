"""Rows that an event loop awaits: the same requests, retries and results as those of a thread, exactly once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cluster_support_client import FakeChannels, FakeCluster, once
from nyala import errors
from nyala.cluster.client.awaited_rows import AwaitedRows
from nyala.cluster.client.client import Client
from nyala.cluster.wire.messages import methods
from nyala.model.alterations import AddColumn, DropColumn, RenameColumn
from nyala.model.clock import LOGICAL_BITS, wall_microseconds
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, Table, TableDefinition
from nyala.model.store import Op
from nyala.model.types import INT, STRING

SCHEMA = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", STRING, True)), 1)
DEFINITION = TableDefinition("t", SCHEMA, PartitionSchema((HashRule(("k",), 3),)))


class FakeLoopChannels:
    """As `wire.calls.loop_channels.LoopChannels`."""

    def __init__(self, channels: FakeChannels) -> None:
        self._channels = channels

    async def attach(self) -> None:
        pass

    def call(self, address: str, request: Any, timeout: float) -> Awaitable[Any]:
        async def call() -> Any:
            await asyncio.sleep(0)
            return self._channels.get(address).call(request, timeout)

        return call()

    def close(self) -> None:
        pass


class AwaitingStore:
    """`Store.read_row` and `write_row` that run an event loop for each call."""

    def __init__(self, client: Client) -> None:
        channels: Any = client._shared.channels
        self.in_thread: list[str] = []
        self.rows = AwaitedRows(client._shared, client._rows, lambda: None, lambda: FakeLoopChannels(channels))

    async def _work(self, function: Callable[[], Any]) -> Any:
        self.in_thread.append(threading.current_thread().name)
        return await asyncio.to_thread(function)

    def read_row(self, table: Table, key: Any, columns: Any, snapshot: Any = None) -> Any:
        return asyncio.run(self._awaited(self.rows.read_row(table, key, columns, snapshot, self._work)))

    def write_row(self, table: Table, op: Op, row: Any) -> Any:
        return asyncio.run(self._awaited(self.rows.write_row(table, op, row, self._work)))

    async def _awaited(self, call: Awaitable[Any]) -> Any:
        return await asyncio.wait_for(call, 30)


@pytest.fixture
def table(client: Client) -> Table:
    return client.create_table(DEFINITION)


FAULTS: list[list[tuple[Exception, str]]] = [
    [],
    [(errors.ServerUnavailable("lost"), "before")],
    [(errors.ServerUnavailable("lost"), "after")],
    [(errors.DeadlineExceeded("late"), "after"), (errors.ServerUnavailable("lost"), "after")],
    [(errors.NotTheLeader("no", "server1:1", 1), "before"), (errors.ReplicaUnavailable("no replica"), "before")],
    [(errors.ServerOverloaded("busy"), "before"), (errors.ServerOverloaded("busy"), "before")],
    [(errors.StaleSchema("altered"), "before")],
    [(errors.AccessDenied("no"), "before")],
]


def outcomes(is_awaiting: bool, faults: list[tuple[Exception, str]]) -> list[Any]:
    """Results and errors of writes, each followed by a look-up, and the number of calls that were carried out."""
    cluster = FakeCluster()
    client = cluster.client(deadline=20.0)
    store = AwaitingStore(client) if is_awaiting else client
    found: list[Any] = []
    try:
        table = client.create_table(DEFINITION)
        for op, row in (
            (Op.INSERT, {"k": 1, "v": "one"}),
            (Op.INSERT, {"k": 1, "v": "two"}),
            (Op.UPSERT, {"k": 1, "v": "three"}),
            (Op.DELETE, {"k": 2}),
        ):
            for kind in (methods.WriteRow, methods.ReadRow):
                cluster.faults += [once(kind, error, when) for error, when in faults]
            cluster.applied.clear()
            try:
                result = store.write_row(table, op, row)
                found.append((result.applied, [type(e.error).__name__ for e in result.errors]))
                found.append(store.read_row(table, (1,), ("v", "k")))
            except errors.Error as error:
                found.append(type(error).__name__)
            found.append(len(cluster.applied))
            cluster.faults.clear()
    finally:
        client.close()
        cluster.close()
    return found


@pytest.mark.parametrize("faults", FAULTS, ids=lambda faults: "-".join(type(e).__name__ for e, _ in faults) or "none")
def test_the_same_results_as_those_of_a_thread(faults: list[tuple[Exception, str]]) -> None:
    expected = outcomes(False, faults)
    assert outcomes(True, faults) == expected
    assert expected[2::3] == [1] * 4 or "AccessDenied" in expected


def test_a_known_row_needs_no_thread(client: Client, table: Table) -> None:
    awaiting = AwaitingStore(client)
    awaiting.write_row(table, Op.INSERT, {"k": 1, "v": "one"})  # calls the masters for the tablets
    awaiting.in_thread.clear()
    assert awaiting.write_row(table, Op.UPSERT, {"k": 1, "v": "two"}).applied == 1
    assert awaiting.read_row(table, (1,), ("v",)) == ("two",)
    assert awaiting.in_thread == []


def test_a_table_that_was_altered(client: Client, table: Table, cluster: FakeCluster) -> None:
    awaiting = AwaitingStore(client)
    cluster.database.alter_table("t", [AddColumn(ColumnSchema("n", INT, True))])
    cluster.database.alter_table("t", [RenameColumn("v", "w")])
    with pytest.raises((errors.SchemaChanged, errors.UnknownColumn)):
        awaiting.write_row(table, Op.INSERT, {"k": 1, "v": "one"})
    client.refresh_catalog()
    now = client.table("t")
    assert awaiting.write_row(now, Op.INSERT, {"k": 1, "w": "one", "n": 7}).applied == 1
    cluster.database.alter_table("t", [DropColumn("n")])
    assert awaiting.read_row(now, (1,), ("w",)) == ("one",)
    with pytest.raises((errors.SchemaChanged, errors.UnknownColumn)):
        awaiting.read_row(now, (1,), ("n",))


def test_a_row_with_an_error_of_its_own_takes_the_batch_path(client: Client, table: Table) -> None:
    awaiting = AwaitingStore(client)
    (error,) = awaiting.write_row(table, Op.INSERT, {"k": None, "v": "x"}).errors
    assert isinstance(error.error, errors.NotNullViolation)
    assert awaiting.in_thread


def test_a_deadline_is_that_of_the_client(make_client: Callable[..., Client], cluster: FakeCluster) -> None:
    client = make_client(deadline=0.3)
    table = client.create_table(DEFINITION)
    awaiting = AwaitingStore(client)
    cluster.faults.append(once(methods.ReadRow, errors.ServerUnavailable("away"), times=1 << 30))
    with pytest.raises(errors.DeadlineExceeded, match="a read of a row of table t was not done within"):
        awaiting.read_row(table, (1,), ("v",))


def test_a_write_waits_until_its_timestamp_has_passed(make_client: Callable[..., Client], cluster: FakeCluster) -> None:
    client = make_client(commit_wait=True)
    table = client.create_table(DEFINITION)
    cluster.database.clock.update((wall_microseconds() + 200_000) << LOGICAL_BITS)  # type: ignore[arg-type]
    written = AwaitingStore(client).write_row(table, Op.INSERT, {"k": 1})
    assert wall_microseconds() > written.timestamp >> LOGICAL_BITS


def test_a_cancelled_write_is_abandoned_and_not_sent_again(client: Client, table: Table, cluster: FakeCluster) -> None:
    awaiting = AwaitingStore(client)
    awaiting.read_row(table, (1,), ("v",))
    cluster.faults.append(once(methods.WriteRow, errors.ServerOverloaded("busy"), times=1 << 30))

    async def main() -> None:
        task = asyncio.create_task(awaiting.rows.write_row(table, Op.INSERT, {"k": 1}, awaiting._work))
        while not cluster.requests(methods.WriteRow):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    cluster.faults.clear()
    sent = len(cluster.requests(methods.WriteRow))
    assert awaiting.write_row(table, Op.INSERT, {"k": 2}).applied == 1
    assert len(cluster.requests(methods.WriteRow)) == sent + 1
    assert not client._shared.numbers._open, "its call id is released"
