"""Types: conversion between Python, physical and Arrow values."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.errors import InvalidText, NotSupportedError, NumericOutOfRange, TextTooLong
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    DataType,
    Kind,
    type_from_arrow,
)

ALL = [
    BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DATE, TIMESTAMP, STRING, BINARY,
    DECIMAL(9, 2), DECIMAL(18), DECIMAL(38, 38),
]  # fmt: skip


@pytest.mark.parametrize("type_", ALL, ids=str)
def test_arrow_names_the_same_type_both_ways(type_: DataType) -> None:
    assert type_from_arrow(type_.arrow) == type_


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.uint8(), SMALLINT),
        (pa.uint32(), BIGINT),
        (pa.uint64(), DECIMAL(20)),
        (pa.string_view(), STRING),
        (pa.large_string(), STRING),
        (pa.dictionary(pa.int8(), pa.string()), STRING),
        (pa.timestamp("ns"), TIMESTAMP),
        (pa.timestamp("ms", "UTC"), TIMESTAMP),
        (pa.binary(4), BINARY),
    ],
    ids=str,
)
def test_foreign_arrow_types_widen_without_loss(arrow: pa.DataType, expected: DataType) -> None:
    assert type_from_arrow(arrow) == expected


def test_an_arrow_type_without_counterpart_is_named() -> None:
    with pytest.raises(NotSupportedError, match="list<item: int32>"):
        type_from_arrow(pa.list_(pa.int32()))


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**12), max_value=10**12))
def test_decimals_round_trip_exactly(value: decimal.Decimal) -> None:
    type_ = DECIMAL(15, 2)
    assert type_.to_python(type_.to_physical(value)) == value


@given(st.dates(min_value=datetime.date(1, 1, 1)))
def test_dates_round_trip(value: datetime.date) -> None:
    assert DATE.to_python(DATE.to_physical(value)) == value
    assert DATE.to_physical(value.isoformat()) == DATE.to_physical(value)


@given(st.datetimes())
def test_timestamps_round_trip(value: datetime.datetime) -> None:
    assert TIMESTAMP.to_python(TIMESTAMP.to_physical(value)) == value


def test_a_timestamp_with_a_zone_is_kept_in_utc() -> None:
    zoned = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert TIMESTAMP.to_python(TIMESTAMP.to_physical(zoned)) == datetime.datetime(2026, 1, 1, 10)


def test_decimals_round_half_away_from_zero() -> None:
    assert DECIMAL(5, 1).to_physical("0.25") == 3
    assert DECIMAL(5, 1).to_physical("-0.25") == -3


@pytest.mark.parametrize(
    ("type_", "value"),
    [(TINYINT, 128), (INT, -(2**31) - 1), (DECIMAL(3, 1), 100)],
    ids=str,
)
def test_a_value_that_does_not_fit_is_refused(type_: DataType, value: object) -> None:
    with pytest.raises(NumericOutOfRange, match="out of range"):
        type_.to_physical(value)


def test_a_text_too_long_is_an_error_of_its_own() -> None:
    with pytest.raises(TextTooLong, match="too long") as raised:
        DataType(Kind.STRING, length=2).to_physical("abc")
    assert raised.value.sqlstate == "22001"


@pytest.mark.parametrize(
    ("type_", "value"),
    [(INT, "x"), (INT, 1.5), (DATE, "2026-02-30"), (BOOLEAN, "maybe"), (STRING, 5), (DECIMAL(5, 1), "NaN")],
    ids=str,
)
def test_a_value_of_the_wrong_sort_is_refused_by_name(type_: DataType, value: object) -> None:
    with pytest.raises(InvalidText, match=type_.kind.value):
        type_.to_physical(value)


def test_null_is_null_in_every_type() -> None:
    assert [t.to_physical(None) for t in ALL] == [None] * len(ALL)
    assert [t.to_python(None) for t in ALL] == [None] * len(ALL)


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (39, 0), (5, 6)])
def test_impossible_decimals_are_refused(precision: int, scale: int) -> None:
    with pytest.raises(NumericOutOfRange, match="precision is 1 to 38"):
        DECIMAL(precision, scale)


def test_a_number_that_no_float_is_near_is_refused() -> None:
    largest = 2.0**128 - 2.0**104
    assert FLOAT.to_physical(largest) == largest
    assert FLOAT.to_physical(float("-inf")) == float("-inf")
    for value in (1e300, -1e300, 2.0**128, "4e38"):
        with pytest.raises(NumericOutOfRange, match="out of range for FLOAT"):
            FLOAT.to_physical(value)
