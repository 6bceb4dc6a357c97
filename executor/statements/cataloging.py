"""Execution of CREATE, ALTER, DROP and ANALYZE by the store's catalog."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Final

from ...errors import DuplicateSchema, DuplicateTable, NotSupportedError, UnknownSchema, UnknownTable
from ...model.schema import View
from ...model.store import Store
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
    """ALTER TABLE."""
    if statement.steps:
        with _in_one_step(statement.table.name, statement.readers, context) as store:
            store.alter_table(statement.table.name, statement.steps)
    return done()


@contextlib.contextmanager
def _in_one_step(name: str, readers: Sequence[View], context: ExecutionContext) -> Iterator[Store]:
    """The store in which a table or view is renamed; the texts of the views that read it are replaced in the same step.

    Raises `NotSupportedError` where several changes of the catalog cannot be one.
    """
    store = context.store
    if not readers:
        yield store
        return
    if not store.transactional_ddl:
        those = ", ".join(view.name for view in readers)
        raise NotSupportedError(
            f"{name} is read by view{'s' if len(readers) > 1 else ''} {those}: on a cluster, or in a directory that "
            "another process serves, it keeps its name until they are dropped"
        )
    if hasattr(store, "rollback_to"):  # a transaction, whose COMMIT makes them one
        yield store
        _replace_views(readers, store)
        return
    transaction = store.begin()
    try:
        yield transaction
        _replace_views(readers, transaction)
        transaction.commit()
    finally:
        transaction.close()


def _replace_views(views: Sequence[View], store: Store) -> None:
    for view in views:
        store.create_view(view, replace=True)


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
    """ALTER VIEW ... RENAME TO, SET SCHEMA."""
    if statement.new_name != statement.name:
        with _in_one_step(statement.name, statement.readers, context) as store:
            store.rename_view(statement.name, statement.new_name, statement.namespace)
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
