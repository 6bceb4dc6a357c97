"""How many bytes a build side takes that is in a temporary file."""

from __future__ import annotations

from collections.abc import Sequence

from ...storage.types import DataType, Kind

_TEXT = 20
"""Of a text: a code or an offset, and some characters."""
INDEX = 24
"""Per row of a build side: its place in the order of the keys, and in the table that finds it."""


def width(type_: DataType) -> int:
    """Bytes of one value of a type."""
    if type_.is_text:
        return _TEXT
    if type_.kind is Kind.NULL:
        return 0
    if type_.kind is Kind.INTERVAL or (type_.is_decimal and (type_.precision or 0) > 18):
        return 16
    return type_.dtype.itemsize


def loaded_bytes(types: Sequence[DataType], rows: int, written: int) -> int:
    """Bytes of rows of which `written` lie in a temporary file, read and indexed."""
    return max(written, rows * sum(width(type_) for type_ in types)) + INDEX * rows
