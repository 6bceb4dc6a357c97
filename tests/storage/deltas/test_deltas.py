"""The algebra of deltas against rows that are followed step by step."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.model.schema import ColumnSchema
from nyala.model.types import BIGINT, STRING
from nyala.storage.deltas.deltas import (
    DeltaColumn,
    DeltaKind,
    Deltas,
    apply_patch,
    merge,
    resolve,
)
from nyala.storage.deltas.inversion import insertions, invert

COLUMNS = (ColumnSchema("a", BIGINT, id=1), ColumnSchema("b", STRING, id=2))
ROWS = 5


def deltas_of(records):
    """Deltas from (row, timestamp, kind, {column: value}), in any order."""
    records = sorted(records, key=lambda r: r[:2])
    columns = {}
    for column in COLUMNS:
        places = [i for i, r in enumerate(records) if column.id in r[3]]
        if places:
            values = [records[i][3][column.id] for i in places]
            columns[column.id] = DeltaColumn(np.array(places, np.int64), pa.array(values, column.type.arrow))
    return Deltas(
        np.array([r[0] for r in records], np.int64),
        np.array([r[1] for r in records], np.uint64),
        np.array([r[2] for r in records], np.uint8),
        columns,
    )


VALUES = {1: st.none() | st.integers(0, 9), 2: st.none() | st.text("xyz", max_size=2)}


@st.composite
def histories(draw):
    """Insertion times, initial values, and what happens later to each row: always a delta that makes sense."""
    timestamp, records, alive = 10, [], [True] * ROWS
    initial = {c: [draw(values) for _ in range(ROWS)] for c, values in VALUES.items()}
    for row in draw(st.lists(st.integers(0, ROWS - 1), max_size=25)):
        timestamp += draw(st.integers(1, 2))
        if not alive[row]:
            kind, given = DeltaKind.REINSERT, {c: draw(values) for c, values in VALUES.items()}
        elif draw(st.integers(0, 3)) == 0:
            kind, given = DeltaKind.DELETE, {}
        else:
            chosen = draw(st.sets(st.sampled_from([1, 2]), min_size=1))
            kind, given = DeltaKind.UPDATE, {c: draw(VALUES[c]) for c in sorted(chosen)}
        alive[row] = kind != DeltaKind.DELETE
        records.append((row, timestamp, kind, given))
    stamps = [draw(st.integers(1, 10)) for _ in range(ROWS)]
    return stamps, initial, records


def states(stamps, initial, records, time):
    """Row by row: None where it does not exist at `time`, else its values."""
    found = []
    for row in range(ROWS):
        state = {c: values[row] for c, values in initial.items()} if stamps[row] <= time else None
        kept = dict(state) if state else None
        for r, timestamp, kind, values in records:
            if r == row and timestamp <= time:
                kept = {**kept, **values}
                state = None if kind == DeltaKind.DELETE else kept
        found.append(state)
    return found


def patched(base, patches):
    columns = {}
    for column, values in base.items():
        patch = patches.columns.get(column)
        columns[column] = (values if patch is None else apply_patch(values, patch)).to_pylist()
    hidden = set(patches.hidden.tolist())
    return [None if row in hidden else {c: v[row] for c, v in columns.items()} for row in range(ROWS)]


def arrays(initial):
    return {c.id: pa.array(initial[c.id], c.type.arrow) for c in COLUMNS}


@given(histories(), st.integers(0, 60), st.integers(0, 25))
def test_redo_gives_the_state_at_any_time(history, time, cut):
    stamps, initial, records = history
    runs = [deltas_of(records[:cut]), deltas_of(records[cut:])]
    found = patched(arrays(initial), resolve([insertions(np.array(stamps, np.uint64))], runs, time))
    assert found == states(stamps, initial, records, time)


@settings(max_examples=examples(200))
@given(histories(), st.integers(0, 60), st.integers(0, 25), st.integers(0, 25))
def test_turned_round_in_steps_it_gives_the_same_states(history, time, one, other):
    stamps, initial, records = history
    base, undo, deletes = arrays(initial), [insertions(np.array(stamps, np.uint64))], Deltas.empty()
    for part in (records[: min(one, other)], records[min(one, other) : max(one, other)], records[max(one, other) :]):
        turned = invert(COLUMNS, base, merge([deletes, deltas_of(part)]))
        base, deletes = turned.columns, turned.deletes
        undo.append(turned.undo)
    assert patched(base, resolve(undo, [deletes], time)) == states(stamps, initial, records, time)


@given(histories(), st.integers(0, 60))
def test_one_column_alone_can_be_brought_forward(history, time):
    """A major delta compaction of column 1: column 2 keeps its REDO deltas, and DELETEs stay."""
    stamps, initial, records = history
    records = [r for r in records if r[2] != DeltaKind.REINSERT]
    dead, kept = set(), []
    for record in records:
        if record[0] not in dead:
            kept.append(record)
        if record[2] == DeltaKind.DELETE:
            dead.add(record[0])
    turned = invert(COLUMNS[:1], arrays(initial), deltas_of(kept))
    rest = deltas_of(kept).only_columns({2})
    base = {**arrays(initial), **turned.columns}
    found = resolve([insertions(np.array(stamps, np.uint64)), turned.undo], [rest], time)
    assert patched(base, found) == states(stamps, initial, kept, time)


def test_the_worked_example_of_the_tablet_design_document():
    value = COLUMNS[:1]
    redo = deltas_of(
        [(0, 2, DeltaKind.UPDATE, {1: 2}), (0, 3, DeltaKind.DELETE, {}), (0, 4, DeltaKind.REINSERT, {1: 3})]
    )
    turned = invert(value, {1: pa.array([1])}, redo)
    undo = merge([insertions(np.array([1], np.uint64)), turned.undo])
    assert turned.columns[1].to_pylist() == [3]
    assert len(turned.deletes) == 0
    assert undo.timestamps.tolist() == [1, 2, 3, 4]
    assert [DeltaKind(k).name for k in undo.kinds] == ["DELETE", "UPDATE", "REINSERT", "DELETE"]
    assert undo.columns[1].places.tolist() == [1, 2]
    assert undo.columns[1].values.to_pylist() == [1, 2]


def test_rows_and_columns_can_be_cut_out():
    deltas = deltas_of(
        [(0, 5, DeltaKind.UPDATE, {1: 1}), (2, 6, DeltaKind.UPDATE, {2: "x"}), (3, 7, DeltaKind.DELETE, {})]
    )
    assert deltas.between(1, 3).rows.tolist() == [2]
    assert deltas.between(1, 3).columns[2].places.tolist() == [0]
    assert deltas.only_columns({1}).rows.tolist() == [0, 3]
    assert merge([deltas.between(2, 9), deltas.between(0, 2)]).rows.tolist() == [0, 2, 3]
    assert deltas.renumbered(np.array([9, 1, 4])).rows.tolist() == [1, 4, 9]
    assert (deltas.oldest, deltas.newest) == (5, 7)
