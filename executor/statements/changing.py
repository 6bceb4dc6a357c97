"""INSERT, UPSERT, UPDATE, DELETE: the rows of a query written into a table.

The query is executed to its end first: an error in it, or in RETURNING, writes nothing, and a query over the same table
never reads its own rows. Then all rows are written, or none.

    InsertStatement     one op for all rows
    ChangeStatement     the same; a row that another statement deleted in between counts as not matched
    MergeStatement      an op per row, as the query found the table at its snapshot

The store refuses the batch if another statement has changed a row since the snapshot, or for a MergeStatement has
inserted or deleted it. Then the query is executed again at a new snapshot: of two statements that change a row
concurrently, one sees the other's change. Statements of this process that have conflicted are serialized from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...errors import (
    AlreadyPresent,
    CardinalityViolation,
    IntegrityError,
    LimitExceeded,
    NotFound,
    OperationalError,
    RowChanged,
    SchemaChanged,
)
from ...model.arrow_arrays import arrow_array, numpy_array
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.schema import Schema, Table
from ...model.store import Op, WriteBatch, WriteResult
from ...model.vectors.vector import Array
from ...planner import Plan
from ...planner.algebra.physical import Filter, Project, TableScan
from ...sql import bound
from ..run.context import ExecutionContext
from .conflicts import ATTEMPTS, conflict, turn
from .results import StatementResult, arrow_batches, done

Writing: TypeAlias = bound.InsertStatement | bound.ChangeStatement | bound.MergeStatement

_DONE = {Op.INSERT: "inserted", Op.INSERT_IGNORE: "inserted", Op.UPSERT: "written", Op.UPDATE: "updated"}
_IGNORING = {Op.UPDATE: Op.UPDATE_IGNORE, Op.DELETE: Op.DELETE_IGNORE}


@dataclass(frozen=True, slots=True)
class _Rows:
    """Result of a writing statement's query: the columns for the table, and the rest, row by row."""

    written: pa.Table
    rest: pa.Table

    def take(self, chosen: Array) -> _Rows:
        """Select some of the rows (ndarray of intp)."""
        if len(chosen) == self.written.num_rows:
            return self
        places = arrow_array(chosen)
        return _Rows(self.written.take(places), self.rest.take(places))


def write(
    statement: bound.InsertStatement | bound.ChangeStatement, plan: Plan, context: ExecutionContext
) -> StatementResult:
    """Write the query's rows to the table; return the number of changed rows, and the result of RETURNING."""
    if isinstance(statement, bound.ChangeStatement):
        return _attempted(statement.table, context, lambda context: _change(statement, plan, context))
    rows = _collect(statement, plan, context)
    count = _write_all(statement.table, rows.written, statement.op, context)
    return done(count) if statement.returning is None else _result(statement, rows)


def _change(statement: bound.ChangeStatement, plan: Plan, context: ExecutionContext) -> StatementResult | WriteResult:
    """Update or delete rows at the latest committed state.

    Returns the refused rows, with nothing written, if another statement has changed some of them since the snapshot.
    """
    rows = _collect(statement, plan, context)
    if not _reads_rows_once(plan, statement.table):
        rows = _once_each(statement.table, rows, "last")
    op = statement.op if statement.returning is not None else _IGNORING.get(statement.op, statement.op)
    applied = 0
    for batch in rows.written.to_batches() if statement.returning is None else ():
        context.check()
        try:
            written = context.store.write(statement.table, _unchanged(batch, op, context))
        except SchemaChanged as error:
            raise (_half_done(error, applied) if applied else error) from None
        applied += written.applied
        if written.errors:
            return _refused(written, applied, rows, statement)
    if statement.returning is None:
        return done(applied)
    return _change_found(statement, rows, context)


def _reads_rows_once(plan: Plan, table: Table) -> bool:
    """True if the plan is a scan of the table, filtered and projected: no key is twice among its rows."""
    node = plan.root
    while isinstance(node, Filter | Project):
        node = node.source
    return isinstance(node, TableScan) and node.table.id == table.id


def _unchanged(rows: pa.RecordBatch, ops: Op | Array, context: ExecutionContext, **more: Any) -> WriteBatch:
    """Write batch of rows that were computed from the rows read, conditional on these being unchanged."""
    return WriteBatch(rows, ops, all_or_none=True, unchanged_since=context.snapshot, **more)


def _refused(written: WriteResult, applied: int, rows: _Rows, statement: bound.ChangeStatement) -> WriteResult:
    """Return the rows that the store has refused if the statement may be retried; otherwise raise the error."""
    if applied or any(not isinstance(error.error, NotFound | RowChanged) for error in written.errors):
        raise _refusal(written, applied, rows.written.num_rows, _DONE.get(statement.op, "changed"))
    return written


# ---- others have changed the same rows -------------------------------------------------------------------------------


def _attempted(
    table: Table, context: ExecutionContext, attempt: Callable[[ExecutionContext], StatementResult | WriteResult]
) -> StatementResult:
    """Call `attempt` at the statement's snapshot, and at later ones as long as it returns refused rows instead of a
    result.

    Raises `WriteConflict` after `ATTEMPTS`.
    """
    cause: IntegrityError | None = None
    with ExitStack() as turns:
        for number in range(ATTEMPTS):
            found = attempt(context)
            if isinstance(found, StatementResult):
                return found
            cause = found.errors[0].error
            if not number:
                turns.enter_context(turn(table, context.store, context.check))
            context = context.again()
    raise conflict(table) from cause


def _collect(
    statement: Writing,
    plan: Plan,
    context: ExecutionContext,
) -> _Rows:
    """Collect all rows of the statement's query."""
    schema = arrow_schema(statement.table.schema, statement.columns)
    width = len(schema)
    rest = pa.schema([pa.field(f"{i}", column.type.arrow) for i, column in enumerate(plan.columns[width:])])
    found = []
    for rows in rows_as(pa.schema([*schema, *rest]), plan, context):
        context.check()
        context.reserve(rows.nbytes, _what(statement))
        found.append(rows)
    whole = pa.Table.from_batches(found, pa.schema([*schema, *rest])).combine_chunks()
    return _Rows(whole.select(range(width)), whole.select(range(width, whole.num_columns)))


def _what(statement: Writing) -> str:
    if isinstance(statement, bound.MergeStatement):
        return "an INSERT" if statement.repeated != "last" else "an UPSERT"
    return f"{'a' if statement.op is Op.DELETE else 'an'} {statement.op.name.partition('_')[0]}"


def _write_all(table: Table, rows: pa.Table, op: Op, context: ExecutionContext) -> int:
    """Write the rows; return the number that changed the table. Raises the first refused row's error."""
    applied = 0
    for batch in rows.to_batches():  # one, unless its texts exceed the 2 GiB of an Arrow array
        context.check()
        try:
            written = context.store.write(table, WriteBatch(batch, op, all_or_none=True))
        except SchemaChanged as error:
            raise (_half_done(error, applied) if applied else error) from None
        applied += written.applied
        if written.errors:
            raise _refusal(written, applied, rows.num_rows, _DONE.get(op, "changed"))
    return applied


def _half_done(error: SchemaChanged, applied: int) -> OperationalError:
    """Error of a statement of which a part is written already, so that it cannot be bound again."""
    return OperationalError(f"{error}; {applied} rows of the statement were written before")


def _refusal(written: WriteResult, applied: int, rows: int, done: str) -> IntegrityError:
    """Return the first row's error, with the outcome of the other rows."""
    first, refused = written.errors[0].error, len(written.errors)
    if rows == 1:
        return first
    kept = f"{applied} rows before them were {done}" if applied else f"none was {done}"
    return type(first)(f"{first}\n{refused} of {rows} rows refused, {kept}")


def _change_found(
    statement: bound.ChangeStatement, rows: _Rows, context: ExecutionContext
) -> StatementResult | WriteResult:
    """Update or delete the rows; RETURNING covers those that still existed."""
    left = rows
    while left.written.num_rows:
        context.check()
        written = context.store.write(statement.table, _unchanged(_one_batch(left.written), statement.op, context))
        if not written.errors:
            break
        if any(not isinstance(error.error, NotFound) for error in written.errors):
            return _refused(written, written.applied, rows, statement)
        gone = np.array([error.row for error in written.errors])
        left = left.take(np.setdiff1d(np.arange(left.written.num_rows), gone))
    return _result(statement, left)


def _result(statement: Writing, rows: _Rows) -> StatementResult:
    """Return the result of RETURNING for the written rows; its columns come last."""
    assert statement.returning is not None
    first = rows.rest.num_columns - len(statement.returning)
    names = [column.name for column in statement.returning]
    given = [
        pa.RecordBatch.from_arrays(batch.columns[first:], names=names) if names else batch
        for batch in rows.rest.to_batches()
    ]
    return StatementResult(statement.returning, iter(given), rows.rest.num_rows)


# ---- one row per key -------------------------------------------------------------------------------------------------


def _once_each(table: Table, rows: _Rows, which: str) -> _Rows:
    """Keep only the "first" or the "last" row of each key."""
    keys = Keys.from_rows(table.schema, rows.written)
    repeated = keys.duplicates()
    if not len(repeated):
        return rows
    if which == "first":
        return rows.take(np.setdiff1d(np.arange(len(keys)), repeated))
    order = keys.order()
    first = np.ones(len(keys), np.bool_)
    first[repeated] = False
    return rows.take(np.sort(order[np.append(first[order][1:], True)]))


# ---- rows that are inserted or update what is there ------------------------------------------------------------------


def merge(statement: bound.MergeStatement, plan: Plan, context: ExecutionContext) -> StatementResult:
    """Insert or update as the query decides; return the number of rows, and the result of RETURNING for them.

    Raises `CardinalityViolation` if a key is repeated although it may not be, `WriteConflict` if other statements keep
    inserting and deleting the same keys.
    """
    return _attempted(statement.table, context, lambda context: _merge(statement, plan, context))


def _merge(statement: bound.MergeStatement, plan: Plan, context: ExecutionContext) -> StatementResult | WriteResult:
    rows = _chosen(statement, _collect(statement, plan, context))
    written = _write_ops(statement, rows, context)
    if not written.errors:
        return done(rows.written.num_rows) if statement.returning is None else _result(statement, rows)
    if written.applied or any(
        not isinstance(error.error, AlreadyPresent | NotFound | RowChanged) for error in written.errors
    ):
        raise _refusal(written, written.applied, rows.written.num_rows, "written")
    return written


def _chosen(statement: bound.MergeStatement, rows: _Rows) -> _Rows:
    """Return the rows with an action, one per key."""
    acting = np.flatnonzero(_ops(rows))
    if statement.repeated == "refused":
        _refuse_repeated(statement.table, rows, acting)
    rows = rows.take(acting)
    return rows if statement.repeated == "refused" else _once_each(statement.table, rows, statement.repeated)


def _ops(rows: _Rows) -> Array:
    ops: Array = numpy_array(rows.rest.column(0)).astype(np.uint8)
    return ops


def _refuse_repeated(table: Table, rows: _Rows, acting: Array) -> None:
    """Raise an error for a repeated key, unless its earlier rows had no action (as in PostgreSQL)."""
    keys = Keys.from_rows(table.schema, rows.written)
    repeated = keys.duplicates()
    if not len(repeated):
        return
    order = keys.order()
    same_as_next = np.zeros(len(keys), np.bool_)
    same_as_next[repeated] = True
    same_as_next = np.append(same_as_next[order][1:], False)
    acts = np.zeros(len(keys), np.bool_)
    acts[acting] = True
    wrong = np.flatnonzero(same_as_next & acts[order])
    if len(wrong):
        values = zip(table.schema.key, keys.values_at(int(order[wrong].min())))
        shown = ", ".join(f"{column.name} = {column.type.to_python(value)}" for column, value in values)
        raise CardinalityViolation(
            f"key ({shown}) is twice among the proposed rows, but ON CONFLICT DO UPDATE changes each row at most once"
        )


def _write_ops(statement: bound.MergeStatement, rows: _Rows, context: ExecutionContext) -> WriteResult:
    context.check()
    if not rows.written.num_rows:
        return WriteResult(0)
    batch = _one_batch(rows.written)
    ops = _ops(rows)
    key = {column.name for column in statement.table.schema.key}
    inserts = ops == Op.INSERT
    isset = {name: inserts for name in statement.columns if name not in key and name not in statement.updated}
    return context.store.write(statement.table, _unchanged(batch, ops, context, isset=isset))


# ---- Arrow -----------------------------------------------------------------------------------------------------------


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    """Return the rows as one batch, which is written as a whole or not at all."""
    batches = rows.combine_chunks().to_batches()
    if len(batches) != 1:
        raise LimitExceeded(f"{rows.nbytes:,} bytes exceed the limit of one statement; write fewer rows at a time")
    return batches[0]


def arrow_schema(schema: Schema, names: Sequence[str]) -> pa.Schema:
    """Arrow schema of some columns of a table."""
    return pa.schema([pa.field(name, schema.column(name).type.arrow) for name in names])


def rows_as(schema: pa.Schema, plan: Plan, context: ExecutionContext) -> Iterator[pa.RecordBatch]:
    """Yield a query's rows, converted to a table's columns."""
    for rows in arrow_batches(plan, context):
        arrays = [array.cast(type_) for array, type_ in zip(rows.columns, schema.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
