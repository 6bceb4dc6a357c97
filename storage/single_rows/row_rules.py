"""Rules of the row path: effects of ops, and rows that take the batch path instead."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...model.store import Op
from .row_codec import LONG_TEXT, MISSING, RowCodec

LONG_CELL = 1 << 18
"""Characters; a text beyond may pass the limit of cells."""


class Rules(NamedTuple):
    """Effects of an op: looked up once per row, since a member of an Enum takes longer to find than all the rest."""

    is_insert: bool
    is_upsert: bool
    is_delete: bool
    is_silent: bool


RULES = {
    op: Rules(
        is_insert=op in (Op.INSERT, Op.INSERT_IGNORE),
        is_upsert=op in (Op.UPSERT, Op.UPSERT_IGNORE),
        is_delete=op in (Op.DELETE, Op.DELETE_IGNORE),
        is_silent=op not in (Op.INSERT, Op.UPSERT, Op.UPDATE, Op.DELETE),
    )
    for op in Op
}


class BatchPathNeeded(Exception):
    """The row must be written as a batch; nothing has been done."""


def prepare_row(codec: RowCodec, rules: Rules, physical: list[Any], stored: list[Any]) -> None:
    """Fill in defaults of key columns; `BatchPathNeeded` if the row itself is or may be invalid.

    Parameters
    ----------
    codec : RowCodec
    rules : Rules
    physical, stored : list
        As `RowCodec.take` returns them.
    """
    for place in codec.key_places:
        value = physical[place]
        if place == codec.number:
            if (value is MISSING or value is None) is not rules.is_insert:
                raise BatchPathNeeded
        elif value is MISSING:
            column = codec.columns[place]
            if column.default_physical is None:
                raise BatchPathNeeded
            physical[place], stored[place] = column.default_physical, column.default_stored
        elif value is None:
            raise BatchPathNeeded
    if None in physical and any(physical[place] is None for place in codec.not_null):
        raise BatchPathNeeded
    for place in codec.long_texts:
        value = physical[place]
        if value is None or value is MISSING or len(value) <= LONG_TEXT:
            continue
        if place < codec.key_columns or len(value) > LONG_CELL:
            raise BatchPathNeeded
