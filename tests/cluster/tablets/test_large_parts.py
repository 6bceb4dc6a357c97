"""Parts of transactions that take several log entries: staged without effect, then prepared as one."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace

import pytest
from cluster_tablets_support import TABLE, Group, batch, describe, rows_at, soon, until
from nyala.cluster.consensus.log.entry_texts import open_entry
from nyala.cluster.consensus.log.transaction_entries import PreparedNote, StagedNote
from nyala.cluster.tablets import large_parts
from nyala.cluster.tablets.stages import Stage
from nyala.errors import DeadlineExceeded, ProtocolError, SerializationFailure, StaleSchema
from nyala.model.clock import LOGICAL_BITS
from nyala.model.store import Op, Timestamp, WriteBatch
from nyala.storage.inspect.dump.dump_file import describe_file
from nyala.storage.maintenance.tablet_flush import flush_all

LEAD = 2_000 << LOGICAL_BITS
ENTRIES = 6
WIDTH = 4
BEFORE = [(key, f"v{key}", 0) for key in range(10)]
AFTER = [(key, f"w{key}", 1) for key in range(ENTRIES * WIDTH)]
"""Rows of a part that updates the first ten and inserts the others."""


class LargePart:
    def __init__(self, group: Group):
        self.group = group
        self.id = uuid.uuid4().hex
        self.snapshot = Timestamp(group.leader().clock.now())
        self.timestamp = 0
        self.seconds = 30.0

    def stage(self, number: int, rows=None, op: Op = Op.UPSERT, version: int = TABLE.version) -> None:
        rows = batch(range(number * WIDTH, (number + 1) * WIDTH), "w", 1) if rows is None else rows
        note = StagedNote(self.id, "t1", "t1-p0", number, version, rows.num_rows)
        changes = WriteBatch(rows, op, all_or_none=True, unchanged_since=self.snapshot)
        self.group.call(lambda r: r.transactions.stage(note, changes, 100, soon(2)), self.seconds)

    def stage_all(self) -> None:
        for number in range(ENTRIES):
            self.stage(number)

    def prepare(self, count: int = ENTRIES, version: int | None = None) -> None:
        note = PreparedNote(self.id, "t1", "t1-p0", staged=count)
        changes = WriteBatch(batch([]), Op.UPSERT, all_or_none=True, unchanged_since=self.snapshot)
        proposed = self.group.leader().clock.latest + LEAD
        self.timestamp = self.group.call(
            lambda r: r.transactions.prepare(note, proposed, changes, version, soon(2)), self.seconds
        )

    def end(self, is_committed: bool) -> None:
        outcome = self.timestamp if is_committed else 0
        self.group.call(lambda r: r.transactions.resolve(self.id, outcome, soon(5)))


def everywhere(group: Group, snapshot: int, rows: list[object]) -> None:
    for server in group.running:
        assert rows_at(server.replica, snapshot) == rows, server.peer.id


def flush(group: Group) -> None:
    for server in group.servers:
        # One that was opened has to hear first what is committed.
        until(lambda server=server: server.replica._progress.stage is Stage.CURRENT)
        flush_all(server.replica.tablet)


def turn_over(group: Group, what: str) -> None:
    """Does something between two steps of a transaction that must not matter to it."""
    if what == "flush":
        group.write(batch([100]), Op.UPSERT)
        flush(group)
    elif what == "restart":
        for server in group.servers:
            server.restart()
    elif what == "flush and restart":
        for step in ("flush", "restart"):
            turn_over(group, step)
    elif what == "transfer":
        old = group.leader()
        old.replica.consensus.transfer(None)
        until(lambda: group.leader() is not old)
    elif what == "copy":
        turn_over(group, "flush")
        added = group.add_server(f"s{len(group.servers)}", segment_bytes=2_000)
        group.bootstrap(added)
        group.call(lambda r: r.consensus.change("add", added.peer, None, soon()))
    else:
        for number in range(1, 4):  # many small segments, all of them flushed
            group.write(batch(range(100 * number, 100 * number + 60), "x" * 200), Op.UPSERT)
            flush(group)


DISTURBANCES = ["flush", "restart", "flush and restart", "transfer", "copy", "log"]


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_a_large_part_is_seen_as_a_whole_whatever_happens_between(disturbance: str, is_committed: bool) -> None:
    with Group(segment_bytes=2_000) as group:
        group.write(batch(range(10)))
        part = LargePart(group)
        for number in range(ENTRIES):
            part.stage(number)
            if number == ENTRIES // 2:
                turn_over(group, disturbance)
        turn_over(group, disturbance)
        leader = group.leader().replica
        assert rows_at(leader)[:10] == BEFORE, "what is staged is not seen"
        assert leader.read_row([3], ["v"], None, deadline=soon(1))[0] == ("v3",), "and holds no key"
        part.prepare()
        if disturbance in ("restart", "transfer"):
            turn_over(group, disturbance)
        with pytest.raises(DeadlineExceeded):
            group.leader().replica.read_row([3], ["v"], None, deadline=soon(0.1))
        part.end(is_committed)
        for again in (None, disturbance, disturbance):
            if again:
                turn_over(group, again)
            found = {key: row for key, *row in rows_at(group.leader().replica)}
            expected = AFTER if is_committed else BEFORE
            assert [(key, *found[key]) for key in sorted(found) if key < 100] == expected
            everywhere(group, part.timestamp - 1, rows_at(group.leader().replica, part.timestamp - 1))
            kept = [(key, *row) for key, row in found.items() if key >= 100]
            everywhere(group, group.leader().clock.now(), expected + kept)


def test_the_log_is_kept_for_staged_rows_until_the_files_have_them() -> None:
    with Group(segment_bytes=2_000) as group:
        group.write(batch(range(10)))
        part = LargePart(group)
        part.stage_all()
        replica = group.leader().replica
        first = replica.tablet.staged.get(part.id).first_index
        turn_over(group, "log")
        assert replica.tablet.metadata.replay_index < first
        part.prepare()
        part.end(True)
        # A delta of another row, whose flush says nothing of the part.
        for server in group.servers:
            tablet = server.replica.tablet
            until(lambda tablet=tablet: (known := tablet.staged.get(part.id)) and known.ended)
            with tablet.metadata_lock:
                tablet.write_metadata(tablet.metadata)
            assert tablet.metadata.replay_index < first
        turn_over(group, "restart")
        assert rows_at(group.leader().replica)[:24] == AFTER
        turn_over(group, "log")

        def is_dropped() -> bool:
            flush(group)  # a follower that was restarted may have had less to flush before
            tablets = [server.replica.tablet for server in group.servers]
            return all(tablet.metadata.replay_index > first and not tablet.staged for tablet in tablets)

        until(is_dropped)


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_a_conflict_with_any_of_the_rows_is_found(when: str) -> None:
    with Group() as group:
        group.write(batch(range(10)))
        part = LargePart(group)
        if when == "before":
            group.write(batch([5], "x"), Op.UPDATE)
            with pytest.raises(SerializationFailure, match="row with key"):
                part.stage_all()
            part.end(False)
            return
        part.stage(0)
        if when == "between":
            group.write(batch([2], "x"), Op.UPDATE)
        for number in range(1, ENTRIES):
            part.stage(number)
        if when == "after":
            group.write(batch([23], "x"))
        with pytest.raises(SerializationFailure):
            part.prepare()
        part.end(False)
        assert not group.leader().replica.tablet.staged
        assert ("'x2'" in str(rows_at(group.leader().replica))) is (when == "between")


def test_a_row_that_comes_where_the_transaction_deletes_none_is_a_conflict() -> None:
    with Group() as group:
        group.write(batch(range(10)))
        part = LargePart(group)
        part.stage(0)
        part.stage(1, batch([50]).select(["k"]), Op.DELETE_IGNORE)
        group.write(batch([50]))
        with pytest.raises(SerializationFailure):
            part.prepare(2)
        part.end(False)


def test_another_transaction_that_has_prepared_a_row_is_waited_for() -> None:
    with Group() as group:
        group.write(batch(range(10)))
        first, second = LargePart(group), LargePart(group)
        first.stage_all()
        second.stage(0)
        first.prepare()
        for act in (lambda: second.stage(1), lambda: second.prepare(1)):
            with pytest.raises(SerializationFailure, match="about to change the same rows"):
                act()
        first.end(False)
        second.stage(1)
        second.prepare(2)
        second.end(True)
        assert [row for row in rows_at(group.leader().replica) if row[1].startswith("w")] == AFTER[:8]


def test_rows_that_were_dropped_are_not_prepared() -> None:
    with Group() as group:
        group.write(batch(range(10)))
        lacking, ended, twice = LargePart(group), LargePart(group), LargePart(group)
        lacking.stage(0)
        lacking.stage(2)
        for count in (1, 2, 3):
            with pytest.raises(SerializationFailure, match="were dropped"):
                lacking.prepare(count)
        ended.stage_all()
        ended.end(False)
        with pytest.raises(SerializationFailure, match="were dropped"):
            ended.prepare()
        twice.stage(0)
        twice.stage(0, batch([9], "z"))  # a request that was sent again: the first one counts
        twice.stage(1, batch([1], "z"))
        with pytest.raises(ProtocolError, match="twice"):
            twice.prepare(2)
        assert rows_at(group.leader().replica) == BEFORE


def test_an_alteration_drops_what_is_staged() -> None:
    with Group() as group:
        group.write(batch(range(10)))
        part = LargePart(group)
        part.stage(0)
        part.seconds = 0.0
        group.call(lambda r: r.alter(describe(replace(TABLE, version=TABLE.version + 1)), deadline=soon()))
        for act in (lambda: part.stage(1), lambda: part.prepare(1, TABLE.version)):
            with pytest.raises(StaleSchema):
                act()
        with pytest.raises(SerializationFailure, match="were dropped"):
            part.prepare(1, TABLE.version + 1)
        for server in group.servers:
            until(lambda server=server: not server.replica.tablet.staged)


def test_staged_rows_without_a_client_are_abandoned_by_their_age(monkeypatch: pytest.MonkeyPatch) -> None:
    with Group() as group:
        group.write(batch(range(10)))
        part = LargePart(group)
        part.stage(0)
        transactions = group.leader().replica.transactions
        assert transactions.abandoned(0) == []
        monkeypatch.setattr(large_parts, "STAGED_SECONDS", 0.0)
        assert [note.transaction for note in transactions.abandoned(100)] == [part.id]
        assert group.call(lambda r: r.transactions.decide(part.id, 0, soon(2))) == 0
        assert transactions.abandoned(0) == []
        with pytest.raises(SerializationFailure):
            part.prepare(1)


def test_a_part_of_many_rows_may_stay_prepared_for_longer() -> None:
    with Group() as group:
        group.write(batch(range(10)))
        part = LargePart(group)
        note = PreparedNote(part.id, "t1", "t1-p0", seconds=60.0)
        changes = WriteBatch(batch([1], "w"), Op.UPSERT, all_or_none=True, unchanged_since=part.snapshot)
        transactions = group.leader().replica.transactions
        part.timestamp = transactions.prepare(note, 1, changes, None, soon(2))
        assert transactions.abandoned(0) == []
        part.end(True)


def test_a_void_large_part_is_undone_and_can_be_prepared_by_the_next_leader() -> None:
    with Group() as group:
        group.write(batch(range(10)))
        part = LargePart(group)
        part.stage_all()
        old = group.leader()
        group.network.cut.add(old.peer.id)
        note = PreparedNote(part.id, "t1", "t1-p0", staged=ENTRIES)
        changes = WriteBatch(batch([]), Op.UPSERT, all_or_none=True, unchanged_since=part.snapshot)
        with pytest.raises(DeadlineExceeded):
            old.replica.transactions.prepare(note, 1, changes, None, soon(0.5))
        until(lambda: group.leader() is not old)
        part.prepare()
        group.network.cut.clear()
        until(lambda: old.replica.consensus.applied_index == group.leader().replica.consensus.applied_index)
        part.end(True)
        everywhere(group, group.leader().clock.now(), AFTER)


def test_writers_of_many_threads_stage_and_prepare_at_the_same_time() -> None:
    with Group() as group:
        failed: list[BaseException] = []
        parts = [LargePart(group) for _ in range(4)]

        def commit(number: int) -> None:
            part = parts[number]
            try:
                for entry in range(5):
                    part.stage(entry, batch([number * 100 + entry], "t"))
                part.prepare(5)
                part.end(number % 2 == 0)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=commit, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failed
        keys = [number * 100 + entry for number in (0, 2) for entry in range(5)]
        everywhere(group, group.leader().clock.now(), [(key, f"t{key}", 0) for key in keys])


def test_staged_entries_are_shown() -> None:
    with Group(1) as group:
        part = LargePart(group)
        part.stage(0)
        part.prepare(1)
        part.end(True)
        server = group.servers[0]
        directory = f"{server.directory}/wal"
        shown = "".join(describe_file(server.fs, f"{directory}/{n}", 99, open_entry) for n in server.fs.list(directory))
    assert f"part 0 of transaction {part.id}, which tablet t1-p0 decides" in shown and "'w1'" in shown
    assert f"prepares transaction {part.id}, which tablet t1-p0 decides, with the rows of 1 entries" in shown
