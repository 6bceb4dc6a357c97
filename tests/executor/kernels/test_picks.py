"""CASE, COALESCE, comparisons of dictionaries and quotients over whole columns, against Python row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor.expressions.kernel_table import KERNELS
from nyala.executor.kernels import compare, conditional
from nyala.executor.kernels.numbers.bounded_integers import from_values
from nyala.model.types import BIGINT, BOOLEAN, DECIMAL, DOUBLE, INT, STRING, DataType
from nyala.model.vectors.vector import Const, Dict, Flat, Narrow, Text, Vector

VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    INT: st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.one_of(st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1)),
    DECIMAL(38, 2): st.one_of(st.integers(-9, 9), st.integers(-(10**38) + 1, 10**38 - 1)),
    DOUBLE: st.floats(),
    BOOLEAN: st.booleans(),
    STRING: st.one_of(st.sampled_from(["", "a", "b", "ß", "e\u0301", "語😀", "x" * 300]), st.text("abß語", max_size=5)),
}
DICTIONARIES = [pa.array(["", "a", "ß"]), pa.array(["", "a", "ß"]), pa.array(["b", "z", "語😀"]), pa.array(["z", "b"])]
"""The last one is not ordered; the first two are equal and not identical."""


def vector_of(type_: DataType, values: Sequence[Any]) -> Vector:
    if type_ == STRING:
        return Text(STRING, pa.array(["ß", *values, "x"], pa.string()).slice(1, len(values)))
    return from_values(type_, values)


@st.composite
def candidates_of(draw: st.DrawFn, type_: DataType, rows: int) -> tuple[Vector, list[Any]]:
    """A vector of a form that the type has, and its values."""
    forms = ["plain", "plain", "constant", "null"]
    form = draw(st.sampled_from([*forms, *(["dictionary"] * 3 if type_ == STRING else ["narrow"] * (type_ == BIGINT))]))
    if form in ("constant", "null"):
        value = None if form == "null" else draw(VALUES[type_])
        return Const(type_, value, rows), [value] * rows
    if form == "dictionary":
        dictionary = draw(st.sampled_from(DICTIONARIES))
        codes = np.array(draw(st.lists(st.integers(0, len(dictionary) - 1), min_size=rows, max_size=rows)), np.uint8)
        present = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
        validity = None if draw(st.booleans()) else present
        coded = Dict(STRING, codes, dictionary, validity, ordered=dictionary is not DICTIONARIES[-1])
        return coded, coded.to_arrow().to_pylist()
    if form == "narrow":
        narrow = Narrow(
            BIGINT, np.array(draw(st.lists(st.integers(0, 255), min_size=rows, max_size=rows)), np.uint8), -7
        )
        return narrow, narrow.to_arrow().to_pylist()
    values = draw(st.lists(st.one_of(st.none(), VALUES[type_]), min_size=rows, max_size=rows))
    if draw(st.booleans()):
        values = [draw(VALUES[type_]) if value is None else value for value in values]
    return vector_of(type_, values), values


def shown(vector: Vector, type_: DataType) -> list[Any]:
    found = vector.to_arrow()
    found.validate(full=True)
    values = found.to_pylist()
    return [None if v is None else type_.to_physical(v) if type_.is_decimal else v for v in values]


def same(ours: list[Any], expected: list[Any]) -> bool:
    return all(a == b or (a != a and b != b) for a, b in zip(ours, expected, strict=True))


@pytest.mark.parametrize("type_", VALUES, ids=str)
@settings(deadline=None, max_examples=examples(150))
@given(data=st.data())
def test_rows_are_picked_from_vectors_of_any_form(type_: DataType, data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 12))
    number = data.draw(st.integers(1, 5))
    pairs = [data.draw(candidates_of(type_, rows)) for _ in range(number)]
    choice = data.draw(st.lists(st.integers(0, number - 1), min_size=rows, max_size=rows))
    dtype = data.draw(st.sampled_from([np.uint8, np.intp, *([np.bool_] if number == 2 else [])]))
    found = conditional.pick(type_, np.array(choice, dtype), [vector for vector, _ in pairs])
    assert same(shown(found, type_), [pairs[chosen][1][row] for row, chosen in enumerate(choice)])
    first = conditional.coalesce(type_, [vector for vector, _ in pairs])
    columns = zip(*(values for _, values in pairs), strict=True)
    assert same(shown(first, type_), [next((v for v in row if v is not None), None) for row in columns])


@settings(deadline=None, max_examples=examples(200))
@given(data=st.data())
def test_dictionaries_are_compared_as_their_texts(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 12))
    (left, ours), (right, theirs) = (data.draw(candidates_of(STRING, rows)) for _ in range(2))
    for name, test in (("eq", str.__eq__), ("ne", str.__ne__), ("lt", str.__lt__), ("ge", str.__ge__)):
        expected = [
            None if a is None or b is None else test(a.encode().decode("latin-1"), b.encode().decode("latin-1"))
            for a, b in zip(ours, theirs, strict=True)
        ]
        assert compare.compare(name, left, right).to_arrow().to_pylist() == expected


WHOLE = st.one_of(st.integers(-20, 20), st.integers(-(2**52), 2**52), st.integers(-(2**63) + 1, 2**63 - 1))


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(st.tuples(WHOLE, WHOLE.filter(bool)), min_size=1, max_size=10))
def test_quotients_multiples_and_truncated_decimals_are_exact(pairs: list[tuple[int, int]]) -> None:
    left, right = (np.array(column, np.int64) for column in zip(*pairs))
    for type_, name in ((BIGINT, "div"), (DECIMAL(38, 0), "whole_quotient")):
        found = KERNELS[name](type_, Flat(type_, left), Flat(type_, right)).to_arrow().to_pylist()
        assert found == [(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    digits = Const(INT, 1, len(pairs))
    truncated = KERNELS["trunc"](DECIMAL(38, 1), Flat(DECIMAL(18, 4), left), digits)
    assert shown(truncated, DECIMAL(38, 1)) == [abs(a) // 1000 * (1 if a >= 0 else -1) for a, _ in pairs]
    common = KERNELS["gcd"](BIGINT, Flat(BIGINT, left), Flat(BIGINT, right)).to_arrow().to_pylist()
    assert common == [math.gcd(*pair) for pair in pairs]
    if all(math.lcm(*pair) < 2**63 for pair in pairs):
        multiple = KERNELS["lcm"](BIGINT, Flat(BIGINT, left), Flat(BIGINT, right)).to_arrow().to_pylist()
        assert multiple == [math.lcm(*pair) for pair in pairs]


def test_quotients_beside_a_whole_number_are_truncated() -> None:
    """The quotients of the largest integers that float64 divides, one unit beside a multiple."""
    divisors = [3, 7, 2**20 - 1, 2**26 - 5, 2**51 + 1]
    pairs = [
        (n, d)
        for d in divisors
        for k in (1, 2, 2**52 // d)
        for n in (k * d - 1, k * d, -(k * d) + 1)
        if abs(n) <= 2**52
    ]
    left, right = (Flat(BIGINT, np.array(column, np.int64)) for column in zip(*pairs))
    found = KERNELS["div"](BIGINT, left, right).to_arrow().to_pylist()
    assert found == [abs(a) // b * (1 if a >= 0 else -1) for a, b in pairs]
