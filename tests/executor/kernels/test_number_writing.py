"""`to_char` of columns of numbers, against the formatting of one number at a time."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor.expressions.kernel_table import KERNELS
from nyala.executor.kernels.numbers.number_templates import written
from nyala.model.types import BIGINT, DECIMAL, DOUBLE, FLOAT, INT, STRING, DataType
from nyala.model.vectors.vector import Const, Flat, Narrow, Text, Wide

SLOTS = st.lists(st.sampled_from(["9", "9", "0", "0", ",", "G", "9999"]), max_size=5).map("".join)
SIGNS = ["", "S", "MI", "PL", "SG", "PR", "FM", "TH", "th", "V9", "EEEE", "RN", '"ß€"', "x", "\ue000"]
TEMPLATES = st.builds(
    lambda *parts: "".join(parts),
    st.sampled_from(["", "FM"]),
    st.sampled_from(SIGNS),
    SLOTS,
    st.sampled_from(["", ".", "D"]),
    SLOTS,
    st.sampled_from(SIGNS),
)
TYPES = [INT, BIGINT, DECIMAL(7, 2), DECIMAL(12, 4), DECIMAL(18, 0), DECIMAL(18, 18)]
VALUES = st.one_of(
    st.integers(-1_000_000, 1_000_000),
    st.integers(-(10**18) + 1, 10**18 - 1),
    st.sampled_from([0, 5, 49, 50, -50, 150, 5000, -4999, -5000, 99_995, 999_999, 10, 1000]),
)


def shown(type_: DataType, physical: int) -> Any:
    return Decimal(physical).scaleb(-type_.scale) if type_.is_decimal and type_.scale is not None else physical


@settings(deadline=None, max_examples=examples(400))
@given(st.sampled_from(TYPES), st.lists(st.one_of(st.none(), VALUES), min_size=1, max_size=8), TEMPLATES)
def test_columns_are_written_as_single_numbers_are(type_: DataType, values: list[int | None], template: str) -> None:
    most = 10**type_.precision - 1 if type_.precision else 2**31 - 1 if type_ == INT else 2**63 - 1
    values = [None if value is None else max(-most, min(most, value)) for value in values]
    validity = np.array([value is not None for value in values])
    physical = np.array([0 if value is None else value for value in values], np.int64)
    expected = [None if value is None else written(shown(type_, value), template) for value in values]
    base = int(physical.min())
    narrow = Narrow(type_, (physical - base).astype(np.uint64), base, validity)
    for vector in (Flat(type_, physical, None if validity.all() else validity), narrow):
        found = KERNELS["to_char_number"](STRING, vector, Const(STRING, template, len(values))).to_arrow()
        found.validate(full=True)
        assert found.to_pylist() == expected


FLOATS = st.one_of(
    st.floats(),
    st.floats(-1e6, 1e6),
    st.integers(-(10**7), 10**7).map(lambda n: n / 1000),  # half of the last digit of some templates
    st.integers(-(10**5), 10**5).map(lambda n: np.nextafter(n / 1000, np.inf).item()),
    st.sampled_from([0.0, -0.0, 0.5, -0.005, 2.675, 1e15, 2.0**49 - 0.5, 1e300]),
)


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(st.one_of(st.none(), FLOATS), min_size=1, max_size=8), TEMPLATES, st.sampled_from([DOUBLE, FLOAT]))
def test_floats_are_rounded_as_they_are_shown(values: list[float | None], template: str, type_: DataType) -> None:
    with np.errstate(over="ignore"):
        numbers = np.array([0.0 if value is None else value for value in values]).astype(type_.dtype)
    validity = np.array([value is not None for value in values])
    expected = [
        written(float(n) + 0.0, template) if there else None for n, there in zip(numbers, validity, strict=True)
    ]
    vector = Flat(type_, numbers, None if validity.all() else validity)
    found = KERNELS["to_char_number"](STRING, vector, Const(STRING, template, len(values))).to_arrow()
    assert found.to_pylist() == expected


def test_wide_decimals_are_written_one_by_one() -> None:
    vector = Wide(DECIMAL(30, 2), pa.array([Decimal("1234.50"), None, Decimal("-0.05")], pa.decimal128(30, 2)))
    found = KERNELS["to_char_number"](STRING, vector, Const(STRING, "9,999.99", 3)).to_arrow()
    assert found.to_pylist() == [" 1,234.50", None, "     -.05"]


def test_each_row_may_have_a_template_of_its_own() -> None:
    templates = Text(STRING, pa.array(["999", None, "FM000"]))
    found = KERNELS["to_char_number"](STRING, Flat(INT, np.array([1, 2, 3], np.int32)), templates)
    assert found.to_arrow().to_pylist() == ["   1", None, "003"]
