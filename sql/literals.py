"""Constants: literals of the text and bind values as typed literals.

Numbers are exact: `24` is INT (BIGINT, then DECIMAL, if it is too large), `0.05` is the smallest DECIMAL that holds it,
DECIMAL(2,2). Only a bind value of Python's float, or a number like 1e300 that no DECIMAL holds, is a DOUBLE. A quoted
text is a STRING that the coercion rules convert to the type that its context requires (`coercion.fit`).
"""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

from ..errors import InterfaceError, InvalidText, NumericOutOfRange
from ..model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    INT,
    INTERVAL,
    MAX_PRECISION,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    Interval,
)
from . import interval_text
from .expressions import Literal
from .interval_text import unit_name as unit_name

NULL_LITERAL = Literal(NULL, True, None)
TRUE = Literal(BOOLEAN, False, True)
FALSE = Literal(BOOLEAN, False, False)


def number(text: str) -> Literal:
    """A numeric literal as written: `24`, `0.05`, `1e3`; with an exponent beyond any DECIMAL's digits, a DOUBLE.

    >>> str(number("0.05").type), number("0.05").value
    ('DECIMAL(2,2)', 5)
    >>> str(number("1e300").type), number("1e300").value
    ('DOUBLE', 1e+300)
    """
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise InvalidText(f"{text} is not a number") from None
    if text.isdigit() and len(digits := text.lstrip("0") or "0") <= MAX_PRECISION:
        return integer(int(digits))
    if "e" in text.lower() and _precision(value) > MAX_PRECISION and math.isfinite(float(text)):
        return Literal(DOUBLE, False, float(text))
    return exact(value)


def _precision(value: decimal.Decimal) -> int:
    """Digits of the smallest DECIMAL that holds a finite value."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return max(len(digits) + max(0, exponent), -exponent, 1)


def integer(value: int) -> Literal:
    """The smallest of INT, BIGINT and DECIMAL(n,0) that holds the value."""
    if -(1 << 31) <= value < 1 << 31:
        return Literal(INT, False, value)
    if -(1 << 63) <= value < 1 << 63:
        return Literal(BIGINT, False, value)
    return exact(decimal.Decimal(value))


def exact(value: decimal.Decimal) -> Literal:
    """The smallest DECIMAL that holds the value, trailing zeros included."""
    if not value.is_finite():
        raise NumericOutOfRange(f"{value} is no DECIMAL")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = _precision(value)
    if precision > MAX_PRECISION:
        shown = value if precision < 100 else f"{value:.6g}"
        raise NumericOutOfRange(f"{shown} has more than the {MAX_PRECISION} digits of a DECIMAL")
    unscaled = int("".join(map(str, digits)) or "0") * 10 ** max(0, exponent)
    return Literal(DECIMAL(precision, scale), False, -unscaled if sign else unscaled)


def digits_of(value: int) -> int:
    """The number of decimal digits of an integer; 1 for zero."""
    return len(str(abs(value)))


def interval(text: str, unit: str | None = None) -> Literal:
    """`INTERVAL '90' DAY`, `INTERVAL '1 year 2 months'`, `INTERVAL '1-2' YEAR TO MONTH`; see `interval_text`.

    Raises `InvalidText` if the text is not an interval.

    >>> interval("90", "DAY").value
    Interval(months=0, days=90, microseconds=0)
    """
    return Literal(INTERVAL, False, interval_text.read(text, unit))


def from_python(value: Any) -> Literal:
    """A bind value as a typed literal; raises `InterfaceError` for a Python type that has no SQL type.

    >>> from_python(7).type == INT, from_python(decimal.Decimal("1.50")).type == DECIMAL(3, 2)
    (True, True)
    """
    if hasattr(value, "item") and hasattr(value, "dtype"):
        value = value.item()
    if value is None:
        return NULL_LITERAL
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, decimal.Decimal):
        return exact(value)
    for python_type, type_ in _PYTHON_TYPES:
        if isinstance(value, python_type):
            return Literal(type_, False, type_.to_physical(value))
    if isinstance(value, datetime.timedelta):
        micros = value.seconds * 1_000_000 + value.microseconds
        return Literal(INTERVAL, False, Interval(0, value.days, micros))
    raise InterfaceError(
        f"a parameter cannot be a {type(value).__name__}; give int, float, Decimal, str, bool, date, datetime, "
        "timedelta, bytes or None"
    )


# datetime before date, of which it is a subclass.
_PYTHON_TYPES: tuple[tuple[Any, DataType], ...] = (
    (float, DOUBLE),
    (str, STRING),
    (datetime.datetime, TIMESTAMP),
    (datetime.date, DATE),
    ((bytes, bytearray, memoryview), BINARY),
)
