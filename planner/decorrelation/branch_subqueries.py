"""Subqueries that only some rows need: those in the branches of CASE, COALESCE, AND and OR.

A subquery becomes a join, which would compute it for every row of the outer query. If that may fail (a division by
zero, a second row), only the rows that take the branch may reach it. So the outer query gets a column, the *guard*, and
the subquery reads it like any other outer column:

    CASE WHEN n = 0 THEN 0 ELSE (SELECT 8 / n) END      guard: CASE WHEN n = 0 THEN FALSE ELSE TRUE END
                                                        (SELECT CASE WHEN guard THEN 8 / n END)

Subqueries that cannot fail get no guard, since a guard costs a correlation. A correlated subquery in no branch gets
one, too, if it may fail for rows of its own that no outer row meets (`fails_for_others`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...model.lazy_dataclass import dataclass
from ...model.types import BOOLEAN
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Call, Case, Column, Expr, Literal, conjuncts
from ...sql.expressions import Window as WindowCall
from ..algebra.logical import Aggregate, Filter, Join, Node, Project, Shared, Sort, Values
from ..algebra.trees import (
    FALSE,
    TRUE,
    columns_in,
    free_columns,
    has_subquery,
    is_null,
    map_expressions,
    map_parts,
    node_expressions,
)
from .partial_aggregates import never_fails

Step = tuple[Expr, bool]
"""A condition, and the truth value with which a row passes: if False, rows pass for which it is not true."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The rows that need an expression: those that pass all steps, one after the other. No step: every row."""

    steps: tuple[Step, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    def where(self, condition: Expr) -> Guard:
        """Restrict the guard to rows for which a condition is true as well."""
        return Guard((*self.steps, (condition, True)))

    def unless(self, condition: Expr) -> Guard:
        """Restrict the guard to rows for which a condition is not true as well."""
        return Guard((*self.steps, (condition, False)))

    def covers(self, other: Guard) -> bool:
        """True if each row that passes `other` passes this one."""
        return other.steps[: len(self.steps)] == self.steps

    def condition(self) -> Expr:
        """Condition that is true or false for every row; no step is evaluated for a row that has failed an earlier
        one."""
        nested: Expr = TRUE
        for step, wanted in reversed(self.steps):
            yes, no = (nested, FALSE) if wanted else (FALSE, nested)
            nested = Case(BOOLEAN, False, ((step, yes),), no)
        return nested


EVERY_ROW = Guard()

Flatten = Callable[[Expr, Guard], Expr]
"""Flattens the subqueries of an expression, which are computed for the guard's rows only."""


def flatten_lazily(expr: Expr, guard: Guard, flatten: Flatten) -> Expr | None:
    """Flatten the parts of a lazy expression in order of evaluation; None for an expression that is not lazy."""
    if isinstance(expr, Case):
        return _case(expr, guard, flatten)
    if not isinstance(expr, Call):
        return None
    if expr.function == "coalesce":
        args: list[Expr] = []
        for arg in expr.args:
            args.append(flatten(arg, guard))
            guard = guard.where(is_null(args[-1]))
        return replace(expr, args=tuple(args))
    if expr.function in ("and", "or"):
        # The executor evaluates parts that cannot fail first.
        for arg in expr.args:
            if not has_subquery(arg):
                guard = guard.unless(arg if expr.function == "or" else Call(BOOLEAN, False, "is_false", (arg,)))
        return replace(expr, args=tuple(flatten(arg, guard) for arg in expr.args))
    return None


def _case(expr: Case, guard: Guard, flatten: Flatten) -> Case:
    branches: list[tuple[Expr, Expr]] = []
    for condition, value in expr.branches:
        test = flatten(condition, guard)
        branches.append((test, flatten(value, guard.where(test))))
        guard = guard.unless(test)
    return replace(expr, branches=tuple(branches), default=flatten(expr.default, guard))


def may_fail(plan: Node) -> bool:
    """True if an expression of the plan may fail for a row."""
    return any(_fails(expr) for expr in node_expressions(plan)) or any(
        may_fail(child) for child in plan.children() if not isinstance(child, Shared)
    )


def fails_for_others(plan: Node) -> bool:
    """True if a subquery may fail for a row of its own that no row of the outer query meets.

    `SELECT (SELECT 8 / u.n FROM u WHERE u.k = t.k) FROM t` needs no row of u whose k is not in t. As a join it would
    divide for all of them first, so it gets a guard that is true for every row of t.
    """
    above = plan
    while isinstance(above, Project | Filter | Sort) and not isinstance(above.source, Values):
        above = above.source
    # Expressions over the aggregates of all rows are computed for each row of the outer query, above the join.
    return _fails_beside(above if isinstance(above, Aggregate) and above.is_total else plan)


def _fails_beside(plan: Node) -> bool:
    """True if a predicate with outer columns is below, or in, a node with an expression of its own that may fail."""
    if not (outer := free_columns(plan)):
        return False
    if isinstance(plan, Shared):
        return _fails_beside(plan.source)
    below = any(free_columns(child) for child in plan.children())
    exprs = node_expressions(plan)
    if isinstance(plan, Filter | Join):
        exprs = [part for expr in exprs for part in conjuncts(expr)]
    beside = [isinstance(plan, Filter | Join) and bool(columns_in(expr) & outer) for expr in exprs]
    for place, expr in enumerate(exprs):
        if _fails(expr) and (below or any(beside[:place]) or any(beside[place + 1 :])):
            return True
    return any(_fails_beside(child) for child in plan.children())


def guarded(plan: Node, guard: Column) -> Node:
    """Return the plan with each expression that may fail computed only if the guard, an outer column, is true."""
    return _with_guard(plan, guard, {})


def _with_guard(plan: Node, guard: Column, shared: dict[int, Node]) -> Node:
    """Guard a plan; `shared` are the sources of shared subplans with outer columns, by key: all uses have the same
    one."""
    if isinstance(plan, Shared):
        if not free_columns(plan):
            return plan
        if plan.key not in shared:
            shared[plan.key] = _with_guard(plan.source, guard, shared)
        return replace(plan, source=shared[plan.key])
    plan = plan.map_children(lambda child: _with_guard(child, guard, shared))
    return map_expressions(plan, lambda expr: _guarded(expr, guard))


def _guarded(expr: Expr, guard: Column) -> Expr:
    if isinstance(expr, AggregateCall | WindowCall):
        return map_parts(expr, lambda part: _guarded(part, guard))
    if not _fails(expr):
        return expr
    if isinstance(expr, Call) and expr.function == "and":
        # Expressions that cannot fail still join the subquery with the outer query.
        return replace(expr, args=tuple(_guarded(arg, guard) for arg in expr.args), nullable=True)
    return Case(expr.type, True, ((guard, expr),), Literal(expr.type, True, None))


def _fails(expr: Expr) -> bool:
    if isinstance(expr, AggregateCall | WindowCall):
        return any(_fails(part) for part in _parts(expr))
    return not has_subquery(expr) and not never_fails(expr)


def _parts(expr: Expr) -> Sequence[Expr]:
    flattened: list[Expr] = []

    def note(part: Expr) -> Expr:
        flattened.append(part)
        return part

    map_parts(expr, note)
    return flattened
