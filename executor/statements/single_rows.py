"""The row path: statements about one row of one table, executed by the store's single-row calls without plan, batches
or threads.

    SELECT columns FROM t WHERE key = value                    Store.read_row
    INSERT | UPSERT | INSERT IGNORE INTO t VALUES (values)     Store.write_row
    UPDATE t SET column = value, ... WHERE key = value         Store.write_row, UPDATE_IGNORE
    DELETE FROM t WHERE key = value                            Store.write_row, DELETE_IGNORE

Every column of the primary key is compared with a value of its own type. Further conditions may be comparisons of
columns with values of their types, and IS [NOT] NULL. The row is read, and the conditions are evaluated in Python,
whose integers, decimals, dates and texts compare as SQL's do. Values are literals or deferred parameters. `single_row`
recognizes such a statement once; its result can be executed repeatedly. Rows, counts and errors are the same as with a
plan: tests compare both.

Another statement may change a row between its read and its write. So a change with conditions is a batch of one row
that carries the timestamp of the read (`WriteBatch.unchanged_since`), and is retried after a conflict.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ...errors import RowChanged
from ...model.schema import Table
from ...model.store import Op, Store, Timestamp, WriteBatch
from ...model.types import INTEGER_WIDTHS, Kind
from ...planner.algebra.trees import MIRRORED
from ...sql import bound
from ...sql.deferred_parameters import DeferredParameter
from ...sql.expressions import Call, Column, Expr, Literal, conjuncts
from ...storage.single_rows.row_codec import RowCodec
from ...storage.single_rows.row_write import as_batch
from ..run.interrupts import DeferInterrupts
from .changing import ATTEMPTS, conflict

Value: TypeAlias = Literal | DeferredParameter
_IGNORING = {Op.UPDATE: Op.UPDATE_IGNORE, Op.DELETE: Op.DELETE_IGNORE}
_INEXACT = (Kind.FLOAT, Kind.DOUBLE)
"""Types whose zero and NaN have several representations, which compare as equal."""


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_COMPARABLE = frozenset((*INTEGER_WIDTHS, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.STRING, Kind.BINARY))


@dataclass(frozen=True, slots=True)
class Condition:
    """`name comparison value`; without a value IS NULL, or IS NOT NULL if `negated`."""

    name: str
    value: Value | None
    compare: Callable[[Any, Any], bool] | None = None
    negated: bool = False


class Conditions:
    """Conditions on a row besides its key."""

    def __init__(self, conditions: Sequence[Condition]):
        self.names = tuple(condition.name for condition in conditions)
        self.values = tuple(condition.value for condition in conditions if condition.value is not None)
        self._conditions = tuple(conditions)

    def hold(self, cells: Sequence[Any], values: Sequence[Any]) -> bool:
        """True if all conditions are true for a row with these cells of `names`."""
        given = iter(values)
        for condition, cell in zip(self._conditions, cells):
            if condition.compare is None:
                if (cell is None) is condition.negated:
                    return False
            elif cell is None or not condition.compare(cell, next(given)):
                return False
        return True


@dataclass(frozen=True, slots=True)
class RowRead:
    """Reads one row: `values` are the key's, in key order, then the conditions'; `names` the columns of the result."""

    table: Table
    values: tuple[Value, ...]
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    conditions: Conditions | None = None

    def run(self, store: Store, values: Sequence[Any], snapshot: Timestamp | None = None) -> tuple[Any, ...] | None:
        """Return the row whose key `values` begin with, as Python values, at the latest state or as of `snapshot`.

        None if there is no such row, or the conditions are not true.
        """
        if self.conditions is None:
            return store.read_row(self.table, values, self.names, snapshot)
        width, shown = self.table.schema.key_columns, len(self.names)
        row = store.read_row(self.table, values[:width], self.names + self.conditions.names, snapshot)
        return row[:shown] if row is not None and self.conditions.hold(row[shown:], values[width:]) else None


@dataclass(frozen=True, slots=True)
class RowWrite:
    """Writes one row: `values` are those of the columns `names`, of which the key comes first if there are conditions;
    the conditions' values come last."""

    table: Table
    op: Op
    values: tuple[Value, ...]
    names: tuple[str, ...]
    conditions: Conditions | None = None

    def run(self, store: Store, values: Sequence[Any]) -> int:
        """Return the number of changed rows, 0 or 1.

        Raises the row's error, or `WriteConflict` if other statements change the row each time between the read and the
        write.
        """
        if self.conditions is not None:
            return self._run_where(self.conditions, store, values)
        with DeferInterrupts():
            written = store.write_row(self.table, self.op, dict(zip(self.names, values)))
        if written.errors:
            raise written.errors[0].error
        return written.applied

    def _run_where(self, conditions: Conditions, store: Store, values: Sequence[Any]) -> int:
        for _ in range(ATTEMPTS):
            since = store.now()
            found = store.read_row(self.table, values[: self.table.schema.key_columns], conditions.names, since)
            if found is None or not conditions.hold(found, values[len(self.names) :]):
                return 0
            with DeferInterrupts():
                written = store.write(self.table, self._batch(values, since))
            if not written.errors:
                return written.applied
            if not isinstance(written.errors[0].error, RowChanged):
                raise written.errors[0].error
        raise conflict(self.table) from written.errors[0].error

    def _batch(self, values: Sequence[Any], since: Timestamp) -> WriteBatch:
        codec, row = RowCodec(self.table), dict(zip(self.names, values))
        return replace(as_batch(codec, self.op, row, codec.take(row)[1]), all_or_none=True, unchanged_since=since)


SingleRow: TypeAlias = RowRead | RowWrite


def single_row(statement: bound.Statement) -> SingleRow | None:
    """Return the row path of a statement, None if it has none."""
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
    select, ref, key, conditions = found
    names = {column.id: name for column, name in zip(ref.columns, ref.table.schema.names)}
    taken = []
    for column, expr in select.projection:
        if not isinstance(expr, Column) or expr.id not in names or expr.type != column.type:
            return None
        taken.append(names[expr.id])
    if not taken:
        return None
    values = key if conditions is None else key + conditions.values
    return RowRead(ref.table, values, tuple(taken), query.columns, conditions)


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
    select, ref, key, conditions = found
    exprs = [expr for _, expr in select.projection]
    if ref.table.id != statement.table.id or len(exprs) != len(statement.columns):
        return None
    if any(not isinstance(expr, Column) for expr in exprs[: len(key)]):
        return None
    values = _values(statement.table, statement.columns[len(key) :], exprs[len(key) :])
    if values is None:
        return None
    op = _IGNORING.get(statement.op, statement.op)
    asked = () if conditions is None else conditions.values
    return RowWrite(statement.table, op, (*key, *values, *asked), statement.columns, conditions)


def _values(table: Table, names: Sequence[str], exprs: Sequence[Expr]) -> tuple[Value, ...] | None:
    """Values of some columns, if they are known without a row."""
    found: list[Value] = []
    for name, expr in zip(names, exprs, strict=True):
        column = table.schema.column(name)
        if not isinstance(expr, Literal | DeferredParameter):
            return None
        is_null = isinstance(expr, Literal) and expr.value is None
        if not is_null and expr.type.kind is not column.type.kind:
            return None
        if column.type.is_decimal and not is_null and expr.type != column.type:
            return None
        found.append(expr)
    return tuple(found)


def _is_plain(query: bound.Query) -> bool:
    """True for a query without order and limits whose columns are all visible."""
    return not query.order and query.limit is None and query.offset is None and not query.hidden


_Found: TypeAlias = tuple[bound.Select, bound.TableRef, tuple[Value, ...], Conditions | None]


def _one_row(query: bound.Query) -> _Found | None:
    """Return the block of a query for the row with one primary key, its table, the key and the other conditions."""
    select = query.body
    if not isinstance(select, bound.Select) or not _is_plain(query) or query.columns != select.columns:
        return None
    ref = select.relation
    if not isinstance(ref, bound.TableRef) or ref.time is not None:
        return None
    if select != bound.Select(ref, select.where, select.projection):
        return None  # groups, DISTINCT and anything else that a block may have
    key = [column.id for column in ref.columns[: ref.table.schema.key_columns]]
    names = {column.id: name for column, name in zip(ref.columns, ref.table.schema.names)}
    given: dict[int, Value] = {}
    others: list[Condition] = []
    for part in conjuncts(select.where):
        found = _comparison(part)
        if found is not None and found[1] == "eq" and found[0].id in key and found[0].id not in given:
            column, _, value = found
            if column.type.kind in _INEXACT or value.type != column.type:
                return None
            given[column.id] = value
        elif (condition := _condition(part, names)) is not None:
            others.append(condition)
        else:
            return None
    if len(given) != len(key):
        return None
    return select, ref, tuple(given[number] for number in key), Conditions(others) if others else None


def _comparison(part: Expr) -> tuple[Column, str, Value] | None:
    """Return a comparison of a column with a value that is not NULL, the column on its left."""
    if not isinstance(part, Call) or part.function not in _COMPARISONS:
        return None
    function, (column, value) = part.function, part.args
    if not isinstance(column, Column):
        function, column, value = MIRRORED[function], value, column
    if not isinstance(column, Column) or not isinstance(value, Literal | DeferredParameter):
        return None
    return None if isinstance(value, Literal) and value.value is None else (column, function, value)


def _condition(part: Expr, names: Mapping[int, str]) -> Condition | None:
    """Return a condition on a row that Python evaluates as SQL does; None for any other."""
    found = _comparison(part)
    if found is not None:
        column, function, value = found
        if column.id not in names or value.type != column.type or column.type.kind not in _COMPARABLE:
            return None
        return Condition(names[column.id], value, _COMPARISONS[function])
    negated = isinstance(part, Call) and part.function == "not"
    inner = part.args[0] if isinstance(part, Call) and negated else part
    if isinstance(inner, Call) and inner.function == "is_null" and isinstance(inner.args[0], Column):
        name = names.get(inner.args[0].id)
        return None if name is None else Condition(name, None, negated=negated)
    return None
