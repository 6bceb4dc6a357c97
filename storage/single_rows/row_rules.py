"""Rules of the row path: effects of ops, and rows that take the batch path instead."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

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


UNCHANGED: Final[Any] = object()


def resolve_row(
    codec: RowCodec,
    immutable: Collection[int],
    rules: Rules,
    stored: list[Any],
    before: list[Any] | None,
    present: bool,
) -> list[Any] | None:
    """A row after an op: its stored values, of a present row with `MISSING` where a cell keeps its value; None if it is
    deleted; `UNCHANGED`. `BatchPathNeeded` if the op is refused.

    Parameters
    ----------
    codec : RowCodec
    immutable : collection of int
        Positions of columns that may not be changed.
    rules : Rules
    stored : list
        As `RowCodec.take` returns it.
    before : list, optional
        Values that earlier ops of the same write have set, likewise.
    present : bool
        There is a row with the key.
    """
    if present is rules.is_insert and not rules.is_upsert:
        if rules.is_silent:
            return UNCHANGED  # type: ignore[no-any-return]
        raise BatchPathNeeded
    if rules.is_delete:
        return None
    if not present:
        if MISSING not in stored:
            return stored
        filled = stored.copy()
        for column in codec.columns[codec.key_columns :]:
            if filled[column.place] is MISSING:
                if not column.schema.nullable and column.default_physical is None:
                    raise BatchPathNeeded
                filled[column.place] = column.default_stored
        return filled
    values = [MISSING] * len(stored) if before is None else before.copy()
    is_changed = False
    for place, value in enumerate(stored):
        if place < codec.key_columns:
            values[place] = value
        elif value is not MISSING:
            if place in immutable:
                if not rules.is_silent:
                    raise BatchPathNeeded
                continue
            values[place] = value
            is_changed = True
    return values if is_changed else UNCHANGED
