"""Filter a shared subplan by the OR of the conditions that its uses put on it.

A CTE that is used several times is computed once, so the condition of a single use cannot be pushed into it. But a row
that every use drops need not be produced: if each use stands under a filter, the subplan is filtered by their OR.
TPC-DS's Q4 computes the sales of all customers in all years, in three channels, and reads two of the years.

The OR is pushed down as far as it has an effect: into the branches of a UNION ALL, where a constant may decide some of
its alternatives; below an aggregation with its conditions on the groups. The filters above the uses stay.

>>> from nyala.planner.testing import show
>>> query = '''WITH c AS (SELECT 's' AS x, a, k FROM t UNION ALL SELECT 'w', c, b FROM u)
...     SELECT x.k FROM c AS x, c AS y WHERE x.k = y.k AND x.x = 's' AND x.a = 1 AND y.x = 's' AND y.a = 2'''
>>> print(show(query, ["pushdown_predicates", "filter_shared"]))
Project k
  Join inner on k = k
    Filter x = 's' AND a = 1
      Shared 1 as x, a, k
    Filter x = 's' AND a = 2
      Shared 1 as x, a, k
Shared 1:
  Union all
    Project 's', a, k
      Scan t: k, a WHERE a IN (1, 2)
    Project 'w', c, b
      Values: no rows of b, c
"""

from __future__ import annotations

from collections.abc import Mapping

from ...sql.expressions import Expr, Literal, conjuncts
from ...sql.functions import is_volatile
from ..algebra.logical import Aggregate, Filter, Node, Project, SetOperation, Shared, Values
from ..algebra.trees import all_of, any_of, columns_in, filtered, nodes, substitute
from ..context import Context
from ..fold import fold_predicate
from .factor_disjunctions import factor_disjunctions
from .pushdown_predicates import pushdown_predicates

Alternative = tuple[Expr, ...]
"""The condition of one use: a conjunction over the columns of a shared subplan."""
MOST_ALTERNATIVES = 16
"""Largest number of alternatives of an OR whose tests are worth their cost."""


def filter_shared(root: Node, context: Context) -> Node:
    """Record in the context the conditions of the filters above the uses of shared subplans, for `filtered_for`."""
    for node in nodes(root):
        conditions = conjuncts(node.predicate) if isinstance(node, Filter) else []
        for child in node.children():
            if isinstance(child, Shared):
                _note(child, conditions, context)
    if isinstance(root, Shared):
        _note(root, [], context)
    return root


def _note(use: Shared, conditions: list[Expr], context: Context) -> None:
    inner = dict(zip((column.id for column in use.output), use.source.columns, strict=True))
    condition = tuple(substitute(part, inner) for part in conditions if not is_volatile(part))
    context.use_conditions.setdefault(use.key, []).append(condition)


def filtered_for(plan: Node, alternatives: list[Alternative], context: Context) -> Node:
    """Return a shared subplan without the rows that every use drops; itself if some use needs all rows."""
    narrowed = _narrowed(plan, list(dict.fromkeys(alternatives)))
    if narrowed is plan:
        return plan
    return pushdown_predicates(factor_disjunctions(narrowed, context), context)


def _narrowed(node: Node, alternatives: list[Alternative]) -> Node:
    """Return the node with at least the rows that satisfy one of the alternatives."""
    if not alternatives:
        return Values(node.columns, ())
    if len(alternatives) > MOST_ALTERNATIVES or () in alternatives:
        return node
    if isinstance(node, Project):
        made = {column.id: expr for column, expr in node.items}
        drawn = frozenset(number for number, expr in made.items() if is_volatile(expr))
        return node.map_children(lambda child: _narrowed(child, _below(alternatives, made, frozenset(made) - drawn)))
    if isinstance(node, Aggregate) and not node.is_total:
        groups = {column.id: expr for column, expr in node.common_groups if not is_volatile(expr)}
        return node.map_children(lambda child: _narrowed(child, _below(alternatives, groups, frozenset(groups))))
    if isinstance(node, Filter):
        return node.map_children(lambda child: _narrowed(child, alternatives))
    if isinstance(node, SetOperation) and node.kind == "union":
        return node.map_children(lambda side: _narrowed(side, _of_side(node, side, alternatives)))
    return filtered(node, any_of(all_of(condition) or condition[0] for condition in alternatives))


def _of_side(union: SetOperation, side: Node, alternatives: list[Alternative]) -> list[Alternative]:
    columns: dict[int, Expr] = {own.id: inner for own, inner in zip(union.output, side.columns, strict=True)}
    return _below(alternatives, columns, frozenset(columns))


def _below(alternatives: list[Alternative], made: Mapping[int, Expr], readable: frozenset[int]) -> list[Alternative]:
    """Rewrite the alternatives over the expressions that columns derive from, without conjuncts that read others.
    Alternatives that cannot be true are removed."""
    distinct_conditions: dict[Alternative, None] = {}
    for condition in alternatives:
        parts = [fold_predicate(substitute(part, made)) for part in condition if columns_in(part) <= readable]
        if all(not isinstance(part, Literal) or part.value for part in parts):
            distinct_conditions[tuple(part for part in parts if not isinstance(part, Literal))] = None
    return list(distinct_conditions)
