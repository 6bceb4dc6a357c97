"""The MemRowSet: keys, visibility, mutations, joining of small chunks; and the MVCC manager that decides what is
visible."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from nyala.errors import DeadlineExceeded
from nyala.model.clock import HybridClock
from nyala.model.keys.keys import Keys
from nyala.model.predicates import IsNull, Range
from nyala.model.schema import ColumnSchema, Schema, assign_column_ids
from nyala.model.store import ScanCounters
from nyala.model.types import BIGINT, STRING
from nyala.storage.deltas.deltas import DeltaColumn, DeltaKind, Deltas, apply_patch, resolve
from nyala.storage.rowsets.memrowset import MemRowSet, index_keys
from nyala.storage.rowsets.memrowset_chunks import FAN_IN, PENDING_ROWS, Chunks
from nyala.storage.tablet.mvcc import MvccManager, start_together
from tablet_support import SCHEMA as PLAIN_SCHEMA
from tablet_support import batch

SCHEMA = Schema(assign_column_ids(PLAIN_SCHEMA.columns), 1)


def insert(memrowset: MemRowSet, rows: pa.RecordBatch, timestamp: int):
    rows = pa.RecordBatch.from_arrays(rows.columns, schema=memrowset.schema.arrow)
    keys = index_keys(Keys.from_rows(memrowset.schema, rows))
    memrowset.insert(rows, keys, timestamp, timestamp)
    return keys


def scan(memrowset: MemRowSet, timestamp: int, predicates=(), start=0, stop=None) -> list[int]:
    snapshot = memrowset.snapshot()
    stop = snapshot.row_count if stop is None else stop
    batches = snapshot.scan([memrowset.schema.columns[0]], predicates, start, stop, timestamp, ScanCounters())
    found = []
    for each in batches:
        assert 0 < each.length <= 65_536
        found += each.column(0).values().tolist()
    return found


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.integers(1, 600), max_size=30), st.integers(0, 40), st.sets(st.integers(1, 30)))
def test_rows_at_or_below_the_timestamp_are_visible_unless_aborted(sizes, timestamp, aborted):
    memrowset = MemRowSet(SCHEMA)
    visible, kept, first = [], [], 0
    for stamp, size in enumerate(sizes, 1):
        keys = insert(memrowset, batch(range(first, first + size)), stamp)
        if stamp in aborted:
            memrowset.abort(keys, stamp)
        else:
            kept += range(first, first + size)
            visible += range(first, first + size) if stamp <= timestamp else ()
        first += size
    assert scan(memrowset, timestamp) == visible
    assert scan(memrowset, timestamp, [Range("k", 10, 700)]) == [k for k in visible if 10 <= k <= 700]
    rows, stamps = memrowset.snapshot().to_table()
    assert rows["k"].to_pylist() == kept
    assert len(stamps) == len(kept)
    found = memrowset.contains(index_keys(Keys.from_rows(SCHEMA, batch(range(first + 1)))))
    present = set(kept)
    assert (np.zeros(first + 1, bool) if found is None else found).tolist() == [k in present for k in range(first + 1)]


def test_single_rows_are_joined_and_keep_their_order():
    memrowset = MemRowSet(SCHEMA)
    count = FAN_IN * 3 + 5
    for key in range(count):
        insert(memrowset, batch([key * 7 % count]), key + 1)
    snapshot = memrowset.snapshot()
    assert [chunk.rows.num_rows for chunk in snapshot.chunks] == [FAN_IN] * 3 + [1] * 5
    assert scan(memrowset, count) == [key * 7 % count for key in range(count)]
    assert scan(memrowset, 10) == [key * 7 % count for key in range(10)]


def test_parts_of_a_snapshot_tile_it_and_later_rows_do_not_show():
    memrowset = MemRowSet(SCHEMA)
    insert(memrowset, batch(range(100_000)), 1)
    insert(memrowset, batch(range(100_000, 100_010)), 2)
    snapshot = memrowset.snapshot()
    insert(memrowset, batch([100_010]), 3)
    found = []
    for start, stop in [(0, 65_536), (65_536, 99_999), (99_999, 100_010)]:
        for each in snapshot.scan(SCHEMA.columns, (), start, stop, 9, ScanCounters()):
            found += each.column(0).values().tolist()
    assert found == list(range(100_010))


def test_columns_are_joined_only_when_touched_and_nulls_pass():
    memrowset = MemRowSet(SCHEMA)
    insert(memrowset, pa.record_batch({"k": [1, 2], "v": pa.array([None, "b"])}), 1)
    (found,) = memrowset.snapshot().scan(SCHEMA.columns, [IsNull("v")], 0, 2, 1, ScanCounters())
    assert not found.is_loaded(0)
    assert found.to_arrow(["k", "v"]).to_pylist() == [{"k": 1, "v": None}]


def test_composite_keys_are_told_apart():
    schema = Schema((ColumnSchema("a", STRING, False), ColumnSchema("b", BIGINT, False)), 2)
    memrowset = MemRowSet(schema)
    insert(memrowset, pa.record_batch({"a": ["x", "x"], "b": [1, 2]}), 1)
    probes = Keys.from_values((STRING, BIGINT), [("x", 2), ("x", 3), ("y", 1)])
    assert memrowset.contains(index_keys(probes)).tolist() == [True, False, False]


def test_a_table_that_was_altered_is_read_by_column_ids():
    key, added = ColumnSchema("key", BIGINT, False, 0), ColumnSchema("new", STRING, id=3, initial="old row")
    before = Schema((replace(key, name="k"), ColumnSchema("v", STRING, id=1), ColumnSchema("w", BIGINT, id=2)), 1)
    after = Schema((key, added, replace(before.columns[2], name="w2")), 1)
    memrowset = MemRowSet(before)
    insert(memrowset, pa.record_batch({"k": [1, 2], "v": ["a", "b"], "w": [10, 20]}), 1)
    memrowset.mutations.use_schema(after)
    memrowset.mutate_row(1, DeltaKind.UPDATE, {3: "set", 2: 21}, 2, 2)
    snapshot = memrowset.snapshot(after)
    (found,) = snapshot.scan(after.columns, [Range("w2", 0, 100)], 0, 2, 2, ScanCounters())
    assert found.to_arrow(after.names).to_pylist() == [
        {"key": 1, "new": "old row", "w2": 10},
        {"key": 2, "new": "set", "w2": 21},
    ]
    assert list(snapshot.scan(after.columns, [Range.equal("new", "none")], 0, 2, 2, ScanCounters())) == []
    assert memrowset.get(0, after.columns, 2) == (1, "old row", 10)
    assert memrowset.get(1, after.columns, 2) == (2, "set", 21)
    assert snapshot.image(2).rows.to_pydict() == {"key": [1, 2], "new": ["old row"] * 2, "w2": [10, 20]}


# ---- mutations, against a model ----------------------------------------------------------------------------------

WIDE = Schema(
    (ColumnSchema("k", BIGINT, False, 0), ColumnSchema("v", STRING, id=1), ColumnSchema("n", BIGINT, id=2)), 1
)
KEYS = st.integers(0, 30)
TEXTS = st.sampled_from(["", "a", "text", None])


class MemRowSetMachine(RuleBasedStateMachine):
    """The model is the list of all writes, `(timestamp, {key: (text, number) or None})`, those that failed removed:
    the state at a time is what the writes up to it leave. Snapshots must stay as they were."""

    snapshots = Bundle("snapshots")

    @initialize()
    def begin(self):
        self.memrowset = MemRowSet(WIDE)
        self.clock = 0
        self.writes: list[tuple[int, dict]] = []
        self.undecided: list[tuple[int, list[int]]] = []
        self.seen: dict[int, dict] = {}

    def state(self, timestamp: int) -> dict[int, tuple]:
        rows: dict[int, tuple | None] = {}
        for stamp, changes in self.writes:
            if stamp <= timestamp:
                rows.update(changes)
        return {key: row for key, row in rows.items() if row is not None}

    def write(self, changes: dict, inserted: list[int]) -> None:
        self.writes.append((self.clock, changes))
        self.undecided.append((self.clock, inserted))

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    @rule(keys=st.lists(KEYS, min_size=1, max_size=8, unique=True), text=TEXTS)
    def insert_batch(self, keys, text):
        new = [key for key in keys if self.memrowset.find_one(key) < 0]
        if new:
            now = self.tick()
            rows = {"k": new, "v": pa.array([text] * len(new), pa.string()), "n": [now] * len(new)}
            self.memrowset.insert(pa.RecordBatch.from_pydict(rows, WIDE.arrow), new, now, now)
            self.write(dict.fromkeys(new, (text, now)), new)

    @rule(key=KEYS, text=TEXTS)
    def insert_row(self, key, text):
        now = self.tick()
        row = self.memrowset.find_one(key)
        if row < 0:
            self.memrowset.insert_row((key, text, now), key, now, now)
            self.write({key: (text, now)}, [key])
        elif self.memrowset.find_one_live(key) < 0:
            self.memrowset.mutate_row(row, DeltaKind.REINSERT, {1: text, 2: now}, now, now)
            self.write({key: (text, now)}, [])

    @rule(keys=st.lists(KEYS, min_size=1, max_size=8, unique=True), texts=st.booleans(), numbers=st.booleans())
    def update_batch(self, keys, texts, numbers):
        alive = self.state(self.clock)
        keys = sorted((key for key in keys if key in alive), key=self.memrowset.find_one)
        if not keys or not (texts or numbers):
            return
        now, places = self.tick(), np.arange(len(keys), dtype=np.int64)
        columns = {1: DeltaColumn(places, pa.array([f"u{now}"] * len(keys)))} if texts else {}
        if numbers:
            columns[2] = DeltaColumn(places, pa.array([None] * len(keys), pa.int64()))
        self.memrowset.mutate(Deltas.at(now, self.memrowset.find(keys), DeltaKind.UPDATE, columns), now)
        self.write({k: (f"u{now}" if texts else alive[k][0], None if numbers else alive[k][1]) for k in keys}, [])

    @rule(key=KEYS, text=TEXTS)
    def update_row(self, key, text):
        row, alive = self.memrowset.find_one_live(key), self.state(self.clock)
        if row >= 0:
            now = self.tick()
            self.memrowset.mutate_row(row, DeltaKind.UPDATE, {1: text}, now, now)
            self.write({key: (text, alive[key][1])}, [])

    @rule(keys=st.lists(KEYS, min_size=1, max_size=8, unique=True))
    def delete(self, keys):
        keys = sorted((key for key in keys if key in self.state(self.clock)), key=self.memrowset.find_one)
        if keys:
            now = self.tick()
            self.memrowset.mutate(Deltas.at(now, self.memrowset.find(keys), DeltaKind.DELETE), now)
            self.write(dict.fromkeys(keys), [])

    @rule(count=st.integers(1, 3))
    def fail_the_newest_writes(self, count):
        for _ in range(min(count, len(self.undecided))):
            timestamp, inserted = self.undecided.pop()
            self.memrowset.abort(inserted, timestamp)
            self.writes = [write for write in self.writes if write[0] != timestamp]

    @rule()
    def decide(self):
        self.undecided.clear()

    @rule(target=snapshots)
    def take_snapshot(self):
        # A reader's timestamp is above no write in flight.
        self.undecided.clear()
        return self.memrowset.snapshot(), self.clock, self.state(self.clock)

    @rule(taken=snapshots)
    def read_snapshot(self, taken):
        snapshot, timestamp, rows = taken
        assert read(snapshot, timestamp) == rows

    @rule(taken=snapshots, back=st.integers(0, 20), key=KEYS)
    def read_the_past(self, taken, back, key):
        snapshot, timestamp, _ = taken
        then = max(timestamp - back, 0)
        expected = self.state(then)
        assert read(snapshot, then) == expected
        assert read(snapshot, then, [Range("k", key, key + 5)]) == {
            k: row for k, row in expected.items() if key <= k <= key + 5
        }
        row = self.memrowset.find_one(key)
        found = None if row < 0 else self.memrowset.get(row, WIDE.columns[1:], then)
        assert found == expected.get(key)

    @rule(taken=snapshots)
    def image_has_everything(self, taken):
        snapshot, timestamp, rows = taken
        image = snapshot.image(timestamp)
        patches = resolve((), (image.mutations,), timestamp)
        arrays = [image.rows.column(c.name).combine_chunks() for c in WIDE.columns]
        place_of = {number: place for place, number in enumerate(image.numbers.tolist())}
        for column, patch in patches.columns.items():
            places = np.array([place_of[row] for row in patch.rows.tolist()], np.int64)
            arrays[column] = apply_patch(arrays[column], type(patch)(places, patch.values))
        hidden = {place_of[row] for row in patches.hidden.tolist()}
        shown = [row for place, row in enumerate(zip(*(a.to_pylist() for a in arrays))) if place not in hidden]
        assert {key: (text, number) for key, text, number in shown} == rows
        assert (image.inserted <= timestamp).all()
        later = self.memrowset.mutations_after(timestamp)
        assert not len(later) or later.oldest > timestamp

    @invariant()
    def keys_are_those_that_live(self):
        if not hasattr(self, "memrowset"):
            return
        alive = self.state(self.clock)
        keys = list(range(31))
        found = self.memrowset.find_live(keys)
        assert {k for k, row in zip(keys, [-1] * 31 if found is None else found.tolist()) if row >= 0} == set(alive)
        assert [self.memrowset.find_one_live(key) for key in keys] == ([-1] * 31 if found is None else found.tolist())
        found = self.memrowset.contains(keys)
        assert (np.zeros(31, bool) if found is None else found).tolist() == [key in alive for key in keys]


def read(snapshot, timestamp: int, predicates=()) -> dict[int, tuple]:
    found = {}
    for each in snapshot.scan(WIDE.columns, predicates, 0, snapshot.row_count, timestamp, ScanCounters()):
        for key, text, number in zip(*(each.column(i).to_arrow().to_pylist() for i in range(3))):
            assert key not in found
            found[key] = (text, number)
    return found


TestMemRowSetModel = MemRowSetMachine.TestCase
TestMemRowSetModel.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


def test_single_rows_become_chunks_when_there_are_many_or_a_batch_comes():
    memrowset = MemRowSet(SCHEMA)
    for key in range(PENDING_ROWS + 3):
        memrowset.insert_row((key, f"v{key}"), key, key + 1, key + 1)
    insert(memrowset, batch([1000]), 300)
    memrowset.insert_row((1001, None), 1001, 301, 301)
    assert memrowset.row_count == PENDING_ROWS + 5
    assert [
        memrowset.get(row, SCHEMA.columns, 400) for row in (0, PENDING_ROWS, PENDING_ROWS + 3, PENDING_ROWS + 4)
    ] == [
        (0, "v0"),
        (PENDING_ROWS, f"v{PENDING_ROWS}"),
        (1000, "v1000"),
        (1001, None),
    ]
    assert memrowset.get(PENDING_ROWS + 4, SCHEMA.columns, 300) is None
    assert [len(chunk) for chunk in memrowset.snapshot().chunks] == [PENDING_ROWS, 3, 1, 1]
    assert scan(memrowset, 400) == [*range(PENDING_ROWS + 3), 1000, 1001]
    assert memrowset.get(PENDING_ROWS + 4, SCHEMA.columns, 301) == (1001, None)


def test_a_snapshot_keeps_to_its_pending_rows_while_more_come():
    memrowset = MemRowSet(SCHEMA)
    column = SCHEMA.columns[1]
    snapshots = []
    for key in range(PENDING_ROWS + 40):
        memrowset.insert_row((key, None if key % 3 == 0 else f"v{key}"), key, key + 1, key + 1)
        if key % 7 == 0:
            snapshots.append(memrowset.snapshot())
            if key % 2:  # some are read at once, so that the next finds a part of the column made
                snapshots[-1].column_vector(column, snapshots[-1].chunks)
    for number, snapshot in reversed([*enumerate(snapshots)]):
        expected = [None if key % 3 == 0 else f"v{key}" for key in range(7 * number + 1)]
        assert snapshot.column_vector(column, snapshot.chunks).to_arrow().to_pylist() == expected
        assert snapshot.column_array(column, snapshot.chunks).to_pylist() == expected
        assert snapshot.to_table()[1].tolist() == [*range(1, 7 * number + 2)]


class CountedLock:
    """Counts how often it is taken; `before` is what a writer does who had it until then."""

    def __init__(self) -> None:
        self.taken = 0
        self.before = lambda: None

    def __enter__(self) -> None:
        self.taken += 1
        self.before()

    def __exit__(self, *error: object) -> None:
        pass


def test_rows_are_located_without_the_mutex_unless_a_writer_is_in_the_way():
    mutex, chunks = CountedLock(), Chunks(SCHEMA)
    chunks.append(batch(range(10)).cast(SCHEMA.arrow), 5)
    chunks.append_row(tuple(batch([10]).to_pylist()[0].values()), 6)
    wanted = [9, -1, 10, 0]
    where = [None if located is None else (located[0], located[3]) for located in chunks.locate(wanted, mutex)]
    assert where == [(5, 9), None, (6, 0), (5, 0)]
    assert mutex.taken == 0
    writing = chunks._changed()
    writing.__enter__()
    mutex.before = lambda: writing.__exit__(None, None, None)
    assert len(chunks.locate(wanted, mutex)) == 4
    assert mutex.taken == 1


def test_what_was_mixed_by_a_writer_is_located_again(monkeypatch):
    mutex, chunks, real = CountedLock(), Chunks(SCHEMA), Chunks._locate
    chunks.append(batch(range(10)).cast(SCHEMA.arrow), 5)

    def beside_a_writer(self, rows):
        found = real(self, rows)
        if not mutex.taken:
            chunks.append(batch(range(10, 20)).cast(SCHEMA.arrow), 6)
            found = [None]
        return found

    monkeypatch.setattr(Chunks, "_locate", beside_a_writer)
    (located,) = chunks.locate([3], mutex)
    assert (located[0], located[3], mutex.taken) == (5, 3, 1)


def test_the_first_index_is_the_least_though_indexes_of_failed_entries_come_again():
    memrowset = MemRowSet(SCHEMA)
    memrowset.abort(insert(memrowset, batch([1]), 7), 7)
    insert(memrowset, batch([1]), 6)
    insert(memrowset, batch([2]), 8)
    assert memrowset.first_index == 6


# ---- MVCC --------------------------------------------------------------------------------------------------------


def test_a_reader_waits_for_writes_below_its_timestamp_only():
    clock = HybridClock()
    mvcc = MvccManager(clock)
    low = mvcc.start()
    snapshot = clock.now()
    high = mvcc.start()
    assert low < snapshot < high
    assert not mvcc.is_clean(snapshot)
    passed = threading.Event()
    thread = threading.Thread(target=lambda: (mvcc.wait_until_clean(snapshot), passed.set()))
    thread.start()
    assert not passed.wait(0.05)
    mvcc.commit(low)
    assert passed.wait(5)
    thread.join()
    assert not mvcc.is_clean(high)
    mvcc.abort(high)
    assert mvcc.is_clean(high)


def test_a_reader_of_the_newest_state_waits_for_no_write_that_is_newer_than_all_acknowledged_ones():
    mvcc = MvccManager(HybridClock())
    before = mvcc.start()
    mvcc.commit(before)
    first = mvcc.start()
    assert before < mvcc.newest_clean() < first
    second, third = mvcc.start(), mvcc.start()
    mvcc.commit(second)
    with pytest.raises(DeadlineExceeded):  # the first is older than what was acknowledged
        mvcc.newest_clean(deadline=time.monotonic())
    mvcc.commit(first)
    assert mvcc.newest_clean() == second
    mvcc.abort(third)
    assert third <= mvcc.newest_clean() < mvcc.start()


def test_one_timestamp_for_several_tablets():
    clock = HybridClock()
    managers = [MvccManager(clock) for _ in range(3)]
    timestamp = start_together(managers)
    assert not any(m.is_clean(timestamp) for m in managers)
    for manager in managers:
        manager.commit(timestamp)
    with pytest.raises(KeyError):
        managers[0].commit(timestamp)


@settings(max_examples=examples(60), deadline=None)
@given(
    writes=st.lists(st.tuples(st.integers(1, 300), st.booleans()), min_size=1, max_size=8),
    since=st.integers(0, 1000),
    restamped=st.integers(0, 7),
)
def test_rows_written_after_a_time_are_found_in_whatever_order_their_timestamps_are(writes, since, restamped):
    """A prepared write of a cluster gets a later timestamp than rows that came after it."""
    memrowset, stamps = MemRowSet(PLAIN_SCHEMA), []
    for number, (count, is_single) in enumerate(writes, 1):
        timestamp, first = 100 * number, len(stamps)
        rows = batch(range(first, first + count))
        if is_single:
            for place, values in enumerate(zip(*(column.to_pylist() for column in rows.columns))):
                key = index_keys(Keys.from_rows(PLAIN_SCHEMA, rows.slice(place, 1)))[0]
                memrowset.insert_row(values, key, timestamp, number)
        else:
            insert(memrowset, rows, timestamp)
        stamps += [timestamp] * count
    if restamped < len(writes):
        old = 100 * (restamped + 1)
        memrowset.restamp(old, 950)
        stamps = [950 if stamp == old else stamp for stamp in stamps]
    rows = np.random.default_rng(1).permutation(len(stamps))
    assert memrowset.touched(rows, since).tolist() == [stamps[row] > since for row in rows]
