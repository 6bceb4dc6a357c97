"""Texts joined with a separator, tests for a piece or an ending, and random identifiers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....model import arrow_functions as pc
from ....model.arrow_arrays import arrow_array, arrow_scalar
from ....model.types import BOOLEAN, STRING, DataType
from ....model.vectors.vector import Const, Text, Vector
from ..byte_rows import masked
from .text_vectorized import per_constant


def concat_ws(type_: DataType, separator: Vector, *values: Vector) -> Vector:
    """Concatenate the values that are not NULL, with a separator between them."""
    if isinstance(separator, Const) and separator.value is None:
        return Const(type_, None, len(separator))
    mark: Any = arrow_scalar(separator.value) if isinstance(separator, Const) else separator.to_arrow()
    columns = [value.to_arrow() for value in values]
    # Arrow drops a row that has nothing to join.
    first, *others = columns
    is_empty = pc.is_null(first)
    for other in others:
        is_empty = pc.and_(is_empty, pc.is_null(other))
    columns[0] = pc.if_else(is_empty, "", first)
    joined = pc.binary_join_element_wise(*columns, mark, null_handling="skip")
    return Text(type_, masked(joined, separator.validity))


def ends_with(type_: DataType, value: Vector, suffix: Vector) -> Vector:
    """True if the text ends with the other."""
    return per_constant(BOOLEAN, value, (suffix,), lambda texts, end: pc.ends_with(texts, end))


def contains(type_: DataType, value: Vector, piece: Vector) -> Vector:
    """True if the text contains the other."""
    return per_constant(BOOLEAN, value, (piece,), lambda texts, needle: pc.match_substring(texts, needle))


def uuids(rows: int) -> Vector:
    """Random UUIDs of version 4."""
    words = np.random.default_rng().bytes(16 * rows)
    raw = np.frombuffer(words, np.uint8).reshape(rows, 16).copy()
    raw[:, 6] = raw[:, 6] & 0x0F | 0x40
    raw[:, 8] = raw[:, 8] & 0x3F | 0x80
    digits = raw.tobytes().hex()
    texts = [digits[i : i + 32] for i in range(0, len(digits), 32)]
    return Text(STRING, arrow_array([f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in texts]))


KERNELS: dict[str, Callable[..., Vector]] = {
    "concat_ws": concat_ws,
    "ends_with": ends_with,
    "contains": contains,
}
