"""The columns that a diff scan adds to a table's own."""

from __future__ import annotations

from .schema import ColumnSchema
from .store import CHANGE_COLUMN, CHANGED_AT_COLUMN
from .types import BIGINT, DECIMAL, STRING, DataType

_SIGNED_END = 1 << 63
"""Hybrid timestamps are unsigned: from 2041-05-10 on, they are beyond BIGINT."""


def changed_at_type(until: int) -> DataType:
    """The type of `_changed_at` in a scan of changes up to a hybrid timestamp: BIGINT while that holds all of them.

    >>> str(changed_at_type(1 << 62)), str(changed_at_type(1 << 63))
    ('BIGINT', 'DECIMAL(20,0)')
    """
    return BIGINT if until < _SIGNED_END else DECIMAL(20)


def change_columns(until: int) -> tuple[ColumnSchema, ColumnSchema]:
    """`_change` and `_changed_at` of a scan of changes up to a hybrid timestamp."""
    return (
        ColumnSchema(CHANGE_COLUMN, STRING, nullable=False),
        ColumnSchema(CHANGED_AT_COLUMN, changed_at_type(until), nullable=False),
    )
