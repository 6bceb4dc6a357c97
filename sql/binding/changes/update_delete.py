"""Binds UPDATE and DELETE as a query for the primary keys of the changed rows, and their new values.

    UPDATE t SET c = c + 1 FROM x WHERE t.k = x.k     SELECT t.key..., c + 1 FROM t, x WHERE t.k = x.k
    DELETE FROM t USING x WHERE t.k = x.k             SELECT t.key... FROM t, x WHERE t.k = x.k

A row that several rows of FROM or USING match is changed once; it is not defined which of them an UPDATE uses
(PostgreSQL).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import StatementError
from ....model.access.rights import Right
from ....model.schema import ColumnSchema, Table
from ....model.store import Op
from ...bound import ChangeStatement, Query, Select
from ...expressions import Column, Expr
from ..clauses.from_clause import Source, bind_from
from ..clauses.query import with_scope
from ..context import Context, Frame, only
from ..expressions.expressions import condition
from ..scope import Scope
from ..tables.create_table import find_table
from .assignments import bind_assignments
from .returning import WrittenRows, bind_returning


def bind_update(node: exp.Update, context: Context) -> ChangeStatement:
    """Bind UPDATE. The primary key of a row cannot be changed."""
    only(node, "with_", "this", "expressions", "from_", "where", "returning")
    from_ = node.args.get("from_")
    return _Change(node, [from_.this] if from_ else [], context, Right.UPDATE).bind(Op.UPDATE)


def bind_delete(node: exp.Delete, context: Context) -> ChangeStatement:
    """Bind DELETE."""
    only(node, "with_", "this", "using", "where", "returning")
    return _Change(node, node.args.get("using") or [], context, Right.DELETE).bind(Op.DELETE)


def bind_truncate(node: Any, context: Context) -> ChangeStatement:
    """Bind TRUNCATE TABLE: a DELETE of all rows."""
    return _Change(exp.Delete(this=node.this.copy()), [], context, Right.TRUNCATE).bind(Op.DELETE)


class _Change:
    """One UPDATE or DELETE, which needs a right on its table: the table, joined with `sources`."""

    def __init__(self, node: Any, sources: Sequence[Any], context: Context, right: Right) -> None:
        self.node = node
        self.context = context
        self.table = _target(node, context)
        with context.at(node.this):
            context.require(self.table, right)
        context.written = node.this
        self.around = with_scope(node, context)
        is_alone = node.this.args.get("db") is None
        if is_alone and self.around.common_table(self.table.local_name) is not None:
            with context.at(node.this):
                raise StatementError(
                    f"{self.table.local_name} is both the target and a query of WITH; rename the query"
                )
        self.source = _joined(node.this, sources, self.around, context)
        self.alias = self.source.aliases[0]
        self.scope = Scope(self.around, self.source.fields, self.source.aliases)

    def bind(self, op: Op) -> ChangeStatement:
        """The bound statement."""
        where = self.node.args.get("where")
        test = condition(where.this, self._frame("WHERE")) if where else None
        changes = bind_assignments(self.node.expressions, self.table, self._frame("SET")) if op is Op.UPDATE else []
        keys = self.table.schema.key
        projection = [self._item(column, self.scope.resolve(column.name, self.alias)) for column in keys]
        projection += [self._item(column, value) for column, value in changes]
        names = tuple(column.name for column in (*keys, *(column for column, _ in changes)))
        returning = self.node.args.get("returning")
        self._require_reading(returning)
        if returning is None:
            return ChangeStatement(self.table, op, names, self._query(test, projection))
        written = dict(zip(names, (column for column, _ in projection)))
        fields = []
        for field in self.source.fields:
            column = written.get(field.name) if field.relation == self.alias else None
            if column is None:
                column = self.context.column(field.name, field.expr.type, field.expr.nullable)
                projection.append((column, field.expr))
            fields.append(replace(field, expr=column))
        rows = WrittenRows(self.table, self._query(test, projection), tuple(fields), self.source.aliases)
        query, given = bind_returning(returning, rows, len(names), self.around, self.context)
        return ChangeStatement(self.table, op, names, query, given)

    def _require_reading(self, returning: Any) -> None:
        """A statement that reads columns of its table needs SELECT, too: else it would show them."""
        own = [field.expr for field in self.source.fields if field.relation == self.alias]
        read = [node for column in own for node in self.context.mentions.get(getattr(column, "id", 0), ())]
        if read or returning is not None:
            with self.context.at(read[0] if read else returning):
                self.context.require(self.table, Right.SELECT)

    def _frame(self, clause: str) -> Frame:
        return Frame(self.context, self.scope, clause)

    def _item(self, column: ColumnSchema, value: Expr) -> tuple[Column, Expr]:
        return self.context.column(column.name, column.type, value.nullable), value

    def _query(self, test: Expr | None, projection: list[tuple[Column, Expr]]) -> Query:
        body = Select(self.source.relation, test, tuple(projection))
        return Query(body, body.columns)


def _joined(target: Any, sources: Sequence[Any], scope: Scope, context: Context) -> Source:
    """The table joined with all relations of FROM or USING."""
    joins = []
    for source in sources:
        join = exp.Join(this=source)
        join.meta["comma"] = True
        joins.append(join)
    return bind_from(target, joins, scope, context)


def _target(node: Any, context: Context) -> Table:
    """The target table."""
    version = node.this.args.get("version")
    if version is not None:
        with context.at(version):
            raise StatementError("the past cannot be changed; FOR SYSTEM_TIME is allowed in FROM, USING and subqueries")
    return find_table(node.this, context, writes=True)
