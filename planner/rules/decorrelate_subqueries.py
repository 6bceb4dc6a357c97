"""Turn every subquery expression into a join.

| subquery | where | becomes |
|---|---|---|
| `EXISTS (q)`, `x IN (q)`, `x op ANY (q)` | a conjunct of a filter | semi join |
| `NOT EXISTS (q)`, `x op ALL (q)` | a conjunct of a filter | anti join; for ALL with "or NULL" in its condition |
| `x NOT IN (q)` | a conjunct of a filter | anti join where neither side can be NULL, else null-aware |
| any of these | anywhere else | left join with a marker column |
| scalar, uncorrelated | anywhere | cross join with `SingleRow` |
| scalar aggregate, correlated by equality | anywhere | left join with the aggregate grouped by the correlated columns |
| the same over tables that the outer query joins under the same conditions | anywhere | window over its rows |
| scalar, correlated otherwise | anywhere | single join |
| correlated, with values that may fail | anywhere | join with the results for all outer values |
| correlated, with `random()` or the like | anywhere | join with its results for every row, by the row's number |
| LATERAL, or in the ON of an outer join over both its sides | FROM | join with all results at once |

>>> from nyala.planner.testing import show
>>> print(show("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b = t.a)", ["decorrelate_subqueries"]))
Project a
  Join semi on b = a
    Scan t: k, a
    Scan u: b, c
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...errors import InternalError, NotSupportedError
from ...model.types import BIGINT, BOOLEAN
from ...sql.bound import Query
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Call, Case, Column, Expr, Literal, conjuncts, walk
from ...sql.expressions import Window as WindowCall
from ...sql.subqueries import SUBQUERIES, Exists, InSubquery, Quantified, ScalarSubquery
from ..algebra.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Series,
    SetOperation,
    Shared,
    SingleRow,
    Sort,
    Values,
    Window,
)
from ..algebra.properties import exactly_one_row, never_null, not_null_columns, unique_keys
from ..algebra.trees import (
    NEGATED,
    TRUE,
    UNKNOWN,
    all_of,
    as_equality,
    call,
    column_ids,
    columns_in,
    columns_in_all,
    filtered,
    free_columns,
    has_subquery,
    is_null,
    map_parts,
    negate,
    node_expressions,
    nodes,
    passing,
    substitute,
)
from ..context import Context
from ..decorrelation.branch_subqueries import EVERY_ROW, Guard, fails_for_others, flatten_lazily, guarded, may_fail
from ..decorrelation.correlated_windows import as_window
from ..decorrelation.early_filters import filter_early, is_dependent
from ..decorrelation.existence import only_rows
from ..decorrelation.inject_domain import Domain, inject, is_volatile_plan, may_be_true, over_no_rows
from ..decorrelation.pull_predicates import CannotPull, pull, pull_through_groups
from ..logical_builder import Builder
from .order_joins import order_joins
from .pushdown_predicates import pushdown_predicates


def decorrelate_subqueries(root: Node, context: Context) -> Node:
    """Turn every subquery expression of the plan into a join."""
    return _Unnester(context).plan(root)


class _Unnester:
    def __init__(self, context: Context):
        self._context = context
        self._numbers = context.numbers
        self._builder = Builder(context)
        self._flat: dict[int, Node] = {}
        self._correlated: dict[int, bool] = {}
        """By the keys of shared subplans: True if they may hold subqueries or columns of outer queries."""
        self._known: dict[int, tuple[Query, Expr, Guard]] = {}
        """Results of scalar subqueries, by the `id` of their queries, and the rows that they hold for. The queries are
        kept, so that their ids are not reused."""
        self._guards: set[int] = set()
        """Columns of the outer queries that the subqueries themselves do not name."""

    def plan(self, node: Node) -> Node:
        """Return the plan without subquery expressions; innermost subqueries first."""
        if isinstance(node, Shared):
            return self._shared_use(node)
        if isinstance(node, Filter) or (isinstance(node, Join) and is_dependent(node)):
            node = filter_early(node)
        node = node.map_children(self.plan)
        if isinstance(node, Join) and is_dependent(node):
            return self._dependent(node)
        if not any(has_subquery(expr) for expr in node_expressions(node)):
            return node
        if isinstance(node, Filter):
            return self._filter(node)
        if isinstance(node, Join):
            return self._join(node)
        if isinstance(node, Project):
            source, exprs = self._flatten_all(node.source, [expr for _, expr in node.items])
            return Project(source, tuple((c, e) for (c, _), e in zip(node.items, exprs, strict=True)))
        if isinstance(node, Aggregate):
            return self._aggregate(node)
        if isinstance(node, Sort) and node.limit is None:
            source, exprs = self._flatten_all(node.source, [item.expr for item in node.order])
            order = tuple(replace(item, expr=expr) for item, expr in zip(node.order, exprs, strict=True))
            return Project(Sort(source, order), passing(node.columns))
        if isinstance(node, Values):
            return self._values(node)
        if isinstance(node, Window):
            source, exprs = self._flatten_all(node.source, node_expressions(node))
            calls = zip(node.windows, exprs, strict=True)
            flat = Window(source, tuple((c, e) for (c, _), e in calls if isinstance(e, WindowCall)))
            return Project(flat, passing(node.columns))
        if isinstance(node, Series):
            source, exprs = self._flatten_all(node.source, node_expressions(node))
            return Project(Series(source, node.column, *exprs), passing(node.columns))
        raise NotSupportedError("a subquery inside LIMIT is not supported; give the number itself or a parameter")

    def _query(self, query: Query | None) -> Node:
        if query is None:
            raise InternalError("a subquery expression without a query reached the planner")
        return self.plan(self._builder.query(query))

    def _shared_use(self, node: Shared) -> Node:
        """Handle a shared subplan: it is flattened separately, unless it reads columns of the enclosing query."""
        if node.key not in self._flat:
            may_be = _may_be_correlated(node.source, self._correlated)
            self._flat[node.key] = self.plan(node.source) if may_be else node.source
        flat = self._flat[node.key]
        return replace(node, source=flat) if free_columns(flat) else node

    # ---- dependent joins: LATERAL ------------------------------------------------------------------------------

    def _dependent(self, node: Join) -> Node:
        """Flatten a join whose right side reads columns of its left."""
        right, condition = node.right, conjuncts(node.condition)
        for part in condition:
            if has_subquery(part):
                right = self._conjunct(right, part)
        plain = [part for part in condition if part != TRUE and not has_subquery(part)]
        left, right = self._guarded(node.left, right, EVERY_ROW)
        if isinstance(right, Series) and right.source == Values((), ((),)) and node.kind != "left":
            # A function of the left side's columns needs no join.
            return filtered(replace(right, source=left), all_of(plain))
        left, inner, links = self._unnested(left, right)
        test = all_of(plain + links)
        kind = node.kind if node.kind == "left" else "cross" if test is None else "inner"
        joined = Join(kind, left, inner, test or (TRUE if kind == "left" else None))
        return Project(joined, passing(node.columns))

    # ---- the nodes that hold subqueries ------------------------------------------------------------------------

    def _values(self, node: Values) -> Node:
        """Flatten constant rows: each row is a SELECT."""
        single, rows = Values((), ((),)), list[Node]()
        for row in node.rows:
            source, flat = self._flatten_all(single, list(row))
            rows.append(Project(source, tuple((self._numbers.column(e), e) for e in flat)))
        union = rows[0]
        for following in rows[1:]:
            output = tuple(self._numbers.column(column) for column in node.output)
            union = SetOperation("union", True, union, following, output)
        return Project(union, tuple(zip(node.output, union.columns, strict=True)))

    def _filter(self, node: Filter) -> Node:
        parts = conjuncts(node.predicate)
        # Plain predicates go below the joins, where they make the outer side small.
        source = filtered(node.source, all_of(part for part in parts if not has_subquery(part)))
        for part in parts:
            if has_subquery(part):
                source = self._conjunct(source, part)
        return source

    def _conjunct(self, node: Node, part: Expr) -> Node:
        wanted, inner = True, part
        while isinstance(inner, Call) and inner.function == "not":
            wanted, inner = not wanted, inner.args[0]
        if isinstance(inner, Exists):
            return self._exists(node, inner, wanted)
        if isinstance(inner, InSubquery):
            node, args = self._flatten_all(node, list(inner.args))
            return self._in(node, args, inner, wanted)
        if isinstance(inner, Quantified):
            node, args = self._flatten_all(node, [inner.arg])
            return self._quantified(node, args[0], inner, wanted)
        node, flat = self._flatten(node, part, monotone=True)
        return filtered(node, flat)

    def _join(self, node: Join) -> Node:
        plain = [part for part in conjuncts(node.condition) if not has_subquery(part)]
        nested = [part for part in conjuncts(node.condition) if has_subquery(part)]
        if node.kind in ("inner", "cross"):
            joined: Node = Join("inner" if plain else "cross", node.left, node.right, all_of(plain))
            for part in nested:
                joined = self._conjunct(joined, part)
            return Project(joined, passing(node.columns))
        if node.kind == "right":
            return Project(self._join(Join("left", node.right, node.left, node.condition)), passing(node.columns))
        left, right = node.left, node.right
        # A subquery that occurs in several parts is joined to one side.
        reads_of = [self._reads(part) for part in nested]
        beside = {
            id(query)
            for part, reads in zip(nested, reads_of, strict=True)
            if reads & column_ids(right)
            for query in _queries(part)
        }
        for part, reads in zip(nested, reads_of, strict=True):
            if not reads & column_ids(right) and not any(id(query) in beside for query in _queries(part)):
                left, flat = self._flatten(left, part)
                plain.append(flat)
            elif node.kind == "full":
                if reads & column_ids(left):
                    raise NotSupportedError(
                        "a subquery in the ON clause of a FULL JOIN may refer to one of the two tables only; write the "
                        "join as a LEFT JOIN and what it lacks as a UNION ALL"
                    )
                right, flat = self._flatten(right, part)
                plain.append(flat)
            else:
                right = self._conjunct(right, part)
        joined = Join(
            node.kind, left, Project(right, passing(_with_read(node.right, right, plain))), all_of(plain) or TRUE
        )
        if is_dependent(joined):
            return Project(self._dependent(joined), passing(node.columns))
        return Project(joined, passing(node.columns))

    def _reads(self, expr: Expr) -> frozenset[int]:
        """Columns that an expression reads, those of its subqueries' outer references included."""
        return columns_in(expr).union(*(free_columns(self._query(query)) for query in _queries(expr)))

    def _aggregate(self, node: Aggregate) -> Node:
        exprs = node_expressions(node)
        source, flat = self._flatten_all(node.source, exprs)
        width = len(node.groups)
        groups = tuple((c, e) for (c, _), e in zip(node.groups, flat[:width], strict=True))
        calls = zip(node.aggregates, flat[width:], strict=True)
        changed = tuple((c, e) for (c, _), e in calls if isinstance(e, AggregateCall))
        return replace(node, source=source, groups=groups, aggregates=changed)

    # ---- subqueries that are conjuncts -------------------------------------------------------------------------

    def _exists(self, node: Node, expr: Exists, wanted: bool) -> Node:
        plan = only_rows(self._query(expr.query))
        if plan is None:
            return filtered(node, TRUE if wanted else call("is_null", TRUE))
        return self._join_with(node, plan, "semi" if wanted else "anti", [])

    def _in(self, node: Node, args: list[Expr], expr: InSubquery, wanted: bool) -> Node:
        plan = self._query(expr.query)
        matches: list[Expr] = [call("eq", arg, column) for arg, column in zip(args, plan.columns, strict=True)]
        if wanted:
            return self._join_with(node, plan, "semi", matches)
        left, right = not_null_columns(node), not_null_columns(plan)
        certain = all(never_null(arg, left) for arg in args) and all(c.id in right for c in plan.columns)
        if certain:
            return self._join_with(node, plan, "anti", matches)
        if len(args) == 1 and not free_columns(plan):
            return Join("null_anti", node, plan, matches[0])
        # NOT IN is false or NULL, so the row is dropped, if some comparison is not false.
        return self._join_with(node, plan, "anti", [may_be_true(match) for match in matches])

    def _quantified(self, node: Node, arg: Expr, expr: Quantified, wanted: bool) -> Node:
        plan = self._query(expr.query)
        column = plan.columns[0]
        # NOT (x op ANY q) is x negated-op ALL q, and vice versa.
        every = expr.all == wanted
        comparison = expr.comparison if wanted else NEGATED[expr.comparison]
        if not every:
            return self._join_with(node, plan, "semi", [call(comparison, arg, column)])
        broken = call(NEGATED[comparison], arg, column)
        if never_null(arg, not_null_columns(node)) and column.id in not_null_columns(plan):
            return self._join_with(node, plan, "anti", [broken])
        return self._join_with(node, plan, "anti", [may_be_true(broken)])

    def _join_with(self, node: Node, plan: Node, kind: str, matches: list[Expr]) -> Node:
        """Join the outer query with a subquery's plan, for any outer columns that the plan reads."""
        node, plan = self._guarded(node, plan, EVERY_ROW)
        node, plan, conditions = self._unnested(node, plan)
        return Join(kind, node, plan, all_of(matches + conditions) or TRUE)

    def _unnested(self, node: Node, plan: Node) -> tuple[Node, Node, list[Expr]]:
        """Return the outer plan, the subquery's plan without references to it, and the conditions that link them."""
        if self._is_drawn_per_row(node, plan):
            return self._for_each_row(node, plan)
        try:
            inner, conditions = pull(plan, self._numbers)
            return node, inner, conditions
        except CannotPull:
            if not free_columns(plan) & column_ids(node):
                return node, plan, []  # it reads a query further out, whose flattening handles it
            node, domain = self._domain(node, free_columns(plan))
            inner, carried = inject(plan, domain)
            own = {column.id: column for column in domain.references}
            return node, inner, domain.equal(own, carried)

    def _is_drawn_per_row(self, node: Node, plan: Node) -> bool:
        return bool(free_columns(plan) & column_ids(node) - self._guards) and is_volatile_plan(plan)

    def _for_each_row(self, node: Node, plan: Node) -> tuple[Node, Node, list[Expr]]:
        """`_unnested` for a subquery whose results may differ for equal rows."""
        numbering = WindowCall(BIGINT, False, "row_number")
        number = self._numbers.column(numbering, "row")
        node, domain = self._domain(Window(node, ((number, numbering),)), free_columns(plan) | {number.id}, True)
        inner, carried = inject(plan, domain)
        return node, inner, [call("eq", number, carried[number.id])]

    def _domain(self, node: Node, wanted: frozenset[int], per_row: bool = False) -> tuple[Node, Domain]:
        """Return the outer plan, shared for two uses, and the domain of the needed columns."""
        key, solid = self._context.share_key(), not_null_columns(node)
        node = Project(node, passing(node.columns))  # fixes the order of the columns, whatever happens to a join below
        fresh = [tuple(self._numbers.column(c) for c in node.columns) for _ in range(2)]
        again = Shared(key, node, fresh[1])
        references = [column for column in node.columns if column.id in wanted]
        places = [own for own, column in zip(fresh[1], node.columns, strict=True) if column.id in wanted]
        values = Aggregate(again, passing(places), ())
        domain = Domain(values, references, solid, self._context.share_key, self._numbers, per_row)
        return Project(Shared(key, node, fresh[0]), tuple(zip(node.columns, fresh[0], strict=True))), domain

    # ---- subqueries inside larger expressions ------------------------------------------------------------------

    def _flatten_all(self, node: Node, exprs: list[Expr]) -> tuple[Node, list[Expr]]:
        flat: list[Expr] = []
        for expr in exprs:
            node, changed = self._flatten(node, expr)
            flat.append(changed)
        return node, flat

    def _flatten(self, node: Node, expr: Expr, monotone: bool = False, guard: Guard = EVERY_ROW) -> tuple[Node, Expr]:
        """Return the plan joined with the results of the expression's subqueries, and the expression over that.

        `monotone`: NULL and FALSE are equivalent here, as at the top of WHERE and below AND and OR in it. `guard`: the
        rows that need the expression.
        """
        if not has_subquery(expr):
            return node, expr
        below = monotone and isinstance(expr, Call) and expr.function in ("and", "or")
        current = node

        def change(part: Expr, rows: Guard = guard) -> Expr:
            nonlocal current
            current, changed = self._flatten(current, part, below, rows)
            return changed

        lazily = flatten_lazily(expr, guard, change)
        if lazily is not None:
            return current, lazily
        expr = map_parts(expr, change)
        if isinstance(expr, ScalarSubquery):
            return self._scalar_once(current, expr.query, guard)
        if isinstance(expr, Exists):
            plan = only_rows(self._query(expr.query))
            if plan is None:
                return current, TRUE
            current, plan = self._guarded(current, plan, guard)
            return self._marker(current, plan, [])
        if isinstance(expr, InSubquery):
            current, plan = self._guarded(current, self._query(expr.query), guard)
            pairs = zip(expr.args, plan.columns, strict=True)
            return self._three_valued(current, plan, [call("eq", a, c) for a, c in pairs], monotone)
        if isinstance(expr, Quantified):
            current, plan = self._guarded(current, self._query(expr.query), guard)
            comparison = NEGATED[expr.comparison] if expr.all else expr.comparison
            match = call(comparison, expr.arg, plan.columns[0])
            current, value = self._three_valued(current, plan, [match], monotone and not expr.all)
            return current, negate(value) if expr.all else value
        return current, expr

    def _guarded(self, node: Node, plan: Node, guard: Guard) -> tuple[Node, Node]:
        """Return the outer plan and a guarded plan of a subquery.

        The latter fails only for rows of the guard, and for none of its own rows that no row of the outer plan meets.
        """
        if not (may_fail(plan) if guard else fails_for_others(plan)):
            return node, plan
        node, column = self._guard_column(node, guard)
        return node, guarded(plan, column)

    def _guard_column(self, node: Node, guard: Guard) -> tuple[Node, Column]:
        column = self._numbers.column(TRUE, "guard")
        self._guards.add(column.id)
        return Project(node, (*passing(node.columns), (column, guard.condition()))), column

    def _scalar_once(self, node: Node, query: Query | None, guard: Guard) -> tuple[Node, Expr]:
        """`_scalar`, joined once for a query that occurs several times, as the left operand of BETWEEN does: two plans
        of one query would have columns of the same numbers."""
        known = self._known.get(id(query))
        joined = known is not None and bool(columns_in(known[1])) and columns_in(known[1]) <= column_ids(node)
        if known is not None and joined and known[2].covers(guard):
            return node, known[1]
        plan = self._query(query)
        if joined:  # for rows other than these
            plan = Project(plan, tuple((self._numbers.column(column), column) for column in plan.columns))
        node, value = self._scalar(node, plan, guard)
        if query is not None:
            self._known[id(query)] = query, value, guard
        return node, value

    def _scalar(self, node: Node, plan: Node, guard: Guard = EVERY_ROW) -> tuple[Node, Expr]:
        if not free_columns(plan) and is_volatile_plan(plan):  # once, also if the enclosing query is evaluated per row
            plan = Project(plan, passing(plan.columns))
            fresh = tuple(self._numbers.column(column) for column in plan.columns)
            plan = Shared(self._context.share_key(), plan, fresh)
        value = replace(plan.columns[0], nullable=True)
        node, plan = self._guarded(node, plan, guard)
        if not free_columns(plan):
            if exactly_one_row(plan):
                return Join("cross", node, plan), value
            if not guard:
                return Join("cross", node, SingleRow(plan)), value
            node, column = self._guard_column(node, guard)
            return Join("single", node, plan, column), value
        try:
            return self._scalar_aggregate(node, plan, value)
        except CannotPull:
            pass
        node, inner, conditions = self._unnested(node, plan)
        given = _given(conditions, column_ids(inner))
        kind = "left" if any(key <= given for key in unique_keys(inner)) else "single"
        if kind == "single" and guard:
            node, column = self._guard_column(node, guard)
            conditions = [*conditions, column]
        return Join(kind, node, inner, all_of(conditions) or TRUE), value

    def _scalar_aggregate(self, node: Node, plan: Node, value: Expr) -> tuple[Node, Expr]:
        """Flatten the usual case: `SELECT f(agg(x)) FROM ... WHERE inner = outer`.

        `f` moves above the join, so that for outer rows without matches it reads 0 for COUNT and NULL for other
        aggregates.
        """
        if self._is_drawn_per_row(node, plan):
            raise CannotPull
        while not isinstance(plan, Aggregate):
            if isinstance(plan, Project):
                value = substitute(value, {column.id: expr for column, expr in plan.items})
            elif isinstance(plan, Filter):
                value = Case(value.type, True, ((plan.predicate, value),), Literal(value.type, True, None))
            elif not isinstance(plan, Sort) or plan.limit is not None:
                raise CannotPull
            plan = plan.source
        if plan.groups or plan.sets is not None:
            raise CannotPull
        window = as_window(node, plan, self._joined_rows)
        if window is not None:
            return window, value
        grouped, conditions = pull_through_groups(plan, self._numbers)
        over_nothing = {column.id: over_no_rows(column, expr) for column, expr in plan.aggregates}
        return Join("left", node, grouped, all_of(conditions) or TRUE), substitute(value, over_nothing)

    def _joined_rows(self, node: Node) -> float:
        """Expected number of rows of a plan of joins and filters, its outer references left out.

        The joins are put in a good order first. The estimate for tables joined in the order of FROM, many without a
        condition, is far off.
        """
        pushed = pushdown_predicates(pull(node, self._numbers)[0], self._context)
        return self._context.estimator.rows(order_joins(pushed, self._context))

    def _three_valued(self, node: Node, plan: Node, matches: list[Expr], monotone: bool) -> tuple[Node, Expr]:
        """TRUE if some row matches, else NULL if some row might, else FALSE."""
        solid = not_null_columns(node) | not_null_columns(plan)
        if monotone or all(never_null(match, solid) for match in matches):
            return self._marker(node, plan, matches)
        columns = plan.columns
        mappings: list[dict[int, Expr]] = []
        uses: list[Node] = []
        if free_columns(plan):
            node, inner, conditions = self._unnested(node, plan)
        else:
            inner, conditions = plan, []
        inner, key = Project(inner, passing(inner.columns)), self._context.share_key()
        for _ in range(2):
            fresh = tuple(self._numbers.column(c) for c in inner.columns)
            mappings.append({c.id: own for c, own in zip(inner.columns, fresh, strict=True)})
            uses.append(Shared(key, inner, fresh))
        assert all(column.id in mappings[0] for column in columns)
        node, sure = self._marker(node, uses[0], [substitute(p, mappings[0]) for p in (*matches, *conditions)])
        perhaps = [may_be_true(match) for match in matches]
        node, maybe = self._marker(node, uses[1], [substitute(p, mappings[1]) for p in (*perhaps, *conditions)])
        return node, Case(BOOLEAN, True, ((sure, TRUE), (maybe, UNKNOWN)), Literal(BOOLEAN, False, False))

    def _marker(self, node: Node, plan: Node, matches: list[Expr]) -> tuple[Node, Expr]:
        """Return the plan with a column that is true if the subquery has a row for which all `matches` are true."""
        node, inner, conditions = self._unnested(node, plan)
        conditions = matches + conditions
        if not self._outer_columns(conditions, node):
            inner, conditions = filtered(inner, all_of(conditions)), []
            count = Column(BIGINT, False, self._numbers.column(TRUE).id, "count")
            first = Limit(inner, Literal(BIGINT, False, 1))
            counted = Aggregate(first, (), ((count, AggregateCall(BIGINT, False, "count")),))
            return Join("cross", node, counted), call("gt", count, Literal(BIGINT, False, 0))
        try:
            # Equalities only: the distinct inner values suffice.
            shape = Aggregate(Filter(inner, all_of(conditions) or TRUE), (), ())
            grouped, links = pull_through_groups(shape, self._numbers)
        except CannotPull:
            node, domain = self._domain(node, self._outer_columns(conditions, node))
            use, carried = domain.use()
            found = Join("semi", use, inner, all_of(substitute(part, carried) for part in conditions))
            own = {column.id: column for column in domain.references}
            grouped, links = Aggregate(found, passing(carried.values()), ()), domain.equal(own, carried)
        marker = self._numbers.column(TRUE, "found")
        marked = Project(grouped, (*passing(grouped.columns), (marker, TRUE)))
        seen = is_null(replace(marker, nullable=True))
        return Join("left", node, marked, all_of(links) or TRUE), replace(negate(seen), nullable=False)

    def _outer_columns(self, conditions: list[Expr], node: Node) -> frozenset[int]:
        return columns_in_all(conditions) & column_ids(node)


def _may_be_correlated(root: Node, known: dict[int, bool]) -> bool:
    """True unless a plan is free of subqueries and of outer columns; `known` are the shared subplans by key."""
    if free_columns(root):
        return True
    for node in nodes(root):
        if any(has_subquery(expr) for expr in node_expressions(node)):
            return True
        if isinstance(node, Shared):
            if node.key not in known:
                known[node.key] = _may_be_correlated(node.source, known)
            if known[node.key]:
                return True
        if isinstance(node, Join) and free_columns(node.right) & column_ids(node.left):
            return True
    return False


def _with_read(before: Node, after: Node, conditions: list[Expr]) -> list[Column]:
    """Columns that a side of a join had, and those that its conditions have come to read since."""
    had, read = column_ids(before), columns_in_all(conditions)
    return [column for column in after.columns if column.id in had or column.id in read]


def _queries(expr: Expr) -> Iterator[Query]:
    """Yield the queries of an expression's subqueries."""
    for part in walk(expr):
        if isinstance(part, SUBQUERIES) and part.query is not None:
            yield part.query


def _given(conditions: list[Expr], inside: frozenset[int]) -> frozenset[int]:
    """Return the columns among `inside`, the subquery's columns, that the conditions equate with outer expressions."""
    equated = set()
    for part in conditions:
        sides = as_equality(part)
        for own, other in (sides, sides[::-1]) if sides else ():
            if isinstance(own, Column) and own.id in inside and not columns_in(other) & inside:
                equated.add(own.id)
    return frozenset(equated)
