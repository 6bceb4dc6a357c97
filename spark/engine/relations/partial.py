"""Aggregations in two steps: partial groups on the tablets, merged by Spark.

    Aggregate by a: sum(b), avg(c)          Project a, sum, sum / count
      Scan t                                  Aggregate by a: sum(sum b), sum(sum c), sum(count c)
                                     ─►         Aggregate by a: sum(b), sum(c), count(c)      ◄─ of each task
                                                  Scan t

`planner.decorrelation.partial_aggregates` defines how each call is split. Types are those of nyala's own aggregation,
so averages of decimals are as exact. If groups cannot span two tablets, there is nothing to merge: then the whole
aggregation runs on the tablets, whatever it computes, as long as each tablet is read by one task.
"""

from __future__ import annotations

from dataclasses import replace

from ....planner.algebra.logical import Aggregate, Filter, Node, Project, Scan
from ....planner.algebra.trees import Numbers, column_ids, passing
from ....planner.decorrelation.partial_aggregates import Split, never_fails
from ....sql.expressions import Aggregate as AggregateCall
from ....sql.expressions import Column, Expr
from ....sql.functions import is_volatile


def split(node: Aggregate, numbers: Numbers) -> tuple[Aggregate, Node] | None:
    """The partial aggregation, and the complete one that contains it; None if a call cannot be split."""
    if any(is_volatile(expr) for _, expr in (*node.groups, *node.aggregates)):
        return None
    source, calls = _prepared(node, numbers)
    parts = Split(column_ids(source), numbers)
    for (column, _), call in zip(node.aggregates, calls, strict=True):
        if not parts.add(column, call, never_empty=not node.is_total):
            return None
    keys = tuple((numbers.column(column, column.name), expr) for column, expr in node.groups)
    partial = Aggregate(source, keys, tuple((column, call) for call, column in parts.partials.items()))
    groups = tuple((column, key) for (column, _), (key, _) in zip(node.groups, keys, strict=True))
    merged = Aggregate(partial, groups, tuple(parts.merging), node.sets, node.set_number)
    if merged.columns == node.columns:
        return partial, merged
    values: dict[Column, Expr] = dict(parts.values)
    return partial, Project(merged, tuple((column, values.get(column, column)) for column in node.columns))


def _prepared(node: Aggregate, numbers: Numbers) -> tuple[Node, list[AggregateCall]]:
    """The source and the calls, with fallible expressions computed by a projection.

    `Split` leaves fallible expressions alone, because it also serves rows that may not be needed. Here all rows are
    needed.
    """
    computed: list[tuple[Column, Expr]] = []

    def column_for(expr: Expr) -> Expr:
        if never_fails(expr):
            return expr
        computed.append((numbers.column(expr), expr))
        return computed[-1][0]

    calls = [
        call if call.filter is not None else replace(call, args=tuple(column_for(arg) for arg in call.args))
        for _, call in node.aggregates
    ]
    if not computed:
        return node.source, calls
    return Project(node.source, (*passing(node.source.columns), *computed)), calls


def is_apart(node: Aggregate) -> bool:
    """True if rows of two tablets never share a group.

    The source reads one table through filters and projections, optionally through an aggregation with the same
    property.
    """
    if node.sets is not None:
        return False
    grouped = {expr.id for _, expr in node.groups if isinstance(expr, Column)}
    partitions = partition_columns(node.source)
    return bool(partitions) and partitions <= grouped


def partition_columns(node: Node) -> frozenset[int]:
    """The partition columns of the table, by a node's numbers; empty if one of them is projected away."""
    if isinstance(node, Scan):
        wanted = set(node.table.partitions.columns)
        numbers = {name: number for number, name in node.source_names if number in column_ids(node)}
        if not wanted or not wanted <= numbers.keys() or node.time is not None:
            return frozenset()
        return frozenset(numbers[name] for name in wanted)
    if isinstance(node, Filter):
        return partition_columns(node.source)
    if isinstance(node, Project):
        return _renamed(partition_columns(node.source), node.items)
    if isinstance(node, Aggregate) and is_apart(node):
        return _renamed(partition_columns(node.source), node.groups)
    return frozenset()


def _renamed(numbers: frozenset[int], items: tuple[tuple[Column, Expr], ...]) -> frozenset[int]:
    names = {expr.id: column.id for column, expr in items if isinstance(expr, Column)}
    return frozenset(names[number] for number in numbers) if numbers <= names.keys() else frozenset()
