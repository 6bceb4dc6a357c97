"""DeltaMemStores against a list of what was written."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from delta_support import deltas_of, records_of
from hypothesis import given
from hypothesis import strategies as st
from nyala.model.schema import ColumnSchema, Schema
from nyala.model.types import BIGINT, INT, STRING
from nyala.storage.deltas.delta_memstore import TAIL_ROWS, DeltaMemStore
from nyala.storage.deltas.deltas import DeltaKind, Deltas
from nyala.storage.deltas.single_deltas import DeltaTail
from nyala.storage.single_rows.row_deltas import FOLD_ROWS

SCHEMA = Schema((ColumnSchema("k", INT, False, 0), ColumnSchema("n", BIGINT, id=1), ColumnSchema("t", STRING, id=2)), 1)
ROWS = 6


@st.composite
def changes(draw: st.DrawFn, row: int, timestamp: int) -> tuple[int, int, DeltaKind, dict[int, Any]]:
    kind = draw(st.sampled_from([DeltaKind.UPDATE, DeltaKind.UPDATE, DeltaKind.DELETE]))
    given = {1: st.none() | st.integers(-9, 9), 2: st.none() | st.text("xy", max_size=2)}
    chosen = draw(st.sets(st.sampled_from([1, 2]), min_size=1)) if kind is DeltaKind.UPDATE else set()
    return row, timestamp, kind, {c: draw(given[c]) for c in sorted(chosen)}


@given(st.data())
def test_it_keeps_what_was_written_in_order(data: st.DataObject) -> None:
    store, expected, timestamp, before = DeltaMemStore(SCHEMA), [], 0, []
    for index in range(1, data.draw(st.integers(1, 40)) + 1):
        timestamp += data.draw(st.integers(0, 1)) or not expected or expected[-1][1] != timestamp
        step = data.draw(st.sampled_from(["row", "row", "row", "run", "abort", "read"]))
        taken = {r[0] for r in expected if r[1] == timestamp}
        free = sorted(set(range(ROWS)) - taken)
        if step == "row" and free:
            row, _, kind, values = record = data.draw(changes(data.draw(st.sampled_from(free)), timestamp))
            store.append_row(row, kind, values, timestamp, index)
            expected.append(record)
        elif step == "run" and free:
            rows = data.draw(st.sets(st.sampled_from(free), min_size=1))
            records = [data.draw(changes(row, timestamp)) for row in sorted(rows)]
            store.append(deltas_of(SCHEMA.columns, records), index)
            expected += records
        elif step == "abort" and expected:
            aborted = data.draw(st.sampled_from([r[1] for r in expected]))
            store.abort(aborted)
            expected = [r for r in expected if r[1] != aborted]
        else:
            runs = store.snapshot()
            assert store.snapshot() is runs
            before.append((runs, records_of(runs)))
    runs = store.snapshot()
    assert records_of(runs) == sorted(((r, t, int(k), v) for r, t, k, v in expected), key=lambda r: r[:2])
    assert all(a.newest <= b.oldest for a, b in pairwise(runs))
    for run in runs:
        keys = list(zip(run.rows.tolist(), run.timestamps.tolist()))
        assert keys == sorted(set(keys))
    for earlier, then in before:
        assert records_of(earlier) == then


def test_numbers_for_maintenance_and_the_log() -> None:
    store = DeltaMemStore(SCHEMA)
    assert (store.count, store.first_index, store.snapshot()) == (0, 0, ())
    store.append_row(3, DeltaKind.UPDATE, {1: 5}, 100, 7)
    store.append(deltas_of(SCHEMA.columns, [(1, 103, DeltaKind.DELETE, {}), (4, 103, DeltaKind.DELETE, {})]), 9)
    assert (store.count, store.first_index, store.last_index, store.newest) == (3, 7, 9, 103)
    assert store.created > 0
    pending = store.nbytes
    version = store.version
    assert len(store.snapshot()) == 1
    assert 0 < store.nbytes < pending
    assert store.version == version
    store.append_row(3, DeltaKind.DELETE, {}, 104, 10)
    assert store.version > version


def test_runs_stay_few_and_the_large_ones_stay_the_same() -> None:
    store = DeltaMemStore(SCHEMA)
    rows = np.arange(1000)
    store.append(deltas_of(SCHEMA.columns, [(int(r), 1, DeltaKind.UPDATE, {1: 0}) for r in rows]), 1)
    (large,) = store.snapshot()
    for number in range(200):
        store.append_row(number % 7, DeltaKind.UPDATE, {1: number}, 2 + number, 2 + number)
        runs = store.snapshot()
        assert runs[0] is large
        assert len(runs) <= 6


def test_a_new_column_can_be_set_after_an_alteration() -> None:
    store = DeltaMemStore(SCHEMA)
    store.append_row(0, DeltaKind.UPDATE, {1: 5}, 100, 1)
    added = Schema((*SCHEMA.columns, ColumnSchema("new", STRING, id=9)), 1)
    store.use_schema(added)
    store.append_row(1, DeltaKind.UPDATE, {9: "x"}, 101, 2)
    assert records_of(store.snapshot()) == [(0, 100, 1, {1: 5}), (1, 101, 1, {9: "x"})]


def _update(store: DeltaMemStore, number: int) -> None:
    store.append_row(number % ROWS, DeltaKind.UPDATE, {1: number}, number, number)


def _latest(store: DeltaMemStore) -> list[int]:
    found: list[int] = []
    for row in range(ROWS):
        values: dict[int, int] = {}
        store.look_up(row, 2**40, [1], values)
        found.append(values[1])
    return found


@pytest.mark.parametrize("count", [ROWS, TAIL_ROWS + 1])
def test_look_ups_do_not_wait_for_a_join(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DeltaMemStore(SCHEMA)
    for number in range(1, count + 1):
        _update(store, number)
    run = DeltaTail.run
    seen: list[list[int]] = []

    def work() -> None:
        """Reads and updates while another thread makes runs."""
        seen.append(_latest(store))
        for number in range(count + 1, count + 1 + 3 * FOLD_ROWS * ROWS):
            _update(store, number)
        seen.append(_latest(store))

    def slow_run(tail: DeltaTail) -> Deltas:
        monkeypatch.undo()
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()
        return run(tail)

    monkeypatch.setattr(DeltaTail, "run", slow_run)
    assert sum(map(len, store.snapshot())) == count
    numbers = range(1, count + 1 + 3 * FOLD_ROWS * ROWS)
    assert seen == [sorted(numbers[:count][-ROWS:], key=lambda n: n % ROWS), _latest(store)]
    assert sum(map(len, store.snapshot())) == len(numbers)
    assert _latest(store) == seen[1] == sorted(numbers[-ROWS:], key=lambda n: n % ROWS)


@pytest.mark.parametrize("count", [3, TAIL_ROWS + 1])
def test_a_join_that_is_interrupted_loses_nothing(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DeltaMemStore(SCHEMA)
    _update(store, 1)
    store.snapshot()
    for number in range(2, count + 1):
        _update(store, number)

    def fails(*_: object) -> Deltas:
        raise KeyboardInterrupt

    monkeypatch.setattr(DeltaTail, "run", fails)
    with pytest.raises(KeyboardInterrupt):
        store.snapshot()
    _update(store, count + 1)
    with pytest.raises(KeyboardInterrupt):
        store.snapshot()
    monkeypatch.undo()
    wanted = [(n % ROWS, n, int(DeltaKind.UPDATE), {1: n}) for n in range(1, count + 2)]
    assert records_of(store.snapshot()) == sorted(wanted, key=lambda record: record[:2])
