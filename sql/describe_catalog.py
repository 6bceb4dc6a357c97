"""Prints the bound statements about the catalog; `describe` prints the others."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.schema import View
from .bound_catalog import (
    AnalyzeTables,
    CatalogStatement,
    CreateView,
    Describe,
    DescribeView,
    DropView,
    ShowCreateTable,
    ShowFunctions,
    ShowPartitions,
    ShowTables,
)


def describe_catalog(statement: CatalogStatement) -> Iterator[str]:
    """The lines of a statement."""
    match statement:
        case CreateView(view, replace, if_not_exists):
            verb, exists = "create or replace" if replace else "create", " if not exists" if if_not_exists else ""
            yield f"{verb} view {view.name}{exists} ({', '.join(view.columns)})"
            yield f"  {view.text}"
        case DropView(name, if_exists, views):
            yield f"drop view {name}{' if exists' if if_exists else ''}{''.join(f', view {v}' for v in views)}"
        case AnalyzeTables(tables):
            yield f"analyze {', '.join(table.name for table in tables)}"
        case ShowTables(pattern, views):
            yield f"show {'views' if views else 'tables'}" + ("" if pattern is None else f" like {pattern!r}")
        case ShowFunctions(pattern):
            yield "show functions" + ("" if pattern is None else f" like {pattern!r}")
        case ShowCreateTable(table):
            yield f"show create {'view' if isinstance(table, View) else 'table'} {table.name}"
        case ShowPartitions(table):
            yield f"show partitions {table.name}"
        case Describe(table):
            yield f"describe {table.name}"
        case DescribeView(view, columns):
            yield f"describe view {view.name} ({', '.join(f'{c.name} {c.type}' for c in columns)})"
        case _:
            yield f"show stats {statement.table.name}"
