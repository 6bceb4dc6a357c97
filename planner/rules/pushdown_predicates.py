"""Move every predicate as far down as its meaning allows, into the scans where it can.

A predicate may pass projections (rewritten over their expressions) and set operations on both sides. It may pass inner
joins on either side, the preserved side of an outer join, and the left side of semi and anti joins. It may pass
aggregates if it reads only group columns, and windows if it reads only columns of PARTITION BY. It never passes a
LIMIT. A condition of a LEFT JOIN that reads only the right side filters that side.

>>> from nyala.planner.testing import show
>>> print(show("SELECT t.k FROM t, u WHERE t.a = u.b AND t.k = 1 AND u.c > 2", ["pushdown_predicates"]))
Project k
  Join inner on a = b
    Scan t: k, a WHERE k = 1
    Scan u: b, c WHERE c > 2
>>> print(show("SELECT * FROM (SELECT a, count(*) AS n FROM t GROUP BY a) AS g WHERE a = 1 AND n > 2",
...     ["pushdown_predicates"]))
Project a, n
  Project a, n
    Project a, count
      Filter count > 2
        Aggregate by a: count(*)
          Scan t: k, a WHERE a = 1
"""

from __future__ import annotations

from dataclasses import replace

from ...sql.expressions import Expr, conjuncts
from ...sql.functions import is_volatile
from ..algebra.logical import (
    Aggregate,
    FileScan,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    Series,
    SetOperation,
    Sort,
    TopRows,
    Window,
)
from ..algebra.trees import all_of, column_ids, columns_in, filtered, substitute
from ..algebra.windows import passes
from ..context import Context


def pushdown_predicates(root: Node, context: Context) -> Node:
    """Move the predicates of filters and joins down."""
    return _push(root, [])


def _push(node: Node, parts: list[Expr]) -> Node:
    """Return the node with `parts` applied to its rows, as deep as possible."""
    if isinstance(node, Filter):
        return _push(node.source, [*conjuncts(node.predicate), *(p for p in parts)])
    if isinstance(node, Join):
        return _push_join(node, parts)
    if isinstance(node, Project):
        mapping = {column.id: expr for column, expr in node.items}
        drawn = frozenset(id_ for id_, expr in mapping.items() if is_volatile(expr))
        down = [part for part in parts if not columns_in(part) & drawn]
        source = _push(node.source, [substitute(part, mapping) for part in down])
        moved = node if source is node.source else Project(source, node.items)
        return filtered(moved, all_of(part for part in parts if columns_in(part) & drawn))
    if isinstance(node, (Scan, FileScan)):
        merged = conjuncts(all_of([*node.predicates, *parts]))
        return node if len(merged) == len(node.predicates) else replace(node, predicates=tuple(merged))
    if isinstance(node, Aggregate):
        return _push_aggregate(node, parts)
    if isinstance(node, Window):
        down = [part for part in parts if passes(node, part)]
        kept = node.map_children(lambda child: _push(child, down))
        return filtered(kept, all_of(part for part in parts if part not in down))
    if isinstance(node, Sort) and node.limit is None and node.offset is None:
        source = _push(node.source, parts)
        return node if source is node.source else replace(node, source=source)
    if isinstance(node, SetOperation):
        return _push_set_operation(node, parts)
    if isinstance(node, (TopRows, Series)):
        return _push_past(node, parts)
    return filtered(node.map_children(lambda child: _push(child, [])), all_of(parts))


def _push_aggregate(node: Aggregate, parts: list[Expr]) -> Node:
    mapping = {column.id: expr for column, expr in node.common_groups}
    groups = frozenset(id_ for id_, expr in mapping.items() if not is_volatile(expr))
    down = [part for part in parts if columns_in(part) and columns_in(part) <= groups]
    source = _push(node.source, [substitute(part, mapping) for part in down])
    kept = node if source is node.source else replace(node, source=source)
    return filtered(kept, all_of(part for part in parts if part not in down))


def _push_past(node: TopRows | Series, parts: list[Expr]) -> Node:
    """Push conditions on the group columns past the first rows of groups, and conditions on other columns past a
    series."""
    passing = frozenset(c.id for c in node.groups) if isinstance(node, TopRows) else column_ids(node.source)
    down = [part for part in parts if columns_in(part) and columns_in(part) <= passing]
    source = _push(node.source, down)
    kept = node if source is node.source else replace(node, source=source)
    return filtered(kept, all_of(part for part in parts if part not in down))


def _push_set_operation(node: SetOperation, parts: list[Expr]) -> Node:
    sides = []
    for side in (node.left, node.right):
        mapping = {own.id: inner for own, inner in zip(node.output, side.columns, strict=True)}
        sides.append(_push(side, [substitute(part, dict(mapping)) for part in parts]))
    if sides[0] is node.left and sides[1] is node.right:
        return node
    return replace(node, left=sides[0], right=sides[1])


def _push_join(node: Join, parts: list[Expr]) -> Node:
    left_ids, right_ids = column_ids(node.left), column_ids(node.right)
    conditions = conjuncts(node.condition)
    if node.kind in ("inner", "cross"):
        conditions, parts = [*conditions, *parts], []
    to_left: list[Expr] = []
    to_right: list[Expr] = []
    stay: list[Expr] = []
    above: list[Expr] = []
    for part in conditions:
        read = columns_in(part)
        if read and read <= left_ids and node.kind in ("inner", "cross", "semi"):
            to_left.append(part)
        elif read and read <= right_ids and node.kind not in ("full", "right", "null_anti"):
            to_right.append(part)
        elif not read and node.kind in ("inner", "cross"):
            above.append(part)
        else:
            stay.append(part)
    for part in parts:
        if columns_in(part) and columns_in(part) <= left_ids and node.kind not in ("full", "right"):
            to_left.append(part)
        else:
            above.append(part)
    left, right = _push(node.left, to_left), _push(node.right, to_right)
    condition = all_of(stay)
    kind = node.kind
    if kind in ("inner", "cross"):
        kind = "cross" if condition is None else "inner"
    unchanged = left is node.left and right is node.right and kind == node.kind and condition == node.condition
    joined = node if unchanged else Join(kind, left, right, condition)
    return filtered(joined, all_of(above))
