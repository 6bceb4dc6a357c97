"""Parts of transactions over several tablets, at a group of replicas: prepared, invisible, then visible or undone."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from cluster_tablets_support import TABLE, Group, batch, describe, rows_at, soon, until
from nyala.cluster.consensus.log.entry_texts import open_entry
from nyala.cluster.consensus.log.tracked import CallHeader
from nyala.cluster.consensus.log.transaction_entries import PreparedNote
from nyala.cluster.tablets.exactly_once import ExactlyOnceTable
from nyala.cluster.tablets.reads import NO_WAIT
from nyala.cluster.wire.messages.methods import Call
from nyala.errors import ClockTooFarAhead, DeadlineExceeded, ProtocolError, SerializationFailure
from nyala.model.clock import LOGICAL_BITS
from nyala.model.store import Op, Timestamp, WriteBatch
from nyala.storage.inspect.dump.dump_file import describe_file

LEAD = 2_000 << LOGICAL_BITS
"""2 ms of hybrid time."""


class Part:
    """A transaction of which the group's tablet has a part."""

    def __init__(self, group: Group, since: int | None = None):
        self.group = group
        self.id = uuid.uuid4().hex
        self.snapshot = group.leader().clock.now() if since is None else since
        self.timestamp = 0

    def prepare(self, rows: pa.RecordBatch, op: Op = Op.UPSERT) -> None:
        note = PreparedNote(self.id, "t1", "t1-p0")
        changes = WriteBatch(rows, op, all_or_none=True, unchanged_since=Timestamp(self.snapshot))
        proposed = self.group.leader().clock.latest + LEAD
        self.timestamp = self.group.call(lambda r: r.transactions.prepare(note, proposed, changes, None, soon(2)))

    def resolve(self, is_committed: bool) -> None:
        outcome = self.timestamp if is_committed else 0
        self.group.call(lambda r: r.transactions.resolve(self.id, outcome, soon(5)))

    def decide(self, commits: bool) -> bool:
        outcome = (self.timestamp or 1) if commits else 0
        return bool(self.group.call(lambda r: r.transactions.decide(self.id, outcome, soon(5))))


def everywhere(group: Group, snapshot: int, rows) -> None:
    for server in group.running:
        assert rows_at(server.replica, snapshot) == rows


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("flushed", [True, False])
def test_a_part_is_seen_everywhere_from_its_timestamp_or_never(is_committed: bool, flushed: bool) -> None:
    with Group() as group:
        group.write(batch(range(10)))
        if flushed:
            for server in group.servers:
                until(lambda server=server: server.replica.tablet.row_count == 10)
                server.replica.flush()
        part = Part(group)
        part.prepare(batch(range(5, 15), "w", 1))
        before = [(k, f"v{k}", 0) for k in range(10)]
        everywhere(group, part.timestamp - 1, before)
        part.resolve(is_committed)
        after = [(k, f"v{k}", 0) for k in range(5)] + [(k, f"w{k}", 1) for k in range(5, 15)]
        everywhere(group, part.timestamp, after if is_committed else before)
        everywhere(group, part.timestamp - 1, before)
        group.write(batch(range(15, 20)))
        now = group.leader().clock.now()
        rest = [(k, f"v{k}", 0) for k in range(15, 20)]
        everywhere(group, now, (after if is_committed else before) + rest)
        for server in group.servers:
            server.replica.flush()
        everywhere(group, now, (after if is_committed else before) + rest)
        for server in group.servers:
            server.restart()
        everywhere(group, now, (after if is_committed else before) + rest)


def test_deletions_and_insertions_of_deleted_keys_are_undone() -> None:
    with Group() as group:
        group.write(batch(range(10)))
        group.write(batch(range(3)).select(["k"]), Op.DELETE)
        before = [(k, f"v{k}", 0) for k in range(3, 10)]
        part = Part(group)
        part.prepare(batch(range(5, 8)).select(["k"]), Op.DELETE)
        other = Part(group)
        other.prepare(batch(range(2), "new"), Op.INSERT)
        part.resolve(False)
        other.resolve(False)
        everywhere(group, group.leader().clock.now(), before)
        assert group.write(batch(range(3), "x")).applied == 3
        assert group.write(batch(range(5, 8)).select(["k"]), Op.DELETE).applied == 3


def test_other_writers_and_readers_of_the_keys_wait_for_the_outcome_and_nobody_else() -> None:
    with Group() as group:
        group.write(batch(range(10)))
        part = Part(group)
        part.prepare(batch([4], "w", 1))
        leader = group.leader().replica
        group.write(batch([5], "x"), Op.UPSERT)
        assert leader.read_row([6], ["v"], None, deadline=soon())[0] == ("v6",)
        assert leader.write_row(Op.UPDATE, {"k": 7, "v": "y"}, None, deadline=soon()).applied == 1
        for act in (
            lambda: leader.read_row([4], ["v"], None, deadline=soon(0.1)),
            lambda: leader.write_row(Op.UPDATE, {"k": 4, "v": "y"}, None, deadline=soon(0.1)),
            lambda: leader.write(WriteBatch(batch([3, 4], "z"), Op.UPSERT), None, deadline=soon(0.1)),
        ):
            with pytest.raises(DeadlineExceeded):
                act()
        found: list[object] = []
        waiting = [
            threading.Thread(target=lambda: found.append(leader.read_row([4], ["v"], None, deadline=soon())[0])),
            threading.Thread(target=lambda: found.append(rows_at(leader)[4])),
        ]
        for thread in waiting:
            thread.start()
        part.resolve(True)
        for thread in waiting:
            thread.join(90)
        assert sorted(map(str, found)) == ["('w4',)", "(4, 'w4', 1)"]
        assert leader.write_row(Op.UPDATE, {"k": 4, "v": "y"}, None, deadline=soon()).applied == 1


def test_a_conflict_is_refused_and_leaves_nothing() -> None:
    with Group() as group:
        group.write(batch(range(10)))
        late = Part(group)
        group.write(batch([4], "x"), Op.UPSERT)
        group.write(batch([20]))
        for rows, op in ((batch([4]), Op.UPDATE), (batch([20]), Op.INSERT)):
            with pytest.raises(SerializationFailure):
                late.prepare(rows, op)
        holder, other = Part(group), Part(group)
        holder.prepare(batch([1], "h"))
        with pytest.raises(SerializationFailure, match="another transaction is about to"):
            other.prepare(batch([0, 1], "o"))
        holder.resolve(False)
        other.prepare(batch([0, 1], "o"))
        other.resolve(True)
        assert rows_at(group.leader().replica)[:2] == [(0, "o0", 0), (1, "o1", 0)]


def test_the_first_decision_counts_whoever_makes_it() -> None:
    with Group() as group:
        group.write(batch(range(10)))
        committed, aborted, unknown = Part(group), Part(group), Part(group)
        committed.prepare(batch([1], "c"))
        aborted.prepare(batch([2], "a"))
        assert committed.decide(True) is True
        assert aborted.decide(False) is False
        assert unknown.decide(True) is False, "its part here was never prepared"
        for _ in range(2):
            assert committed.decide(False) is True
            assert aborted.decide(True) is False
            assert unknown.decide(True) is False
            for server in group.servers:
                server.replica.flush()
                server.restart()
        assert rows_at(group.leader().replica)[:3] == [(0, "v0", 0), (1, "c1", 0), (2, "v2", 0)]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_new_leader_goes_on_with_what_is_prepared(is_committed: bool) -> None:
    with Group() as group:
        group.write(batch(range(10)))
        part = Part(group)
        part.prepare(batch(range(5, 15), "w", 1))
        old = group.leader()
        old.replica.consensus.transfer(None)
        until(lambda: group.leader() is not old)
        new = group.leader().replica
        with pytest.raises(DeadlineExceeded):
            new.write_row(Op.UPDATE, {"k": 5, "v": "y"}, None, deadline=soon(0.1))
        assert [note.transaction for note in new.transactions.abandoned(0)] == [part.id]
        old.restart()
        part.resolve(is_committed)
        after = [(k, f"v{k}", 0) for k in range(5)] + [(k, f"w{k}", 1) for k in range(5, 15)]
        everywhere(group, part.timestamp, after if is_committed else [(k, f"v{k}", 0) for k in range(10)])
        assert not group.leader().replica.transactions.abandoned(0)


def test_a_flush_waits_for_the_outcome_and_an_open_tablet_takes_parts_again() -> None:
    with Group() as group:
        group.write(batch(range(10)))
        part = Part(group)
        part.prepare(batch(range(5), "w", 1))
        leader = group.leader().replica
        flushing = threading.Thread(target=leader.flush)
        flushing.start()
        flushing.join(0.3)
        assert flushing.is_alive()
        part.resolve(True)
        flushing.join(90)
        assert not flushing.is_alive()
        again = Part(group)
        again.prepare(batch([7], "z"))
        again.resolve(True)
        assert rows_at(leader)[7] == (7, "z7", 0)


@pytest.mark.parametrize("is_single", [True, False])
def test_the_commit_may_be_later_than_the_part_and_than_other_writes(is_single: bool) -> None:
    with Group() as group:
        group.write(batch(range(6)))
        for server in group.servers[:2]:
            until(lambda server=server: server.replica.tablet.row_count == 6)
            server.replica.flush()
        group.write(batch([1]).select(["k"]), Op.DELETE)
        part = Part(group)
        note = PreparedNote(part.id, "t1", "t1-p0")
        changes = WriteBatch(batch([1, 2, 9], "w"), Op.UPSERT, all_or_none=True, unchanged_since=part.snapshot)
        held = group.call(lambda r: r.transactions.prepare(note, 1, changes, None, soon(2)))
        assert held > part.snapshot, "the clock had passed the proposed timestamp"
        for key in (3, 4, 20):
            if is_single:
                row = {"k": key, "v": "between", "n": 0}
                between = group.call(lambda r, row=row: r.write_row(Op.UPSERT, row, None, deadline=soon(2)))
            else:
                between = group.write(batch([key], "between"), Op.UPSERT)
        part.timestamp = group.leader().clock.now() + 3 * LEAD
        part.resolve(True)
        later = group.write(batch([5, 21], "later"), Op.UPSERT).timestamp
        assert held < between.timestamp < part.timestamp < later

        def state() -> list[list[tuple[int, str, int]]]:
            now = group.leader().clock.now()
            times = (part.snapshot, held, between.timestamp, part.timestamp - 1, part.timestamp, later, now)
            found = [[rows_at(server.replica, time) for time in times] for server in group.running]
            assert all(rows == found[0] for rows in found)
            return found[0]

        before = state()
        name = "between" if is_single else "between3"
        assert before[0] == before[1] == [(k, f"v{k}", 0) for k in (0, 2, 3, 4, 5)]
        assert (3, name, 0) in before[2] and before[2] == before[3]
        changed = [(1, "w1", 0), (2, "w2", 0), (9, "w9", 0)]
        assert [row for row in before[4] if row not in before[3]] == changed
        assert len(before[5]) == len(before[4]) + 1
        for server in group.servers:
            server.replica.flush()
        assert state() == before
        for server in group.servers:
            server.restart()
        assert state()[:6] == before[:6]
        for server in group.servers:
            server.replica.compact()
        assert state()[:6] == before[:6]


def test_a_void_part_is_undone_at_the_former_leader() -> None:
    with Group() as group:
        group.write(batch(range(3)))
        old = group.leader()
        since = old.clock.now()
        group.network.cut.add(old.peer.id)
        note = PreparedNote(uuid.uuid4().hex, "t1", "t1-p0")
        changes = WriteBatch(batch([1, 9], "w"), Op.UPSERT, all_or_none=True, unchanged_since=since)
        with pytest.raises(DeadlineExceeded):
            old.replica.transactions.prepare(note, old.clock.latest + LEAD, changes, None, soon(0.5))
        until(lambda: group.leader() is not old)
        group.write(batch([1], "x"), Op.UPSERT)
        group.network.cut.clear()
        until(lambda: not old.replica.tablet.prepared)
        everywhere(group, group.leader().clock.now(), [(0, "v0", 0), (1, "x1", 0), (2, "v2", 0)])


FAR = 3_600_000_000 << LOGICAL_BITS
"""An hour of hybrid time."""


def test_rows_with_a_later_commit_timestamp_are_conflicts_for_snapshots_before_it() -> None:
    """In memory they are before rows with earlier timestamps."""
    with Group() as group:
        part = Part(group)
        part.prepare(batch([1, 2], "w"), Op.INSERT)
        group.write(batch([10, 11], "x"))
        part.timestamp = group.leader().clock.now() + 3 * LEAD
        between = part.timestamp - 1
        part.resolve(True)
        group.write(batch([12, 13], "y"))
        late = Part(group, between)
        with pytest.raises(SerializationFailure):
            late.prepare(batch([2], "lost"), Op.UPDATE)
        late.prepare(batch([10], "z"), Op.UPDATE)
        late.resolve(True)
        assert {k: v for k, v, _ in rows_at(group.leader().replica)}[2] == "w2"


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("flushed", [True, False])
def test_a_part_at_the_commit_timestamp_of_another_transaction_has_its_own_outcome(
    is_committed: bool, flushed: bool
) -> None:
    with Group() as group:
        group.write(batch(range(6)))
        if flushed:
            for server in group.servers:
                until(lambda server=server: server.replica.tablet.row_count == 6)
                server.replica.flush()
        first, second = Part(group), Part(group)
        first.prepare(batch([1, 7], "f"))
        second.prepare(batch([2, 8], "s"))
        first.timestamp = second.timestamp
        first.resolve(True)
        second.resolve(is_committed)
        changed = {1: "f1", 7: "f7", **({2: "s2", 8: "s8"} if is_committed else {})}
        expected = [(k, v, 0) for k, v in sorted(({k: f"v{k}" for k in range(6)} | changed).items())]
        for _ in range(2):
            everywhere(group, group.leader().clock.now(), expected)
            everywhere(group, second.timestamp, expected)
            everywhere(group, second.timestamp - 1, [(k, f"v{k}", 0) for k in range(6)])
            for server in group.servers:
                server.replica.flush()


def test_a_client_cannot_move_the_clock_of_a_server_far_ahead() -> None:
    with Group() as group:
        group.write(batch(range(6)))
        part = Part(group)
        leader = group.leader()
        note = PreparedNote(part.id, "t1", "t1-p0")
        changes = WriteBatch(batch([1], "w"), Op.UPSERT, all_or_none=True, unchanged_since=Timestamp(part.snapshot))
        with pytest.raises(ClockTooFarAhead):
            leader.replica.transactions.prepare(note, leader.clock.latest + FAR, changes, None, soon(2))
        part.prepare(batch([1], "w"))
        transactions = leader.replica.transactions
        for end in (transactions.decide, transactions.resolve):
            for timestamp in (leader.clock.latest + FAR, 1 << 63, 1 << 64):
                with pytest.raises(ClockTooFarAhead):
                    end(part.id, timestamp, soon(2))
            for timestamp in (part.timestamp - 1, 1, -1):
                with pytest.raises(ProtocolError):
                    end(part.id, timestamp, soon(2))
        assert leader.clock.latest < leader.clock.limit()
        assert part.decide(True)
        for name in ("", "x", part.id.upper(), part.id + "00"):
            with pytest.raises(ProtocolError):
                transactions.decide(name, 0, soon(2))


@pytest.mark.parametrize("is_scan", [True, False])
def test_a_read_of_the_newest_rows_has_a_transaction_that_was_acknowledged_before(is_scan: bool) -> None:
    """The clock here is below the commit timestamp, until the outcome comes."""
    with Group() as group:
        group.write(batch(range(6)))
        part = Part(group)
        part.prepare(batch([1], "w"))
        part.timestamp += 1000 * LEAD  # it is committed, and acknowledged, at the tablet that decides
        leader = group.leader().replica
        found: list[object] = []

        def read() -> None:
            if is_scan:
                view = leader.view(None, deadline=soon())
                found.append({k: v for k, v, _ in rows_at(leader, view.timestamp)}[1])
            else:
                found.append(leader.read_row([1], ["v"], None, deadline=soon())[0][0])

        reading = threading.Thread(target=read)
        reading.start()
        reading.join(0.2)
        assert reading.is_alive()
        part.resolve(True)
        reading.join(90)
        assert found == ["w1"]


def test_a_committed_transaction_is_read_although_an_older_write_is_in_flight() -> None:
    with Group() as group:
        group.write(batch(range(6)))
        leader = group.leader().replica
        mvcc = leader.tablet.mvcc
        read = partial(leader.read_row, [1], ["v"], None)
        older = mvcc.start()
        part = Part(group)
        part.prepare(batch([1], "w"))
        assert leader.read_row([2], ["v"], None, deadline=NO_WAIT)[0] == ("v2",)
        part.resolve(True)
        with pytest.raises(DeadlineExceeded):
            read(deadline=NO_WAIT)
        mvcc.commit(older)
        assert read(deadline=NO_WAIT)[0] == ("w1",)


def test_an_alteration_is_not_kept_off_by_ever_new_transactions() -> None:
    with Group() as group:
        group.write(batch(range(6)))
        first = Part(group)
        first.prepare(batch([1], "w"))
        replica = group.leader().replica
        altered = describe(replace(TABLE, version=TABLE.version + 1))
        altering = threading.Thread(target=lambda: replica.alter(altered, deadline=soon()))
        altering.start()
        until(lambda: not replica.tablet.prepared.is_open)
        second = Part(group)
        note = PreparedNote(second.id, "t1", "t1-p0")
        changes = WriteBatch(batch([2], "w"), Op.UPSERT, all_or_none=True, unchanged_since=Timestamp(second.snapshot))
        with pytest.raises(DeadlineExceeded):
            replica.transactions.prepare(note, 1, changes, None, soon(0.2))
        first.resolve(True)
        altering.join(90)
        assert replica.table.version == TABLE.version + 1
        second.prepare(batch([2], "w"))
        second.resolve(True)


def test_only_outcomes_of_transactions_are_forgotten_for_others() -> None:
    table = ExactlyOnceTable()
    writer, transaction = uuid.uuid4().hex, uuid.uuid4().hex
    table.note(CallHeader(writer, 1, 0, b"w"), 1, 1)
    table.note(CallHeader(transaction, 1, 0, b"t", is_lasting=True), 2, 2)
    table.forget([writer, transaction])
    found = [table.begin(Call(client, 1, 0), lambda ticket: None, soon()) for client in (writer, transaction)]
    assert found == [b"w", None]


def test_a_batch_into_a_full_tablet_does_not_wait_for_an_outcome() -> None:
    with Group(memrowset_bytes=500) as group:
        group.write(batch(range(40)))
        part = Part(group)
        part.prepare(batch([1], "w"))
        leader = group.leader().replica
        changes = WriteBatch(batch(range(50, 90)), Op.INSERT)
        for _ in range(2):
            leader.write(changes, None, deadline=soon(5))
            changes = WriteBatch(batch(range(100, 140)), Op.INSERT)
        leader.write_row(Op.INSERT, {"k": 200, "v": "x"}, None, deadline=soon(5))
        part.resolve(True)
        group.write(batch([300]))
        assert len(rows_at(leader)) == 122


def test_the_log_of_a_replica_is_shown_with_its_transactions() -> None:
    with Group(1) as group:
        group.write(batch([0]), call=Call(uuid.uuid4().hex, 1, 0))
        one, two = Part(group), Part(group)
        one.prepare(batch([1], "one"))
        two.prepare(batch([2], "two"))
        assert one.decide(True)
        two.resolve(False)
        report = group.leader().replica.report()
        assert (report.prepared, report.prepared_seconds) == (0, 0.0)
        last = Part(group)
        last.prepare(batch([3]))
        report = group.leader().replica.report()
        assert report.prepared == 1 and 0 < report.prepared_seconds < 60
        server = group.servers[0]
        directory = f"{server.directory}/wal"
        shown = "".join(describe_file(server.fs, f"{directory}/{n}", 99, open_entry) for n in server.fs.list(directory))
        last.resolve(False)
    assert "call 1 of client" in shown and "'one1'" in shown and "'two2'" in shown
    for transaction, outcome in ((one, "commits"), (two, "aborts"), (last, "")):
        assert f"prepares transaction {transaction.id}, which tablet t1-p0 decides" in shown
        for word in ("commits", "aborts"):
            assert (f"{word} transaction {transaction.id}" in shown) is (word == outcome)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_part_may_move_to_a_later_timestamp_below_which_reads_then_pass(is_committed: bool) -> None:
    with Group() as group:
        group.write(batch(range(4)))
        part = Part(group)
        part.prepare(batch([1, 7], "w"))
        held, before = part.timestamp, [(k, f"v{k}", 0) for k in range(4)]
        leader = group.leader().replica
        with pytest.raises(DeadlineExceeded):
            leader.view(Timestamp(held), deadline=soon(0.1))
        note = PreparedNote(part.id, "t1", "t1-p0")
        changes = WriteBatch(batch([1, 7], "w"), Op.UPSERT, all_or_none=True, unchanged_since=Timestamp(part.snapshot))
        later = held + LEAD
        for proposed in (later, held, later):
            part.timestamp = leader.transactions.prepare(note, proposed, changes, None, soon(2))
            assert part.timestamp == later
        for at in (held, later - 1):
            assert rows_at(leader, at) == before
        with pytest.raises(DeadlineExceeded):
            leader.view(Timestamp(later), deadline=soon(0.1))
        with pytest.raises(ProtocolError):
            leader.transactions.resolve(part.id, held, soon(2))
        part.resolve(is_committed)
        after = [(0, "v0", 0), (1, "w1", 0), (2, "v2", 0), (3, "v3", 0), (7, "w7", 0)]
        for _ in range(2):
            everywhere(group, later - 1, before)
            everywhere(group, later, after if is_committed else before)
            for server in group.servers:
                server.replica.flush()
