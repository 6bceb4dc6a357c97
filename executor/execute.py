"""Opening of plan nodes: one case per node. Opening runs everything that must be complete before the first row (build
sides, aggregations, sorts); the rest is in the stream.

Operators with many modules are imported when the first plan of the process has one: of the processor time to the first
row, half goes to imports.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ..errors import InternalError
from ..model.vectors.vector import Batch
from ..planner.algebra.physical import (
    FileScan,
    Filter,
    HashAggregate,
    HashJoin,
    Limit,
    MergeJoin,
    NestedLoopJoin,
    PhysicalNode,
    Project,
    Recursive,
    Series,
    SetDifference,
    Shared,
    SingleRow,
    Sort,
    TableScan,
    TopRows,
    UnionAll,
    ValuesScan,
    Window,
    WorkingTable,
    nodes,
)
from ..sql.expressions import Expr
from .joins.runtime_filters import NO_FILTERS, RuntimeFilters
from .operators.basic import (
    open_filter,
    open_project,
    open_shared,
    open_single_row,
    open_union_all,
)
from .operators.limit import open_limit
from .run.context import ExecutionContext
from .run.memory import Memory
from .run.stream import Morsel, Stream
from .scans.bounded_scans import with_scan_bound
from .scans.scan import open_table_scan, open_values, prefetch_scans

_KEEPERS = (HashAggregate, HashJoin, NestedLoopJoin, Recursive, SetDifference, Shared, Sort, TopRows, Window)
"""Operators that keep rows."""


def execute(node: PhysicalNode, context: ExecutionContext) -> Iterator[Batch]:
    """Run a plan and yield its rows in order, as batches whose columns are all read, a few batches ahead of the
    consumer.

    Evaluation errors are raised at `next`, and so is `Cancelled` after `run.context.cancel` was set. Closing the
    iterator stops the work.
    """
    if context.tracker is not None:
        context.tracker.forecast(_forecasts(node, context))
    context.check()
    context.memory = Memory(context.memory_limit, sum(isinstance(inner, _KEEPERS) for inner in nodes(node)))
    try:
        prefetch_scans(node, context)
        yield from context.iterate(open_node(node, context, NO_FILTERS), _read)
    finally:
        context.close_scans()
        context.close_files()
    context.finish()


def _forecasts(root: PhysicalNode, context: ExecutionContext) -> dict[int, int | None]:
    """Expected number of rows of each scan, as far as the statistics know it."""
    found: dict[int, int | None] = {}
    for node in nodes(root):
        if isinstance(node, TableScan):
            found[node.number] = context.store.statistics(node.table).row_count
        elif isinstance(node, FileScan):
            from .files.file_scan import expected_rows

            found[node.number] = expected_rows(node)
    return found


def _read(batch: Batch) -> Batch:
    batch.columns()
    return batch


def open_node(
    node: PhysicalNode, context: ExecutionContext, filters: RuntimeFilters, having: Expr | None = None
) -> Stream:
    """Return the stream of a node; `filters` are for the scans below it. Rows that do not pass `having` may be
    missing."""
    context.check()
    if not context.collect:
        return _open(node, context, filters, having)
    started = time.perf_counter()
    actual = context.actuals.of(node)
    context.opening.append(node)
    stream = _open(node, context, filters, having)
    context.opening.pop()
    context.actuals.add(actual, seconds=time.perf_counter() - started)

    def watched(morsel: Morsel) -> Callable[[], Iterator[Batch]]:
        return lambda: context.actuals.watch(node, morsel.run())

    morsels = tuple(Morsel(watched(m), m.partition, m.is_asked, m.rows) for m in stream.morsels)
    return Stream(stream.columns, morsels, stream.partitioned_by, stream.serial)


def _open(node: PhysicalNode, context: ExecutionContext, filters: RuntimeFilters, having: Expr | None) -> Stream:
    if isinstance(node, TableScan):
        return open_table_scan(node, context, filters)
    if isinstance(node, ValuesScan):
        return open_values(node)
    if isinstance(node, FileScan):
        from .files.file_scan import open_file_scan

        return open_file_scan(node, context)
    if isinstance(node, HashJoin | MergeJoin | NestedLoopJoin):
        return _open_join(node, context, filters)
    if isinstance(node, Shared):
        # Its rows serve several uses, so filters of a single use must not be applied.
        return open_shared(node, lambda: open_node(node.source, context, NO_FILTERS), context)
    if isinstance(node, Recursive | WorkingTable):
        return _open_recursive(node, context)
    if isinstance(node, UnionAll):
        return open_union_all(node, [open_node(source, context, filters) for source in node.sources], context)
    if isinstance(node, SetDifference):
        from .operators.set_operations import open_set_difference

        left, right = (open_node(side, context, filters) for side in (node.left, node.right))
        return open_set_difference(node, left, right, context)
    if isinstance(node, Sort | TopRows):
        return _open_sort(node, context, filters)
    if isinstance(node, HashAggregate) and context.store.runs_fragments:
        from .fragments.remote import remote_aggregate

        groups = remote_aggregate(node, context, filters, having)
        if groups is not None:
            return groups
    return _open_unary(node, context, filters)


def _open_join(
    node: HashJoin | MergeJoin | NestedLoopJoin, context: ExecutionContext, filters: RuntimeFilters
) -> Stream:
    if isinstance(node, HashJoin):
        from .joins.join import open_hash_join

        return open_hash_join(node, context, filters, open_node)
    if isinstance(node, MergeJoin):
        from .joins.merge_join import open_merge_join

        return open_merge_join(node, context, filters, open_node)
    from .joins.nested_loop import open_nested_loop

    return open_nested_loop(node, context, filters, open_node)


def _open_recursive(node: Recursive | WorkingTable, context: ExecutionContext) -> Stream:
    from .operators.recursive import open_recursive, open_working_table

    if isinstance(node, Recursive):
        return open_recursive(node, context, lambda part: open_node(part, context, NO_FILTERS))
    return open_working_table(node, context)


def _open_sort(node: Sort | TopRows, context: ExecutionContext, filters: RuntimeFilters) -> Stream:
    if isinstance(node, Sort):
        from .sorting.sorted_rows import bound_of_sort, open_sort

        bound = bound_of_sort(node)
        return open_sort(node, open_node(node.source, context, with_scan_bound(filters, node, bound)), context, bound)
    from .operators.top_rows import bound_of_top_rows, open_top_rows

    bound = bound_of_top_rows(node)
    return open_top_rows(node, open_node(node.source, context, with_scan_bound(filters, node, bound)), context, bound)


def _open_unary(node: PhysicalNode, context: ExecutionContext, filters: RuntimeFilters) -> Stream:
    opener = {
        Filter: lambda source: open_filter(node, source),  # type: ignore[arg-type]
        Project: lambda source: open_project(node, source),  # type: ignore[arg-type]
        HashAggregate: lambda source: _open_aggregate(node, source, context),  # type: ignore[arg-type]
        Window: lambda source: _open_window(node, source, context),  # type: ignore[arg-type]
        Limit: lambda source: open_limit(node, source, context),  # type: ignore[arg-type]
        Series: lambda source: _open_series(node, source, context),  # type: ignore[arg-type]
        SingleRow: lambda source: open_single_row(node, source, context),  # type: ignore[arg-type]
    }.get(type(node))
    if opener is None:
        raise InternalError(f"the executor has no operator for a {type(node).__name__}")
    condition = node.predicate if isinstance(node, Filter) else None
    return opener(open_node(node.children()[0], context, filters, condition))


def _open_aggregate(node: HashAggregate, source: Stream, context: ExecutionContext) -> Stream:
    from .aggregation.aggregate import open_aggregate

    return open_aggregate(node, source, context)


def _open_window(node: Window, source: Stream, context: ExecutionContext) -> Stream:
    from .windows.window import open_window

    return open_window(node, source, context)


def _open_series(node: Series, source: Stream, context: ExecutionContext) -> Stream:
    from .operators.series import open_series

    return open_series(node, source, context)
