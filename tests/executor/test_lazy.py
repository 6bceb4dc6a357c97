"""Lazy columns over several batches: the values do not depend on how they are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from nyala.executor.lazy import joined
from nyala.model.types import BINARY, STRING, DataType
from nyala.model.vectors.vector import Batch, Dict, Text
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
