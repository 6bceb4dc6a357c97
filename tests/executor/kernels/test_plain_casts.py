"""Casts of whole columns are those of their values one by one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import Error
from nyala.executor.kernels import cast as casts
from nyala.executor.kernels.plain_casts import decimals_of_floats
from nyala.model.types import DATE, DECIMAL, DOUBLE, FLOAT, STRING, TIMESTAMP, DataType
from nyala.model.vectors.vector import Vector, vector_from_arrow

DECIMALS = (DECIMAL(12, 2), DECIMAL(5, 0), DECIMAL(18, 6), DECIMAL(38, 10), DECIMAL(3, 3))
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1e6, 1e6),
    st.integers(-(10**6), 10**6).map(lambda n: n / 100),
    st.integers(-(10**6), 10**6).map(lambda n: n / 1000 + 0.0005),
    st.integers(-(2**20), 2**20).map(lambda n: n / 2),
    st.sampled_from([0.0, -0.0, 0.5, 1.5, 2.5, 1.005, 0.285, 2.675, 1e-5, 9.999e-5, 1e-4, 1e10, 1e15, 1e16, 2.0**53]),
)


def outcome(type_: DataType, vector: Vector, safe: bool) -> Any:
    try:
        result = casts.cast(type_, vector, safe)
    except Error as error:
        return type(error), str(error)
    return repr(result.to_arrow().to_pylist())


def alone(type_: DataType, array: pa.Array, source: DataType, safe: bool, patch: pytest.MonkeyPatch) -> Any:
    """The outcome if each value is converted alone by the rules of its type."""
    with patch.context() as only:
        only.setattr(
            casts, "decimals_of_floats", lambda _, values: (np.zeros(len(values), int), np.zeros(len(values), bool))
        )
        only.setattr(casts, "parsed_texts", lambda *_: None)
        only.setattr(casts, "texts_of", lambda *_: None)
        return outcome(type_, vector_from_arrow(source, array), safe)


@pytest.fixture(scope="module")
def patch() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def check(type_: DataType, source: DataType, array: pa.Array, patch: pytest.MonkeyPatch) -> None:
    for safe in (True, False):
        assert outcome(type_, vector_from_arrow(source, array), safe) == alone(type_, array, source, safe, patch)


@settings(max_examples=examples(150))
@given(st.sampled_from(DECIMALS), st.lists(st.none() | NUMBERS | st.sampled_from([float("nan"), float("inf")])))
def test_floats_become_decimals_by_their_digits(patch: Any, type_: DataType, values: list[Any]) -> None:
    check(type_, DOUBLE, pa.array(values, pa.float64()), patch)


@pytest.mark.parametrize("scale", [0, 1, 2, 6])
def test_what_is_certain_is_the_decimal_rounding(scale: int) -> None:
    random = np.random.default_rng(scale)
    near_ties = (random.integers(-(10**9), 10**9, 2_000) + 0.5) / 10**scale
    values = np.concatenate(
        [near_ties, np.nextafter(near_ties, 9), near_ties * (1 + 1e-12), random.normal(0, 1e4, 2_000)]
    )
    units, is_certain = decimals_of_floats(DECIMAL(18, scale), values)
    assert is_certain[-2_000:].all()
    assert not is_certain[:2_000].any()
    for value, unit in zip(values[is_certain].tolist(), units[is_certain].tolist()):
        assert unit == int(Decimal(repr(value)).scaleb(scale).quantize(Decimal(1), "ROUND_HALF_UP"))


@settings(max_examples=examples(150))
@given(st.lists(st.none() | NUMBERS | st.sampled_from([float("nan"), float("inf"), float("-inf")])))
def test_floats_become_texts(patch: Any, values: list[Any]) -> None:
    check(STRING, DOUBLE, pa.array(values, pa.float64()), patch)
    with np.errstate(over="ignore"):
        single = [None if value is None else np.float32(value) for value in values]
    check(STRING, FLOAT, pa.array(single, pa.float32()), patch)


def test_many_floats_become_texts(patch: Any) -> None:
    random = np.random.default_rng(1)
    values = random.normal(0, 1, 3_000) * 10.0 ** random.integers(-8, 20, 3_000)
    check(STRING, DOUBLE, pa.array(values), patch)
    check(STRING, FLOAT, pa.array(values.astype(np.float32)), patch)


@settings(max_examples=examples(60))
@given(st.sampled_from(DECIMALS), st.lists(st.none() | st.integers(-999, 999)))
def test_decimals_become_texts(patch: Any, type_: DataType, values: list[Any]) -> None:
    array = pa.array([None if v is None else Decimal(v).scaleb(-(type_.scale or 0)) for v in values], type_.arrow)
    check(STRING, type_, array, patch)


MOMENTS = st.one_of(
    st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
    st.integers(-(10**6), 10**6).map(lambda n: n * 1_000_000),
    st.integers(-(10**9), 10**9).map(lambda n: n * 1_000),
)


@settings(max_examples=examples(60))
@given(st.lists(st.none() | MOMENTS))
def test_timestamps_become_texts_and_timestamps_again(patch: Any, values: list[Any]) -> None:
    array = pa.array(values, pa.timestamp("us"))
    check(STRING, TIMESTAMP, array, patch)
    texts = casts.cast(STRING, vector_from_arrow(TIMESTAMP, array)).to_arrow()
    assert casts.cast(TIMESTAMP, vector_from_arrow(STRING, texts)).to_arrow().equals(array)


ODD = (
    " 1.5 |+2|-.5|5.|1e3|1E-2|1_0|0x1F|nan|inf|-Infinity|1e400||x|१|1.005|1234567890123456|0.123456789012345|2020-01-01"
    "|2020-01-01 10:00|2020-01-01 10:00:00|2020-02-29T23:59:59.999999|0000-01-01 00:00:00|2020-01-01 10:00:00.5"
    "|2020-01-01 10:00:00Z|2020-01-01 10:00:00+01:00|2021-02-29 00:00:00|9999-12-31 23:59:59.9999999"
    "|2020-01-01 24:00:00| 2020-01-01  10:00:00 |2020-1-1 1:0:0|10000-01-01 00:00:00"
)
TEXTS = st.one_of(
    NUMBERS.map(repr),
    st.decimals(-(10**6), 10**6, places=3).map(str),
    st.integers(-(10**17), 10**17).map(str),
    st.sampled_from(ODD.split("|")),
)


@settings(max_examples=examples(250))
@given(
    st.sampled_from((*DECIMALS, DOUBLE, FLOAT, TIMESTAMP, DATE)), st.lists(st.none() | TEXTS, max_size=4), st.booleans()
)
def test_texts_are_parsed_by_the_rules_of_each_type(
    patch: Any, type_: DataType, texts: list[Any], are_alike: bool
) -> None:
    check(type_, STRING, pa.array(texts[:1] * 3 if are_alike else texts, pa.string()), patch)
