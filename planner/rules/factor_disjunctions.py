"""Extract from an OR the conjuncts common to all branches, and its implications for each relation alone.

`(a AND x) OR (a AND y)` is `a AND (x OR y)`: TPC-H's Q19 hides its join condition like that. And `(t1 AND u1) OR (t2
AND u2)` implies `t1 OR t2` for the rows of t and `u1 OR u2` for those of u. So both can be filtered before they are
joined (Q7's pairs of nations).

>>> from nyala.planner.testing import show
>>> query = "SELECT t.a FROM t, u WHERE t.a = u.b AND t.k = 1 AND u.c = 2 OR t.a = u.b AND t.k = 3 AND u.c = 4"
>>> print(show(query, ["factor_disjunctions"]))
Project a
  Filter a = b AND (k = 1 AND c = 2 OR k = 3 AND c = 4) AND k IN (1, 3) AND c IN (2, 4)
    Join cross
      Scan t: k, a
      Scan u: b, c
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...sql.expressions import Call, Expr, InValues, Literal, conjuncts
from ..algebra.logical import Filter, Join, Node, Project, Shared
from ..algebra.trees import TRUE, all_of, any_of, column_ids, columns_in, disjuncts, distinct, in_values, rewrite_nodes
from ..context import Context


def factor_disjunctions(root: Node, context: Context) -> Node:
    """Factor the ORs in filters and inner joins."""
    return rewrite_nodes(root, _factored)


def _factored(node: Node) -> Node:
    if isinstance(node, Filter):
        predicate = _improve(node.predicate, node.source)
        return node if predicate is node.predicate else Filter(node.source, predicate)
    if isinstance(node, Join) and node.kind == "inner" and node.condition is not None:
        condition = _improve(node.condition, node)
        return node if condition is node.condition else replace(node, condition=condition)
    return node


def _improve(predicate: Expr, source: Node) -> Expr:
    parts = conjuncts(predicate)
    if not any(isinstance(part, Call) and part.function == "or" for part in parts):
        return predicate
    factored: list[Expr] = []
    for part in parts:
        factored += conjuncts(common_factors(part))
    relations = [column_ids(leaf) for leaf in _leaves(source)]
    implied: list[Expr] = []
    for part in factored:
        if isinstance(part, Call) and part.function == "or":
            implied += implications(part, relations)
    improved = all_of([*factored, *implied]) or TRUE
    return predicate if improved == predicate else improved


def _leaves(node: Node) -> Iterator[Node]:
    if isinstance(node, Join):
        yield from _leaves(node.left)
        if node.kind not in ("semi", "anti", "null_anti"):
            yield from _leaves(node.right)
    elif isinstance(node, Filter):
        yield from _leaves(node.source)
    elif not isinstance(node, (Project, Shared)):
        yield node


def common_factors(expr: Expr) -> Expr:
    """Rewrite `(a AND x) OR (a AND y)` as `a AND (x OR y)`, and `x = 1 OR x = 2` as `x IN (1, 2)`."""
    if not isinstance(expr, Call) or expr.function != "or":
        return expr
    branches = [conjuncts(branch) for branch in disjuncts(expr)]
    held = [frozenset(branch) for branch in branches[1:]]
    common = [part for part in branches[0] if all(part in branch for branch in held)]
    if not common:
        return merged_values(expr)
    shared = frozenset(common)
    rests = [all_of(part for part in branch if part not in shared) for branch in branches]
    if any(rest is None for rest in rests):
        # One branch has no further conjunct, so the others add nothing: absorption.
        return all_of(common) or TRUE
    return all_of([*common, merged_values(any_of(rest for rest in rests if rest is not None))]) or TRUE


def merged_values(expr: Expr) -> Expr:
    """Merge an OR of equalities of one expression with literals into one IN list."""
    lists = [in_values(branch) for branch in disjuncts(expr)]
    first = lists[0]
    if len(lists) < 2 or first is None:
        return expr
    items: list[Expr] = []
    for values in lists:
        if values is None or values[0] != first[0] or not all(isinstance(item, Literal) for item in values[1]):
            return expr
        items += values[1]
    return InValues(expr.type, expr.nullable, first[0], tuple(distinct(items)))


def implications(expr: Call, relations: list[frozenset[int]]) -> list[Expr]:
    """Conditions on each relation alone that an OR over several relations implies."""
    read = columns_in(expr)
    if any(read <= relation for relation in relations):
        return []
    branches = [conjuncts(branch) for branch in disjuncts(expr)]
    implied: list[Expr] = []
    for relation in relations:
        if not read & relation:
            continue
        own = [all_of(p for p in branch if columns_in(p) and columns_in(p) <= relation) for branch in branches]
        solid = [part for part in own if part is not None]
        if len(solid) == len(branches):
            implied.append(common_factors(merged_values(any_of(solid))))
    return implied
