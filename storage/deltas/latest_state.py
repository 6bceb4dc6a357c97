"""The state of a rowset at a timestamp, column by column, as patches of its base data.

    base data   a  b  c  d  e  f
    layer 1        B     -           a REDO file: the last values of each row in it
    layer 2        b  C              a run of a DeltaMemStore
    ───────────────────────────
    patches        b  C  (d hidden)

A *layer* is the result of a run of deltas: for each row the last value per column, and whether it exists. Layers follow
each other in time, so the newer wins; that is much less work than sorting all deltas, a row with 100,000 updates is one
row of its layer, and layers are kept as long as their deltas are. `RowSetPatches` overlays them, only for the columns
that are read, and is itself cached until the next write.

Timestamps before the base data use UNDO deltas (`Past`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.lazy_dataclass import dataclass
from ...model.types import DataType
from ...model.vectors.vector import Array, Vector, concat, vector_from_arrow
from .delta_file import DeltaFile
from .deltas import ColumnPatch, DeltaKind, Deltas, Patches, resolve
from .row_numbers import complement, union
from .single_deltas import TailRun, lasts

SLICE_ROWS = 1 << 20
"""Number of rows whose UNDO deltas are resolved at a time: there may be one for each row of the rowset."""

_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class VectorPatch:
    """As `ColumnPatch`, with a vector for its values."""

    rows: Array
    values: Vector


def as_vector(patch: ColumnPatch | None, type_: DataType) -> VectorPatch | None:
    """A patch of a column of that type with a vector for its values."""
    return None if patch is None else VectorPatch(patch.rows, vector_from_arrow(type_, patch.values))


class Layer:
    """The last change of each row and column in a run of deltas. Safe for several threads.

    Parameters
    ----------
    existence : callable
        Returns the DELETE and REINSERT deltas.
    values : callable
        Returns the deltas that set a column, by its id.
    every : callable
        Returns all deltas, with or without values.
    may_set : callable
        True if some of them may set one of some columns, by id; reads almost nothing.
    tail : TailRun, optional
        Source of `values`, if it is a tail.
    """

    def __init__(
        self,
        existence: Callable[[], Deltas],
        values: Callable[[int], Deltas],
        every: Callable[[], Deltas],
        may_set: Callable[[Collection[int]], bool],
        tail: TailRun | None = None,
    ):
        self._tail = tail
        self._read_existence = existence
        self._read_values = values
        self._read_every = every
        self.may_set = may_set
        self._columns: dict[int, ColumnPatch | None] = {}
        self._vectors: dict[int, VectorPatch | None] = {}
        self._rows: tuple[Array, Array, pa.Array | None] | None = None
        """The rows of deltas all of which set a column; each once; and where the last delta of each stands (None:
        everywhere). Columns that the same deltas set share one object of row numbers."""

    @classmethod
    def of(cls, source: Deltas | DeltaFile, rows: int) -> Layer:
        """Makes the layer of deltas in memory or in a file, of a rowset of `rows` rows."""
        if isinstance(source, TailRun):
            return cls(lambda: source, lambda _: source, lambda: source, lambda _: True, source)
        if isinstance(source, Deltas):
            return cls(
                lambda: source, lambda _: source, lambda: source, lambda ids: any(i in source.columns for i in ids)
            )
        return cls(
            source.existence,
            lambda column: source.read(0, rows, (column,)),
            lambda: source.read(0, rows, ()),
            lambda ids: any(source.statistics.updates.get(i) for i in ids),
        )

    def until(self, timestamp: int) -> Layer:
        """The same of the deltas at or below `timestamp` only."""
        return Layer(
            lambda: self._read_existence().only_columns(()).until(timestamp),
            lambda column: self._read_values(column).only_columns((column,)).until(timestamp),
            self._read_every,
            self.may_set,
        )

    @cached_property
    def rows(self) -> Array:
        """The rows of all deltas, ascending: ndarray of int64."""
        if self._tail is not None:
            return self._tail.last_of_each[0]
        return self._last_of_each(self._read_every().rows)[0]

    @cached_property
    def existence(self) -> tuple[Array, Array]:
        """Rows (ndarray of int64, ascending) whose existence the run decides, and which of them it leaves deleted
        (ndarray of bool)."""
        if self._tail is not None and not self._tail.tail.has_existence:
            return _NO_ROWS, np.zeros(0, np.bool_)
        deltas = self._read_existence()
        about = np.flatnonzero(deltas.kinds != DeltaKind.UPDATE)
        rows = deltas.rows[about]
        last = lasts(rows)
        return rows[last], deltas.kinds[about[last]] == DeltaKind.DELETE

    def column(self, column: int) -> ColumnPatch | None:
        """The last value of each row that the run gives one; None where there is none."""
        if column not in self._columns:
            self._columns[column] = self._last_values(column)
        return self._columns[column]

    def vector(self, column: int, type_: DataType) -> VectorPatch | None:
        """The same with a vector of a type, the column's."""
        if column not in self._vectors:
            self._vectors[column] = self._last_vector(column, type_)
        return self._vectors[column]

    def _last_vector(self, column: int, type_: DataType) -> VectorPatch | None:
        if self._tail is not None:
            vector = self._tail.last_values(column, type_)
            return None if vector is None else VectorPatch(*vector)
        return as_vector(self.column(column), type_)

    def _last_values(self, column: int) -> ColumnPatch | None:
        deltas = self._read_values(column)
        given = deltas.columns.get(column)
        if given is None or not len(given.places):
            return None
        if len(given.places) == len(deltas):
            rows, places = self._last_of_each(deltas.rows)
            return ColumnPatch(rows, given.values if places is None else given.values.take(places))
        rows = deltas.rows[given.places]
        last = lasts(rows)
        if last.all():
            return ColumnPatch(rows, given.values)
        places = np.flatnonzero(last)
        return ColumnPatch(rows[places], given.values.take(arrow_array(places)))

    def _last_of_each(self, rows: Array) -> tuple[Array, pa.Array | None]:
        known = self._rows
        if known is None or known[0] is not rows:
            last = lasts(rows)
            known = (rows, rows, None) if last.all() else (rows, rows[last], arrow_array(np.flatnonzero(last)))
            self._rows = known
        return known[1], known[2]


class Past:
    """The UNDO deltas for a timestamp before the base data; see `Layer`."""

    def __init__(self, files: Sequence[DeltaFile], rows: int, inserted: int, timestamp: int):
        self._files = files
        self._rows = rows
        self._inserted = inserted
        self._timestamp = timestamp

    def hidden(self) -> Array:
        """The rows that did not exist: ndarray of int64, ascending."""
        if not self._files:
            return np.arange(self._rows if self._timestamp < self._inserted else 0, dtype=np.int64)
        return np.concatenate([self._hidden(start, stop) for start, stop in self._slices()])

    def column(self, column: int) -> ColumnPatch | None:
        """The values of the rows that had others then."""
        parts = []
        for start, stop in self._slices():
            found = resolve([f.read(start, stop, (column,)) for f in self._files], (), self._timestamp, (column,))
            if column in found.columns:
                parts.append(found.columns[column])
        if len(parts) < 2:
            return parts[0] if parts else None
        rows = np.concatenate([part.rows for part in parts])
        return ColumnPatch(rows, pa.concat_arrays([part.values for part in parts]))

    def _slices(self) -> list[tuple[int, int]]:
        if not self._files:
            return []
        return [(start, min(start + SLICE_ROWS, self._rows)) for start in range(0, self._rows, SLICE_ROWS)]

    def _hidden(self, start: int, stop: int) -> Array:
        deltas = [file.read(start, stop, ()) for file in self._files]
        hidden = resolve(deltas, (), self._timestamp, ()).hidden
        if self._timestamp >= self._inserted:
            return hidden
        # The first thing that is known of a row's existence is its insertion, unless that was at `inserted`.
        recorded = resolve(deltas, (), 0, ()).hidden
        return union(hidden, complement(start, stop, recorded))


class RowSetPatches:
    """The patches of a whole rowset at one time. Immutable; safe for several threads, resolved at first use.

    Parameters
    ----------
    layers : sequence of Layer
        In order of time.
    past : Past, optional
        Where the time is before some of the base data.
    """

    def __init__(self, layers: Sequence[Layer], past: Past | None = None):
        self.layers = tuple(layers)
        self._past = past
        self._columns: dict[int, ColumnPatch | None] = {}
        self._vectors: dict[int, VectorPatch | None] = {}
        self._orders: dict[tuple[int, ...], _Order] = {}
        """Merge orders of patches of several layers, by the identities of their row numbers: the columns of whole
        written rows share them."""
        self.kept: dict[Any, Any] = {}
        """Data that readers derive from the patches, cached for all of their row groups."""

    @cached_property
    def hidden(self) -> Array:
        """The rows that do not exist, ascending: ndarray of int64."""
        found = _deleted([layer.existence for layer in self.layers])
        return found if self._past is None else union(found, self._past.hidden())

    def column(self, column: int) -> ColumnPatch | None:
        """The cells of a column that have other values, by column id; None where there are none. Rows that are hidden
        may have some too."""
        if column not in self._columns:
            parts = [] if self._past is None else [self._past.column(column)]
            parts += [layer.column(column) for layer in self.layers]
            self._columns[column] = self._overlaid([part for part in parts if part is not None])
        return self._columns[column]

    @property
    def has_past(self) -> bool:
        """True if the timestamp is before some of the base data."""
        return self._past is not None

    def touched(self, columns: Collection[int]) -> Array:
        """Rows, ascending (ndarray of int64), among them all that have another value in one of these columns, by id;
        nothing but row numbers is read for that. Not for times in the past of the base data."""
        parts = [layer.rows for layer in self.layers if layer.may_set(columns)]
        if len(parts) < 2:
            return parts[0] if parts else _NO_ROWS
        return self._order(parts).rows

    def _overlaid(self, parts: Sequence[ColumnPatch]) -> ColumnPatch | None:
        """Patches in order of time as one: the newer wins."""
        if len(parts) < 2:
            return parts[0] if parts else None
        order = self._order([part.rows for part in parts])
        return ColumnPatch(
            order.rows, pa.concat_arrays([part.values for part in parts]).take(arrow_array(order.places))
        )

    def vector(self, column: int, type_: DataType) -> VectorPatch | None:
        """As `column`, with a vector of a type, the column's: what scans need, and less work beside writers, since only
        what is new becomes a vector."""
        if column not in self._vectors:
            parts = [] if self._past is None else [as_vector(self._past.column(column), type_)]
            parts += [layer.vector(column, type_) for layer in self.layers]
            self._vectors[column] = self._overlaid_vectors([part for part in parts if part is not None])
        return self._vectors[column]

    def _overlaid_vectors(self, parts: Sequence[VectorPatch]) -> VectorPatch | None:
        if len(parts) < 2:
            return parts[0] if parts else None
        order = self._order([part.rows for part in parts])
        return VectorPatch(order.rows, concat([part.values for part in parts]).take(order.places))

    def within(self, start: int, stop: int, columns: Collection[int]) -> Patches:
        """Patches of the rows `start` to `stop`, with unchanged row numbers."""
        hidden = rows_within(self.hidden, start, stop)
        patches = {}
        for column in sorted(columns):
            patch = self.column(column)
            if patch is not None:
                low, high = places_within(patch.rows, start, stop)
                if low < high:
                    patches[column] = ColumnPatch(patch.rows[low:high], patch.values[low:high])
        return Patches(hidden, patches)

    def _order(self, parts: Sequence[Array]) -> _Order:
        key = tuple(map(id, parts))
        order = self._orders.get(key)
        if order is None:
            order = self._orders[key] = _Order.of(parts)
        return order


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    """Merge of runs of rows (`parts`, each ascending): `rows` are all rows, ascending, and `places` are the positions
    of their last entries in the concatenated runs."""

    parts: Sequence[Array]
    rows: Array
    places: Array

    @classmethod
    def of(cls, parts: Sequence[Array]) -> _Order:
        rows = np.concatenate(parts)
        order = np.argsort(rows, kind="stable")
        last = order[lasts(rows[order])]
        return cls(parts, rows[last], last)


def places_within(rows: Array, start: int, stop: int) -> tuple[int, int]:
    """Range of ascending row numbers that is within `start` to `stop` (exclusive)."""
    low, high = rows.searchsorted((start, stop)).tolist()
    return low, high


def rows_within(rows: Array, start: int, stop: int) -> Array:
    """The row numbers from `start` to `stop` (exclusive), as a view."""
    low, high = places_within(rows, start, stop)
    return rows[low:high]


def _deleted(parts: Sequence[tuple[Array, Array]]) -> Array:
    """The rows that are deleted after all of the layers."""
    parts = [part for part in parts if len(part[0])]
    if not parts:
        return _NO_ROWS
    order = _Order.of([rows for rows, _ in parts])
    deleted = np.concatenate([deleted for _, deleted in parts])
    return np.asarray(order.rows[deleted[order.places]])
