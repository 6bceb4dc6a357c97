"""Binds UPDATE and DELETE: as a query for the primary keys of the rows that change, and their new values.

    UPDATE t SET c = c + 1 FROM x WHERE t.k = x.k     SELECT t.key..., c + 1 FROM t, x WHERE t.k = x.k
    DELETE FROM t USING x WHERE t.k = x.k             SELECT t.key... FROM t, x WHERE t.k = x.k

A row that several rows of FROM or USING match is changed once; which of them gives an UPDATE its values is not defined
(PostgreSQL).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from ..errors import GroupingError, NotNullViolation, StatementError, UnknownColumn, did_you_mean
from ..storage.schema import ColumnSchema, Table
from ..storage.store import Op
from .binder_query import bind_query
from .binder_tables import find_table
from .binder_writes import default_of, is_default
from .bound import ChangeStatement, Query, Select
from .coercion import assign
from .context import Context, name_of, only
from .expressions import Expr, Literal
from .scope import Scope


def bind_update(node: exp.Update, context: Context) -> ChangeStatement:
    """Bind UPDATE. The primary key of a row cannot be changed."""
    only(node, "this", "expressions", "from_", "where")
    table = _target(node, context)
    changed = _changed_columns(table, node, context)
    values = [exp.Null() if is_default(item.expression) else item.expression for item in node.expressions]
    from_ = node.args.get("from_")
    try:
        query = bind_query(_selection(node, table, values, [from_.this] if from_ else []), Scope(), context)
    except GroupingError as error:
        raise GroupingError("SET takes no aggregate functions; put them into a subquery") from error
    assert isinstance(query.body, Select)
    projection = list(query.body.projection[: table.schema.key_columns])
    for item, column, (_, expr) in zip(node.expressions, changed, query.body.projection[len(projection) :]):
        value = _converted(item.expression, expr, column, context)
        projection.append((context.column(column.name, column.type, value.nullable), value))
    body = replace(query.body, projection=tuple(projection))
    names = tuple(c.name for c in (*table.schema.key, *changed))
    return ChangeStatement(table, Op.UPDATE, names, Query(body, body.columns))


def _converted(node: Any, expr: Expr, column: ColumnSchema, context: Context) -> Expr:
    with context.at(node):
        value = default_of(column) if is_default(node) else assign(expr, column.type, column.name)
        if isinstance(value, Literal) and value.value is None and not column.nullable:
            raise NotNullViolation(f"column {column.name} is NOT NULL and cannot be set to NULL")
        return value


def bind_delete(node: exp.Delete, context: Context) -> ChangeStatement:
    """Bind DELETE."""
    only(node, "this", "using", "where")
    table = _target(node, context)
    query = bind_query(_selection(node, table, [], node.args.get("using") or []), Scope(), context)
    return ChangeStatement(table, Op.DELETE, tuple(c.name for c in table.schema.key), query)


def bind_truncate(node: Any, context: Context) -> ChangeStatement:
    """Bind TRUNCATE TABLE: a DELETE of all rows."""
    return bind_delete(exp.Delete(this=node.this.copy()), context)


def _target(node: Any, context: Context) -> Table:
    """The table that changes."""
    version = node.this.args.get("version")
    if version is not None:
        with context.at(version):
            raise StatementError("the past cannot be changed; FOR SYSTEM_TIME stands in FROM, USING and subqueries")
    return find_table(node.this, context)


def _selection(node: Any, table: Table, values: list[Any], sources: list[Any]) -> exp.Select:
    """SELECT key columns, values FROM the table, sources WHERE ..."""
    alias = node.this.args.get("alias")
    name = alias.this if alias is not None and alias.this is not None else node.this.this
    keys = [exp.column(exp.to_identifier(c.name, quoted=True), table=name.copy()) for c in table.schema.key]
    joins = []
    for source in sources:
        join = exp.Join(this=source)
        join.meta["comma"] = True
        joins.append(join)
    where = node.args.get("where")
    return exp.Select(expressions=[*keys, *values], from_=exp.From(this=node.this), joins=joins, where=where)


def _changed_columns(table: Table, node: exp.Update, context: Context) -> list[ColumnSchema]:
    found: list[ColumnSchema] = []
    for item in node.expressions:
        name = name_of(item.this)
        with context.at(item.this):
            if name not in table.schema:
                hint = did_you_mean(name, table.schema.names, "it has")
                raise UnknownColumn(f"table {table.name} has no column {name}{hint}")
            column = table.schema.column(name)
            if column in table.schema.key:
                raise StatementError(
                    f"{name} is a primary key column, which cannot be changed; delete the row and insert another"
                )
            if column in found:
                raise StatementError(f"column {name} is set twice")
        found.append(column)
    return found
