"""Turn an outer join into a narrower one if a condition above drops the rows that it would complete with NULLs.

`WHERE right.x = 5` is not true for a NULL, so a LEFT JOIN below it is an inner join. Inner joins may be reordered and
pass predicates to both sides. RIGHT JOINs become LEFT JOINs.

>>> from nyala.planner.testing import show
>>> print(show("SELECT t.a FROM t LEFT JOIN u ON u.b = t.a WHERE u.c > 0", ["simplify_joins"]))
Project a
  Filter c > 0
    Join inner on b = a
      Scan t: k, a
      Scan u: b, c
>>> print(show("SELECT t.a FROM t LEFT JOIN u ON u.b = t.a WHERE u.c IS NULL", ["simplify_joins"]))
Project a
  Filter c IS NULL
    Join left on b = a
      Scan t: k, a
      Scan u: b, c
"""

from __future__ import annotations

from dataclasses import replace

from ..algebra.logical import Aggregate, Filter, Join, Node, Project, Sort
from ..algebra.properties import rejects_null, strict_columns
from ..algebra.trees import column_ids
from ..context import Context

Numbers = frozenset[int]
NOTHING: Numbers = frozenset()


def simplify_joins(root: Node, context: Context) -> Node:
    """Narrow every outer join whose completed rows cannot survive."""
    return _simplify(root, NOTHING)


def _simplify(node: Node, needed: Numbers) -> Node:
    """Simplify the joins of a plan; a row with NULL in one of the columns `needed` makes no difference above."""
    if isinstance(node, Filter):
        source = _simplify(node.source, needed | rejects_null(node.predicate))
        return node if source is node.source else Filter(source, node.predicate)
    if isinstance(node, Project):
        strict = [strict_columns(expr) for column, expr in node.items if column.id in needed]
        return node.map_children(lambda child: _simplify(child, NOTHING.union(*strict)))
    if isinstance(node, Aggregate):
        strict = [strict_columns(expr) for column, expr in node.common_groups if column.id in needed]
        return node.map_children(lambda child: _simplify(child, NOTHING.union(*strict)))
    if isinstance(node, Join):
        return _simplify_join(node, needed)
    if isinstance(node, Sort) and node.limit is None and node.offset is None:
        return node.map_children(lambda child: _simplify(child, needed))
    return node.map_children(lambda child: _simplify(child, NOTHING))


def _simplify_join(node: Join, needed: Numbers) -> Node:
    if node.kind == "right":
        node = Join("left", node.right, node.left, node.condition)
    left, right = column_ids(node.left), column_ids(node.right)
    kind = node.kind
    if kind == "full" and needed & left and needed & right:
        kind = "inner"
    elif kind == "full" and needed & left:
        kind = "left"
    elif kind == "full" and needed & right:
        kind, node = "left", Join("left", node.right, node.left, node.condition)
        left, right = right, left
    if kind == "left" and needed & right:
        kind = "inner"
    rejected = rejects_null(node.condition) if node.condition is not None else NOTHING
    below_left, below_right = NOTHING, NOTHING
    if kind in ("inner", "cross"):
        below_left = below_right = needed | rejected
    elif kind in ("left", "semi", "anti", "null_anti", "single"):
        below_left = needed | (rejected if kind == "semi" else NOTHING)
        below_right = NOTHING if kind == "null_anti" else rejected
    before = node
    node = replace(node, kind=kind) if kind != node.kind else node
    new_left = _simplify(node.left, below_left & left)
    new_right = _simplify(node.right, below_right & right)
    if new_left is before.left and new_right is before.right and node is before:
        return before
    return replace(node, left=new_left, right=new_right)
