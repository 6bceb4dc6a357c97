"""A COMMIT is refused for keys and reads that another write has changed since the snapshot, wherever rows and their
history are by now, and for nothing else."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from nyala.errors import HistoryGone, IntegrityError, NotFound, RowChanged, SerializationFailure
from nyala.model.predicates import ColumnPredicate, Range
from nyala.model.schema import Table
from nyala.model.store import Op, TableWrite, Timestamp, TransactionChanges, WriteBatch
from nyala.model.transactions import TableRead
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem
from nyala.storage.maintenance import history
from nyala.storage.maintenance.delta_compaction import compact_major, compact_minor
from nyala.storage.maintenance.tablet_flush import flush, flush_deltas
from row_path_support import both_paths, few_rows
from tablet_support import HASHED, ONE_TABLET, batch, definition, insert, keys_of, load, read

each_path = pytest.fixture(params=["rows", "batches"])(both_paths)

ROWS_BY_KEY = (Op.DELETE, Op.DELETE_IGNORE)


def rows(keys, text: str, op: Op) -> WriteBatch:
    found = batch(keys, text)
    return WriteBatch(found.select(["k"]) if op in ROWS_BY_KEY else found, op, all_or_none=True)


def commit(
    db: Database, snapshot: Timestamp, writes: list[tuple[Table, WriteBatch]], reads: tuple[TableRead, ...] = ()
) -> Timestamp:
    changes = tuple(TableWrite(table, write) for table, write in writes)
    return db.commit_transaction(TransactionChanges(snapshot, changes, reads))


def key_batch(keys) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(list(keys), pa.int64())})


# ---- against a model -------------------------------------------------------------------------------------------------

KEYS = st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True)
OPS = st.sampled_from([Op.INSERT_IGNORE, Op.UPSERT, Op.UPDATE_IGNORE, Op.DELETE_IGNORE])


class ConflictMachine(RuleBasedStateMachine):
    """The model is the list of all versions of each key: (timestamp, text, or None where it was deleted)."""

    @initialize(partitions=st.sampled_from([ONE_TABLET, HASHED]), few=st.sampled_from([150, 6, -1]))
    def open_store(self, partitions, few):
        self.limited = few_rows(few)
        self.limited.__enter__()
        self.fs = CrashableFileSystem()
        self.db = Database("db", fs=self.fs, background=False)
        self.table = self.db.create_table(definition(partitions=partitions))
        self.log = self.db.create_table(definition("log"))
        self.versions: dict[int, list[tuple[int, str | None]]] = {}
        self.snapshots = [self.db.now()]
        self.number = 0

    # ---- what others do ----------------------------------------------------------------------------------------------

    def text(self) -> str:
        self.number += 1
        return f"{self.number % 5}-"

    def at(self, key: int, timestamp: int) -> str | None:
        found = [text for time, text in self.versions.get(key, []) if time <= timestamp]
        return found[-1] if found else None

    def note(self, keys: list[int], op: Op, text: str, timestamp: int) -> None:
        for key in keys:
            before = self.at(key, timestamp)
            is_void = {
                Op.INSERT_IGNORE: before is not None,
                Op.INSERT: False,
                Op.UPSERT: False,
                Op.UPDATE_IGNORE: before is None,
                Op.DELETE_IGNORE: before is None,
            }
            if not is_void[op]:
                value = None if op is Op.DELETE_IGNORE else f"{text}{key}"
                self.versions.setdefault(key, []).append((timestamp, value))

    @rule(keys=KEYS, op=OPS)
    def write(self, keys, op):
        text = self.text()
        result = self.db.write(self.table, rows(keys, text, op))
        self.note(keys, op, text, result.timestamp)

    @rule(key=st.integers(0, 20), op=OPS)
    def write_row(self, key, op):
        text = self.text()
        row = {"k": key} if op is Op.DELETE_IGNORE else {"k": key, "v": f"{text}{key}"}
        self.note([key], op, text, self.db.write_row(self.table, op, row).timestamp)

    @rule(keys=KEYS)
    def load(self, keys):
        fresh = [key for key in keys if self.at(key, self.db.now()) is None]
        text = self.text()
        load(self.db, self.table, fresh, text=text)
        self.note(fresh, Op.INSERT, text, self.db.now())

    @rule()
    def remember(self):
        self.snapshots.append(self.db.now())

    # ---- what the background does ------------------------------------------------------------------------------------

    @rule(way=st.sampled_from(["flush", "deltas", "minor", "major", "rowsets"]))
    def maintain(self, way):
        for tablet in self.db.open_table(self.table).tablets:
            if way == "flush":
                flush(tablet)
            elif way == "rowsets":
                self.db.compact_table(self.table)
                return
            for stored in list(tablet.state.rowsets):
                if way == "deltas":
                    flush_deltas(tablet, stored)
                elif way == "minor" and len(stored.redo) > 1:
                    compact_minor(tablet, stored)
                elif way == "major" and stored.redo:
                    compact_major(tablet, stored, [tablet.table.schema.columns[1].id])

    @rule()
    def reopen(self):
        self.db.close()
        self.db = Database("db", fs=self.fs, background=False)
        self.table, self.log = self.db.table("t"), self.db.table("log")

    # ---- transactions ------------------------------------------------------------------------------------------------

    def touched(self, key: int, since: int) -> bool:
        return any(time > since for time, _ in self.versions.get(key, []))

    @rule(data=st.data(), keys=KEYS, op=st.sampled_from([Op.UPSERT, Op.DELETE_IGNORE]))
    def transaction_writes(self, data, keys, op):
        snapshot = data.draw(st.sampled_from(self.snapshots))
        text, state = self.text(), read(self.db, self.table)
        conflicts = [key for key in keys if self.touched(key, snapshot)]
        writes = [(self.table, rows(keys, text, op)), (self.log, rows([self.number], "", Op.INSERT))]
        if conflicts:
            with pytest.raises(SerializationFailure) as raised:
                commit(self.db, snapshot, writes)
            assert any(f"(k = {key}) of table t " in str(raised.value) for key in conflicts)
            assert read(self.db, self.table) == state and self.number not in keys_of(self.db, self.log)
        else:
            self.note(keys, op, text, commit(self.db, snapshot, writes))
            assert self.number in keys_of(self.db, self.log)

    @rule(data=st.data(), low=st.integers(0, 20), digit=st.sampled_from([None, *"01234"]))
    def transaction_reads(self, data, low, digit):
        snapshot = data.draw(st.sampled_from(self.snapshots))
        high = low + data.draw(st.integers(0, 6))
        predicates: list[ColumnPredicate] = [Range("k", low, high)]
        if digit is not None:
            predicates.append(Range("v", f"{digit}-", f"{digit}."))
        now = self.db.now()

        def satisfies(key: int, time: int) -> bool:
            text = self.at(key, time)
            return low <= key <= high and text is not None and digit in (None, text[0])

        conflicts = [
            key
            for key in self.versions
            if self.touched(key, snapshot) and (satisfies(key, snapshot) or satisfies(key, now))
        ]
        self.check_reads(snapshot, TableRead(self.table, tuple(predicates)), bool(conflicts))

    @rule(data=st.data(), keys=KEYS)
    def transaction_looks_up(self, data, keys):
        snapshot = data.draw(st.sampled_from(self.snapshots))
        conflicts = [key for key in keys if self.touched(key, snapshot)]
        self.check_reads(snapshot, TableRead(self.table, (), key_batch(keys)), bool(conflicts))

    def check_reads(self, snapshot: Timestamp, table_read: TableRead, is_refused: bool) -> None:
        self.number += 1
        for writes in ([], [(self.log, rows([self.number], "", Op.INSERT))]):
            if is_refused:
                with pytest.raises(SerializationFailure, match="of table t was changed by another"):
                    commit(self.db, snapshot, writes, (table_read,))
            elif writes:
                assert commit(self.db, snapshot, writes, (table_read,)) > snapshot
            else:
                assert commit(self.db, snapshot, writes, (table_read,)) == snapshot

    @rule(data=st.data(), keys=KEYS)
    def statement_updates(self, data, keys):
        snapshot = data.draw(st.sampled_from(self.snapshots))
        text, now = self.text(), self.db.now()
        present = [key for key in keys if self.at(key, now) is not None]
        if not present:
            return
        write = WriteBatch(batch(present, text), Op.UPDATE, all_or_none=True, unchanged_since=snapshot)
        result = self.db.write(self.table, write)
        refused = {present[error.row] for error in result.errors}
        assert all(isinstance(error.error, RowChanged) for error in result.errors)
        differing = {key for key in present if self.at(key, snapshot) != self.at(key, now)}
        assert differing <= refused <= {key for key in present if self.touched(key, snapshot)}
        if not refused:
            self.note(present, Op.UPSERT, text, result.timestamp)

    @invariant()
    def rows_are_those_of_the_model(self):
        now = self.db.now()
        expected = [(key, text) for key in sorted(self.versions) if (text := self.at(key, now)) is not None]
        assert read(self.db, self.table) == expected

    def teardown(self):
        self.db.check()
        self.db.close()
        self.limited.__exit__(None, None, None)


TestConflicts = ConflictMachine.TestCase
TestConflicts.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


# ---- single cases ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("each_path")
def test_keys_that_came_and_went_are_conflicts_of_writes_and_not_of_reads():
    with Database(background=False) as db:
        table, other = db.create_table(definition(partitions=HASHED)), db.create_table(definition("other"))
        insert(db, table, [1, 2])
        before = db.now()
        insert(db, table, [5])
        db.write(table, rows([5], "", Op.DELETE))
        db.flush()
        write = [(other, rows([1], "x", Op.UPSERT))]
        assert commit(db, before, write, (TableRead(table),)) > before
        with pytest.raises(SerializationFailure, match=r"row with key \(k = 5\) of table t was changed"):
            commit(db, before, [(table, rows([5], "mine", Op.INSERT))])


@pytest.mark.usefixtures("each_path")
def test_what_is_older_than_the_history_is_unknown():
    with Database(background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        insert(db, table, range(30))
        db.flush()
        before = db.now()
        db.write(table, rows(range(30), "x", Op.UPDATE))
        db.compact_table(table)
        for tablet in db.open_table(table).tablets:
            assert history.collect(tablet, db.now()).freed
        with pytest.raises(HistoryGone, match=r"the transaction began at .* is known only since .*; retry"):
            commit(db, before, [(table, rows([1], "y", Op.UPSERT))])
        for table_read in (TableRead(table), TableRead(table, (), key_batch([1]))):
            with pytest.raises(HistoryGone):
                commit(db, before, [], (table_read,))
        refused = db.write(table, WriteBatch(batch([1]), Op.UPDATE, all_or_none=True, unchanged_since=before)).errors
        assert isinstance(refused[0].error, RowChanged)
        commit(db, db.now(), [(table, rows([1], "y", Op.UPSERT))], (TableRead(table),))
        assert dict(read(db, table))[1] == "y1"


@pytest.mark.usefixtures("each_path")
def test_a_statement_of_any_number_of_rows_is_checked():
    with Database(background=False) as db:
        table = db.create_table(definition())
        load(db, table, range(40_000))
        before = db.now()
        db.write(table, rows([7], "other", Op.UPDATE))
        db.write(table, rows([8], "v", Op.UPDATE))  # as it was: no conflict
        write = WriteBatch(batch(range(40_000), "mine"), Op.UPDATE, all_or_none=True, unchanged_since=before)
        (error,) = db.write(table, write).errors
        assert error.row == 7 and isinstance(error.error, RowChanged)


@pytest.mark.usefixtures("each_path")
def test_what_the_snapshot_rules_out_is_an_error_of_its_row():
    """Not a conflict: the transaction was wrong about its own snapshot."""
    with Database(background=False) as db:
        table = db.create_table(definition(partitions=HASHED))
        insert(db, table, [1])
        for op, key in ((Op.INSERT, 1), (Op.UPDATE, 2), (Op.DELETE, 2)):
            with pytest.raises(IntegrityError) as raised:
                commit(db, db.now(), [(table, rows(range(10, 20), "x", Op.UPSERT)), (table, rows([key], "x", op))])
            assert type(raised.value) is (NotFound if key == 2 else IntegrityError) or op is Op.INSERT
        assert keys_of(db, table) == [1]


# ---- at the same time ------------------------------------------------------------------------------------------------


class SlowSyncs(CrashableFileSystem):
    """Blocks the threads whose file matches, behind its sync, until it is released."""

    def __init__(self, part: str) -> None:
        super().__init__(self._wait)
        self.part = part
        self.is_slow = False
        self.reached = threading.Semaphore(0)
        self.go = threading.Event()

    def _wait(self, what: str) -> None:
        if self.is_slow and self.part in what and what.startswith("sync "):
            self.reached.release()
            assert self.go.wait(20)


@pytest.mark.usefixtures("each_path")
@pytest.mark.parametrize("part", ["/wal/", "/commits/"])
@pytest.mark.parametrize("serializable", [False, True])
def test_write_skew_is_refused_where_reads_are_validated(part, serializable):
    """Two doctors are on call; each reads that both are, and goes off call. The second COMMIT comes while the first one
    is in memory and its fate is not decided."""
    fs = SlowSyncs(part)
    with Database("db", fs=fs, background=False) as db:
        doctors = db.create_table(definition("doctors", HASHED))
        # With a log of their own in another table, so that the COMMIT of each is over several tablets.
        shifts = db.create_table(definition("shifts", HASHED))
        insert(db, doctors, [1, 2], "on")
        insert(db, shifts, range(10))
        snapshot = db.now()
        reads = (TableRead(doctors, (Range("v", "on", "oo"),)),) if serializable else ()
        outcomes: list[object] = [None, None]

        def leave(doctor: int) -> None:
            try:
                off = rows([doctor], "off", Op.UPDATE)
                log = rows([100 * doctor + number for number in range(10)], "", Op.INSERT)
                outcomes[doctor - 1] = commit(db, snapshot, [(doctors, off), (shifts, log)], reads)
            except SerializationFailure as error:
                outcomes[doctor - 1] = error

        fs.is_slow = True
        first = threading.Thread(target=leave, args=[1])
        first.start()
        assert fs.reached.acquire(timeout=20)
        second = threading.Thread(target=leave, args=[2])
        second.start()
        if serializable:
            second.join(20)
            assert outcomes[0] is None and isinstance(outcomes[1], SerializationFailure)
        fs.go.set()
        first.join(20)
        second.join(20)
        assert isinstance(outcomes[0], int)
        left = [f"off{d}" if isinstance(outcomes[d - 1], int) else f"on{d}" for d in (1, 2)]
        assert [value for _, value in read(db, doctors)] == left
        assert left == (["off1", "on2"] if serializable else ["off1", "off2"])


@pytest.mark.usefixtures("each_path")
def test_the_same_keys_meet_while_the_first_is_undecided():
    """The second one waits for the decision, then finds the conflict."""
    fs = SlowSyncs("/commits/")
    with Database("db", fs=fs, background=False) as db:
        one, two = db.create_table(definition("one", HASHED)), db.create_table(definition("two", HASHED))
        insert(db, one, range(10))
        insert(db, two, range(10))
        snapshot = db.now()
        outcomes: dict[str, object] = {}

        def change(name: str) -> None:
            try:
                both = [(table, rows(range(10), name, Op.UPDATE)) for table in (two, one)]
                outcomes[name] = commit(db, snapshot, both)
            except SerializationFailure as error:
                outcomes[name] = error

        fs.is_slow = True
        threads = [threading.Thread(target=change, args=[name]) for name in ("a", "b")]
        threads[0].start()
        assert fs.reached.acquire(timeout=20)
        threads[1].start()
        threads[1].join(0.2)
        assert not outcomes
        fs.go.set()
        for thread in threads:
            thread.join(20)
        assert isinstance(outcomes["a"], int) and isinstance(outcomes["b"], SerializationFailure)
        assert {value[0] for table in (one, two) for _, value in read(db, table)} == {"a"}
