"""`to_char` of numbers over whole columns: numbers of one shape share one layout of characters and digits.

    -1234.50, '999,999.00'   shape: four digits, negative    layout: "   -" d4 "," d3 d2 d1 "." f1 f2

The shape is the number of digits before the point, the sign and, with `FM`, the number of zeros at the end. A template
has few of them. The layout of each is what `number_templates` writes if the digits are placeholders.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa

from ....model import arrow_functions as pc
from ....model.arrow_arrays import arrow_array
from ....model.types import DataType
from ....model.vectors.vector import Array, Const, Flat, Text, Vector, Wide
from ..byte_rows import digits, refuse_size, texts_of_matrix
from ..distinct import per_combination, per_distinct
from .bounded_integers import integers, measured_bounds, scale_of
from .number_templates import Template, laid_out, parsed, written

_MOST_DIGITS = 18
_MOST_EXACT = 2.0**49
"""Products below this have two bits behind the point at least."""
_PLACEHOLDER = 0xE000
"""Code point that stands for the digit before the point with the lowest place; the next ones stand for higher places.

Those of the digits behind the point begin at `_PLACEHOLDER + 256`. Both are in the area for private use.
"""
_FRACTION = _PLACEHOLDER + 256


def to_char(type_: DataType, number: Vector, template: Vector) -> Vector:
    """Compute `to_char(number, template)`."""
    return per_combination(_to_char, type_, (number,), (template,))


def _to_char(type_: DataType, number: Vector, template: str) -> Vector:
    form = parsed(template)
    if number.type.is_float and not isinstance(number, Const):
        # Equal values are written once, so -0.0 must look as 0.0 does.
        number = Flat(number.type, number.values() + number.type.dtype.type(0), number.validity)
    if not _has_layouts(form, template):
        return per_distinct(written, type_, (number, Const(type_, template, len(number))))
    scaled, settled = _of_floats(number, form) if number.type.is_float else _of_exact(number, form)
    texts = _written(form, scaled, number.validity)
    rows = np.flatnonzero(~settled if number.validity is None else ~settled & number.validity)
    if len(rows):
        single = per_distinct(written, type_, (number.take(rows), Const(type_, template, len(rows))))
        texts = pc.replace_with_mask(texts, arrow_array(~settled & _present(number)), single.to_arrow())
    return Text(type_, texts)


def _present(number: Vector) -> Array:
    return np.ones(len(number), np.bool_) if number.validity is None else number.validity


def _has_layouts(form: Template, template: str) -> bool:
    """True if shapes decide everything but the digits; ordinals, exponents and Roman numerals depend on the value."""
    private = any(_PLACEHOLDER <= ord(character) < _PLACEHOLDER + 512 for character in template)
    small = form.digits + form.scale <= _MOST_DIGITS
    return small and not (private or form.ordinal or form.exponent or form.roman or form.shift)


def _of_exact(number: Vector, form: Template) -> tuple[Array, Array]:
    """Return integers or decimals times 10**scale, rounded half away from zero, int64, and a mask of those that fit;
    0 for others and for NULLs."""
    unsettled = np.zeros(len(number), np.int64), np.zeros(len(number), np.bool_)
    if isinstance(number, Wide) or not (number.type.is_integer or number.type.is_decimal):
        return unsettled
    low, high = measured_bounds(number)
    shift = form.scale - scale_of(number.type)
    if max(-low, high) >= 10 ** (_MOST_DIGITS - max(shift, 0)):
        return unsettled
    values = np.broadcast_to(np.asarray(integers(number), np.int64), (len(number),))
    values = np.where(_present(number), values, 0)
    settled = np.ones(len(number), np.bool_)
    if shift >= 0:
        return values * 10**shift, settled
    unit = 10**-shift
    return np.sign(values) * ((np.abs(values) + unit // 2) // unit), settled


def _of_floats(number: Vector, form: Template) -> tuple[Array, Array]:
    """The same for floats, whose shortest decimal form is rounded.

    It differs from the product in float64 by less than two units in the last place: the rounded product is right unless
    it is that close to a half. Such numbers, huge ones, NaN and infinities are not settled.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        product = np.asarray(number.values(), np.float64) * 10.0**form.scale
        size = np.abs(product)
        whole = np.floor(size)
        settled = (size < _MOST_EXACT) & (np.abs(size - whole - 0.5) > size * 2.0**-50)
    settled &= _present(number)
    rounded = np.where(settled, np.copysign(np.floor(size + 0.5), product), 0)
    return rounded.astype(np.int64), settled


def _written(form: Template, scaled: Array, validity: Array | None) -> pa.Array:
    size = np.abs(scaled)
    unit = 10**form.scale
    whole, fraction = size // unit, size % unit
    places = np.searchsorted(10 ** np.arange(_MOST_DIGITS + 1, dtype=np.int64), whole, side="right")
    places = np.minimum(places, form.digits + 1)  # one more than there are: the number does not fit
    shape = places * 2 + (scaled < 0)
    if form.fill:
        zeros = np.zeros(len(scaled), np.int64)
        for count in range(1, form.scale + 1):
            zeros += fraction % 10**count == 0
        shape = shape * (form.scale + 1) + zeros
    before = digits(whole, max(form.digits, 1))
    behind = digits(fraction, max(form.scale, 1))
    shapes = np.flatnonzero(np.bincount(shape))
    layouts = [_layout(form, int(one)) for one in shapes.tolist()]
    widths = np.array([len(layout) for layout in layouts])
    width = int(widths.max(initial=0))
    refuse_size(len(scaled) * width)
    matrix = np.zeros((len(scaled), width), np.uint8)
    lengths = np.zeros(len(scaled), np.int64)
    for one, layout in zip(shapes.tolist(), layouts, strict=True):
        rows = np.flatnonzero(shape == one)
        lengths[rows] = len(layout)
        block = np.empty((len(rows), len(layout)), np.uint8)
        for column, mark in enumerate(layout):
            if mark < _PLACEHOLDER:
                block[:, column] = mark
            elif mark < _FRACTION:
                block[:, column] = before[rows, before.shape[1] - 1 - (mark - _PLACEHOLDER)]
            else:
                block[:, column] = behind[rows, mark - _FRACTION]
        matrix[rows, : len(layout)] = block
    kept = None if bool((widths == width).all()) else np.arange(width) < lengths[:, None]
    return texts_of_matrix(matrix, kept, validity)


@lru_cache(maxsize=1024)
def _layout(form: Template, shape: int) -> tuple[int, ...]:
    """Return a byte or a placeholder for each byte of the texts of one shape."""
    shape, zeros = divmod(shape, form.scale + 1) if form.fill else (shape, 0)
    places, negative = divmod(shape, 2)
    if places > form.digits:
        whole, fraction = "#" * form.digits, "#" * form.scale
    else:
        whole = "".join(chr(_PLACEHOLDER + place) for place in reversed(range(places)))
        fraction = "".join(chr(_FRACTION + place) for place in range(form.scale - zeros)) + "0" * zeros
    shown = laid_out(form, bool(negative), whole, fraction, "")
    marks: list[int] = []
    for character in shown:
        code = ord(character)
        marks.extend([code] if _PLACEHOLDER <= code < _PLACEHOLDER + 512 else character.encode())
    return tuple(marks)


KERNELS: dict[str, Callable[..., Vector]] = {"to_char_number": to_char}
