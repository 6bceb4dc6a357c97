"""Execution of bound statements: queries through the executor, everything else through the store.

SELECT, EXPLAIN, SHOW, DESCRIBE, COMPACT              columns and batches
all others                                            no columns; the work is done when `run` returns

Modules for other statements than queries are imported when the process runs its first one of their kind.
"""

from __future__ import annotations

from ...errors import InternalError
from ...model.schema import Table
from ...model.types import BIGINT
from ...sql import bound
from ..run.context import ExecutionContext
from ..run.interrupts import DeferInterrupts
from .results import Planner, StatementResult, arrow_batches, done, listing, planned


def run(statement: bound.Statement, context: ExecutionContext, plan: Planner = None) -> StatementResult:
    """Run one statement. An interrupt of the main thread cancels statements that are not queries; it takes effect when
    the store call returns."""
    if isinstance(statement, bound.SelectStatement):
        query_plan = planned(statement.query, plan)
        if statement.locks:
            from .locking import locked_rows

            return locked_rows(statement, query_plan, context)
        return StatementResult(query_plan.columns, arrow_batches(query_plan, context))
    with DeferInterrupts(context.cancel):
        result = _run(statement, context, plan)
    context.finish()
    return result


def _run(statement: bound.Statement, context: ExecutionContext, plan: Planner) -> StatementResult:
    if isinstance(statement, bound.InsertStatement | bound.ChangeStatement):
        from .changing import write

        return write(statement, planned(statement.query, plan), context)
    if isinstance(statement, bound.MergeStatement):
        from .changing import merge

        return merge(statement, planned(statement.query, plan), context)
    if isinstance(statement, bound.CompactTable):
        return _compact(statement.table, context)
    if isinstance(statement, bound.CopyTo):
        from ..files.file_writing import copy_to

        return done(copy_to(statement, planned(statement.query, plan), context))
    if isinstance(statement, bound.CopyFrom):
        from ..files.copying import copy_from

        return done(copy_from(statement, context))
    if isinstance(statement, bound.Explain):
        from .explaining import explain_statement

        return explain_statement(statement, context, plan, run)
    found = _catalog_change(statement, context, plan) or _listing(statement, context)
    if found is None:
        raise InternalError(f"the executor cannot run a {type(statement).__name__}")
    return found


def _catalog_change(statement: bound.Statement, context: ExecutionContext, plan: Planner) -> StatementResult | None:
    """Execute a statement that changes the catalog; None for another one."""
    from . import cataloging

    if isinstance(statement, bound.CreateTable):
        return cataloging.create_table(statement, context)
    if isinstance(statement, bound.CreateTableAs):
        return done(cataloging.create_table_as(statement, planned(statement.query, plan), context))
    if isinstance(statement, bound.AlterTable):
        return cataloging.alter_table(statement, context)
    if isinstance(statement, bound.DropTable):
        return cataloging.drop_table(statement, context)
    if isinstance(statement, bound.CreateView):
        return cataloging.create_view(statement, context)
    if isinstance(statement, bound.DropView):
        return cataloging.drop_view(statement, context)
    if isinstance(statement, bound.RenameView):
        return cataloging.rename_view(statement, context)
    if isinstance(statement, bound.ChangeViewOwner):
        return cataloging.change_view_owner(statement, context)
    if isinstance(statement, bound.RenameSchema):
        return cataloging.rename_schema(statement, context)
    if isinstance(statement, bound.ChangeSchemaOwner):
        return cataloging.change_schema_owner(statement, context)
    if isinstance(statement, bound.ChangeAccess):
        return cataloging.change_access(statement, context)
    if isinstance(statement, bound.CreateSchema):
        return cataloging.create_schema(statement, context)
    if isinstance(statement, bound.DropSchema):
        return cataloging.drop_schema(statement, context)
    if isinstance(statement, bound.AnalyzeTables):
        return cataloging.analyze(statement, context)
    return None


def _listing(statement: bound.Statement, context: ExecutionContext) -> StatementResult | None:
    """Execute a SHOW or DESCRIBE; None for another statement."""
    from . import listings

    if isinstance(statement, bound.ShowTables):
        return listings.show_tables(statement, context)
    if isinstance(statement, bound.ShowSchemas):
        return listings.show_schemas(statement, context)
    if isinstance(statement, bound.ShowFunctions):
        return listings.show_functions(statement)
    if isinstance(statement, bound.ShowStats):
        return listings.show_stats(statement.table, context)
    if isinstance(statement, bound.DescribeView):
        return listings.describe_view(statement)
    if isinstance(statement, bound.ShowCreateTable):
        return listings.show_create_table(statement.table)
    if isinstance(statement, bound.ShowPartitions):
        return listings.show_partitions(statement.table)
    if isinstance(statement, bound.ShowGrants):
        return listings.show_grants(statement, context)
    if isinstance(statement, bound.ShowRoles):
        return listings.show_roles(context)
    if isinstance(statement, bound.Describe):
        return listings.describe(statement.table)
    return None


def _compact(table: Table, context: ExecutionContext) -> StatementResult:
    """Execute COMPACT TABLE; return its outcome as one row."""
    done = context.store.compact_table(table, context.check)
    names = ["rowsets_before", "rowsets_after", "bytes_before", "bytes_after", "bytes_written"]
    return listing(names, [BIGINT] * len(names), [[getattr(done, name)] for name in names])
