"""Python values and the values that columns store for them: the one table of conversions, whatever the way in.

`plain_value` makes of a value of a subclass, or of another library, the value of Python's own class that it stands for;
`stored_value` makes of that a column's physical value. docs/types.md has the table.

    class Status(str, Enum): ACTIVE = "active"      Status.ACTIVE ► "active"
    np.int8(7), arrow_scalar(7)                        ► 7
    pd.Timestamp("2024-01-31T00:00:00.000000001")   ► datetime(2024, 1, 31): what is below a microsecond is cut
    pd.NaT, pd.NA, np.datetime64("NaT")             ► None
"""

from __future__ import annotations

import datetime
import decimal
import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import InterfaceError, InvalidText, NumericOutOfRange
from . import arrow_functions as pc
from .types import MAX_PRECISION, DataType, Kind

EXACT: frozenset[type] = frozenset(
    {
        type(None), bool, int, float, str, bytes,
        decimal.Decimal, datetime.date, datetime.datetime, datetime.timedelta,
    }
)  # fmt: skip
"""Classes whose values are plain as they are, but for texts that UTF-8 cannot spell and datetimes with a zone."""
_MOST = 10**MAX_PRECISION


def plain_value(value: Any) -> Any:
    """Return the value as None, bool, int, float, Decimal, str, bytes, date, datetime or timedelta, of exactly that
    class.

    Raises `InterfaceError` for a value that has no such form, `InvalidText` for a text with half a character.
    """
    kind = type(value)
    if kind in EXACT:
        if kind is str and not value.isascii():
            _refuse_surrogates(value)
        return value
    for base, make in _BASES:
        if isinstance(value, base):
            return make(value)
    if kind.__name__ == "NAType" and kind.__module__.startswith("pandas."):
        return None
    raise InterfaceError(_unknown(value))


def _unknown(value: Any) -> str:
    name = type(value).__name__
    which = f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}, which no column holds"
    if isinstance(value, enum.Enum):
        return f"{which}: give its .value, or make the class an Enum of str or int"
    return f"{which}; a value is None, bool, int, float, Decimal, str, bytes, date, datetime or timedelta"


def _refuse_surrogates(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidText(f"a text holds U+{ord(value[error.start]):04X}, half a character") from None


def _text(value: str) -> str:
    text = str.__str__(value)
    if not text.isascii():
        _refuse_surrogates(text)
    return text


def _datetime(value: datetime.datetime) -> datetime.datetime | None:
    if value != value:  # NaT of pandas
        return None
    return datetime.datetime(
        value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond, value.tzinfo,
        fold=value.fold,
    )  # fmt: skip


def _from_numpy(value: np.generic) -> Any:
    if isinstance(value, np.datetime64 | np.timedelta64):
        if np.isnat(value):
            return None
        name = "datetime64[us]" if isinstance(value, np.datetime64) else "timedelta64[us]"
        return plain_value(_in_range(value.astype(name).item(), value))
    if isinstance(value, np.floating):
        return float(value)  # `item` of a longdouble is one again
    item = value.item()
    if isinstance(item, np.generic):
        raise InterfaceError(_unknown(value))
    return plain_value(item)


def _in_range(found: Any, value: Any) -> Any:
    if isinstance(found, int):
        raise InvalidText(f"{value!r} is outside of the years 1 to 9999")
    return found


def _from_arrow(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        whole = pc.floor_temporal(value, unit="microsecond") if value.type.unit == "ns" else value
        value = whole.cast(pa.timestamp("us", value.type.tz))
    try:
        return plain_value(value.as_py())
    except (ValueError, OverflowError):
        raise InvalidText(f"{value.type} {value} is no Python value") from None


# Classes of other libraries are subclasses of Python's own in part: those come first.
_BASES: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (np.str_, _text),
    (np.bytes_, lambda value: b"".join((value,))),
    (np.generic, _from_numpy),
    (pa.Scalar, _from_arrow),
    (str, _text),
    (int, int.__int__),
    (float, float.__float__),
    (decimal.Decimal, lambda value: decimal.Decimal(value)),
    (datetime.datetime, _datetime),
    (datetime.date, lambda value: datetime.date(value.year, value.month, value.day)),
    (datetime.timedelta, lambda value: datetime.timedelta(value.days, value.seconds, value.microseconds)),
    (bytes, lambda value: b"".join((value,))),
    ((bytearray, memoryview), bytes),
)


# ---- into columns ------------------------------------------------------------------------------------------------

_NUMBERS = (bool, int, float, decimal.Decimal, str)
_CLASSES: dict[Kind, tuple[type, ...]] = {
    Kind.BOOLEAN: _NUMBERS,
    Kind.TINYINT: _NUMBERS,
    Kind.SMALLINT: _NUMBERS,
    Kind.INT: _NUMBERS,
    Kind.BIGINT: _NUMBERS,
    Kind.FLOAT: _NUMBERS,
    Kind.DOUBLE: _NUMBERS,
    Kind.DECIMAL: _NUMBERS,
    Kind.DATE: (datetime.date, str),
    Kind.TIMESTAMP: (datetime.date, str),
    Kind.STRING: (str,),
    Kind.BINARY: (bytes, str),
}
"""Python classes that a column accepts. STRING also accepts the SQL texts of numbers, booleans, dates and timestamps,
which `executor.given_values` makes."""


def stored_value(type_: DataType, value: Any) -> Any:
    """The physical value that a column stores for a plain value: the same value in the column's type, and None for
    None.

    Texts are read as quoted literals are, DECIMALs are rounded half away from zero, a timestamp in a DATE column loses
    its time. All else that would be lost is refused: `InvalidText` for a value of the wrong sort, `NumericOutOfRange`
    for one that does not fit.

    >>> stored_value(DataType(Kind.INT), 2.0), stored_value(DataType(Kind.BOOLEAN), 1)
    (2, True)
    """
    if value is None:
        return None
    kind = type(value)
    if kind is decimal.Decimal or kind is int:
        _refuse_digits(value)
    if kind not in _CLASSES[type_.kind] and not (kind is datetime.datetime and datetime.date in _CLASSES[type_.kind]):
        raise InvalidText(f"{value!r} is not a value of type {type_}")
    if kind is str and type_.is_numeric and ("_" in value or not value.isascii()):
        raise InvalidText(f"{value!r} is not a value of type {type_}")
    if kind is datetime.datetime and value.tzinfo is not None:
        value = in_utc(value)
    return type_.to_physical(value)


def in_utc(value: datetime.datetime) -> datetime.datetime:
    """A datetime with a zone as one without, in UTC; `InvalidText` outside of the years 1 to 9999."""
    try:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    except (OverflowError, ValueError):
        raise InvalidText(f"{value} is outside of the years 1 to 9999 in UTC") from None


def _refuse_digits(value: decimal.Decimal | int) -> None:
    """Refuse numbers that no literal can have."""
    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            raise NumericOutOfRange(f"{value} is no DECIMAL")
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        if max(len(digits) + max(0, exponent), -exponent) <= MAX_PRECISION:
            return
        raise NumericOutOfRange(f"{value:.6g} has more than the {MAX_PRECISION} digits of a DECIMAL")
    if not -_MOST < value < _MOST:
        raise NumericOutOfRange(f"an integer has more than the {MAX_PRECISION} digits of a DECIMAL")
