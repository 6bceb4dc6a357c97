"""Execution of CREATE, ALTER, DROP and ANALYZE by the store's catalog."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Final

from ...errors import DuplicateSchema, DuplicateTable, UnknownSchema, UnknownTable
from ...model.access.rights import schema_key, secured_schema
from ...model.alterations import RenameTable
from ...model.catalog_batch import CatalogBatch
from ...model.schema import View
from ...model.types import BIGINT, STRING
from ...planner import Plan
from ...sql import bound
from ..run.context import ExecutionContext
from .changing import arrow_schema, rows_as
from .results import StatementResult, done, listing

CREATION_SECONDS: Final = 15.0
"""Seconds for which CREATE ... IF NOT EXISTS waits for a table that another client is creating."""


def create_table(statement: bound.CreateTable, context: ExecutionContext) -> StatementResult:
    """CREATE TABLE."""
    name = statement.definition.name
    if not (statement.if_not_exists and _exists(name, context)):
        with _unless_created_elsewhere(name, statement.if_not_exists, context):
            context.store.create_table(statement.definition)
    return done()


@contextlib.contextmanager
def _unless_created_elsewhere(name: str, if_not_exists: bool, context: ExecutionContext) -> Iterator[None]:
    """With IF NOT EXISTS, handle the refusal of a name that another client has taken since: wait until its table
    exists."""
    try:
        yield
    except DuplicateTable:
        deadline = time.monotonic() + CREATION_SECONDS
        while if_not_exists and time.monotonic() < deadline:
            context.check()
            if _exists(name, context):
                return
            time.sleep(0.02)
        raise


def _exists(name: str, context: ExecutionContext) -> bool:
    """True if there is a table or view of the name."""
    return context.store.view(name) is not None or any(table.name == name for table in context.store.tables())


def create_table_as(statement: bound.CreateTableAs, plan: Plan, context: ExecutionContext) -> int:
    """Create the table and load the query's rows in bulk; return their number. A table whose load fails is dropped
    again; a crash in the middle may leave it empty."""
    if statement.if_not_exists and _exists(statement.definition.name, context):
        return 0
    table = None
    with _unless_created_elsewhere(statement.definition.name, statement.if_not_exists, context):
        table = context.store.create_table(statement.definition)
    if table is None:
        return 0
    try:
        with context.store.bulk_loader(table) as loader:
            for rows in rows_as(arrow_schema(table.schema, statement.columns), plan, context):
                loader.append(rows)
            context.check()
            return loader.finish()
    except BaseException:
        context.store.drop_table(table.name)
        raise


def alter_table(statement: bound.AlterTable, context: ExecutionContext) -> StatementResult:
    """ALTER TABLE. The texts of the views that read it follow a new name in the same step."""
    name, steps = statement.table.name, statement.steps
    if steps and statement.readers:
        with context.store.change_together() as batch:
            batch.alter_table(name, steps)
            _replace_views(statement.readers, batch)
    elif steps:
        context.store.alter_table(name, steps)
    return done()


def _replace_views(pairs: Iterable[tuple[View, View]], batch: CatalogBatch) -> None:
    for before, after in pairs:
        batch.replace_view(before, after)


def drop_table(statement: bound.DropTable, context: ExecutionContext) -> StatementResult:
    """DROP TABLE, and the views that go with it."""
    try:
        context.store.drop_table(statement.name, statement.views)
    except UnknownTable:
        if not statement.if_exists:
            raise
    return done()


def create_view(statement: bound.CreateView, context: ExecutionContext) -> StatementResult:
    """CREATE VIEW."""
    name = statement.view.name
    if not (statement.if_not_exists and _exists(name, context)):
        with _unless_created_elsewhere(name, statement.if_not_exists, context):
            context.store.create_view(statement.view, statement.replace)
    return done()


def drop_view(statement: bound.DropView, context: ExecutionContext) -> StatementResult:
    """DROP VIEW, and the views that go with it."""
    try:
        context.store.drop_views((statement.name, *statement.views))
    except UnknownTable:
        if not statement.if_exists:
            raise
    return done()


def rename_view(statement: bound.RenameView, context: ExecutionContext) -> StatementResult:
    """ALTER VIEW ... RENAME TO, SET SCHEMA; as `alter_table`."""
    name, new_name, namespace = statement.name, statement.new_name, statement.namespace
    if new_name != name and statement.readers:
        with context.store.change_together() as batch:
            batch.rename_view(name, new_name, namespace)
            _replace_views(statement.readers, batch)
    elif new_name != name:
        context.store.rename_view(name, new_name, namespace)
    return done()


def change_view_owner(statement: bound.ChangeViewOwner, context: ExecutionContext) -> StatementResult:
    """ALTER VIEW ... OWNER TO."""
    if statement.view is not None and statement.view[0] != statement.view[1]:
        with context.store.change_together() as batch:
            batch.replace_view(*statement.view)
    return done()


def rename_schema(statement: bound.RenameSchema, context: ExecutionContext) -> StatementResult:
    """ALTER SCHEMA ... RENAME TO: a new schema, to which everything moves from the old one, in one step."""
    before, after = statement.before, statement.after
    with context.store.change_together() as batch:
        batch.create_namespace(after)
        _replace_views(statement.readers, batch)
        for table, name in statement.tables:
            batch.alter_table(table.name, [RenameTable(name, after.name)])
        for view, name in statement.views:
            batch.rename_view(view.name, name, after.name)
        batch.move_grants(secured_schema(before.name, before.owner), schema_key(after.name))
        batch.drop_namespace(before.name)
    return done()


def change_schema_owner(statement: bound.ChangeSchemaOwner, context: ExecutionContext) -> StatementResult:
    """ALTER SCHEMA ... OWNER TO."""
    if statement.before != statement.after:
        with context.store.change_together() as batch:
            batch.replace_namespace(statement.before, statement.after)
    return done()


def change_access(statement: bound.ChangeAccess, context: ExecutionContext) -> StatementResult:
    """CREATE, ALTER and DROP ROLE, GRANT, REVOKE."""
    if statement.steps:
        context.store.change_access(statement.steps)
    return done()


def create_schema(statement: bound.CreateSchema, context: ExecutionContext) -> StatementResult:
    """CREATE SCHEMA."""
    known = {namespace.name for namespace in context.store.namespaces()}
    if not (statement.if_not_exists and statement.namespace.name in known):
        try:
            context.store.create_namespace(statement.namespace)
        except DuplicateSchema:
            if not statement.if_not_exists:
                raise
    return done()


def drop_schema(statement: bound.DropSchema, context: ExecutionContext) -> StatementResult:
    """DROP SCHEMA, and the tables and views that go with it."""
    try:
        context.store.drop_namespace(statement.name, statement.tables, statement.views)
    except UnknownSchema:
        if not statement.if_exists:
            raise
    return done()


def analyze(statement: bound.AnalyzeTables, context: ExecutionContext) -> StatementResult:
    """Execute ANALYZE; return a row per table."""
    names = ("rows", "rows_flushed", "rowsets", "rowsets_read")
    rows = []
    for table in statement.tables:
        context.check()
        done = context.store.analyze_table(table, context.check)
        rows.append((table.name, *(getattr(done, name) for name in names)))
    columns = list(zip(*rows, strict=True)) or [()] * (1 + len(names))
    return listing(["table", *names], [STRING, *[BIGINT] * len(names)], columns)
