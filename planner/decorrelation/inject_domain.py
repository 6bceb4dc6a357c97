"""Evaluation of a correlated subquery for all outer rows at once, for `rules/decorrelate_subqueries.py`.

`inject` handles the subqueries that `pull_predicates.pull` cannot (Neumann and Kemper, "Unnesting Arbitrary Queries",
BTW 2015). The distinct outer values, the *domain*, are joined into the subquery's leaves and carried up to its top. So
one execution produces the results for all of them; the outer query joins on the carried columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...errors import InternalError
from ...model.types import BIGINT
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Case, Column, Expr, Literal, conjuncts
from ...sql.functions import AGGREGATES, comparable, is_volatile
from ..algebra.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Recursive,
    Series,
    SetOperation,
    Shared,
    SingleRow,
    Sort,
    TopRows,
    Values,
    Window,
    WorkingTable,
)
from ..algebra.trees import (
    Numbers,
    all_of,
    call,
    case,
    free_columns,
    is_null,
    map_expressions,
    negate,
    node_expressions,
    nodes,
    passing,
    substitute,
)
from ..algebra.windows import partitioned
from .pull_predicates import first_of_one_group


class Domain:
    """The distinct values of outer columns, to be joined into a subquery as often as needed.

    `values` produces them, one column for each of `references`; those numbered in `solid` hold no NULL. `per_row`: they
    are the rows themselves, and volatile functions are evaluated for each row.
    """

    def __init__(
        self,
        values: Node,
        references: Sequence[Column],
        solid: frozenset[int],
        new_key: Callable[[], int],
        numbers: Numbers,
        per_row: bool = False,
    ):
        self._source = values
        self._per_row = per_row
        self._key = new_key()
        self._solid = solid
        self.new_key = new_key
        self.numbers = numbers
        self.references = tuple(references)
        self.shared: dict[int, tuple[int, Node, dict[int, Column]]] = {}
        """Shared subplans that were rewritten for every row of the domain: new key, plan and carried columns, by the
        old key."""
        self.working: dict[int, int] = {}
        """Recursive queries that were rewritten: the new key by the old."""

    def is_read(self, node: Node) -> bool:
        """True if a plan's rows may differ from one outer row to another."""
        outer = {column.id for column in self.references}
        if free_columns(node) & outer or (self._per_row and is_volatile_plan(node)):
            return True
        return bool(self.working) and self._reads_working_table(node)

    def _reads_working_table(self, root: Node) -> bool:
        for node in nodes(root):
            if isinstance(node, WorkingTable) and node.key in self.working:
                return True
            if isinstance(node, Shared) and self._reads_working_table(node.source):
                return True
        return False

    def use(self) -> tuple[Node, dict[int, Column]]:
        """Return a use of the domain, and the column that stands for each outer column in it."""
        fresh = tuple(self.numbers.column(column) for column in self.references)
        node = Shared(self._key, self._source, fresh)
        return node, {outer.id: own for outer, own in zip(self.references, fresh, strict=True)}

    def equal(self, first: Mapping[int, Column], second: Mapping[int, Column]) -> list[Expr]:
        """Conditions that two uses (or a use and the outer query itself) stand for the same outer row; NULL equals NULL
        here."""
        conditions: list[Expr] = []
        for outer in self.references:
            a, b = comparable(first[outer.id]), comparable(second[outer.id])
            conditions.append(call("eq", a, b) if outer.id in self._solid else same_or_both_null(a, b))
        return conditions


def is_volatile_plan(plan: Node) -> bool:
    """True if an expression of the plan is volatile, as random() is. A shared plan is evaluated once."""
    if isinstance(plan, Shared):
        return False
    if not hasattr(plan, "_volatile"):
        found = any(map(is_volatile, node_expressions(plan))) or any(map(is_volatile_plan, plan.children()))
        object.__setattr__(plan, "_volatile", found)
    return plan._volatile


def same_or_both_null(first: Expr, second: Expr) -> Expr:
    """`first IS NOT DISTINCT FROM second`."""
    distinct = replace(call("is_distinct", first, second), nullable=False)
    return replace(call("not", distinct), nullable=False)


Carried = tuple[Node, dict[int, Column]]


def inject(node: Node, domain: Domain) -> Carried:
    """Rewrite the plan for every row of the domain at once; each row carries the domain's columns that it belongs
    to."""
    if not domain.is_read(node):
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
    if isinstance(node, Window):
        source, carried = inject(node.source, domain)
        changed = map_expressions(node, lambda expr: substitute(expr, carried))
        assert isinstance(changed, Window)
        return partitioned(changed, source, carried.values()), carried
    if isinstance(node, Sort) and node.limit is None and node.offset is None:
        return inject(node.source, domain)
    if isinstance(node, SetOperation):
        return _inject_set_operation(node, domain)
    if isinstance(node, SingleRow):
        source, carried = inject(node.source, domain)
        use, whole = domain.use()
        joined = Join("single", use, source, all_of(domain.equal(whole, carried)))
        return Project(joined, passing((*node.columns, *whole.values()))), whole
    if isinstance(node, Values):
        return _inject_values(node, domain)
    if isinstance(node, (Limit, Sort, TopRows)):
        return _inject_limit(first_of_one_group(node), domain)
    if isinstance(node, Series):
        source, carried = inject(node.source, domain)
        start, stop, step = (substitute(expr, carried) for expr in (node.start, node.stop, node.step))
        return Series(source, node.column, start, stop, step), carried
    if isinstance(node, (Shared, Recursive, WorkingTable)):
        return _inject_repeated(node, domain)
    raise InternalError(f"a reference to the outer query inside a {type(node).__name__} was not expected")


def _inject_values(node: Values, domain: Domain) -> Carried:
    use, carried = domain.use()
    rows = [[substitute(expr, carried) for expr in row] for row in node.rows]
    if len(rows) == 1:
        return Project(use, tuple(zip(node.output, rows[0], strict=True)) + passing(carried.values())), carried
    # Every row of the domain is combined with the number of every row here, and thereby with the row's values.
    number = domain.numbers.column(Literal(BIGINT, False, 0), "row")
    numbered = Values((number,), tuple((Literal(BIGINT, False, i),) for i in range(len(rows))))
    items: list[tuple[Column, Expr]] = []
    for column, *values in zip(node.output, *rows, strict=True):
        whens = ((call("eq", number, Literal(BIGINT, False, i)), value) for i, value in enumerate(values))
        items.append((column, Case(column.type, True, tuple(whens), Literal(column.type, True, None))))
    return Project(Join("cross", use, numbered), (*items, *passing(carried.values()))), carried


def _inject_limit(node: TopRows, domain: Domain) -> Carried:
    source, carried = inject(node.source, domain)
    order = tuple(replace(item, expr=substitute(item.expr, carried)) for item in node.order)
    return replace(node, source=source, groups=(*node.groups, *carried.values()), order=order), carried


def _inject_repeated(node: Shared | Recursive | WorkingTable, domain: Domain) -> Carried:
    fresh = tuple(domain.numbers.column(column) for column in domain.references)
    whole = {outer.id: own for outer, own in zip(domain.references, fresh, strict=True)}
    if isinstance(node, WorkingTable):
        return WorkingTable(domain.working[node.key], node.output + fresh), whole
    if isinstance(node, Shared):
        if node.key not in domain.shared:
            source, carried = inject(node.source, domain)
            source = Project(source, passing((*node.source.columns, *carried.values())))
            domain.shared[node.key] = domain.new_key(), source, carried
        key, source, _ = domain.shared[node.key]
        return Shared(key, source, node.output + fresh), whole
    anchor, carried = inject(node.anchor, domain)
    anchor = Project(anchor, passing((*node.anchor.columns, *carried.values())))
    key = domain.working[node.key] = domain.new_key()
    step, carried = inject(node.step, domain)
    step = Project(step, passing((*node.step.columns, *carried.values())))
    return Recursive(key, node.all, anchor, step, node.output + fresh), whole


def _inject_aggregate(node: Aggregate, domain: Domain) -> Carried:
    source, carried = inject(node.source, domain)
    changed = [(column, substitute(expr, carried)) for column, expr in node.aggregates]
    calls = tuple((column, expr) for column, expr in changed if isinstance(expr, AggregateCall))
    groups = tuple((column, substitute(expr, carried)) for column, expr in node.groups)
    if not node.is_total:
        changed_node = replace(node, groups=groups, aggregates=calls)
        return changed_node.grouped_also(source, passing(carried.values())), carried
    if node.sets is not None:
        return _inject_empty_sets(replace(node, groups=groups, aggregates=calls), source, carried, domain)
    # Without GROUP BY there is a row for every outer row, also if nothing was aggregated.
    inner = Aggregate(source, passing(carried.values()), tuple((domain.numbers.column(c), e) for c, e in calls))
    use, whole = domain.use()
    joined = Join("left", use, inner, all_of(domain.equal(whole, carried)))
    items = tuple(
        (column, over_no_rows(made, call_)) for (column, call_), (made, _) in zip(calls, inner.aggregates, strict=True)
    )
    return Project(joined, items + passing(whole.values())), whole


def _inject_empty_sets(node: Aggregate, source: Node, carried: Mapping[int, Column], domain: Domain) -> Carried:
    """Handle empty grouping sets: each has a row for every outer row, aggregated or not."""
    assert node.sets is not None
    known = node.set_number or domain.numbers.column(Literal(BIGINT, False, 0), "set")
    fresh = {column.id: domain.numbers.column(column) for column in (*node.columns, known)}
    grouped = node.grouped_also(source, passing(carried.values()))
    inner = replace(
        grouped,
        groups=tuple((fresh.get(column.id, column), expr) for column, expr in grouped.groups),
        aggregates=tuple((fresh[column.id], expr) for column, expr in grouped.aggregates),
        set_number=fresh[known.id],
    )
    use, whole = domain.use()
    number = domain.numbers.column(known)
    empty = [i for i, chosen in enumerate(node.sets) if not chosen]
    due = Join("cross", use, Values((number,), tuple((Literal(known.type, False, i),) for i in empty)))
    same = [*domain.equal(whole, carried), call("eq", number, fresh[known.id])]
    answers = {outer: domain.numbers.column(column) for outer, column in whole.items()}
    items: list[tuple[Column, Expr]] = [(column, replace(fresh[column.id], nullable=True)) for column, _ in node.groups]
    items += [(column, over_no_rows(fresh[column.id], call_)) for column, call_ in node.aggregates]
    if node.set_number is not None:
        items.append((known, _either(fresh[known.id], number)))
    items += [(answers[outer], _either(carried[outer], column)) for outer, column in whole.items()]
    return Project(Join("full", due, inner, all_of(same)), tuple(items)), answers


def _either(first: Column, second: Column) -> Expr:
    """Return the one that is not NULL, above a full join."""
    return replace(call("coalesce", first, second, type_=first.type), nullable=first.nullable and second.nullable)


def over_no_rows(column: Column, aggregate: AggregateCall) -> Expr:
    """Value of an aggregate's column above an outer join that leaves it NULL for groups without rows: COUNT is then
    0."""
    value = replace(column, nullable=True)
    if not AGGREGATES[aggregate.function].zero_over_nothing:
        return value
    return replace(case(is_null(value), Literal(BIGINT, False, 0), value), type=column.type, nullable=False)


def _inject_join(node: Join, domain: Domain) -> Carried:
    if node.kind == "full":
        return _inject_full_join(node, domain)
    if node.kind == "right":
        turned, carried = _inject_join(Join("left", node.right, node.left, node.condition), domain)
        return Project(turned, passing((*node.columns, *carried.values()))), carried
    conditions = conjuncts(node.condition)
    right_free = domain.is_read(node.right)
    if right_free and node.kind in ("inner", "cross") and not domain.is_read(node.left):
        right, carried = inject(node.right, domain)
        own = all_of(substitute(part, carried) for part in conditions)
        return Join("cross" if own is None else "inner", node.left, right, own), carried
    left, carried = inject(node.left, domain)
    kind, right = node.kind, node.right
    parts = [substitute(part, carried) for part in conditions]
    if right_free:
        if kind == "null_anti":
            # The domain's equality must not count as "perhaps", so the null-aware part is written out.
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


def _inject_full_join(node: Join, domain: Domain) -> Carried:
    left, first = inject(node.left, domain)
    right, second = inject(node.right, domain)
    parts = [substitute(part, first) for part in conjuncts(node.condition)]
    joined = Join("full", left, right, all_of([*parts, *domain.equal(first, second)]))
    items: list[tuple[Column, Expr]] = []
    whole: dict[int, Column] = {}
    for outer in domain.references:
        a, b = (replace(side[outer.id], nullable=True) for side in (first, second))
        whole[outer.id] = domain.numbers.column(outer)
        items.append((whole[outer.id], call("coalesce", a, b, type_=outer.type)))
    return Project(joined, (*passing(node.columns), *items)), whole


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
