"""Sets of row numbers, and orders of deltas, against numpy's own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.storage.deltas.deltas import DeltaColumn, DeltaKind, Deltas, merge
from nyala.storage.deltas.row_numbers import complement, difference, distinct, union
from nyala.storage.deltas.version_merge import combined

numbers = st.lists(st.integers(0, 40), unique=True).map(lambda found: np.array(sorted(found), np.int64))


@settings(max_examples=examples(200))
@given(numbers, numbers)
def test_sets_of_row_numbers(first: np.ndarray, second: np.ndarray) -> None:
    assert union(first, second).tolist() == np.union1d(first, second).tolist()
    assert difference(first, second).tolist() == np.setdiff1d(first, second).tolist()
    assert complement(0, 41, first).tolist() == np.setdiff1d(np.arange(41), first).tolist()
    assert complement(7, 41, first[first >= 7]).tolist() == np.setdiff1d(np.arange(7, 41), first).tolist()
    assert distinct(np.sort(np.concatenate([first, second]))).tolist() == np.union1d(first, second).tolist()


@st.composite
def runs(draw: st.DrawFn) -> Deltas:
    """Deltas of some rows, one or two of each, of one of two columns."""
    times = draw(st.sampled_from([(1, 2, 3), (1 << 40, 5 << 40, 3), (4096, 8192, 1 << 62), (2**63, 1, 2)]))
    high = draw(st.sampled_from([9, 1 << 24]))
    chosen = sorted(draw(st.sets(st.tuples(st.integers(0, 9), st.sampled_from(times)))))
    rows = np.array([row * high // 9 for row, _ in chosen], np.int64)
    stamps = np.array([time for _, time in chosen], np.uint64)
    kinds = np.array([draw(st.sampled_from([1, 1, 1, 2])) for _ in chosen], np.uint8)
    places = np.flatnonzero(kinds == DeltaKind.UPDATE)
    values = pa.array([draw(st.none() | st.integers(0, 5)) for _ in places], pa.int64())
    return Deltas(rows, stamps, kinds, {draw(st.sampled_from([1, 2])): DeltaColumn(places, values)})


def cells(deltas: Deltas) -> list[tuple[int, int, int]]:
    return list(zip(deltas.rows.tolist(), deltas.timestamps.tolist(), deltas.kinds.tolist()))


@settings(max_examples=examples(200))
@given(st.lists(runs(), min_size=1, max_size=4))
def test_merged_runs_are_in_order_of_row_and_time(given_: list[Deltas]) -> None:
    merged = merge(given_)
    whole = [cell for run in given_ for cell in cells(run)]
    places = np.lexsort((np.array([c[1] for c in whole], np.uint64), np.array([c[0] for c in whole], np.int64)))
    assert cells(merged) == [whole[place] for place in places]
    for column in merged.columns:
        found = merged.columns[column]
        told = list(
            zip(merged.rows[found.places].tolist(), merged.timestamps[found.places].tolist(), found.values.to_pylist())
        )
        expected = [
            (int(run.rows[place]), int(run.timestamps[place]), value)
            for run in given_
            if column in run.columns
            for place, value in zip(run.columns[column].places.tolist(), run.columns[column].values.to_pylist())
        ]
        assert sorted(told, key=repr) == sorted(expected, key=repr)


def test_old_values_of_several_columns_of_the_same_rows_are_one_run() -> None:
    rows, count = np.array([1, 4, 9]), 3
    columns = {c: DeltaColumn(np.arange(count), pa.array([c, None, c + 1])) for c in (1, 2, 3)}
    each = [Deltas.at(7, rows.copy(), DeltaKind.UPDATE, {c: column}) for c, column in columns.items()]
    inserted = Deltas.at(3, np.arange(10), DeltaKind.DELETE)
    found = combined([*each, inserted])
    assert len(found) == 13
    assert {c: given_.values.to_pylist() for c, given_ in found.columns.items()} == {
        c: [c, None, c + 1] for c in (1, 2, 3)
    }
    assert (found.rows[found.columns[2].places] == rows).all()
