"""Binds RETURNING: the statement's query computes its columns together with the rows to be written.

    UPDATE t SET n = n + 1 RETURNING k, n * 2
      ─►  SELECT k, n', k, n' * 2 FROM (SELECT k, n + 1 AS n', ... FROM t)
                 written  returned

An error in RETURNING is therefore raised before anything is written, and a subquery there reads the snapshot of the
statement's beginning (PostgreSQL).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import StatementError
from ....model.lazy_dataclass import dataclass
from ....model.schema import ColumnSchema, Table
from ....model.types import STRING, Kind
from ...bound import Query, Select, SubqueryRef
from ...coercion import convert
from ...expressions import Column, Expr, Literal
from ..clauses.select import output_name, star_of
from ..context import Context, Frame, name_of, only
from ..scope import Field, Scope


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """The rows that a statement is about to write, as returned by `query`.

    `fields` are visible in RETURNING, for the table and for the relations that FROM or USING joined: columns of
    `query`, or literals. `relations` are their aliases in order.
    """

    table: Table
    query: Query
    fields: tuple[Field, ...]
    relations: tuple[str, ...]


def bind_returning(
    node: Any, rows: WrittenRows, written: int, scope: Scope, context: Context
) -> tuple[Query, tuple[Column, ...]]:
    """The query that returns the first `written` columns and then those of RETURNING; and the columns of RETURNING."""
    only(node, "expressions")
    inner = tuple(context.column(c.name, c.type, c.nullable) for c in rows.query.columns)
    moved = dict(zip(rows.query.columns, inner))
    fields = tuple(
        replace(field, expr=moved[field.expr]) if isinstance(field.expr, Column) else field for field in rows.fields
    )
    frame = Frame(context, Scope(scope, fields, rows.relations), "RETURNING")
    items = [item for part in node.expressions for item in _item(part, rows.table, frame)]
    projection: list[tuple[Column, Expr]] = [(context.column(c.name, c.type, c.nullable), c) for c in inner[:written]]
    projection += [(context.column(name, expr.type, expr.nullable), expr) for name, expr in items]
    body = Select(SubqueryRef(rows.query, "", inner), None, tuple(projection))
    return Query(body, body.columns), body.columns[written:]


def _item(node: Any, table: Table, frame: Frame) -> list[tuple[str, Expr]]:
    star, qualifier = star_of(node)
    if star:
        with frame.context.at(node):
            return [(field.name, field.expr) for field in frame.scope.star(qualifier)]
    inner = node.this if isinstance(node, exp.Alias) else node
    _refuse_numbered(inner, table, frame)
    expr = frame.bind(inner)
    return [(output_name(node), convert(expr, STRING) if expr.type.kind is Kind.NULL else expr)]


def _refuse_numbered(node: Any, table: Table, frame: Frame) -> None:
    """Rejects the hidden last key column of an inserted row, which has no value before the row is written."""
    column = table.schema.key[-1]
    if not column.auto_increment or any(f.name == column.name for f in frame.scope.fields):
        return
    for part in node.find_all(exp.Column):
        if name_of(part.this) == column.name:
            with frame.context.at(part):
                raise StatementError(
                    f"column {column.name} is numbered by the store as the row is written; RETURNING of an INSERT "
                    "cannot return it"
                )


def table_fields(table: Table, alias: str, given: dict[str, Expr], shown: Sequence[ColumnSchema]) -> tuple[Field, ...]:
    """The fields of a table's new row: `given` by name, NULL for the others of the `shown` columns."""
    return tuple(Field(c.name, given.get(c.name) or Literal(c.type, True, None), alias) for c in shown)
