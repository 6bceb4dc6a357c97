"""The running bound of a top-N, passed to the scan that reads its leading key.

A row that a scan drops must not change other rows of the sort's input, so the bound passes operators that treat each
row alone: filters, projections, and joins that produce nothing for a build row without partner. It does not pass
aggregates, windows and limits.

    SELECT ... FROM t JOIN d USING (x) WHERE ... ORDER BY t.y DESC LIMIT 10      rows of t, by its column y
"""

from __future__ import annotations

from ...planner.algebra.physical import (
    Filter,
    HashJoin,
    NestedLoopJoin,
    PhysicalNode,
    Project,
    Sort,
    TableScan,
    TopRows,
)
from ...sql.expressions import Column
from ..joins.runtime_filters import RuntimeFilters
from ..sorting.running_bound import RunningBound, ScanBound

_PROBE_KINDS = frozenset({"inner", "left", "semi", "anti", "null_anti"})
"""Joins whose rows each belong to one probe row."""


def with_scan_bound(filters: RuntimeFilters, node: Sort | TopRows, bound: RunningBound | None) -> RuntimeFilters:
    """Return the filters for the input of a top-N: with its bound, if its leading key is a column of a scan."""
    first = node.order[0] if node.order else None
    if bound is None or first is None or not isinstance(first.expr, Column):
        return filters
    column = _scanned(node.source, first.expr.id)
    if column is None:
        return filters
    bound.is_scanned = True
    return filters.with_bound(column, ScanBound(bound, first))


def _scanned(node: PhysicalNode, column: int) -> int | None:
    """Return the number of a column in the scan that reads it; None if the bound may not pass an operator."""
    while True:
        if isinstance(node, TableScan):
            is_plain = not node.ordered and node.limit is None and node.time is None
            return column if is_plain and any(column == c.id for c in node.fetched) else None
        if isinstance(node, Filter):
            node = node.source
        elif isinstance(node, Project):
            pairs = zip(node.columns, node.expressions, strict=True)
            below = next((expr for produced, expr in pairs if produced.id == column), None)
            if not isinstance(below, Column):
                return None
            node, column = node.source, below.id
        elif isinstance(node, HashJoin) and node.kind in _PROBE_KINDS:
            node = node.probe
        elif isinstance(node, NestedLoopJoin) and node.kind in _PROBE_KINDS:
            node = node.left
        else:
            return None
