"""Replicas in groups of three: what is written at the leader is everywhere, whatever happens to single servers."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from cluster_tablets_support import TABLE, Group, batch, describe, rows_at, soon, until
from nyala.cluster.raft.messages import Peer, PeerRole
from nyala.cluster.tablets.checksum import checksum
from nyala.cluster.tablets.reads import NO_WAIT
from nyala.cluster.wire.messages.methods import Call
from nyala.errors import (
    ClusterError,
    DeadlineExceeded,
    NotTheLeader,
    NumericOutOfRange,
    ProtocolError,
    StaleSchema,
    TypeMismatch,
)
from nyala.model.alterations import AddColumn, DropColumn, RenameTable
from nyala.model.altered_table import apply_steps
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, Table, assign_column_ids
from nyala.model.store import Op, WriteBatch
from nyala.model.types import BIGINT, DATE, DECIMAL, INT, STRING


class Writer(threading.Thread):
    """A client that inserts one row after the other, each by a call that it retries until it gets a reply."""

    def __init__(self, group: Group, first: int, singly: bool = False):
        super().__init__(daemon=True)
        self.group, self.key, self.singly = group, first, singly
        self.first = first
        self.client = uuid.uuid4().hex
        self.stopped = threading.Event()
        self.failure: BaseException | None = None
        self.repeated = 0
        self.start()

    def run(self) -> None:
        sequence = 0
        try:
            while not self.stopped.is_set():
                sequence += 1
                self.write(Call(self.client, sequence, sequence))
                self.key += 1
        except BaseException as error:
            self.failure = error

    def write(self, call: Call) -> None:
        end = soon(40)
        while True:
            try:
                replica = self.group.leader().replica
                if self.singly:
                    row = {"k": self.key, "v": f"v{self.key}", "n": 0}
                    result = replica.write_row(Op.INSERT, row, call, deadline=soon(0.3))
                else:
                    result = replica.write(WriteBatch(batch([self.key])), call, deadline=soon(0.3))
                assert (result.applied, result.errors) == (1, ())
                return
            except (ClusterError, AttributeError) as error:  # a server that restarts has no replica
                assert isinstance(error, AttributeError) or error.retryable
                assert time.monotonic() < end
                self.repeated += 1
                time.sleep(0.01)

    def stop(self) -> list[int]:
        """Returns the acknowledged keys."""
        self.stopped.set()
        self.join(60)
        assert not self.is_alive()
        assert self.failure is None, self.failure
        return list(range(self.first, self.key))


def keys_at(server: Any, snapshot: int) -> list[int]:
    return [row[0] for row in rows_at(server.replica, snapshot, ("k",))]


def agree(group: Group, keys: list[int]) -> None:
    """Checks that all replicas have exactly these keys."""
    now = group.leader().clock.now()
    for server in group.running:
        assert keys_at(server, now) == keys
    assert len({checksum(server.replica.view(now, deadline=soon())) for server in group.running}) == 1


# ---- writes ------------------------------------------------------------------------------------------------------


def test_what_is_written_at_the_leader_is_everywhere_at_the_same_time() -> None:
    with Group() as group:
        result = group.write(batch(range(100)))
        assert (result.applied, result.errors) == (100, ())
        first = group.leader().clock.now()
        group.write(batch(range(50), "w", 1), Op.UPSERT)
        group.write(batch(range(90, 100)).select(["k"]), Op.DELETE)
        second = group.leader().clock.now()
        for server in group.servers:
            assert rows_at(server.replica, first) == [(k, f"v{k}", 0) for k in range(100)]
            assert rows_at(server.replica, second) == [
                (k, f"w{k}" if k < 50 else f"v{k}", int(k < 50)) for k in range(90)
            ]
        assert len({checksum(server.replica.view(second, deadline=soon())) for server in group.servers}) == 1
        assert checksum(group.servers[0].replica.view(second, deadline=soon())).rows == 90


def test_rows_are_refused_one_by_one_or_all_together() -> None:
    with Group(1) as group:
        group.write(batch([1, 2]))
        result = group.write(batch([2, 3]))
        assert (result.applied, [(e.row, type(e.error).__name__) for e in result.errors]) == (
            1,
            [(0, "AlreadyPresent")],
        )
        result = group.write(batch([3, 4]), all_or_none=True)
        assert (result.applied, len(result.errors)) == (0, 1)
        replica = group.leader().replica
        checked = replica.write(WriteBatch(batch([4, 1])), None, deadline=soon(), check_only=True)
        assert [e.row for e in checked.errors] == [1]
        assert [row[0] for row in rows_at(replica)] == [1, 2, 3]


def test_a_call_that_comes_again_is_answered_as_the_first_one() -> None:
    with Group() as group:
        group.write(batch([5]))
        call = Call(uuid.uuid4().hex, 1, 1)
        first = group.write(batch([4, 5, 6]), call=call)
        again = group.write(batch([4, 5, 6]), call=call)
        assert (first.applied, first.timestamp) == (again.applied, again.timestamp) == (2, first.timestamp)
        assert [(e.row, type(e.error), str(e.error)) for e in again.errors] == [
            (e.row, type(e.error), str(e.error)) for e in first.errors
        ]
        old = group.leader()
        old.replica.consensus.transfer(None)
        until(lambda: group.leader() is not old)
        assert group.write(batch([4, 5, 6]), call=call).timestamp == first.timestamp
        for server in group.servers:
            server.replica.flush()
            server.restart()
        assert group.write(batch([4, 5, 6]), call=call).timestamp == first.timestamp
        group.write(batch([7]), call=Call(call.client, 2, 2))
        with pytest.raises(ProtocolError, match=r"call 1 of client .* was answered"):
            group.write(batch([4, 5, 6]), call=call)
        agree(group, [4, 5, 6, 7])


def test_a_call_that_comes_twice_at_once_is_done_once() -> None:
    with Group() as group:
        replica = group.leader().replica
        for number in range(20):
            call = Call(uuid.uuid4().hex, 1, 1)
            found: list[Any] = []

            def write(call: Call = call, number: int = number, found: list[Any] = found) -> None:
                found.append(replica.write(WriteBatch(batch([number])), call, deadline=soon()))

            threads = [threading.Thread(target=write) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [(r.applied, r.errors, r.timestamp) for r in found] == [(1, (), found[0].timestamp)] * 4


def test_results_outlive_the_log() -> None:
    with Group(1) as group:
        call = Call(uuid.uuid4().hex, 1, 1)
        first = group.write(batch([1]), call=call)
        for number in range(2, 40):
            group.write(batch(range(number * 100, number * 100 + 50)))
        server = group.servers[0]
        server.replica.flush()
        until(lambda: server.replica.tablet.log.size < 20_000)
        assert server.replica.results.saved_index >= 1
        server.restart()
        assert group.write(batch([1]), call=call).timestamp == first.timestamp


TYPES = Table(
    "t2",
    "types",
    Schema(
        assign_column_ids(
            (
                ColumnSchema("a", INT, nullable=False),
                ColumnSchema("b", STRING, nullable=False),
                ColumnSchema("day", DATE),
                ColumnSchema("cents", DECIMAL(9, 2)),
                ColumnSchema("wide", DECIMAL(38, 4)),
            )
        ),
        2,
    ),
    PartitionSchema(),
    next_column_id=5,
)


def test_single_rows_come_and_go_as_physical_values() -> None:
    with Group(table=TYPES) as group:
        row = {"a": 1, "b": "x", "day": 3, "cents": 150, "wide": -(10**30)}
        assert group.call(lambda r: r.write_row(Op.INSERT, row, None, deadline=soon())).applied == 1
        values, at = group.call(lambda r: r.read_row((1, "x"), ("day", "cents", "wide", "a"), None, deadline=soon()))
        assert values == (3, 150, -(10**30), 1)
        for server in group.servers:
            assert server.replica.read_row((1, "x"), ("wide",), at, deadline=soon()) == ((-(10**30),), at)
            assert server.replica.read_row((1, "y"), ("wide",), at, deadline=soon())[0] is None
        refused = group.call(lambda r: r.write_row(Op.INSERT, row, None, deadline=soon()))
        assert [type(e.error).__name__ for e in refused.errors] == ["AlreadyPresent"]
        replica = group.leader().replica
        for bad in ({"day": "x"}, {"cents": 10**9}, {"a": 2**31}, {"b": 7}, {"day": 10**9}, {"cents": 1.5}):
            with pytest.raises((TypeMismatch, NumericOutOfRange)):
                replica.write_row(Op.UPSERT, {**row, **bad}, None, deadline=soon())
        with pytest.raises(NotTheLeader):
            group.followers()[0].replica.read_row((1, "x"), ("a",), None, deadline=soon())
        assert rows_at(replica, at, ("cents", "wide")) == [(Decimal("1.50"), Decimal(-(10**26)))]


def test_rows_of_another_tablet_and_other_versions_are_refused() -> None:
    hashed = replace(TABLE, partitions=PartitionSchema((HashRule(("k",), 2),)))
    with Group(1, table=hashed, place=1) as group:
        replica = group.leader().replica
        layout = replica.layout
        mine = [k for k in range(100) if layout.partitioner.route_one([k]) == 1]
        group.write(batch(mine))
        other = next(k for k in range(100) if k not in mine)
        with pytest.raises(StaleSchema, match=r"HASH \(k\) bucket 0 of 2"):
            replica.write(WriteBatch(batch([other])), None, deadline=soon())
        with pytest.raises(StaleSchema):
            replica.write_row(Op.UPSERT, {"k": other}, None, deadline=soon())
        with pytest.raises(StaleSchema, match="is at version 0 here; the caller has version 3"):
            replica.write(WriteBatch(batch(mine)), None, deadline=soon(), schema_version=3)
        with pytest.raises(StaleSchema):
            replica.view(group.servers[0].clock.now(), deadline=soon(), schema_version=1)


# ---- failures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("singly", [False, True])
def test_leaders_that_are_cut_off_lose_no_write_and_do_none_twice(singly: bool) -> None:
    with Group() as group:
        writers = [Writer(group, number * 100_000, singly) for number in range(3)]
        for _ in range(3):
            time.sleep(0.2)
            leader = group.leader()
            group.network.cut = {leader.peer.id}
            until(lambda leader=leader: group.leader() is not leader)
            time.sleep(0.2)
            group.network.cut = set()
        until(lambda: sum(writer.key - writer.first for writer in writers) > 30)
        keys = sorted(key for writer in writers for key in writer.stop())
        agree(group, keys)


def test_a_leader_that_stood_still_reads_nothing_older_than_what_another_has_acknowledged() -> None:
    for _ in range(3):
        with Group() as group:
            group.write(batch([1]))
            paused = group.leader()
            stand_still(paused)
            group.network.cut = {paused.peer.id}
            group.write(batch([2]))
            if not paused.replica.consensus.status().is_serving:
                continue  # a timer that already ran has reported it
            with ThreadPoolExecutor(1) as pool:
                found = pool.submit(paused.replica.view, None, deadline=soon(10))
                time.sleep(0.02)
                group.network.cut = set()
                try:
                    view = found.result()
                except NotTheLeader:
                    continue
            assert keys_at(paused, view.timestamp) == [1, 2]


def stand_still(server: Any) -> None:
    """Behaves like a suspended process: its timers do not run any more."""
    server.replica.consensus._driver._tick = lambda when: None
    time.sleep(0.1)


def test_every_server_restarts_while_rows_are_written() -> None:
    with Group() as group:
        writers = [Writer(group, 0), Writer(group, 100_000, singly=True)]
        for server in group.servers:
            time.sleep(0.2)
            server.replica.flush()
            time.sleep(0.1)
            server.restart()
            group.leader()
        keys = sorted(key for writer in writers for key in writer.stop())
        agree(group, keys)


def test_a_deadline_leaves_the_write_in_flight_and_its_call_tells() -> None:
    with Group() as group:
        group.write(batch([1]))
        leader = group.leader()
        call = Call(uuid.uuid4().hex, 1, 1)
        group.network.cut = {server.peer.id for server in group.servers if server is not leader}
        with pytest.raises(DeadlineExceeded):
            leader.replica.write(WriteBatch(batch([2])), call, deadline=soon(0.05))
        group.network.cut = set()
        assert group.write(batch([2]), call=call).applied == 1
        agree(group, [1, 2])


def test_a_read_that_must_not_wait_passes_writes_in_flight_that_are_newer_than_acknowledged_ones() -> None:
    with Group(1) as group:
        group.write(batch([1]))
        replica = group.leader().replica
        mvcc = replica.tablet.mvcc
        read = partial(replica.read_row, (1,), ("v",), deadline=NO_WAIT)
        first = mvcc.start()
        row, timestamp = read(None)
        assert row == ("v1",) and timestamp < first
        assert read(timestamp)[0] == ("v1",)
        with pytest.raises(DeadlineExceeded):  # as of a time that has no end yet
            read(replica.tablet.mvcc.clock.now())
        second = mvcc.start()
        mvcc.commit(second)
        with pytest.raises(DeadlineExceeded):  # the second is acknowledged, and the first precedes it
            read(None)
        mvcc.commit(first)
        assert read(None)[0] == ("v1",)


def test_undecided_writes_are_not_read_and_whoever_hears_of_them_reads_them() -> None:
    with Group() as group:
        group.write(batch([1, 2]))
        leader = group.leader()
        replica = leader.replica
        read = partial(replica.read_row, columns=("v",), snapshot=None, deadline=NO_WAIT)
        group.network.cut = {server.peer.id for server in group.servers if server is not leader}
        for key in (2, 3):
            with pytest.raises(DeadlineExceeded):
                replica.write_row(Op.UPSERT, {"k": key, "v": "new"}, None, deadline=soon(0.05))
        assert [read((key,))[0] for key in (1, 2, 3)] == [("v1",), ("v2",), None]
        with pytest.raises(DeadlineExceeded):  # whether there is a row is not decided
            replica.write_row(Op.INSERT_IGNORE, {"k": 3, "v": "other"}, None, deadline=soon(0.05))
        group.network.cut = set()
        # Another leader may have been elected since, without the rows.
        group.call(lambda r: r.write_row(Op.INSERT_IGNORE, {"k": 3, "v": "other"}, None, deadline=soon(2)))
        assert group.call(lambda r: r.read_row((3,), ("v",), None, deadline=soon(2)))[0] is not None


# ---- copies ------------------------------------------------------------------------------------------------------


def test_a_new_server_copies_the_data_while_rows_are_written() -> None:
    with Group() as group:
        group.write(batch(range(1_000_000, 1_002_000)))
        group.leader().replica.flush()
        group.write(batch(range(1_000_000, 1_000_500), "u", 1), Op.UPDATE)
        writer = Writer(group, 0)
        sink = group.add_server("s9")
        sink_peer = Peer("s9", sink.peer.address, PeerRole.PRE_VOTER)
        group.call(lambda r: r.consensus.change("add", sink_peer, None, soon()))
        group.bootstrap(sink)

        def is_voter() -> bool:
            peer = group.leader().replica.consensus.status().configuration.peer("s9")
            return peer is not None and peer.role is PeerRole.VOTER

        until(is_voter)
        keys = writer.stop()
        agree(group, [*keys, *range(1_000_000, 1_002_000)])
        # It is a full replica, and can lead.
        call = Call(writer.client, len(keys), 1)
        group.call(lambda r: r.consensus.transfer("s9"))
        until(lambda: group.leader() is sink)
        with pytest.raises(ProtocolError, match="was answered"):
            group.write(batch([keys[-1]]), call=Call(call.client, 1, 1))
        sink.restart()
        agree(group, [*keys, *range(1_000_000, 1_002_000)])


# ---- alterations -------------------------------------------------------------------------------------------------


def test_a_table_is_altered_while_rows_are_written() -> None:
    with Group() as group:
        writers = [Writer(group, 0), Writer(group, 100_000, singly=True)]
        table = TABLE
        steps: list[Any] = [
            AddColumn(ColumnSchema("c", INT, nullable=False, default=3)),
            DropColumn("c"),
            RenameTable("renamed"),
            AddColumn(ColumnSchema("c", BIGINT)),
        ]
        for step in steps:
            time.sleep(0.1)
            table = apply_steps(table, [step], ())
            group.call(lambda r, table=table: r.alter(describe(table), deadline=soon(5)))
            if isinstance(step, DropColumn):
                server = group.followers()[0]
                server.replica.flush()
                server.restart()
        keys = sorted(key for writer in writers for key in writer.stop())
        assert group.leader().replica.table.version == table.version == 4
        agree(group, keys)
        now = group.leader().clock.now()
        for server in group.servers:
            until(lambda server=server: server.replica.table == table)
            assert {row[1] for row in rows_at(server.replica, now, ("k", "c"))} == {None}
        rows = pa.record_batch({"k": pa.array([-1]), "c": pa.array([9], pa.int64())})
        group.write(rows)
        for server in group.servers:
            server.restart()
        agree(group, [-1, *keys])
        group.call(lambda r: r.alter(describe(TABLE), deadline=soon()))  # an older version: no effect
        assert group.leader().replica.table == table


def test_a_copy_of_an_altered_tablet_replays_no_older_schema() -> None:
    with Group(1) as group:
        group.write(batch(range(10)))
        table = apply_steps(TABLE, [DropColumn("v"), AddColumn(ColumnSchema("v", INT, default=5))], ())
        group.call(lambda r: r.alter(describe(table), deadline=soon()))
        sink = group.add_server("s9")
        group.call(lambda r: r.consensus.change("add", Peer("s9", sink.peer.address), None, soon()))
        group.bootstrap(sink, group.servers[0])
        now = group.servers[0].clock.now()
        assert rows_at(sink.replica, now) == rows_at(group.servers[0].replica, now) == [(k, 5, 0) for k in range(10)]
