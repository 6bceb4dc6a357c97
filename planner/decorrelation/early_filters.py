"""Filters above a LATERAL join, moved to the outer rows before the join is flattened.

The flattened right side is evaluated for the distinct values of the outer rows. So a filter of the outer rows, or a
part of the condition that reads them alone, must be below the join by then: the rule that moves other predicates down
comes later, and no predicate passes a use of shared rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...sql.expressions import Expr, conjuncts
from ...sql.functions import is_volatile
from ..algebra.logical import Filter, Join, Node, Project
from ..algebra.trees import (
    all_of,
    column_ids,
    columns_in,
    filtered,
    free_columns,
    has_subquery,
    substitute,
)


def filter_early(node: Filter | Join) -> Node:
    """Return the node with filters of the outer rows of dependent joins at these rows; itself if there are none."""
    if not _has_dependent(node):
        return node
    return _sink(node, ())


def is_dependent(node: Join) -> bool:
    """True if the right side reads columns of the left."""
    return bool(free_columns(node.right) & column_ids(node.left))


def _has_dependent(node: Node) -> bool:
    while isinstance(node, Filter | Project):
        node = node.source
    if not isinstance(node, Join):
        return False
    return is_dependent(node) or _has_dependent(node.left) or _has_dependent(node.right)


def _sink(node: Node, parts: Sequence[Expr]) -> Node:
    """Apply conditions to the rows of a node, the ones that may pass as deep as dependent joins need it."""
    if not _has_dependent(node):
        return filtered(node, all_of(parts))
    if isinstance(node, Filter):
        return _sink(node.source, [*conjuncts(node.predicate), *parts])
    if isinstance(node, Project):
        mapping = {column.id: expr for column, expr in node.items}
        kept = frozenset(id_ for id_, expr in mapping.items() if is_volatile(expr) or has_subquery(expr))
        down = [part for part in parts if _may_pass(part) and not columns_in(part) & kept]
        source = _sink(node.source, [substitute(part, mapping) for part in down])
        return filtered(Project(source, node.items), all_of(part for part in parts if part not in down))
    assert isinstance(node, Join)
    return _sink_in_join(node, parts)


def _sink_in_join(node: Join, parts: Sequence[Expr]) -> Node:
    is_inner, left_ids = node.kind in ("inner", "cross"), column_ids(node.left)
    to_left = [part for part in parts if node.kind in ("inner", "cross", "left") and _reads_only(part, left_ids)]
    above = [part for part in parts if part not in to_left]
    own = conjuncts(node.condition)
    if is_inner:
        to_left += [part for part in own if _reads_only(part, left_ids)]
        own = [part for part in own if part not in to_left]
    kind = ("inner" if own else "cross") if is_inner else node.kind
    joined = Join(kind, _sink(node.left, to_left), _sink(node.right, ()), all_of(own) if own else node.condition)
    return filtered(joined, all_of(above))


def _reads_only(part: Expr, columns: frozenset[int]) -> bool:
    read = columns_in(part)
    return bool(read) and read <= columns and _may_pass(part)


def _may_pass(part: Expr) -> bool:
    return not has_subquery(part) and not is_volatile(part)
