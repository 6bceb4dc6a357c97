"""What deltas make of one row: for look-ups by primary key.

Sources are asked from the newest to the oldest. Of each column the first value found is the newest, so it is kept. The
first DELETE or REINSERT found ends the search: the row is deleted, or has got all its values.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from .deltas import DeltaKind, Deltas

_DELETE, _REINSERT = DeltaKind.DELETE, DeltaKind.REINSERT  # a look-up in an Enum takes longer than a comparison

RowDelta: TypeAlias = "tuple[int, int, Mapping[int, Any], int]"
"""Row, kind, stored values by column id, timestamp."""


def look_up_run(
    run: Deltas, row: int, timestamp: int, columns: Sequence[int], found: dict[int, Any]
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

    Returns
    -------
    DELETE or REINSERT where that is what the search ends with, else None.
    """
    rows = run.rows.data
    low = bisect_left(rows, row)
    if low == len(rows) or rows[low] != row:
        return None
    for place in range(bisect_right(rows, row, low) - 1, low - 1, -1):
        if run.timestamps[place] > timestamp:
            continue
        kind = run.kinds[place]
        if kind == _DELETE:
            return _DELETE
        _take_values(run, place, columns, found)
        if kind == _REINSERT:
            return _REINSERT
    return None


def _take_values(run: Deltas, place: int, columns: Sequence[int], found: dict[int, Any]) -> None:
    for column in columns:
        given = run.columns.get(column)
        if given is not None and column not in found:
            places = given.places.data
            at = bisect_left(places, place)
            if at < len(places) and places[at] == place:
                found[column] = given.values[at].as_py()


def look_up_rows(
    deltas: Iterable[RowDelta], timestamp: int, columns: Sequence[int], found: dict[int, Any]
) -> DeltaKind | None:
    """`look_up_run` over single deltas of the row, the newest first."""
    for _, kind, values, stamp in deltas:
        if stamp > timestamp:
            continue
        if kind == _DELETE:
            return _DELETE
        for column in columns:
            if column in values and column not in found:
                found[column] = values[column]
        if kind == _REINSERT:
            return _REINSERT
    return None
