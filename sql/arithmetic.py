"""Arithmetic: result types of `+ - * / %` and unary minus, and their value if all operands are literals.

| operands | result |
|---|---|
| integers | the wider of the two; `/` and `%` truncate towards zero |
| DECIMAL `+ -` DECIMAL | DECIMAL(integer digits + 1 + scale, scale), the larger digits and scale of the two |
| DECIMAL `*` DECIMAL | DECIMAL(p1 + p2, s1 + s2); a scale over 38 is refused, never cut |
| DECIMAL `/` DECIMAL | DECIMAL(38, max(16, s1, s2)), rounded half away from zero; but see `divided_as` |
| DECIMAL `%` DECIMAL | DECIMAL of the larger digits and scale |
| FLOAT, DOUBLE with any number | DOUBLE (FLOAT among FLOATs) |
| DATE - DATE | INT, days |
| DATE `+ -` INT | DATE |
| DATE, TIMESTAMP `+ -` INTERVAL | see below |

An integer operand counts as DECIMAL(3, 5, 10 or 19, 0) next to a DECIMAL, by its width; a literal as DECIMAL of its own
number of digits. Precision is limited to 38; a result that needs more raises an error when it is computed.

Departure from PostgreSQL: DATE `+ -` an INTERVAL of months and days stays DATE, because TPC-H compares `date
'1994-01-01' + interval '1' year` with dates. Only an interval with hours or less gives a TIMESTAMP. Days are clipped to
the end of the month (January 31 + 1 month = February 28).

The bound operands of `add`, `sub` and `mod` have equal types (DECIMALs with equal scale), so that an executor never
aligns scales; those of `mul` and `div` keep their own scale.
"""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Iterable
from dataclasses import replace

from ..errors import DataError, NumericOutOfRange, TypeMismatch
from ..model.types import (
    DATE,
    DECIMAL,
    EPOCH_DATE,
    EPOCH_TIMESTAMP,
    INT,
    INTEGER_WIDTHS,
    INTERVAL,
    MAX_PRECISION,
    TIMESTAMP,
    DataType,
    Interval,
    Kind,
)
from .coercion import as_decimal, cast, common_type, convert, fit, is_null_query, is_text_literal
from .expressions import Call, Expr, Literal
from .literals import digits_of

SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}
MIN_DIVISION_SCALE = 16


def operate(operator: str, left: Expr, right: Expr) -> Expr:
    """`left operator right` for add, sub, mul, div or mod, folded where both are literals."""
    left, right = _adopt_texts(operator, left, right)
    left, right = _adopt_null_query(left, right), _adopt_null_query(right, left)
    if _is_temporal(left) or _is_temporal(right):
        return _temporal(operator, left, right)
    if left.type.kind is Kind.NULL or right.type.kind is Kind.NULL:
        left, right = _adopt_null(left, right)
    if not (left.type.is_numeric and right.type.is_numeric):
        raise _mismatch(operator, left, right)
    if left.type.is_float or right.type.is_float:
        target = common_type(left.type, right.type)
        assert target is not None
        return _call(operator, target, convert(left, target), convert(right, target))
    if left.type.is_integer and right.type.is_integer:
        target = max(left.type, right.type, key=lambda t: INTEGER_WIDTHS[t.kind])
        return fold(_call(operator, target, cast(left, target), cast(right, target)))
    return fold(_decimal(operator, left, right))


def negate(arg: Expr) -> Expr:
    """Unary minus."""
    if isinstance(arg, Literal) and arg.value is not None:
        if arg.type.is_numeric and not (arg.type.is_integer and -arg.value > _largest(arg.type)):
            return Literal(arg.type, False, -arg.value)
        if arg.type == INTERVAL and (turned := _times(arg.value, -1)) is not None:
            return turned
    if arg.type.kind is Kind.NULL:
        return Literal(INT, True, None)
    if is_null_query(arg):
        return cast(arg, INT)
    if arg.type == INTERVAL:
        return Call(INTERVAL, arg.nullable, "interval_neg", (arg,))
    if not arg.type.is_numeric:
        raise TypeMismatch(f"there is no - for {arg.type}")
    return Call(arg.type, arg.nullable, "neg", (arg,))


def _call(operator: str, type_: DataType, left: Expr, right: Expr) -> Call:
    return Call(type_, left.nullable or right.nullable, operator, (left, right))


def _mismatch(operator: str, left: Expr, right: Expr) -> TypeMismatch:
    return TypeMismatch(f"there is no {left.type} {SYMBOLS[operator]} {right.type}")


def _is_temporal(expr: Expr) -> bool:
    return expr.type.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.INTERVAL)


def _adopt_texts(operator: str, left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Converts a quoted text next to a number to a number, and one subtracted from a date to a date."""
    for one, other in ((left, right), (right, left)):
        assert isinstance(other, Expr)
        if isinstance(one, Literal) and is_text_literal(one):
            target = None
            if other.type.is_numeric or (operator == "sub" and other.type.kind in (Kind.DATE, Kind.TIMESTAMP)):
                target = other.type
            fitted = fit(one, target) if target is not None else None
            if fitted is not None:
                return (fitted, right) if one is left else (left, fitted)
    return left, right


def _adopt_null(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    type_ = right.type if left.type.kind is Kind.NULL else left.type
    if type_.kind is Kind.NULL:
        type_ = INT
    return convert(left, type_), convert(right, type_)


def _adopt_null_query(expr: Expr, other: Expr) -> Expr:
    """Types `(SELECT NULL)` as a number next to a number, and as a distance next to a date or timestamp."""
    if not is_null_query(expr):
        return expr
    if other.type.kind in (Kind.TIMESTAMP, Kind.INTERVAL):
        return cast(expr, INTERVAL)
    return cast(expr, other.type if other.type.is_numeric else INT)


# ---- decimals --------------------------------------------------------------------------------------------------------


def _exact_type(expr: Expr) -> DataType:
    """The operand's type as DECIMAL; an integer literal has exactly as many digits as it is written with."""
    if isinstance(expr, Literal) and expr.type.is_integer and expr.value is not None:
        return DECIMAL(digits_of(expr.value), 0)
    return as_decimal(expr.type)


def _decimal(operator: str, left: Expr, right: Expr) -> Call:
    types = _exact_type(left), _exact_type(right)
    result = decimal_result(operator, *types)
    if operator in ("add", "sub", "mod"):
        assert result.scale is not None
        types = _rescaled(types[0], result.scale), _rescaled(types[1], result.scale)
    return _call(operator, result, cast(left, types[0]), cast(right, types[1]))


def divided_as(expr: Expr, type_: DataType) -> Expr:
    """A quotient of DECIMALs, computed directly in the type that it is cast to, if that type has more integer digits.

    It is rounded to that type's scale. `CAST(a / b AS DECIMAL(38, 0))` supports quotients from 10**22 on.
    """
    if isinstance(expr, Call) and expr.function == "div" and has_more_room(type_, expr.type):
        return replace(expr, type=type_)
    return expr


def has_more_room(type_: DataType, than: DataType) -> bool:
    """True for a DECIMAL with more integer digits than the other type."""
    if not (type_.is_decimal and than.is_decimal):
        return False
    assert type_.precision and than.precision and type_.scale is not None and than.scale is not None
    return type_.precision - type_.scale > than.precision - than.scale


def _rescaled(type_: DataType, scale: int) -> DataType:
    assert type_.precision is not None and type_.scale is not None
    return DECIMAL(min(MAX_PRECISION, type_.precision + scale - type_.scale), scale)


def decimal_result(operator: str, left: DataType, right: DataType) -> DataType:
    """The type of DECIMAL `operator` DECIMAL; see the table in the module docstring."""
    assert left.precision and right.precision and left.scale is not None and right.scale is not None
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale)
    if operator in ("add", "sub"):
        return DECIMAL(min(MAX_PRECISION, digits + 1 + scale), scale)
    if operator == "mod":
        return DECIMAL(min(MAX_PRECISION, digits + scale), scale)
    if operator == "div":
        return DECIMAL(MAX_PRECISION, max(MIN_DIVISION_SCALE, scale))
    if left.scale + right.scale > MAX_PRECISION:
        raise TypeMismatch(
            f"{left} * {right} has {left.scale + right.scale} digits after the point, more than {MAX_PRECISION}; "
            "cast one side to a smaller scale"
        )
    return DECIMAL(min(MAX_PRECISION, left.precision + right.precision), left.scale + right.scale)


# ---- dates -----------------------------------------------------------------------------------------------------------


def _temporal(operator: str, left: Expr, right: Expr) -> Expr:
    written = left, right
    if operator == "add" and (left.type == INTERVAL or left.type.is_integer) and right.type != INTERVAL:
        left, right = right, left
    if operator not in ("add", "sub"):
        return _scaled_interval(operator, left, right)
    kind, other = left.type.kind, right.type
    if other.kind is Kind.NULL:
        return Literal(left.type, True, None)
    if kind is Kind.NULL:
        return Literal(other, True, None)
    if kind is Kind.DATE and other == INTERVAL:
        return _date_and_interval(operator, left, right)
    if kind is Kind.TIMESTAMP and other == INTERVAL:
        return fold(_call(operator, TIMESTAMP, left, right))
    if kind is Kind.DATE and other.is_integer:
        return fold(_call(operator, DATE, left, cast(right, INT)))
    if kind is Kind.DATE and other == DATE and operator == "sub":
        return fold(_call("sub", INT, left, right))
    if kind is Kind.INTERVAL and other == INTERVAL:
        return _interval_sum(operator, left, right)
    if {kind, other.kind} <= {Kind.TIMESTAMP, Kind.DATE} and operator == "sub":
        return _call("interval_between", INTERVAL, cast(left, TIMESTAMP), cast(right, TIMESTAMP))
    raise _mismatch(operator, *written)


def _date_and_interval(operator: str, left: Expr, right: Expr) -> Expr:
    if isinstance(right, Literal) and right.value is not None and right.value.microseconds == 0:
        return fold(_call(operator, DATE, left, right))
    return fold(_call(operator, TIMESTAMP, cast(left, TIMESTAMP), right))


def _interval_sum(operator: str, left: Expr, right: Expr) -> Expr:
    if isinstance(left, Literal) and isinstance(right, Literal) and None not in (left.value, right.value):
        sign = 1 if operator == "add" else -1
        total = _interval(a + sign * b for a, b in zip(left.value, right.value))
        if total is not None:
            return total
    return _call(f"interval_{operator}", INTERVAL, left, right)


def _scaled_interval(operator: str, left: Expr, right: Expr) -> Expr:
    if operator == "mul" and right.type == INTERVAL:
        left, right = right, left
    if operator == "mul" and isinstance(left, Literal) and isinstance(right, Literal):
        if left.type == INTERVAL and right.type.is_integer and None not in (left.value, right.value):
            product = _times(left.value, right.value)
            if product is not None:
                return product
    if operator in ("mul", "div") and left.type == INTERVAL and right.type.kind is Kind.NULL:
        return Literal(INTERVAL, True, None)
    if operator in ("mul", "div") and left.type == INTERVAL and right.type.is_numeric:
        return _call(f"interval_{operator}", INTERVAL, left, right)
    raise _mismatch(operator, left, right)


def _times(value: Interval, factor: int) -> Literal | None:
    return _interval(part * factor for part in value)


def _interval(parts: Iterable[int]) -> Literal | None:
    """An INTERVAL literal; None if months or days exceed 32 bits or microseconds 64, which execution reports."""
    months, days, micros = parts
    fits = max(abs(months), abs(days)) < 1 << 31 and abs(micros) < 1 << 63
    return Literal(INTERVAL, False, Interval(months, days, micros)) if fits else None


def _largest(type_: DataType) -> int:
    return (1 << (8 * type_.dtype.itemsize - 1)) - 1


# ---- folding ---------------------------------------------------------------------------------------------------------


def fold(call: Call) -> Expr:
    """The value of a call on two literals. The call itself if it has no value (division by zero, overflow): the error
    is then raised only for a row that needs it."""
    left, right = call.args
    if not (isinstance(left, Literal) and isinstance(right, Literal)):
        return call
    if left.value is None or right.value is None:
        return Literal(call.type, True, None)
    try:
        if left.type.kind in (Kind.DATE, Kind.TIMESTAMP):
            return _fold_temporal(call, left, right)
        return _fold_number(call, left, right)
    except (DataError, OverflowError, ValueError):
        return call


def _fold_number(call: Call, left: Literal, right: Literal) -> Expr:
    if call.function not in ("add", "sub", "mul"):
        return call
    if call.type.is_float:
        return call
    # Unscaled integers carry the whole value: `add` and `sub` have equal scales, `mul` adds them up.
    a, b = left.value, right.value
    unscaled: int = {"add": a + b, "sub": a - b, "mul": a * b}[call.function]
    if call.type.is_integer:
        return Literal(call.type, False, call.type.to_physical(unscaled))
    assert call.type.precision is not None
    if abs(unscaled) >= 10**call.type.precision:
        raise NumericOutOfRange(f"the result is out of range for {call.type}")
    return Literal(call.type, False, unscaled)


def _fold_temporal(call: Call, left: Literal, right: Literal) -> Expr:
    sign = 1 if call.function == "add" else -1
    if right.type == DATE:
        return Literal(INT, False, left.value - right.value)
    if right.type != INTERVAL:
        return _checked(DATE, left.value + sign * right.value)
    span = Interval(*(sign * part for part in right.value))
    if call.type == DATE:
        moved = add_months(EPOCH_DATE + datetime.timedelta(days=left.value), span.months)
        return _checked(DATE, (moved - EPOCH_DATE).days + span.days)
    start = EPOCH_TIMESTAMP + datetime.timedelta(microseconds=left.value)
    day = add_months(start.date(), span.months) + datetime.timedelta(days=span.days)
    micros = (datetime.datetime.combine(day, start.time()) - EPOCH_TIMESTAMP) // datetime.timedelta(microseconds=1)
    return _checked(TIMESTAMP, micros + span.microseconds)


def _checked(type_: DataType, value: int) -> Literal:
    type_.to_python(value)  # OverflowError outside the years 1 to 9999
    return Literal(type_, False, value)


def add_months(day: datetime.date, months: int) -> datetime.date:
    """The same day of another month, clipped to that month's end.

    >>> add_months(datetime.date(2023, 1, 31), 1)
    datetime.date(2023, 2, 28)
    """
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return day.replace(year=year, month=month + 1, day=min(day.day, calendar.monthrange(year, month + 1)[1]))
