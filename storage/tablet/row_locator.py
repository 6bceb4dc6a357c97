"""Locations of rows by key: of one key in a few microseconds (`locate_row`), of many (`RowLocator`).

A key is alive in at most one place: in a MemRowSet, or in one of the rowsets whose interval contains it. A deleted row
stays as a ghost until a compaction; only the current MemRowSet reinserts ghosts. So `locate_row`
checks the hint (`TabletState.places`) first: if the row is alive there, it is nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...model.keys.key_codec import KeyCodec
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
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


def dead_rows(
    state: TabletState, codec: KeyCodec, key: Sequence[Any], index: int | bytes, ghost: int
) -> Iterator[tuple[RowHome, int]]:
    """The deleted rows of a key that is alive nowhere: (home, row number there). Arguments as of `locate_row`, `ghost`
    as it returns it. Needs the tablet's `write_lock`."""
    if ghost >= 0:
        yield state.memrowset, ghost
    if state.flushing is not None:
        row = state.flushing.find_one(index)
        if row >= 0:
            yield state.flushing, row
    if not state.rowsets:
        return
    candidates = state.tree.containing(codec.encoded_of(index))
    probe = BloomProbe(codec.hash(key)) if candidates else None
    for stored in candidates:
        row = stored.rowset.find_one(key, probe)
        if row >= 0:
            yield stored, row


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

    def are_distinct(self) -> bool:
        """True if all keys exist and none of them is given twice: no two have one row. Needs no order of the keys."""
        found = 0
        for number, home in enumerate(self.homes):
            rows = self.row[self.home == number]
            if not (rows[1:] > rows[:-1]).all():
                is_taken = np.zeros(home.row_count, np.bool_)
                is_taken[rows] = True
                if np.count_nonzero(is_taken) < len(rows):
                    return False
            found += len(rows)
        return found == len(self.home)


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
        self.keys = keys
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
            self._index = index_keys(self.keys)
        return self._index

    def search(self, state: TabletState) -> None:
        """Look for the keys in the rowsets of a pinned state."""
        for rows, keys in _runs(self.keys):
            self._search_for(state, rows, keys)
        self._searched.update(stored.metadata.id for stored in state.rowsets)

    def _search_for(self, state: TabletState, rows: Array | int, keys: Keys) -> None:
        """`search` for some of the keys: those at `rows`, or those from there on."""
        candidates = list(state.tree.candidates(keys))
        # Where rowsets overlap, a key is in one of several.
        likely = self._likely and sum(len(among) for _, among in candidates) <= len(keys)
        for stored, among in candidates:
            if stored.metadata.id in self._searched:
                continue
            if keys.is_strictly_ascending():
                first, last = int(among[0]), int(among[-1])
                asked = keys if len(among) == len(keys) else keys.slice(first, last + 1)
            else:
                asked = keys.take(among)
            numbers = stored.rowset.find(asked, likely)
            places = among + rows if isinstance(rows, int) else rows[among]
            hits = numbers >= 0
            if hits.all():
                self._found.append((stored.metadata.id, places, numbers))
            elif hits.any():
                self._found.append((stored.metadata.id, places[hits], numbers[hits]))

    def locate(self, state: TabletState) -> Locations:
        """Locates the keys in the newest state. Needs the tablet's `write_lock`."""
        if not all(stored.metadata.id in self._searched for stored in state.rowsets):
            self.search(state)
        count = len(self.keys)
        home, row, ghost = (np.full(count, -1, np.int64) for _ in range(3))
        homes: list[RowHome] = [state.memrowset]
        if state.flushing is not None:
            homes.append(state.flushing)
        stored_by_id = {stored.metadata.id: stored for stored in state.rowsets} if self._found else {}
        for rowset_id, among, numbers in self._found:
            stored = stored_by_id.get(rowset_id)
            if stored is not None:
                if stored.deleted.count:
                    alive = ~stored.deleted.contains(numbers)
                    among, numbers = among[alive], numbers[alive]
                if stored not in homes:
                    homes.append(stored)
                home[among], row[among] = homes.index(stored), numbers
        if state.memrowset.row_count or state.flushing is not None:
            self._locate_in_memory(state, home, row, ghost)
        return Locations(homes, home, row, ghost)

    def dead_rows(self, state: TabletState, locations: Locations) -> Iterator[tuple[RowHome, Array, Array]]:
        """The deleted rows of the keys that are alive nowhere, home by home: (home, which keys, their row numbers
        there). A key may be in several homes. `state` and `locations` as for `locate`; needs the tablet's
        `write_lock`."""
        is_absent = locations.home < 0
        ghosts = np.flatnonzero(is_absent & (locations.ghost >= 0))
        if len(ghosts):
            yield state.memrowset, ghosts, locations.ghost[ghosts]
        absent = np.flatnonzero(is_absent)
        if not len(absent):
            return
        if state.flushing is not None:
            numbers = state.flushing.find(index_keys(self.keys.take(absent)))
            if numbers is not None:
                yield state.flushing, absent[numbers >= 0], numbers[numbers >= 0]
        stored_by_id = {stored.metadata.id: stored for stored in state.rowsets}
        for rowset_id, among, numbers in self._found:
            stored = stored_by_id.get(rowset_id)
            is_dead = is_absent[among]
            if stored is not None and is_dead.any():
                yield stored, among[is_dead], numbers[is_dead]

    def _locate_in_memory(self, state: TabletState, home: Array, row: Array, ghost: Array) -> None:
        """Fill in what the MemRowSets know of the keys."""
        asked, index = None, self._index
        if self._likely and (home >= 0).any():
            # A key that lives in a rowset lives nowhere else, and only insertions need ghosts.
            asked = np.flatnonzero(home < 0)
            if not len(asked):
                return
            index = index_keys(self.keys.take(asked))
        elif index is None:
            index = self.index
        numbers = state.memrowset.find(index) if state.memrowset.row_count else None
        if numbers is not None:
            hits = np.flatnonzero(numbers >= 0)
            here, numbers = hits if asked is None else asked[hits], numbers[hits]
            is_dead = state.memrowset.deleted.contains(numbers)
            ghost[here[is_dead]] = numbers[is_dead]
            home[here[~is_dead]] = 0
            row[here[~is_dead]] = numbers[~is_dead]
        if state.flushing is not None:
            numbers = state.flushing.find_live(index)
            if numbers is not None:
                hits = np.flatnonzero(numbers >= 0)
                here = hits if asked is None else asked[hits]
                home[here], row[here] = 1, numbers[hits]


_RUN_ROWS = 8192
"""Number of ascending keys from which on they are searched as a run."""


def _runs(keys: Keys) -> list[tuple[Array | int, Keys]]:
    """The keys in parts, each with its rows in the batch, or the first of consecutive ones. A scan gives the rows of
    one rowset behind those of another: each is a long run of ascending keys, which need not be sorted. The rest is one
    part."""
    if len(keys) < _RUN_ROWS or keys.is_strictly_ascending():
        return [(0, keys)]
    bounds = np.concatenate([[0], keys.descents(), [len(keys)]])
    long = np.flatnonzero(np.diff(bounds) >= _RUN_ROWS)
    if not len(long):
        return [(0, keys)]
    parts: list[tuple[Array | int, Keys]] = []
    is_rest = np.ones(len(keys), np.bool_)
    for start, stop in zip(bounds[long].tolist(), bounds[long + 1].tolist()):
        is_rest[start:stop] = False
        parts.append((start, keys.slice(start, stop)))
    rest = np.flatnonzero(is_rest)
    if len(rest):
        parts.append((rest, keys.take(rest)))
    return parts
