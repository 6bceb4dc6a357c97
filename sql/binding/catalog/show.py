"""Binds the statements about the catalog: schemas, views, ANALYZE, SHOW, DESCRIBE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....errors import StatementError
from ....model.access.rights import Right, secured
from ....model.schema import Table
from ...bound_catalog import (
    AnalyzeTables,
    CatalogStatement,
    Describe,
    DescribeView,
    ShowCreateTable,
    ShowFunctions,
    ShowPartitions,
    ShowSchemas,
    ShowStats,
    ShowTables,
)
from ...syntax import nodes
from ..context import Context
from ..tables.create_table import find_table
from .renaming import bind_alter_view
from .schemas import bind_alter_schema, bind_create_schema, bind_drop_schema
from .views import bind_create_view, bind_drop_view, describe_view, find_view


def _analyze(node: Any, context: Context) -> AnalyzeTables:
    if node.this is None:
        return AnalyzeTables(tuple(table for table in context.catalog.tables() if _is_own(table, context)))
    table = find_table(node.this, context)
    with context.at(node.this):
        context.require_owner(table, "ANALYZE")
    return AnalyzeTables((table,))


def _is_own(table: Table, context: Context) -> bool:
    return context.actor is None or context.actor.access.owns(context.actor.role, secured(table))


def _show_stats(node: Any, context: Context) -> ShowStats:
    table = find_table(node.this, context)
    with context.at(node.this):
        context.require(table, Right.SELECT)  # the least and the greatest value of each column
    return ShowStats(table)


def _show_create(node: Any, context: Context) -> ShowCreateTable:
    view = find_view(node.this, context)
    if view is None and node.args.get("view"):
        table = find_table(node.this, context)
        with context.at(node.this):
            raise StatementError(f"{table.name} is a table; SHOW CREATE TABLE shows it")
    return ShowCreateTable(view or find_table(node.this, context))


def _describe(node: Any, context: Context) -> Describe | DescribeView:
    view = find_view(node.this, context)
    if view is None:
        return Describe(find_table(node.this, context))
    with context.at(node.this):
        return describe_view(view, context)


def _pattern(node: Any) -> str | None:
    return None if node.this is None else str(node.this.this)


CATALOG_STATEMENTS: dict[type, Callable[[Any, Context], CatalogStatement]] = {
    nodes.CreateView: bind_create_view,
    nodes.DropView: bind_drop_view,
    nodes.AlterView: bind_alter_view,
    nodes.CreateSchema: bind_create_schema,
    nodes.DropSchema: bind_drop_schema,
    nodes.AlterSchema: bind_alter_schema,
    nodes.ShowSchemas: lambda node, _: ShowSchemas(_pattern(node)),
    nodes.AnalyzeTable: _analyze,
    nodes.ShowTables: lambda node, _: ShowTables(_pattern(node)),
    nodes.ShowFunctions: lambda node, _: ShowFunctions(_pattern(node)),
    nodes.ShowViews: lambda node, _: ShowTables(_pattern(node), views=True),
    nodes.ShowCreateTable: _show_create,
    nodes.ShowPartitions: lambda node, context: ShowPartitions(find_table(node.this, context)),
    nodes.ShowStats: _show_stats,
    nodes.DescribeTable: _describe,
}
"""The binding function of each kind of statement."""
