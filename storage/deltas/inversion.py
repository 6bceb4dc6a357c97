"""REDO deltas turned into new base data and UNDO deltas, by flushes and compactions.

    base data   a  b  c      REDO   row 1: at t5 UPDATE to B, at t7 UPDATE to X; row 2: at t6 DELETE
    ──────────────────────────────────────────────────────────────────────────────────────────────────
    base data   a  X  c      UNDO   row 1: before t5 UPDATE to b, before t7 UPDATE to B
                             REDO   row 2: at t6 DELETE

Rows, timestamps and kinds are turned once for all columns (`Inversion`), values column by column: the *cells* of a
column over time are its values before the deltas, then those that the deltas set; new base data and old values are both
some of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema
from ...model.vectors.vector import Array
from .deltas import DeltaColumn, DeltaKind, Deltas
from .row_numbers import union
from .single_deltas import lasts


def insertions(timestamps: Array) -> Deltas:
    """The UNDO deltas of the insertion of the rows 0, 1, ...: ndarray of uint64, shape (n_rows,)."""
    rows = np.arange(len(timestamps), dtype=np.int64)
    return Deltas(rows, timestamps, np.full(len(rows), DeltaKind.DELETE, np.uint8))


class Inversion:
    """The inversion of REDO deltas. `newest` and `old_values` of different columns may be called by several threads.

    Parameters
    ----------
    redo : Deltas
        A REINSERT sets all columns.
    order : ndarray of int64, optional
        Which of a column's values before the deltas is that of each row; by default they are the rows', in order.
    """

    def __init__(self, redo: Deltas, order: Array | None = None):
        self._redo = redo
        self._order = order
        kinds = redo.kinds
        is_delete = kinds == DeltaKind.DELETE
        self._final = is_delete & _is_last_about_existence(redo)
        self._revived = np.flatnonzero(is_delete & ~self._final)
        """The deletions that were followed by a REINSERT, of which each takes back all columns."""

    def newest(self, column: int, count: int) -> Array | None:
        """Which of the cells of a column, by id, is the last one of each row: ndarray of int64; None for the `count`
        values before the deltas, in order."""
        given = self._redo.columns.get(column)
        if given is None:
            return self._order
        source = np.arange(count) if self._order is None else self._order.copy()
        rows = self._redo.rows[given.places]
        last = np.flatnonzero(lasts(rows))
        source[rows[last]] = count + last
        return source

    def given(self, column: int) -> list[pa.Array]:
        """The cells of a column that come from the deltas."""
        given = self._redo.columns.get(column)
        return [] if given is None else [given.values]

    def old_values(self, column: int, cells: pa.Array, count: int, first: int = 0) -> DeltaColumn | None:
        """The values that the UNDO deltas give a column, for `undo`; None for none.

        Parameters
        ----------
        column : int
        cells : pa.Array
        count : int
            How many of the cells are values before the deltas.
        first : int
            Place of the column's first cell.
        """
        rows, kinds = self._redo.rows, self._redo.kinds
        given = self._redo.columns.get(column)
        if given is None and not len(self._revived):
            return None
        places = np.empty(0, np.int64) if given is None else given.places
        is_update = kinds[places] == DeltaKind.UPDATE
        # An UPDATE takes back what it set; a deletion that was followed by a REINSERT gives back all columns.
        wanted = union(places if is_update.all() else places[is_update], self._revived)
        if not len(wanted):
            return None
        wanted_rows = rows[wanted]
        source = wanted_rows if self._order is None else self._order[wanted_rows]
        if len(places):
            before = (np.arange(len(wanted)) if wanted is places else np.searchsorted(places, wanted)) - 1
            has_before = (before >= 0) & (rows[places[before]] == wanted_rows)
            if has_before.any():
                source = np.where(has_before, count + before, source)
        return DeltaColumn(wanted, take_cells(cells, source + first if first else source))

    def undo(self, old_values: Mapping[int, DeltaColumn]) -> Deltas:
        """The UNDO deltas, with the `old_values` of the columns, by id; those of columns that are missing are lost."""
        redo = self._redo
        kinds = redo.kinds.copy()
        kinds[redo.kinds == DeltaKind.DELETE] = DeltaKind.REINSERT
        kinds[redo.kinds == DeltaKind.REINSERT] = DeltaKind.DELETE
        return Deltas(redo.rows, redo.timestamps, kinds, dict(sorted(old_values.items()))).select(~self._final)

    def deletes(self) -> Deltas:
        """The DELETEs without a later REINSERT, which base data cannot express: they stay REDO deltas."""
        return self._redo.select(self._final).only_columns(())


@dataclass(frozen=True, slots=True, eq=False)
class Inverted:
    """Result of `invert`: the columns after all changes, `Inversion.undo` and `Inversion.deletes`."""

    columns: dict[int, pa.Array]
    undo: Deltas
    deletes: Deltas


def invert(
    columns: Sequence[ColumnSchema],
    initial: Mapping[int, pa.Array | pa.ChunkedArray],
    redo: Deltas,
    order: Array | None = None,
) -> Inverted:
    """Turn REDO deltas into new base data and UNDO deltas. Each column is copied twice at most, however it lies.

    Parameters
    ----------
    columns : sequence of ColumnSchema
        The columns to rewrite; deltas of others are ignored.
    initial : mapping of int to pa.Array or pa.ChunkedArray
        Their values before the deltas, by column id.
    redo : Deltas
    order : ndarray of int64, optional
        As of `Inversion`.
    """
    turned = Inversion(redo.only_columns({c.id for c in columns}), order)
    finished: dict[int, pa.Array] = {}
    undone: dict[int, DeltaColumn] = {}
    for column in columns:
        base = initial[column.id]
        chunks = base.chunks if isinstance(base, pa.ChunkedArray) else [base]
        cells = as_one([*chunks, *turned.given(column.id)], base.type)
        newest = turned.newest(column.id, len(base))
        finished[column.id] = cells if newest is None else take_cells(cells, newest)
        old = turned.old_values(column.id, cells, len(base))
        if old is not None:
            undone[column.id] = old
    return Inverted(finished, turned.undo(undone), turned.deletes())


def as_one(arrays: Sequence[pa.Array], type_: pa.DataType) -> pa.Array:
    """Arrays one behind the other; copied only if there are several."""
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else arrow_array([], type_)


def take_cells(cells: pa.Array, places: Array) -> pa.Array:
    """The cells at some places (ndarray of int64), all of which exist."""
    return pc.take(cells, arrow_array(places), boundscheck=False)


def _is_last_about_existence(deltas: Deltas) -> Array:
    about = np.flatnonzero(deltas.kinds != DeltaKind.UPDATE)
    is_last = np.zeros(len(deltas), np.bool_)
    is_last[about[lasts(deltas.rows[about])]] = True
    return is_last
