"""Aggregate the right side of a left join before the join, if the left side's unique key is the group.

`customer LEFT JOIN orders ON o_custkey = c_custkey GROUP BY c_custkey` has one group per customer, made of that
customer's orders. So the orders are counted per customer first, and each customer joins one row instead of many. A
customer without orders had one row of NULLs to aggregate: COUNT of it is 0, the others are NULL.

>>> from nyala.planner.testing import show
>>> print(show("SELECT v.d, count(b) FROM v LEFT JOIN u ON v.d = u.c GROUP BY v.d", ["aggregate_before_join"]))
Project d, count
  Project d, CASE WHEN count IS NULL THEN 0 ELSE count END
    Join left on d = c
      Scan v: d, e
      Aggregate by c: count(b)
        Scan u: b, c
"""

from __future__ import annotations

from ...sql.expressions import Column, Expr, conjuncts
from ..algebra.logical import Aggregate, Join, Node, Project
from ..algebra.properties import determined, unique_keys
from ..algebra.trees import column_equality, column_ids, columns_in, columns_in_all, passing, rewrite_nodes
from ..context import Context
from ..decorrelation.inject_domain import over_no_rows

SAFE = frozenset(
    [
        *("count", "sum", "min", "max", "avg", "product", "approx_count_distinct"),
        *("bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "var_pop", "var_samp", "stddev_pop", "stddev_samp"),
    ]
)
"""Aggregates of one argument that are NULL (or 0, for counts) over NULLs alone."""


def aggregate_before_join(root: Node, context: Context) -> Node:
    """Move aggregates below left joins."""
    return rewrite_nodes(root, lambda node: _moved(node, context) if isinstance(node, Aggregate) else node)


def _moved(node: Aggregate, context: Context) -> Node:
    join = node.source
    while isinstance(join, Project) and all(isinstance(e, Column) and e.id == c.id for c, e in join.items):
        join = join.source
    if not isinstance(join, Join) or join.kind != "left" or not node.groups or node.sets is not None:
        return node
    pairs = _key_pairs(join)
    if pairs is None or not _groups_are_left_rows(node, join) or not _aggregates_fit(node, join):
        return node
    if not {left.id for left, _ in pairs} >= _some_key(join):
        return node
    groups = passing(dict.fromkeys(right for _, right in pairs))
    calls = tuple((context.numbers.column(column, column.name), call) for column, call in node.aggregates)
    inner = Aggregate(join.right, groups, calls)
    values: list[tuple[Column, Expr]] = [(column, expr) for column, expr in node.groups]
    for (column, call), (made, _) in zip(node.aggregates, calls, strict=True):
        values.append((column, over_no_rows(made, call)))
    return Project(Join("left", join.left, inner, join.condition), tuple(values))


def _key_pairs(join: Join) -> list[tuple[Column, Column]] | None:
    """Return the join's condition as pairs of (left, right) columns; None if it contains anything else."""
    left = column_ids(join.left)
    pairs: list[tuple[Column, Column]] = []
    for part in conjuncts(join.condition):
        pair = column_equality(part)
        if pair is None or (pair[0].id in left) == (pair[1].id in left):
            return None
        pairs.append(pair if pair[0].id in left else (pair[1], pair[0]))
    return pairs or None


def _some_key(join: Join) -> frozenset[int]:
    """Return a unique key of the left side; if there is none, a key that no column has."""
    return min(unique_keys(join.left), key=len, default=frozenset((-1,)))


def _groups_are_left_rows(node: Aggregate, join: Join) -> bool:
    """True if each group is exactly one row of the left side."""
    left = column_ids(join.left)
    groups = [expr.id for _, expr in node.groups if isinstance(expr, Column)]
    if len(groups) < len(node.groups) or not set(groups) <= left:
        return False
    closure = determined(join.left, groups)
    return any(key <= closure for key in unique_keys(join.left))


def _aggregates_fit(node: Aggregate, join: Join) -> bool:
    """True if all aggregates read the right side, so that a row of NULLs contributes nothing."""
    right = column_ids(join.right)
    for _, call in node.aggregates:
        read = columns_in_all(call.args)
        strict = len(call.args) == 1 and isinstance(call.args[0], Column)
        if call.function not in SAFE or call.filter is not None or not strict or not read or not read <= right:
            return False
    return bool(node.aggregates) and not columns_in(join.condition) & {c.id for c, _ in node.aggregates}
