"""Traversal and rewriting of plan trees and of the expressions in them, used by every rule.

`sql.expressions` traverses any expression by inspecting its fields. Planning visits some ten thousand nodes, so this
module handles the common classes directly and falls back to the fields for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...model.types import BOOLEAN, DataType
from ...sql.constant_rows import ConstantRows
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Call, Case, Cast, Column, Expr, InValues, Literal, OrderItem, Parameter, conjuncts
from ...sql.expressions import Window as WindowCall
from ...sql.subqueries import SUBQUERIES
from .logical import (
    Aggregate,
    FileScan,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Scan,
    Series,
    Shared,
    Sort,
    TopRows,
    Values,
    Window,
)

TRUE = Literal(BOOLEAN, False, True)
FALSE = Literal(BOOLEAN, False, False)
UNKNOWN = Literal(BOOLEAN, True, None)
_LEAVES = (Column, Literal, Parameter)


def subexpressions(expr: Expr) -> tuple[Expr, ...]:
    """Direct subexpressions, in order."""
    if isinstance(expr, Call):
        return expr.args
    if isinstance(expr, _LEAVES):
        return ()
    if isinstance(expr, Cast):
        return (expr.arg,)
    return expr.children()


def each(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and all below it, parents first; no other order is promised."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(node.args)
        elif not isinstance(node, _LEAVES):
            stack.extend(subexpressions(node))


def columns_in(expr: Expr | None) -> frozenset[int]:
    """Numbers of the columns that an expression reads itself; subqueries are not inspected."""
    if expr is None:
        return frozenset()
    if isinstance(expr, Column):
        return frozenset((expr.id,))
    numbers: set[int] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Column):
            numbers.add(node.id)
        elif isinstance(node, Call):
            stack.extend(node.args)
        elif not isinstance(node, _LEAVES):
            stack.extend(subexpressions(node))
    return frozenset(numbers)


def columns_in_all(exprs: Iterable[Expr]) -> frozenset[int]:
    """Numbers of the columns that any of the expressions reads."""
    return frozenset().union(*map(columns_in, exprs))


def has_subquery(expr: Expr) -> bool:
    """True if the expression contains a subquery."""
    return any(isinstance(node, SUBQUERIES) for node in each(expr))


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rewrite bottom-up: `change` sees each node after its children were changed."""
    if isinstance(expr, _LEAVES):
        return change(expr)
    return change(map_parts(expr, lambda part: rewrite(part, change)))


def map_parts(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return the expression over changed direct subexpressions; itself if nothing changed."""
    if isinstance(expr, Call):
        args = tuple([change(arg) for arg in expr.args])
        if all(a is b for a, b in zip(args, expr.args, strict=True)):
            return expr
        return Call(expr.type, expr.nullable, expr.function, args)
    if isinstance(expr, _LEAVES):
        return expr
    return expr.map_children(change)


def substitute(expr: Expr, mapping: Mapping[int, Expr]) -> Expr:
    """Return the expression with columns replaced by number; itself if it reads none of them."""
    if isinstance(expr, Column):
        return mapping.get(expr.id, expr)
    return map_parts(expr, lambda part: substitute(part, mapping))


# ---- small expressions -----------------------------------------------------------------------------------------


def call(function: str, *args: Expr, type_: DataType = BOOLEAN) -> Call:
    """A strict scalar call: NULL is possible where an argument may be NULL."""
    return Call(type_, any(arg.nullable for arg in args), function, args)


def is_null(expr: Expr) -> Expr:
    """`expr IS NULL`."""
    return Call(BOOLEAN, False, "is_null", (expr,))


def negate(expr: Expr) -> Expr:
    """`NOT expr`."""
    return call("not", expr)


def distinct(parts: Iterable[Expr]) -> list[Expr]:
    """Remove duplicates from several expressions, keeping the order of first occurrence.

    By hash: generated statements have conditions of tens of thousands of parts, which must not be compared in pairs.
    """
    return list(dict.fromkeys(parts))


def all_of(parts: Iterable[Expr]) -> Expr | None:
    """Conjunction of flattened, distinct parts; None for none."""
    distinct_parts = distinct(piece for part in parts for piece in conjuncts(part))
    if len(distinct_parts) > 1:
        return call("and", *distinct_parts)
    return distinct_parts[0] if distinct_parts else None


def any_of(parts: Iterable[Expr]) -> Expr:
    """Disjunction of flattened, distinct parts; FALSE for none."""
    distinct_parts = distinct(piece for part in parts for piece in disjuncts(part))
    if len(distinct_parts) > 1:
        return call("or", *distinct_parts)
    return distinct_parts[0] if distinct_parts else FALSE


def disjuncts(expr: Expr) -> list[Expr]:
    """Parts of a disjunction, flattened."""
    if isinstance(expr, Call) and expr.function == "or":
        return [part for arg in expr.args for part in disjuncts(arg)]
    return [expr]


MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""The comparison that holds with the two sides exchanged."""
NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
"""The comparison that is false (or NULL) exactly where the key is true (or NULL)."""


def as_equality(expr: Expr) -> tuple[Expr, Expr] | None:
    """Return the two sides of `a = b`, None for anything else."""
    if isinstance(expr, Call) and expr.function == "eq":
        return expr.args[0], expr.args[1]
    return None


def column_equality(expr: Expr) -> tuple[Column, Column] | None:
    """Return the two columns of `column = column`, None for anything else."""
    sides = as_equality(expr)
    if sides and isinstance(sides[0], Column) and isinstance(sides[1], Column):
        return sides[0], sides[1]
    return None


# ---- nodes -------------------------------------------------------------------------------------------------------


def column_ids(node: Node) -> frozenset[int]:
    """Numbers of the columns that a node produces."""
    return frozenset(column.id for column in node.columns)


def node_expressions(node: Node) -> list[Expr]:
    """Expressions of the node itself, without those of its inputs."""
    if isinstance(node, Filter):
        return [node.predicate]
    if isinstance(node, Join):
        return [] if node.condition is None else [node.condition]
    if isinstance(node, Project):
        return [expr for _, expr in node.items]
    if isinstance(node, Aggregate):
        return [expr for _, expr in (*node.groups, *node.aggregates)]
    if isinstance(node, Window):
        return [call for _, call in node.windows]
    if isinstance(node, (Scan, FileScan)):
        return list(node.predicates)
    if isinstance(node, Values):
        # Rows of plain constants have nothing to change, and may be many.
        return [] if isinstance(node.rows, ConstantRows) else [expr for row in node.rows for expr in row]
    if isinstance(node, Series):
        return [node.start, node.stop, node.step]
    if isinstance(node, (Sort, TopRows)):
        limits = [expr for expr in (node.limit, node.offset) if expr is not None]
        keys: tuple[Expr, ...] = node.groups if isinstance(node, TopRows) else ()
        return [*keys, *(item.expr for item in node.order), *limits]
    if isinstance(node, Limit):
        return [expr for expr in (node.limit, node.offset) if expr is not None]
    return []


def map_expressions(node: Node, change: Callable[[Expr], Expr]) -> Node:
    """Return the node with each of its own expressions changed; itself if none changed."""
    before = node_expressions(node)
    if not before:
        return node
    after = [change(expr) for expr in before]
    if all(a is b for a, b in zip(after, before, strict=True)):
        return node
    return _with_expressions(node, after)


def _with_expressions(node: Node, exprs: list[Expr]) -> Node:
    """Return the node with its own expressions replaced, in the order of `node_expressions`."""
    if isinstance(node, Filter):
        return Filter(node.source, exprs[0])
    if isinstance(node, Join):
        return replace(node, condition=exprs[0])
    if isinstance(node, Project):
        return Project(node.source, tuple((c, e) for (c, _), e in zip(node.items, exprs, strict=True)))
    if isinstance(node, Aggregate):
        width = len(node.groups)
        groups = tuple((c, e) for (c, _), e in zip(node.groups, exprs, strict=False))
        calls: list[tuple[Column, AggregateCall]] = []
        for (column, _), expr in zip(node.aggregates, exprs[width:], strict=True):
            assert isinstance(expr, AggregateCall)
            calls.append((column, expr))
        return replace(node, groups=groups, aggregates=tuple(calls))
    if isinstance(node, Window):
        pairs = zip(node.windows, exprs, strict=True)
        return Window(node.source, tuple((c, e) for (c, _), e in pairs if isinstance(e, WindowCall)))
    if isinstance(node, (Scan, FileScan)):
        return replace(node, predicates=tuple(exprs))
    if isinstance(node, Values):
        width = len(node.output)
        rows = tuple(tuple(exprs[i * width : (i + 1) * width]) for i in range(len(node.rows)))
        return Values(node.output, rows)
    if isinstance(node, Series):
        return Series(node.source, node.column, *exprs)
    rest = list(exprs)
    if isinstance(node, TopRows):
        return _top_rows_of(node, rest)
    if isinstance(node, Sort):
        order = tuple(OrderItem(rest.pop(0), item.descending, item.nulls_first) for item in node.order)
        limit = rest.pop(0) if node.limit is not None else None
        return Sort(node.source, order, limit, rest.pop(0) if node.offset is not None else None)
    assert isinstance(node, Limit)
    limit = rest.pop(0) if node.limit is not None else None
    return Limit(node.source, limit, rest.pop(0) if node.offset is not None else None)


def _top_rows_of(node: TopRows, rest: list[Expr]) -> Node:
    width, keys = len(node.groups), len(node.groups) + len(node.order)
    groups = [expr for expr in rest[:width] if isinstance(expr, Column)]
    assert len(groups) == width, "rows are grouped by columns"
    order = (replace(item, expr=expr) for item, expr in zip(node.order, rest[width:keys], strict=True))
    limits = rest[keys:]
    limit = limits.pop(0) if node.limit is not None else None
    offset = limits.pop(0) if node.offset is not None else None
    return TopRows(node.source, tuple(groups), tuple(order), limit, offset, node.ties)


def nodes(root: Node) -> Iterator[Node]:
    """Yield the node and all below it, parents first."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children()[::-1])


def rewrite_nodes(node: Node, change: Callable[[Node], Node]) -> Node:
    """Rewrite bottom-up: `change` sees each node after its inputs were changed."""
    return change(node.map_children(lambda child: rewrite_nodes(child, change)))


def free_columns(root: Node) -> frozenset[int]:
    """Numbers of the columns that a plan reads and that nothing inside it defines: its outer references.

    Subqueries that are still expressions are not inspected.
    """
    stack = [root]
    while stack:  # without recursion, and once for each node: plans are hundreds of levels deep
        node = stack[-1]
        inputs = (node.source,) if isinstance(node, Shared) else node.children()
        pending = [child for child in inputs if not hasattr(child, "_free")]
        if pending:
            stack.extend(pending)
            continue
        stack.pop()
        if not hasattr(node, "_free"):
            object.__setattr__(node, "_free", _free_columns(node, inputs))
    return root._free


def _free_columns(node: Node, inputs: Sequence[Node]) -> frozenset[int]:
    """Columns that a node and its inputs read, without those that the inputs produce and the node defines."""
    read = set(columns_in_all(node_expressions(node)))
    for child in inputs:
        read |= child._free
    if not read:
        return _NONE
    for made in (node, *inputs):
        read.difference_update(column.id for column in made.columns)
    if isinstance(node, Scan):
        read.difference_update(number for number, _ in node.source_names)
    elif isinstance(node, FileScan):
        read.difference_update(column.id for column in node.file.columns)
    return frozenset(read) if read else _NONE


_NONE: frozenset[int] = frozenset()


def filtered(node: Node, predicate: Expr | None) -> Node:
    """Put a filter over the node if there is a predicate; an existing filter is extended."""
    if predicate is None or predicate == TRUE:
        return node
    if isinstance(node, Filter):
        return Filter(node.source, all_of([node.predicate, predicate]) or TRUE)
    return Filter(node, predicate)


def passing(columns: Iterable[Column]) -> tuple[tuple[Column, Expr], ...]:
    """Projection items that pass columns on under their own numbers."""
    return tuple((column, column) for column in columns)


class Numbers:
    """Allocates column numbers that a statement does not use yet."""

    def __init__(self, first: int):
        self._next = first

    def column(self, like: Expr, name: str = "") -> Column:
        """Make a fresh column for the values of an expression."""
        if not name:
            name = like.name if isinstance(like, Column) else "expr"
        self._next += 1
        return Column(like.type, like.nullable, self._next, name)


def in_values(expr: Expr) -> tuple[Expr, tuple[Expr, ...]] | None:
    """Return the argument and items of `arg IN (items)`, also of `arg = literal`; None for anything else."""
    if isinstance(expr, InValues):
        return expr.arg, expr.items
    sides = as_equality(expr)
    if sides and isinstance(sides[1], Literal):
        return sides[0], (sides[1],)
    if sides and isinstance(sides[0], Literal):
        return sides[1], (sides[0],)
    return None


def case(condition: Expr, value: Expr, default: Expr) -> Case:
    """`CASE WHEN condition THEN value ELSE default END`."""
    return Case(value.type, value.nullable or default.nullable, ((condition, value),), default)
