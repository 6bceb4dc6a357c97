"""Type rules: common types of comparisons, CASE and UNION, and the conversion of values between types.

Numbers widen along TINYINT < SMALLINT < INT < BIGINT < DECIMAL < DOUBLE; FLOAT and any other number have the common
type DOUBLE. DATE and TIMESTAMP have the common type TIMESTAMP. No other types have one: the statement must write CAST.
Every conversion appears in the bound tree as a `Cast`, with one exception: the length of VARCHAR(n) limits the stored
values, not those of expressions, so texts of different lengths need none. (CHAR(n) is VARCHAR(n): values are not
padded.)

A literal is converted to the other side's type if that is lossless: `l_quantity < 24` compares a DECIMAL(15,2) column
with a DECIMAL(15,2) literal, and no row needs a cast.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DataError, InvalidText, NumericOutOfRange, TypeMismatch
from ..model.lazy_dataclass import dataclass
from ..model.python_values import stored_value
from ..model.types import (
    DECIMAL,
    DOUBLE,
    FLOAT,
    INTEGER_WIDTHS,
    MAX_PRECISION,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    Kind,
    trimmed,
)
from . import literals
from .bound import Query, Select, Values
from .deferred_parameters import DeferredParameter
from .expressions import Call, Cast, Expr, Literal, OpenParameter
from .subqueries import ScalarSubquery

MICROSECONDS_PER_DAY = 86_400_000_000
_INTEGER_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 19}
_WIDE = decimal.Context(prec=2 * MAX_PRECISION)
_TEMPORAL = (Kind.DATE, Kind.TIMESTAMP)
_STRINGS = (Kind.STRING, Kind.BINARY)


def as_decimal(type_: DataType) -> DataType:
    """The DECIMAL that holds every value of an integer or DECIMAL type."""
    return type_ if type_.is_decimal else DECIMAL(_INTEGER_DIGITS[type_.kind], 0)


def common_type(left: DataType, right: DataType) -> DataType | None:
    """The common type of two types; None if they have none.

    Two DECIMALs take the larger scale and the larger number of integer digits, cut to 38 digits in all. A value too
    large for that raises an error when it is cast, never a wrong result; in comparisons it keeps its order
    (`comparands`).
    """
    if left == right or right.kind is Kind.NULL:
        return left
    if left.kind is Kind.NULL:
        return right
    if left.is_numeric and right.is_numeric:
        return _common_number(left, right)
    if left.kind is right.kind:
        return DataType(left.kind)  # texts of different lengths
    if left.kind in _TEMPORAL and right.kind in _TEMPORAL:
        return TIMESTAMP
    return None


def _common_number(left: DataType, right: DataType) -> DataType:
    if left.is_float or right.is_float:
        return FLOAT if left.kind is right.kind is Kind.FLOAT else DOUBLE
    if left.is_integer and right.is_integer:
        return left if INTEGER_WIDTHS[left.kind] >= INTEGER_WIDTHS[right.kind] else right
    left, right = as_decimal(left), as_decimal(right)
    assert left.precision and right.precision and left.scale is not None and right.scale is not None
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale)
    return DECIMAL(min(MAX_PRECISION, digits + scale), scale)


def is_text_literal(expr: Expr) -> bool:
    """True for a quoted text, whose type is determined by its context."""
    return isinstance(expr, Literal | DeferredParameter) and expr.type == STRING


def is_null_query(expr: Expr) -> bool:
    """True for `(SELECT NULL)`: its type, STRING, was not written, so it converts to any other type as NULL does."""
    return isinstance(expr, ScalarSubquery) and expr.query is not None and nulls_of(expr.query) == (True,)


def nulls_of(query: Query) -> tuple[bool, ...]:
    """For each column of a query, True if the query selects NULL for it."""
    body = query.body
    if isinstance(body, Select):
        rows: Sequence[tuple[Expr, ...]] = (tuple(expr for _, expr in body.projection[: len(query.columns)]),)
    elif isinstance(body, Values):
        rows = body.rows
    else:
        return (False,) * len(query.columns)
    return tuple(all(isinstance(v, Literal) and v.value is None for v in column) for column in zip(*rows, strict=True))


def fit(literal: Literal, type_: DataType) -> Literal | None:
    """The literal as a value of the type; None if that would lose something or is not defined.

    A quoted text is parsed; raises `InvalidText` if it is not a valid value of the type.

    >>> fit(literals.number("24"), DECIMAL(15, 2)).value
    2400
    >>> fit(literals.number("24.5"), DECIMAL(15, 0)) is None
    True
    """
    value, source = literal.value, literal.type
    if value is None:
        if isinstance(literal, OpenParameter):
            literal.notes.append(type_)
        return Literal(type_, True, None)
    if source == type_:
        return literal
    if source == STRING:
        return _fit_text(value, type_)
    if source.is_numeric and type_.is_numeric:
        return _fit_number(literal, type_)
    if source.kind is Kind.DATE and type_.kind is Kind.TIMESTAMP:
        return Literal(type_, False, value * MICROSECONDS_PER_DAY)
    if source.kind is Kind.TIMESTAMP and type_.kind is Kind.DATE and value % MICROSECONDS_PER_DAY == 0:
        return Literal(type_, False, value // MICROSECONDS_PER_DAY)
    return None


def _fit_text(text: str, type_: DataType) -> Literal | None:
    if type_.kind is Kind.STRING:
        fits = type_.length is None or len(text) <= type_.length
        return Literal(type_ if fits else STRING, False, text)
    if type_.kind is Kind.INTERVAL:
        return literals.interval(trimmed(text))
    plain = text if type_.is_text else trimmed(text)
    if type_.is_numeric and ("_" in plain or not plain.isascii()):
        raise InvalidText(f"{text!r} is not a value of type {type_}")
    return Literal(type_, False, type_.to_physical(plain))


def _fit_number(literal: Literal, type_: DataType) -> Literal | None:
    if literal.type.is_integer and type_.is_integer:
        half = 1 << (8 * INTEGER_WIDTHS[type_.kind] - 1)
        return Literal(type_, False, literal.value) if -half <= literal.value < half else None
    if literal.type.is_float:
        if not type_.is_float:
            return None
        try:
            converted = type_.to_physical(literal.value)
        except NumericOutOfRange:
            return None
        same = literal.value != literal.value or converted == literal.value
        return Literal(type_, False, converted) if same else None
    value = exact_value(literal)
    if type_.is_float:
        try:
            converted = type_.to_physical(float(value))
        except NumericOutOfRange:
            return None
        # DOUBLE is the common type of DECIMAL and DOUBLE, so the literal's value there is the nearest double.
        exact = type_.kind is Kind.DOUBLE or decimal.Decimal(converted) == value
        return Literal(type_, False, converted) if exact and np.isfinite(converted) else None
    try:
        physical = type_.to_physical(value)
    except (InvalidText, NumericOutOfRange):
        return None
    unscaled = value.scaleb(type_.scale or 0, _WIDE)
    return Literal(type_, False, physical) if unscaled == physical else None


def exact_value(literal: Literal) -> decimal.Decimal:
    """The value of an integer or DECIMAL literal."""
    return decimal.Decimal(literal.value).scaleb(-(literal.type.scale or 0), _WIDE)


def unify(exprs: Sequence[Expr], what: str) -> tuple[DataType, tuple[Expr, ...]]:
    """Converts values of one context (the branches of a CASE, a UNION's column) to their common type.

    Raises `TypeMismatch` ("`what` ... INT and DATE") if they have none. If all are NULL, the type is NULL.
    """
    target, settled = meeting_type(exprs, what)
    return target, tuple(convert(expr, target, settled) for expr in exprs)


def comparands(left: Expr, right: Expr, what: str) -> tuple[DataType, tuple[Expr, Expr]]:
    """Two values to be compared, converted to one type that preserves the order of all exact numbers.

    Raises `TypeMismatch` as `unify` does, but no error for a number that the common type cannot hold: that number is
    `saturated`.
    """
    target, settled = meeting_type((left, right), what)
    return target, (comparand(left, target, settled), comparand(right, target, settled))


def comparand(expr: Expr, type_: DataType, settled: bool = False) -> Expr:
    """One of two values to be compared at a type: converted, or `saturated` if the type may not hold it.

    Two DECIMALs that need more than 38 digits in all take the larger scale. A number that is too large for that is
    larger than every value of the other side and unequal to all of them: 10**38 units represent it.

    >>> comparand(literals.number("5"), DECIMAL(38, 38)).value == 10**38
    True
    """
    if not is_cut(expr.type, type_):
        return convert(expr, type_, settled)
    if isinstance(expr, DeferredParameter):
        late = expr.converted(fit, type_, settled)
        if late is not None:
            return late
    if isinstance(expr, Literal):
        return Literal(type_, expr.value is None, saturated(expr, type_))
    return Call(type_, expr.nullable, "saturated", (expr,))


def is_cut(source: DataType, target: DataType) -> bool:
    """True if an exact number of one type may have too many digits before the point for a DECIMAL."""
    if not target.is_decimal or not (source.is_decimal or source.is_integer):
        return False
    source = as_decimal(source)
    assert source.precision and target.precision and source.scale is not None and target.scale is not None
    return source.precision - source.scale > target.precision - target.scale


def saturated(literal: Literal, type_: DataType) -> int | None:
    """The unscaled value of an exact number as a DECIMAL of at least its scale, limited to the first value out of
    range."""
    if literal.value is None:
        return None
    assert type_.precision is not None and type_.scale is not None
    most: int = 10**type_.precision
    factor: int = 10 ** (type_.scale - (literal.type.scale or 0))
    return max(-most, min(most, int(literal.value) * factor))


def meeting_type(exprs: Sequence[Expr], what: str) -> tuple[DataType, bool]:
    """The common type of values, and True if no parameter's value affected it."""
    target = NULL
    for expr in exprs:
        if not isinstance(expr, Literal | DeferredParameter) and not is_null_query(expr):
            target = _meet(target, expr.type, what)
    asked = target
    for expr in exprs:
        if isinstance(expr, Literal | DeferredParameter) and not is_text_literal(expr):
            known = target.kind is not Kind.NULL
            if not (known and _fits(expr, target)):
                target = _meet(target, expr.type, what)
    settled = target == asked and target.kind is not Kind.NULL
    if target.kind is Kind.NULL and any(is_text_literal(expr) or is_null_query(expr) for expr in exprs):
        target = STRING
    return target, settled


def _fits(expr: Literal | DeferredParameter, type_: DataType) -> bool:
    found = fit(expr, type_) if isinstance(expr, Literal) else expr.converted(fit, type_)
    return found is not None


def _meet(left: DataType, right: DataType, what: str) -> DataType:
    common = common_type(left, right)
    if common is None:
        raise TypeMismatch(f"{what} {left} and {right}; cast one side")
    return common


def convert(expr: Expr, type_: DataType, settled: bool = False) -> Expr:
    """The expression converted to a common type: itself, a converted literal or a `Cast`. `settled` is True if no
    parameter's value affected the type."""
    if isinstance(expr, DeferredParameter):
        late = expr.converted(fit, type_, settled)
        if late is not None:
            return late
    if isinstance(expr, Literal):
        fitted = fit(expr, type_)
        if fitted is not None:
            return fitted
    if expr.type == type_ or (expr.type.kind is type_.kind and type_.kind in _STRINGS):
        return expr
    return cast(expr, type_)


def cast(expr: Expr, type_: DataType, safe: bool = False) -> Expr:
    """`CAST(expr AS type)`, computed at once for a literal; raises `TypeMismatch` if no such conversion exists."""
    if expr.type == type_:
        return expr
    if not castable(expr.type, type_):
        raise TypeMismatch(f"a value of type {expr.type} cannot be cast to {type_}")
    if isinstance(expr, Literal):
        try:
            folded = _fold_cast(expr, type_)
        except (InvalidText, NumericOutOfRange):
            if not safe:
                raise
            return Literal(type_, True, None)
        if folded is not None:
            return folded
    return Cast(type_, expr.nullable or safe, expr, safe)


def castable(source: DataType, target: DataType) -> bool:
    """True if CAST converts `source` to `target`: PostgreSQL's table of explicit casts, for nyala's types."""
    if source.kind in (Kind.NULL, target.kind) or (source.is_numeric and target.is_numeric):
        return True
    if Kind.STRING in (source.kind, target.kind):
        return True
    if Kind.BOOLEAN in (source.kind, target.kind):
        return source.is_integer or target.is_integer
    return source.kind in _TEMPORAL and target.kind in _TEMPORAL


def assignable(source: DataType, target: DataType) -> bool:
    """True if INSERT stores a value of `source` in a column of `target` without CAST: numbers as numbers, dates and
    timestamps as each other, anything as a text."""
    if source.kind in (Kind.NULL, target.kind) or (source.is_numeric and target.is_numeric):
        return True
    if source.kind in _TEMPORAL and target.kind in _TEMPORAL:
        return True
    return target.kind is Kind.STRING and source.kind not in (Kind.BINARY, Kind.INTERVAL)


def _fold_cast(literal: Literal, type_: DataType) -> Literal | None:
    """The literal converted as CAST does it, rounding included; None if the conversion is left to the executor."""
    value, source = literal.value, literal.type
    if value is None or source == STRING:
        if type_.kind is Kind.STRING and type_.length is not None and value is not None:
            value = value[: type_.length]  # an explicit cast truncates, as in PostgreSQL
            return Literal(type_, False, value)
        return fit(literal, type_)
    if source.is_numeric and type_.is_numeric:
        return _fold_number(literal, type_)
    if source.kind is Kind.BOOLEAN and type_.is_integer:
        return Literal(type_, False, int(value))
    if source.kind in _TEMPORAL and type_.kind is Kind.TIMESTAMP:
        return fit(literal, type_)
    if source.kind is Kind.TIMESTAMP and type_.kind is Kind.DATE:
        return Literal(type_, False, value // MICROSECONDS_PER_DAY)
    return None


def _fold_number(literal: Literal, type_: DataType) -> Literal | None:
    if literal.type.is_float:
        if type_.is_integer:
            return None  # rounds half to even, unlike DECIMAL: left to the executor
        return Literal(type_, False, type_.to_physical(literal.value))
    value = exact_value(literal)
    if type_.is_float:
        return Literal(type_, False, type_.to_physical(float(value)))
    if type_.is_integer:
        value = value.to_integral_value(decimal.ROUND_HALF_UP)
    return Literal(type_, False, type_.to_physical(value))


def assign(expr: Expr, type_: DataType, column: str) -> Expr:
    """The expression as INSERT stores it in a column; raises `TypeMismatch` with both types if it cannot."""
    if isinstance(expr, DeferredParameter):
        late = expr.converted(Assigned(column), type_, settled=True)
        if late is not None:
            return late
    if is_text_literal(expr) or (isinstance(expr, Literal) and expr.value is None):
        assert isinstance(expr, Literal)
        fitted: Any = fit(expr, type_)
        if fitted.type == type_:
            return fitted  # type: ignore[no-any-return]
        type_.to_physical(expr.value)  # raises if the text is too long
    if not assignable(expr.type, type_):
        raise TypeMismatch(f"column {column} is of type {type_}, the value of type {expr.type}; cast it")
    if type_.kind is Kind.STRING:
        # Stored unchanged or rejected by the store; a cast to VARCHAR(n) would truncate it.
        return expr if expr.type.kind is Kind.STRING else cast(expr, STRING)
    return cast(expr, type_)


def assign_value(literal: Literal, type_: DataType, column: str) -> Expr:
    """A bind value as INSERT stores it in a column: the same value that the APIs without SQL store.

    It must convert without loss, unlike a literal in the text (`assign`), which PostgreSQL's rules round: 1.5 is not an
    INT.

    Raises `InvalidText` or `NumericOutOfRange`.
    """
    if (
        literal.value is None
        or literal.type == STRING
        or (type_.kind is Kind.STRING and assignable(literal.type, type_))
    ):
        return assign(literal, type_, column)
    try:
        return Literal(type_, False, stored_value(type_, literal.type.to_python(literal.value)))
    except DataError as error:
        raise type(error)(f"column {column}: {error}") from error


@dataclass(frozen=True, slots=True)
class Assigned:
    """The assignment to a column as a step of a deferred parameter; `column` is for messages."""

    column: str

    def __call__(self, literal: Literal, type_: DataType) -> Expr:
        return assign_value(literal, type_, self.column)
