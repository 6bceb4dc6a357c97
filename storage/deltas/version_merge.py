"""Merge of the rows of several rowsets into one run by key: arithmetic over keys and deltas, without files.

A key that was deleted and inserted again occurs in several rowsets, each time with the history of one life. The live
version, or the last deleted one, becomes the base row; earlier lives become its UNDO history:

    rowset 1   "row" -> 2    UNDO: before t1 DELETE                            REDO: at t3 DELETE
    rowset 2   "row" -> 3    UNDO: before t4 DELETE
    merged     "row" -> 3    UNDO: before t4 DELETE, before t3 REINSERT 2, before t1 DELETE

At most one version of a key is visible at any time, so the merged history is the union of all, in order of time. A
REINSERT sets all columns, so deltas of different lives do not mix.

History at or below the ancient history mark cannot be read: an UNDO delta at t serves readers below t only. So UNDO
deltas at or below the mark are omitted, and so are keys that were deleted there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Array
from .deltas import DeltaColumn, DeltaKind, Deltas, merge
from .row_numbers import complement

_ALIVE = np.iinfo(np.uint64).max


@dataclass(frozen=True, slots=True, eq=False)
class MergePlan:
    """Output positions of the input rows. Rows are numbered consecutively through all inputs.

    Parameters
    ----------
    sources : ndarray of int64, shape (n_rows,)
        All rows by key, the versions of one key in order of time.
    targets : ndarray of int64, shape (n_rows,)
        The output row that each of `sources` becomes or becomes history of; ascending, but -1 for omitted rows.
    is_base : ndarray of bool, shape (n_rows,)
        Which of `sources` become the base rows 0, 1, 2, ... of the output.
    row_count : int
        Output rows.
    """

    sources: Array
    targets: Array
    is_base: Array
    row_count: int


def plan_merge(keys: Keys, died: Array, mark: int) -> MergePlan:
    """Order rows by key, and the versions of a key by time.

    Parameters
    ----------
    keys : Keys
        Of all rows of all inputs.
    died : ndarray of uint64, shape (n_rows,)
        When each row was deleted for the last time; 0 where it lives.
    mark : int
        The ancient history mark: a key that was deleted for good at or below it vanishes.
    """
    order = keys.order().astype(np.int64)
    begins = np.ones(len(order), np.bool_)
    repeated = keys.duplicates()
    if len(repeated):
        is_repeated = np.zeros(len(order), np.bool_)
        is_repeated[repeated] = True
        begins = ~is_repeated[order]
    group = np.cumsum(begins) - 1
    if len(repeated):
        ends = died[order]
        order = order[np.lexsort((np.where(ends == 0, _ALIVE, ends), group))]
    newest = np.ones(len(order), np.bool_)
    newest[:-1] = begins[1:]
    last_ends = died[order[newest]]
    stays = (last_ends == 0) | (last_ends > np.uint64(mark))
    numbers = np.where(stays, np.cumsum(stays) - 1, -1)
    targets = numbers[group]
    return MergePlan(order, targets, newest & (targets >= 0), int(np.count_nonzero(stays)))


def deaths(existence: Deltas, row_count: int) -> Array:
    """When each row of a rowset was deleted for good, by its REDO deltas; 0 where it lives: ndarray of uint64, shape
    (row_count,)."""
    died = np.zeros(row_count, np.uint64)
    about = existence.kinds != DeltaKind.UPDATE
    is_delete = existence.kinds[about] == DeltaKind.DELETE
    # Of several deltas of a row the last one stays.
    died[existence.rows[about]] = np.where(is_delete, existence.timestamps[about], np.uint64(0))
    return died


def above(deltas: Deltas, mark: int) -> Deltas:
    """The deltas above a timestamp."""
    return deltas if deltas.oldest > mark else deltas.select(deltas.timestamps > np.uint64(mark))


def newest_through(timestamps: Array, mark: int) -> int:
    """The greatest of some timestamps (ndarray of uint64) at or below a mark; 0 for none."""
    old = timestamps[timestamps <= np.uint64(mark)]
    return int(old.max()) if len(old) else 0


def combined(runs: Sequence[Deltas]) -> Deltas:
    """`merge`, with deltas of one row and timestamp, each with other columns, combined: columns rewritten by different
    compactions have their old values in different UNDO files."""
    deltas = merge(_of_equal_rows_together(runs))
    rows, timestamps = deltas.rows, deltas.timestamps
    fresh = np.ones(len(deltas), np.bool_)
    fresh[1:] = (rows[1:] != rows[:-1]) | (timestamps[1:] != timestamps[:-1])
    if fresh.all():
        return deltas
    places = np.cumsum(fresh) - 1
    columns = {column: DeltaColumn(places[given.places], given.values) for column, given in deltas.columns.items()}
    return Deltas(rows[fresh], timestamps[fresh], deltas.kinds[fresh], columns)


def _of_equal_rows_together(runs: Sequence[Deltas]) -> list[Deltas]:
    """The runs, of which those about the same rows and timestamps are one: writes of whole rows have such old values
    of each column."""
    together: list[Deltas] = []
    for run in runs:
        for place, other in enumerate(together):
            if _are_parallel(run, other):
                together[place] = Deltas(other.rows, other.timestamps, other.kinds, {**other.columns, **run.columns})
                break
        else:
            together.append(run)
    return together


def _are_parallel(one: Deltas, other: Deltas) -> bool:
    return (
        len(one) == len(other)
        and one.columns.keys().isdisjoint(other.columns)
        and np.array_equal(one.rows, other.rows)
        and np.array_equal(one.timestamps, other.timestamps)
        and np.array_equal(one.kinds, other.kinds)
    )


def moved(deltas: Deltas, targets: Array) -> Deltas:
    """The deltas of the rows that stay, under new row numbers: `targets` by old row number, -1 for rows that go."""
    there = targets[deltas.rows]
    stays = there >= 0
    return deltas.select(stays).renumbered(there[stays])


# ---- insertions --------------------------------------------------------------------------------------------------


def with_insertions(undo: Deltas, start: int, stop: int, inserted: int) -> Deltas:
    """UNDO deltas of the rows `start` to `stop` (exclusive), with those of the insertions that
    `RowSetMetadata.inserted` replaces."""
    missing = complement(start, stop, undo.rows[_dated(undo)])
    return merge([undo, Deltas.at(inserted, missing, DeltaKind.DELETE)])


def _dated(undo: Deltas) -> Array:
    """The UNDO deltas of insertions: the first about the existence of a row, if it is DELETE; ndarray of int64."""
    about = np.flatnonzero(undo.kinds != DeltaKind.UPDATE)
    rows = undo.rows[about]
    is_first = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
    return np.asarray(about[is_first & (undo.kinds[about] == DeltaKind.DELETE)])


def implied_insertion(runs: Sequence[tuple[Deltas, int, int]]) -> int:
    """The `RowSetMetadata.inserted` of a rowset that is merged of rows of several, if some insertions need no UNDO
    delta; else 0.

    It is the least timestamp of all insertions. So where the ancient history mark removes insertions that have UNDO
    deltas, it has passed this one too, and rows without such a delta are not taken for younger than they are.

    Parameters
    ----------
    runs : sequence of (Deltas, int, int)
        Per rowset: the UNDO deltas that are kept of its rows, its `inserted` (0 if it is not kept), and the number of
        its rows.
    """
    least = min((inserted for _, inserted, _ in runs if inserted), default=0)
    for undo, inserted, row_count in runs:
        if least and not inserted:
            dated = _dated(undo)
            if len(dated) < row_count or int(undo.timestamps[dated].min()) < least:
                return 0
    return least


def without_insertions(undo: Deltas, row_count: int) -> tuple[Deltas, int]:
    """(UNDO deltas, `RowSetMetadata.inserted`): if all rows were inserted at one timestamp, and the deltas have no
    other change of existence, this timestamp replaces the deltas of the insertions."""
    about = undo.kinds != DeltaKind.UPDATE
    kinds, times = undo.kinds[about], undo.timestamps[about]
    if len(kinds) != row_count or (kinds != DeltaKind.DELETE).any() or (times != times[:1]).any():
        return undo, 0
    return undo.select(~about), int(times[0]) if len(times) else 0
