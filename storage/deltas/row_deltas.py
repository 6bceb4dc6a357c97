"""What deltas make of one row: for look-ups by primary key.

Sources are asked from the newest to the oldest. Of each column the first value found is the newest, so it is kept. The
first DELETE or REINSERT found ends the search: the row is deleted, or has got all its values.

    one row's deltas    U U U U U U U U ... U U U U U U U U | U U U       oldest to newest
                        └──────── folded: last values ─────┘  └tail┘

A row that is updated all the time has as many deltas as updates, and a look-up must not walk along them. In runs and
files, what is newest at a time is found by binary search, column by column. Deltas that came one by one are *folded*:
what all but the last few of them leave behind is kept beside them, and readers of the newest state go on from there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .deltas import DeltaColumn, DeltaKind, Deltas

_DELETE, _REINSERT = DeltaKind.DELETE, DeltaKind.REINSERT  # a look-up in an Enum takes longer than a comparison
_REINSERT_BYTE = bytes([_REINSERT])

RowDelta: TypeAlias = "tuple[int, int, Mapping[int, Any], int]"
"""Row, kind, stored values by column id, timestamp."""

FOLD_ROWS = 32
"""Deltas of a row are folded so many at a time, and at least as many stay unfolded: those of writes that readers do not
see yet are among them."""


@dataclass(frozen=True, slots=True)
class Folded:
    """What the first `count` deltas of a row leave behind: `kind` says what became of its existence (None:
    nothing), `values` are the last ones of all columns since then. For readers at `timestamp`, that of the last of the
    deltas, or later."""

    count: int
    timestamp: int
    kind: DeltaKind | None
    values: Mapping[int, Any]


def folded(deltas: Sequence[RowDelta], before: Folded | None) -> Folded | None:
    """The deltas of a row (oldest first), but the last `FOLD_ROWS`, folded; `before` is what was folded of them
    already. To be asked whenever their number is a multiple of `FOLD_ROWS`."""
    count = len(deltas) - FOLD_ROWS
    if count <= 0:
        return None
    kind, values, start = (None, {}, 0) if before is None else (before.kind, dict(before.values), before.count)
    for _, change, given, _ in deltas[start:count]:
        if change == _DELETE:
            kind, values = _DELETE, {}
        elif change == _REINSERT:
            kind, values = _REINSERT, dict(given)
        else:
            values.update(given)
    return Folded(count, deltas[count - 1][3], kind, values)


def look_up_run(
    run: Deltas,
    row: int,
    timestamp: int,
    columns: Sequence[int],
    found: dict[int, Any],
    read: Callable[[int], DeltaColumn | None] | None = None,
) -> DeltaKind | None:
    """What a run says of a row at a time.

    Parameters
    ----------
    run : Deltas
    row, timestamp : int
        Deltas above the timestamp are passed over.
    columns : sequence of int
        Ids of the columns of interest.
    found : dict of int to value
        By column id, Python values; those that are missing are filled in.
    read : callable, optional
        Gives the values of a column by its id, in the place of `run.columns`; asked only where the run has the row.

    Returns
    -------
    DELETE where the row is deleted; REINSERT where all its values are found, or will not be found in older runs; None
    where the search goes on.
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


def look_up_chain(
    deltas: Sequence[RowDelta],
    shortcut: Folded | None,
    timestamp: int,
    columns: Sequence[int],
    found: dict[int, Any],
) -> DeltaKind | None:
    """`look_up_run` over the single deltas of one row, oldest first, and what of them is folded."""
    if shortcut is None or timestamp < shortcut.timestamp:
        return look_up_rows(reversed(deltas), timestamp, columns, found)
    kind = look_up_rows(reversed(deltas[shortcut.count :]), timestamp, columns, found)
    if kind is not None:
        return kind
    if shortcut.kind != _DELETE:
        _take(shortcut.values, columns, found)
    return _REINSERT if shortcut.kind is None and _has_all(found, columns) else shortcut.kind


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
