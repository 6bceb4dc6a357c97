"""The row path: statements about one row of one table, executed by the store's single-row calls without plan, batches
or threads.

    SELECT columns FROM t WHERE key = value                    Store.read_row
    SELECT ... FOR UPDATE                                      and Transaction.lock_row
    INSERT | UPSERT | INSERT IGNORE INTO t VALUES (values)     Store.write_row
    UPDATE t SET column = value, ... WHERE key = value         Store.write_row, UPDATE_IGNORE
    DELETE FROM t WHERE key = value                            Store.write_row, DELETE_IGNORE

Every column of the primary key is compared with a value of its own type. Further conditions may be comparisons of
columns with values of their types, and IS [NOT] NULL. The row is read, and the conditions are evaluated in Python,
whose integers, decimals, dates and texts compare as SQL's do. Values are literals or deferred parameters. `single_row`
recognizes such a statement once; its result can be executed repeatedly. Rows, counts and errors are the same as with a
plan: tests compare both.

SET may compute values from the row (`n = n + 1`): the row is read, and the expressions are evaluated
(`computed_values`): arithmetic of numbers in Python, all else by the kernels that plans use, over a batch of one row.

Another statement may change a row between its read and its write. So a change with conditions or computed values
carries the timestamp of the read (`unchanged_since`), and is retried after a conflict.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ...errors import RowChanged
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import Op, Store, Timestamp, Transaction
from ...model.types import INTEGER_WIDTHS, Kind
from ...sql import bound
from ...sql.deferred_parameters import DeferredParameter
from ...sql.expressions import Call, Case, Cast, Column, Expr, InValues, Literal, conjuncts, walk
from ...sql.functions import is_volatile
from ..run.interrupts import DeferInterrupts
from .conflicts import ATTEMPTS, conflict, turn
from .locking import check_can_lock

if TYPE_CHECKING:
    from .computed_values import Computed

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

_COMPUTABLE = _COMPARABLE | {Kind.BOOLEAN, Kind.FLOAT, Kind.DOUBLE}
"""Types of columns and parameters that new values are computed from: their values survive the way to Python and back.
"""


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


_NO_CONDITIONS = Conditions(())


@dataclass(frozen=True, slots=True)
class RowRead:
    """Reads one row: `values` are the key's, in key order, then the conditions'; `names` the columns of the result. A
    row that it `locks` is validated by the COMMIT of the transaction that reads it."""

    table: Table
    values: tuple[Value, ...]
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    conditions: Conditions | None = None
    locks: bool = False

    def run(
        self,
        store: Store,
        values: Sequence[Any],
        snapshot: Timestamp | None = None,
        transaction: Transaction | None = None,
    ) -> tuple[Any, ...] | None:
        """Return the row whose key `values` begin with, as Python values, at the latest state or as of `snapshot`.

        None if there is no such row, or the conditions are not true. `ReadOnlyTransaction` if the row is to be locked
        in such a `transaction`.
        """
        if self.locks and transaction is not None:
            check_can_lock(transaction)
        row = self._row(store, values, snapshot)
        if self.locks and transaction is not None and row is not None:
            transaction.lock_row(self.table, values[: self.table.schema.key_columns])
        return row

    def _row(self, store: Store, values: Sequence[Any], snapshot: Timestamp | None) -> tuple[Any, ...] | None:
        if self.conditions is None:
            return store.read_row(self.table, values, self.names, snapshot)
        return self.result(store.read_row(self.table, *self.request(values), snapshot), values)

    def request(self, values: Sequence[Any]) -> tuple[Sequence[Any], tuple[str, ...]]:
        """Return key and columns of the call of the store."""
        if self.conditions is None:
            return values, self.names
        return values[: self.table.schema.key_columns], self.names + self.conditions.names

    def result(self, row: tuple[Any, ...] | None, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return the statement's row for the store's; None if the conditions are not true."""
        if row is None or self.conditions is None:
            return row
        shown = len(self.names)
        return row[:shown] if self.conditions.hold(row[shown:], values[self.table.schema.key_columns :]) else None


@dataclass(frozen=True, slots=True)
class RowWrite:
    """Writes one row: `values` are those of the columns `names`, of which the key comes first if the row is read. If
    the others are `computed`, `values` begin with the key's alone. The conditions' values follow, then those of
    `computed`."""

    table: Table
    op: Op
    values: tuple[Value, ...]
    names: tuple[str, ...]
    conditions: Conditions | None = None
    computed: Computed | None = None

    def run(self, store: Store, values: Sequence[Any]) -> int:
        """Return the number of changed rows, 0 or 1.

        Raises the row's error, or `WriteConflict` if other statements change the row each time between the read and the
        write.
        """
        if not self.is_blind:
            return self._run_on_row(store, values)
        with DeferInterrupts():
            written = store.write_row(self.table, self.op, self.row(values))
        if written.errors:
            raise written.errors[0].error
        return written.applied

    @property
    def is_blind(self) -> bool:
        """True if the row is written without having been read."""
        return self.conditions is None and self.computed is None

    def row(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the row of a blind write."""
        return dict(zip(self.names, values))

    def _run_on_row(self, store: Store, values: Sequence[Any]) -> int:
        found = self._attempt(store, values)
        if isinstance(found, int):
            return found
        with turn(self.table, store):
            for _ in range(ATTEMPTS - 1):
                found = self._attempt(store, values)
                if isinstance(found, int):
                    return found
        raise conflict(self.table) from found

    def _attempt(self, store: Store, values: Sequence[Any]) -> int | RowChanged:
        """Read the row and write it, as long as it is unchanged; the number of changed rows, or the conflict."""
        conditions, computed = self.conditions or _NO_CONDITIONS, self.computed
        width = self.table.schema.key_columns
        own = len(self.names) if computed is None else width
        asked = own + len(conditions.values)
        names = conditions.names if computed is None else conditions.names + computed.names
        since = store.now()
        found = store.read_row(self.table, values[:width], names, since)
        if found is None or not conditions.hold(found, values[own:asked]):
            return 0
        row = dict(zip(self.names, values[:own]))
        if computed is not None:
            row.update(zip(self.names[own:], computed.of(found[len(conditions.names) :], values[asked:])))
        with DeferInterrupts():
            written = store.write_row(self.table, self.op, row, since)
        if not written.errors:
            return written.applied
        error = written.errors[0].error
        if isinstance(error, RowChanged):
            return error
        raise error


SingleRow: TypeAlias = RowRead | RowWrite


def single_row(statement: bound.Statement) -> SingleRow | None:
    """Return the row path of a statement, None if it has none."""
    if isinstance(statement, bound.SelectStatement):
        return _read(statement)
    if isinstance(statement, bound.InsertStatement) and statement.returning is None:
        return _insert(statement)
    if isinstance(statement, bound.ChangeStatement) and statement.returning is None:
        return _change(statement)
    return None


def _read(statement: bound.SelectStatement) -> RowRead | None:
    query = statement.query
    found = _one_row(query)
    if found is None:
        return None
    select, ref, key, conditions = found
    names = {column.id: name for column, name in zip(ref.columns, ref.table.schema.names)}
    taken = []
    for column, expr in select.projection[: statement.visible]:
        if not isinstance(expr, Column) or expr.id not in names or expr.type != column.type:
            return None
        taken.append(names[expr.id])
    if not taken:
        return None
    values = key if conditions is None else key + conditions.values
    return RowRead(
        ref.table, values, tuple(taken), query.columns[: statement.visible], conditions, bool(statement.locks)
    )


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
    names, exprs = statement.columns[len(key) :], exprs[len(key) :]
    values, computed = _values(statement.table, names, exprs), None
    if values is None:
        computed = _computed(ref, names, exprs)
        if computed is None:
            return None
    op = _IGNORING.get(statement.op, statement.op)
    asked = () if conditions is None else conditions.values
    parameters = () if computed is None else computed.values
    return RowWrite(
        statement.table, op, (*key, *(values or ()), *asked, *parameters), statement.columns, conditions, computed
    )


def _computed(ref: bound.TableRef, names: Sequence[str], exprs: Sequence[Expr]) -> Computed | None:
    """Return the computation of some columns from the row; None if it needs a plan."""
    columns = {column.id: name for column, name in zip(ref.columns, ref.table.schema.names)}
    for name, expr in zip(names, exprs, strict=True):
        column = ref.table.schema.column(name)
        if is_volatile(expr) or not all(_is_of_row(part, columns) for part in walk(expr)):
            return None
        if expr.type.kind is not column.type.kind or (column.type.is_decimal and expr.type != column.type):
            return None
    from .computed_values import Computed

    return Computed(exprs, columns)


def _is_of_row(part: Expr, columns: Mapping[int, str]) -> bool:
    if isinstance(part, DeferredParameter):
        return part.type.kind in _COMPUTABLE
    if isinstance(part, Column):
        return part.id in columns and part.type.kind in _COMPUTABLE
    return isinstance(part, Literal | Call | Cast | Case | InValues)


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
        from ...planner.algebra.trees import MIRRORED

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
