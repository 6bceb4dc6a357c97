"""Exact sums and averages compared with Python's integers; floats that exceed their range."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import nyala
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import NumericOutOfRange
from nyala.executor.aggregation.accumulators import Sum, Total
from nyala.executor.kernels.groups.segments import Segments
from nyala.executor.kernels.numbers.bounded_integers import from_limbs
from nyala.executor.kernels.numbers.limbs import carried, halves_of_limbs, limbs_of_halves, quotient
from nyala.model.types import BIGINT, DECIMAL, DataType
from nyala.model.vectors.vector import Const, Flat, Vector, Wide, concat, physical_to_arrow

QUICK = settings(max_examples=examples(100), deadline=None)
WIDE = DECIMAL(38, 3)
EXTREMES = [10**38 - 1, -(10**38) + 1, 2**63, -(2**63), 2**64, -(2**64), 2**96 - 1, 0, -1, 2**32]
HUGE = st.integers(-(10**38) + 1, 10**38 - 1) | st.sampled_from(EXTREMES)
SMALL = st.integers(-(2**63), 2**63 - 1)


def vector(type_: DataType, values: list[int | None]) -> Vector:
    present = np.array([v is not None for v in values])
    validity = None if present.all() else present
    filled = [0 if v is None else v for v in values]
    if type_ == BIGINT:
        return Flat(BIGINT, np.array(filled, np.int64), validity)
    if len(set(values)) == 1:
        return Const(type_, values[0], len(values))
    column = np.empty(len(values), object)
    column[:] = filled
    return Wide(type_, physical_to_arrow(type_, column, validity))


def value_of(total: Total, group: int) -> int:
    return sum(int(limb[group]) << 32 * place for place, limb in enumerate(reversed(total.limbs())))


@QUICK
@given(st.lists(st.lists(st.none() | HUGE, min_size=1, max_size=6), min_size=1, max_size=5), st.booleans(), st.data())
def test_sums_are_those_of_integers(parts: list[list[int | None]], is_wide: bool, data: st.DataObject) -> None:
    """Each part is a batch of one or two groups; merged, and through vectors and back."""
    if not is_wide:
        parts = [[None if v is None else v % 2**64 - 2**63 for v in part] for part in parts]
    accumulator, states, sums = Sum(), [], [0, 0]
    for part in parts:
        cut = data.draw(st.integers(1, len(part) - 1)) if len(part) > 1 else len(part)
        groups = Segments(None, np.array([0, cut][: 1 + (cut < len(part))]), len(part))
        state = accumulator.partial([vector(WIDE if is_wide else BIGINT, part)], groups)
        if len(groups) == 1:
            nothing = accumulator.partial([Const(BIGINT, 0, 1)], Segments(None, np.zeros(1, int), 1))
            state = accumulator.merge([state, nothing], Segments(np.array([0, 1]), np.array([0, 1]), 2))
        for group, rows in enumerate((part[:cut], part[cut:])):
            expected = sum(v for v in rows if v is not None)
            sums[group] += expected
            assert value_of(state, group) == expected
        states.append(state)
    order = np.arange(2 * len(states)).reshape(-1, 2).T.ravel()
    groups = Segments(order, np.array([0, len(states)]), len(order))
    columns = [concat(list(each)) for each in zip(*(accumulator.to_vectors(s, 2) for s in states), strict=True)]
    kept = accumulator.from_vectors(columns, 2 * len(states))
    for merged in (accumulator.merge(states, groups), accumulator.merge([kept], groups)):
        assert [value_of(merged, 0), value_of(merged, 1)] == sums
        if all(abs(value) < 10**38 for value in sums):
            found = from_limbs(WIDE, merged.limbs(), None).to_arrow().to_pylist()
            assert found == [WIDE.to_python(value) for value in sums]
        else:
            with pytest.raises(NumericOutOfRange, match="out of range for DECIMAL"):
                from_limbs(WIDE, merged.limbs(), None)


@QUICK
@given(HUGE, st.integers(1, 2**31), st.integers(0, 20))
def test_quotients_round_half_away_from_zero(value: int, divisor: int, digits: int) -> None:
    limbs = limbs_of_halves(np.array([value >> 64]), np.array([value & (2**64 - 1)], np.uint64))
    found = quotient(limbs, np.array([divisor]), digits)
    size = (2 * abs(value) * 10**digits + divisor) // (2 * divisor)
    expected = size if value >= 0 else -size
    assert sum(int(limb[0]) << 32 * place for place, limb in enumerate(reversed(found))) == expected
    high, low, held = halves_of_limbs(found)
    assert bool(held[0]) == (-(2**127) <= expected < 2**127)
    if held[0]:
        assert (int(high[0]) << 64) + int(low[0]) == expected


@QUICK
@given(st.lists(SMALL, min_size=1, max_size=6))
def test_carries_keep_the_value(limbs: list[int]) -> None:
    limbs = [limb // 4 for limb in limbs]
    found = [int(limb[0]) for limb in carried([np.array([limb]) for limb in limbs])]
    value, carried_value = (sum(x << 32 * i for i, x in enumerate(reversed(each))) for each in (limbs, found))
    assert value == carried_value
    assert all(0 <= limb < 2**32 for limb in found[1:])


# ---- SQL -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    with nyala.connect(":memory:") as found:
        yield found


def test_sums_and_averages_past_64_bits(connection: Any) -> None:
    rows = [(1, Decimal("9" * 38)), (1, Decimal(-1)), (2, Decimal(-5)), (2, None), (3, None)]
    source = (
        "(VALUES " + ", ".join(f"({k}, {'NULL' if w is None else w}::decimal(38, 0))" for k, w in rows) + ") t (k, w)"
    )
    found = connection.execute(f"SELECT k, sum(w) FROM {source} GROUP BY k ORDER BY k").fetchall()
    assert found == [(1, Decimal("9" * 37 + "8")), (2, Decimal(-5)), (3, None)]
    running = connection.execute(f"SELECT sum(w) OVER (ORDER BY k, w) FROM {source} WHERE k < 3").fetchall()
    assert [value for (value,) in running][:2] == [Decimal(-1), Decimal("9" * 37 + "8")]
    with pytest.raises(NumericOutOfRange, match=r"2e\+38 is out of range for DECIMAL\(38,0\)"):
        connection.execute(f"SELECT sum(w) FROM (SELECT w FROM {source} UNION ALL SELECT w FROM {source}) u").fetchall()
    bigints = "(VALUES (9223372036854775807), (9223372036854775807), (1)) t (x)"
    assert connection.execute(f"SELECT sum(x) FROM {bigints}").fetchall() == [(2**64 - 1,)]
    (average,) = connection.execute(f"SELECT avg(x) FROM {bigints}").fetchone()
    assert round(average * 3) == 2**64 - 1


OVERFLOWING = [
    "sum(x)", "avg(x)", "var_pop(x)", "stddev_samp(x)", "covar_pop(x, x)", "sum(x) OVER (ORDER BY k)",
    "sum(x) OVER (ORDER BY k ROWS 1 PRECEDING)", "x * 10", "x / 1e-10", "x + x", "-x - x", "exp(x)", "power(x, 2)",
    "cosh(x)", "degrees(x)", "x::real", "product(x)",
]  # fmt: skip


@pytest.mark.parametrize("expression", OVERFLOWING)
def test_finite_floats_never_become_infinite(connection: Any, expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NumericOutOfRange, match="out of range"):
            connection.execute(
                f"SELECT {expression} FROM (VALUES (1e308::double, 1), (1.5e308, 2)) t (x, k)"
            ).fetchall()
        if expression in ("x + x", "x::real", "sum(x)", "avg(x)", "x * 10", "sum(x) OVER (ORDER BY k)", "power(x, 2)"):
            infinite = "(VALUES ('inf'::double, 1), ('inf', 2)) t (x, k)"
            assert {row[0] for row in connection.execute(f"SELECT {expression} FROM {infinite}").fetchall()} == {
                math.inf
            }


@pytest.mark.parametrize(
    "expression",
    ["x % 7", "width_bucket(x, 0, 1, 10)", "round(x, 400)", "atan2(x, x)", "x - x", "trunc(x, -3)", "cbrt(x)", "abs(x)",
     "sum(x - x)", "var_samp(x)", "corr(x, x)", "exp(-x)", "max(x)", "percentile_cont(0.3) WITHIN GROUP (ORDER BY x)"],
)  # fmt: skip
@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e300"])
def test_no_warning_comes_from_below(connection: Any, expression: str, value: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            connection.execute(f"SELECT {expression} FROM (VALUES ('{value}'::double), (2)) t (x)").fetchall()
        except NumericOutOfRange:
            assert value != "nan"
