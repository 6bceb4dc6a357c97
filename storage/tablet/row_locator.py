"""Locations of rows by key: of one key in a few microseconds (`locate_row`), of many (`RowLocator`).

A key is alive in at most one place: in a MemRowSet, or in one of the rowsets whose interval contains it. A deleted row
stays as a ghost until a compaction; only the current MemRowSet reinserts ghosts. So `locate_row`
checks the hint (`TabletState.places`) first: if the row is alive there, it is nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ...model.keys.key_codec import KeyCodec
from ...model.keys.keys import Keys
from ...model.vectors.vector import Array
from ..deltas.deltas import DeltaKind
from ..keys.bloom import BloomProbe
from ..rowsets.memrowset import IndexKeys, MemRowSet, index_keys
from ..rowsets.stored_rowset import StoredRowSet
from .tablet import TabletState

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


# ---- many keys ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Locations:
    """Locations of keys.

    Parameters
    ----------
    homes : list of MemRowSet or StoredRowSet
        The current MemRowSet first.
    home : ndarray of int64, shape (n_keys,)
        Index of the home with the key's live row; -1 for none.
    row : ndarray of int64, shape (n_keys,)
        Its row number there.
    ghost : ndarray of int64, shape (n_keys,)
        The row number of a deleted row with the key in the current MemRowSet; -1 for none.
    """

    homes: list[RowHome]
    home: Array
    row: Array
    ghost: Array

    @property
    def present(self) -> Array:
        """Keys that exist: ndarray of bool, shape (n_keys,)."""
        return self.home >= 0


class RowLocator:
    """Finds the rows of some keys in a tablet that others write to.

    Rowsets are searched without a lock (`search`); what has come since, and what has been deleted, is looked up under
    the tablet's `write_lock` (`locate`). A rowset keeps its id and its rows their numbers whatever becomes of its
    deltas.

    Parameters
    ----------
    keys : Keys
    likely : bool
        They are there as a rule: rows are to be updated or deleted.
    """

    def __init__(self, keys: Keys, likely: bool = False):
        self._keys = keys
        self._index: IndexKeys | None = None
        self._likely = likely
        self._searched: set[int] = set()
        self._found: list[tuple[int, Array, Array]] = []
        """(Rowset id, rows of `keys`, row numbers there)."""

    @property
    def index(self) -> IndexKeys:
        """The keys as MemRowSets know them: Python objects, made at the first use, and not needed as long as MemRowSets
        are empty and keys exist."""
        if self._index is None:
            self._index = index_keys(self._keys)
        return self._index

    def search(self, state: TabletState) -> None:
        """Look for the keys in the rowsets of a pinned state."""
        candidates = list(state.tree.candidates(self._keys))
        # Where rowsets overlap, a key is in one of several.
        likely = self._likely and sum(len(among) for _, among in candidates) <= len(self._keys)
        for stored, among in candidates:
            if stored.metadata.id not in self._searched:
                is_all = len(among) == len(self._keys) and self._keys.is_strictly_ascending()
                numbers = stored.rowset.find(self._keys if is_all else self._keys.take(among), likely)
                hits = numbers >= 0
                if hits.all():
                    self._found.append((stored.metadata.id, among, numbers))
                elif hits.any():
                    self._found.append((stored.metadata.id, among[hits], numbers[hits]))
        self._searched.update(stored.metadata.id for stored in state.rowsets)

    def locate(self, state: TabletState) -> Locations:
        """Locates the keys in the newest state. Needs the tablet's `write_lock`."""
        if not all(stored.metadata.id in self._searched for stored in state.rowsets):
            self.search(state)
        count = len(self._keys)
        home, row, ghost = (np.full(count, -1, np.int64) for _ in range(3))
        homes: list[RowHome] = [state.memrowset]
        numbers = state.memrowset.find(self.index) if state.memrowset.row_count else None
        if numbers is not None:
            here = np.flatnonzero(numbers >= 0)
            is_dead = state.memrowset.deleted.contains(numbers[here])
            ghost[here[is_dead]] = numbers[here[is_dead]]
            home[here[~is_dead]] = 0
            row[here[~is_dead]] = numbers[here[~is_dead]]
        if state.flushing is not None:
            homes.append(state.flushing)
            numbers = state.flushing.find_live(self.index)
            if numbers is not None:
                here = np.flatnonzero(numbers >= 0)
                home[here], row[here] = 1, numbers[here]
        stored_by_id = {stored.metadata.id: stored for stored in state.rowsets} if self._found else {}
        for rowset_id, among, numbers in self._found:
            stored = stored_by_id.get(rowset_id)
            if stored is not None:
                if stored.deleted.count:
                    alive = ~stored.deleted.contains(numbers)
                    among, numbers = among[alive], numbers[alive]
                home[among], row[among] = len(homes), numbers
                homes.append(stored)
        return Locations(homes, home, row, ghost)
