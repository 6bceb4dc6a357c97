"""The tail of a DeltaMemStore: its runs are what sorting all deltas gives, whenever and for whatever they are asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.storage.deltas import delta_memstore
from nyala.storage.deltas.delta_memstore import DeltaMemStore
from nyala.storage.deltas.delta_tail import DeltaTail, TailRun, with_all_columns
from nyala.storage.deltas.deltas import DeltaKind, Deltas
from nyala.storage.deltas.row_deltas import RowDelta
from nyala.storage.schema import ColumnSchema, Schema
from nyala.storage.types import INT, STRING

LOGICAL = {1: INT, 2: STRING}
TYPES = {column: type_.arrow for column, type_ in LOGICAL.items()}
CHANGES = st.dictionaries(st.sampled_from([1, 2]), st.none() | st.integers(0, 9), max_size=2)
STEPS = st.lists(st.tuples(st.integers(0, 5), CHANGES) | st.sets(st.sampled_from([1, 2, 3])), max_size=40)


def delta(row: int, values: dict[int, int | None], timestamp: int) -> RowDelta:
    given = {c: v if v is None or c == 1 else str(v) for c, v in values.items()}
    return row, DeltaKind.UPDATE if given else DeltaKind.DELETE, given, timestamp


def rows_of(run: Deltas, columns: set[int]) -> list[tuple[int, int, int, dict[int, object]]]:
    cells: list[dict[int, object]] = [{} for _ in range(len(run))]
    for column in columns:
        if column in run.columns:
            found = run.columns[column]
            for place, value in zip(found.places.tolist(), found.values.to_pylist(), strict=True):
                cells[place][column] = value
    return list(zip(run.rows.tolist(), run.timestamps.tolist(), run.kinds.tolist(), cells, strict=True))


def last_values(run: TailRun, column: int) -> dict[int, object]:
    found = run.last_values(column, LOGICAL[column])
    if found is None:
        return {}
    assert (found[0][1:] > found[0][:-1]).all()
    return dict(zip(found[0].tolist(), found[1].to_arrow().to_pylist(), strict=True))


def expected_last(deltas: list[RowDelta], column: int) -> dict[int, object]:
    return {row: values[column] for row, _, values, _ in deltas if column in values}


def expected(deltas: list[RowDelta], columns: set[int]) -> list[tuple[int, int, int, dict[int, object]]]:
    return [
        (row, timestamp, kind, {c: v for c, v in values.items() if c in columns})
        for row, kind, values, timestamp in sorted(deltas, key=lambda one: (one[0], one[3]))
    ]


@given(STEPS)
def test_runs_are_the_deltas_in_order(steps: list[tuple[int, dict[int, int | None]] | set[int]]) -> None:
    tail = DeltaTail(TYPES)
    runs: list[tuple[TailRun, list[RowDelta]]] = []
    for timestamp, step in enumerate(steps, 1):
        if isinstance(step, tuple):
            tail.extend([delta(*step, timestamp)])
        else:
            runs.append((tail.run(), list(tail.deltas)))
            assert rows_of(runs[-1][0], step) == expected(runs[-1][1], step)
            if 1 in step:
                assert last_values(runs[-1][0], 1) == expected_last(runs[-1][1], 1)
    for run, deltas in runs[::-1]:  # they stay what they were, also for columns that nobody has asked for yet
        assert rows_of(run, {1, 2}) == expected(deltas, {1, 2})
        assert [last_values(run, column) for column in (1, 2)] == [expected_last(deltas, column) for column in (1, 2)]
        assert set(run.columns) == set().union(*(d[2] for d in deltas))
        assert rows_of(with_all_columns(run), {1, 2}) == expected(deltas, {1, 2})
    for run, deltas in runs:
        for end in (0, len(deltas) // 2, len(deltas)):
            before = [d for d in deltas if d[3] <= end]
            assert rows_of(run.until(end), {1, 2}) == expected(before, {1, 2})


@given(
    st.lists(st.tuples(st.integers(0, 5), CHANGES), max_size=60),
    st.sets(st.integers(1, 60)),
    st.sets(st.integers(1, 60), max_size=3),
)
def test_nothing_is_lost_where_a_tail_becomes_a_run(
    changes: list[tuple[int, dict[int, int | None]]], read_after: set[int], aborted: set[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta_memstore, "TAIL_ROWS", 7)
        store = DeltaMemStore(Schema((ColumnSchema("k", INT, False), ColumnSchema("v", STRING, True)), 1))
        store._types |= TYPES
        kept: list[RowDelta] = []
        for timestamp, change in enumerate(changes, 1):
            one = delta(*change, timestamp)
            store.append_row(*one, timestamp)
            kept.append(one)
            if timestamp in aborted:
                store.abort(timestamp)
                kept.pop()
            if timestamp in read_after:
                store.snapshot()
        runs = store.snapshot()
        found = [row for run in runs for row in rows_of(run, {1, 2})]
        assert sorted(found, key=lambda row: row[:2]) == expected(kept, {1, 2})
        assert store.nbytes > 0 or not kept
