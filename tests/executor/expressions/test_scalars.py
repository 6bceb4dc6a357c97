"""Arithmetic of single rows in Python against the kernels: the same values, and never a value where these refuse."""

from __future__ import annotations

import math

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import NumericOutOfRange
from nyala.executor.expressions.evaluate import Compiler
from nyala.executor.expressions.scalars import Unsure, scalar_of
from nyala.executor.kernels.numbers.bounded_integers import limits_of, scale_of
from nyala.model.types import BIGINT, DECIMAL, DOUBLE, INT, SMALLINT, STRING, TINYINT, DataType
from nyala.model.vectors.vector import Batch, Const
from nyala.sql.expressions import Call, Cast, Column, Expr, Literal

EXACT = (TINYINT, SMALLINT, INT, BIGINT, DECIMAL(4, 2), DECIMAL(12, 2), DECIMAL(18, 0), DECIMAL(30, 4), DECIMAL(38, 2))
SCALES = (0, 2, 4)


def values(type_: DataType) -> st.SearchStrategy:
    if type_ == DOUBLE:
        return st.none() | st.floats() | st.sampled_from([1e308, -1e308, 0.0, -0.0, 5e-324])
    low, high = limits_of(type_)
    return st.none() | st.integers(low, high) | st.sampled_from([low, high, 0, 1, -1])


@st.composite
def trees(draw, depth: int = 3, is_exact: bool = True) -> tuple[Expr, list[tuple[Column, object]]]:
    """An expression, and its columns with their values."""
    type_ = draw(st.sampled_from(EXACT)) if is_exact else DOUBLE
    kind = draw(st.sampled_from(["column", "literal", "call", "call", "cast"])) if depth else "column"
    if kind == "literal":
        return Literal(type_, False, draw(values(type_).filter(lambda value: value is not None))), []
    if kind == "cast" and is_exact:
        arg, inputs = draw(trees(depth - 1))
        return Cast(type_, True, arg, False), inputs
    if kind == "call":
        function = draw(st.sampled_from(["add", "sub", "mul", "neg"]))
        args = [draw(trees(depth - 1, is_exact)) for _ in range(1 if function == "neg" else 2)]
        exprs = [arg for arg, _ in args]
        if is_exact and function in ("add", "sub"):  # as the binder does, both have the scale of the result
            scale = max(scale_of(arg.type) for arg in exprs)
            exprs = [e if scale_of(e.type) == scale else Cast(DECIMAL(38, scale), True, e, False) for e in exprs]
        if is_exact:
            scales = [scale_of(arg.type) for arg in exprs]
            scale = sum(scales) if function == "mul" else max(scales)
            type_ = draw(st.sampled_from([DECIMAL(38, scale), DECIMAL(max(scale, 5), scale)]))
            if not scale:
                type_ = draw(st.sampled_from([INT, BIGINT, TINYINT]))
        return Call(type_, True, function, tuple(exprs)), [column for _, columns in args for column in columns]
    column = Column(type_, True, draw(st.integers(1, 1 << 60)), "c")
    return column, [(column, draw(values(type_)))]


def by_kernels(expr: Expr, inputs: list[tuple[Column, object]]) -> object:
    evaluate = Compiler([column for column, _ in inputs]).compile_all([expr])[0]
    found = evaluate(Batch([Const(column.type, value, 1) for column, value in inputs], 1))
    if isinstance(found, Const):
        return found.value
    array = found.to_arrow()
    return None if array[0].as_py() is None else expr.type.to_physical(array[0].as_py())


@given(st.booleans().flatmap(lambda is_exact: trees(is_exact=is_exact)))
@settings(max_examples=examples(300), deadline=None)
def test_scalars_are_what_the_kernels_compute(tree):
    expr, inputs = tree
    scalar = scalar_of(expr, {column.id: place for place, (column, _) in enumerate(inputs)})
    if scalar is None:
        return
    try:
        mine = scalar([value for _, value in inputs])
    except Unsure:
        return
    theirs = by_kernels(expr, inputs)
    assert repr(mine) == repr(theirs) or (isinstance(mine, float) and math.isnan(mine) and math.isnan(theirs))


def test_common_updates_need_no_kernel_and_limits_are_left_to_it():
    n, d = Column(INT, True, 1, "n"), Column(DECIMAL(12, 2), True, 2, "d")
    one = Literal(INT, False, 1)
    plus = scalar_of(Call(INT, True, "add", (n, one)), {1: 0})
    assert plus is not None and plus([41]) == 42 and plus([None]) is None
    with pytest.raises(Unsure):
        plus([2**31 - 1])
    with pytest.raises(NumericOutOfRange):
        by_kernels(Call(INT, True, "add", (n, one)), [(n, 2**31 - 1)])
    cents = Cast(
        DECIMAL(12, 2), True, Call(DECIMAL(13, 2), True, "sub", (d, Cast(DECIMAL(13, 2), True, n, False))), False
    )
    assert scalar_of(cents, {1: 0, 2: 1})([3, 1050]) == 750
    assert scalar_of(Cast(INT, True, d, False), {2: 0}) is None
    assert scalar_of(Column(STRING, True, 1, "s"), {1: 0}) is None
