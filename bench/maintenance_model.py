"""A tablet as the maintenance policies see it, without rows: simulates the operations that they choose over hours.

Rowsets are key intervals with sizes, whose rows are evenly distributed; inserts and updates are numbers per step of
time. The duration of an operation is that of reading and writing its bytes at `THROUGHPUT`, and only one runs at a
time. The measurement covers the policies only: `storage.maintenance.compaction_policy`,
`storage.maintenance.delta_policy` and `storage.maintenance.maintenance_policy`.
"""

from __future__ import annotations

from dataclasses import field
from itertools import pairwise

import numpy as np

from ..model.lazy_dataclass import dataclass
from ..model.vectors.vector import Array
from ..storage.keys.key_spans import RowSetExtent, key_spans
from ..storage.maintenance.compaction_policy import CompactionPolicy
from ..storage.maintenance.delta_policy import major_columns, major_score, minor_compaction, minor_score
from ..storage.maintenance.maintenance_policy import OpKind, OpStatistics, StoreCondition, flush_score, pick

THROUGHPUT = 60e6
"""Bytes per second that an operation reads and writes in total."""
ROW_BYTES = 100
"""Bytes of a row on disk, all `COLUMNS` together; three times as many in memory."""
COLUMNS = 10
DELTA_BYTES = 16
"""Bytes of an updated value in a REDO file; six times as many in memory."""
MEMROWSET_BYTES = 128 << 20
DELTAMEMSTORE_BYTES = 32 << 20
STEP = 10
"""Seconds per step."""


@dataclass(eq=False)
class ModelRowSet:
    """Rows with keys evenly distributed between `low` and `high`; REDO files as (bytes, values), oldest first."""

    low: float
    high: float
    rows: float
    redo: list[tuple[float, float]] = field(default_factory=list)
    pending: float = 0.0
    """Updates in the DeltaMemStore."""
    pending_since: int = 0

    @property
    def size(self) -> float:
        return self.rows * ROW_BYTES + sum(size for size, _ in self.redo)

    def extent(self) -> RowSetExtent:
        return RowSetExtent(_key(self.low), _key(self.high), int(self.size))


@dataclass(frozen=True, slots=True)
class Load:
    """The input of `STEP` seconds.

    Parameters
    ----------
    inserts : float
        Rows.
    low, high : float
        The range of their keys, evenly distributed.
    updates : ndarray of float64, shape (n_updates,)
        Keys that are updated, in one column; each represents `weight` updates.
    """

    inserts: float
    low: float
    high: float
    updates: Array
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The tablet at one time; `write_amplification` is bytes written so far over bytes of input."""

    seconds: int
    bytes: float
    rowsets: int
    height: float
    redo_files: float
    space_amplification: float
    write_amplification: float


class ModelTablet:
    """One tablet with its own maintenance thread."""

    def __init__(self, policy: CompactionPolicy, seed: int = 1):
        self.policy = policy
        self.rowsets: list[ModelRowSet] = []
        self.seconds = 0
        self.operations: dict[OpKind, int] = {}
        self._random = np.random.default_rng(seed)
        self._memrowset = ModelRowSet(np.inf, -np.inf, 0.0)
        self._busy_until = 0.0
        self._came_in = 0.0
        self._written = 0.0
        self._choice: tuple[OpStatistics, list[ModelRowSet]] | None = None
        self._is_stale = True

    def bulk_load(self, rows: float, low: float, high: float) -> None:
        """Adds full, adjacent rowsets."""
        pieces = max(1, round(rows * ROW_BYTES / self.policy.target_bytes))
        edges = np.linspace(low, high, pieces + 1)
        self.rowsets += [ModelRowSet(a, float(np.nextafter(b, a)), rows / pieces) for a, b in pairwise(edges)]
        self._note(rows * ROW_BYTES, rows * ROW_BYTES)

    def pass_time(self, load: Load) -> None:
        """Advances the time by `STEP` seconds."""
        self._insert(load)
        self._update(load)
        self.seconds += STEP
        while self._busy_until < self.seconds and self._run_one():
            pass

    def sample(self) -> Sample:
        """The current state."""
        base = sum(r.rows for r in self.rowsets) * ROW_BYTES
        files = sum(len(r.redo) for r in self.rowsets)
        return Sample(
            self.seconds,
            base,
            len(self.rowsets),
            key_spans([r.extent() for r in self.rowsets]).average_height,
            files / max(len(self.rowsets), 1),
            sum(r.size for r in self.rowsets) / max(base, 1.0),
            self._written / max(self._came_in, 1.0),
        )

    # ---- input ----------------------------------------------------------------------------------------------------

    def _note(self, came_in: float, written: float) -> None:
        self._came_in += came_in
        self._written += written

    def _insert(self, load: Load) -> None:
        memory = self._memrowset
        if load.inserts and not memory.rows:
            memory.pending_since = self.seconds
        if load.inserts:
            memory.low, memory.high = min(memory.low, load.low), max(memory.high, load.high)
            memory.rows += load.inserts
            self._came_in += load.inserts * ROW_BYTES

    def _update(self, load: Load) -> None:
        if not len(load.updates) or not self.rowsets:
            return
        lows, highs = (np.array([getattr(r, name) for r in self.rowsets]) for name in ("low", "high"))
        densities = np.array([r.rows for r in self.rowsets]) / np.maximum(highs - lows, 1e-12)
        holds = (lows[:, None] <= load.updates) & (load.updates <= highs[:, None])
        chances = np.cumsum(holds * densities[:, None], axis=0)
        found = chances[-1] > 0
        drawn = self._random.random(int(found.sum())) * chances[-1][found]
        places = (chances[:, found] < drawn).sum(axis=0)
        for place, count in zip(*np.unique(places, return_counts=True)):
            rowset = self.rowsets[int(place)]
            if not rowset.pending:
                rowset.pending_since = self.seconds
            rowset.pending += float(count) * load.weight
        self._came_in += float(found.sum()) * load.weight * DELTA_BYTES

    # ---- operations ----------------------------------------------------------------------------------------------

    def _run_one(self) -> bool:
        operations = self._operations()
        found = pick([statistics for statistics, _ in operations], StoreCondition())
        if found is None:
            return False
        statistics, rowsets = operations[found[0]]
        self.operations[statistics.kind] = self.operations.get(statistics.kind, 0) + 1
        read, written = _PERFORM[statistics.kind](self, rowsets)
        self._written += written
        self._busy_until = max(self._busy_until, float(self.seconds - STEP)) + (read + written) / THROUGHPUT
        self._is_stale = True
        return True

    def _operations(self) -> list[tuple[OpStatistics, list[ModelRowSet]]]:
        memory = self._memrowset
        size = int(memory.rows * ROW_BYTES * 3)
        score = flush_score(size, MEMROWSET_BYTES, self.seconds - memory.pending_since)
        found = [(OpStatistics(OpKind.FLUSH_MEMROWSET, size, score=score), [memory])]
        for rowset in self.rowsets:
            found += self._delta_operations(rowset)
        if self._is_stale:
            self._choice, self._is_stale = self._choose(), False
        return found if self._choice is None else [*found, self._choice]

    def _choose(self) -> tuple[OpStatistics, list[ModelRowSet]] | None:
        choice = self.policy.choose([r.extent() for r in self.rowsets])
        if choice is None:
            return None
        return OpStatistics(OpKind.COMPACT_ROWSETS, score=choice.score), [self.rowsets[i] for i in choice.rowsets]

    def _delta_operations(self, rowset: ModelRowSet) -> list[tuple[OpStatistics, list[ModelRowSet]]]:
        kinds: list[OpStatistics] = []
        if rowset.pending:
            size = int(rowset.pending * DELTA_BYTES * 6)
            score = flush_score(size, DELTAMEMSTORE_BYTES, self.seconds - rowset.pending_since)
            kinds.append(OpStatistics(OpKind.FLUSH_DELTAS, size, score=score))
        if rowset.redo:
            sizes = [int(size) for size, _ in rowset.redo]
            kinds.append(OpStatistics(OpKind.MINOR_DELTA_COMPACTION, score=minor_score(sizes)))
            values = {0: int(sum(values for _, values in rowset.redo))}
            columns = major_columns(int(rowset.rows), values)
            score = major_score(int(rowset.rows), values, columns)
            kinds.append(OpStatistics(OpKind.MAJOR_DELTA_COMPACTION, score=score))
        return [(statistics, [rowset]) for statistics in kinds]

    def _flush_memrowset(self, rowsets: list[ModelRowSet]) -> tuple[float, float]:
        memory = rowsets[0]
        pieces = max(1, round(memory.rows * ROW_BYTES / self.policy.target_bytes))
        edges = np.linspace(memory.low, memory.high, pieces + 1)
        self.rowsets += [ModelRowSet(a, float(np.nextafter(b, a)), memory.rows / pieces) for a, b in pairwise(edges)]
        self._memrowset = ModelRowSet(np.inf, -np.inf, 0.0)
        return 0.0, memory.rows * ROW_BYTES

    def _flush_deltas(self, rowsets: list[ModelRowSet]) -> tuple[float, float]:
        rowset = rowsets[0]
        size = rowset.pending * DELTA_BYTES
        rowset.redo.append((size, rowset.pending))
        rowset.pending = 0.0
        return 0.0, size

    def _minor(self, rowsets: list[ModelRowSet]) -> tuple[float, float]:
        rowset = rowsets[0]
        run = minor_compaction([int(size) for size, _ in rowset.redo])
        assert run is not None, "its score was above 0"
        joined = rowset.redo[run.start : run.stop]
        size = sum(size for size, _ in joined)
        rowset.redo[run.start : run.stop] = [(size, sum(values for _, values in joined))]
        return size, size

    def _major(self, rowsets: list[ModelRowSet]) -> tuple[float, float]:
        rowset = rowsets[0]
        column = rowset.rows * ROW_BYTES / COLUMNS
        deltas = sum(size for size, _ in rowset.redo)
        rowset.redo.clear()
        return column + deltas, column

    def _compact(self, rowsets: list[ModelRowSet]) -> tuple[float, float]:
        read = sum(rowset.size for rowset in rowsets)
        rows = sum(rowset.rows for rowset in rowsets)
        pieces = max(1, round(rows * ROW_BYTES / self.policy.target_bytes))
        edges = _quantiles(rowsets, pieces)
        pending = sum(rowset.pending for rowset in rowsets) / pieces
        since = min((r.pending_since for r in rowsets if r.pending), default=0)
        self.rowsets = [rowset for rowset in self.rowsets if rowset not in rowsets]
        for low, high in pairwise(edges):
            merged = ModelRowSet(low, float(np.nextafter(high, low)), rows / pieces, [], pending, since)
            self.rowsets.append(merged)
        return read, rows * ROW_BYTES


_PERFORM = {
    OpKind.FLUSH_MEMROWSET: ModelTablet._flush_memrowset,
    OpKind.FLUSH_DELTAS: ModelTablet._flush_deltas,
    OpKind.MINOR_DELTA_COMPACTION: ModelTablet._minor,
    OpKind.MAJOR_DELTA_COMPACTION: ModelTablet._major,
    OpKind.COMPACT_ROWSETS: ModelTablet._compact,
}


def _quantiles(rowsets: list[ModelRowSet], pieces: int) -> list[float]:
    """Keys that divide the rows of all rowsets into pieces of the same size, both ends included."""
    edges = np.unique([edge for rowset in rowsets for edge in (rowset.low, rowset.high)])
    below = np.zeros(len(edges))
    for rowset in rowsets:
        width = max(rowset.high - rowset.low, 1e-12)
        below += rowset.rows * np.clip((edges - rowset.low) / width, 0.0, 1.0)
    cuts = np.interp(np.linspace(0.0, below[-1], pieces + 1), below, edges)
    return [float(cut) for cut in cuts]


def _key(place: float) -> bytes:
    return int(place * (1 << 52)).to_bytes(8, "big")
