"""Single rows written in a transaction: `single_rows.row_write` without tablet and log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...model.store import Op, WriteResult
from ..single_rows.row_codec import MISSING
from ..single_rows.row_rules import RULES, UNCHANGED, BatchPathNeeded, prepare_row, resolve_row
from .own_rows import Entry, IndexKey, OwnRows
from .own_run import Presence

_MOST_KNOWN = 10_000


def write_single(
    own: OwnRows,
    op: Op,
    taken: tuple[list[Any], list[Any]],
    is_journaled: bool,
    take_numbers: Callable[[int, int], int],
    note_read: Callable[[tuple[Any, ...]], None] | None,
) -> WriteResult:
    """Apply one row; the transaction's lock is held. Raises `BatchPathNeeded`, with nothing done, for rows that are
    refused.

    Parameters
    ----------
    own : OwnRows
    op : Op
    taken : tuple
        Of `RowCodec.take`: physical and stored values.
    is_journaled : bool
        There are savepoints.
    take_numbers, note_read
        As of `batch_write.write_batch`; a key is a tuple of Python values.
    """
    context, rules = own.context, RULES[op]
    codec = context.codec
    physical, stored = taken
    prepare_row(codec, rules, physical, stored)
    width = codec.key_columns
    number = codec.number if rules.is_insert else None
    if context.has_ranges or number is not None:
        place = context.partitioner.route_one(physical)
        if place < 0:
            raise BatchPathNeeded
        if number is not None:
            physical[number] = stored[number] = take_numbers(place, 1)
    key = tuple(physical[:width])
    index = codec.key.index_key(key)
    before = own.entry(index, key)
    if before is not None:
        base, present = before.base, before.stored is not None
    elif number is not None:
        base, present = Presence.ABSENT, False
    elif rules.is_upsert and not context.immutable and MISSING not in physical:
        base, present = Presence.UNKNOWN, False
    else:
        present = is_in_base(own, index, stored[:width])
        base = Presence.PRESENT if present else Presence.ABSENT
    earlier = None if before is None else before.stored
    values = resolve_row(codec, context.immutable, rules, stored, earlier, present)
    if values is UNCHANGED:
        if note_read is not None and before is None:
            note_read(tuple(stored[:width]))
        return WriteResult(0, (), own.base.snapshot)
    size = sum(len(stored[place]) for place in codec.long_texts if isinstance(stored[place], str | bytes))
    own.put(index, Entry(base, values, key), is_journaled, size)
    return WriteResult(1, (), own.base.snapshot)


def is_in_base(own: OwnRows, index: IndexKey, key: list[Any]) -> bool:
    """True if the store has a row with a key (Python values), which is looked up once."""
    found = own.known.get(index)
    if found is None:
        table = own.context.table
        names = (table.schema.columns[0].name,)
        found = own.base.store.read_row(table, key, names, own.base.snapshot) is not None
        note_known(own, index, found)
    return found


def note_known(own: OwnRows, index: IndexKey, is_present: bool) -> None:
    """Remember that the store has, or lacks, a row."""
    if len(own.known) >= _MOST_KNOWN:
        own.known.clear()
    own.known[index] = is_present
