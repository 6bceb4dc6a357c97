"""Execution of bound statements: queries through the executor, everything else through the store.

SELECT, EXPLAIN, SHOW, DESCRIBE, COMPACT              columns and batches
all others                                            no columns; the work is done when `run` returns
"""

from __future__ import annotations

from ...errors import InternalError
from ...model.schema import Table
from ...model.types import BIGINT
from ...sql import bound
from ..files.copying import copy_from
from ..files.file_writing import copy_to
from ..run.context import ExecutionContext
from ..run.interrupts import DeferInterrupts
from .cataloging import (
    alter_table,
    analyze,
    create_table,
    create_table_as,
    create_view,
    drop_table,
    drop_view,
)
from .changing import merge, write
from .explaining import explain_statement
from .listings import (
    describe,
    describe_view,
    show_create_table,
    show_functions,
    show_partitions,
    show_stats,
    show_tables,
)
from .locking import locked_rows
from .results import Planner, StatementResult, arrow_batches, done, listing, planned


def run(statement: bound.Statement, context: ExecutionContext, plan: Planner = None) -> StatementResult:
    """Run one statement. An interrupt of the main thread cancels statements that are not queries; it takes effect when
    the store call returns."""
    if isinstance(statement, bound.SelectStatement):
        query_plan = planned(statement.query, plan)
        if statement.locks:
            return locked_rows(statement, query_plan, context)
        return StatementResult(query_plan.columns, arrow_batches(query_plan, context))
    with DeferInterrupts(context.cancel):
        result = _run(statement, context, plan)
    context.finish()
    return result


def _run(statement: bound.Statement, context: ExecutionContext, plan: Planner) -> StatementResult:
    if isinstance(statement, bound.InsertStatement):
        return write(statement, planned(statement.query, plan), context)
    if isinstance(statement, bound.MergeStatement):
        return merge(statement, planned(statement.query, plan), context)
    if isinstance(statement, bound.ChangeStatement):
        return write(statement, planned(statement.query, plan), context)
    if isinstance(statement, bound.CompactTable):
        return _compact(statement.table, context)
    if isinstance(statement, bound.CopyTo):
        return done(copy_to(statement, planned(statement.query, plan), context))
    if isinstance(statement, bound.CopyFrom):
        return done(copy_from(statement, context))
    if isinstance(statement, bound.CreateTable):
        return create_table(statement, context)
    if isinstance(statement, bound.CreateTableAs):
        return done(create_table_as(statement, planned(statement.query, plan), context))
    if isinstance(statement, bound.AlterTable):
        return alter_table(statement, context)
    if isinstance(statement, bound.DropTable):
        return drop_table(statement, context)
    if isinstance(statement, bound.CreateView):
        return create_view(statement, context)
    if isinstance(statement, bound.DropView):
        return drop_view(statement, context)
    if isinstance(statement, bound.AnalyzeTables):
        return analyze(statement, context)
    if isinstance(statement, bound.ShowTables):
        return show_tables(statement, context)
    if isinstance(statement, bound.ShowFunctions):
        return show_functions(statement)
    if isinstance(statement, bound.ShowStats):
        return show_stats(statement.table, context)
    if isinstance(statement, bound.DescribeView):
        return describe_view(statement)
    if isinstance(statement, bound.ShowCreateTable):
        return show_create_table(statement.table)
    if isinstance(statement, bound.ShowPartitions):
        return show_partitions(statement.table)
    if isinstance(statement, bound.Describe):
        return describe(statement.table)
    if isinstance(statement, bound.Explain):
        return explain_statement(statement, context, plan, run)
    raise InternalError(f"the executor cannot run a {type(statement).__name__}")


def _compact(table: Table, context: ExecutionContext) -> StatementResult:
    """Execute COMPACT TABLE; return its outcome as one row."""
    done = context.store.compact_table(table, context.check)
    names = ["rowsets_before", "rowsets_after", "bytes_before", "bytes_after", "bytes_written"]
    return listing(names, [BIGINT] * len(names), [[getattr(done, name)] for name in names])
