"""Binds the conflict handling of INSERT: as a query that looks up each row in the table.

    INSERT INTO t VALUES (1, 5) ON CONFLICT DO UPDATE SET n = t.n + excluded.n WHERE t.n < 9
      ─►  SELECT k, CASE WHEN found THEN t.n + excluded.n ELSE excluded.n END,
                 CASE WHEN NOT found THEN insert WHEN t.n < 9 THEN update ELSE nothing END
          FROM (VALUES (1, 5)) AS excluded LEFT JOIN t ON excluded.k = t.k          found: t.k IS NOT NULL

INSERT IGNORE and UPSERT need this only if RETURNING requests the rows that were written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....errors import StatementError, UnknownColumn
from ....model.lazy_dataclass import dataclass
from ....model.schema import Table
from ....model.store import Op
from ....model.types import BOOLEAN, INT
from ...bound import Join, MergeStatement, Query, Select, SubqueryRef, TableRef
from ...expressions import Call, Case, Column, Expr, Literal
from ...syntax.written_names import did_you_mean
from ..context import Context, Frame, name_of, only
from ..expressions.comparisons import compare, connect, negation
from ..expressions.expressions import condition
from ..scope import Field, Scope
from .assignments import bind_assignments
from .returning import WrittenRows, bind_returning, table_fields

EXCLUDED = "excluded"
"""The name of the proposed row in DO UPDATE."""
_NOTHING = 0


@dataclass(frozen=True, slots=True)
class Target:
    """The target of INSERT: the table, its name in the statement, the scope of WITH, the position in the text."""

    table: Table
    alias: str
    scope: Scope
    node: Any


@dataclass(frozen=True, slots=True)
class Proposal:
    """The rows to be inserted; `names` are the table's columns, aligned with the query's columns."""

    target: Target
    names: tuple[str, ...]
    query: Query


def check_conflict(node: Any, target: Target, context: Context) -> str:
    """The action of ON CONFLICT, empty if there is none. Its conflict target must be the whole primary key."""
    if node is None:
        return ""
    only(node, "conflict_keys", "action", "expressions", "where")
    table, action = target.table, str(node.args["action"].this)
    key = [column.name for column in table.schema.key]
    shown = ", ".join(key)
    listed = node.args.get("conflict_keys") or []
    for item in listed:
        with context.at(item):
            if name_of(item) not in table.schema:
                hint = did_you_mean(name_of(item), table.schema.names, "it has")
                raise UnknownColumn(f"table {table.name} has no column {name_of(item)}{hint}")
    with context.at(listed[0] if listed else node):
        if listed and sorted(map(name_of, listed)) != sorted(key):
            raise StatementError(f"ON CONFLICT names the primary key of table {table.name}, which is ({shown})")
        if action == "DO UPDATE" and table.schema.key[-1].auto_increment:
            raise StatementError(f"rows of table {table.name} never conflict: its primary key is NON UNIQUE")
    return action


def bind_conflict(node: Any, returning: Any, rows: Proposal, context: Context) -> MergeStatement:
    """Bind ON CONFLICT DO UPDATE."""
    merge = _Merge(rows, context)
    frame = Frame(context, merge.scope, "SET")
    changes = {column.name: value for column, value in bind_assignments(node.expressions, rows.target.table, frame)}
    where = node.args.get("where")
    test = condition(where.this, Frame(context, merge.scope, "ON CONFLICT ... WHERE")) if where else None
    return merge.bind(changes, test, "refused", returning)


def bind_ignore(returning: Any, rows: Proposal, context: Context) -> MergeStatement:
    """Bind INSERT IGNORE, or ON CONFLICT DO NOTHING, with RETURNING."""
    return _Merge(rows, context).bind({}, Literal(BOOLEAN, False, False), "first", returning)


def bind_returned_upsert(returning: Any, listed: Sequence[str], rows: Proposal, context: Context) -> MergeStatement:
    """Binds UPSERT with RETURNING; `listed` are the columns that it sets."""
    merge = _Merge(rows, context)
    key = [column.name for column in rows.target.table.schema.key]
    changes = {name: merge.proposed[name] for name in listed if name not in key}
    return merge.bind(changes, None, "last", returning)


class _Merge:
    """The proposed rows joined with the table on its key."""

    def __init__(self, rows: Proposal, context: Context) -> None:
        self.rows = rows
        self.context = context
        table, alias = rows.target.table, rows.target.alias
        self.table = table
        if alias == EXCLUDED:
            with context.at(rows.target.node):
                raise StatementError(f"{EXCLUDED} is what the proposed row is called; give the table another alias")
        inner = tuple(context.column(c.name, c.type, c.nullable) for c in rows.query.columns)
        self.proposed: Mapping[str, Expr] = dict(zip(rows.names, inner))
        there = tuple(context.column(c.name, c.type, True) for c in table.schema.columns)
        self.there = dict(zip(table.schema.names, there))
        equalities = tuple(compare("eq", self.proposed[c.name], self.there[c.name]) for c in table.schema.key)
        test = connect("and", equalities) if len(equalities) > 1 else equalities[0]
        source = SubqueryRef(rows.query, EXCLUDED, inner)
        self.relation = Join("left", source, TableRef(table, alias, there), test)
        self.found = negation(Call(BOOLEAN, False, "is_null", (there[0],)))
        visible = table.schema.visible_columns
        fields = tuple(Field(c.name, self.there[c.name], alias) for c in visible)
        fields += table_fields(table, EXCLUDED, dict(self.proposed), visible)
        self.scope = Scope(rows.target.scope, fields, (alias, EXCLUDED))

    def bind(self, changes: Mapping[str, Expr], test: Expr | None, repeated: str, returning: Any) -> MergeStatement:
        """Binds the merge; `changes` are the new values of existing rows for which `test` is true."""
        # A column that only SET names has no default, or it would be among the proposed ones: it is inserted as NULL.
        names = (*self.rows.names, *(name for name in changes if name not in self.rows.names))
        projection = [(self._column(name), self._value(name, changes)) for name in names]
        projection.append((self.context.column("op", INT, False), self._op(test)))
        extra = [c.name for c in self.table.schema.visible_columns if c.name not in names] if returning else []
        projection += [(self._column(name), self._value(name, changes)) for name in extra]
        body = Select(self.relation, None, tuple(projection))
        query, given = Query(body, body.columns), None
        if returning is not None:
            values: dict[str, Expr] = dict(zip((*names, "", *extra), body.columns))
            alias = self.rows.target.alias
            fields = table_fields(self.table, alias, values, self.table.schema.visible_columns)
            rows = WrittenRows(self.table, query, fields, (alias,))
            query, given = bind_returning(returning, rows, len(names) + 1, self.rows.target.scope, self.context)
        return MergeStatement(self.table, names, tuple(changes), query, repeated, given)

    def _column(self, name: str) -> Column:
        return self.context.column(name, self.table.schema.column(name).type, True)

    def _value(self, name: str, changes: Mapping[str, Expr]) -> Expr:
        """A column's value after the statement."""
        type_ = self.table.schema.column(name).type
        new = self.proposed.get(name) or Literal(type_, True, None)
        old = changes.get(name, self.there[name])
        if self.table.schema.column(name) in self.table.schema.key or old == new:
            return new
        return Case(type_, old.nullable or new.nullable, ((self.found, old),), new)

    def _op(self, test: Expr | None) -> Expr:
        insert, update, nothing = (Literal(INT, False, int(op)) for op in (Op.INSERT, Op.UPDATE, _NOTHING))
        if test is None:
            return Case(INT, False, ((self.found, update),), insert)
        return Case(INT, False, ((negation(self.found), insert), (test, update)), nothing)
