"""The work of a Spark task for a relation: executes a plan fragment over its part of a table, in a Python worker.

    Reading ── pickled, the same for all tasks of a relation ──► worker ─ its partition's number ─► parts
        connection(url) ─► the store, narrowed to the parts ─► execute(plan) ─► Arrow in Spark's schema

The store behind `url` is remote: the servers of the tablets evaluate conditions, projections and partial groups. The
worker receives only the remaining rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, cast

import pyarrow as pa

from ....driver.tables.key_ranges import KeyRange
from ....executor import ExecutionContext
from ....executor.execute import execute
from ....executor.run.memory import default_limit
from ....model.lazy_dataclass import dataclass
from ....model.schema import Table
from ....model.store import ScanSpec, ScanToken, Store, Timestamp
from ....model.vectors.vector import Batch
from ....planner.algebra.physical import PhysicalNode
from ... import types, workers

BATCH_ROWS = 1 << 16
"""Rows per Arrow batch on the way to Spark."""


@dataclass(frozen=True, slots=True)
class Part:
    """A tablet, or a range of its keys."""

    tablet: str
    range: KeyRange = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """A relation, as sent to its tasks.

    Attributes
    ----------
    url : str
    plan : PhysicalNode
        Reads one table or file. Its columns are the relation's.
    snapshot : Timestamp
    names : tuple of str
        The names of the columns.
    parts : tuple of tuples of Part, optional
        The parts of each task; None: the leaf is not a table, and there is one task.
    share : int
        Number of concurrent tasks on a machine, which share its memory.
    options : dict of str to Any
        Options of the tasks' clients, with a token if the store has users.
    """

    url: str
    plan: PhysicalNode
    snapshot: Timestamp
    names: tuple[str, ...]
    parts: tuple[tuple[Part, ...], ...] | None = None
    share: int = 1
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def tasks(self) -> int:
        """The number of tasks; at least one, since Spark has no relation without partitions."""
        return 1 if self.parts is None else max(1, len(self.parts))

    @property
    def columns(self) -> list[types.NamedType]:
        """The relation's columns, for `types`."""
        return [(name, c.type, c.nullable) for name, c in zip(self.names, self.plan.columns, strict=True)]

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Maps the rows of `spark.range` in a partition to the rows of their tasks, in a worker."""
        store = workers.connection(self.url, **self.options).store
        # This machine's clock may be behind that of the one that chose the snapshot.
        observe = getattr(store, "update", None)
        if observe is not None:
            observe(self.snapshot)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self.rows(store, number)

    def rows(self, store: Store, task: int) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        if self.parts is not None:
            parts = self.parts[task] if self.parts else ()
            store = cast(Store, PartOfStore(store, parts))
        limit = default_limit()
        context = ExecutionContext(
            store,
            threads=1,
            memory_limit=None if limit is None else limit // self.share,
            snapshot=self.snapshot,
        )
        yield from as_spark(self.columns, execute(self.plan, context))


def as_spark(columns: Sequence[types.NamedType], batches: Iterable[Batch]) -> Iterator[pa.RecordBatch]:
    """Batches in Spark's types, with at most `BATCH_ROWS` rows each."""
    schema = types.arrow_schema(columns)
    for batch in batches:
        converted = types.to_spark(batch.to_arrow(schema.names), schema)
        for start in range(0, converted.num_rows, BATCH_ROWS):
            yield converted.slice(start, BATCH_ROWS)


class PartOfStore:
    """A store whose scans are restricted to some tablets or key ranges."""

    def __init__(self, store: Store, parts: Sequence[Part]):
        self._store = store
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """The tokens of these parts only."""
        return [
            token
            for part in self._parts
            for token in self._store.scan_tokens(
                table, replace(spec, tablet=part.tablet, predicates=(*part.range, *spec.predicates))
            )
        ]
