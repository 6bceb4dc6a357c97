"""Deltas of one row, for look-ups by primary key.

Sources are searched from the newest to the oldest. The first value of each column is the newest, so it is kept. The
first DELETE or REINSERT ends the search: the row is deleted, or has all its values.

    one row's deltas    U U U U U U U U ... U U U U U U U U | U U U       oldest to newest
                        └──────── folded: last values ─────┘  └tail┘

A row that is updated all the time has as many deltas as updates, and a look-up must not walk along them. In runs and
files, the newest value at a timestamp is found by binary search, column by column. Single deltas are *folded*: after
every eighth, their combined result is stored with them, and readers of the newest state continue from there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ...model.lazy_dataclass import dataclass
from ..deltas.deltas import DeltaColumn, DeltaKind, Deltas

_DELETE, _REINSERT = DeltaKind.DELETE, DeltaKind.REINSERT  # a look-up in an Enum takes longer than a comparison
_REINSERT_BYTE = bytes([_REINSERT])

RowDelta: TypeAlias = "tuple[int, int, Mapping[int, Any], int]"
"""Row, kind, stored values by column id, timestamp."""

FOLD_ROWS = 8
"""Number of deltas folded at a time: at most one less is examined one by one if all are visible."""
_FOLDS_KEPT = 6
"""Number of folds kept per row: readers to which the newest deltas are not visible, such as those of undecided writes,
use an older one. Concurrent writes of one row are at most as many as writing threads."""


@dataclass(frozen=True, slots=True)
class Folded:
    """Combined result of the first `count` deltas of a row: `kind` is the last change of its existence (None: no
    change), `values` are the last ones of all columns since then. For readers at `timestamp`, that of the last of the
    deltas, or later."""

    count: int
    timestamp: int
    kind: DeltaKind | None
    values: Mapping[int, Any]


def folded(deltas: Sequence[RowDelta], folds: Sequence[Folded]) -> tuple[Folded, ...]:
    """The folds of a row, the newest first: one of all its deltas (oldest first, at least one), and the last of the
    `folds` that were made of them before."""
    kind, values, start = (folds[0].kind, dict(folds[0].values), folds[0].count) if folds else (None, {}, 0)
    for _, change, given, _ in deltas[start:]:
        if change == _DELETE:
            kind, values = _DELETE, {}
        elif change == _REINSERT:
            kind, values = _REINSERT, dict(given)
        else:
            values.update(given)
    return Folded(len(deltas), deltas[-1][3], kind, values), *folds[: _FOLDS_KEPT - 1]


def look_up_run(
    run: Deltas,
    row: int,
    timestamp: int,
    columns: Sequence[int],
    found: dict[int, Any],
    read: Callable[[int], DeltaColumn | None] | None = None,
) -> DeltaKind | None:
    """Looks up a row in a run at a timestamp.

    Parameters
    ----------
    run : Deltas
    row, timestamp : int
        Deltas above the timestamp are ignored.
    columns : sequence of int
        Ids of the columns of interest.
    found : dict of int to value
        By column id, Python values; those that are missing are filled in.
    read : callable, optional
        Returns the values of a column by its id, instead of `run.columns`; called only if the run has the row.

    Returns
    -------
    DELETE if the row is deleted; REINSERT if all its values are found, or are not in older runs; None if the search
    continues.
    """
    rows = run.rows.data
    low = bisect_left(rows, row)
    if low == len(rows) or rows[low] != row:
        return None
    high = bisect_right(rows, row, low)
    if timestamp < run.newest:
        high = bisect_right(run.timestamps.data, timestamp, low, high)
        if low == high:
            return None
    kinds = run.kinds.data[low:high].tobytes()
    kind: DeltaKind | None = None
    # Nothing but a REINSERT comes behind a DELETE.
    if kinds[-1] == _DELETE:
        return _DELETE
    if (reinserted := kinds.rfind(_REINSERT_BYTE)) >= 0:
        kind = _REINSERT
        low += reinserted
    column_of = run.columns.get if read is None else read
    for column in columns:
        if column in found or (given := column_of(column)) is None:
            continue
        places = given.places.data
        at = bisect_left(places, high) - 1
        if at >= 0 and places[at] >= low:
            found[column] = given.values[at].as_py()
    return _REINSERT if kind is None and _has_all(found, columns) else kind


def rows_in_run(run: Deltas, rows: Sequence[int]) -> list[int]:
    """Those of some rows, at least one, that a run has deltas of; some perhaps repeatedly."""
    data = run.rows.data
    if isinstance(rows, range):
        low = bisect_left(data, rows.start)
        mine: list[int] = run.rows[low : bisect_left(data, rows.stop, low)].tolist()
        return mine
    low = bisect_left(data, min(rows))
    high = bisect_right(data, max(rows), low)
    rows_found = []
    for row in rows if low < high else ():
        place = bisect_left(data, row, low, high)
        if place < high and data[place] == row:
            rows_found.append(row)
    return rows_found


def look_up_chain(
    deltas: Sequence[RowDelta],
    folds: Sequence[Folded],
    timestamp: int,
    columns: Sequence[int],
    found: dict[int, Any],
) -> DeltaKind | None:
    """`look_up_run` over the single deltas of one row, oldest first, and its folds, newest first."""
    for fold in folds:
        if fold.timestamp <= timestamp:
            break
    else:
        return look_up_rows(reversed(deltas), timestamp, columns, found)
    kind = look_up_rows(reversed(deltas[fold.count :]), timestamp, columns, found)
    if kind is not None:
        return kind
    if fold.kind != _DELETE:
        _take(fold.values, columns, found)
    return _REINSERT if fold.kind is None and _has_all(found, columns) else fold.kind


def look_up_rows(
    deltas: Iterable[RowDelta], timestamp: int, columns: Sequence[int], found: dict[int, Any]
) -> DeltaKind | None:
    """`look_up_run` over single deltas of the row, the newest first."""
    for _, kind, values, stamp in deltas:
        if stamp > timestamp:
            continue
        if kind == _DELETE:
            return _DELETE
        _take(values, columns, found)
        if kind == _REINSERT or _has_all(found, columns):
            return _REINSERT
    return None


def _take(values: Mapping[int, Any], columns: Sequence[int], found: dict[int, Any]) -> None:
    if len(values) < len(columns):
        for column, value in values.items():
            if column not in found and column in columns:
                found[column] = value
        return
    for column in columns:
        if column in values and column not in found:
            found[column] = values[column]


def _has_all(found: Mapping[int, Any], columns: Sequence[int]) -> bool:
    return len(found) >= len(columns) and all(column in found for column in columns)
