"""`to_number` in whole columns: the digits of a text before and behind the point, put together as one integer.

    '12,454.8-' by '99G999D9S'    digits 124548, one of them behind the point, negative

Texts with more digits than the template admits, several points or none at all are read one by one
(`number_templates.read`), which also raises the errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from ....model import arrow_functions as pc
from ....model.types import DataType
from ....model.vectors.vector import Array, Const, Flat, Vector, concat
from ..byte_rows import texts_of
from ..distinct import per_distinct
from ..texts.like_search import bytes_of
from .bounded_integers import scale_of
from .number_templates import Template, parsed, read

_MOST_DIGITS: Final = 18
"""Digits that fit 64 bits."""


def to_number(type_: DataType, value: Vector, template: Vector) -> Vector:
    """Compute `to_number(text, template)`."""
    if not isinstance(template, Const) or template.value is None:
        return per_distinct(read, type_, (value, template))
    texts = value.to_arrow()
    texts = texts.fill_null("0") if texts.null_count else texts
    units, regular = _units(texts, parsed(template.value), scale_of(type_))
    found = Flat(type_, units, value.validity)
    others = np.flatnonzero(~regular if value.validity is None else ~regular & value.validity)
    if not len(others):
        return found
    same = Const(template.type, template.value, len(others))
    rows = np.arange(len(value))
    rows[others] = len(value) + np.arange(len(others))
    rest = per_distinct(read, type_, (value.take(others), same))
    return concat([found, rest.take(np.arange(len(others)))]).take(rows)


def _units(texts: pa.Array, form: Template, scale: int) -> tuple[Array, Array]:
    """Return the numbers in units of the last digit behind the point, int64, and a mask of those that are certain."""
    data, begins = bytes_of(texts)
    digit, point = (data - np.uint8(ord("0"))) <= 9, data == ord(".")
    before = _counted(digit, begins)
    sizes = np.diff(before)
    regular = (sizes > 0) & (sizes <= _MOST_DIGITS - scale)
    behind = np.zeros(len(texts), np.int64)
    places = np.flatnonzero(point)
    if len(places):
        rows = np.searchsorted(begins, places, side="right") - 1
        regular &= np.bincount(rows, minlength=len(texts)) <= 1
        # The last point of a row with several counts; such rows are not certain.
        behind[rows] = before[rows + 1] - np.searchsorted(np.flatnonzero(digit), places)
    regular &= (behind <= min(scale, form.scale)) & (sizes - behind <= form.digits)
    kept = np.where(regular, sizes, 0)
    shown, offsets = data[digit], before
    if not regular.all():
        shown = shown[np.repeat(regular, sizes)]
        offsets = np.concatenate([[0], np.cumsum(kept)])
    digits = texts_of(shown, offsets, None)
    whole = pc.cast(pc.if_else(pa.array(regular), digits, "0"), pa.int64()).to_numpy(zero_copy_only=False)
    units = whole * 10 ** np.maximum(scale - behind, 0).astype(np.int64)
    return np.where(_negative(data, begins), -units, units), regular


def _counted(flags: Array, begins: Array) -> Array:
    """Number of flags before each offset, int64."""
    places = np.flatnonzero(flags)
    if len(places) == len(flags):
        return begins.astype(np.int64)
    return np.searchsorted(places, begins)


def _negative(data: Array, begins: Array) -> Array:
    """Mask of the rows with a minus sign, or both angle brackets."""
    minus, less, greater = (_holds(data, ord(mark), begins) for mark in "-<>")
    return minus | (less & greater)


def _holds(data: Array, byte: int, begins: Array) -> Array:
    found = np.zeros(len(begins) - 1, np.bool_)
    places = np.flatnonzero(data == byte)
    if len(places):
        found[np.searchsorted(begins, places, side="right") - 1] = True
    return found


KERNELS: dict[str, Callable[..., Vector]] = {"to_number": to_number}
