"""Vectors: every form gives the same rows as plain Python, whatever is done to it."""

from __future__ import annotations

import datetime
import decimal
from bisect import bisect_left, bisect_right

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.executor.lazy import concat_batches
from nyala.model.types import BIGINT, BINARY, BOOLEAN, DATE, DECIMAL, DOUBLE, INT, NULL, STRING, TIMESTAMP, DataType
from nyala.model.vectors.arrow_values import TextCells
from nyala.model.vectors.vector import (
    Batch,
    Const,
    Dict,
    Flat,
    LazyColumn,
    Narrow,
    Text,
    Vector,
    Wide,
    concat,
    decimal_from_limbs,
    decimal_limbs,
    vector_from_arrow,
)


def rows(vector: Vector) -> list[object]:
    return vector.to_arrow().to_pylist()


@st.composite
def vectors(draw: st.DrawFn, type_: DataType | None = None) -> Vector:
    """A vector of any form over small values, with or without NULLs."""
    kind = type_ or draw(st.sampled_from([INT, BIGINT, DATE, STRING, DECIMAL(15, 2), DECIMAL(38, 3), BOOLEAN]))
    size = draw(st.integers(0, 12))
    present = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.bool_)
    validity = present if draw(st.booleans()) else None
    numbers = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    if draw(st.integers(0, 4)) == 0:
        value = {STRING: "b", BOOLEAN: True}.get(kind, 2)
        return Const(kind, draw(st.sampled_from([None, value])), size)
    if kind == STRING:
        words = ["", "a", "b", "é\0x"]
        if draw(st.booleans()):
            return Dict(kind, np.array(numbers, np.uint8), pa.array(sorted(words)), validity)
        texts = [None if validity is not None and not p else words[n] for n, p in zip(numbers, present, strict=True)]
        return Text(kind, pa.array(texts, pa.string()))
    if kind == DECIMAL(38, 3):
        values = [None if validity is not None and not p else decimal.Decimal(n) for n, p in zip(numbers, present)]
        return Wide(kind, pa.array(values, kind.arrow))
    if draw(st.booleans()) or kind == BOOLEAN:
        dtype = kind.dtype if kind != DECIMAL(15, 2) else np.dtype(np.int64)
        return Flat(kind, np.array(numbers).astype(dtype), validity)
    return Narrow(kind, np.array(numbers, np.uint16), draw(st.integers(-9, 9)), validity)


@given(st.data(), vectors())
def test_take_slice_and_filter_agree_with_lists(data: st.DataObject, vector: Vector) -> None:
    expected = rows(vector)
    if expected:
        picks = data.draw(st.lists(st.integers(0, len(expected) - 1)))
        assert rows(vector.take(np.array(picks, np.intp))) == [expected[i] for i in picks]
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected)))
    assert rows(vector.slice(start, stop)) == expected[start:stop]
    mask = data.draw(st.lists(st.booleans(), min_size=len(expected), max_size=len(expected)))
    assert rows(vector.filter(np.array(mask, np.bool_))) == [v for v, keep in zip(expected, mask) if keep]
    assert vector.has_nulls == (None in expected)


@given(st.data())
def test_concat_joins_forms_of_one_type(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from([INT, BIGINT, DATE, STRING, DECIMAL(15, 2), DECIMAL(38, 3), BOOLEAN]))
    parts = data.draw(st.lists(vectors(type_), min_size=1, max_size=4))
    assert rows(concat(parts)) == [row for part in parts for row in rows(part)]


@given(vectors())
def test_bounds_enclose_every_value(vector: Vector) -> None:
    bounds = vector.bounds()
    if bounds is None:
        return
    present = vector.values() if vector.validity is None else vector.values()[vector.validity]
    assert all(bounds[0] <= int(value) <= bounds[1] for value in present)


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1) | st.none(), max_size=20))
def test_decimal_limbs_round_trip(numbers: list[int | None]) -> None:
    type_ = DECIMAL(38, 4)
    array = pa.array([type_.to_python(n) for n in numbers], type_.arrow)
    validity = np.array([n is not None for n in numbers], np.bool_)
    high, low = decimal_limbs(array)
    assert decimal_from_limbs(type_, high, low, validity).to_pylist() == array.to_pylist()
    present = [int(v) for v, p in zip(Wide(type_, array).values(), validity, strict=True) if p]
    assert present == [n for n in numbers if n is not None]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (INT, [1, None, -5]),
        (BIGINT, [2**62, None]),
        (DOUBLE, [1.5, None]),
        (BOOLEAN, [True, None, False]),
        (DATE, [datetime.date(1992, 1, 1), None]),
        (TIMESTAMP, [datetime.datetime(2026, 1, 2, 3, 4, 5, 6), None]),
        (DECIMAL(5, 2), [decimal.Decimal("1.25"), None]),
        (DECIMAL(15, 2), [decimal.Decimal("-1.25"), None]),
        (DECIMAL(38, 2), [decimal.Decimal("12345678901234567890.25"), None]),
        (STRING, ["a", None, ""]),
        (BINARY, [b"\0a", None]),
        (NULL, [None, None]),
    ],
)
def test_arrow_round_trip_of_every_type(type_: DataType, values: list[object]) -> None:
    array = pa.array(values, type_.arrow)
    assert rows(vector_from_arrow(type_, array)) == values
    assert rows(vector_from_arrow(type_, pa.chunked_array([array, array]))) == values * 2
    assert rows(vector_from_arrow(type_, array.slice(1))) == values[1:]


def test_arrow_dictionaries_stay_dictionaries() -> None:
    vector = vector_from_arrow(STRING, pa.array(["x", None, "y", "x"]).dictionary_encode())
    assert isinstance(vector, Dict)
    assert rows(vector) == ["x", None, "y", "x"]


def test_a_column_that_nobody_touches_is_never_read() -> None:
    reads: list[np.ndarray | None] = []

    def load(selection: np.ndarray | None) -> Vector:
        reads.append(selection)
        values = np.arange(10, 20, dtype=np.int32)
        return Flat(INT, values if selection is None else values[selection])

    batch = Batch([LazyColumn(load), Flat(INT, np.arange(10, dtype=np.int32))], 10)
    narrowed = batch.select(batch.column(1).values() % 2 == 1).select(np.array([4, 0, 0]))
    assert reads == []
    assert rows(narrowed.column(1)) == [9, 1, 1]
    assert not narrowed.is_loaded(0)
    assert rows(narrowed.column(0)) == [19, 11, 11]
    assert [list(r) for r in reads if r is not None] == [[9, 1, 1]], "only the rows still wanted are read, and once"
    assert rows(narrowed.column(0)) == [19, 11, 11]
    assert len(reads) == 1


def test_a_column_read_before_a_selection_is_not_read_again() -> None:
    reads = []

    def load(selection: np.ndarray | None) -> Vector:
        reads.append(selection)
        return Flat(INT, np.arange(5, dtype=np.int32))

    batch = Batch([LazyColumn(load)], 5)
    batch.column(0)
    assert rows(batch.select(np.array([3, 1])).column(0)) == [3, 1]
    assert len(reads) == 1


@given(st.lists(st.lists(st.integers(-5, 5), max_size=6), min_size=1, max_size=4))
def test_concat_batches_keeps_rows_in_order(parts: list[list[int]]) -> None:
    batches = [Batch([Flat(INT, np.array(p, np.int32)), Const(INT, 7, len(p))], len(p)) for p in parts]
    joined = concat_batches(batches)
    flat = [v for part in parts for v in part]
    assert joined.length == len(flat)
    assert rows(joined.column(0)) == flat
    assert rows(joined.column(1)) == [7] * len(flat)


@given(st.lists(st.integers(0, 400), max_size=700), st.integers(0, 700), st.integers(0, 700), st.integers(-1, 401))
def test_a_text_is_found_among_ascending_ones(numbers: list[int], start: int, stop: int, wanted: int) -> None:
    start, stop = sorted((min(start, len(numbers)), min(stop, len(numbers))))
    numbers[start:stop] = sorted(numbers[start:stop])  # the rest is in no order, as where a key has several columns
    texts = [f"{number:04d}" for number in numbers]
    cells = TextCells(pa.array(["", *texts])[1:])
    expected = bisect_left(texts, f"{wanted:04d}", start, stop), bisect_right(texts, f"{wanted:04d}", start, stop)
    assert cells.search(f"{wanted:04d}".encode(), start, stop) == expected
