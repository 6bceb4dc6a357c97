"""Prepared statements and cursors that SQL names: PREPARE and EXECUTE, DECLARE and FETCH.

    PREPARE ─► text and types    EXECUTE ─► the text runs with values, by the session's cache of plans
    DECLARE ─► an execution, whose rows are made as FETCH reads them
               with SCROLL or WITH HOLD a table of all its rows, which can be read in any order and after the COMMIT

A cursor without HOLD ends with the transaction that declared it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pyarrow as pa

from ...errors import NoActiveTransaction, NotSupportedError, ProgrammingError, UnknownCursor, UnknownPreparedStatement
from ...executor import StatementResult
from ...model.lazy_dataclass import dataclass
from ...model.store import Transaction
from ...model.types import DataType
from ...sql import bound
from ...sql.coercion import cast
from ...sql.expressions import Column
from ...sql.literals import from_python
from .executions import Execution, Halt

Run: TypeAlias = Callable[[str, tuple[Any, ...] | None, Halt], Execution]
"""Runs the text of one statement with values."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    text: str
    types: tuple[DataType, ...]


class _Rows:
    """The rows of an execution in their order, as far as they have been read."""

    def __init__(self, execution: Execution, transaction: Transaction | None):
        self.columns: tuple[Column, ...] = execution.columns or ()
        self.transaction = transaction
        self._execution = execution
        self._rest: pa.RecordBatch | None = None

    def take(self, count: int | None) -> Iterator[pa.RecordBatch]:
        """The next `count` rows, all of them for None."""
        while count is None or count > 0:
            batch = self._rest if self._rest is not None else self._execution.next_batch()
            self._rest = None
            if batch is None:
                return
            if count is not None and batch.num_rows > count:
                batch, self._rest = batch.slice(0, count), batch.slice(count)
            if count is not None:
                count -= batch.num_rows
            yield batch

    def close(self) -> None:
        """End the execution."""
        self._rest = None
        self._execution.close()


class _KeptRows:
    """All rows of an execution, and the place of a cursor: 0 before the first row, n + 1 behind the last of n rows."""

    def __init__(self, execution: Execution, transaction: Transaction | None):
        self.columns: tuple[Column, ...] = execution.columns or ()
        self.transaction = transaction
        batches = list(iter(execution.next_batch, None))
        self._table = pa.Table.from_batches(batches) if batches else None
        self._place = 0

    @property
    def _size(self) -> int:
        return 0 if self._table is None else int(self._table.num_rows)

    def step(self, direction: str, count: int | None) -> Iterator[pa.RecordBatch]:
        """Move as FETCH does, and return the rows that are passed over."""
        if direction in ("ABSOLUTE", "RELATIVE"):
            assert count is not None
            wanted = count if direction == "ABSOLUTE" else self._place + count
            if direction == "ABSOLUTE" and count < 0:
                wanted = self._size + 1 + count
            self._place = min(max(wanted, 0), self._size + 1)
            return self._rows(self._place - 1, 1) if 1 <= self._place <= self._size else iter(())
        forward = (direction == "FORWARD") == (count is None or count >= 0)
        steps = self._size + 1 if count is None else abs(count)
        if steps == 0:
            return self._rows(self._place - 1, 1) if 1 <= self._place <= self._size else iter(())
        before = self._place
        self._place = min(before + steps, self._size + 1) if forward else max(before - steps, 0)
        if forward:
            return self._rows(before, min(self._place, self._size) - before)
        first = max(self._place, 1)
        return self._rows(first - 1, before - first, backwards=True)

    def _rows(self, start: int, count: int, backwards: bool = False) -> Iterator[pa.RecordBatch]:
        if self._table is None or count <= 0:
            return iter(())
        rows = self._table.slice(start, count)
        if backwards:
            rows = rows.take(list(range(count - 1, -1, -1)))
        return iter(rows.combine_chunks().to_batches())

    def close(self) -> None:
        """Forget the rows."""
        self._table = None


class NamedStatements:
    """The prepared statements and cursors of one session.

    Parameters
    ----------
    run : callable
        Runs a text in the session.
    transaction : callable
        Returns the open transaction, None without one.
    reset : callable
        Returns all settings to what they were, for DISCARD ALL.
    """

    def __init__(self, run: Run, transaction: Callable[[], Transaction | None], reset: Callable[[], object]):
        self._run, self._transaction, self._reset = run, transaction, reset
        self._prepared: dict[str, _Prepared] = {}
        self._cursors: dict[str, _Rows | _KeptRows] = {}

    def run(self, statement: bound.SessionStatement) -> StatementResult:
        """Run one of the statements."""
        return _HANDLERS[type(statement)](self, statement)

    def close(self) -> None:
        """Forget everything."""
        self._prepared.clear()
        self._close_all()

    # ---- prepared statements -----------------------------------------------------------------------------------------

    def _prepare(self, statement: bound.PrepareStatement) -> StatementResult:
        if statement.name in self._prepared:
            raise ProgrammingError(f"prepared statement {statement.name} exists already; DEALLOCATE it first")
        self._prepared[statement.name] = _Prepared(statement.text, statement.types)
        return _done()

    def _execute(self, statement: bound.ExecutePrepared) -> StatementResult:
        prepared = self._prepared.get(statement.name)
        if prepared is None:
            raise UnknownPreparedStatement(f"prepared statement {statement.name} does not exist; PREPARE makes one")
        values = tuple(
            _typed(value, prepared.types[place]) if place < len(prepared.types) else value
            for place, value in enumerate(statement.values)
        )
        execution = self._run(prepared.text, values or None, Halt())
        if execution.columns is None:
            return StatementResult(None, iter(()), execution.rowcount)
        return StatementResult(execution.columns, iter(execution.next_batch, None))

    def _deallocate(self, statement: bound.Deallocate) -> StatementResult:
        if statement.name is None:
            self._prepared.clear()
        elif self._prepared.pop(statement.name, None) is None:
            raise UnknownPreparedStatement(f"prepared statement {statement.name} does not exist")
        return _done()

    def _discard(self, statement: bound.Discard) -> StatementResult:
        if statement.everything:
            if self._transaction() is not None:
                raise NotSupportedError("DISCARD ALL cannot be in a transaction: COMMIT or ROLLBACK first")
            self.close()
            self._reset()
        return _done()

    def columns(self, name: str) -> tuple[Column, ...] | None:
        """The columns of a cursor's rows; None if there is no such cursor."""
        rows = self._found(name)
        return None if rows is None else rows.columns

    # ---- cursors -----------------------------------------------------------------------------------------------------

    def _declare(self, statement: bound.DeclareCursor) -> StatementResult:
        transaction = self._transaction()
        if transaction is None and not statement.hold:
            raise NoActiveTransaction("a cursor lives in a transaction: BEGIN first, or declare it WITH HOLD")
        if self._found(statement.name) is not None:
            raise ProgrammingError(f"cursor {statement.name} exists already; CLOSE it first")
        execution = self._run(statement.text, None, Halt())
        rows = _KeptRows if statement.keeps_rows else _Rows
        self._cursors[statement.name] = rows(execution, None if statement.hold else transaction)
        return _done()

    def _found(self, name: str) -> _Rows | _KeptRows | None:
        """A cursor, unless its transaction has ended."""
        rows = self._cursors.get(name)
        if rows is not None and rows.transaction is not None and rows.transaction is not self._transaction():
            self._cursors.pop(name).close()
            return None
        return rows

    def _fetch(self, statement: bound.FetchCursor) -> StatementResult:
        rows = self._found(statement.name)
        if rows is None:
            raise UnknownCursor(f"cursor {statement.name} does not exist; a cursor ends with its transaction")
        if isinstance(rows, _KeptRows):
            batches = rows.step(statement.direction, statement.count)
        elif statement.direction == "FORWARD" and (statement.count is None or statement.count >= 0):
            batches = rows.take(statement.count)
        else:
            raise NotSupportedError(f"cursor {statement.name} reads forward only: declare it with SCROLL")
        if statement.is_move:
            return StatementResult(None, iter(()), sum(batch.num_rows for batch in batches))
        found = list(batches)
        return StatementResult(rows.columns, iter(found))

    def _close(self, statement: bound.CloseCursor) -> StatementResult:
        if statement.name is None:
            self._close_all()
        elif self._found(statement.name) is None:
            raise UnknownCursor(f"cursor {statement.name} does not exist")
        else:
            self._cursors.pop(statement.name).close()
        return _done()

    def _close_all(self) -> None:
        for rows in self._cursors.values():
            rows.close()
        self._cursors.clear()


def _typed(value: Any, type_: DataType) -> Any:
    """A value of EXECUTE as one of the type that PREPARE declared."""
    literal: Any = cast(from_python(value), type_)
    return type_.to_python(literal.value)


def _done() -> StatementResult:
    return StatementResult(None, iter(()))


_HANDLERS: Final[dict[type, Callable[[NamedStatements, Any], StatementResult]]] = {
    bound.PrepareStatement: NamedStatements._prepare,
    bound.ExecutePrepared: NamedStatements._execute,
    bound.Deallocate: NamedStatements._deallocate,
    bound.Discard: NamedStatements._discard,
    bound.DeclareCursor: NamedStatements._declare,
    bound.FetchCursor: NamedStatements._fetch,
    bound.CloseCursor: NamedStatements._close,
}
