"""Group by the key alone if a table's primary key is among the groups.

`GROUP BY o_orderkey, o_orderdate, o_totalprice` has the groups of `GROUP BY o_orderkey`: the key determines the rest,
also through equal columns to the keys of other tables. Determined columns become `any_value`, so that only the key is
hashed.

>>> from nyala.planner.testing import show
>>> print(show("SELECT k, a, count(*) FROM t GROUP BY k, a", ["reduce_group_keys"]))
Project k, a, count
  Project k, a, count
    Aggregate by k: any_value(a), count(*)
      Scan t: k, a
"""

from __future__ import annotations

from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Column, Expr
from ..algebra.logical import Aggregate, Node, Project
from ..algebra.properties import determined
from ..algebra.trees import passing, rewrite_nodes
from ..context import Context


def reduce_group_keys(root: Node, context: Context) -> Node:
    """Replace groups that others determine by `any_value`."""
    return rewrite_nodes(root, lambda node: _reduce(node) if isinstance(node, Aggregate) else node)


def _reduce(node: Aggregate) -> Node:
    if len(node.groups) < 2 or node.sets is not None:
        return node
    kept = list(node.groups)
    # A column that passes through under its own number can only do so as a group.
    fresh = [group for group in node.groups if not (isinstance(group[1], Column) and group[1].id == group[0].id)]
    # Texts are the most expensive to hash, so they are removed first.
    for group in sorted(fresh, key=lambda g: (not g[1].type.is_text, g[0].id)):
        rest = [other for other in kept if other[0].id != group[0].id]
        if rest and _follows(node.source, group[1], rest):
            kept = rest
    if len(kept) == len(node.groups):
        return node
    gone = [group for group in node.groups if group not in kept]
    picked = tuple((column, AggregateCall(column.type, column.nullable, "any_value", (expr,))) for column, expr in gone)
    return Project(Aggregate(node.source, tuple(kept), picked + node.aggregates), passing(node.columns))


def _follows(source: Node, expr: Expr, groups: list[tuple[Column, Expr]]) -> bool:
    given = [other.id for _, other in groups if isinstance(other, Column)]
    return isinstance(expr, Column) and expr.id in determined(source, given)
