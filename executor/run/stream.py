"""Streams, the output of operators: a list of *morsels*, each a piece of the rows that one thread can produce from
beginning to end without waiting for another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Batch
from ...sql.expressions import Column

BATCH_ROWS = 131_072
"""Rows per batch if an operator cuts its output itself; the storage's pages and batches have as many."""

Operator: TypeAlias = Callable[[Iterator[Batch]], Iterator[Batch]]
"""A streaming operator: transforms the batches of a morsel."""


@dataclass(frozen=True, slots=True)
class Morsel:
    """A piece of a stream. `run` starts it, once or several times; `partition` names the tablet of its rows.

    `is_asked`: its rows are requested from a server together with those of the stream's other morsels, before they run.
    `rows`: number of rows that its scan reads, 0 if unknown.
    """

    run: Callable[[], Iterator[Batch]]
    partition: str | None = None
    is_asked: bool = False
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Stream:
    """The output of an operator.

    Parameters
    ----------
    columns : tuple of Column
        Contents of each batch, in order.
    morsels : tuple of Morsel
        Their order is the stream's order.
    partitioned_by : frozenset of int
        Numbers of columns such that rows of different `Morsel.partition` differ in at least one of them; empty if
        unknown.
    serial : bool
        True if the morsels themselves wait for pool work (as LIMIT does), so only the coordinating thread may run them.
    """

    columns: tuple[Column, ...]
    morsels: tuple[Morsel, ...]
    partitioned_by: frozenset[int] = frozenset()
    serial: bool = False

    def through(self, columns: tuple[Column, ...], operator: Operator) -> Stream:
        """Return the stream with each morsel passed through a streaming operator that produces `columns`."""
        present = {column.id for column in columns}
        kept = self.partitioned_by if self.partitioned_by <= present else frozenset[int]()
        morsels = tuple(Morsel(_chained(operator, m.run), m.partition, m.is_asked, m.rows) for m in self.morsels)
        return replace(self, columns=columns, morsels=morsels, partitioned_by=kept)


def _chained(operator: Operator, run: Callable[[], Iterator[Batch]]) -> Callable[[], Iterator[Batch]]:
    return lambda: operator(run())


def stream_of(columns: tuple[Column, ...], batches: Iterable[Batch]) -> Stream:
    """Make a stream of existing batches, one morsel each."""
    return Stream(columns, tuple(Morsel(_just(batch)) for batch in batches))


def _just(batch: Batch) -> Callable[[], Iterator[Batch]]:
    return lambda: iter((batch,))


def sliced(batch: Batch, rows: int = BATCH_ROWS) -> Iterator[Batch]:
    """Cut a batch into pieces of at most `rows`."""
    for start in range(0, batch.length, rows):
        yield batch.slice(start, start + rows)
