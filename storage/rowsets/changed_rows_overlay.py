"""Predicates over a DiskRowSet at a time when some of its cells have other values, and some of its rows do not exist.

    predicate on the base's codes   1 0 0 1 1      as ever, page statistics first
    patched rows that pass            1            evaluated once for all row groups
    patched rows that fail, hidden        0
    rows that come out              1 1 0 0 1

What page statistics say is true of base values only. So of a row group in which they rule out every row, the rows are
left whose patches pass; in one in which they take every row, the rows whose patches fail drop out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.predicates import ColumnPredicate
from ...model.schema import ColumnSchema
from ...model.vectors.vector import Array
from ..deltas.latest_state import RowSetPatches, VectorPatch, places_within, rows_within
from ..predicate_eval.bind_predicates import BoundPredicate
from ..predicate_eval.code_conditions import ALL, NONE
from ..predicate_eval.evaluation import evaluate
from .row_group import Judged, RowGroup

_SHARED = 16
"""A part of the rowset's patches is judged for itself if it is less than this part of them."""
_KEPT = 16
"""Predicates whose answers are kept with the patches."""
_NO_ROWS = np.empty(0, np.int64)


class PatchedScan:
    """Effect of patches on the predicates of a scan of the rows `start` to `stop` (exclusive).

    Parameters
    ----------
    patches : RowSetPatches
    predicates : sequence of (ColumnPredicate, ColumnSchema)
        First those that are bound to a file, then those over columns without one.
    """

    def __init__(
        self,
        patches: RowSetPatches,
        predicates: Sequence[tuple[ColumnPredicate, ColumnSchema]],
        start: int,
        stop: int,
    ):
        self._hidden = rows_within(patches.hidden, start, stop)
        self._judged = [judge(patches, predicate, column, start, stop) for predicate, column in predicates]

    def of_group(self, start: int, stop: int, verdicts: Sequence[int]) -> PatchedGroup | None:
        """The same for a row group's rows `start` to `stop`; None where no row can come out. `verdicts` are those of
        the page statistics, one for each of the predicates."""
        hidden = rows_within(self._hidden, start, stop) - start
        if len(hidden) == stop - start:
            return None
        judged = [mine.within(start, stop) for mine in self._judged]
        ruled_out = [mine.passing for mine, verdict in zip(judged, verdicts) if verdict == NONE]
        candidates = None
        if ruled_out:
            candidates = reduce(lambda a, b: np.intersect1d(a, b, assume_unique=True), ruled_out)
            if not len(candidates):
                return None
        excluded = [mine.failing for mine, verdict in zip(judged, verdicts) if verdict == ALL]
        return PatchedGroup(verdicts, judged, candidates, [rows for rows in (hidden, *excluded) if len(rows)])


@dataclass(frozen=True, slots=True, eq=False)
class PatchedGroup:
    """The patches of one row group in a `PatchedScan`; rows are relative to its start.

    `judged` has the result of each predicate for the changed rows; empty if those are among `excluded`, lists of rows
    that are dropped for any predicate. `candidates` are the remaining rows if page statistics exclude the base values.
    """

    verdicts: Sequence[int]
    judged: Sequence[Judged]
    candidates: Array | None
    excluded: Sequence[Array]

    def survivors(self, rows: RowGroup, bound: Sequence[BoundPredicate]) -> Array | None:
        """The rows that come out, as `RowGroup.survivors` gives them; `bound` are the first of the scan's
        predicates."""
        undecided = [
            number
            for number, (predicate, verdict) in enumerate(zip(bound, self.verdicts))
            if verdict not in (ALL, NONE) and predicate.is_needed
        ]
        judged = [self.judged[number] for number in undecided] if self.judged else ()
        return rows.survivors([bound[number] for number in undecided], judged, self.candidates, self.excluded)


def judge(patches: RowSetPatches, predicate: ColumnPredicate, column: ColumnSchema, start: int, stop: int) -> Judged:
    """Result of a predicate for the patches of the rows from `start` to `stop`."""
    patch = patches.vector(column.id, column.type)
    low, high = (0, 0) if patch is None else places_within(patch.rows, start, stop)
    if patch is None or low == high:
        return Judged(_NO_ROWS, np.zeros(0, np.bool_))
    if (high - low) * _SHARED < len(patch.rows):
        passed = evaluate(predicate, patch.values.slice(low, high))
    else:
        passed = _all_passed(patches, predicate, column, patch)[low:high]
    return Judged(patch.rows[low:high], passed)


def _all_passed(patches: RowSetPatches, predicate: ColumnPredicate, column: ColumnSchema, patch: VectorPatch) -> Array:
    """Result of a predicate for all patches of the rowset: the tokens of one scan share their predicates, and use it
    one after the other."""
    known: tuple[tuple[ColumnPredicate, int, Array], ...] = patches.kept.get(_all_passed, ())
    for other, column_id, passed in known:
        if other is predicate and column_id == column.id:
            return passed
    passed = evaluate(predicate, patch.values)
    patches.kept[_all_passed] = ((predicate, column.id, passed), *known[: _KEPT - 1])
    return passed
