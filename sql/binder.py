"""Binding: the syntax tree of one statement becomes a bound statement, every name resolved and every type known."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ..errors import NotSupportedError
from . import binder_expressions, binder_subqueries, nodes
from .binder_alter import bind_alter_table
from .binder_changes import bind_delete, bind_truncate, bind_update
from .binder_from import table_name
from .binder_query import bind_query
from .binder_tables import bind_create_table, bind_create_table_as, find_table
from .binder_writes import bind_copy, bind_insert, bind_upsert
from .bound import (
    CompactTable,
    Describe,
    DropTable,
    Explain,
    SelectStatement,
    ShowCreateTable,
    ShowPartitions,
    ShowTables,
    Statement,
)
from .context import Catalog, Context, unsupported
from .parameters import Parameters, bind_parameters
from .parser import ParsedStatement
from .scope import Scope

HANDLERS = {**binder_expressions.HANDLERS, **binder_subqueries.HANDLERS}


def bind(parsed: ParsedStatement, catalog: Catalog, parameters: Parameters | None = None) -> Statement:
    """Bind one parsed statement.

    Parameters
    ----------
    parsed : ParsedStatement
        What `parser.parse` gave.
    catalog : Catalog
        Where tables are looked up: any `storage.store.Store`.
    parameters : sequence or mapping, optional
        Python values for the statement's `?` or `$n` placeholders (a sequence) or `:name` ones (a mapping).

    Raises
    ------
    StatementError
        Of the class that fits, with the place: `UnknownTable`, `UnknownColumn`, `TypeMismatch`, `GroupingError`, ...
    NotSupportedError
        For syntax that nyala reads but does not have; the message names it.
    DataError
        Where a literal does not spell a value of the type that its place asks for.
    InterfaceError
        Where the parameters do not fit the placeholders.
    """
    try:
        literals = bind_parameters(parsed.tree, parameters)
        context = Context(parsed.text, catalog, literals, bind_query, HANDLERS)
        with context.at(parsed.tree):
            return _statement(parsed.tree, context)
    except RecursionError:
        raise NotSupportedError("the statement is nested too deeply") from None


def _statement(tree: Any, context: Context) -> Statement:
    if isinstance(tree, exp.Query | exp.Values):
        return SelectStatement(bind_query(tree, Scope(), context))
    if isinstance(tree, exp.Insert):
        return bind_insert(tree, context)
    if isinstance(tree, nodes.Upsert):
        return bind_upsert(tree, context)
    if isinstance(tree, exp.Update):
        return bind_update(tree, context)
    if isinstance(tree, exp.Delete):
        return bind_delete(tree, context)
    if isinstance(tree, nodes.CreateTable):
        return (bind_create_table if tree.args.get("query") is None else bind_create_table_as)(tree, context)
    if isinstance(tree, nodes.AlterTable):
        return bind_alter_table(tree, context)
    if isinstance(tree, nodes.TruncateTable):
        return bind_truncate(tree, context)
    if isinstance(tree, nodes.DropTable):
        return DropTable(table_name(tree.this), bool(tree.args.get("exists")))
    if isinstance(tree, nodes.CopyFrom):
        return bind_copy(tree, context)
    if isinstance(tree, nodes.CompactTable):
        return CompactTable(find_table(tree.this, context))
    if isinstance(tree, nodes.ShowTables):
        return ShowTables()
    if isinstance(tree, nodes.ShowCreateTable):
        return ShowCreateTable(find_table(tree.this, context))
    if isinstance(tree, nodes.ShowPartitions):
        return ShowPartitions(find_table(tree.this, context))
    if isinstance(tree, nodes.DescribeTable):
        return Describe(find_table(tree.this, context))
    if isinstance(tree, nodes.Explain):
        analyze, verbose = bool(tree.args.get("analyze")), bool(tree.args.get("verbose"))
        return Explain(_statement(tree.this, context), analyze, verbose)
    raise unsupported(tree)
