"""Evaluating a fragment over a tablet's batches, at its server.

Each thread that reads a part of the tablet runs the fragment by itself. Partial groups of its batches are merged as
they come; where there are many of them, they are given out before the end, so that a server never holds more than some
ten thousand groups for a client.

A batch of partial groups: the layout ("2,1,3": how many vectors each state has, the same in all rows), the keys, the
states' vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from ...errors import DataError
from ...planner.physical import Filter, HashAggregate, Project, ValuesScan
from ...sql.expressions import Column
from ...storage.schema import Table
from ...storage.store import ScanSpec
from ...storage.types import STRING
from ...storage.vector import Batch, Dict
from ..aggregation.aggregate import Aggregation
from ..aggregation.partials import Partial
from ..evaluate import Compiler
from ..operators import open_filter, open_project
from ..stream import Morsel, Stream
from .fragment import Fragment

_MERGED_GROUPS = 1 << 16
"""Partials are merged when they have so many groups together."""
_KEPT_SHARE = 2
"""Groups that merging does not make fewer by this factor are given out as they are."""

Operator = Callable[[Iterator[Batch]], Iterator[Batch]]


def evaluator(data: bytes, width: int) -> Operator:
    """What a fragment does, as a function of a scan's batches, to be called once per thread. `width` is how many
    columns the scan has. Raises `DataError` or `UnsupportedFormat` for bytes that are no fragment for it."""
    fragment = Fragment.from_bytes(data)
    if len(fragment.fetched) != width or not 0 <= fragment.kept <= width:
        raise DataError(f"a part of a plan for {len(fragment.fetched)} columns, over a scan of {width}")
    return lambda batches: _run(fragment, batches)


def table_evaluator(fragment: bytes, table: Table, spec: ScanSpec) -> Operator:
    """`evaluator` for a scan of a table: what a tablet server calls (`cluster.tserver.fragments`)."""
    return evaluator(fragment, len(spec.columns))


def _run(fragment: Fragment, batches: Iterator[Batch]) -> Iterator[Batch]:
    stream = Stream(fragment.fetched[: fragment.kept], (Morsel(lambda: _residual(fragment, batches)),))
    for step in fragment.steps:
        source = ValuesScan(columns=stream.columns, rows=())
        if step.is_filter:
            node = Filter(columns=step.columns, source=source, predicate=step.expressions[0])
            stream = open_filter(node, stream)
        else:
            stream = open_project(Project(columns=step.columns, source=source, expressions=step.expressions), stream)
    rows = stream.morsels[0].run()
    return rows if fragment.aggregation is None else _partial_groups(fragment, stream.columns, rows)


def _residual(fragment: Fragment, batches: Iterator[Batch]) -> Iterator[Batch]:
    wanted = range(fragment.kept)
    everything = fragment.kept == len(fragment.fetched)
    condition = None if fragment.residual is None else Compiler(fragment.fetched).condition(fragment.residual)
    for batch in batches:
        if batch.length and condition is not None:
            batch = condition.select(batch)
        if batch.length:
            yield batch if everything else batch.project(wanted)


def _partial_groups(fragment: Fragment, columns: tuple[Column, ...], rows: Iterator[Batch]) -> Iterator[Batch]:
    assert fragment.aggregation is not None
    node = HashAggregate(
        columns=(),
        source=ValuesScan(columns=columns, rows=()),
        groups=fragment.aggregation.groups,
        aggregates=fragment.aggregation.aggregates,
    )
    aggregation = Aggregation(node)
    (root,) = aggregation.roots
    kept: list[Partial] = []
    groups = 0
    for batch in rows:
        if not batch.length:
            continue
        partial = aggregation.partial(aggregation.prepare(batch), root)
        kept.append(partial)
        groups += partial.groups
        if groups >= _MERGED_GROUPS and len(kept) > 1:
            merged = aggregation.states.merge(kept)
            if merged.groups * _KEPT_SHARE > groups:
                yield _to_batch(aggregation, merged)
                kept, groups = [], 0
            else:
                kept, groups = [merged], merged.groups
    if kept:
        yield _to_batch(aggregation, aggregation.states.merge(kept))


def _to_batch(aggregation: Aggregation, partial: Partial) -> Batch:
    vectors = [
        accumulator.to_vectors(state, partial.groups)
        for accumulator, state in zip(aggregation.states.accumulators, partial.states, strict=True)
    ]
    layout = ",".join(str(len(of_state)) for of_state in vectors)
    told = Dict(STRING, np.zeros(partial.groups, np.uint8), pa.array([layout]))
    return Batch(
        [told, *partial.keys, *(v for of_state in vectors for v in of_state)],
        partial.groups,
    )


def partial_of(aggregation: Aggregation, batch: Batch, keys: int) -> Partial:
    """The partial groups that a batch holds; `keys` is how many columns they have in front of the states."""
    columns = batch.columns()
    layout = columns[0].slice(0, 1).to_arrow()[0].as_py()
    states = []
    place = 1 + keys
    for accumulator, count in zip(aggregation.states.accumulators, layout.split(",") if layout else (), strict=True):
        states.append(accumulator.from_vectors(columns[place : place + int(count)], batch.length))
        place += int(count)
    return Partial(columns[1 : 1 + keys], states, batch.length)
