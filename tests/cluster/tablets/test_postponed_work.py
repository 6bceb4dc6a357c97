"""Background work beside transactions whose outcome does not come: it ends, with nothing changed, and does not wait."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster_tablets_support import Group, Server, batch, rows_at, soon, until
from nyala.cluster.consensus.log.transaction_entries import PreparedNote
from nyala.model.store import Op, Timestamp, WriteBatch
from nyala.storage.maintenance import delta_compaction, history, rewrite, rowset_compaction, tablet_flush
from nyala.storage.maintenance.compaction_policy import CompactionPolicy
from nyala.storage.maintenance.manager import MaintenanceManager
from nyala.storage.reading.tablet_check import check_tablet
from nyala.storage.tablet import between_transactions
from nyala.storage.tablet.between_transactions import Postponed
from nyala.storage.tablet.tablet import Tablet

KEYS = range(30)


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between_transactions, "PATIENCE", 0.2)


def filled(group: Group) -> None:
    """Rowsets with deltas in files and in memory, and rows in memory."""
    group.write(batch(KEYS))
    for round_ in range(3):
        group.write(batch(range(round_, 30, 4), f"r{round_}"), Op.UPSERT)
        group.write(batch(range(100 * round_ + 100, 100 * round_ + 110)))
        for server in group.servers:
            until(lambda server=server: caught_up(group, server))
            server.replica.flush()
            for stored in server.replica.tablet.state.rowsets:
                tablet_flush.flush_deltas(server.replica.tablet, stored)
    group.write(batch(range(3), "s"), Op.UPSERT)
    group.write(batch(range(500, 505)))
    for server in group.servers:
        until(lambda server=server: caught_up(group, server))


def caught_up(group: Group, server: Server) -> bool:
    return server.replica.consensus.applied_index == group.leader().replica.consensus.status().last_index


class Part:
    def __init__(self, group: Group):
        self.group = group
        self.id = uuid.uuid4().hex
        self.snapshot = Timestamp(group.leader().clock.now())
        self.timestamp = 0

    def prepare(self) -> None:
        note = PreparedNote(self.id, "t1", "t2-p0")
        changes = WriteBatch(batch([1, 105, 501, 900], "w"), Op.UPSERT, True, unchanged_since=self.snapshot)
        proposed = self.snapshot + (1 << 30)
        self.timestamp = self.group.call(lambda r: r.transactions.prepare(note, proposed, changes, None, soon(5)))

    def resolve(self, is_committed: bool) -> None:
        outcome = self.timestamp if is_committed else 0
        self.group.call(lambda r: r.transactions.resolve(self.id, outcome, soon(5)))


def flush_deltas(tablet: Tablet) -> None:
    for stored in tablet.state.rowsets:
        tablet_flush.flush_deltas(tablet, stored)


def compact(tablet: Tablet) -> None:
    rowset_compaction.compact_rowsets(tablet, tablet.state.rowsets, 0, 1)


def compact_minor(tablet: Tablet) -> None:
    for stored in tablet.state.rowsets:
        delta_compaction.compact_minor(tablet, stored)


def compact_major(tablet: Tablet) -> None:
    for stored in tablet.state.rowsets:
        delta_compaction.compact_major(tablet, stored)


def collect(tablet: Tablet) -> None:
    history.collect(tablet, tablet.mvcc.clock.now())


WORK = [tablet_flush.flush, flush_deltas, compact, compact_minor, compact_major, collect]


@pytest.mark.parametrize("is_leader", [True, False])
@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_work_during_which_a_write_is_prepared_ends_without_its_outcome(
    work: Callable[[Tablet], Any], is_leader: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Group() as group:
        filled(group)
        server = group.leader() if is_leader else group.followers()[0]
        tablet, part = server.replica.tablet, Part(group)
        original = Tablet.between_transactions

        def prepared_before(self: Tablet) -> Any:
            if self is tablet and not part.timestamp:
                part.prepare()
                until(lambda: caught_up(group, server))
            return original(self)

        monkeypatch.setattr(Tablet, "between_transactions", prepared_before)
        before = rows_at(server.replica, part.snapshot)
        with pytest.raises(Postponed, match="have no outcome yet"):
            work(tablet)
        assert part.timestamp
        assert rows_at(server.replica, part.snapshot) == before
        part.resolve(True)
        until(lambda: not tablet.prepared)
        work(tablet)
        check_tablet(tablet, server.clock)
        after = {key: row for key, *row in rows_at(server.replica, group.leader().clock.now())}
        assert [after[key][0] for key in (1, 105, 501, 900)] == ["w1", "w105", "w501", "w900"]
        server.restart()
        until(lambda: caught_up(group, server))
        assert rows_at(server.replica, part.snapshot) == before
        assert {key: row for key, *row in rows_at(server.replica, group.leader().clock.now())} == after


@pytest.mark.parametrize("work", [tablet_flush.flush, flush_deltas, compact], ids=lambda work: work.__name__)
def test_a_write_is_not_prepared_between_the_new_metadata_and_the_new_state(
    work: Callable[[Tablet], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader's PREPARE entry is committed then; this replica applies it afterwards."""
    with Group() as group:
        filled(group)
        server = group.followers()[0]
        tablet, part = server.replica.tablet, Part(group)
        publish = rewrite.NewFiles.publish
        seen: list[bool] = []

        def prepared_after(self: rewrite.NewFiles, *args: Any, **kwargs: Any) -> None:
            publish(self, *args, **kwargs)
            if self._tablet is tablet and not part.timestamp:
                part.prepare()
                until(lambda: server.replica.consensus.status().commit_index >= 1)
                threading.Event().wait(0.3)
                seen.append(bool(tablet.prepared))

        monkeypatch.setattr(rewrite.NewFiles, "publish", prepared_after)
        with contextlib.suppress(Postponed):  # of another rowset, which comes next
            work(tablet)
        assert seen == [False]
        until(lambda: tablet.prepared)
        part.resolve(False)
        until(lambda: not tablet.prepared)
        check_tablet(tablet, server.clock)
        assert all(row[1] != "w1" for row in rows_at(server.replica, group.leader().clock.now()))


@contextlib.contextmanager
def two_groups() -> Iterator[tuple[Group, Group]]:
    with Group(1) as one, Group(1, prefix="o") as other:
        yield one, other


def test_the_thread_of_maintenance_goes_on_with_other_tablets(monkeypatch: pytest.MonkeyPatch) -> None:
    with two_groups() as (blocked, free):
        for group in (blocked, free):
            group.write(batch(KEYS))
        part = Part(blocked)
        tablets = [group.leader().replica.tablet for group in (blocked, free)]
        manager = MaintenanceManager(lambda: tablets, CompactionPolicy(), lambda: True)
        original = Tablet.between_transactions

        def prepared_before(self: Tablet) -> Any:
            if self is tablets[0] and not part.timestamp:
                part.prepare()
            return original(self)

        monkeypatch.setattr(Tablet, "between_transactions", prepared_before)
        records = [record for _ in range(4) if (record := manager.run_one())]
        assert {record.error != "" for record in records} == {True, False}
        assert not tablets[1].state.memrowset.row_count, "the other tablet was flushed"
        assert manager.run_one() is None, "the first one is not tried while nothing is known"
        part.resolve(True)
        manager.forget_failures()
        assert manager.run_one() is not None
        assert not tablets[0].state.memrowsets[0].row_count or tablets[0].state.flushing is None
        assert rows_at(blocked.leader().replica)[1] == (1, "w1", 0)
