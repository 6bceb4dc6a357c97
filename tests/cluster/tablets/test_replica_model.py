"""Tablets that share a log, against a dictionary of versions. One leads, and the others apply committed entries. Each
of them is flushed, compacted and reopened at any time, and the leader's writes in flight may be void."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from cluster_tablets_support import make_rows
from examples import cases
from nyala.cluster.tablets.replica_log import ReplicaLog
from nyala.errors import DeadlineExceeded, NotTheLeader
from nyala.model.clock import HybridClock
from nyala.model.schema import ColumnSchema, PartitionSchema, Schema, Table, assign_column_ids
from nyala.model.store import Op, ScanCounters, ScanSpec, Timestamp, WriteBatch
from nyala.model.types import BIGINT, DECIMAL, INT, STRING
from nyala.storage.files.memory_filesystem import CrashableFileSystem
from nyala.storage.files.page_cache import PageCache
from nyala.storage.log.tablet_log import WriteContext
from nyala.storage.log.wal import LogTicket
from nyala.storage.log.wal_format import EntryKind, LogEntry, log_schema
from nyala.storage.maintenance.delta_compaction import compact_major, compact_minor
from nyala.storage.maintenance.rowset_compaction import compact_rowsets
from nyala.storage.maintenance.tablet_flush import flush, flush_deltas
from nyala.storage.reading.tablet_check import check_tablet
from nyala.storage.reading.tablet_scan import scan_view, tablet_tokens
from nyala.storage.rowsets.memrowset import MemRowSet
from nyala.storage.single_rows.row_codec import RowCodec
from nyala.storage.single_rows.row_write import RowWriter
from nyala.storage.tablet.tablet import StoreOptions, Tablet, TabletState
from nyala.storage.tablet.tablet_apply import TabletApplier
from nyala.storage.tablet.tablet_metadata import TabletMetadata
from nyala.storage.tablet.tablet_replay import open_rowsets, tablet_with_log
from nyala.storage.writing.incoming_rows import incoming
from nyala.storage.writing.tablet_write import TabletWrite
from store_model import TableModel

COLUMNS = ("k", "n", "v", "d")
SCHEMA = Schema(
    assign_column_ids(
        (
            ColumnSchema("k", BIGINT, nullable=False),
            ColumnSchema("n", INT, nullable=False, default=7),
            ColumnSchema("v", STRING),
            ColumnSchema("d", DECIMAL(30, 2)),
        )
    ),
    1,
)
TABLE = Table("t", "t", SCHEMA, PartitionSchema(), next_column_id=4)
LOGGED = log_schema(SCHEMA)
KEYS = 12
IGNORED = [op for op in Op if "IGNORE" in op.name or op is Op.UPSERT]


AT_ONCE = WriteContext(deadline=0.0)


class SharedLog:
    """The log that a Raft group would agree on: entries, of which the first `committed` are committed."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.tickets: dict[int, LogTicket] = {}
        self.committed = 0
        self.changed = threading.Condition()

    def append(self, timestamp: int, kind: EntryKind, body: bytes) -> LogTicket:
        with self.changed:
            index = len(self.entries) + 1
            self.entries.append(LogEntry(1, index, timestamp, 0, kind, memoryview(body)))
            self.tickets[index] = LogTicket(index)
            return self.tickets[index]

    def commit(self, index: int) -> None:
        with self.changed:
            for number in range(self.committed + 1, index + 1):
                if number in self.tickets:
                    self.tickets.pop(number).durable = True
            self.committed = max(self.committed, index)
            self.changed.notify_all()

    def cut_off(self) -> None:
        with self.changed:
            for number in range(len(self.entries), self.committed, -1):
                if number in self.tickets:
                    self.tickets.pop(number).error = NotTheLeader("cut off")
            del self.entries[self.committed :]
            self.changed.notify_all()


class PeerLog:
    """Stands for a `ReplicatedLog`."""

    def __init__(self, shared: SharedLog):
        self.shared = shared
        self.removed = 0

    def append(
        self, timestamp: int, kind: EntryKind, bodies: Sequence[bytes], after: Any = None, context: Any = None
    ) -> LogTicket:
        return self.shared.append(timestamp, kind, b"".join(bodies))

    def wait(self, ticket: LogTicket, deadline: float) -> None:
        with self.shared.changed:
            left = deadline - time.monotonic()
            self.shared.changed.wait_for(lambda: ticket.is_decided, max(left, 0))
            if ticket.error is not None:
                raise NotTheLeader("cut off")
            if not ticket.durable:
                raise DeadlineExceeded("not yet")

    def decided(self, tickets: Iterable[LogTicket]) -> int:
        with self.shared.changed:
            count = 0
            for ticket in tickets:
                if not ticket.is_decided:
                    break
                count += 1
            return count

    def sync_now(self) -> None: ...

    size = 100

    def repair(self) -> None:
        """No-op: nothing fails here."""

    @property
    def finished_index(self) -> int:
        return len(self.shared.entries)

    def size_from(self, index: int) -> int:
        return 0

    def remove_through(self, index: int) -> None:
        self.removed = max(self.removed, index)


class Peer:
    """A tablet, and how far it has applied the log."""

    def __init__(self, shared: SharedLog, clock: HybridClock):
        self.shared, self.clock = shared, clock
        self.fs = CrashableFileSystem()
        self.fs.make_directory("/t")
        Tablet.create(self.fs, "/t", "t")
        self.fs.sync_directory("/t")
        self.fs.sync_directory("/")
        self.work: threading.Thread | None = None
        self.failures: list[BaseException] = []
        self.open()

    def open(self) -> None:
        cache = PageCache(1 << 20)
        metadata = TabletMetadata.read(self.fs, "/t")
        rowsets = open_rowsets(self.fs, "/t", TABLE, metadata, cache)
        self.peer_log = PeerLog(self.shared)
        self.applied = metadata.replay_index
        self.known = max([metadata.durable_index, *(rowset.redo_index for rowset in metadata.rowsets)])
        self.log = ReplicaLog(self.peer_log, self.applied, self.known)
        self.tablet = tablet_with_log(
            self.fs, "/t", TABLE, metadata, TabletState.of(MemRowSet(SCHEMA), None, rowsets, cache), self.log,
            cache=cache, clock=self.clock, options=StoreOptions(rowset_bytes=2000),
        )  # fmt: skip
        self.applier = TabletApplier(self.tablet, self.known)

    @property
    def is_behind(self) -> bool:
        return self.applied < self.known

    def apply(self, count: int) -> None:
        tablet = self.tablet
        entries = self.shared.entries[self.applied : min(self.shared.committed, self.applied + count)]
        if not entries:
            return
        assert self.peer_log.removed <= self.applied
        with tablet.write_lock:
            tablet.settle()
            for entry in entries:
                self.applier.add(entry, LOGGED)
            self.applier.finish()
            self.log.note_applied(entries[-1].index)
        self.applied = entries[-1].index

    def settle(self) -> None:
        with self.tablet.write_lock:
            self.tablet.settle()

    def restart(self, rng: random.Random) -> None:
        self.join()
        self.tablet.close_files()
        self.fs = self.fs.crash(rng.choice([0.0, 0.5, 1.0]), rng)
        self.open()

    def background(self, act: Any) -> None:
        """Background work waits for writes that this test decides later."""
        self.join()

        def run() -> None:
            try:
                act(self.tablet)
            except BaseException as error:
                self.failures.append(error)

        self.work = threading.Thread(target=run, daemon=True)
        self.work.start()
        self.work.join(0.002)

    def join(self) -> None:
        if self.work is not None:
            self.work.join(90)
            assert not self.work.is_alive()
            self.work = None
        assert not self.failures, self.failures

    def rows(self, time_: int) -> list[Any]:
        spec = ScanSpec(COLUMNS, snapshot=Timestamp(time_))
        found: list[Any] = []
        for view, pieces, _ in tablet_tokens(self.tablet, spec, time_):
            for part in scan_view(view, pieces, spec, ScanCounters()):
                found.extend(zip(*[column.to_arrow().to_pylist() for column in part.columns()]))
        return sorted(found)


class Run:
    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.clock = HybridClock()
        self.shared = SharedLog()
        self.peers = [Peer(self.shared, self.clock) for _ in range(3)]
        self.leader = self.peers[0]
        self.model = TableModel(SCHEMA)

    # ---- what may happen

    def write(self) -> None:
        rng = self.rng
        count = 1 if rng.random() < 0.4 else rng.randint(2, 10)
        ops = [rng.choice(list(Op)) for _ in range(count)]
        rows = [self.row() for _ in range(count)]
        expected = self.model.resolve(ops, rows)
        tablet, before = self.leader.tablet, len(self.shared.entries)
        with suppress(DeadlineExceeded):
            if count == 1 and not expected.errors:
                self.write_row(ops[0], rows[0])
            else:
                self.write_batch(ops, rows, expected.errors)
        if len(self.shared.entries) > before:
            self.model.commit(expected, tablet.newest)
        else:
            assert all(row is None for row in expected.changes.values())

    def row(self) -> dict[str, Any]:
        rng = self.rng
        row: dict[str, Any] = {"k": rng.randrange(KEYS), "n": rng.randrange(99), "v": rng.choice([None, "a", "bc"])}
        row["d"] = None if rng.random() < 0.2 else SCHEMA.column("d").type.to_python(rng.randrange(-(10**25), 10**25))
        return {name: value for name, value in row.items() if name == "k" or rng.random() < 0.8}

    def write_row(self, op: Op, row: dict[str, Any]) -> None:
        def refuse(batch: WriteBatch) -> Any:
            raise AssertionError("the short way goes for every row that is not refused")

        class Router:
            def route_one(self, key: Any) -> int:
                return 0

        RowWriter(RowCodec(TABLE), Router(), [self.leader.tablet], self.clock, lambda: True, refuse).write(
            op, row, context=AT_ONCE
        )

    def write_batch(self, ops: list[Op], rows: list[dict[str, Any]], errors: dict[int, str]) -> None:
        names = ["k", *(name for name in COLUMNS[1:] if any(name in row for row in rows))]
        batch, isset = make_rows(TABLE, rows, names)
        given = incoming(TABLE, WriteBatch(batch, np.array(ops, np.uint8), isset=isset))
        part = TabletWrite(self.leader.tablet, TABLE, given, np.arange(len(ops)), AT_ONCE)
        part.probe()
        with self.leader.tablet.write_lock:
            part.check()
            part.encode()
            assert {error.row: type(error.error).__name__ for error in part.errors} == errors
            if part.has_changes:
                part.apply(self.leader.tablet.mvcc.start())
        part.finish()

    def commit(self) -> None:
        self.shared.commit(self.rng.randint(self.shared.committed, len(self.shared.entries)))
        self.leader.settle()

    def depose(self) -> None:
        """Elects another leader that has a part of the entries in flight."""
        if self.rng.random() < 0.5:
            self.shared.commit(self.rng.randint(self.shared.committed, len(self.shared.entries)))
        times = {entry.timestamp for entry in self.shared.entries[self.shared.committed :]}
        self.shared.cut_off()
        for versions in self.model.versions.values():
            versions[:] = [version for version in versions if version.timestamp not in times]
        old = self.leader
        # The old leader has its own proposals in memory.
        old.applied = max(old.applied, self.shared.committed)
        self.leader = self.rng.choice(self.peers)
        self.leader.apply(1 << 30)
        if self.rng.random() < 0.5:
            old.settle()

    def follow(self) -> None:
        peer = self.rng.choice(self.peers)
        if peer is not self.leader:
            peer.apply(self.rng.choice([1, 2, 5, 60, 1000]))

    def maintain(self) -> None:
        peer = self.rng.choice(self.peers)
        peer.tablet.note_log(peer.log.finished_index)
        if peer.is_behind or (peer.work is not None and peer.tablet.undecided):
            return
        rowsets = peer.tablet.state.rowsets
        choice = self.rng.random()
        if choice < 0.4 or not rowsets:
            peer.background(flush)
            return
        stored = self.rng.choice(rowsets)
        some = self.rng.sample(rowsets, min(len(rowsets), self.rng.randint(1, 3)))
        if choice < 0.65:
            peer.background(lambda tablet: flush_deltas(tablet, stored))
        elif choice < 0.75:
            peer.background(lambda tablet: compact_major(tablet, stored))
        elif choice < 0.8:
            peer.background(lambda tablet: compact_minor(tablet, stored))
        else:
            peer.background(lambda tablet: compact_rowsets(tablet, some))

    def restart(self) -> None:
        peer = self.rng.choice(self.peers)
        if peer is self.leader or peer.tablet.undecided:
            return
        peer.restart(self.rng)

    def step(self) -> None:
        acts = (
            [self.write] * 10
            + [self.commit] * 5
            + [self.follow] * 6
            + [self.maintain] * 5
            + [self.depose, self.restart]
        )
        self.rng.choice(acts)()

    # ---- what must be so

    def settle(self) -> None:
        self.shared.commit(len(self.shared.entries))
        for peer in self.peers:
            peer.settle()
            if peer is not self.leader:
                peer.apply(1 << 30)
            peer.join()

    def verify(self) -> None:
        self.settle()
        times = [entry.timestamp for entry in self.shared.entries]
        for at in [self.clock.now(), *self.rng.sample(times, min(4, len(times)))]:
            expected = self.model.rows(COLUMNS, at)
            for peer in self.peers:
                assert peer.rows(at) == expected
        for peer in self.peers:
            check_tablet(peer.tablet, self.clock)


@pytest.mark.parametrize("seed", range(cases(8)))
def test_all_peers_have_what_was_committed_and_nothing_else(seed: int) -> None:
    run = Run(seed)
    for _ in range(6):
        for _ in range(60):
            run.step()
        run.verify()


def insert(run: Run, key: int) -> None:
    with suppress(DeadlineExceeded):
        run.write_row(Op.INSERT, {"k": key, "n": key})


def test_the_index_of_an_entry_that_came_to_nothing_is_not_taken_for_one_that_is_in_files() -> None:
    run = Run(0)
    old = run.leader
    insert(run, 1)
    run.settle()
    insert(run, 2)
    old.background(flush)  # waits for the row in flight
    run.shared.cut_off()
    old.settle()
    old.join()
    old.applied = run.shared.committed
    assert old.tablet.metadata.durable_index == 1
    run.leader = run.peers[1]
    run.leader.apply(10)
    insert(run, 3)
    run.shared.commit(2)
    run.leader.settle()
    old.apply(10)
    old.restart(run.rng)
    old.apply(10)
    assert [row[0] for row in old.rows(run.clock.now())] == [1, 3]
