"""Statements about one row of one table, run by the store's way for single rows: no plan, no batches, no threads.

    SELECT columns FROM t WHERE key = value                    Store.read_row
    INSERT | UPSERT | INSERT IGNORE INTO t VALUES (values)     Store.write_row
    UPDATE t SET column = value, ... WHERE key = value         Store.write_row, UPDATE_IGNORE
    DELETE FROM t WHERE key = value                            Store.write_row, DELETE_IGNORE

Every column of the primary key is compared with a value of its own type, and nothing else is asked of the row. Values
are literals or late parameters. `single_row` recognizes such a statement once; what it gives runs again and again.
What comes out (rows, counts, errors) is the same as by a plan: tests hold both against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..sql import bound
from ..sql.expressions import Call, Column, Expr, Literal, conjuncts
from ..sql.late_parameters import LateParameter
from ..storage.schema import Table
from ..storage.store import Op, Store
from ..storage.types import Kind

Value: TypeAlias = Literal | LateParameter
_IGNORING = {Op.UPDATE: Op.UPDATE_IGNORE, Op.DELETE: Op.DELETE_IGNORE}
_INEXACT = (Kind.FLOAT, Kind.DOUBLE)
"""Zero and NaN have several spellings there, which compare as equal."""


@dataclass(frozen=True, slots=True)
class RowRead:
    """Reads one row: `values` are the key's, in key order; `names` the columns that come out."""

    table: Table
    values: tuple[Value, ...]
    names: tuple[str, ...]
    columns: tuple[Column, ...]

    def run(self, store: Store, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """The row whose key is `values`, as Python values; None where there is none."""
        return store.read_row(self.table, values, self.names)


@dataclass(frozen=True, slots=True)
class RowWrite:
    """Writes one row: `values` are those of the columns `names`."""

    table: Table
    op: Op
    values: tuple[Value, ...]
    names: tuple[str, ...]

    def run(self, store: Store, values: Sequence[Any]) -> int:
        """How many rows changed, 0 or 1; raises the row's error."""
        written = store.write_row(self.table, self.op, dict(zip(self.names, values)))
        if written.errors:
            raise written.errors[0].error
        return written.applied


SingleRow: TypeAlias = RowRead | RowWrite


def single_row(statement: bound.Statement) -> SingleRow | None:
    """The short way of a statement, None where it has none."""
    if isinstance(statement, bound.SelectStatement):
        return _read(statement.query)
    if isinstance(statement, bound.InsertStatement) and statement.returning is None:
        return _insert(statement)
    if isinstance(statement, bound.ChangeStatement) and statement.returning is None:
        return _change(statement)
    return None


def _read(query: bound.Query) -> RowRead | None:
    found = _one_row(query)
    if found is None:
        return None
    select, ref, key = found
    names = {column.id: name for column, name in zip(ref.columns, ref.table.schema.names)}
    taken = []
    for column, expr in select.projection:
        if not isinstance(expr, Column) or expr.id not in names or expr.type != column.type:
            return None
        taken.append(names[expr.id])
    return RowRead(ref.table, key, tuple(taken), query.columns) if taken else None


def _insert(statement: bound.InsertStatement) -> RowWrite | None:
    body = statement.query.body
    if not isinstance(body, bound.Values) or len(body.rows) != 1 or not _is_plain(statement.query):
        return None
    values = _values(statement.table, statement.columns, body.rows[0])
    return None if values is None else RowWrite(statement.table, statement.op, values, statement.columns)


def _change(statement: bound.ChangeStatement) -> RowWrite | None:
    found = _one_row(statement.query)
    if found is None:
        return None
    select, ref, key = found
    exprs = [expr for _, expr in select.projection]
    if ref.table.id != statement.table.id or len(exprs) != len(statement.columns):
        return None
    if any(not isinstance(expr, Column) for expr in exprs[: len(key)]):
        return None
    values = _values(statement.table, statement.columns[len(key) :], exprs[len(key) :])
    if values is None:
        return None
    op = _IGNORING.get(statement.op, statement.op)
    return RowWrite(statement.table, op, (*key, *values), statement.columns)


def _values(table: Table, names: Sequence[str], exprs: Sequence[Expr]) -> tuple[Value, ...] | None:
    """The values for some columns, if they are known without a row."""
    found: list[Value] = []
    for name, expr in zip(names, exprs, strict=True):
        column = table.schema.column(name)
        if not isinstance(expr, Literal | LateParameter):
            return None
        is_null = isinstance(expr, Literal) and expr.value is None
        if not is_null and expr.type.kind is not column.type.kind:
            return None
        if column.type.is_decimal and not is_null and expr.type != column.type:
            return None
        found.append(expr)
    return tuple(found)


def _is_plain(query: bound.Query) -> bool:
    """Neither order nor limits, and all columns are shown."""
    return not query.order and query.limit is None and query.offset is None and not query.hidden


def _one_row(query: bound.Query) -> tuple[bound.Select, bound.TableRef, tuple[Value, ...]] | None:
    """The block of a query for the row with one primary key, its table and the key."""
    select = query.body
    if not isinstance(select, bound.Select) or not _is_plain(query) or query.columns != select.columns:
        return None
    ref = select.relation
    if not isinstance(ref, bound.TableRef) or ref.time is not None:
        return None
    if select != bound.Select(ref, select.where, select.projection):
        return None  # groups, DISTINCT and whatever else a block may have
    given: dict[int, Value] = {}
    for part in conjuncts(select.where):
        sides = part.args if isinstance(part, Call) and part.function == "eq" else ()
        column, value = sides if len(sides) == 2 and isinstance(sides[0], Column) else (sides or (None, None))[::-1]
        if not isinstance(column, Column) or column.id in given or column.type.kind in _INEXACT:
            return None
        if not isinstance(value, Literal | LateParameter) or value.type != column.type:
            return None
        if isinstance(value, Literal) and value.value is None:
            return None
        given[column.id] = value
    key = ref.columns[: ref.table.schema.key_columns]
    if len(given) != len(key) or any(column.id not in given for column in key):
        return None
    return select, ref, tuple(given[column.id] for column in key)
