"""Running bound statements: queries through the executor, everything else through the store.

SELECT, EXPLAIN, SHOW, DESCRIBE, COMPACT              columns and batches
INSERT, UPSERT, UPDATE, DELETE, COPY, CREATE, DROP    no columns; the work is done when `run` returns
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from ..errors import IntegrityError, InternalError, NotSupportedError
from ..planner import Actual, Plan, explain
from ..sql import bound
from ..sql.expressions import Column
from ..storage.schema import ColumnSchema, Table
from ..storage.store import Op, WriteBatch
from ..storage.types import BIGINT, BOOLEAN, STRING, DataType
from .actuals import Actuals
from .context import ExecutionContext
from .copying import copy_from
from .execute import execute

Planner: TypeAlias = Plan | Callable[[bound.Query], Plan] | None
"""The statement's plan, or what makes it. Statements without a query need none."""


@dataclass(frozen=True, slots=True)
class StatementResult:
    """What a statement gives.

    Parameters
    ----------
    columns : tuple of Column, optional
        None where the statement has no result set.
    batches : iterator of pa.RecordBatch
        The rows, made as they are pulled; errors of the evaluation surface there.
    rowcount : int
        Rows changed, -1 where that has no meaning.
    """

    columns: tuple[Column, ...] | None
    batches: Iterator[pa.RecordBatch]
    rowcount: int = -1


def run(statement: bound.Statement, context: ExecutionContext, plan: Planner = None) -> StatementResult:
    """Run one statement."""
    if isinstance(statement, bound.SelectStatement):
        found = _planned(statement.query, plan)
        return StatementResult(found.columns, _arrow(found, context))
    if isinstance(statement, bound.InsertStatement):
        return _done(_write(statement, _planned(statement.query, plan), context))
    if isinstance(statement, bound.ChangeStatement):
        return _done(_write(statement, _planned(statement.query, plan), context))
    if isinstance(statement, bound.CompactTable):
        return _compact(statement.table, context)
    if isinstance(statement, bound.CopyFrom):
        return _done(copy_from(statement, context))
    if isinstance(statement, bound.CreateTable):
        return _create(statement, context)
    if isinstance(statement, bound.DropTable):
        return _drop(statement, context)
    if isinstance(statement, bound.ShowTables):
        return _show_tables(context)
    if isinstance(statement, bound.Describe):
        return _describe(statement.table)
    if isinstance(statement, bound.Explain):
        return _explain(statement, context, plan)
    raise InternalError(f"the executor cannot run a {type(statement).__name__}")


def _planned(query: bound.Query, plan: Planner) -> Plan:
    if plan is None:
        raise InternalError("a statement with a query was run without its plan")
    return plan if isinstance(plan, Plan) else plan(query)


def _done(rowcount: int = -1) -> StatementResult:
    return StatementResult(None, iter(()), rowcount)


def _arrow(plan: Plan, context: ExecutionContext) -> Iterator[pa.RecordBatch]:
    names = [column.name for column in plan.columns]
    for batch in execute(plan.root, context):
        yield batch.to_arrow(names)


# ---- writing ---------------------------------------------------------------------------------------------------------


_DONE = {Op.INSERT: "inserted", Op.INSERT_IGNORE: "inserted", Op.UPSERT: "written", Op.UPDATE: "updated"}


def _write(statement: bound.InsertStatement | bound.ChangeStatement, plan: Plan, context: ExecutionContext) -> int:
    """Apply the query's rows to the table; how many changed it.

    The query is computed to its end first: an error in it leaves nothing behind, and a query over the same table never
    meets its own rows. A row that a query names twice is changed once, or twice to the same end, so that a row that
    somebody else deleted in between is no error of an UPDATE or a DELETE.
    """
    types = [statement.table.schema.column(name).type for name in statement.columns]
    fields = [pa.field(name, type_.arrow) for name, type_ in zip(statement.columns, types, strict=True)]
    schema = pa.schema(fields)
    found = []
    for rows in _arrow(plan, context):
        context.reserve(rows.nbytes, f"{_article(statement.op)} {statement.op.name.partition('_')[0]}")
        found.append(pa.RecordBatch.from_arrays([a.cast(f.type) for a, f in zip(rows.columns, fields)], schema=schema))
    whole = pa.Table.from_batches(found, schema).combine_chunks()
    op = {Op.UPDATE: Op.UPDATE_IGNORE, Op.DELETE: Op.DELETE_IGNORE}.get(statement.op, statement.op)
    applied = 0
    for rows in whole.to_batches():  # one, unless its texts pass the 2 GiB of an Arrow array
        context.check()
        written = context.store.write(statement.table, WriteBatch(rows, op, all_or_none=True))
        applied += written.applied
        if written.errors:
            raise _refusal(
                written.errors[0].error, len(written.errors), applied, whole.num_rows, _DONE.get(op, "changed")
            )
    return applied


def _article(op: Op) -> str:
    return "a" if op is Op.DELETE else "an"


def _refusal(first: IntegrityError, refused: int, applied: int, rows: int, done: str) -> IntegrityError:
    """The first row's error, with what became of the others."""
    if rows == 1:
        return first
    kept = f"{applied} rows before them were {done}" if applied else f"none was {done}"
    return type(first)(f"{first}\n{refused} of {rows} rows refused, {kept}")


# ---- the catalog -----------------------------------------------------------------------------------------------------


def _create(statement: bound.CreateTable, context: ExecutionContext) -> StatementResult:
    name = statement.definition.name
    if statement.if_not_exists and any(table.name == name for table in context.store.tables()):
        return _done()
    context.store.create_table(statement.definition)
    return _done()


def _drop(statement: bound.DropTable, context: ExecutionContext) -> StatementResult:
    if statement.if_exists and all(table.name != statement.name for table in context.store.tables()):
        return _done()
    context.store.drop_table(statement.name)
    return _done()


def _listing(names: Sequence[str], types: Sequence[DataType], columns: Sequence[Sequence[object]]) -> StatementResult:
    """A small result set, column by column."""
    outline = tuple(Column(type_, True, -1 - i, name) for i, (name, type_) in enumerate(zip(names, types, strict=True)))
    arrays = [pa.array(values, type_.arrow) for values, type_ in zip(columns, types, strict=True)]
    return StatementResult(outline, iter([pa.RecordBatch.from_arrays(arrays, names=list(names))]))


def _show_tables(context: ExecutionContext) -> StatementResult:
    return _listing(["table"], [STRING], [[table.name for table in context.store.tables()]])


def _describe(table: Table) -> StatementResult:
    columns = table.schema.columns
    names = ["column", "type", "nullable", "key", "default", "encoding", "compression", "comment"]
    types = [STRING, STRING, BOOLEAN, BOOLEAN, STRING, STRING, STRING, STRING]
    rows = [_described(column, i < table.schema.key_columns) for i, column in enumerate(columns)]
    return _listing(names, types, list(zip(*rows, strict=True)))


def _described(column: ColumnSchema, is_key: bool) -> tuple[object, ...]:
    default = None if column.default is None else str(column.type.to_python(column.default))
    encodings = column.encoding.value, column.compression.value
    return column.name, str(column.type), column.nullable, is_key, default, *encodings, column.comment


def _compact(table: Table, context: ExecutionContext) -> StatementResult:
    """What COMPACT TABLE did, as one row."""
    done = context.store.compact_table(table)
    names = ["rowsets_before", "rowsets_after", "bytes_before", "bytes_after", "bytes_written"]
    return _listing(names, [BIGINT] * len(names), [[getattr(done, name)] for name in names])


# ---- EXPLAIN ---------------------------------------------------------------------------------------------------------


def _explain(statement: bound.Explain, context: ExecutionContext, plan: Planner) -> StatementResult:
    inner = statement.statement
    if not isinstance(inner, bound.SelectStatement | bound.InsertStatement | bound.ChangeStatement):
        raise NotSupportedError(
            "EXPLAIN shows the plan of a SELECT, INSERT, UPSERT, UPDATE or DELETE; other statements have none"
        )
    found = _planned(inner.query, plan)
    actuals = None
    if statement.analyze:
        if not isinstance(inner, bound.SelectStatement):
            raise NotSupportedError("EXPLAIN ANALYZE runs its statement, so it takes queries only; explain without it")
        context.collect = True
        for _ in execute(found.root, context):
            pass
        actuals = actuals_for(context.actuals)
    text = explain(found, actuals, statement.verbose)
    return _listing(["plan"], [STRING], [text.splitlines()])


def actuals_for(actuals: Actuals) -> dict[int, Actual]:
    """What EXPLAIN ANALYZE draws: per node its rows, the time in it without its inputs, and a scan's counters."""
    result = {}
    for node in actuals.nodes():
        actual = actuals.of(node)
        below = sum(found.seconds for child in node.children() if (found := actuals.get(child)) is not None)
        notes = []
        if actual.counters is not None:
            counters = actual.counters
            notes.append(
                f"{counters.rows_considered:,} rows considered; pages: {counters.pages_read:,} read, "
                f"{counters.pages_skipped:,} skipped; {counters.rowgroups_skipped:,} row groups skipped"
            )
        if actual.filtered:
            notes.append(f"runtime filters: {', '.join(actual.filtered)}")
        result[id(node)] = Actual(actual.rows, max(0.0, actual.seconds - below), tuple(notes))
    return result
