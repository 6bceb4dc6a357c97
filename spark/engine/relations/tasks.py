"""What a Spark task does for a relation: it runs a piece of a plan over its share of a table, in a Python worker.

    Reading ── pickled, the same for all tasks of a relation ──► worker ─ its partition's number ─► parts
        connection(url) ─► the store, narrowed to the parts ─► execute(plan) ─► Arrow as Spark wants it

The store behind `url` has its tablets elsewhere, so conditions, projections and partial groups are evaluated by whoever
has the rows, and what comes here is what is left of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa

from ....driver.tables.key_ranges import KeyRange
from ....executor import ExecutionContext, execute
from ....executor.run.memory import default_limit
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
    """A relation, as its tasks know it.

    Attributes
    ----------
    url : str
    plan : PhysicalNode
        Reads one table or file. Its columns are the relation's.
    snapshot : Timestamp
    names : tuple of str
        What the columns are called.
    parts : tuple of tuples of Part, optional
        Per task what it reads; None: the leaf is no table, and there is one task.
    share : int
        How many tasks run at once on a machine and share its memory.
    """

    url: str
    plan: PhysicalNode
    snapshot: Timestamp
    names: tuple[str, ...]
    parts: tuple[tuple[Part, ...], ...] | None = None
    share: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def tasks(self) -> int:
        """How many there are; one at least, since Spark has no relation without partitions."""
        return 1 if self.parts is None else max(1, len(self.parts))

    @property
    def columns(self) -> list[types.NamedType]:
        """The relation's columns, for `types`."""
        return [(name, c.type, c.nullable) for name, c in zip(self.names, self.plan.columns, strict=True)]

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """In a worker: for the rows of `spark.range` in a partition, the rows of their tasks."""
        store = workers.connection(self.url, **self.options).store
        # This machine's clock may be behind that of the one which has chosen the moment.
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
    """Batches as Spark wants them, none of more than `BATCH_ROWS` rows."""
    schema = types.arrow_schema(columns)
    for batch in batches:
        found = types.to_spark(batch.to_arrow(schema.names), schema)
        for start in range(0, found.num_rows, BATCH_ROWS):
            yield found.slice(start, BATCH_ROWS)


class PartOfStore:
    """A store of which scans see some tablets, or ranges of their keys, and nothing else."""

    def __init__(self, store: Store, parts: Sequence[Part]):
        self._store = store
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """The tokens of the parts alone."""
        return [
            token
            for part in self._parts
            for token in self._store.scan_tokens(
                table, replace(spec, tablet=part.tablet, predicates=(*part.range, *spec.predicates))
            )
        ]
