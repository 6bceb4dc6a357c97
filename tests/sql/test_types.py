"""The type rules as laws, and constant folding against other calculators."""

from __future__ import annotations

import datetime
import decimal
import functools
from typing import Any

import duckdb
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from nyala.errors import InvalidText, NumericOutOfRange, TypeMismatch
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    DataType,
    Interval,
    Kind,
)
from nyala.sql import arithmetic, coercion, functions, literals
from nyala.sql.expressions import Aggregate, Call, Cast, Column, Literal

DECIMALS = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: DECIMAL(p, s)))
TYPES = st.one_of(
    st.sampled_from([BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DATE, TIMESTAMP, STRING, BINARY, NULL]),
    st.integers(1, 9).map(lambda n: DataType(Kind.STRING, length=n)),
    DECIMALS,
)
NUMBERS = st.one_of(st.sampled_from([TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE]), DECIMALS)
LITERALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**14), max_value=10**14, places=4).map(
        literals.exact
    ),
    st.integers(-(2**40), 2**40).map(literals.integer),
    st.from_regex(r"\A\d{1,8}\.\d{1,6}\Z").map(literals.number),
)


def column(type_: DataType, number: int = 1) -> Column:
    return Column(type_, True, number, f"c{number}")


def value(literal: Literal) -> decimal.Decimal:
    return coercion.exact_value(literal)


# ---- common types ----------------------------------------------------------------------------------------------------


@given(TYPES, TYPES)
def test_common_type_does_not_depend_on_the_order(left: DataType, right: DataType) -> None:
    assert coercion.common_type(left, right) == coercion.common_type(right, left)


@given(TYPES)
def test_a_type_meets_itself_and_null(type_: DataType) -> None:
    assert coercion.common_type(type_, type_) == type_ == coercion.common_type(NULL, type_)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_numbers_meet_in_any_grouping(a: DataType, b: DataType, c: DataType) -> None:
    def meet(x: DataType, y: DataType) -> DataType:
        found = coercion.common_type(x, y)
        assert found is not None
        return found

    # FLOAT with FLOAT stays FLOAT, with any other type it becomes DOUBLE: the one exception.
    assume(FLOAT not in (a, b, c))
    left, right = meet(meet(a, b), c), meet(a, meet(b, c))
    capped = any(t.is_decimal and t.precision == 38 for t in (left, right))
    assert left == right or (capped and left.scale == right.scale)


@given(TYPES, TYPES)
def test_types_that_meet_can_be_cast_to_the_meeting_point(left: DataType, right: DataType) -> None:
    found = coercion.common_type(left, right)
    if found is not None:
        assert coercion.castable(left, found) and coercion.castable(right, found)
        _, sides = coercion.unify([column(left), column(right, 2)], "x")
        kinds = {side.type.kind for side in sides}
        assert len(kinds) == 1


# ---- literals --------------------------------------------------------------------------------------------------------


@given(LITERALS, NUMBERS)
def test_a_literal_fits_only_where_nothing_is_lost(literal: Literal, type_: DataType) -> None:
    found = coercion.fit(literal, type_)
    if found is None:
        return
    assert found.type == type_
    if type_.is_float:
        assert found.value == type_.to_physical(float(value(literal)))
    else:
        assert value(found) == value(literal)
        assert abs(found.value) < 10 ** (type_.precision or 19)


@given(LITERALS)
def test_a_decimal_literal_takes_the_smallest_type(literal: Literal) -> None:
    if literal.type.is_decimal:
        assert literal.type.precision is not None and literal.type.scale is not None
        digits = len(str(abs(literal.value)))
        assert literal.type.precision == max(digits, literal.type.scale, 1) or literal.value == 0


@pytest.mark.parametrize(
    ("text", "type_", "unscaled"),
    [
        ("24", INT, 24),
        ("2147483648", BIGINT, 2147483648),
        ("9223372036854775808", DECIMAL(19, 0), 9223372036854775808),
        ("0.05", DECIMAL(2, 2), 5),
        (".5", DECIMAL(1, 1), 5),
        ("7.0", DECIMAL(2, 1), 70),
        ("100.00", DECIMAL(5, 2), 10000),
        ("1e3", DECIMAL(4, 0), 1000),
        ("1.5e-3", DECIMAL(4, 4), 15),
        ("0.0", DECIMAL(1, 1), 0),
    ],
)
def test_numbers_as_written(text: str, type_: DataType, unscaled: int) -> None:
    assert literals.number(text) == Literal(type_, False, unscaled)


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("90", "DAY", Interval(0, 90, 0)),
        ("3", "month", Interval(3, 0, 0)),
        ("-1", "years", Interval(-12, 0, 0)),
        ("1.5", "hours", Interval(0, 0, 5_400_000_000)),
        ("1 year 2 mons 3 days", None, Interval(14, 3, 0)),
        ("2 weeks 1 day 02:30:00.5", None, Interval(0, 15, 9_000_500_000)),
        ("-00:00:01", None, Interval(0, 0, -1_000_000)),
        ("1 decade 1 century 1 quarter", None, Interval(1323, 0, 0)),
    ],
)
def test_intervals_as_written(text: str, unit: str | None, expected: Interval) -> None:
    assert literals.interval(text, unit) == Literal(INTERVAL, False, expected)


@pytest.mark.parametrize(
    ("text", "unit"), [("", None), ("x", None), ("1", "moon"), ("1.5", "day"), ("1 2", None), ("a", "day")]
)
def test_what_is_no_interval(text: str, unit: str | None) -> None:
    with pytest.raises(InvalidText, match="not an INTERVAL"):
        literals.interval(text, unit)


def test_an_interval_has_limits() -> None:
    with pytest.raises(NumericOutOfRange):
        literals.interval("99999999999", "month")


# ---- arithmetic ------------------------------------------------------------------------------------------------------


@given(st.sampled_from(["add", "sub", "mul"]), LITERALS, LITERALS)
def test_folded_arithmetic_is_exact(operator: str, left: Literal, right: Literal) -> None:
    try:
        found = arithmetic.operate(operator, left, right)
    except TypeMismatch:
        assert operator == "mul"
        return
    with decimal.localcontext(prec=100):
        exact = {
            "add": value(left) + value(right),
            "sub": value(left) - value(right),
            "mul": value(left) * value(right),
        }
    if isinstance(found, Literal):
        assert value(found) == exact[operator]
        assert found.type.is_integer or abs(found.value) < 10 ** (found.type.precision or 0)
    else:
        # Not folded only if the value does not fit the result's type.
        with pytest.raises(NumericOutOfRange):
            found.type.to_physical(exact[operator])


@given(st.sampled_from(["add", "sub", "mul", "div", "mod"]), NUMBERS, NUMBERS)
def test_operands_arrive_as_the_module_promises(operator: str, left: DataType, right: DataType) -> None:
    try:
        found = arithmetic.operate(operator, column(left), column(right, 2))
    except TypeMismatch as error:
        assert operator == "mul" and "digits after the point" in str(error)
        return
    assert isinstance(found, Call) and found.function == operator and found.nullable
    a, b = found.args
    if found.type.is_decimal:
        assert a.type.is_decimal and b.type.is_decimal
        if operator in ("add", "sub", "mod"):
            assert a.type.scale == b.type.scale == found.type.scale
    else:
        assert a.type == b.type == found.type
    assert not any(isinstance(arg, Cast) and isinstance(arg.arg, Cast) for arg in found.args)


@given(DECIMALS, DECIMALS, st.data())
def test_every_sum_and_product_fits_its_type_until_38_digits(left: DataType, right: DataType, data: Any) -> None:
    assert left.precision and right.precision
    a = Literal(left, False, 10**left.precision - 1)
    b = Literal(right, False, 10**right.precision - 1)
    operator = data.draw(st.sampled_from(["add", "mul"]))
    try:
        result = arithmetic.decimal_result(operator, left, right)
    except TypeMismatch:
        return
    exact = value(a) + value(b) if operator == "add" else value(a) * value(b)
    assert result.precision is not None
    if result.precision < 38:
        assert result.to_physical(exact) is not None


def test_unary_minus() -> None:
    assert arithmetic.negate(literals.number("5")) == Literal(INT, False, -5)
    assert arithmetic.negate(literals.interval("1", "day")).value == Interval(0, -1, 0)  # type: ignore[attr-defined]
    assert arithmetic.negate(column(DOUBLE)) == Call(DOUBLE, True, "neg", (column(DOUBLE),))
    with pytest.raises(TypeMismatch, match="no - for DATE"):
        arithmetic.negate(column(DATE))


@functools.cache
def _duck() -> Any:
    return duckdb.connect()


@given(
    st.dates(datetime.date(1000, 1, 1), datetime.date(4000, 1, 1)),
    st.integers(-3000, 3000),
    st.integers(-3000, 3000),
)
def test_dates_move_as_in_duckdb(day: datetime.date, months: int, days: int) -> None:
    start = Literal(DATE, False, DATE.to_physical(day))
    moved = arithmetic.operate("add", start, Literal(INTERVAL, False, Interval(months, days, 0)))
    assert isinstance(moved, Literal) and moved.type == DATE
    query = "select (cast(? as date) + to_months(cast(? as integer)) + to_days(cast(? as integer)))::date"
    expected = _duck().execute(query, [day, months, days]).fetchone()[0]
    assert DATE.to_python(moved.value) == expected


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        ("sub", DATE, DATE, INT),
        ("add", DATE, INT, DATE),
        ("add", BIGINT, DATE, DATE),
        ("sub", DATE, SMALLINT, DATE),
        ("add", DATE, INTERVAL, TIMESTAMP),
        ("sub", TIMESTAMP, INTERVAL, TIMESTAMP),
        ("add", INTERVAL, TIMESTAMP, TIMESTAMP),
    ],
)
def test_temporal_result_types(operator: str, left: DataType, right: DataType, expected: DataType) -> None:
    assert arithmetic.operate(operator, column(left), column(right, 2)).type == expected


def test_a_date_outside_of_all_years_is_left_to_the_row() -> None:
    last = Literal(DATE, False, DATE.to_physical(datetime.date(9999, 12, 31)))
    assert isinstance(arithmetic.operate("add", last, literals.interval("1", "day")), Call)


# ---- casts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "source", "target", "expected"),
    [
        ("2.5", None, INT, 3),
        ("-2.5", None, INT, -3),
        ("1.005", None, DECIMAL(5, 2), 101),
        ("7", None, DOUBLE, 7.0),
        (" 42 ", STRING, INT, 42),
        ("yes", STRING, BOOLEAN, True),
        ("2020-01-01", STRING, TIMESTAMP, 1_577_836_800_000_000),
        ("abcdef", STRING, DataType(Kind.STRING, length=3), "abc"),
    ],
)
def test_constant_casts(text: str, source: DataType | None, target: DataType, expected: Any) -> None:
    literal = Literal(source, False, text) if source else literals.exact(decimal.Decimal(text))
    assert coercion.cast(literal, target) == Literal(target, False, expected)


def test_a_safe_cast_of_a_bad_constant_is_null() -> None:
    assert coercion.cast(Literal(STRING, False, "x"), INT, safe=True) == Literal(INT, True, None)
    with pytest.raises(InvalidText):
        coercion.cast(Literal(STRING, False, "x"), INT)
    for odd in ("1_000", "١"):
        with pytest.raises(InvalidText):
            coercion.cast(Literal(STRING, False, odd), INT)


@pytest.mark.parametrize(
    ("source", "target"), [(DATE, INT), (BOOLEAN, DOUBLE), (BINARY, INT), (INTERVAL, DATE), (DATE, BOOLEAN)]
)
def test_casts_that_make_no_sense(source: DataType, target: DataType) -> None:
    with pytest.raises(TypeMismatch, match="cannot be cast"):
        coercion.cast(column(source), target)


# ---- functions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "total", "mean"),
    [
        (TINYINT, BIGINT, DECIMAL(38, 16)),
        (INT, BIGINT, DECIMAL(38, 16)),
        (BIGINT, DECIMAL(38, 0), DECIMAL(38, 16)),
        (DECIMAL(15, 2), DECIMAL(38, 2), DECIMAL(38, 16)),
        (DECIMAL(30, 20), DECIMAL(38, 20), DECIMAL(38, 20)),
        (FLOAT, DOUBLE, DOUBLE),
        (DOUBLE, DOUBLE, DOUBLE),
    ],
)
def test_sums_and_means(type_: DataType, total: DataType, mean: DataType) -> None:
    assert functions.build("sum", (column(type_),)).type == total
    assert functions.build("avg", (column(type_),)).type == mean
    assert functions.build("max", (column(type_),)).type == type_
    assert functions.build("count", (column(type_),)) == Aggregate(BIGINT, False, "count", (column(type_),))
