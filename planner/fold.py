"""Constant folding: evaluates expressions whose value does not depend on any row.

Only certain results are folded. A constant that would fail (a division by zero, a number out of range) is not folded.
It then fails when, and only if, a row needs it.
"""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from ..errors import Error
from ..model.types import BOOLEAN, EPOCH_DATE, DataType, Interval, Kind
from ..sql.coercion import saturated
from ..sql.expressions import Call, Case, Cast, Expr, InValues, Literal
from .algebra.trees import FALSE, TRUE, UNKNOWN, all_of, any_of, map_parts, subexpressions

MICROSECONDS_PER_DAY = 86_400_000_000


def fold(expr: Expr) -> Expr:
    """Evaluate the constant parts of an expression and simplify its three-valued logic, for any use of it."""
    return expr if type(expr) is Literal else simplify(map_parts(expr, fold))


def fold_predicate(expr: Expr) -> Expr:
    """Fold an expression of which only truth matters, as in WHERE: NULL counts as FALSE at its top."""
    folded = fold(expr)
    return FALSE if isinstance(folded, Literal) and folded.value is None else folded


def simplify(expr: Expr) -> Expr:
    """Fold an expression whose parts are folded already."""
    if isinstance(expr, Call):
        if expr.function in ("and", "or"):
            return _simplify_logic(expr)
        return _simplify_call(expr)
    if isinstance(expr, Cast) and isinstance(expr.arg, Literal):
        return _cast_literal(expr, expr.arg)
    if isinstance(expr, Cast) and expr.arg.type == expr.type:
        return expr.arg
    if isinstance(expr, Case):
        return _simplify_case(expr)
    if isinstance(expr, InValues):
        return _simplify_in(expr)
    return expr


def _simplify_logic(expr: Call) -> Expr:
    unit, zero = (TRUE, FALSE) if expr.function == "and" else (FALSE, TRUE)
    parts = [part for part in expr.args if not (isinstance(part, Literal) and part.value is unit.value)]
    if any(isinstance(part, Literal) and part.value is zero.value for part in parts):
        return zero
    if not parts:
        return unit
    if len(parts) == len(expr.args) and not any(isinstance(p, Call) and p.function == expr.function for p in parts):
        return expr
    joined = all_of(parts) if expr.function == "and" else any_of(parts)
    assert joined is not None
    return joined


def _simplify_call(expr: Call) -> Expr:
    if expr.function == "not" and isinstance(expr.args[0], Call) and expr.args[0].function == "not":
        return expr.args[0].args[0]
    if expr.function in ("is_null", "is_true", "is_false") and isinstance(expr.args[0], Literal):
        wanted = {"is_null": None, "is_true": True, "is_false": False}[expr.function]
        return TRUE if expr.args[0].value is wanted else FALSE
    if not all(isinstance(arg, Literal) for arg in expr.args):
        return expr
    rule = _FOLDERS.get(expr.function)
    if rule is None:
        return expr
    literals = [arg for arg in expr.args if isinstance(arg, Literal)]
    if any(literal.value is None for literal in literals):
        return UNKNOWN if expr.type == BOOLEAN else Literal(expr.type, True, None)
    try:
        value = rule(expr, literals)
    except (Error, ArithmeticError, ValueError, OverflowError):
        return expr
    return expr if value is None else Literal(expr.type, False, value)


def _simplify_case(expr: Case) -> Expr:
    branches: list[tuple[Expr, Expr]] = []
    for condition, value in expr.branches:
        if isinstance(condition, Literal):
            if condition.value is not True:
                continue
            return value if not branches else Case(expr.type, expr.nullable, tuple(branches), value)
        branches.append((condition, value))
    if not branches:
        return expr.default
    return (
        expr if len(branches) == len(expr.branches) else Case(expr.type, expr.nullable, tuple(branches), expr.default)
    )


def _simplify_in(expr: InValues) -> Expr:
    if not isinstance(expr.arg, Literal) or not all(isinstance(item, Literal) for item in expr.items):
        return expr
    if expr.arg.value is None:
        return UNKNOWN
    if any(item.type != expr.arg.type for item in expr.items):
        return expr
    values = [item.value for item in expr.items if isinstance(item, Literal)]
    if expr.arg.value in values:
        return TRUE
    return UNKNOWN if None in values else FALSE


# ---- casts -------------------------------------------------------------------------------------------------------


def _cast_literal(expr: Cast, arg: Literal) -> Expr:
    if arg.value is None:
        return Literal(expr.type, True, None)
    try:
        value = convert(arg.value, arg.type, expr.type)
    except (Error, ArithmeticError, ValueError, OverflowError):
        return expr
    return expr if value is None else Literal(expr.type, False, value)


def convert(value: Any, source: DataType, target: DataType) -> Any:
    """Convert a physical value of one type to a physical value of another; None if folding leaves that to execution.

    Raises one of nyala's errors, or ArithmeticError or ValueError, if the value does not convert.
    """
    if source == target or (source.kind is target.kind and target.length is None and not target.is_decimal):
        return value
    if source.is_numeric and target.is_numeric:
        return _convert_number(value, source, target)
    if source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP:
        return value * MICROSECONDS_PER_DAY
    if source.kind is Kind.TIMESTAMP and target.kind is Kind.DATE:
        return value // MICROSECONDS_PER_DAY
    if source.kind is Kind.STRING and target.kind is Kind.DATE:
        return target.to_physical(value)
    return None


def _convert_number(value: Any, source: DataType, target: DataType) -> Any:
    if target.is_float:
        return target.to_physical(value / 10**source.scale if source.is_decimal else value)  # type: ignore[operator]
    if source.is_float:
        return None
    exact = exact_number(value, source)
    scaled = exact * 10 ** (target.scale or 0)
    rounded = int(abs(scaled) + Fraction(1, 2)) * (1 if scaled >= 0 else -1)
    if target.is_decimal:
        if abs(rounded) >= 10 ** (target.precision or 0):
            raise OverflowError(value)
        return rounded
    return target.to_physical(rounded)


def exact_number(value: Any, type_: DataType) -> Fraction:
    """Exact number that a physical value of a numeric type represents."""
    if type_.is_decimal:
        return Fraction(int(value), 10 ** (type_.scale or 0))
    return Fraction(value)


# ---- functions ---------------------------------------------------------------------------------------------------

Folder = Callable[[Call, list[Literal]], Any]


def _arithmetic(expr: Call, args: list[Literal]) -> Any:
    first, second = args
    if expr.type.kind in (Kind.DATE, Kind.TIMESTAMP):
        return _shift(expr, first, second)
    if not (first.type.is_numeric and second.type.is_numeric):
        if expr.function == "sub" and first.type.kind is second.type.kind is Kind.DATE and expr.type.is_integer:
            return int(first.value - second.value)
        return None
    if expr.type.is_float or first.type.is_float or second.type.is_float:
        return None
    a, b = exact_number(first.value, first.type), exact_number(second.value, second.type)
    exact = a + b if expr.function == "add" else a - b if expr.function == "sub" else a * b
    return _physical(exact, expr.type)


def _physical(exact: Fraction, type_: DataType) -> int | None:
    scaled = exact * 10 ** (type_.scale or 0)
    if scaled.denominator != 1:
        return None
    if type_.is_decimal:
        return int(scaled) if abs(scaled) < 10 ** (type_.precision or 0) else None
    return int(type_.to_physical(int(scaled)))


def _shift(expr: Call, first: Literal, second: Literal) -> int | None:
    if isinstance(first.value, Interval) and expr.function == "add":
        first, second = second, first
    sign = -1 if expr.function == "sub" else 1
    if first.type.kind is Kind.DATE and second.type.is_integer and expr.type.kind is Kind.DATE:
        return _within_years(expr.type, int(first.value + sign * second.value))
    if expr.function not in ("add", "sub") or not isinstance(second.value, Interval):
        return None
    days = first.value if first.type.kind is Kind.DATE else first.value // MICROSECONDS_PER_DAY
    rest = 0 if first.type.kind is Kind.DATE else first.value % MICROSECONDS_PER_DAY
    span = second.value
    days = shift_months(days, sign * span.months) + sign * span.days
    moment = int(days * MICROSECONDS_PER_DAY + rest + sign * span.microseconds)
    if expr.type.kind is Kind.TIMESTAMP:
        return _within_years(expr.type, moment)
    return None if moment % MICROSECONDS_PER_DAY else _within_years(expr.type, moment // MICROSECONDS_PER_DAY)


def _within_years(type_: DataType, value: int) -> int:
    type_.to_python(value)  # OverflowError outside the years 1 to 9999
    return value


def shift_months(days: int, months: int) -> int:
    """Shift a date by a number of months, in days since 1970; the end of a shorter month if the day does not exist.

    >>> shift_months(30, 1)  # 1970-01-31
    58
    """
    date = EPOCH_DATE + datetime.timedelta(days=days)
    year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return (datetime.date(year, month + 1, min(date.day, last)) - EPOCH_DATE).days


def _negation(expr: Call, args: list[Literal]) -> Any:
    value = args[0].value
    if isinstance(value, Interval):
        # The integer types hold one more value below zero than above.
        lowest = min(value.months + (1 << 31), value.days + (1 << 31), value.microseconds + (1 << 63)) == 0
        return None if lowest else Interval(-value.months, -value.days, -value.microseconds)
    if expr.type != args[0].type:
        return None
    return -value if expr.type.is_float else _physical(-exact_number(value, expr.type), expr.type)


def _saturated(expr: Call, args: list[Literal]) -> Any:
    return saturated(args[0], expr.type)


def compare(function: str, first: Any, second: Any) -> bool:
    """Compare two comparable values by the comparison's canonical name."""
    if function == "eq":
        return bool(first == second)
    if function == "ne":
        return bool(first != second)
    if function == "lt":
        return bool(first < second)
    if function == "le":
        return bool(first <= second)
    return bool(first > second) if function == "gt" else bool(first >= second)


def _comparison(expr: Call, args: list[Literal]) -> Any:
    first, second = args
    if first.type.kind is second.type.kind and not first.type.is_decimal and not first.type.is_float:
        if first.type.kind is Kind.INTERVAL:
            return None
        return compare(expr.function, first.value, second.value)
    exact = (first.type.is_integer or first.type.is_decimal) and (second.type.is_integer or second.type.is_decimal)
    if not exact:
        return None
    return compare(expr.function, exact_number(first.value, first.type), exact_number(second.value, second.type))


_FOLDERS: dict[str, Folder] = {
    "add": _arithmetic,
    "sub": _arithmetic,
    "mul": _arithmetic,
    "neg": _negation,
    "saturated": _saturated,
    "not": lambda _, args: not args[0].value,
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _comparison),
}


def is_constant(expr: Expr) -> bool:
    """True if the expression reads no column, but parameters and literals only."""
    if isinstance(expr, Literal):
        return True
    parts = subexpressions(expr)
    return bool(parts) and all(is_constant(part) for part in parts)
