"""Look-ups by primary key against scans: at every time, whatever has been flushed and compacted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DataError, HistoryGone, NotNullViolation, TypeMismatch, UnknownColumn
from nyala.model.alterations import AddColumn
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, TableDefinition
from nyala.model.store import Op, ScanCounters, ScanSpec, Timestamp, WriteBatch
from nyala.model.types import BIGINT, DATE, DECIMAL, INT, STRING
from nyala.storage.database import Database
from place_support import one_slot

SCHEMA = Schema(
    (
        ColumnSchema("a", INT, False),
        ColumnSchema("b", STRING, False),
        ColumnSchema("n", DECIMAL(12, 2)),
        ColumnSchema("t", STRING),
        ColumnSchema("d", DATE),
    ),
    2,
)
KEYS = [(a, b) for a in range(3) for b in ("x", "y")]
VALUES = {
    "n": st.none() | st.decimals(-9, 9, places=2),
    "t": st.none() | st.sampled_from(["p", "q", ""]),
    "d": st.none() | st.dates(),
}
ROW = st.fixed_dictionaries({}, optional=VALUES)
WRITE = st.tuples(st.sampled_from(list(Op)), st.sampled_from(KEYS), ROW, st.booleans())
STEPS = st.lists(
    WRITE | st.sampled_from(["flush", "compact", "maintain", "reopen", "look up", "look up"]), min_size=1, max_size=25
)


def scanned(store: Database, snapshot: Timestamp) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    table = store.table("t")
    names = tuple(table.schema.names)
    found = {}
    for token in store.scan_tokens(table, ScanSpec(names, snapshot=snapshot)):
        for batch in store.scan(token):
            for row in batch.to_arrow(list(names)).to_pylist():
                values = tuple(row.values())
                found[values[:2]] = values
    return found


@settings(max_examples=examples(150), deadline=None)
@given(STEPS, st.booleans())
def test_a_look_up_gives_what_a_scan_gives(steps: Sequence[Any], all_clash: bool) -> None:
    with one_slot(all_clash):
        compare_look_ups_with_scans(steps)


def compare_look_ups_with_scans(steps: Sequence[Any]) -> None:
    fs = Database(background=False)._fs
    store = Database("/d", fs=fs, durability="os", background=False)
    table = store.create_table(TableDefinition("t", SCHEMA, PartitionSchema((HashRule(("b",), 2),))))
    names = ["d", "a", "n", "b", "t"]
    times = [store.now()]
    for step in steps:
        if step == "flush":
            store.flush()
        elif step == "compact":
            store.compact_table(table)
        elif step == "maintain":
            store.maintain()
        elif step == "reopen":
            store.close()
            store = Database("/d", fs=fs, durability="os", background=False)
        elif step == "look up":  # and remember where the rows were found
            expected = scanned(store, store.now())
            for key in KEYS:
                assert store.read_row(table, key, SCHEMA.names) == expected.get(key)
        else:
            op, (a, b), values, is_batch = step
            row = {"a": a, "b": b, **values}
            if is_batch:
                arrays = {n: pa.array([v], SCHEMA.arrow.field(n).type) for n, v in row.items()}
                store.write(table, WriteBatch(pa.record_batch(arrays), op))
            else:
                store.write_row(table, op, row)
            times.append(store.now())
    expected = scanned(store, times[-1])
    for key in KEYS:
        whole = expected.get(key)
        assert store.read_row(table, key, SCHEMA.names) == whole
        assert store.read_row(table, key, names) == (
            None if whole is None else tuple(whole[SCHEMA.position(n)] for n in names)
        )
    for time in times:
        expected = scanned(store, time)
        for key in KEYS:
            assert store.read_row(table, key, SCHEMA.names, time) == expected.get(key)
    store.close()


@pytest.mark.slow
def test_a_key_among_a_hundred_overlapping_rowsets_reads_few_pages() -> None:
    schema = Schema((ColumnSchema("k", BIGINT, False), ColumnSchema("v", INT)), 1)
    with Database(background=False) as store:
        table = store.create_table(TableDefinition("t", schema))
        for number in range(100):  # each spans all keys
            keys = np.arange(number, 20_000, 100)
            rows = pa.record_batch({"k": pa.array(keys), "v": pa.array(keys, pa.int32())})
            assert not store.write(table, WriteBatch(rows, Op.INSERT)).errors
            store.flush()
        (tablet,) = store._stores[table.id].tablets
        assert len(tablet.state.rowsets) == 100
        counters = ScanCounters()
        asked = np.random.default_rng(1).permutation(20_000)[:500].tolist()
        rows_of = store._stores[table.id]
        assert all(rows_of.read_row(table, [key], ["k"], None, counters) == (key,) for key in asked)
        # The key page of the right rowset, once to find the row and once for its value; about 1 % each of the others.
        assert counters.pages_read / 500 <= 2 + 1.5
        counters = ScanCounters()
        assert all(rows_of.read_row(table, [key], ["k"], None, counters) is None for key in range(30_000, 30_500))
        assert counters.pages_read == 0  # beyond all intervals


@pytest.mark.slow
def test_only_rowsets_that_may_hold_the_key_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of at most two of a hundred rowsets on average."""
    schema = Schema((ColumnSchema("k", BIGINT, False), ColumnSchema("v", INT)), 1)
    with Database(background=False) as store:
        table = store.create_table(TableDefinition("t", schema))
        for number in range(100):
            keys = np.arange(number, 20_000, 100)
            store.write(table, WriteBatch(pa.record_batch({"k": keys, "v": pa.array(keys, pa.int32())}), Op.INSERT))
            store.flush()
        read: set[str] = set()
        touched = 0
        from nyala.storage.columns.column_reader import ColumnReader

        whole = ColumnReader.page

        def page(self: ColumnReader, number: int, counters: ScanCounters | None = None) -> Any:
            read.add(self.path.rsplit("-column", 1)[0])
            return whole(self, number, counters)

        monkeypatch.setattr(ColumnReader, "page", page)
        for key in range(0, 20_000, 37):
            read.clear()
            assert store.read_row(table, [key], ["v"]) == (key,)
            touched += len(read)
        assert touched / len(range(0, 20_000, 37)) <= 2


def test_readers_see_whole_rows_while_all_else_goes_on() -> None:
    schema = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", INT), ColumnSchema("w", STRING)), 1)
    with Database(background=False, history_seconds=0) as store:
        table = store.create_table(TableDefinition("t", schema))
        for key in range(50):
            store.write_row(table, Op.INSERT, {"k": key, "v": 0, "w": "0"})
        ended = threading.Event()
        problems: list[str] = []

        def look() -> None:
            last = dict.fromkeys(range(50), 0)
            while not ended.is_set():
                for key in range(50):
                    row = store.read_row(table, [key], ["v", "w"])
                    if row is None or str(row[0]) != row[1] or row[0] < last[key]:
                        problems.append(f"key {key}: {row} after {last[key]}")
                        return
                    last[key] = row[0]

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(1, 13):
            for key in range(50):
                store.write_row(table, Op.UPDATE, {"k": key, "v": number, "w": str(number)})
                if number % 4 == 2:
                    store.write_row(table, Op.DELETE, {"k": 50 + key})
                    store.write_row(table, Op.INSERT, {"k": 50 + key, "v": 1, "w": "1"})
            store.maintain()
            if number % 3 == 0:
                store.flush()
            if number % 4 == 0:
                store.compact_table(table)
        ended.set()
        for thread in threads:
            thread.join()
        assert not problems


def test_columns_added_later_and_mistakes() -> None:
    with Database(background=False) as store:
        table = store.create_table(TableDefinition("t", SCHEMA))
        store.write_row(table, Op.INSERT, {"a": 1, "b": "x"})
        store.flush()
        store.write_row(table, Op.INSERT, {"a": 2, "b": "x"})
        altered = store.alter_table("t", [AddColumn(ColumnSchema("late", INT, default=7, initial=7))])
        assert [store.read_row(altered, [a, "x"], ["late", "a"]) for a in (1, 2)] == [(7, 1), (7, 2)]
        with pytest.raises(UnknownColumn, match="column lste does not exist"):
            store.read_row(altered, [1, "x"], ["lste"])
        with pytest.raises(TypeMismatch, match=r"the key of table t is \(a, b\); 1 values are given"):
            store.read_row(altered, [1], ["a"])
        with pytest.raises((TypeMismatch, NotNullViolation), match="column b of table t is STRING"):
            store.read_row(altered, [1, None], ["a"])
        with pytest.raises(DataError, match="it is only"):
            store.read_row(altered, [1, "x"], ["a"], Timestamp(store.now() + (1 << 40)))


def test_forgotten_history_is_refused() -> None:
    with Database(background=False, history_seconds=0) as store:
        table = store.create_table(TableDefinition("t", SCHEMA))
        before = store.now()
        store.write_row(table, Op.INSERT, {"a": 1, "b": "x"})
        store.flush()
        store.write_row(table, Op.UPDATE, {"a": 1, "b": "x", "t": "new"})
        store.compact_table(table)
        store.maintain()
        assert store.read_row(table, [1, "x"], ["t"]) == ("new",)
        (tablet,) = store._stores[table.id].tablets
        if tablet.metadata.ancient_history_mark > before:
            with pytest.raises(HistoryGone):
                store.read_row(table, [1, "x"], ["t"], before)


def test_look_ups_share_a_pin_that_keeps_files_only_while_they_run() -> None:
    with Database(background=False) as store:
        table = store.create_table(TableDefinition("t", SCHEMA))
        (tablet,) = store._stores[table.id].tablets
        for a in (1, 2):
            store.write_row(table, Op.INSERT, {"a": a, "b": "x"})
            store.flush()
        store.read_row(table, [1, "x"], ["t"])
        held = tablet.shared_pin()
        assert tablet.shared_pin() is held and tablet.held_pins() == [held]
        files = set(store._fs.list(tablet.rowset_directory))
        held = tablet.shared_pin()  # the one before was released
        store.write_row(table, Op.UPDATE, {"a": 1, "b": "x", "t": "new"})
        store.compact_table(table)
        assert store.read_row(table, [1, "x"], ["t"]) == ("new",)
        assert tablet.shared_pin().state is tablet.state is not held.state
        tablet.remove_retired()
        assert files <= set(store._fs.list(tablet.rowset_directory))
        del held
        tablet.remove_retired()
        assert not files & set(store._fs.list(tablet.rowset_directory))
        assert not tablet.held_pins()
