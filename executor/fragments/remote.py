"""Aggregation over a store with tablet servers: the servers produce partial groups, which are merged here.

    token ──► server: scan, filter, project, group ──► batches of partial groups ──► PartialCollector ──► groups

The servers also check a condition on groups if all rows of a group lie in one tablet. As in a local aggregation,
partials of tablets that cannot share a group are merged separately, and groups that do not fit in memory are spilled.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model.vectors.vector import Batch
from ...planner.algebra.physical import HashAggregate, TableScan
from ...sql.expressions import Column, Expr
from ..aggregation.aggregate import Aggregation, finish_aggregate, keeps_apart
from ..aggregation.partial_collector import PartialCollector
from ..joins.runtime_filters import RuntimeFilters
from ..run.context import ExecutionContext
from ..run.stream import Morsel, Stream
from ..scans.scan import open_fragment_scan, partition_columns
from .fragment import Fragment, Having, aggregate_fragment, encoded
from .groups import partial_of


def remote_aggregate(
    node: HashAggregate, context: ExecutionContext, filters: RuntimeFilters, having: Expr | None = None
) -> Stream | None:
    """Return the groups of an aggregation over a table at tablet servers; None if the servers cannot execute it.

    Groups that do not pass `having` may be missing, but may also be present.
    """
    scan_fragment = aggregate_fragment(node) if context.store.runs_fragments and not context.is_deep else None
    if scan_fragment is None:
        return None
    scan, fragment = scan_fragment
    aggregation = Aggregation(node)
    (root,) = aggregation.roots
    partitioned_by = _partitioned_by(scan, fragment)
    is_apart = keeps_apart(node, root, partitioned_by)
    asked = None if having is None or not is_apart else encoded(fragment.with_having(Having(having, node.columns)))
    data = asked or encoded(fragment)
    if data is None:
        return None
    collector = PartialCollector(aggregation.states, [root], context, "an aggregation")
    source = open_fragment_scan(scan, context, filters, data)
    if context.collect:
        and_condition = " and a condition on groups" if asked else ""
        context.actuals.of(scan).fragment = f"all steps up to partial groups{and_condition}"
    orders = {id(morsel): place for place, morsel in enumerate(source.morsels)}

    def work(batches: Iterator[Batch], morsel: Morsel) -> None:
        for batch in context.actuals.watch(scan, batches) if context.collect else batches:
            partial = partial_of(aggregation, batch, len(node.groups))
            collector.add(root, partial, orders[id(morsel)], morsel.partition if is_apart else None)

    context.run_all(source, work)
    if context.collect:
        # The servers sent groups; they have counted the rows (before the scan's residual).
        actual = context.actuals.of(scan)
        actual.rows = 0 if actual.counters is None else actual.counters.rows_returned
    return finish_aggregate(aggregation, collector, partitioned_by, context)


def _partitioned_by(scan: TableScan, fragment: Fragment) -> frozenset[int]:
    """Partition columns under the names of the aggregation's input, if all of them reach it."""
    numbers = {number: number for number in partition_columns(scan)}
    for step in fragment.steps:
        present = {column.id for column in step.columns}
        if not step.is_filter:
            renamed = {e.id: c.id for e, c in zip(step.expressions, step.columns) if isinstance(e, Column)}
            numbers = {first: renamed.get(now, -1) for first, now in numbers.items()}
        if not present.issuperset(numbers.values()):
            return frozenset()
    return frozenset(numbers.values())
