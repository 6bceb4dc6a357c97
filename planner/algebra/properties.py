"""Provable properties of the rows of a plan: columns without NULL, unique keys, functional dependencies.

Everything here is a proof, never an estimate; `planner/estimates/cardinality.py` estimates.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...sql.expressions import Call, Column, Expr, InValues, Literal, conjuncts
from ...sql.functions import AGGREGATES, OPERATIONS
from ...sql.subqueries import SUBQUERIES
from .logical import (
    Aggregate,
    FileScan,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Recursive,
    Scan,
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
from .trees import column_equality, column_ids, columns_in, nodes, subexpressions

LEFT_ONLY = ("semi", "anti", "null_anti")
"""Join kinds that produce only the left side's columns."""


def not_null_columns(node: Node) -> frozenset[int]:
    """Numbers of the columns that hold no NULL in any row that the node produces.

    A column's own `nullable` describes the place where the column is defined; an outer join above may add NULLs.
    """
    if isinstance(node, Join):
        return _join_not_null(node)
    if isinstance(node, Filter):
        return not_null_columns(node.source) | rejects_null(node.predicate)
    if isinstance(node, (Scan, FileScan)):
        solid = {c.id for c in node.output if not c.nullable}
        for predicate in node.predicates:
            solid |= rejects_null(predicate)
        return frozenset(solid)
    if isinstance(node, Project):
        below = not_null_columns(node.source)
        return frozenset(column.id for column, expr in node.items if never_null(expr, below))
    if isinstance(node, Aggregate):
        below = not_null_columns(node.source)
        groups = {column.id for column, expr in node.common_groups if never_null(expr, below)}
        groups |= {node.set_number.id} if node.set_number is not None else set()
        counts = {column.id for column, expr in node.aggregates if AGGREGATES[expr.function].zero_over_nothing}
        if not node.is_total:
            counts |= {
                column.id
                for column, expr in node.aggregates
                if AGGREGATES[expr.function].always_defined
                and expr.filter is None
                and all(never_null(part, below) for part in expr.children())
            }
        return frozenset(groups | counts)
    if isinstance(node, (Sort, Limit, TopRows)):
        return not_null_columns(node.source)
    if isinstance(node, Window):
        return not_null_columns(node.source) | {column.id for column, _ in node.windows if not column.nullable}
    if isinstance(node, Series):
        return not_null_columns(node.source) | {node.column.id}
    if isinstance(node, Shared):
        solid_below = not_null_columns(node.source)
        pairs = zip(node.output, node.source.columns, strict=True)
        return frozenset(own.id for own, inner in pairs if inner.id in solid_below)
    if isinstance(node, (Values, SetOperation, Recursive, WorkingTable)):
        return frozenset(c.id for c in node.columns if not c.nullable)
    return frozenset()


def _join_not_null(node: Join) -> frozenset[int]:
    left = not_null_columns(node.left)
    if node.kind in LEFT_ONLY:
        return left
    if node.kind in ("left", "single"):
        return left
    if node.kind == "full":
        return frozenset()
    right = not_null_columns(node.right)
    if node.kind == "right":
        return right
    return left | right | (rejects_null(node.condition) if node.condition is not None else frozenset())


def never_null(expr: Expr, solid: frozenset[int]) -> bool:
    """True if the expression is not NULL for every row in which the columns numbered in `solid` are not."""
    if isinstance(expr, Column):
        return expr.id in solid
    if isinstance(expr, Literal):
        return expr.value is not None
    if expr.nullable or isinstance(expr, SUBQUERIES):
        return _is_null_with_arguments(expr) and all(never_null(a, solid) for a in expr.children())
    return columns_in(expr) <= solid or (isinstance(expr, Call) and expr.function == "is_null")


def rejects_null(predicate: Expr) -> frozenset[int]:
    """Numbers of the columns that cannot be NULL in a row for which the predicate is true."""
    if isinstance(predicate, Call):
        if predicate.function == "and":
            return frozenset().union(*(rejects_null(arg) for arg in predicate.args))
        if predicate.function == "or":
            branches = [rejects_null(arg) for arg in predicate.args]
            return frozenset.intersection(*branches)
        if predicate.function == "not" and isinstance(predicate.args[0], Call):
            inner = predicate.args[0]
            if inner.function == "is_null":
                return strict_columns(inner.args[0])
            if inner.function in ("and", "or"):
                return frozenset()
        if predicate.function in ("is_true", "is_false"):
            return strict_columns(predicate.args[0])
    return strict_columns(predicate)


def strict_columns(expr: Expr) -> frozenset[int]:
    """Numbers of the columns each of which makes the expression NULL by being NULL."""
    if isinstance(expr, Column):
        return frozenset((expr.id,))
    if _is_null_with_arguments(expr):
        return frozenset().union(*(strict_columns(arg) for arg in expr.children()))
    if isinstance(expr, InValues):
        return strict_columns(expr.arg)
    if type(expr).__name__ == "Cast":
        return strict_columns(subexpressions(expr)[0])
    return frozenset()


def _is_null_with_arguments(expr: Expr) -> bool:
    return isinstance(expr, Call) and OPERATIONS[expr.function].null_with_arguments


# ---- keys --------------------------------------------------------------------------------------------------------


def unique_keys(node: Node) -> list[frozenset[int]]:
    """Sets of column numbers, each unique among the rows of the node; the empty set means at most one row."""
    if isinstance(node, Scan):
        own = {name: number for number, name in node.source_names}
        key = [own.get(column.name) for column in node.table.schema.key]
        produced = {c.id for c in node.output}
        return [frozenset(k for k in key if k is not None)] if all(k in produced for k in key) else []
    if isinstance(node, (Filter, Sort, Limit, Window)):
        return unique_keys(node.source)
    if isinstance(node, TopRows):
        first = isinstance(node.limit, Literal) and node.limit.value in (0, 1) and not node.ties
        return unique_keys(node.source) + ([frozenset(c.id for c in node.groups)] if first else [])
    if isinstance(node, Project):
        renamed = {expr.id: column.id for column, expr in node.items if isinstance(expr, Column)}
        below = unique_keys(node.source)
        return [frozenset(renamed[k] for k in key) for key in below if all(k in renamed for k in key)]
    if isinstance(node, Aggregate):
        number = () if node.set_number is None else (node.set_number.id,)
        return [frozenset((*(column.id for column, _ in node.groups), *number))]
    if isinstance(node, SingleRow):
        return [frozenset()]
    if isinstance(node, Values):
        return [frozenset()] if len(node.rows) <= 1 else []
    if isinstance(node, Shared):
        renamed = {inner.id: own.id for own, inner in zip(node.output, node.source.columns, strict=True)}
        return [frozenset(renamed[k] for k in key) for key in unique_keys(node.source)]
    if isinstance(node, Join):
        return _join_keys(node)
    return []


def _join_keys(node: Join) -> list[frozenset[int]]:
    left = unique_keys(node.left)
    if node.kind in LEFT_ONLY or node.kind == "single":
        return left
    right = unique_keys(node.right)
    pairs = [pair for part in conjuncts(node.condition) if (pair := column_equality(part))]
    # A column that equals a column of the same side takes no part in the join.
    mine = column_ids(node.left)
    joined = frozenset(c.id for pair in pairs if (pair[0].id in mine) != (pair[1].id in mine) for c in pair)
    found: list[frozenset[int]] = []
    if node.kind in ("inner", "cross", "left") and any(key <= joined for key in right):
        found += left
    if node.kind in ("inner", "cross", "right") and any(key <= joined for key in left):
        found += right
    if not found and node.kind in ("inner", "cross"):
        found = [a | b for a in left for b in right][:4]
    return found


def exactly_one_row(node: Node) -> bool:
    """True if the plan provably produces exactly one row, for any data."""
    if isinstance(node, SingleRow):
        return True
    if isinstance(node, Aggregate):
        return not node.groups and node.sets is None
    if isinstance(node, Values):
        return len(node.rows) == 1
    if isinstance(node, (Project, Sort, Shared, Window)):
        return (not isinstance(node, Sort) or node.limit is None) and exactly_one_row(node.source)
    if isinstance(node, Join) and node.kind == "cross":
        return exactly_one_row(node.left) and exactly_one_row(node.right)
    return False


# ---- equal columns and dependencies ------------------------------------------------------------------------------


class Equivalence:
    """Classes of columns that hold equal values in every row (union-find over column numbers)."""

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()):
        self._parent: dict[int, int] = {}
        for a, b in pairs:
            self.join(a, b)

    def find(self, number: int) -> int:
        """Return the representative of a column's class."""
        parent = self._parent
        while (up := parent.get(number, number)) != number:
            number = up
        return number

    def join(self, a: int, b: int) -> None:
        """Record that two columns are equal."""
        first, second = self.find(a), self.find(b)
        if first != second:
            # The smaller number stays the representative, so that the result does not depend on the order of the pairs.
            self._parent[max(first, second)] = min(first, second)

    def classes(self) -> list[list[int]]:
        """Return all classes of two or more columns, members ascending."""
        found: dict[int, list[int]] = {}
        for number in sorted({*self._parent, *self._parent.values()}):
            found.setdefault(self.find(number), []).append(number)
        return [members for members in found.values() if len(members) > 1]

    def same(self, number: int) -> list[int]:
        """Return the members of a column's class, itself included."""
        top = self.find(number)
        return [n for n in sorted({number, top, *self._parent}) if self.find(n) == top]


def equal_columns(node: Node) -> Equivalence:
    """Columns that are equal in every row at a node, proved by its inner joins, filters and plain projections."""
    found = Equivalence()
    _collect_equalities(node, found)
    return found


def _collect_equalities(node: Node, found: Equivalence) -> None:
    predicates: list[Expr] = []
    if isinstance(node, Filter):
        predicates = conjuncts(node.predicate)
    elif isinstance(node, Join) and node.kind in ("inner", "cross", "semi"):
        predicates = conjuncts(node.condition)
    elif isinstance(node, (Project, Aggregate)):
        for column, expr in node.items if isinstance(node, Project) else node.common_groups:
            if isinstance(expr, Column):
                found.join(column.id, expr.id)
    for part in predicates:
        if pair := column_equality(part):
            found.join(pair[0].id, pair[1].id)
    if isinstance(node, Join):
        if node.kind in ("inner", "cross", "semi", "left", "single", *LEFT_ONLY):
            _collect_equalities(node.left, found)
        if node.kind in ("inner", "cross", "right"):
            _collect_equalities(node.right, found)
    elif not isinstance(node, (SetOperation, Shared, Recursive)):
        for child in node.children():
            _collect_equalities(child, found)


def determined(node: Node, given: Iterable[int]) -> frozenset[int]:
    """Numbers of the columns that are functionally determined by those in `given`, for the rows of `node`.

    A table's primary key determines its other columns; equal columns determine each other.
    """
    equal = equal_columns(node)
    rules: list[tuple[frozenset[int], frozenset[int]]] = []
    for scan in nodes(node):
        if isinstance(scan, Scan):
            rules += [(key, frozenset(c.id for c in scan.output)) for key in unique_keys(scan)]
        elif isinstance(scan, Aggregate) and {c.id for c, _ in scan.groups} <= not_null_columns(scan):
            # A NULL group looks like a row that an outer join completed, so nullable groups prove nothing.
            rules += [(key, frozenset(c.id for c in scan.columns)) for key in unique_keys(scan)]
    closure = {equal.find(number) for number in given}
    everything = {c.id for inner in nodes(node) for c in inner.columns}
    grew = True
    while grew:
        grew = False
        for key, columns in rules:
            tops = {equal.find(number) for number in columns}
            if not tops <= closure and {equal.find(number) for number in key} <= closure:
                closure |= tops
                grew = True
    return frozenset(number for number in everything if equal.find(number) in closure)
