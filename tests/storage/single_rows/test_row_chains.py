"""Look-ups of rows that were changed very often: what is found, and that it is not searched for along the chain."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.model.schema import ColumnSchema, PartitionSchema, Schema, TableDefinition
from nyala.model.store import Op
from nyala.model.types import BIGINT, INT, STRING
from nyala.storage.database import Database
from nyala.storage.deltas.delta_memstore import DeltaMemStore
from nyala.storage.deltas.deltas import DeltaKind, Deltas, resolve
from nyala.storage.single_rows import row_deltas
from nyala.storage.single_rows.row_deltas import FOLD_ROWS, Folded, folded

SCHEMA = Schema((ColumnSchema("k", INT, False, 0), ColumnSchema("n", BIGINT, id=1), ColumnSchema("t", STRING, id=2)), 1)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_a_long_chain_is_looked_up_as_it_is_resolved(data: st.DataObject) -> None:
    """Of two rows with many deltas each, some of them in runs; at times before, between and after them."""
    store, is_deleted, stamp = DeltaMemStore(SCHEMA), [False, False], 0
    random = data.draw(st.randoms(use_true_random=False))
    for _ in range(data.draw(st.integers(1, 4))):
        for _ in range(random.randrange(12 * FOLD_ROWS)):
            stamp += 2
            row = random.randrange(4) % 3 % 2
            kind = DeltaKind.REINSERT if is_deleted[row] else DeltaKind.UPDATE
            if not is_deleted[row] and random.random() < 0.03:
                kind = DeltaKind.DELETE
            is_deleted[row] = kind is DeltaKind.DELETE
            values: dict[int, Any] = {1: random.choice([None, stamp]), 2: f"t{stamp}"}
            if kind is DeltaKind.UPDATE:
                del values[random.choice([1, 2])]
            store.append_row(row, kind, {} if is_deleted[row] else values, stamp, 1)
        if random.random() < 0.5:
            store.snapshot()
    times = [0, 1, stamp, stamp + 1, *(random.randrange(stamp + 2) for _ in range(10))]
    asked = itertools.product((0, 1, 2), times, PARTS)
    found = [(row, at, columns, look_up(store, row, at, columns)) for row, at, columns in asked]
    runs = store.snapshot()  # joins what was single so far
    for row, at, columns, result in found:
        assert result == resolved(runs, row, at, columns) == look_up(store, row, at, columns)


PARTS = ([1, 2], [2], [])


def look_up(store: DeltaMemStore, row: int, at: int, columns: list[int]) -> Any:
    found: dict[int, Any] = {}
    kind = store.look_up(row, at, columns, found)
    return "deleted" if kind == DeltaKind.DELETE else {c: found[c] for c in columns if c in found}


def resolved(runs: tuple[Deltas, ...], row: int, at: int, columns: list[int]) -> Any:
    patches = resolve((), [run.between(row, row + 1) for run in runs], at, columns)
    if len(patches.hidden):
        return "deleted"
    given = {c: patches.columns[c].values for c in columns if c in patches.columns}
    return {column: values[0].as_py() for column, values in given.items() if len(values)}


def test_the_last_folds_are_kept() -> None:
    deltas = [(0, DeltaKind.UPDATE, {1: n}, 10 + n) for n in range(20 * FOLD_ROWS)]
    folds: tuple[Folded, ...] = ()
    for count in range(FOLD_ROWS, len(deltas) + 1, FOLD_ROWS):
        folds = folded(deltas[:count], folds)
    assert [fold.count for fold in folds] == [FOLD_ROWS * n for n in (20, 19, 18, 17, 16, 15)]
    assert all(fold.timestamp == deltas[fold.count - 1][3] for fold in folds)
    assert all(fold.kind is None and fold.values == {1: fold.count - 1} for fold in folds)


@pytest.mark.parametrize("unseen", [0, 1, FOLD_ROWS, 4 * FOLD_ROWS])
def test_deltas_that_are_not_seen_yet_cost_no_walk_along_the_others(
    unseen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DeltaMemStore(SCHEMA)
    for stamp in range(1, 3001):
        store.append_row(0, DeltaKind.UPDATE, {1: stamp}, stamp, 1)
    looked: list[int] = []
    take = row_deltas._take
    monkeypatch.setattr(row_deltas, "_take", lambda *given: looked.append(1) or take(*given))
    assert look_up(store, 0, 3000 - unseen, [1, 2]) == {1: 3000 - unseen}
    assert len(looked) <= FOLD_ROWS


@pytest.mark.parametrize("place", ["memory", "flushed", "in runs", "in files"])
def test_a_read_of_a_hot_row_looks_at_few_of_its_deltas(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [ColumnSchema("k", INT, nullable=False), ColumnSchema("n", BIGINT), ColumnSchema("t", STRING)]
    with Database(":memory:", background=False) as db:
        table = db.create_table(TableDefinition("t", Schema(tuple(columns), 1), PartitionSchema()))
        for key in range(3):
            db.write_row(table, Op.INSERT, {"k": key, "n": 0, "t": "first"})
        if place != "memory":
            db.flush()
        for number in range(1, 3001):
            db.write_row(table, Op.UPDATE, {"k": 1, "n": number})
        if place == "in runs":
            assert [len(s.memstore.snapshot()) for s in db.open_table(table).tablets[0].state.rowsets] == [1]
        if place == "in files":
            db.maintain()
        looked: list[int] = []
        take = row_deltas._take
        monkeypatch.setattr(row_deltas, "_take", lambda *given: looked.append(1) or take(*given))
        assert db.read_row(table, (1,), ("t", "n")) == ("first", 3000)
        assert len(looked) <= FOLD_ROWS + 1
