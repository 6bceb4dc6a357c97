"""Run-time statistics of operators: rows, batches and time, for EXPLAIN ANALYZE and for those who look at statements.
Collected only on request."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from ...model.lazy_dataclass import dataclass
from ...model.store import ScanCounters
from ...model.vectors.vector import Batch
from ...planner.algebra.physical import PhysicalNode, TopRows, ValuesScan, nodes
from ...storage.files.spill_file import SpillFile
from .memory import Usage

if TYPE_CHECKING:
    from ...planner.explaining.plan_text import Actual as Measured

TOLD_SECONDS: Final = 0.05
_MOST_CONSTANTS: Final = 100
"""Constant rows of a plan that is kept."""


@dataclass(slots=True)
class Actual:
    """Statistics of one operator.

    `usages` record the memory that it held, `spill_files` are its temporary files. `seconds` is the time spent inside
    it and its inputs, summed over threads, so it may exceed the elapsed time. `counters` are a table scan's. `filtered`
    names the runtime filters that a scan was given ("bitmap on x"), `fragment` the operators applied to its rows at
    their servers. `bounded_by` names the bound of a sort above ("running bound on x") once a scan has used it;
    `bound_rows` are the rows that a sort dropped by its bound, or by the least key of their group, and all that it
    compared. `hashed_rows` are the rows that an aggregation grouped by compiled kernels, `partitions` those that it
    merged in parallel. `searched` are the probe rows of a range join that were searched in their order, and all of
    them; `looked_up` are those of a join that were looked up by their codes. `combined`
    are the groups of batches that an aggregation merged morsel by morsel.
    """

    rows: int = 0
    batches: int = 0
    seconds: float = 0.0
    usages: list[Usage] = field(default_factory=list)
    spill_files: list[SpillFile] = field(default_factory=list)
    counters: ScanCounters | None = None
    filtered: tuple[str, ...] = ()
    fragment: str = ""
    bounded_by: str = ""
    bound_rows: tuple[int, int] | None = None
    searched: list[int] | None = None
    looked_up: list[int] | None = None
    hashed_rows: int = 0
    partitions: int = 0
    combined: int = 0

    @property
    def memory(self) -> int:
        """Largest size of its state, in bytes."""
        return sum(usage.peak for usage in self.usages)

    @property
    def spilled(self) -> int:
        """Bytes that it wrote to temporary files."""
        return sum(file.size for file in self.spill_files)


@dataclass(slots=True)
class Actuals:
    """The statistics of one execution, by the numbers of plan nodes."""

    _by_node: dict[int, Actual] = field(default_factory=dict)
    _nodes: list[PhysicalNode] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, node: PhysicalNode) -> Actual:
        """Return a node's record, made at first use."""
        with self._lock:
            if node.number not in self._by_node:
                self._nodes.append(node)
                self._by_node[node.number] = Actual()
            return self._by_node[node.number]

    def get(self, node: PhysicalNode) -> Actual | None:
        """Return a node's record, None if it never ran."""
        return self._by_node.get(node.number)

    def watch(self, node: PhysicalNode, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the same batches, counted: the first at once, later ones every `TOLD_SECONDS`, for those who look at a
        running statement."""
        actual = self.of(node)
        rows = count = 0
        seconds = told = 0.0
        try:
            while True:
                started = time.perf_counter()
                batch = next(batches, None)
                ended = time.perf_counter()
                seconds += ended - started
                if batch is None:
                    break
                rows += batch.length
                count += 1
                if ended - told > TOLD_SECONDS:
                    self.add(actual, rows, count, seconds)
                    rows = count = 0
                    seconds, told = 0.0, ended
                yield batch
        finally:
            # A limit stops reading before the end.
            self.add(actual, rows, count, seconds)

    def add(self, actual: Actual, rows: int = 0, batches: int = 0, seconds: float = 0.0) -> None:
        """Add work to a record."""
        with self._lock:
            actual.rows += rows
            actual.batches += batches
            actual.seconds += seconds

    def add_counters(self, actual: Actual, counters: ScanCounters) -> None:
        """Add a token's scan to a record."""
        with self._lock:
            if actual.counters is None:
                actual.counters = ScanCounters()
            actual.counters.add(counters)

    def nodes(self) -> list[PhysicalNode]:
        """The nodes that ran, in the order in which they were opened."""
        return list(self._nodes)


def actuals_for(actuals: Actuals, opening: Sequence[PhysicalNode] = ()) -> dict[int, Measured]:
    """Statistics that EXPLAIN ANALYZE draws: per node its rows, the time in it without its inputs, and a scan's
    counters. `opening` are operators that collect their inputs just now; their own time is not known yet."""
    from ...planner.explaining.plan_text import Actual as Measured  # few statements are measured

    result = {}
    collecting = {node.number for node in opening}
    for node in actuals.nodes():
        actual = actuals.of(node)
        below = sum(found.seconds for child in node.children() if (found := actuals.get(child)) is not None)
        notes = ["collects its input"] if node.number in collecting else []
        if actual.counters is not None:
            counters = actual.counters
            notes.append(
                f"{counters.rows_considered:,} rows considered; pages: {counters.pages_read:,} read, "
                f"{counters.pages_skipped:,} skipped; {counters.rowgroups_skipped:,} row groups skipped"
            )
        if filters := [*actual.filtered, *([actual.bounded_by] if actual.bounded_by else [])]:
            notes.append(f"runtime filters: {', '.join(filters)}")
        if actual.bound_rows is not None and actual.bound_rows[1]:
            by = "first keys of groups" if isinstance(node, TopRows) and node.groups else "running bound"
            notes.append("{}: {:,} of {:,} rows dropped".format(by, *actual.bound_rows))
        if actual.searched is not None and actual.searched[0]:
            notes.append("{:,} of {:,} probe rows searched in their order".format(*actual.searched))
        if actual.looked_up is not None and actual.looked_up[0]:
            notes.append("{:,} probe rows looked up by their codes".format(*actual.looked_up))
        if actual.hashed_rows:
            notes.append(f"{actual.hashed_rows:,} rows grouped by the compiled kernel")
        if actual.combined:
            notes.append(f"{actual.combined:,} groups of batches merged morsel by morsel")
        if actual.partitions:
            notes.append(f"merged in {actual.partitions:,} partitions")
        if actual.fragment:
            notes.append(f"executed by the tablet servers: {actual.fragment}")
        result[node.number] = Measured(
            actual.rows, max(0.0, actual.seconds - below), tuple(notes), actual.memory, actual.spilled
        )
    return result


def is_light(root: PhysicalNode) -> bool:
    """True if a plan may be kept after its end: it has few rows of its own."""
    return all(len(node.rows) <= _MOST_CONSTANTS for node in nodes(root) if isinstance(node, ValuesScan))
