"""Lazy columns over several batches: the values do not depend on how they are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from nyala.executor.lazy import joined
from nyala.model.types import BIGINT, BINARY, STRING, DataType
from nyala.model.vectors.vector import Array, Batch, Dict, Flat, LazyColumn, Text, Vector
from nyala.sql.expressions import Column


@pytest.mark.parametrize("type_", [STRING, BINARY])
@pytest.mark.parametrize("values", [["a", "b", "a", None, "c"], [None, None], ["x"], [str(i) for i in range(300)]])
def test_texts_that_are_requested_often_have_one_dictionary(type_: DataType, values: list[str | None]) -> None:
    array = pa.array(values, pa.string()).cast(type_.arrow)
    batches = [Batch([Text(type_, array)], len(values)) for _ in range(2)]
    both = joined([Column(type_, True, 1, "t")], batches)
    expected = array.to_pylist() * 2
    rows = np.random.default_rng(1).integers(0, len(expected), len(expected))
    found = [both.select(rows).column(0) for _ in range(8)]
    assert all(vector.to_arrow().to_pylist() == [expected[row] for row in rows] for vector in found)
    assert isinstance(found[0], Text)
    if len(array) > array.null_count:
        late = [vector for vector in found if isinstance(vector, Dict)]
        assert len(late) >= 4
        assert all(vector.dictionary is late[0].dictionary for vector in late)
        assert late[0].codes.dtype == np.uint8 if len(values) < 256 else np.uint16


def test_texts_that_are_requested_once_stay_plain() -> None:
    array = pa.array([str(i) for i in range(100)])
    both = joined([Column(STRING, True, 1, "t")], [Batch([Text(STRING, array)], 100)])
    for start in range(0, 100, 10):
        assert isinstance(both.select(np.arange(start, start + 10)).column(0), Text)


@pytest.mark.parametrize(("per_batch", "batches"), [(800, 8), (50, 100)])
def test_few_rows_are_read_from_the_batches_that_hold_them(per_batch: int, batches: int) -> None:
    calls: list[int] = []

    def batch(number: int) -> Batch:
        vector = Flat(BIGINT, np.arange(number * per_batch, (number + 1) * per_batch))

        def load(rows: Array | None) -> Vector:
            calls.append(number)
            return vector if rows is None else vector.take(rows)

        return Batch([LazyColumn(load)], per_batch)

    wanted = np.array([3, 1, per_batch, 5 * per_batch - 1, 1])
    both = joined([Column(BIGINT, True, 1, "n")], [batch(number) for number in range(batches)])
    assert both.select(wanted).column(0).to_arrow().to_pylist() == wanted.tolist()
    assert calls == [0, 1, 4]
    for _ in range(9):  # read repeatedly, they are read whole
        assert both.select(wanted).column(0).to_arrow().to_pylist() == wanted.tolist()
    assert set(calls) == set(range(batches))
    assert len(calls) < 30 + batches


def test_all_columns_have_the_values_of_the_rows_that_are_requested_last() -> None:
    rng = np.random.default_rng(4)
    width, per_batch, batches = 3, 900, 6

    def column(number: int, index: int) -> LazyColumn:
        vector = Flat(BIGINT, np.arange(number * per_batch, (number + 1) * per_batch) * 10 + index)
        return LazyColumn(lambda rows: vector if rows is None else vector.take(rows))

    def both() -> Batch:
        made = [Batch([column(number, index) for index in range(width)], per_batch) for number in range(batches)]
        return joined([Column(BIGINT, True, index, "n") for index in range(width)], made)

    for count in (1, 40, 3000):  # 3,000 are more than are kept
        batch = both()
        first, second = (rng.integers(0, per_batch * batches, count) for _ in range(2))
        views = [(rows, batch.select(rows)) for rows in (first, second, first)]
        for index in range(width):
            for rows, view in views:
                assert view.column(index).to_arrow().to_pylist() == (rows * 10 + index).tolist()
