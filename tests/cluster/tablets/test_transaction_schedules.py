"""Two groups of replicas, and coordinators that die at any step: seeded schedules against a model of versions.

The groups run real consensus; one thread does everything else, so a seed gives about the same schedule each time. A
transaction adds to counters in both groups, from what it read at its snapshot: an update that is lost, done twice, or
done in one group only shows in the counters. Messages may come twice, also long after the transaction has ended. Reads
go on meanwhile (`schedule_readers`). At the end all faults are over, and the leaders end what is abandoned: nothing may
be prepared any more, and every replica must have the model's rows at every timestamp.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from cluster_tablets_support import TABLE, Group, Server, batch, rows_at, soon, until
from examples import cases
from nyala.cluster.consensus.log.transaction_entries import PreparedNote, StagedNote
from nyala.cluster.tablets import large_parts, transactions
from nyala.cluster.tablets.exactly_once import ExactlyOnceTable
from nyala.cluster.tserver import abandoned_transactions
from nyala.cluster.tserver.abandoned_transactions import AbandonedTransactions
from nyala.cluster.wire.messages.methods import Call, LocateTablets
from nyala.errors import ClusterError, Error, SerializationFailure
from nyala.model.clock import LOGICAL_BITS
from nyala.model.store import Op, Timestamp, WriteBatch
from nyala.storage.log.logged_write import LoggedWrite
from nyala.storage.tablet.mvcc import MvccManager
from nyala.storage.tablet.prepared import PreparedWrites
from nyala.storage.writing import staged_write, tablet_write
from schedule_readers import PATIENCE, Readers

KEYS = 4
TABLETS = ("t1-p0", "t2-p0")
LEAD = 2_000 << LOGICAL_BITS


@dataclass
class Transaction:
    """A coordinator's knowledge of a transaction; `parts` is the new row of each key, by group."""

    id: str
    snapshot: int
    decider: int
    parts: dict[int, dict[int, int]]
    prepared: dict[int, int] = field(default_factory=dict)
    large: set[int] = field(default_factory=set)
    """Groups whose part comes in one STAGE entry for each key."""
    staged: dict[int, int] = field(default_factory=dict)
    """Number of entries of these that are acknowledged, by group."""
    is_refused: bool = False
    acknowledged: int = 0


def counters(values: dict[int, int]) -> pa.RecordBatch:
    """Rows with values of column n, by key."""
    return batch(values).set_column(2, "n", pa.array(list(values.values()), pa.int64()))


class Schedule:
    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.groups = [
            Group(tablet_id=tablet, prefix=f"{name}-", segment_bytes=2_000)
            for tablet, name in zip(TABLETS, "ab", strict=True)
        ]
        self.written: list[list[tuple[int, dict[int, int]]]] = [[], []]
        """Versions of plain writes, by group: (timestamp, new value by key)."""
        self.transactions: list[Transaction] = []
        self.active: list[Transaction] = []
        self.client = uuid.uuid4().hex
        self.calls = 0
        self.work: list[threading.Thread] = []
        self.failures: list[BaseException] = []
        self.sent: list[Callable[[], object]] = []
        """All messages of coordinators so far; any of them may arrive again."""
        self.readers = Readers(self.groups, self.rng, self.newest_acknowledged)
        for number in (0, 1):
            self.write(number, dict.fromkeys(range(KEYS), 0), Op.INSERT)
        self.ending = AbandonedTransactions(
            lambda: [server.replica for group in self.groups for server in group.running],
            SimpleNamespace(get=lambda address: SimpleNamespace(call=lambda request, _: self.serve(address, request))),
            lambda: ["master"],
            starts=False,
        )

    def close(self) -> None:
        for group in self.groups:
            for server in group.running:
                server.replica.tablet.prepared.end()
        for thread in self.work:
            thread.join(90)
        for group in self.groups:
            group.__exit__()

    def serve(self, address: str, request: Any) -> Any:
        """Stands for the master and the servers, as the end of abandoned transactions calls them."""
        if isinstance(request, LocateTablets):
            group = self.groups[TABLETS.index(request.tablet_ids[0])]
            peers = tuple(server.peer for server in group.servers)
            return SimpleNamespace(tablets=[SimpleNamespace(replicas=peers, leader=group.leader().peer.id)])
        server = next(s for group in self.groups for s in group.servers if s.peer.address == address)
        outcome = server.replica.transactions.decide(request.transaction, request.timestamp, soon(2))
        return SimpleNamespace(timestamp=outcome)

    def newest_acknowledged(self, number: int, key: int | None) -> int:
        """The greatest timestamp of the acknowledged changes of a key, or of any, in a group."""
        done = [*self.written[number]]
        done += [(found.acknowledged, found.parts.get(number, {})) for found in self.transactions]
        return max((at for at, values in done if key in values or (key is None and values)), default=0)

    # ---- steps

    def write(self, number: int, values: dict[int, int], op: Op = Op.UPSERT) -> None:
        self.calls += 1
        rows = counters(values)
        call = Call(self.client, self.calls, self.calls)
        result = self.groups[number].write(rows, op, call)
        self.written[number].append((result.timestamp, values))

    def plain(self) -> None:
        """Writes a key that no transaction adds to, or may have prepared."""
        number = self.rng.randrange(2)
        key = KEYS + self.rng.randrange(4)
        self.write(number, {key: self.rng.randrange(1000)})

    def begin(self) -> None:
        """Some transactions begin at one snapshot, if it can be read: keys may be prepared. If all coordinators are
        dead, these stay so until the tablets end what is abandoned."""
        snapshot = Timestamp(max(group.leader().clock.now() for group in self.groups))
        read: list[dict[int, int]] = []
        for group in self.groups:
            leader = group.leader()
            leader.clock.update(snapshot)
            try:
                rows = [
                    leader.replica.read_row([key], ["n"], snapshot, deadline=soon(PATIENCE))[0] for key in range(KEYS)
                ]
            except ClusterError:
                if not self.active:
                    self.end_abandoned()
                return
            read.append({key: row[0] for key, row in enumerate(rows) if row})
        for _ in range(self.rng.randint(1, 3)):
            numbers = (0, 1) if self.rng.random() < 0.9 else (self.rng.randrange(2),)
            parts = {
                number: {key: read[number][key] + 1 for key in self.rng.sample(range(KEYS), self.rng.randint(1, 3))}
                for number in numbers
            }
            found = Transaction(uuid.uuid4().hex, snapshot, self.rng.choice(numbers), parts)
            found.large = {number for number in numbers if self.rng.random() < 0.4}
            self.transactions.append(found)
            self.active.append(found)

    def go_on(self) -> None:
        """One step of a coordinator; it may die with it."""
        if not self.active:
            return self.begin()
        found = self.rng.choice(self.active)
        left = [number for number in found.parts if number not in found.prepared]
        if found.is_refused:
            self.active.remove(found)
            for number in found.parts:
                if self.rng.random() < 0.8:
                    self.resolve(found, number, 0)
        elif left:
            number = self.rng.choice(left)
            is_staged = number not in found.large or found.staged.get(number, 0) == len(found.parts[number])
            (self.prepare if is_staged else self.stage)(found, number)
        elif not found.acknowledged:
            early = [number for number, held in found.prepared.items() if held < max(found.prepared.values())]
            if early and self.rng.random() < 0.5:
                self.move(found, early[0])
            else:
                self.decide(found)
        else:
            self.active.remove(found)
            for number in found.parts:
                if number != found.decider and self.rng.random() < 0.7:
                    self.resolve(found, number, found.acknowledged)
        if self.rng.random() < 0.04 and found in self.active:
            self.active.remove(found)
        return None

    def stage(self, found: Transaction, number: int) -> None:
        place = found.staged.get(number, 0)
        rows = counters(dict([list(found.parts[number].items())[place]]))
        changes = WriteBatch(rows, Op.UPSERT, all_or_none=True, unchanged_since=Timestamp(found.snapshot))
        note = StagedNote(found.id, "t1", TABLETS[found.decider], place, TABLE.version, 1)
        group = self.groups[number]
        self.sent.append(lambda: group.leader().replica.transactions.stage(note, changes, 100, soon(0.2)))
        try:
            group.leader().replica.transactions.stage(note, changes, 100, soon(0.5))
            found.staged[number] = place + 1
        except SerializationFailure:
            found.is_refused = True
        except ClusterError:
            pass  # as in `prepare`

    def part(self, found: Transaction, number: int) -> tuple[PreparedNote, WriteBatch]:
        staged = found.staged.get(number, 0)
        note = PreparedNote(found.id, "t1", TABLETS[found.decider], staged=staged)
        rows = counters({} if staged else found.parts[number])
        return note, WriteBatch(rows, Op.UPSERT, all_or_none=True, unchanged_since=Timestamp(found.snapshot))

    def prepare(self, found: Transaction, number: int) -> None:
        group = self.groups[number]
        note, changes = self.part(found, number)
        self.sent.append(lambda: group.leader().replica.transactions.prepare(note, 0, changes, None, soon(0.2)))
        leader = group.leader()
        # The same proposals come again, as those of clients within a microsecond; a part may get a far later one.
        proposed = (leader.clock.latest + self.rng.choice([0, 1, LEAD]) >> LOGICAL_BITS) + 1 << LOGICAL_BITS
        try:
            found.prepared[number] = leader.replica.transactions.prepare(note, proposed, changes, None, soon(0.5))
        except SerializationFailure:
            found.is_refused = True
        except ClusterError:
            pass  # it may be prepared all the same; the coordinator tries again, or dies

    def move(self, found: Transaction, number: int) -> None:
        """The client needs one timestamp for all parts, to validate what it has read."""
        note, changes = self.part(found, number)
        with suppress(ClusterError, SerializationFailure):
            transactions = self.groups[number].leader().replica.transactions
            latest = max(found.prepared.values())
            found.prepared[number] = transactions.prepare(note, latest, changes, None, soon(0.5))

    def send_again(self) -> None:
        """An earlier message arrives once more, perhaps long after its transaction has ended."""
        if self.sent:
            with suppress(Error):
                self.rng.choice(self.sent[-30:])()

    def decide(self, found: Transaction) -> None:
        timestamp = max(found.prepared.values())
        group = self.groups[found.decider]
        self.sent.append(lambda: group.leader().replica.transactions.decide(found.id, timestamp, soon(0.2)))
        with suppress(ClusterError):
            leader = self.groups[found.decider].leader().replica
            outcome = leader.transactions.decide(found.id, timestamp, soon(0.5))
            found.acknowledged = outcome
            found.is_refused = not outcome

    def resolve(self, found: Transaction, number: int, timestamp: int) -> None:
        group = self.groups[number]
        self.sent.append(lambda: group.leader().replica.transactions.resolve(found.id, timestamp, soon(0.2)))
        with suppress(ClusterError):
            self.groups[number].leader().replica.transactions.resolve(found.id, timestamp, soon(0.5))

    def end_abandoned(self) -> None:
        self.ending.end_all()
        self.active = [found for found in self.active if self.rng.random() < 0.5]

    def transfer(self) -> None:
        with suppress(ClusterError):
            self.rng.choice(self.groups).leader().replica.consensus.transfer(None)

    def restart(self) -> None:
        self.join()
        self.rng.choice(self.rng.choice(self.groups).servers).restart()

    def cut(self) -> None:
        group = self.rng.choice(self.groups)
        if group.network.cut:
            group.network.cut.clear()
        else:
            group.network.cut.add(self.rng.choice(group.servers).peer.id)

    def maintain(self) -> None:
        server: Server = self.rng.choice(self.rng.choice(self.groups).servers)
        act = self.rng.choice(["flush", "flush", "compact"])

        def work(replica: Any = server.replica) -> None:
            try:
                getattr(replica, act)()
            except Error:
                pass  # the replica was closed, or has just been opened
            except BaseException as error:
                self.failures.append(error)

        self.work.append(threading.Thread(target=work, daemon=True))
        self.work[-1].start()
        self.work[-1].join(0.02)

    def join(self) -> None:
        """A flush waits for the outcomes: there must be some."""
        if not any(thread.is_alive() for thread in self.work):
            return
        self.recover()
        for thread in self.work:
            thread.join(90)
            assert not thread.is_alive(), "background work waits for an outcome that is known"
        self.work.clear()

    def step(self) -> None:
        weights: list[tuple[Callable[[], object], int]] = [
            (self.begin, 12), (self.go_on, 100), (self.plain, 12), (self.end_abandoned, 2), (self.maintain, 5),
            (self.transfer, 2), (self.restart, 1), (self.cut, 1), (self.send_again, 5), (self.readers.scan, 8),
            (self.readers.scan_latest, 4), (self.readers.look_up, 8), (self.readers.skew, 1),
        ]  # fmt: skip
        self.rng.choices([act for act, _ in weights], [weight for _, weight in weights])[0]()

    # ---- what must be so

    def recover(self) -> None:
        """All faults end, all coordinators are dead: the tablets end every transaction."""
        self.active.clear()
        for group in self.groups:
            group.network.cut.clear()
        for group in self.groups:
            until(lambda group=group: self.is_free(group))

    def is_free(self, group: Group) -> bool:
        self.ending.end_all()
        tablets = [server.replica.tablet for server in group.running]
        # Ended ones stay until the log is cut.
        return not any(tablet.prepared or any(not part.ended for _, part in tablet.staged) for tablet in tablets)

    def verify(self) -> None:
        self.recover()
        assert not self.failures, self.failures
        versions: list[list[tuple[int, dict[int, int]]]] = [list(written) for written in self.written]
        for found in self.transactions:
            group = self.groups[found.decider]
            outcome = group.call(lambda r, id=found.id: r.transactions.decide(id, 0, soon(2)))
            assert not found.acknowledged or outcome == found.acknowledged, "an acknowledged commit is lost"
            if outcome:
                for number, values in found.parts.items():
                    versions[number].append((outcome, values))
        self.readers.check([sorted(some, key=lambda version: version[0]) for some in versions])
        for number, group in enumerate(self.groups):
            ordered = sorted(versions[number], key=lambda version: version[0])
            times = [time for time, _ in ordered]
            now = max(group.leader().clock.now(), *times)
            for at in {now, *self.rng.sample(times, min(len(times), 6)), *(t - 1 for t in times[-3:])}:
                rows: dict[int, int] = {}
                for time_, values in ordered:
                    if time_ <= at:
                        rows |= values
                expected = [(key, f"v{key}", n) for key, n in sorted(rows.items())]
                for server in group.running:
                    assert rows_at(server.replica, at) == expected, (number, server.peer.id, at)
            counted = dict.fromkeys(range(KEYS), 0)
            for found in self.transactions:
                is_committed = any(values is found.parts.get(number) for _, values in ordered)
                for key in found.parts.get(number, ()) if is_committed else ():
                    counted[key] += 1
            latest: dict[int, int] = {}
            for _, values in ordered:
                latest |= values
            assert {key: latest[key] for key in range(KEYS)} == counted, "an update is lost"


def run(seed: int, steps: int = 140) -> Schedule:
    schedule = Schedule(seed)
    try:
        for _ in range(2):
            for _ in range(steps):
                schedule.step()
            schedule.verify()
        return schedule
    finally:
        schedule.close()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abandoned_transactions, "PATIENCE", 0.0)
    monkeypatch.setattr(large_parts, "STAGED_SECONDS", 0.0)
    # One thread does everything: no outcome comes while it waits for one.
    monkeypatch.setattr(transactions, "CONFLICT_SECONDS", 0.02)


@pytest.mark.parametrize("seed", range(cases(6)))
def test_transactions_are_atomic_and_ended_whatever_dies(seed: int) -> None:
    schedule = run(seed)
    assert any(found.acknowledged for found in schedule.transactions)


def _resolve_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AbandonedTransactions, "_outcome", lambda self, replica, note: 0)


def _no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    note = ExactlyOnceTable.note
    monkeypatch.setattr(
        ExactlyOnceTable, "note", lambda self, header, *rest: None if header.is_lasting else note(self, header, *rest)
    )


def _no_restamp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoggedWrite, "restamp", lambda self, timestamp: None)


def _no_conflicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tablet_write, "refuse_changed_keys", lambda *args: None)


def _no_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoggedWrite, "undo", lambda self: None)


def _no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_write.StagedWrite, "check", lambda self: None)


def _lost_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    read = large_parts._read
    monkeypatch.setattr(large_parts, "_read", lambda consensus, entries: read(consensus, entries)[:-1])


def _no_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_new = MvccManager.hold_new

    def released(self: MvccManager, proposed: int) -> int:
        timestamp = hold_new(self, proposed)
        self.release(timestamp)
        return timestamp

    monkeypatch.setattr(MvccManager, "hold_new", released)
    monkeypatch.setattr(MvccManager, "hold", lambda self, timestamp: None)


def _no_waiting_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PreparedWrites, "holding", lambda self, key, until=None: None)


PLANTS = [
    _resolve_unasked, _no_record, _no_restamp, _no_conflicts, _no_undo, _no_second_look, _lost_entry, _no_hold,
    _no_waiting_look_ups,
]  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_planted_faults_are_caught(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(10):
            run(seed)
