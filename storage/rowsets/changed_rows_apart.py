"""A scan of a DiskRowSet with few changed rows, which are evaluated apart from the base data.

    base        a b c d e f g h i     scanned as if there were no deltas, without the changed rows
    deltas        B     -   G         hidden rows are out
    changed rows  B         G         evaluated and read separately after the others, from all row groups together

Most tables with concurrent writers are like that: a few rows in a thousand are in DeltaMemStores. Overlaying patches on
every column of every row group (`PatchedScan`) costs each of them some searches and copies of whole columns, and its
codes get wider; excluding rows costs one mask. (TPC-H's Q6 over 6 million rows in 12 rowsets, 10,000 of them upserted,
and 100 more before each query: 18 ms of processor without deltas, 42 with overlaid patches, 35 with separate changed
rows.) The rows are not in order, so this is not for scans in key order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ...model.schema import ColumnSchema
from ...model.store import ScanCounters
from ...model.vectors.vector import Array, Vector
from ..columns.column_file import ROW_GROUP_ROWS
from ..columns.column_reader import ColumnReader
from ..deltas.latest_state import RowSetPatches, places_within, rows_within
from ..deltas.row_numbers import difference, union
from ..predicate_eval.code_conditions import NONE
from .changed_rows_overlay import PatchedGroup
from .row_group import RowGroup

ASIDE_SHARE = 16
"""Changed rows are scanned separately up to this share, one row in `ASIDE_SHARE`: many rows cost more to gather from
everywhere than patches over whole columns."""
ASIDE_LEAST = 1 << 14
"""Rowsets with fewer rows have no separate changed rows: there is little to save, and their rows stay in key order."""


class SetAside:
    """The rows from `start` to `stop` (exclusive) that deltas say something of. Made by `changed_rows_apart`.

    Parameters
    ----------
    patches : RowSetPatches
    touched : ndarray of int64
        Rows of the whole rowset, as `RowSetPatches.touched` gives them.
    """

    def __init__(self, patches: RowSetPatches, touched: Array, start: int, stop: int):
        self.patches = patches
        mine, hidden = rows_within(touched, start, stop), rows_within(patches.hidden, start, stop)
        self.out = union(mine, hidden)
        """The rows that are not scanned with the base: ndarray of int64, ascending."""
        self.living = difference(mine, hidden)
        """Of these, the rows to judge and to read by themselves."""

    def of_group(self, start: int, stop: int, verdicts: Sequence[int]) -> PatchedGroup | None:
        """The rest of the base in a row group, as `PatchedScan.of_group` says."""
        if NONE in verdicts:
            return None
        out = rows_within(self.out, start, stop) - start
        if len(out) == stop - start:
            return None
        return PatchedGroup(verdicts, (), None, [out] if len(out) else [])

    def within(self, groups: Array, start: int) -> Array:
        """The `living` rows of some row groups: `groups` is an ndarray of bool, from that of the row `start` on."""
        return np.asarray(self.living[groups[self.living // ROW_GROUP_ROWS - start // ROW_GROUP_ROWS]])


class AsideRows(RowGroup):
    """The changed rows of all row groups of a scan together."""

    __slots__ = ("_found",)

    def __init__(self, start: int, stop: int, counters: ScanCounters):
        super().__init__(start, stop, counters)
        self._found: _Found | None = None
        """The last answer of `_places`. Columns that were written together share their row numbers."""

    def patched(
        self, column: ColumnSchema, reader: ColumnReader | None, patches: RowSetPatches, rows: Array | None
    ) -> Vector:
        """As `RowGroup.patched`; where whole rows were written, the base has no part in it."""
        if rows is not None and len(rows) and (patch := patches.vector(column.id, column.type)) is not None:
            places = self._places(rows, patch.rows)
            if isinstance(places, slice):
                return patch.values.slice(places.start, places.stop)
            if places is not None:
                return patch.values.take(places)
        return super().patched(column, reader, patches, rows)

    def keep(self, rows: Array, passed: Array) -> Array:
        """The requested rows that passed (ndarray of bool), which are requested next."""
        kept = rows[passed]
        found = self._found
        if found is not None and found.rows is rows and found.places is not None:
            places = found.places
            left = places.start + np.flatnonzero(passed) if isinstance(places, slice) else places[passed]
            self._found = _Found(found.among, kept, left)
        return kept

    def _places(self, rows: Array, among: Array) -> Array | slice | None:
        found = self._found
        if found is None or found.rows is not rows or found.among is not among:
            found = self._found = _Found(among, rows, _places_of(rows + self.start, among))
        return found.places


class _Found(NamedTuple):
    """Positions of rows among others; `places` is None if some are missing."""

    among: Array
    rows: Array
    places: Array | slice | None


def _places_of(rows: Array, among: Array) -> Array | slice | None:
    """Positions of rows (ndarray of int64, in any order, not empty) among ascending others; None if one is missing."""
    if len(rows) > len(among):
        return None
    # As a rule they are all of a stretch that has patches.
    low, high = places_within(among, rows[0], rows[-1] + 1)
    if high - low == len(rows) and (among[low:high] == rows).all():
        return slice(low, high)
    places = among.searchsorted(rows)
    return places if (among.take(places, mode="clip") == rows).all() else None


def set_aside(patches: RowSetPatches, columns: Collection[int], start: int, stop: int) -> SetAside | None:
    """Changed rows to scan separately, for a scan of some columns, by id; None if overlaying patches is better."""
    if stop - start < ASIDE_LEAST or patches.has_past:
        return None
    touched = patches.touched(columns)
    # Both counts are lower bounds of their union's: a rowset with many deleted rows needs no union.
    if any(len(rows_within(rows, start, stop)) * ASIDE_SHARE > stop - start for rows in (touched, patches.hidden)):
        return None
    aside = SetAside(patches, touched, start, stop)
    return aside if len(aside.out) * ASIDE_SHARE <= stop - start else None
