"""Parameters and their conversion into Arrow columns."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.driver.session.bind_values import normalize
from nyala.driver.session.insert_batches import column_from_values
from nyala.errors import DataError, InterfaceError, InvalidText, NumericOutOfRange, TextTooLong
from nyala.model.types import BIGINT, BINARY, BOOLEAN, DATE, DECIMAL, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind
from nyala.sql.settings import parse_bytes

UTC_PLUS_2 = datetime.timezone(datetime.timedelta(hours=2))


def test_no_parameters_are_none():
    assert normalize(None) is None
    assert normalize([]) is None
    assert normalize({}) is None


def test_numpy_scalars_become_python_values():
    values = normalize([np.int32(3), np.float64(0.5), np.datetime64("2020-01-02"), np.datetime64("NaT")])
    assert values == (3, 0.5, datetime.datetime(2020, 1, 2), None)
    assert [type(v) for v in values] == [int, float, datetime.datetime, type(None)]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("abc", "a sequence for ? and $n, or a mapping for :name, not a str"),
        (7, "not an int"),
        ([1, [2]], "parameter 2 is a list"),
        ({"x": object()}, "parameter :x is an object"),
    ],
)
def test_wrong_parameters_are_explained(parameters, message):
    with pytest.raises(InterfaceError) as error:
        normalize(parameters)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"), [("2GB", 2 << 30), (" 1.5 mb ", 3 << 19), ("4096", 4096), (17, 17), ("1GiB", 1 << 30)]
)
def test_parse_bytes(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "2XB", "-1", "1.2.3", 0])
def test_parse_bytes_refuses(text):
    with pytest.raises(InterfaceError, match="memory_limit="):
        parse_bytes(text)


VALUES = {
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    INT: st.integers(-(2**31), 2**31 - 1),
    DOUBLE: st.floats(allow_nan=False),
    DECIMAL(15, 2): st.decimals(-(10**12), 10**12, places=2, allow_nan=False, allow_infinity=False),
    STRING: st.text(),
    BINARY: st.binary(),
    DATE: st.dates(),
    TIMESTAMP: st.datetimes(),
    BOOLEAN: st.booleans(),
}


@given(st.data())
def test_columns_hold_what_single_values_would(data):
    """The fast road for whole columns and `DataType.to_physical` agree."""
    type_ = data.draw(st.sampled_from(list(VALUES)))
    values = data.draw(st.lists(st.none() | VALUES[type_], max_size=6))
    array = column_from_values(type_, values, "c")
    assert array.type == type_.arrow
    assert array.to_pylist() == [type_.to_python(type_.to_physical(v)) for v in values]


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        (INT, [1.0, 2, "3"], [1, 2, 3]),
        (DECIMAL(5, 2), [1, 2.345, "3.1"], [decimal.Decimal(x) for x in ("1.00", "2.35", "3.10")]),
        (
            DATE,
            ["2020-02-29", datetime.datetime(2020, 1, 2, 23)],
            [datetime.date(2020, 2, 29), datetime.date(2020, 1, 2)],
        ),
        (TIMESTAMP, [datetime.date(2020, 1, 1)], [datetime.datetime(2020, 1, 1)]),
        (
            TIMESTAMP,
            [datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 2, 3)],
            [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2, 3)],
        ),
        (TIMESTAMP, [datetime.datetime(2020, 1, 1, 2, tzinfo=UTC_PLUS_2)], [datetime.datetime(2020, 1, 1)]),
        (BOOLEAN, [1, "no", None], [True, False, None]),
        (DOUBLE, [1, decimal.Decimal("0.5"), 2**60], [1.0, 0.5, float(2**60)]),
        (STRING, ["a", 5, 1.5, True, datetime.date(2020, 1, 1)], ["a", "5", "1.5", "true", "2020-01-01"]),
    ],
)
def test_columns_convert_what_has_a_meaning(type_, values, expected):
    assert column_from_values(type_, values, "c").to_pylist() == expected


@pytest.mark.parametrize(
    ("type_", "values", "error"),
    [
        (INT, [1, 1.5], InvalidText),
        (INT, [2**31], NumericOutOfRange),
        (DATE, [1, 2], InvalidText),
        (TIMESTAMP, [5], InvalidText),
        (STRING, ["a", b"b"], InvalidText),
        (DataType(Kind.STRING, length=3), ["abc", "abcd"], TextTooLong),
        (DECIMAL(4, 2), [decimal.Decimal(100)], NumericOutOfRange),
    ],
)
def test_columns_refuse_what_has_none(type_, values, error):
    with pytest.raises(error, match=rf"column price, row {len(values) if values[0] != 1 or len(values) == 1 else ''}"):
        column_from_values(type_, values, "price")


def test_an_empty_column_has_its_type():
    assert column_from_values(DATE, [], "c").equals(pa.array([], pa.date32()))


def test_errors_of_columns_are_data_errors():
    assert issubclass(InvalidText, DataError)
