"""The invariants of a logical plan, checked after every rule in tests.

- Every column that an expression reads is produced by an input of its node.
- No column number is defined twice, except inside shared subplans.
- Both sides of a comparison have one type; a predicate is BOOLEAN.
- The sides of a set operation and a shared subplan's uses have as many columns, of the same types, as the node
  produces.
- No subquery expression is left after decorrelation.
"""

from __future__ import annotations

from ...errors import InternalError
from ...model.types import DataType, Kind
from ...sql.expressions import Call, Column, Expr
from ...sql.subqueries import SUBQUERIES
from .logical import (
    Aggregate,
    FileScan,
    Filter,
    Join,
    Node,
    Project,
    Recursive,
    Scan,
    Series,
    SetOperation,
    Shared,
    Values,
    Window,
    WorkingTable,
)
from .trees import MIRRORED, columns_in, each, node_expressions


def check_plan(root: Node, rule: str) -> None:
    """Raise `InternalError`, naming the rule that ran last, if an invariant does not hold."""
    _check(root, rule, set(), rule not in ("build", "fold_constants"))


def _fail(rule: str, node: Node, problem: str) -> InternalError:
    return InternalError(f"after {rule}: {type(node).__name__}: {problem}")


def _check(node: Node, rule: str, made: set[int], flat: bool) -> None:
    for child in node.children():
        _check(child, rule, made, flat)
    if isinstance(node, Shared):
        _check(node.source, rule, set(), flat)
        _check_widths(node, node.source, node.output, rule)
    if isinstance(node, SetOperation):
        for side in (node.left, node.right):
            _check_widths(node, side, node.output, rule)
    if isinstance(node, Recursive):
        for side in (node.anchor, node.step):
            _check_widths(node, side, node.output, rule)
    for column in _fresh(node):
        if column.id in made:
            raise _fail(rule, node, f"column {column.name} ({column.id}) is made twice")
        made.add(column.id)
    provided = {column.id for child in node.children() for column in child.columns}
    if isinstance(node, Scan):
        provided = {number for number, _ in node.source_names}
    elif isinstance(node, FileScan):
        provided = {column.id for column in node.file.columns}
    for expr in node_expressions(node):
        missing = columns_in(expr) - provided
        if missing and flat:
            names = [f"{c.name} ({c.id})" for c in each(expr) if isinstance(c, Column) and c.id in missing]
            raise _fail(rule, node, f"no input provides {', '.join(sorted(set(names)))}")
        _check_expression(node, expr, rule, flat)
    predicate = node.predicate if isinstance(node, Filter) else node.condition if isinstance(node, Join) else None
    if predicate is not None and predicate.type.kind not in (Kind.BOOLEAN, Kind.NULL):
        raise _fail(rule, node, f"its predicate is of type {predicate.type}")


def _fresh(node: Node) -> list[Column]:
    """Columns that a node defines rather than passes on."""
    if isinstance(node, (Scan, FileScan, Values, SetOperation, Shared, Recursive, WorkingTable)):
        return list(node.columns)
    if isinstance(node, Series):
        return [node.column]
    if isinstance(node, Project):
        return [column for column, expr in node.items if not _passes(column, expr)]
    if isinstance(node, Aggregate):
        number = [node.set_number] if node.set_number is not None else []
        return [c for c, e in node.groups if not _passes(c, e)] + [c for c, _ in node.aggregates] + number
    if isinstance(node, Window):
        return [column for column, _ in node.windows]
    return []


def _passes(column: Column, expr: Expr) -> bool:
    return isinstance(expr, Column) and expr.id == column.id


def _check_widths(node: Node, source: Node, output: tuple[Column, ...], rule: str) -> None:
    if len(source.columns) != len(output):
        raise _fail(rule, node, f"{len(source.columns)} columns come in, {len(output)} go out")
    for inner, own in zip(source.columns, output, strict=True):
        if not same_type(inner.type, own.type):
            raise _fail(rule, node, f"column {own.name} is {own.type}, its source {inner.type}")


def _check_expression(node: Node, expr: Expr, rule: str, flat: bool) -> None:
    for part in each(expr):
        if flat and isinstance(part, SUBQUERIES):
            raise _fail(rule, node, "a subquery is left in an expression")
        if isinstance(part, Call) and part.function in MIRRORED:
            first, second = part.args
            if not same_type(first.type, second.type):
                raise _fail(rule, node, f"{part.function} compares {first.type} with {second.type}")


def same_type(first: DataType, second: DataType) -> bool:
    """True if values of the two types have the same representation, so that they compare without conversion."""
    if first.is_decimal and second.is_decimal:
        return first.scale == second.scale
    return first.kind is second.kind or Kind.NULL in (first.kind, second.kind)
