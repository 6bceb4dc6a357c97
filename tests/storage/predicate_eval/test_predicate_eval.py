"""Predicates over vectors of every form, against plain Python; verdicts over pages against the rows themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columnar_support import arrow_array, holds
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.model.predicates import AnyOf, BitmapFilter, ColumnPredicate, InList, IsNull, Range
from nyala.model.types import BIGINT, BINARY, BOOLEAN, DECIMAL, DOUBLE, FLOAT, INT, STRING, DataType
from nyala.model.vectors.vector import Const, Dict, Flat, Narrow, Text, Vector, Wide
from nyala.storage.predicate_eval import code_conditions
from nyala.storage.predicate_eval.code_conditions import ALL, NONE, SOME, Bits, Intervals, Members, members
from nyala.storage.predicate_eval.evaluation import condition_of, evaluate

INTEGERS = st.integers(-300, 300) | st.sampled_from([-(2**31), 2**31 - 1, 0, 255, 256])
TEXTS = st.text("abcé\0", max_size=3)
FLOATS = st.floats(width=32, allow_subnormal=False) | st.sampled_from([0.0, -0.0, 1.5, float("nan")])
WIDE = st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-3, 3)


@st.composite
def ranges(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> ColumnPredicate:
    bounds = [draw(values | st.none()) for _ in range(2)]
    if draw(st.booleans()):
        bounds[1] = bounds[0]
    return Range("c", *bounds, draw(st.booleans()), draw(st.booleans()))


@st.composite
def lists(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> ColumnPredicate:
    return InList("c", tuple(sorted(draw(st.sets(values.filter(lambda v: v == v), max_size=20)))))


@st.composite
def bitmaps(draw: st.DrawFn) -> ColumnPredicate:
    bits = np.array(draw(st.lists(st.booleans(), max_size=400)), np.bool_)
    return BitmapFilter("c", draw(st.integers(-400, 400)), bits)


def plain(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return ranges(values) | lists(values) | st.builds(IsNull, st.just("c"), st.booleans())


def alternatives(values: st.SearchStrategy[Any]) -> st.SearchStrategy[ColumnPredicate]:
    return st.lists(plain(values), max_size=12).map(lambda members: AnyOf("c", tuple(members)))


def predicates(values: st.SearchStrategy[Any]) -> st.SearchStrategy[ColumnPredicate]:
    return plain(values) | alternatives(values)


def physical(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(values | st.none(), max_size=40)


def validity(column: list[Any]) -> Any:
    return None if None not in column else np.array([v is not None for v in column])


def check(predicate: ColumnPredicate, vector: Vector, column: list[Any]) -> None:
    found = evaluate(predicate, vector)
    assert found.dtype == np.bool_
    assert found.tolist() == [holds(predicate, v) for v in column]


@settings(max_examples=examples(400), deadline=None)
@given(predicates(INTEGERS) | bitmaps(), physical(INTEGERS), st.sampled_from([INT, BIGINT, DECIMAL(12, 2)]))
def test_integers(predicate: ColumnPredicate, column: list[Any], type_: DataType) -> None:
    values = np.array([0 if v is None else v for v in column], type_.dtype)
    check(predicate, Flat(type_, values, validity(column)), column)
    present = [v for v in column if v is not None] or [0]
    base, top = min(present), max(present) - min(present)
    for dtype in [d for d in (np.uint8, np.uint16, np.uint32, np.uint64) if top <= np.iinfo(d).max]:
        codes = np.array([0 if v is None else v - base for v in column], dtype)
        check(predicate, Narrow(type_, codes, base, validity(column), top), column)
        check(predicate, Narrow(type_, codes, base, validity(column)), column)


@settings(max_examples=examples(200), deadline=None)
@given(predicates(TEXTS), physical(TEXTS), st.randoms())
def test_texts(predicate: ColumnPredicate, column: list[Any], random: Any) -> None:
    check(predicate, Text(STRING, arrow_array(STRING, column)), column)
    entries = sorted({v for v in column if v is not None} | {"b"}, key=str.encode)
    for ordered in (True, False):
        if not ordered:
            random.shuffle(entries)
        codes = np.array([0 if v is None else entries.index(v) for v in column], np.uint16)
        check(predicate, Dict(STRING, codes, pa.array(entries), validity(column), ordered), column)


def test_binary_compares_by_bytes() -> None:
    column = [b"", b"\x00", b"\x7f", b"\xff", None]
    check(Range("c", b"\x00", b"\xff", False, False), Text(BINARY, pa.array(column)), column)


@settings(max_examples=examples(200), deadline=None)
@given(predicates(FLOATS), physical(FLOATS), st.sampled_from([FLOAT, DOUBLE]))
def test_floats_with_nan_above_all(predicate: ColumnPredicate, column: list[Any], type_: DataType) -> None:
    values = np.array([0 if v is None else v for v in column], type_.dtype)
    check(predicate, Flat(type_, values, validity(column)), column)


@settings(max_examples=examples(200), deadline=None)
@given(predicates(WIDE) | bitmaps(), physical(WIDE))
def test_wide_decimals(predicate: ColumnPredicate, column: list[Any]) -> None:
    type_ = DECIMAL(38, 3)
    check(predicate, Wide(type_, arrow_array(type_, column)), column)


def test_bounds_beyond_the_type() -> None:
    column = [-(2**63), 0, 2**63 - 1]
    flat = Flat(BIGINT, np.array(column, np.int64))
    wide = Wide(DECIMAL(38, 0), arrow_array(DECIMAL(38, 0), [0, 10**38 - 1]))
    for low, high in [(-(2**200), 2**200), (2**63, None), (None, -(2**63) - 1), (2**200, None)]:
        check(Range("c", low, high), flat, column)
        check(Range("c", low, high), wide, [0, 10**38 - 1])


@given(predicates(INTEGERS), st.none() | INTEGERS)
def test_constants(predicate: ColumnPredicate, value: Any) -> None:
    check(predicate, Const(INT, value, 3), [value] * 3)


@pytest.mark.parametrize("value", [True, False])
def test_booleans(value: bool) -> None:
    column = [True, False, None]
    flat = Flat(BOOLEAN, np.array([True, False, False]), np.array([True, True, False]))
    check(Range.equal("c", value), flat, column)
    codes = np.array([1, 0, 0], np.uint8)
    check(Range.equal("c", value), Narrow(BOOLEAN, codes, 0, np.array([True, True, False])), column)


@settings(max_examples=examples(300), deadline=None)
@given(
    predicates(INTEGERS) | bitmaps(),
    st.lists(st.lists(INTEGERS, min_size=1, max_size=6), min_size=1, max_size=6),
)
def test_verdicts_agree_with_the_rows(predicate: ColumnPredicate, pages: list[list[int]]) -> None:
    lows, highs = (np.array([f(p) for p in pages], np.int64) for f in (min, max))
    verdicts = condition_of(predicate).verdicts(lows, highs)
    for verdict, page in zip(verdicts.tolist(), pages):
        true = [holds(predicate, v) for v in page]
        if verdict == NONE:
            assert not any(true)
        if verdict == ALL:
            assert all(true)
        if verdict == SOME and isinstance(predicate, Range):
            assert min(page) != max(page)


def test_alternatives_are_joined_where_they_touch() -> None:
    found = condition_of(AnyOf("c", (Range("c", 3, 5), InList("c", (1, 2, 9)), Range("c", 10, None), IsNull("c"))))
    assert isinstance(found, Intervals) and found.pairs[0] == (1, 5) and len(found.pairs) == 2
    many = [Range("c", 10 * i, 10 * i + 3) for i in range(50)]
    assert isinstance(condition_of(AnyOf("c", tuple(many))), Bits)


def test_lists_take_the_cheapest_form() -> None:
    assert members([1, 2, 3, 7]) == Intervals(((1, 3), (7, 7)))
    assert isinstance(members(list(range(0, 100, 2))), Bits)
    assert isinstance(members([i << 40 for i in range(20)]), Members)
    assert members([]) == Intervals(())


@given(st.sets(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30), st.integers(0, 3), st.data())
def test_long_lists_over_wide_spans(wanted: set[int], shift: int, data: Any) -> None:
    near = sorted(wanted)
    column = [data.draw(st.sampled_from(near)) for _ in range(5)] + [min(near[0] + shift, 2**63 - 1)]
    codes = np.array([v - min(column) for v in column], np.uint64)
    found = Members(np.array(near, np.int64)).matches(codes, min(column))
    assert found.tolist() == [v in wanted for v in column]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.booleans(), max_size=60),
    st.integers(-100, 100),
    st.integers(-100, 100),
    st.lists(st.integers(0, 120), max_size=40),
    st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]),
    st.booleans(),
)
def test_a_table_is_looked_up_alike_with_a_window_and_without(
    table: list[bool], table_base: int, base: int, rows: list[int], dtype: type, windowed: bool
) -> None:
    bits = Bits(table_base, np.array(table, np.bool_))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_conditions, "_WINDOW_SHARE", 0)
        patch.setattr(code_conditions, "_SMALL_WINDOW", 200 if windowed else 0)
        found = bits.matches(np.array(rows, dtype), base, 120)
    places = [row + base - table_base for row in rows]
    assert found.tolist() == [0 <= place < len(table) and table[place] for place in places]
