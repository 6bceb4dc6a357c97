"""`to_date` and `to_timestamp` in whole columns: texts of a template's exact shape are read by their columns of bytes.

    'DD.MM.YYYY'    07.11.2026    bytes 0 and 1 are the day, 2 is a point, 3 and 4 the month, ...

In a text of this shape every number has all digits of its pattern, and literal text stands as in the template. All
other texts, and those whose date does not exist, are read one by one (`date_templates.read`), which also raises the
errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from ....model.types import DataType, Kind
from ....model.vectors.vector import Array, Const, Flat, Vector
from ..distinct import per_distinct
from ..texts.like_search import bytes_of
from .date_templates import MONTHS, NUMBER_WIDTHS, Piece, pieces, read, read_date
from .temporal import DAY, first_days

_FIELDS: Final = {
    "YYYY": "year", "YY": "short year", "MM": "month", "MON": "month", "DD": "day", "HH24": "hour",
    "HH12": "hour of 12", "HH": "hour of 12", "AM": "half", "PM": "half", "MI": "minute", "SS": "second",
    "MS": "fraction", "US": "fraction",
    **{f"FF{n}": "fraction" for n in range(1, 7)},
}  # fmt: skip
"""The patterns that are read by columns, and the field that each sets."""
_MONTH_LETTERS: Final = np.frombuffer("".join(name[:3].lower() for name in MONTHS).encode(), np.uint8).reshape(12, 3)
_LOWER: Final = 0x20
"""The bit that makes an ASCII letter a small one."""


def _width(piece: Piece) -> int:
    if not piece.name:
        return len(piece.written.encode())
    return {"MON": 3, "AM": 2, "PM": 2}.get(piece.name) or NUMBER_WIDTHS[piece.name]


@lru_cache(maxsize=256)
def shape_of(template: str) -> tuple[Piece, ...] | None:
    """The parts of a template whose texts can be read by columns; None if it has no such shape.

    No field may occur twice, and no literal digit may follow a number: it would belong to it.
    """
    parts = pieces(template)
    fields = [_FIELDS.get(piece.name, "") for piece in parts if piece.name]
    if not fields or "" in fields or len(set(fields)) < len(fields) or {"year", "short year"} <= set(fields):
        return None
    if any(piece.ordinal for piece in parts):
        return None
    for before, piece in pairwise(parts):
        if before.name and not piece.name and piece.written[:1].isdigit():
            return None
    return parts


def _numbers(columns: Array, regular: Array) -> Array:
    """Return the number in columns of digits, shape (n_digits, n_rows), int64; `regular` is cleared for rows with
    others."""
    total = np.zeros(columns.shape[1], np.int32)
    for column in columns:
        digit = column - np.uint8(ord("0"))
        regular &= digit <= 9
        total *= 10
        total += digit
    return total.astype(np.int64)


def _fields(columns: Array, parts: tuple[Piece, ...]) -> tuple[dict[str, Array], Array]:
    """Return the fields of texts of the template's length, one row of `columns` per byte, and a mask of those of its
    shape."""
    regular = np.ones(columns.shape[1], np.bool_)
    fields: dict[str, Array] = {}
    at = 0
    for piece in parts:
        shown = columns[at : at + _width(piece)]
        at += len(shown)
        if not piece.name:
            for column, byte in zip(shown, piece.written.encode()):
                regular &= column == byte
        elif piece.name == "MON":
            month = np.zeros(len(regular), np.int64)
            for place, letters in enumerate(_MONTH_LETTERS, 1):
                month[np.all((shown | _LOWER) == letters[:, None], axis=0)] = place
            fields["month"] = month
        elif piece.name in ("AM", "PM"):
            half, letter = shown | _LOWER
            regular &= ((half == ord("a")) | (half == ord("p"))) & (letter == ord("m"))
            fields["half"] = (half == ord("p")).astype(np.int64)
        else:
            number = _numbers(shown, regular)
            scale = 10 ** (6 - len(shown)) if _FIELDS[piece.name] == "fraction" else 1
            fields[_FIELDS[piece.name]] = number * scale
    return fields, regular


def _moments(fields: dict[str, Array], regular: Array) -> Array:
    """Return microseconds since 1970; `regular` is cleared for dates and times that do not exist."""
    ones, zeros = np.ones(len(regular), np.int64), np.zeros(len(regular), np.int64)
    year = fields.get("year", ones)
    if "short year" in fields:
        year = fields["short year"] + np.where(fields["short year"] < 70, 2000, 1900)
    month, day = fields.get("month", ones), fields.get("day", ones)
    hour = fields.get("hour", zeros)
    if "hour of 12" in fields:
        regular &= (fields["hour of 12"] >= 1) & (fields["hour of 12"] <= 12)
        hour = fields["hour of 12"] % 12 + 12 * fields.get("half", zeros)
    minute, second = fields.get("minute", zeros), fields.get("second", zeros)
    regular &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (hour < 24) & (minute < 60) & (second < 60)
    months = np.where(regular, (year - 1970) * 12 + month - 1, 0)
    first = first_days(months)
    regular &= day <= first_days(months + 1) - first
    seconds = ((first + day - 1) * 24 + hour) * 3600 + minute * 60 + second
    return np.asarray(seconds * 1_000_000 + fields.get("fraction", zeros))


def _read_by_columns(texts: pa.Array, parts: tuple[Piece, ...], rows: Array) -> tuple[Array, Array]:
    """Return the microseconds of `rows`, whose texts have the template's length, and a mask of those that are read."""
    data, begins = bytes_of(texts)
    width = sum(map(_width, parts))
    if len(rows) == len(texts):
        columns = np.ascontiguousarray(data.reshape(-1, width).T)
    else:
        columns = data.take(begins[rows] + np.arange(width)[:, None])
    fields, regular = _fields(columns, parts)
    return _moments(fields, regular), regular


def _kernel(single: Callable[[str, str], object]) -> Callable[..., Vector]:
    def kernel(type_: DataType, value: Vector, template: Vector) -> Vector:
        if not isinstance(template, Const) or (parts := shape_of(template.value)) is None:
            return per_distinct(single, type_, (value, template))
        texts = value.to_arrow()
        rows = np.flatnonzero(np.diff(bytes_of(texts)[1]) == sum(map(_width, parts)))
        found = np.zeros(len(value), np.int64)
        micros, regular = _read_by_columns(texts, parts, rows)
        found[rows] = micros // DAY if type_.kind is Kind.DATE else micros
        is_read = np.zeros(len(value), np.bool_)
        is_read[rows] = regular
        others = np.flatnonzero(~is_read if value.validity is None else ~is_read & value.validity)
        if len(others):
            same = Const(template.type, template.value, len(others))
            found[others] = per_distinct(single, type_, (value.take(others), same)).values()
        return Flat(type_, found.astype(type_.dtype, copy=False), value.validity)

    return kernel


KERNELS: dict[str, Callable[..., Vector]] = {"to_date": _kernel(read_date), "to_timestamp": _kernel(read)}
