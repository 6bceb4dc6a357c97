"""How many bytes a build side takes that is in a temporary file."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.types import DataType
from ..spilling.sizes import expected_width

INDEX = 24
"""Per row of a build side: its place in the order of the keys, and in the table that finds it."""


def loaded_bytes(types: Sequence[DataType], rows: int, written: int) -> int:
    """Bytes of rows of which `written` lie in a temporary file, read and indexed."""
    return max(written, rows * sum(expected_width(type_) for type_ in types)) + INDEX * rows
