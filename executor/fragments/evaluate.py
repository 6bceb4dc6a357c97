"""Evaluating a fragment over a tablet's batches, at its server.

Each thread that reads a part of the tablet runs the fragment by itself. Partial groups of its batches are merged as
they come; where there are many of them, they are given out before the end, so that a server never holds more than some
ten thousand groups for a client, but for a condition on groups (`groups`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...errors import DataError
from ...planner.physical import Filter, HashAggregate, Project, ValuesScan
from ...storage.schema import Table
from ...storage.store import ScanSpec
from ...storage.vector import Batch
from ..aggregation.aggregate import Aggregation
from ..evaluate import Compiler
from ..operators import open_filter, open_project
from ..stream import Morsel, Stream
from .fragment import Fragment, PartialAggregation
from .groups import Gathered, partials, to_batch

Operator = Callable[[Iterator[Batch]], Iterator[Batch]]


def evaluator(data: bytes, width: int) -> Operator:
    """What a fragment does, as a function of a scan's batches, to be called once per thread. `width` is how many
    columns the scan has. Raises `DataError` or `UnsupportedFormat` for bytes that are no fragment for it."""
    fragment = Fragment.from_bytes(data)
    if len(fragment.fetched) != width or not 0 <= fragment.kept <= width:
        raise DataError(f"a part of a plan for {len(fragment.fetched)} columns, over a scan of {width}")
    if fragment.aggregation is None:
        return lambda batches: _rows(fragment, batches)
    having = fragment.aggregation.having
    aggregation = _compiled(fragment, fragment.aggregation)
    if having is None:
        return lambda batches: _partial_groups(aggregation, _rows(fragment, batches))
    gathered = Gathered(aggregation, having)
    return lambda batches: gathered.source(_rows(fragment, batches))


def table_evaluator(fragment: bytes, table: Table, spec: ScanSpec) -> Operator:
    """`evaluator` for a scan of a table: what a tablet server calls (`cluster.tserver.fragments`)."""
    return evaluator(fragment, len(spec.columns))


def _partial_groups(aggregation: Aggregation, rows: Iterator[Batch]) -> Iterator[Batch]:
    return (to_batch(aggregation, partial) for partial in partials(aggregation, rows))


def _rows(fragment: Fragment, batches: Iterator[Batch]) -> Iterator[Batch]:
    """What comes before the aggregation."""
    stream = Stream(fragment.fetched[: fragment.kept], (Morsel(lambda: _residual(fragment, batches)),))
    for step in fragment.steps:
        source = ValuesScan(columns=stream.columns, rows=())
        if step.is_filter:
            node = Filter(columns=step.columns, source=source, predicate=step.expressions[0])
            stream = open_filter(node, stream)
        else:
            stream = open_project(Project(columns=step.columns, source=source, expressions=step.expressions), stream)
    return stream.morsels[0].run()


def _residual(fragment: Fragment, batches: Iterator[Batch]) -> Iterator[Batch]:
    wanted = range(fragment.kept)
    everything = fragment.kept == len(fragment.fetched)
    condition = None if fragment.residual is None else Compiler(fragment.fetched).condition(fragment.residual)
    for batch in batches:
        if batch.length and condition is not None:
            batch = condition.select(batch)
        if batch.length:
            yield batch if everything else batch.project(wanted)


def _compiled(fragment: Fragment, aggregation: PartialAggregation) -> Aggregation:
    having = aggregation.having
    columns = fragment.steps[-1].columns if fragment.steps else fragment.fetched[: fragment.kept]
    return Aggregation(
        HashAggregate(
            columns=() if having is None else having.columns,
            source=ValuesScan(columns=columns, rows=()),
            groups=aggregation.groups,
            aggregates=aggregation.aggregates,
        )
    )
