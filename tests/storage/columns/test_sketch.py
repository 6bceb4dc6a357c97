"""Column sketches: exact where few, near where many, and the same whether merged or built at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.model.store import ColumnStatistics
from nyala.storage.columns.sketch import (
    ColumnSketch,
    SketchBuilder,
    hash_decimals,
    hash_floats,
    hash_integers,
    hash_texts,
)


def sketch_of(values: Any) -> ColumnSketch:
    builder = SketchBuilder()
    array = np.asarray(values, np.int64)
    if len(array):
        builder.add(int(array.min()), int(array.max()), 0, len(array))
    builder.add_hashes(hash_integers(array))
    return builder.finish()


def equal(left: ColumnSketch, right: ColumnSketch) -> bool:
    return str(left.to_dict()) == str(right.to_dict())


@pytest.mark.parametrize("distinct", [1, 512, 513, 2_000, 10_000, 100_000, 1_000_000])
def test_distinct_count_is_within_five_percent(distinct: int) -> None:
    found = sketch_of(np.arange(distinct) * 7919).distinct_count()
    assert found == distinct if distinct <= 512 else abs(found / distinct - 1) < 0.05


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.integers(-1000, 1000), st.integers(0, 900)), min_size=1, max_size=5))
def test_merging_equals_building_at_once(parts: list[tuple[int, int]]) -> None:
    columns = [np.arange(start, start + length) for start, length in parts]
    merged = sketch_of(columns[0])
    for column in columns[1:]:
        merged = merged.merge(sketch_of(column))
    assert equal(merged, sketch_of(np.concatenate(columns)))


def test_statistics_and_plain_data() -> None:
    builder = SketchBuilder()
    builder.add("a", "z" * 100, 2, 10)
    builder.add(None, None, 5, 5)
    builder.add_hashes(hash_texts(pa.array(["a", "z", "a"])))
    sketch = builder.finish()
    assert sketch.to_statistics() == ColumnStatistics("a", "z" * 64, 7, 2.0)
    assert equal(ColumnSketch.from_dict(sketch.to_dict()), sketch)
    large = sketch_of(np.arange(5000))
    assert equal(ColumnSketch.from_dict(large.to_dict()), large)


def test_nan_is_above_all_numbers() -> None:
    builder = SketchBuilder()
    builder.add(float("nan"), float("nan"), 0, 1)
    builder.add(1.0, 2.0, 0, 2)
    sketch = builder.finish()
    assert sketch.low == 1.0
    assert np.isnan(sketch.high)


def test_hashes_depend_on_the_value_alone() -> None:
    assert hash_integers(np.array([3], np.int8)) == hash_integers(np.array([3], np.int64))
    assert hash_floats(np.array([0.0])) == hash_floats(np.array([-0.0], np.float32))
    texts = pa.array(["x", "lion", "a longer text than sixteen bytes"])
    assert hash_texts(texts)[1:].tolist() == hash_texts(texts.slice(1)).tolist()
    many = pa.array([f"{i}" for i in range(2000)])
    assert len(np.unique(hash_texts(many))) == 2000
    decimals = pa.array([5, -5, 7], pa.decimal128(38))
    assert len(np.unique(hash_decimals(decimals))) == 3


def test_golden_hashes() -> None:
    # Sketches of files written by different versions are merged, so hashes are part of the format.
    assert hash_integers(np.array([0, -1])).tolist() == [16294208416658607535, 16490336266968443936]
    assert hex(int(hash_texts(pa.array(["nyala"]))[0])) == "0x9dc1b7e3b2d84053"
