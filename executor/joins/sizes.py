"""Memory that a build side in a temporary file takes once it is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.types import DataType
from ..spilling.sizes import expected_width

INDEX = 24
"""Bytes per row of a build side: its position in the order of the keys, and in the index table."""


def loaded_bytes(types: Sequence[DataType], rows: int, written: int) -> int:
    """Bytes of rows of which `written` lie in a temporary file, once read and indexed."""
    return max(written, rows * sum(expected_width(type_) for type_ in types)) + INDEX * rows
