"""Plain values are those that go through a type's conversions and come back as they were."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.errors import DataError
from nyala.model import types as t
from nyala.model.types import DECIMAL, DataType, Kind
from nyala.model.vectors.native_values import plain

TYPES = [
    *(t.BOOLEAN, t.TINYINT, t.SMALLINT, t.INT, t.BIGINT, t.FLOAT, t.DOUBLE, t.DATE, t.TIMESTAMP, t.STRING, t.BINARY),
    *(DECIMAL(4, 2), DECIMAL(18, 0), DECIMAL(38, 10), DataType(Kind.STRING, length=3)),
]
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-200, 200),
    st.floats(),
    st.decimals(places=2),
    st.decimals(-100, 100, places=2),
    st.decimals(allow_nan=True),
    st.dates(),
    st.datetimes(timezones=st.none() | st.just(datetime.UTC)),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.sampled_from([decimal.Decimal("-0.00"), decimal.Decimal("99.99"), decimal.Decimal("100.00"), 127, 128, -128]),
)


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(VALUES)
def test_plain_values_are_kept(type_: DataType, value: Any) -> None:
    exact, check = plain(type_)
    if type(value) is not exact or not (check is None or check(value)):
        return
    kept = type_.to_python(type_.to_physical(value))
    assert type(kept) is type(value)
    # As they print: so that -0.0 is not 0.0, NaN is NaN, and 1.5 not 1.50.
    assert repr(kept) == repr(value)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (t.BIGINT, 5),
        (t.DOUBLE, 0.5),
        (t.DATE, datetime.date(2026, 1, 2)),
        (t.TIMESTAMP, datetime.datetime(2026, 1, 2, 3)),
        (t.STRING, "text"),
        (DECIMAL(4, 2), decimal.Decimal("99.99")),
    ],
)
def test_usual_values_are_plain(type_: DataType, value: Any) -> None:
    exact, check = plain(type_)
    assert type(value) is exact
    assert check is None or check(value)


@pytest.mark.parametrize("value", [128, -129])
def test_what_does_not_fit_is_not_plain(value: int) -> None:
    _, check = plain(t.TINYINT)
    assert check is not None
    assert not check(value)
    with pytest.raises(DataError):
        t.TINYINT.to_physical(value)
