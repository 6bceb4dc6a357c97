"""Taking the outer references out of a subquery's plan: the machinery under `rules/decorrelate_subqueries.py`.

A correlated subquery reads columns of the query around it. Two ways lead to a plan that does not:

1. `pull` lifts the predicates that hold the outer references out of the subquery, through projections, joins and
   (equalities only) aggregates, so that they become the condition of the join with the outer query. Nearly all
   subqueries that people write go this way, and what comes out is what they would have written as a join.
2. `inject` works for the rest (Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015): the distinct outer
   values, the *domain*, are joined into the subquery's leaves and carried up to its top, so that one run gives the
   answers for all of them; the outer query joins on the carried columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..errors import NotSupportedError
from ..sql.expressions import Aggregate as AggregateCall
from ..sql.expressions import Column, Expr, Literal, conjuncts
from ..storage.types import BIGINT
from .logical import Aggregate, Filter, Join, Limit, Node, Project, SetOperation, Shared, SingleRow, Sort, Values
from .trees import (
    Numbers,
    all_of,
    as_equality,
    call,
    case,
    column_ids,
    columns_in,
    columns_in_all,
    filtered,
    free_columns,
    is_null,
    negate,
    node_expressions,
    passing,
    substitute,
)


class CannotPull(Exception):
    """The correlation sits where `pull` cannot lift it; `inject` can."""


def pull(node: Node, numbers: Numbers) -> tuple[Node, list[Expr]]:
    """The plan without its correlated predicates, and these, over outer columns and columns that it gives out.

    Raises `CannotPull` where an outer reference stands anywhere else.
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
        if not node.groups:
            raise CannotPull
        return pull_through_groups(node, numbers)
    if isinstance(node, Join):
        return _pull_join(node, numbers)
    if isinstance(node, Sort) and node.limit is None and node.offset is None:
        return pull(node.source, numbers)
    raise CannotPull


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
    """The aggregate grouped by its correlated expressions as well, and `outer = group` for each.

    Where `node` has no groups, the caller must mind the outer rows without partner.
    """
    source, lifted = pull(node.source, numbers)
    inside = column_ids(source)
    if not columns_in_all(node_expressions(node)) <= inside:
        raise CannotPull
    groups = list(node.groups)
    conditions: list[Expr] = []
    for part in lifted:
        outer, inner = _correlated_equality(part, inside)
        known = next((column for column, expr in groups if expr == inner), None)
        if known is None:
            known = inner if isinstance(inner, Column) else numbers.column(inner)
            groups.append((known, inner))
        conditions.append(call("eq", outer, known))
    return Aggregate(source, tuple(groups), node.aggregates), conditions


def _correlated_equality(part: Expr, inside: frozenset[int]) -> tuple[Expr, Expr]:
    """`part` as (outer expression, inner expression); `CannotPull` where it is no such equality."""
    sides = as_equality(part)
    if sides is not None:
        for outer, inner in (sides, sides[::-1]):
            if columns_in(inner) and columns_in(inner) <= inside and not columns_in(outer) & inside:
                return outer, inner
    raise CannotPull


# ---- the domain --------------------------------------------------------------------------------------------------


class Domain:
    """The distinct values of outer columns, to be joined into a subquery as often as needed.

    `values` gives them, one column for each of `references`; those numbered in `solid` hold no NULL.
    """

    def __init__(self, values: Node, references: Sequence[Column], solid: frozenset[int], key: int, numbers: Numbers):
        self._source = values
        self._key = key
        self._solid = solid
        self.numbers = numbers
        self.references = tuple(references)

    def use(self) -> tuple[Node, dict[int, Column]]:
        """A use of the domain, and the column that stands for each outer column in it."""
        fresh = tuple(self.numbers.column(column) for column in self.references)
        node = Shared(self._key, self._source, fresh)
        return node, {outer.id: own for outer, own in zip(self.references, fresh, strict=True)}

    def equal(self, first: Mapping[int, Column], second: Mapping[int, Column]) -> list[Expr]:
        """Conditions that two uses (or a use and the outer query itself) stand for the same outer row; NULL equals
        NULL here."""
        found: list[Expr] = []
        for outer in self.references:
            a, b = first[outer.id], second[outer.id]
            found.append(call("eq", a, b) if outer.id in self._solid else same_or_both_null(a, b))
        return found


def same_or_both_null(first: Expr, second: Expr) -> Expr:
    """`first IS NOT DISTINCT FROM second`."""
    distinct = replace(call("is_distinct", first, second), nullable=False)
    return replace(call("not", distinct), nullable=False)


Carried = tuple[Node, dict[int, Column]]


def inject(node: Node, domain: Domain) -> Carried:
    """The plan for every row of the domain at once: its rows, each with the domain's columns it is the answer for."""
    outer = {column.id for column in domain.references}
    if not free_columns(node) & outer:
        use, carried = domain.use()
        return Join("cross", node, use), carried
    if isinstance(node, Filter):
        source, carried = inject(node.source, domain)
        return Filter(source, substitute(node.predicate, carried)), carried
    if isinstance(node, Project):
        source, carried = inject(node.source, domain)
        items = tuple((column, substitute(expr, carried)) for column, expr in node.items)
        return Project(source, items + passing(carried.values())), carried
    if isinstance(node, Aggregate):
        return _inject_aggregate(node, domain)
    if isinstance(node, Join):
        return _inject_join(node, domain)
    if isinstance(node, Sort) and node.limit is None and node.offset is None:
        return inject(node.source, domain)
    if isinstance(node, SetOperation):
        return _inject_set_operation(node, domain)
    if isinstance(node, SingleRow):
        source, carried = inject(node.source, domain)
        use, whole = domain.use()
        joined = Join("single", use, source, all_of(domain.equal(whole, carried)))
        return Project(joined, passing((*node.columns, *whole.values()))), whole
    if isinstance(node, Values) and len(node.rows) == 1:
        use, carried = domain.use()
        row = zip(node.output, node.rows[0], strict=True)
        return Project(use, tuple((c, substitute(e, carried)) for c, e in row) + passing(carried.values())), carried
    if isinstance(node, (Limit, Sort)):
        raise NotSupportedError(
            "LIMIT inside a subquery that refers to the query around it is not supported; use min() or max(), or join "
            "and aggregate instead"
        )
    raise NotSupportedError(f"a reference to the outer query inside {type(node).__name__} is not supported")


def _inject_aggregate(node: Aggregate, domain: Domain) -> Carried:
    source, carried = inject(node.source, domain)
    changed = [(column, substitute(expr, carried)) for column, expr in node.aggregates]
    calls = tuple((column, expr) for column, expr in changed if isinstance(expr, AggregateCall))
    groups = tuple((column, substitute(expr, carried)) for column, expr in node.groups)
    if node.groups:
        return Aggregate(source, groups + passing(carried.values()), calls), carried
    # Without GROUP BY there is a row for every outer row, also where nothing was aggregated.
    inner = Aggregate(source, passing(carried.values()), tuple((domain.numbers.column(c), e) for c, e in calls))
    use, whole = domain.use()
    joined = Join("left", use, inner, all_of(domain.equal(whole, carried)))
    items = tuple(
        (column, over_no_rows(made, call_)) for (column, call_), (made, _) in zip(calls, inner.aggregates, strict=True)
    )
    return Project(joined, items + passing(whole.values())), whole


def over_no_rows(column: Column, aggregate: AggregateCall) -> Expr:
    """The value of an aggregate's column above an outer join that leaves it NULL where there was nothing to
    aggregate: COUNT is then 0."""
    value = replace(column, nullable=True)
    if aggregate.function != "count":
        return value
    return replace(case(is_null(value), Literal(BIGINT, False, 0), value), type=column.type, nullable=False)


def _inject_join(node: Join, domain: Domain) -> Carried:
    if node.kind in ("right", "full"):
        raise NotSupportedError(f"a reference to the outer query below a {node.kind.upper()} JOIN is not supported")
    outer = {column.id for column in domain.references}
    conditions = conjuncts(node.condition)
    right_free = bool(free_columns(node.right) & outer)
    if right_free and node.kind in ("inner", "cross") and not free_columns(node.left) & outer:
        right, carried = inject(node.right, domain)
        own = all_of(substitute(part, carried) for part in conditions)
        return Join("cross" if own is None else "inner", node.left, right, own), carried
    left, carried = inject(node.left, domain)
    kind, right = node.kind, node.right
    parts = [substitute(part, carried) for part in conditions]
    if right_free:
        if kind == "null_anti":
            # The domain's equality must not count as "perhaps", so the null-aware part is spelt out.
            kind, parts = "anti", [may_be_true(part) for part in parts]
        right, again = inject(right, domain)
        parts = [substitute(part, carried) for part in parts] + domain.equal(carried, again)
    own = all_of(parts)
    if kind in ("inner", "cross"):
        kind = "cross" if own is None else "inner"
    joined: Node = Join(kind, left, right, own)
    if right_free and kind in ("inner", "left", "single"):
        joined = Project(joined, passing((*node.columns, *carried.values())))
    return joined, carried


def may_be_true(part: Expr) -> Expr:
    """`part IS NOT FALSE`: true where the condition is true or NULL."""
    return replace(negate(replace(call("is_false", part), nullable=False)), nullable=False)


def _inject_set_operation(node: SetOperation, domain: Domain) -> Carried:
    sides: list[Node] = []
    for side in (node.left, node.right):
        inner, carried = inject(side, domain)
        sides.append(Project(inner, passing((*side.columns, *carried.values()))))
    output = tuple(domain.numbers.column(column) for column in domain.references)
    whole = {outer.id: own for outer, own in zip(domain.references, output, strict=True)}
    return replace(node, left=sides[0], right=sides[1], output=node.output + output), whole
