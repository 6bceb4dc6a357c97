"""Lifting of correlated predicates out of a subquery's plan, for `rules/decorrelate_subqueries.py`.

A correlated subquery reads columns of the enclosing query. There are two ways to a plan that does not. `pull` lifts the
predicates that hold the outer references through projections, joins and (equalities only) aggregates and limits. They
become the condition of the join with the outer query. Nearly all subqueries in practice are handled this way; the
result is the join that one would write by hand. `inject_domain.inject` handles the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...sql.expressions import Column, Expr, conjuncts
from ..algebra.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Series,
    Sort,
    TopRows,
    Window,
)
from ..algebra.trees import (
    Numbers,
    all_of,
    as_equality,
    call,
    column_ids,
    columns_in,
    columns_in_all,
    filtered,
    free_columns,
    node_expressions,
    passing,
)
from ..algebra.windows import partitioned


class CannotPull(Exception):
    """Raised if the correlation lies where `pull` cannot lift it; `inject` can handle it."""


def pull(node: Node, numbers: Numbers) -> tuple[Node, list[Expr]]:
    """Return the plan without its correlated predicates, and these, over outer columns and columns that it produces.

    Raises `CannotPull` if an outer reference occurs anywhere else.
    """
    if not free_columns(node):
        return node, []
    if isinstance(node, Filter):
        source, lifted = pull(node.source, numbers)
        inside = column_ids(source)
        own = [part for part in conjuncts(node.predicate) if columns_in(part) <= inside]
        return filtered(source, all_of(own)), lifted + [p for p in conjuncts(node.predicate) if p not in own]
    if isinstance(node, Project):
        source, lifted = pull(node.source, numbers)
        inside = column_ids(source)
        if not columns_in_all(expr for _, expr in node.items) <= inside:
            raise CannotPull
        wanted = columns_in_all(lifted) & inside
        present = column_ids(node)
        extra = [c for c in source.columns if c.id in wanted and c.id not in present]
        return Project(source, node.items + passing(extra)), lifted
    if isinstance(node, Aggregate):
        if node.is_total:
            raise CannotPull
        return pull_through_groups(node, numbers)
    if isinstance(node, Join):
        return _pull_join(node, numbers)
    if isinstance(node, Window):
        return _pull_window(node, numbers)
    if isinstance(node, Sort) and node.limit is None and node.offset is None:
        return pull(node.source, numbers)
    if isinstance(node, (Limit, Sort, TopRows)):
        return _pull_limit(first_of_one_group(node), numbers)
    if isinstance(node, Series):
        source, lifted = pull(node.source, numbers)
        if columns_in_all(node_expressions(node)) <= column_ids(source):
            return replace(node, source=source), lifted
    raise CannotPull


def first_of_one_group(node: Limit | Sort | TopRows) -> TopRows:
    """Return a limit as the first rows of one group that holds all rows."""
    if isinstance(node, TopRows):
        return node
    if isinstance(node, Sort):
        return TopRows(node.source, (), node.order, node.limit, node.offset)
    if isinstance(node.source, Project) and isinstance(node.source.source, Sort):
        sort = node.source.source
        first = TopRows(sort.source, (), sort.order, node.limit, node.offset)
        order = {column.id: column for column in first.columns}
        # The order may read columns that the projection drops, so the limit goes below it; `TopRows` keeps all columns.
        kept = [order[number] for number in order.keys() - column_ids(node.source)]
        return replace(first, source=Project(sort.source, node.source.items + passing(_made_below(kept, sort))))
    if isinstance(node.source, Sort) and node.source.limit is None and node.source.offset is None:
        return TopRows(node.source.source, (), node.source.order, node.limit, node.offset)
    return TopRows(node.source, (), (), node.limit, node.offset)


def _made_below(columns: Sequence[Column], sort: Sort) -> list[Column]:
    wanted = columns_in_all(item.expr for item in sort.order)
    return [column for column in columns if column.id in wanted]


def _pull_limit(node: TopRows, numbers: Numbers) -> tuple[Node, list[Expr]]:
    """Return the first rows for each value of the correlated expressions, instead of the first rows for one of them."""
    source, lifted = pull(node.source, numbers)
    inside = column_ids(source)
    if not columns_in_all(node_expressions(node)) <= inside:
        raise CannotPull
    groups, made, conditions = list(node.groups), list[tuple[Column, Expr]](), list[Expr]()
    for part in lifted:
        outer, inner = _correlated_equality(part, inside)
        column = inner if isinstance(inner, Column) else numbers.column(inner)
        if column is not inner:
            made.append((column, inner))
        groups.append(column)
        conditions.append(call("eq", outer, column))
    if made:
        source = Project(source, (*passing(source.columns), *made))
    return replace(node, source=source, groups=tuple(dict.fromkeys(groups))), conditions


def _pull_join(node: Join, numbers: Numbers) -> tuple[Node, list[Expr]]:
    inside = column_ids(node.left) | column_ids(node.right)
    outer = [part for part in conjuncts(node.condition) if not columns_in(part) <= inside]
    if node.kind in ("inner", "cross"):
        left, lifted_left = pull(node.left, numbers)
        right, lifted_right = pull(node.right, numbers)
        own = all_of(part for part in conjuncts(node.condition) if part not in outer)
        return Join("cross" if own is None else "inner", left, right, own), lifted_left + lifted_right + outer
    if outer or node.kind in ("right", "full") or free_columns(node.right):
        raise CannotPull
    left, lifted = pull(node.left, numbers)
    return replace(node, left=left), lifted


def pull_through_groups(node: Aggregate, numbers: Numbers) -> tuple[Aggregate, list[Expr]]:
    """Return the aggregate grouped by its correlated expressions as well, and `outer = group` for each.

    If `node` has no groups, the caller must handle the outer rows without partner.
    """
    source, lifted = pull(node.source, numbers)
    inside = column_ids(source)
    if not columns_in_all(node_expressions(node)) <= inside:
        raise CannotPull
    added: list[tuple[Column, Expr]] = []
    conditions: list[Expr] = []
    for part in lifted:
        outer, inner = _correlated_equality(part, inside)
        known = next((column for column, expr in (*node.common_groups, *added) if expr == inner), None)
        if known is None:
            known = inner if isinstance(inner, Column) else numbers.column(inner)
            added.append((known, inner))
        conditions.append(call("eq", outer, known))
    return node.grouped_also(source, tuple(added)), conditions


def _pull_window(node: Window, numbers: Numbers) -> tuple[Node, list[Expr]]:
    """Return the node with a partition for each outer row, as each `inner = outer` selects all rows of some
    partitions."""
    source, lifted = pull(node.source, numbers)
    inside = column_ids(source)
    if not columns_in_all(node_expressions(node)) <= inside:
        raise CannotPull
    return partitioned(node, source, [_correlated_equality(part, inside)[1] for part in lifted]), lifted


def _correlated_equality(part: Expr, inside: frozenset[int]) -> tuple[Expr, Expr]:
    """Return `part` as (outer expression, inner expression); raises `CannotPull` if it is no such equality."""
    sides = as_equality(part)
    if sides is not None:
        for outer, inner in (sides, sides[::-1]):
            if columns_in(inner) and columns_in(inner) <= inside and not columns_in(outer) & inside:
                return outer, inner
    raise CannotPull
