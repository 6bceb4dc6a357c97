"""Speculative reads: the first reply counts, guarantees stay, and the extra load is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import nyala
import pytest
from cluster_support_client import FakeChannels, FakeCluster
from net_support import until
from nyala import errors
from nyala.cluster.client.awaited_rows import AwaitedRows
from nyala.cluster.client.client import Client
from nyala.cluster.client.options import client_options
from nyala.cluster.client.speculative_reads import AGE_SECONDS, BURST, SHARE
from nyala.cluster.wire.messages import methods
from nyala.model.clock import LOGICAL_BITS
from nyala.model.schema import ColumnSchema, PartitionSchema, Schema, TableDefinition
from nyala.model.store import Op, Timestamp
from nyala.model.types import INT
from nyala.testing import MiniCluster

DEFINITION = TableDefinition(
    "t", Schema((ColumnSchema("k", INT, False), ColumnSchema("v", INT, True)), 1), PartitionSchema()
)
SLOW = 0.3
"""Seconds until a slow server replies."""


class SlowServers:
    """Servers of a cluster that reply late to look-ups, and the calls to them that were cancelled."""

    def __init__(self) -> None:
        self.addresses: set[str] = set()
        self.cancelled: list[str] = []

    def seconds(self, address: str, request: Any) -> float:
        return SLOW if address in self.addresses and isinstance(request, methods.ReadRow) else 0.0


class FakeCall:
    """As `net.client_connection.PendingCall`."""

    def __init__(self, slow: SlowServers, address: str, request: Any, call: Callable[[], Any]) -> None:
        self._slow, self._address, self._call = slow, address, call
        self._ends = time.monotonic() + slow.seconds(address, request)
        self._outcome: tuple[Any, errors.Error | None] | None = None

    def wait(self, seconds: float) -> bool:
        time.sleep(max(0.0, min(seconds, self._ends - time.monotonic())))
        return time.monotonic() >= self._ends

    def answer(self) -> Any:
        self.wait(SLOW)
        return self._call()

    def cancel(self) -> None:
        if not self.wait(0):
            self._slow.cancelled.append(self._address)


class SlowChannels(FakeChannels):
    """Channels for threads, and for event loops."""

    def __init__(self, cluster: FakeCluster, clock: Any, slow: SlowServers) -> None:
        super().__init__(cluster, clock)
        self.slow = slow

    def get(self, address: str) -> Any:
        channel: Any = super().get(address)
        call = channel.call

        def begin(request: Any, timeout: float) -> FakeCall:
            return FakeCall(self.slow, address, request, lambda: call(request, timeout))

        def late(request: Any, timeout: float = 30.0, look: Any = None) -> Any:
            time.sleep(self.slow.seconds(address, request))
            return call(request, timeout)

        channel.begin, channel.call = begin, late
        channel.finish = lambda request, begun, timeout, look=None: begun.answer()
        return channel

    async def attach(self) -> None:
        pass

    def call(self, address: str, request: Any, timeout: float) -> Awaitable[Any]:
        async def awaited() -> Any:
            try:
                await asyncio.sleep(self.slow.seconds(address, request))
            except asyncio.CancelledError:
                self.slow.cancelled.append(address)
                raise
            return FakeChannels.get(self, address).call(request, timeout)

        return awaited()


@pytest.fixture
def slow() -> SlowServers:
    return SlowServers()


class Reader:
    """A client, whose look-ups are made by this thread or by an event loop."""

    def __init__(self, cluster: FakeCluster, slow: SlowServers, is_awaiting: bool, mode: str) -> None:
        self.client = Client(
            [("master0", 1)],
            client_options(deadline=20.0, speculative_reads=mode),
            channels=lambda clock: SlowChannels(cluster, clock, slow),
        )
        self.table = self.client.create_table(DEFINITION)
        self.client.write_row(self.table, Op.UPSERT, {"k": 1, "v": 7})
        channels: Any = self.client._shared.channels
        self._rows = AwaitedRows(self.client._shared, self.client._rows, lambda: None, lambda: channels)
        self._is_awaiting = is_awaiting

    def read(self, snapshot: Timestamp | None = None) -> Any:
        if not self._is_awaiting:
            return self.client.read_row(self.table, (1,), ("v",), snapshot)
        return asyncio.run(self._read(snapshot))

    async def _read(self, snapshot: Timestamp | None) -> Any:
        async def in_thread(work: Callable[[], Any]) -> Any:
            return await asyncio.to_thread(work)

        return await self._rows.read_row(self.table, (1,), ("v",), snapshot, in_thread)

    def leader(self, cluster: FakeCluster) -> str:
        (tablet_id,) = self.client._catalog.known(self.table).tablet_ids
        return cluster.leader(tablet_id)


@pytest.fixture(params=[False, True], ids=["thread", "loop"])
def make(request: pytest.FixtureRequest, cluster: FakeCluster, slow: SlowServers) -> Any:
    made: list[Reader] = []

    def make_reader(mode: str) -> Reader:
        made.append(Reader(cluster, slow, request.param, mode))
        return made[-1]

    yield make_reader
    for reader in made:
        reader.client.close()


def lookups(cluster: FakeCluster) -> list[tuple[str, int | None]]:
    return [(address, request.snapshot) for address, request in cluster.requests(methods.ReadRow)]


@pytest.mark.parametrize("mode", ["snapshots", "recent"])
def test_another_replica_replies_as_of_a_timestamp(
    make: Any, cluster: FakeCluster, slow: SlowServers, mode: str
) -> None:
    reader = make(mode)
    leader = reader.leader(cluster)
    slow.addresses.add(leader)
    snapshot = reader.client.now()
    assert reader.read(snapshot) == (7,)
    ((address, asked),) = lookups(cluster)
    assert address != leader and asked == snapshot
    assert slow.cancelled == [leader]
    assert reader.client.speculative_reads == (1, 1, 1)
    cluster.log.clear()
    assert reader.read(snapshot) == (7,)
    ((address, _),) = lookups(cluster)
    assert address != leader, "the one that lost is tried last for a while"
    assert reader.client.speculative_reads[1:] == (1, 1)


def test_the_latest_row_is_the_leaders_unless_an_older_one_is_permitted(
    make: Any, cluster: FakeCluster, slow: SlowServers
) -> None:
    for mode in ("off", "snapshots"):
        reader = make(mode)
        slow.addresses = {reader.leader(cluster)}
        cluster.log.clear()
        assert reader.read() == (7,)
        assert lookups(cluster) == [(reader.leader(cluster), None)]
        assert reader.client.speculative_reads.sent == 0
        reader.client.drop_table("t")


def test_a_recent_row_includes_what_the_client_has_written(make: Any, cluster: FakeCluster, slow: SlowServers) -> None:
    reader = make("recent")
    slow.addresses.add(reader.leader(cluster))
    written = reader.client.write_row(reader.table, Op.UPSERT, {"k": 1, "v": 8}).timestamp
    assert reader.read() == (8,)
    ((address, snapshot),) = lookups(cluster)
    assert address != reader.leader(cluster) and snapshot == written
    # Much later, the row of some seconds ago is enough.
    reader.client.observe(Timestamp(written + (int(2 * AGE_SECONDS * 1e6) << LOGICAL_BITS)))
    cluster.database.clock.update(reader.client.now())
    past = reader.client._calls.speculation.past("t")
    assert written < past < reader.client.now() - (int(AGE_SECONDS * 0.9e6) << LOGICAL_BITS)
    # Longer ago than that is not permitted.
    reader.client._calls.speculation._latency(reader.client._catalog.known(reader.table).tablet_ids[0]).replied = 1
    reader.client._shared.latest_write = 0
    assert reader.client._calls.speculation.past(reader.client._catalog.known(reader.table).tablet_ids[0]) is None


def test_one_of_two_calls_may_fail(make: Any, cluster: FakeCluster, slow: SlowServers) -> None:
    reader = make("snapshots")
    leader = reader.leader(cluster)
    slow.addresses.add(leader)

    def fault(address: str, request: Any, when: str) -> None:
        if isinstance(request, methods.ReadRow) and address != leader and when == "before":
            raise errors.ReplicaUnavailable("it is not complete yet")

    cluster.faults.append(fault)
    assert reader.read(reader.client.now()) == (7,)
    assert [address for address, _ in lookups(cluster)][-1] == leader
    assert reader.client.speculative_reads == (1, 1, 0)


def test_the_extra_load_is_bounded(cluster: FakeCluster, slow: SlowServers) -> None:
    reader = Reader(cluster, slow, False, "snapshots")
    speculation = reader.client._calls.speculation
    (tablet_id,) = reader.client._catalog.known(reader.table).tablet_ids
    reader.client._locations.get(tablet_id, reader.table.id)
    sent = 0
    for _ in range(2000):
        backup = speculation.backup(tablet_id, reader.leader(cluster), methods.Done())  # type: ignore[arg-type]
        assert backup is not None
        sent += backup.is_allowed(0.0)
    assert sent <= BURST + SHARE * 2000 + 1
    assert speculation.counts == (2000, sent, 0)
    reader.client.close()


def test_the_second_call_follows_the_recent_percentile(cluster: FakeCluster, slow: SlowServers) -> None:
    reader = Reader(cluster, slow, False, "snapshots")
    speculation = reader.client._calls.speculation
    for number in range(100):
        speculation.ended("a", "x", None, time.monotonic() - (1.0 if number % 50 == 0 else 0.02), is_latest=False)
    assert 0.02 <= speculation._latency("a").after < 0.5
    reader.client.close()


@pytest.mark.slow
def test_look_ups_go_on_while_a_server_is_paused() -> None:
    with MiniCluster(tservers=3) as cluster:
        with nyala.connect(cluster.url) as connection:
            connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
            connection.execute("INSERT INTO t SELECT g, g FROM generate_series(0, 99) AS g(g)")
            # A row of some seconds ago is permitted below: these are to be older.
            old = connection.last_timestamp + (int(2 * AGE_SECONDS * 1e6) << LOGICAL_BITS)
        # The first attempt at a server that does not respond takes all of this time.
        with nyala.connect(cluster.url, deadline=3.0, speculative_reads="recent") as connection:
            table = connection.table("t")
            store: Any = connection.store
            until(lambda: all(table.get(k) == {"k": k, "v": k} for k in range(100)) and connection.now() > old)
            victim = cluster.leader("t")
            cluster.pause(victim)
            try:
                before = store.speculative_reads
                ends = time.monotonic() + 5.0
                while time.monotonic() < ends:
                    assert table.get(5) == {"k": 5, "v": 5}
                eligible, sent, won = store.speculative_reads
                assert won > before.won
                assert sent <= BURST + SHARE * eligible + 1
            finally:
                cluster.resume(victim)
        with nyala.connect(cluster.url, deadline=3.0) as connection:
            table = connection.table("t")
            store = connection.store
            until(lambda: table.get(5))
            victim = cluster.leader("t")
            cluster.pause(victim)
            try:
                # Another server may have been elected by then, and answers.
                with contextlib.suppress(errors.DeadlineExceeded):
                    table.get(5)
                assert store.speculative_reads == (0, 0, 0)
            finally:
                cluster.resume(victim)
