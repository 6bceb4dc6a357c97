"""Binds SET: `column = value`, `(columns) = (values)`, `(columns) = (query)`.

A query for several columns is bound once per column, each time for that column alone: it is then an ordinary scalar
subquery, NULL if it has no row and an error if it has more than one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import NotNullViolation, StatementError, TypeMismatch, UnknownColumn
from ....model.schema import ColumnSchema, Table
from ...bound import Query, Select
from ...coercion import assign, assign_value
from ...expressions import Expr, Literal
from ...subqueries import ScalarSubquery
from ...syntax.written_names import did_you_mean
from ..clauses.query_casts import select_from
from ..context import Context, Frame, name_of


def bind_assignments(items: Sequence[Any], table: Table, frame: Frame) -> list[tuple[ColumnSchema, Expr]]:
    """The columns that a SET changes, each with its new value in the column's type."""
    found: list[tuple[ColumnSchema, Expr]] = []
    for item in items:
        names = item.this.expressions if isinstance(item.this, exp.Tuple) else [item.this]
        columns: list[ColumnSchema] = []
        for name in names:
            columns.append(_changed(name, table, [*(column for column, _ in found), *columns], frame.context))
        found += zip(columns, _values(item, columns, frame))
    return found


def _changed(node: Any, table: Table, before: Sequence[ColumnSchema], context: Context) -> ColumnSchema:
    name = name_of(node)
    with context.at(node):
        if name not in table.schema:
            hint = did_you_mean(name, table.schema.names, "it has")
            raise UnknownColumn(f"table {table.name} has no column {name}{hint}")
        column = table.schema.column(name)
        if column in table.schema.key:
            raise StatementError(
                f"{name} is a primary key column, which cannot be changed; delete the row and insert another"
            )
        if column.immutable:
            raise StatementError(f"column {name} is IMMUTABLE: its value stays as it was inserted")
        if column in before:
            raise StatementError(f"column {name} is set twice")
    return column


def _values(item: Any, columns: Sequence[ColumnSchema], frame: Frame) -> Iterator[Expr]:
    if not isinstance(item.this, exp.Tuple):
        yield _value(item.expression, columns[0], frame)
        return
    row = item.expression
    if not isinstance(row, exp.Tuple):
        for place, column in enumerate(columns):
            with frame.context.at(row):
                yield _fitting(_column_of(row, place, len(columns), frame), column)
        return
    with frame.context.at(row):
        _refuse_count(len(row.expressions), len(columns))
    for node, column in zip(row.expressions, columns):
        yield _value(node, column, frame)


def _value(node: Any, column: ColumnSchema, frame: Frame) -> Expr:
    with frame.context.at(node):
        if is_default(node):
            return _fitting(default_of(column), column)
        return _not_null(assign_node(node, frame.bind(node), column), column)


def assign_node(node: Any, expr: Expr, column: ColumnSchema) -> Expr:
    """A bound value as INSERT and UPDATE store it in a column.

    `node` is its syntax: a bare parameter is assigned as a value, not converted as an expression.
    """
    if isinstance(node, exp.Placeholder | exp.Parameter) and isinstance(expr, Literal):
        return assign_value(expr, column.type, column.name)
    return assign(expr, column.type, column.name)


def _fitting(expr: Expr, column: ColumnSchema) -> Expr:
    return _not_null(assign(expr, column.type, column.name), column)


def _not_null(value: Expr, column: ColumnSchema) -> Expr:
    if isinstance(value, Literal) and value.value is None and not column.nullable:
        raise NotNullViolation(f"column {column.name} is NOT NULL and cannot be set to NULL")
    return value


def _column_of(node: Any, place: int, wanted: int, frame: Frame) -> Expr:
    """One column of a query of one row."""
    query = frame.bind_query(node)
    _refuse_count(len(query.columns), wanted)
    body = query.body
    if isinstance(body, Select) and not body.distinct and not body.distinct_on:
        others = tuple(pair for i, pair in enumerate(body.projection) if i != place)
        body = replace(body, projection=(body.projection[place], *others))
        hidden = tuple(column for column, _ in others)
        query = replace(query, body=body, columns=(body.projection[0][0],), hidden=hidden)
    else:
        around = select_from(query, frame.context)
        body = replace(around, projection=(around.projection[place],))
        query = Query(body, body.columns)
    return ScalarSubquery(query.columns[0].type, True, query)


def _refuse_count(given: int, wanted: int) -> None:
    if given != wanted:
        raise TypeMismatch(f"SET has {given} value{'s' * (given != 1)} for {wanted} columns")


def is_default(node: Any) -> bool:
    """True for the word DEFAULT in place of a value."""
    return isinstance(node, exp.Var) and node.name.upper() == "DEFAULT"


def default_of(column: ColumnSchema) -> Literal:
    """A column's default; NULL if it has none."""
    return Literal(column.type, column.default is None, column.default)
