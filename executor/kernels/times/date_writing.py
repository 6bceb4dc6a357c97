"""`to_char` of dates and timestamps over whole columns: each part of a template fills columns of a matrix of bytes.

    'DD.MM.YYYY'     0 7 . 1 1 . 2 0 2 6     one row per value, one or more columns per part

A template whose parts all have a fixed width needs nothing else. `FM` and ordinals make widths differ: a mask then says
which bytes belong to the text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from ....model.arrow_arrays import arrow_array
from ....model.types import DataType
from ....model.vectors.vector import Array, Dict, Text, Vector
from ..byte_rows import digits, refuse_size, significant, table_of, texts_of_matrix
from ..distinct import per_combination
from .calendar import micros_of
from .date_templates import DAYS, MONTHS, NUMBER_WIDTHS, ROMAN, Piece, in_case_of, ordinal, pieces
from .temporal import DAY, first_days, iso_thursdays, months_of

_JULIAN_EPOCH = 2_440_588
"""The Julian day number of 1970-01-01."""
_Columns: TypeAlias = tuple[Array, Array | None]
"""Bytes of one part, shape (n_rows or 1, width), and a mask of those that belong to the text; None for all."""


class _Moments:
    """Days since 1970-01-01 and microseconds of the day, with the numbers that are computed from them once."""

    def __init__(self, micros: Array) -> None:
        self.days = micros // DAY
        self.micros = micros - self.days * DAY
        self._cache: dict[str, Array] = {}

    def number(self, name: str) -> Array:
        """Return a field of `_FIELDS`, int64."""
        found = self._cache.get(name)
        if found is None:
            found = self._cache[name] = _FIELDS[name](self)
        return found


_FIELDS: dict[str, Callable[[_Moments], Array]] = {
    "months": lambda m: months_of(m.days),
    "year": lambda m: m.number("months") // 12 + 1970,
    "month": lambda m: m.number("months") % 12 + 1,
    "day": lambda m: m.days - first_days(m.number("months")) + 1,
    "yearday": lambda m: m.days - first_days((m.number("year") - 1970) * 12) + 1,
    "weekday": lambda m: (m.days + 3) % 7 + 1,
    "thursday": lambda m: iso_thursdays(m.days),
    "isoyear": lambda m: months_of(m.number("thursday")) // 12 + 1970,
    "isoweek": lambda m: (m.number("thursday") - first_days((m.number("isoyear") - 1970) * 12)) // 7 + 1,
    "seconds": lambda m: m.micros // 1_000_000,
    "minutes": lambda m: m.number("seconds") // 60,
    "hour": lambda m: m.number("minutes") // 60,
    "fraction": lambda m: m.micros - m.number("seconds") * 1_000_000,
}


def _hour_of_12(m: _Moments) -> Array:
    return (m.number("hour") + 11) % 12 + 1


_NUMBERS: dict[str, Callable[[_Moments], Array]] = {
    "YYYY": lambda m: m.number("year"),
    "YYY": lambda m: m.number("year") % 1000,
    "YY": lambda m: m.number("year") % 100,
    "Y": lambda m: m.number("year") % 10,
    "IYYY": lambda m: m.number("isoyear"),
    "IYY": lambda m: m.number("isoyear") % 1000,
    "IY": lambda m: m.number("isoyear") % 100,
    "I": lambda m: m.number("isoyear") % 10,
    "CC": lambda m: (m.number("year") + 99) // 100,
    "Q": lambda m: (m.number("month") + 2) // 3,
    "MM": lambda m: m.number("month"),
    "WW": lambda m: (m.number("yearday") - 1) // 7 + 1,
    "IW": lambda m: m.number("isoweek"),
    "W": lambda m: (m.number("day") - 1) // 7 + 1,
    "DDD": lambda m: m.number("yearday"),
    "IDDD": lambda m: (m.number("isoweek") - 1) * 7 + m.number("weekday"),
    "DD": lambda m: m.number("day"),
    "ID": lambda m: m.number("weekday"),
    "D": lambda m: m.number("weekday") % 7 + 1,
    "J": lambda m: m.days + _JULIAN_EPOCH,
    "HH24": lambda m: m.number("hour"),
    "HH12": _hour_of_12,
    "HH": _hour_of_12,
    "MI": lambda m: m.number("minutes") % 60,
    "SSSSS": lambda m: m.number("seconds"),
    "SSSS": lambda m: m.number("seconds"),
    "SS": lambda m: m.number("seconds") % 60,
    "MS": lambda m: m.number("fraction") // 1000,
    "US": lambda m: m.number("fraction"),
    **{f"FF{n}": (lambda size: lambda m: m.number("fraction") // 10 ** (6 - size))(n) for n in range(1, 7)},
}


def written(type_: DataType, moments: Vector, template: Vector) -> Vector:
    """Compute `to_char(moment, template)` of dates or timestamps."""
    return per_combination(_written, type_, (moments,), (template,))


def _written(type_: DataType, moments: Vector, template: str) -> Vector:
    validity = moments.validity
    micros = micros_of(moments)
    if validity is not None:
        micros = np.where(validity, micros, 0)
    fields = _Moments(micros)
    parts = [_columns(fields, piece) for piece in pieces(template)]
    return Text(type_, _assembled(parts, len(moments), validity))


def _assembled(parts: list[_Columns], rows: int, validity: Array | None) -> pa.Array:
    width = sum(shown.shape[1] for shown, _ in parts)
    refuse_size(rows * width)
    matrix = np.empty((rows, width), np.uint8)
    kept = None if all(mask is None for _, mask in parts) else np.ones((rows, width), np.bool_)
    at = 0
    for shown, mask in parts:
        columns = slice(at, at := at + shown.shape[1])
        matrix[:, columns] = shown
        if mask is not None and kept is not None:
            kept[:, columns] = mask
    return texts_of_matrix(matrix, kept, validity)


def _columns(fields: _Moments, piece: Piece) -> _Columns:
    name = piece.name
    if not name:
        return np.frombuffer(piece.written.encode(), np.uint8).reshape(1, -1), None
    if name in _NUMBERS:
        number = _NUMBERS[name](fields)
        shown: _Columns = (digits(number, NUMBER_WIDTHS[name]), None)
        if piece.fill and not name.startswith(("FF", "MS", "US")):
            shown = shown[0], significant(shown[0])
        return _with_ordinal(shown, number, piece.ordinal) if piece.ordinal else shown
    if name == "Y,YYY":
        year = fields.number("year")
        comma = np.full((len(year), 1), ord(","), np.uint8)
        return np.hstack([digits(year // 1000, 1), comma, digits(year % 1000, 3)]), None
    words, numbers = _words(piece), _chosen(fields, name)
    matrix, mask = _table(words)
    if numbers is None or len(words) == 1:
        return matrix[:1], None
    chosen = matrix.take(numbers, axis=0)
    return chosen, None if mask is None or mask.all() else mask.take(numbers, axis=0)


def _with_ordinal(shown: _Columns, number: Array, wanted: str) -> _Columns:
    endings = _table(tuple(ordinal(n, wanted) for n in range(100)))[0].take(number % 100, axis=0)
    matrix, mask = shown
    if mask is None:
        return np.hstack([matrix, endings]), None
    return np.hstack([matrix, endings]), np.hstack([mask, np.ones(endings.shape, np.bool_)])


@lru_cache(maxsize=256)
def _table(words: tuple[str, ...]) -> _Columns:
    return table_of(words)


def _words(piece: Piece) -> tuple[str, ...]:
    """Return all words that the pattern can show, in the order of `_chosen`."""
    name = piece.name
    words: tuple[str, ...]
    if name in ("MONTH", "MON"):
        words = MONTHS
    elif name in ("DAY", "DY"):
        words = DAYS
    elif name == "RM":
        words = ROMAN
    elif name == "TZ":
        return (in_case_of("UTC", piece.written),)
    elif name == "OF":
        return ("+00",)
    else:
        halves = ("AM", "PM") if name.replace(".", "") in ("AM", "PM") else ("AD",)
        shown = [f"{half[0]}.{half[1]}." if "." in name else half for half in halves]
        return tuple(word.lower() if piece.written[0].islower() else word for word in shown)
    if name in ("MON", "DY"):
        words = tuple(word[:3] for word in words)
    width = 0 if piece.fill else {"MONTH": 9, "DAY": 9, "RM": 4}.get(name, 0)
    return tuple(in_case_of(word, piece.written).ljust(width) for word in words)


def _chosen(fields: _Moments, name: str) -> Array | None:
    """Return the number of each row's word, from 0; None if the pattern has one word."""
    if name in ("MONTH", "MON", "RM"):
        return fields.number("month") - 1
    if name in ("DAY", "DY"):
        return fields.number("weekday") - 1
    return fields.number("hour") // 12 if name.replace(".", "") in ("AM", "PM") else None


def _names(words: tuple[str, ...], field: str) -> Callable[[DataType, Vector], Vector]:
    def kernel(type_: DataType, moments: Vector) -> Vector:
        validity = moments.validity
        micros = micros_of(moments)
        if validity is not None:
            micros = np.where(validity, micros, 0)
        codes = (_Moments(micros).number(field) - 1).astype(np.uint8)
        return Dict(type_, codes, arrow_array(words), validity, ordered=False)

    return kernel


KERNELS: dict[str, Callable[..., Vector]] = {
    "to_char_date": written,
    "dayname": _names(DAYS, "weekday"),
    "monthname": _names(MONTHS, "month"),
}
