"""The MemRowSet: keys, visibility, joining of small chunks; and the MVCC manager that decides what is visible."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.storage.clock import HybridClock
from nyala.storage.keys import Keys
from nyala.storage.memrowset import FAN_IN, MemRowSet, index_keys
from nyala.storage.mvcc import MvccManager, start_together
from nyala.storage.predicates import IsNull, Range
from nyala.storage.schema import ColumnSchema, Schema
from nyala.storage.store import ScanCounters
from nyala.storage.types import BIGINT, STRING
from tablet_support import SCHEMA, batch


def insert(memrowset: MemRowSet, rows: pa.RecordBatch, timestamp: int):
    rows = pa.RecordBatch.from_arrays(rows.columns, schema=memrowset.schema.arrow)
    keys = index_keys(Keys.from_rows(memrowset.schema, rows))
    memrowset.insert(rows, keys, timestamp)
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


@settings(deadline=None, max_examples=40)
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


def test_one_timestamp_for_several_tablets():
    clock = HybridClock()
    managers = [MvccManager(clock) for _ in range(3)]
    timestamp = start_together(managers)
    assert not any(m.is_clean(timestamp) for m in managers)
    for manager in managers:
        manager.commit(timestamp)
    with pytest.raises(KeyError):
        managers[0].commit(timestamp)
