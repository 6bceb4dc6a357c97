"""Casts of values in their plainest form, whole columns at a time, by Arrow and NumPy.

Each function says for which rows its result is certain to be the one that `kernels.cast` defines value by value; the
others are left to that.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import fill_nulls, numpy_array
from ...model.types import FIRST_DAY, LAST_DAY, DataType, Kind
from ...model.vectors.vector import Array
from .numbers.bounded_integers import limits_of
from .times.temporal import DAY

_EXACT = 2.0**50
"""Magnitude up to which scaled floats have a fraction of at least three bits."""
_ROUNDING = 2.0**-50
"""Bound of the relative error of a scaled float, which is rounded twice, with room to spare."""
_PLAIN = {Kind.DOUBLE: (1e-4, 1e10), Kind.FLOAT: (1e-3, 1e6)}
"""Magnitudes between which Arrow writes floats without an exponent, as Python and NumPy do."""
_MOST_DIGITS = 16
"""Characters of a decimal number without exponent that has no more than 15 significant digits, so that a DOUBLE holds
it; or 16 and is an integer."""


def decimals_of_floats(type_: DataType, values: Array) -> tuple[Array, Array]:
    """Round floats to a DECIMAL.

    A float stands for the digits that it prints as, which are rounded half away from zero. Multiplied by the scale, it
    is off by less than `_ROUNDING`; so where its fraction is not that close to a half, the nearest integer is certain.

    Parameters
    ----------
    values : ndarray of float64, shape (n_rows,)

    Returns
    -------
    units : ndarray of int64, shape (n_rows,)
    is_certain : ndarray of bool, shape (n_rows,)
    """
    with np.errstate(all="ignore"):
        scaled = values * 10.0 ** (type_.scale or 0)
        size = np.abs(scaled)
        rounded = np.rint(scaled)
        is_certain = (size < min(_EXACT, float(limits_of(type_)[1]))) & (
            np.abs(0.5 - np.abs(scaled - rounded)) > size * _ROUNDING
        )
    return np.where(is_certain, rounded, 0.0).astype(np.int64), is_certain


# ---- to text -------------------------------------------------------------------------------------------------------


def texts_of(type_: DataType, array: pa.Array) -> tuple[pa.Array, Array | None] | None:
    """Return the texts of floats, timestamps or decimals, and a mask of the rows whose text is certain (None: all).

    None if Arrow writes values of the type in another way.
    """
    if type_.kind is Kind.TIMESTAMP:
        digits = pc.ascii_rtrim(pc.cast(array, pa.string()), characters="0")
        return pc.ascii_rtrim(digits, characters="."), None
    if type_.is_decimal and (type_.scale or 0) <= 6:  # no exponents
        return pc.cast(array, pa.string()), None
    if type_.is_float:
        size = np.abs(numpy_array(fill_nulls(array, 0)))
        least, most = _PLAIN[type_.kind]
        is_plain = (size == 0) | ((size >= least) & (size < most))
        return pc.cast(array, pa.string()), None if is_plain.all() else is_plain
    return None


# ---- from text -----------------------------------------------------------------------------------------------------


def parsed_texts(type_: DataType, texts: pa.Array) -> tuple[Array, Array | None] | None:
    """Parse texts as DOUBLE, TIMESTAMP or DECIMAL: physical values, and a mask of the rows that are certain (None:
    all); arbitrary under NULLs.

    None if Arrow refuses one of them, or may understand one in another way.
    """
    plain = pc.ascii_trim_whitespace(texts)
    lengths = pc.min_max(pc.binary_length(plain))
    shortest, longest = (lengths[end].as_py() for end in ("min", "max"))
    if shortest is None:
        return None
    try:
        if type_.kind is Kind.TIMESTAMP:
            return _timestamps(plain) if 19 <= shortest <= longest <= 26 else None
        if type_.kind is Kind.DOUBLE:
            values = _numbers(plain)
            return (values, None) if np.isfinite(values).all() else None
        if type_.is_decimal and longest <= _MOST_DIGITS and not _has_exponent(plain):
            return decimals_of_floats(type_, _numbers(plain))
    except pa.ArrowInvalid:
        pass
    return None


def _numbers(texts: pa.Array) -> Array:
    values: Array = numpy_array(fill_nulls(pc.cast(texts, pa.float64()), 0.0))
    return values


def _has_exponent(texts: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring(texts, "e", ignore_case=True)).as_py())


def _timestamps(texts: pa.Array) -> tuple[Array, None] | None:
    values = numpy_array(fill_nulls(pc.cast(texts, pa.timestamp("us")).cast(pa.int64()), 0))
    if values.min() < FIRST_DAY * DAY or values.max() >= (LAST_DAY + 1) * DAY:
        return None
    return values, None
