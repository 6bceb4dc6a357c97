"""Running bound statements: queries through the executor, everything else through the store.

SELECT, EXPLAIN, SHOW, DESCRIBE, COMPACT              columns and batches
all others                                            no columns; the work is done when `run` returns
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
from ..sql.show_create import create_table_text, range_text
from ..storage.keys.partition import Partitioner
from ..storage.schema import ColumnSchema, Schema, Table
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
    if isinstance(statement, bound.CreateTableAs):
        return _done(_create_as(statement, _planned(statement.query, plan), context))
    if isinstance(statement, bound.AlterTable):
        return _alter(statement, context)
    if isinstance(statement, bound.DropTable):
        return _drop(statement, context)
    if isinstance(statement, bound.ShowTables):
        return _show_tables(context)
    if isinstance(statement, bound.ShowCreateTable):
        return _listing(["statement"], [STRING], [[create_table_text(statement.table)]])
    if isinstance(statement, bound.ShowPartitions):
        return _show_partitions(statement.table)
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
    schema = _arrow_schema(statement.table.schema, statement.columns)
    found = []
    for rows in _rows_as(schema, plan, context):
        context.reserve(rows.nbytes, f"{_article(statement.op)} {statement.op.name.partition('_')[0]}")
        found.append(rows)
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


def _arrow_schema(schema: Schema, names: Sequence[str]) -> pa.Schema:
    """Some columns of a table as Arrow has them."""
    return pa.schema([pa.field(name, schema.column(name).type.arrow) for name in names])


def _rows_as(schema: pa.Schema, plan: Plan, context: ExecutionContext) -> Iterator[pa.RecordBatch]:
    """A query's rows, brought to a table's columns."""
    for rows in _arrow(plan, context):
        arrays = [array.cast(type_) for array, type_ in zip(rows.columns, schema.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


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
    if not (statement.if_not_exists and _exists(statement.definition.name, context)):
        context.store.create_table(statement.definition)
    return _done()


def _exists(name: str, context: ExecutionContext) -> bool:
    return any(table.name == name for table in context.store.tables())


def _create_as(statement: bound.CreateTableAs, plan: Plan, context: ExecutionContext) -> int:
    """Create the table and load the query's rows in bulk; how many there were. A table whose load fails is dropped
    again; a crash in the middle may leave it empty."""
    if statement.if_not_exists and _exists(statement.definition.name, context):
        return 0
    table = context.store.create_table(statement.definition)
    try:
        with context.store.bulk_loader(table) as loader:
            for rows in _rows_as(_arrow_schema(table.schema, statement.columns), plan, context):
                loader.append(rows)
            return loader.finish()
    except BaseException:
        context.store.drop_table(table.name)
        raise


def _alter(statement: bound.AlterTable, context: ExecutionContext) -> StatementResult:
    if statement.steps:
        context.store.alter_table(statement.table.name, statement.steps)
    return _done()


def _drop(statement: bound.DropTable, context: ExecutionContext) -> StatementResult:
    if not statement.if_exists or _exists(statement.name, context):
        context.store.drop_table(statement.name)
    return _done()


def _listing(names: Sequence[str], types: Sequence[DataType], columns: Sequence[Sequence[object]]) -> StatementResult:
    """A small result set, column by column."""
    outline = tuple(Column(type_, True, -1 - i, name) for i, (name, type_) in enumerate(zip(names, types, strict=True)))
    arrays = [pa.array(values, type_.arrow) for values, type_ in zip(columns, types, strict=True)]
    return StatementResult(outline, iter([pa.RecordBatch.from_arrays(arrays, names=list(names))]))


def _show_tables(context: ExecutionContext) -> StatementResult:
    return _listing(["table"], [STRING], [[table.name for table in context.store.tables()]])


def _show_partitions(table: Table) -> StatementResult:
    """One row per tablet: its place, its bucket of each hash rule, its range."""
    rules = [f"HASH ({', '.join(rule.columns)})" for rule in table.partitions.hash_rules]
    range_rule = table.partitions.range_rule
    columns: list[list[object]] = [[] for _ in ("partition", *rules, *(["range"] if range_rule else []))]
    for place, partition in enumerate(Partitioner(table.schema, table.partitions).partitions):
        shown = [] if range_rule is None else [range_text(table, partition.range)]
        for column, value in zip(columns, (place, *partition.buckets, *shown), strict=True):
            column.append(value)
    names = ["partition", *(f"{rule} bucket" for rule in rules), *(["range"] if range_rule else [])]
    types = [BIGINT] * (1 + len(rules)) + ([STRING] if range_rule else [])
    return _listing(names, types, columns)


def _describe(table: Table) -> StatementResult:
    columns = table.schema.columns
    names = ["column", "type", "nullable", "key", "default", "encoding", "compression"]
    names += ["block_size", "immutable", "auto_increment", "comment"]
    types = [STRING, STRING, BOOLEAN, BOOLEAN, STRING, STRING, STRING, BIGINT, BOOLEAN, BOOLEAN, STRING]
    rows = [_described(column, i < table.schema.key_columns) for i, column in enumerate(columns)]
    return _listing(names, types, list(zip(*rows, strict=True)))


def _described(column: ColumnSchema, is_key: bool) -> tuple[object, ...]:
    default = None if column.default is None else str(column.type.to_python(column.default))
    storage = column.encoding.value, column.compression.value, column.block_size or None
    rules = column.immutable, column.auto_increment
    return column.name, str(column.type), column.nullable, is_key, default, *storage, *rules, column.comment


def _compact(table: Table, context: ExecutionContext) -> StatementResult:
    """What COMPACT TABLE did, as one row."""
    done = context.store.compact_table(table)
    names = ["rowsets_before", "rowsets_after", "bytes_before", "bytes_after", "bytes_written"]
    return _listing(names, [BIGINT] * len(names), [[getattr(done, name)] for name in names])


# ---- EXPLAIN ---------------------------------------------------------------------------------------------------------


def _explain(statement: bound.Explain, context: ExecutionContext, plan: Planner) -> StatementResult:
    inner = statement.statement
    if not isinstance(inner, bound.WITH_QUERY):
        raise NotSupportedError(
            "EXPLAIN shows the plan of a SELECT, INSERT, UPSERT, UPDATE, DELETE or CREATE TABLE AS; other statements "
            "have none"
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
