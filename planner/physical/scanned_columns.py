"""The scan below a join's probe side that takes a runtime filter on a column."""

from __future__ import annotations

from collections.abc import Iterable

from ...sql.expressions import Column, Expr
from ..algebra import physical
from ..algebra.physical import PhysicalNode, TableScan


def scan_column(node: PhysicalNode, number: int) -> int | None:
    """Number of the scanned column whose values a column of `node` passes on, None if there is none.

    A path is followed only if dropping a row at the scan drops nothing but rows with the same value of the column. Such
    paths are filters, plain projections, the side of a join that streams, and the groups of an aggregate.
    """
    if isinstance(node, TableScan):
        return number if any(c.id == number for c in node.columns) else None
    if isinstance(node, physical.Filter):
        return scan_column(node.source, number)
    if isinstance(node, physical.HashJoin) and node.kind in ("inner", "left", "semi", "anti", "null_anti", "single"):
        if node.kind == "inner":
            for probe_key, build_key in zip(node.probe_keys, node.build_keys, strict=True):
                # The build side is read before this filter exists, but the probe side's equal column takes it.
                if isinstance(build_key, Column) and build_key.id == number and isinstance(probe_key, Column):
                    return scan_column(node.probe, probe_key.id)
        return scan_column(node.probe, number)
    if isinstance(node, physical.MergeJoin) and node.kind in ("inner", "left", "semi", "anti", "single"):
        return scan_column(node.left, number)
    if isinstance(node, physical.NestedLoopJoin) and node.kind not in ("right", "full"):
        return scan_column(node.left, number)
    if isinstance(node, (physical.Project, physical.HashAggregate)):
        exprs: Iterable[Expr] = node.expressions if isinstance(node, physical.Project) else node.groups
        for column, expr in zip(node.columns, exprs, strict=False):
            if column.id == number:
                # A grouping set that lacks the column aggregates rows that the filter would drop.
                lacking = isinstance(node, physical.HashAggregate) and node.lacks(expr)
                return scan_column(node.source, expr.id) if isinstance(expr, Column) and not lacking else None
    return None


def scan_with(node: PhysicalNode, number: int) -> TableScan:
    """Return the scan of the column that `scan_column` returned."""
    waiting = [node]
    while waiting:
        candidate = waiting.pop()
        if isinstance(candidate, TableScan) and any(c.id == number for c in candidate.fetched):
            return candidate
        waiting += candidate.children()
    raise AssertionError(f"no scan produces column {number}")
