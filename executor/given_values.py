"""Conversion of callers' values to columns: Python values and Arrow arrays of other types, by one table.

`model.python_values` decides value by value; this module has vectorized paths for whole columns, with the same results.
Arrow types without one are converted through Python, each distinct value once.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from ..errors import DataError, InterfaceError, InvalidText, NumericOutOfRange, TextTooLong
from ..model import arrow_functions as pc
from ..model.arrow_arrays import arrow_array
from ..model.python_values import EXACT, plain_value, stored_value
from ..model.types import DATE, FIRST_DAY, LAST_DAY, MAX_PRECISION, STRING, TIMESTAMP, DataType, Kind
from ..model.vectors.vector import Const
from ..sql.coercion import assignable
from ..sql.literals import from_python
from .kernels.cast import cast


def column_value(type_: DataType, value: Any) -> Any:
    """Return the Python value that a column returns for a given input value.

    Raises `InterfaceError` for a value of an unsupported class, `InvalidText` or `NumericOutOfRange` for one that does
    not fit.
    """
    plain = plain_value(value)
    if type_.kind is Kind.STRING and plain is not None and type(plain) is not str:
        plain = _text(plain)
    return type_.to_python(stored_value(type_, plain))


def _text(value: Any) -> str:
    """Return the text of a number, a boolean, a date or a timestamp, as CAST makes it."""
    literal = from_python(value)
    if not assignable(literal.type, STRING):
        raise InvalidText(f"{value!r} is not a value of type {STRING}")
    text: str = cast(STRING, Const(literal.type, literal.value, 1)).to_arrow()[0].as_py()
    return text


# ---- Python values -----------------------------------------------------------------------------------------------

_NONE = type(None)
_TAKEN: dict[Kind, frozenset[type]] = {
    **dict.fromkeys((Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT), frozenset({int, _NONE})),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), frozenset({float, int, _NONE})),
    Kind.DECIMAL: frozenset({decimal.Decimal, int, _NONE}),
    Kind.BOOLEAN: frozenset({bool, _NONE}),
    Kind.DATE: frozenset({datetime.date, _NONE}),
    Kind.TIMESTAMP: frozenset({datetime.datetime, _NONE}),
    Kind.STRING: frozenset({str, _NONE}),
    Kind.BINARY: frozenset({bytes, _NONE}),
}
"""Classes whose values Arrow converts as `column_value` does, or refuses."""


def column_from_values(type_: DataType, values: Sequence[Any], name: str, first: int = 0) -> pa.Array:
    """Convert Python `values`, one per row, to the Arrow array of `type_.arrow`.

    Raises `InterfaceError`, `InvalidText` or `NumericOutOfRange` for the first value that does not fit, with the column
    and the row number, counted from `first`. The error's `row` is the position among `values`.
    """
    if not EXACT.issuperset(map(type, values)):
        values = [_named(plain_value, value, name, row, first) for row, value in enumerate(values)]
    array = _at_once(type_, values) if _TAKEN[type_.kind].issuperset(map(type, values)) else None
    if array is not None:
        return array
    convert = partial(column_value, type_)
    found = [_named(convert, value, name, row, first) for row, value in enumerate(values)]
    return arrow_array(found, type_.arrow)


def _named(convert: Callable[[Any], Any], value: Any, name: str, row: int, first: int) -> Any:
    try:
        return convert(value)
    except (DataError, InterfaceError) as error:
        refused = type(error)(f"column {name}, row {first + row + 1}: {error}")
        refused.row = row  # type: ignore[union-attr]
        raise refused from error


def _at_once(type_: DataType, values: Sequence[Any]) -> pa.Array | None:
    """Use Arrow's own conversion if it returns the same values, else None."""
    if type_.kind is Kind.TIMESTAMP and any(v is not None and v.tzinfo is not None for v in values):
        return None
    try:
        array = arrow_array(values, type_.arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError):
        return None
    if type_.length is not None and (pc.max(pc.utf8_length(array)).as_py() or 0) > type_.length:
        return None
    if type_.is_float and bool(pc.any(pc.is_inf(array)).as_py()):
        return None  # a finite number may have been too large
    return array


# ---- Arrow arrays ------------------------------------------------------------------------------------------------


def column_from_arrow(array: pa.Array | pa.ChunkedArray, type_: DataType) -> pa.Array | pa.ChunkedArray:
    """Convert an array to a column's Arrow type, with the values that equal Python values would have.

    Raises `DataError` for the first value that does not fit.
    """
    target = type_.arrow
    if array.type == target:
        if is_beyond(array):
            raise NumericOutOfRange(f"a value is out of range for {type_}")
        return array
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([column_from_arrow(chunk, type_) for chunk in array.chunks], target)
    if pa.types.is_dictionary(array.type):
        return column_from_arrow(array.dictionary, type_).take(array.indices)
    try:
        return _cast(array, type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _by_distinct(array, type_)


_WIDE = decimal.Context(prec=2 * MAX_PRECISION)
_DAY = 86_400_000_000
_BOUNDS = {
    DATE.arrow: (FIRST_DAY, LAST_DAY),
    TIMESTAMP.arrow: (FIRST_DAY * _DAY, (LAST_DAY + 1) * _DAY - 1),
}


def is_beyond(array: pa.Array | pa.ChunkedArray) -> bool:
    """True if a year is outside 1 to 9999, or a DECIMAL has more digits than its type: Arrow's readers count the digits
    before they rescale a value."""
    type_ = array.type
    if pa.types.is_decimal(type_):
        low, high = (value.as_py() for value in pc.min_max(array).values())
        # `-low` would be rounded to the 28 digits of the thread's context.
        return low is not None and bool(max(low.copy_negate(), high).scaleb(type_.scale, _WIDE) >= 10**type_.precision)
    if type_ in _BOUNDS:
        whole = array.cast(pa.int32() if type_ == DATE.arrow else pa.int64())
        low, high = (value.as_py() for value in pc.min_max(whole).values())
        first, last = _BOUNDS[type_]
        return low is not None and (low < first or high > last)
    return False


def _cast(array: pa.Array, type_: DataType) -> pa.Array:
    """Use Arrow's cast if it returns the same values; `pa.ArrowInvalid` leaves them to Python."""
    source, target = array.type, type_.arrow
    if pa.types.is_timestamp(source) and type_ == TIMESTAMP:
        whole = pc.floor_temporal(array, unit="microsecond") if source.unit == "ns" else array
        moments = whole.cast(pa.timestamp("us", source.tz)).cast(target)
        if is_beyond(moments):
            raise pa.ArrowInvalid("a year is not one of 1 to 9999")
        return moments
    if pa.types.is_floating(source) and type_.is_decimal:
        return _rounded(array.cast(pa.float64()).cast(pa.string()).cast(pa.decimal256(76, 38)), type_)
    if pa.types.is_decimal(source) and type_.is_decimal:
        return _rounded(array, type_)
    if any(is_source(source) and is_target(target) for is_source, is_target in _SAME):
        converted = array.cast(target)
        if pa.types.is_float32(target) and bool(pc.any(pc.is_inf(converted)).as_py()):
            raise pa.ArrowInvalid("a finite number may have been too large")
        return converted
    raise pa.ArrowNotImplementedError(f"{source} to {target}")


def _rounded(array: pa.Array, type_: DataType) -> pa.Array:
    """Round decimals half away from zero."""
    if array.type.scale > (type_.scale or 0):
        wide = array.cast(pa.decimal256(76, array.type.scale))
        array = pc.round(wide, ndigits=type_.scale, round_mode="half_towards_infinity")
    return array.cast(type_.arrow)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _is_binary(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
        or pa.types.is_fixed_size_binary(type_)
    )


_SAME = (
    (pa.types.is_null, lambda target: True),
    (pa.types.is_integer, pa.types.is_integer),
    (pa.types.is_integer, pa.types.is_float64),
    (pa.types.is_integer, pa.types.is_decimal),
    (pa.types.is_floating, pa.types.is_floating),
    (pa.types.is_floating, pa.types.is_integer),
    (pa.types.is_date, pa.types.is_timestamp),
    (_is_text, _is_text),
    (_is_binary, _is_binary),
)
"""Pairs of Arrow types whose cast returns the same value or is refused."""


def _by_distinct(array: pa.Array, type_: DataType) -> pa.Array:
    """Convert each distinct value through Python."""
    if pa.types.is_nested(array.type):
        raise InvalidText(f"{type_} holds no values of this type")
    encoded = array.dictionary_encode() if not pa.types.is_null(array.type) else None
    if encoded is None:
        return pa.nulls(len(array), type_.arrow)
    try:
        values = [column_value(type_, value) for value in encoded.dictionary]
    except (DataError, InterfaceError) as error:
        kind = type(error) if isinstance(error, InvalidText | NumericOutOfRange | TextTooLong) else InvalidText
        raise kind(str(error)) from error
    return arrow_array(values, type_.arrow).take(encoded.indices)
