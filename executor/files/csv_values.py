"""Values in CSV files: texts are converted to a column's type as quoted literals are, and types of columns are guessed.

Arrow's parser is the fast path for the usual spellings. If it refuses a text, or accepts one that is not a value in SQL
(`0x1F`, the year 0, 1e400 as infinity), `CAST(text AS type)` decides.

| column | also | refused |
|---|---|---|
| TIMESTAMP | any zone, brought to UTC; digits behind the microseconds are cut | |
| DATE, TIMESTAMP | `2024-1-31 9:00` | years outside of 1 to 9999 |
| TINYINT to BIGINT | `+1`, white space around it | `1.0`, `0x1F` |
| DECIMAL | | more digits after the point than the column has: they would be lost |
| FLOAT, DOUBLE | `inf`, `nan` | finite numbers that are too large |
| BINARY | `\\x6162`, `\\000` | other single backslashes |

A guess preserves the text: a column with `007`, `+49...` or `0x1F` is a STRING, whole numbers of more than 18 digits
are DECIMAL(38,0).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import DataError
from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_scalar
from ...model.types import BIGINT, DATE, MAX_PRECISION, STRING, TIMESTAMP, type_from_arrow
from ...model.vectors.vector import Array, Text
from ..given_values import is_beyond
from ..kernels.cast import cast
from .csv_text import as_clause

TRUE_TEXTS = ["true", "True", "TRUE", "t", "T", "yes", "on", "1"]
FALSE_TEXTS = ["false", "False", "FALSE", "f", "F", "no", "off", "0"]
_UTC = pa.timestamp("us", "UTC")


class NoValue(Exception):
    """Raised for a text that is not a value of its column's type; `row` is its 0-based number."""

    def __init__(self, message: str, row: int):
        super().__init__(message)
        self.row = row


def from_texts(texts: pa.Array, type_: pa.DataType) -> tuple[pa.Array, bool]:
    """Convert texts to a type; also return whether Arrow's file parser could have done so.

    Raises `NoValue` for the first text that is not a value.
    """
    try:
        array = texts.cast(type_)
        if not _doubtful(array, texts):
            return array, True
    except pa.ArrowInvalid as error:
        if pa.types.is_decimal(type_):
            raise _first_wrong(texts, type_, as_clause(str(error))) from None
    try:
        return _converted(texts, type_), False
    except DataError as error:
        raise _first_wrong(texts, type_, as_clause(str(error))) from None


def is_spelt(type_: pa.DataType) -> bool:
    """True if Arrow's parser accepts every text as a value of this type: BINARY. Its texts are always read as texts."""
    return bool(pa.types.is_binary(type_))


def spelt_bytes(array: pa.Array) -> pa.Array:
    r"""BINARY values as texts that spell them: `\x6162`, as PostgreSQL writes them."""
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1] if len(array) else [0]
    digits = memoryview(data or b"")[bounds[0] : bounds[-1]].hex().encode()
    places = pa.py_buffer((2 * (np.asarray(bounds, np.int64) - bounds[0])).astype(np.int32))
    texts = pa.Array.from_buffers(pa.string(), len(array), [None, places, pa.py_buffer(digits)])
    return pc.if_else(array.is_valid(), pc.binary_join_element_wise("\\x", texts, ""), arrow_scalar(None, pa.string()))


def has_hexadecimal(data: Array) -> bool:
    """True if a block of a file, UTF-8 in an ndarray of uint8, may have a number such as `0x1F`."""
    marks = data[1:] | 0x20 == ord("x")
    marks &= data[:-1] == ord("0")
    return bool(marks.any())


def refused_values(array: pa.Array, hexadecimal: bool) -> bool:
    """True if Arrow's parser may have accepted a value in this column that SQL refuses; `hexadecimal`: the result of
    `has_hexadecimal` for the block."""
    return hexadecimal if pa.types.is_integer(array.type) else _is_beyond(array)


def _is_beyond(array: pa.Array) -> bool:
    """True if the column holds infinity, or a value outside the range of its type."""
    if pa.types.is_floating(array.type):
        return bool(pc.any(pc.is_inf(array)).as_py())
    return is_beyond(array)


def _doubtful(array: pa.Array, texts: pa.Array) -> bool:
    if pa.types.is_integer(array.type):
        return bool(pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py())
    if is_spelt(array.type):
        return bool(pc.any(pc.match_substring(texts, "\\")).as_py())
    return _is_beyond(array)


def _converted(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert the texts with `CAST`; raises `DataError`."""
    if type_ == TIMESTAMP.arrow:
        try:
            moments = texts.cast(_UTC).cast(TIMESTAMP.arrow)
            if not _is_beyond(moments):
                return moments
        except pa.ArrowInvalid:
            pass
    array = cast(type_from_arrow(type_), Text(STRING, texts)).to_arrow()
    return array if array.type == type_ else array.cast(type_)


def _first_wrong(texts: pa.Array, type_: pa.DataType, message: str) -> NoValue:
    """Return the error of the first text that does not convert, found by bisection."""
    low, high = 0, len(texts)  # the first `low` texts convert, the first `high` do not
    while low + 1 < high:
        middle = (low + high) // 2
        if _converts(texts.slice(low, middle - low), type_):
            low = middle
        else:
            high = middle
    text, target = texts[low].as_py(), type_from_arrow(type_)
    if pa.types.is_decimal(type_) and "data loss" in message:
        return NoValue(f"{message}: {text!r} for {target}", low)
    return NoValue(f"{text!r} is no {target}", low)


def _converts(texts: pa.Array, type_: pa.DataType) -> bool:
    try:
        if not _doubtful(texts.cast(type_), texts):
            return True
    except pa.ArrowInvalid:
        if pa.types.is_decimal(type_):
            return False
    try:
        _converted(texts, type_)
    except DataError:
        return False
    return True


# ---- guesses ---------------------------------------------------------------------------------------------------------

_WHOLE = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]+)?$|^-?(?i:inf|infinity|nan)$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[-+][0-9]{2}(:?[0-9]{2})?)?$"
_BOOLEAN = r"^(true|false|True|False|TRUE|FALSE)$"
"""Spellings as RE2 regular expressions; a column of texts has a type if every text matches and converts."""


def guessed_types(columns: Sequence[pa.Array]) -> list[pa.DataType]:
    """Return the type of each column of texts; STRING unless all are values of another type."""
    return [_guessed(column) for column in columns]


def _guessed(texts: pa.Array) -> pa.DataType:
    present = texts.drop_null()
    if not len(present):
        return pa.null()
    first = present[0].as_py()
    for pattern, types in _GUESSES:
        # The first value decides most columns.
        if re.match(pattern, first) and pc.all(pc.match_substring_regex(present, pattern)).as_py():
            for type_ in types:
                if _converts(present, type_):
                    return type_
    return pa.string()


_GUESSES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    (_WHOLE, (BIGINT.arrow, pa.decimal128(MAX_PRECISION, 0))),
    (_NUMBER, (pa.float64(),)),
    (_DATE, (DATE.arrow,)),
    (_MOMENT, (TIMESTAMP.arrow,)),
    (_BOOLEAN, (pa.bool_(),)),
)
