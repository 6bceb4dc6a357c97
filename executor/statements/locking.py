"""SELECT ... FOR UPDATE: the rows are registered with the transaction, whose COMMIT validates them.

The query is executed to its end first, so that all rows are registered when the statement returns. Outside of a
transaction the clause has no effect: nothing is locked between statements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...errors import ReadOnlyTransaction
from ...model.store import Transaction
from ...sql import bound
from .results import StatementResult, arrow_batches

if TYPE_CHECKING:
    from ...planner import Plan
    from ..run.context import ExecutionContext


def locked_rows(statement: bound.SelectStatement, plan: Plan, context: ExecutionContext) -> StatementResult:
    """Return the result of a query with lock clauses, after registering the keys that its last columns hold."""
    shown = list(range(statement.visible))
    batches = arrow_batches(plan, context)
    if context.transaction is not None:
        check_can_lock(context.transaction)
        found = []
        for batch in batches:
            context.check()
            context.reserve(batch.nbytes, "the rows of FOR UPDATE")
            found.append(batch)
        for locks in statement.locks:
            _register(locks, found, context.transaction)
        batches = iter(found)
    return StatementResult(plan.columns[: statement.visible], (batch.select(shown) for batch in batches))


def check_can_lock(transaction: Transaction) -> None:
    """Raise `ReadOnlyTransaction` in a READ ONLY transaction."""
    if transaction.options.read_only:
        raise ReadOnlyTransaction("the transaction is READ ONLY: rows are locked by one that is READ WRITE")


def _register(locks: bound.RowLocks, rows: list[pa.RecordBatch], transaction: Transaction) -> None:
    names = [column.name for column in locks.table.schema.key]
    for batch in rows:
        if batch.num_rows:
            keys = batch.columns[locks.first : locks.first + len(names)]
            transaction.lock_rows(locks.table, pa.RecordBatch.from_arrays(keys, names=names))
