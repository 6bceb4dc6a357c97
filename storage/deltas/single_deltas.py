"""Single deltas as a run whose columns are made at their first use.

    appended        (7, U, ..) (2, U, ..) (7, U, ..) │ (5, U, ..)      grows at the end
    column 4          1.5         -         2.5      │   3.5           made up to here; continues here next time
    run               2   5   7   7                                    sorted by row, and made of the above

A scan concurrent with writers finds a few new deltas in every rowset each time, mostly of all columns of their rows,
and reads a few columns. So of each column only the deltas since its last use are converted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.lazy_dataclass import dataclass
from ...model.types import BIGINT, DataType
from ...model.vectors.vector import Array, Vector
from ..single_rows.row_deltas import RowDelta
from .append_vector import GrownVector
from .deltas import DeltaColumn, DeltaKind, Deltas

ROW_BYTES = 400
"""Memory that a delta takes until it becomes part of a run, beside its texts: its numbers, its tuple, its mapping."""


def delta_bytes(delta: RowDelta) -> int:
    """About the memory that a delta takes as it came."""
    return ROW_BYTES + sum(len(value) for value in delta[2].values() if type(value) is str or type(value) is bytes)


class DeltaTail:
    """Deltas in order of time. It is extended by one thread at a time; runs that were made before stay as they are, and
    any thread may read them.

    Parameters
    ----------
    types : mapping of int to pa.DataType
        Of the columns, by id.
    deltas : sequence of RowDelta
        What it begins with.
    """

    def __init__(self, types: Mapping[int, pa.DataType], deltas: Sequence[RowDelta] = ()):
        self._types = types
        self.deltas: list[RowDelta] = []
        """Only appended to."""
        self._rows = np.empty(0, np.int64)
        self._timestamps = np.empty(0, np.uint64)
        self._kinds = np.empty(0, np.uint8)
        self.nbytes = 0
        """About the memory that they take as they came."""
        self.has_existence = False
        """True if any of them is not an UPDATE."""
        self._columns: dict[int, tuple[int, DeltaColumn]] = {}
        """By column, how many deltas were looked at, and what they set, in order of time."""
        self._growing = threading.Lock()
        """Guards `_grown`."""
        self._grown: dict[int, _GrownColumn] = {}
        """Columns that were used as vectors, by column id."""
        if deltas:
            self.extend(deltas)

    def __len__(self) -> int:
        return len(self.deltas)

    def extend(self, deltas: Sequence[RowDelta]) -> None:
        """Add deltas, at least one; none is older than those that are here."""
        rows, kinds, _, timestamps = zip(*deltas)
        new = np.array(kinds, np.uint8)
        self.has_existence = self.has_existence or bool((new != DeltaKind.UPDATE).any())
        self._rows = np.concatenate([self._rows, np.array(rows, np.int64)])
        self._timestamps = np.concatenate([self._timestamps, np.array(timestamps, np.uint64)])
        self._kinds = np.concatenate([self._kinds, new])
        self.deltas.extend(deltas)
        self.nbytes += sum(map(delta_bytes, deltas))

    def run(self) -> TailRun:
        """All current deltas."""
        return self._run(self._rows, self._timestamps, self._kinds)

    def run_until(self, timestamp: int, count: int) -> TailRun:
        """Of the first `count`, those at or below a timestamp."""
        # A thread that extends the tail now replaces these arrays by others; all of them have this many entries.
        timestamps = self._timestamps[:count]
        count = int(timestamps.searchsorted(np.uint64(timestamp), "right"))
        return self._run(self._rows[:count], timestamps[:count], self._kinds[:count])

    def _run(self, rows: Array, timestamps: Array, kinds: Array) -> TailRun:
        order = np.argsort(rows, kind="stable")  # which leaves the deltas of a row in order of time
        return TailRun(rows[order], timestamps[order], kinds[order], _TailColumns(self, order), tail=self, order=order)

    def column(self, column: int, count: int) -> DeltaColumn:
        """The values that the first `count` deltas set, in order of time."""
        seen, made = self._columns.get(column, (0, None))
        if made is None or seen < count:
            new = self._given(seen, count)
            places = np.arange(seen, count)
            try:
                given = [values[column] for values in new]
            except KeyError:
                given = [values[column] for values in new if column in values]
                places = places[[column in values for values in new]]
            values = arrow_array(given, self._types[column])
            if made is not None:
                places, values = np.concatenate([made.places, places]), pa.concat_arrays([made.values, values])
            made = DeltaColumn(places, values)
            self._columns[column] = (count, made)
        elif seen > count:  # another reader has a later run
            end = int(made.places.searchsorted(count))
            made = DeltaColumn(made.places[:end], made.values.slice(0, end))
        return made

    def _given(self, start: int, stop: int) -> list[Mapping[int, Any]]:
        """Values that some of the deltas set, by column."""
        return [values for _, _, values, _ in self.deltas[start:stop]]

    def vector(self, column: int, type_: DataType, count: int) -> tuple[Array | None, Vector]:
        """The same with the values as a vector of a type, the column's: places (ndarray of int64, ascending; None for
        all) and what is set there."""
        with self._growing:
            grown = self._grown.get(column)
            if grown is None:
                grown = self._grown[column] = _GrownColumn(type_)
            if grown.seen < count:
                grown.extend(self._given(grown.seen, count), column)
            return grown.first(count)


class _GrownColumn:
    """Values of one column in the first deltas of a tail."""

    def __init__(self, type_: DataType):
        self._counts = (0, 0)
        """Number of deltas examined, and of those that set the column. Changed last, after all other fields."""
        self._values = GrownVector(type_)
        self._places: GrownVector | None = None
        """Once some do not set the column: those that do."""

    @property
    def seen(self) -> int:
        """Number of deltas examined."""
        return self._counts[0]

    def extend(self, given: Sequence[Mapping[int, Any]], column: int) -> None:
        """Go on with what more deltas set, by column."""
        seen, count = self._counts
        values = [one[column] for one in given if column in one]
        if len(values) < len(given) and self._places is None:
            places = GrownVector(BIGINT)
            places.put(0, range(seen))
            self._places = places
        if self._places is not None:
            self._places.put(count, [place for place, one in enumerate(given, seen) if column in one])
        self._values.put(count, values)
        self._counts = (seen + len(given), count + len(values))

    def first(self, count: int) -> tuple[Array | None, Vector]:
        """The values set by the first `count` examined deltas: see `DeltaTail.vector`."""
        seen, values = self._counts
        if self._places is None:
            return None, self._values.first(count)
        places = self._places.first(values).values()
        if count < seen:
            places = places[: int(places.searchsorted(count))]
        return places, self._values.first(len(places))


@dataclass(frozen=True, eq=False)
class TailRun(Deltas):
    """State of a tail at one time."""

    tail: DeltaTail = field(kw_only=True)
    order: Array = field(kw_only=True)
    """Which delta of the tail stands at each of its places."""

    def until(self, timestamp: int) -> TailRun:
        """The deltas at or below a timestamp; no column is made for that."""
        return self.tail.run_until(timestamp, len(self))

    def last_values(self, column: int, type_: DataType) -> tuple[Array, Vector] | None:
        """The rows of which the run sets a column, ascending (ndarray of int64), and the last value of each; None where
        it sets none."""
        places, values = self.tail.vector(column, type_, len(self))
        if not len(values):
            return None
        if places is None or len(places) == len(self):
            rows, last = self.last_of_each
            return rows, values.take(last)
        where = np.full(len(self), -1, np.intp)
        where[places] = np.arange(len(places))
        where = where[self.order]
        chosen = np.flatnonzero(where >= 0)
        chosen = chosen[lasts(self.rows[chosen])]
        return self.rows[chosen], values.take(where[chosen])

    @cached_property
    def last_of_each(self) -> tuple[Array, Array]:
        """Each row once, ascending (ndarray of int64), and which delta of the tail is its last (ndarray of intp)."""
        last = lasts(self.rows)
        return (self.rows, self.order) if last.all() else (self.rows[last], self.order[last])


class _TailColumns(Mapping[int, DeltaColumn]):
    """The columns of a run; `order` has the delta of the tail at each of its positions."""

    def __init__(self, tail: DeltaTail, order: Array):
        self._tail = tail
        self._order = order
        self._made: dict[int, DeltaColumn] = {}

    @cached_property
    def _taken(self) -> pa.Array:
        return arrow_array(self._order)

    @cached_property
    def _everywhere(self) -> Array:
        return np.arange(len(self._order))

    @cached_property
    def _places(self) -> Array:
        """Position in the run of each delta of the tail."""
        places = np.empty_like(self._order)
        places[self._order] = self._everywhere
        return places

    def __getitem__(self, column: int) -> DeltaColumn:
        made = self._made.get(column)
        if made is None:
            made = self._made[column] = self._make(column)
        if not len(made.places):
            raise KeyError(column)
        return made

    def __iter__(self) -> Iterator[int]:
        given = (delta[2] for delta in self._tail.deltas[: len(self._order)])
        return iter(sorted(set().union(*given)))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _make(self, column: int) -> DeltaColumn:
        given = self._tail.column(column, len(self._order))
        if len(given.places) == len(self._order):
            return DeltaColumn(self._everywhere, given.values.take(self._taken))
        places = self._places[given.places]
        order = np.argsort(places)
        return DeltaColumn(places[order], given.values.take(arrow_array(order)))


def lasts(rows: Array) -> Array:
    """Ends of runs of equal row numbers: ndarray of bool."""
    is_last = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=is_last[:-1])
    return is_last


def with_all_columns(run: Deltas) -> Deltas:
    """The same with its columns made, and nothing else kept."""
    return Deltas(run.rows, run.timestamps, run.kinds, dict(run.columns))
