"""Location of the row with one key, in a few microseconds; `writing.row_location` does the same for many keys.

A key is alive in at most one place: in a MemRowSet, or in one of the rowsets whose interval contains it. A deleted row
stays as a ghost until a compaction; only the current MemRowSet reinserts ghosts. So the hint (`TabletState.places`) is
checked first: if the row is alive there, it is nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ...model.keys.key_codec import KeyCodec
from ..deltas.deltas import DeltaKind
from ..keys.bloom import BloomProbe
from ..rowsets.memrowset import MemRowSet
from ..rowsets.stored_rowset import StoredRowSet
from ..tablet.tablet import TabletState

RowHome: TypeAlias = MemRowSet | StoredRowSet


def change_row(home: RowHome, row: int, kind: DeltaKind, values: Any, timestamp: int, entry: int) -> None:
    """Put an UPDATE or DELETE of a row into memory, where the row lives. Needs the tablet's `write_lock`.

    Parameters
    ----------
    home, row
        As `locate_row` gives them.
    values : dict
        The new ones by column id; empty for a DELETE.
    entry : int
        Index of the log entry.
    """
    if isinstance(home, MemRowSet):
        home.mutate_row(row, kind, values, timestamp, entry)
        return
    home.memstore.append_row(row, kind, values, timestamp, entry)
    if kind is DeltaKind.DELETE:
        home.deleted.add_row(row)


def locate_row(
    state: TabletState, codec: KeyCodec, key: Sequence[Any], index: int | bytes, is_insert: bool
) -> tuple[RowHome | None, int, int]:
    """Returns the place where a key is alive, its row number there, and, if it is not alive, the row number of its
    ghost in the current MemRowSet, -1 for none. Needs the tablet's `write_lock`.

    Parameters
    ----------
    key, index
        Physical values, and `codec.index_key` of them.
    is_insert : bool
        The key is usually absent.
    """
    hash_ = codec.hash_32(index)
    if not is_insert and (hint := state.places.get(hash_)) is not None:
        stored, row = hint
        if stored.rowset.holds(row, key) and not stored.deleted.has(row):
            return stored, row, -1
    ghost = -1
    row = state.memrowset.find_one(index)
    if row >= 0:
        if not state.memrowset.deleted.has(row):
            return state.memrowset, row, ghost
        ghost = row
    if state.flushing is not None:
        row = state.flushing.find_one_live(index)
        if row >= 0:
            return state.flushing, row, ghost
    if not state.rowsets:
        return None, -1, ghost
    candidates = state.tree.containing(codec.encoded_of(index))
    if not candidates:
        return None, -1, ghost
    # A key that is to be changed is there, as a rule: one rowset's pages are read anyway.
    probe = BloomProbe(codec.hash(key)) if is_insert or len(candidates) > 1 else None
    for stored in candidates:
        row = stored.rowset.find_one(key, probe)
        if row >= 0 and not stored.deleted.has(row):
            state.places.note(hash_, stored, row)
            return stored, row, ghost
    return None, -1, ghost
