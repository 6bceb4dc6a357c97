"""Group by the key alone if a table's primary key is among the groups, and by columns alone if the other groups are
computed from them.

`GROUP BY o_orderkey, o_orderdate, o_totalprice` has the groups of `GROUP BY o_orderkey`: the key determines the rest,
also through equal columns to the keys of other tables. Determined columns become `any_value`, so that only the key is
hashed.

`GROUP BY a, a - 1` has the groups of `GROUP BY a`: the expression is computed once for each group. Not for floats and
intervals, whose equal values may differ: 0.0 and -0.0, a month and 30 days.

>>> from nyala.planner.testing import show
>>> print(show("SELECT k, a, count(*) FROM t GROUP BY k, a", ["reduce_group_keys"]))
Project k, a, count
  Project k, a, count
    Aggregate by k: any_value(a), count(*)
      Scan t: k, a
>>> print(show("SELECT a, a - 1 AS b, count(*) FROM t GROUP BY a, a - 1", ["reduce_group_keys"]))
Project a, group, count
  Project a, a - 1, count
    Aggregate by a: count(*)
      Scan t: k, a
"""

from __future__ import annotations

from collections.abc import Set

from ...model.types import Kind
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Column, Expr
from ...sql.functions import is_volatile
from ..algebra.logical import Aggregate, Node, Project
from ..algebra.properties import determined
from ..algebra.trees import columns_in, passing, rewrite_nodes, substitute
from ..context import Context


def reduce_group_keys(root: Node, context: Context) -> Node:
    """Replace groups that others determine by `any_value`, or by their expression over the others."""
    return rewrite_nodes(root, lambda node: _reduce(_compute_above(node)) if isinstance(node, Aggregate) else node)


def _compute_above(node: Aggregate) -> Node:
    """Compute groups that are functions of columns among the groups from the result."""
    if len(node.groups) < 2 or node.sets is not None:
        return node
    columns = {
        expr.id: column
        for column, expr in node.groups
        if isinstance(expr, Column) and not expr.type.is_float and expr.type.kind is not Kind.INTERVAL
    }
    computed = {column.id: expr for column, expr in node.groups if _is_function_of(expr, columns.keys())}
    if not computed:
        return node
    kept = tuple(group for group in node.groups if group[0].id not in computed)
    items = [
        (column, substitute(computed[column.id], columns) if column.id in computed else column)
        for column in node.columns
    ]
    return Project(_reduce(Aggregate(node.source, kept, node.aggregates)), tuple(items))


def _is_function_of(expr: Expr, columns: Set[int]) -> bool:
    used = columns_in(expr)
    return not isinstance(expr, Column) and bool(used) and used <= columns and not is_volatile(expr)


def _reduce(node: Node) -> Node:
    if not isinstance(node, Aggregate):
        return node
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
