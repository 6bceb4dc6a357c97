"""Binds the statements about schemas: CREATE SCHEMA, ALTER SCHEMA, DROP SCHEMA.

DROP SCHEMA ... CASCADE drops the schema's tables and views, and the views of other schemas that depend on them, in one
step of the store.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....errors import DuplicateSchema, InvalidTableDefinition, UnknownSchema
from ....model.access.roles import STORE_ROLE
from ....model.namespaces import (
    DEFAULT_NAMESPACE,
    TEMPORARY_NAMESPACE,
    Namespace,
    check_new_namespace,
    full_name,
    not_empty,
)
from ....model.schema import Table, View
from ...bound_catalog import ChangeSchemaOwner, CreateSchema, DropSchema, RenameSchema
from ...syntax import nodes
from ..access.grants import new_owner
from ..access.roles import role_named
from ..context import Context, name_of
from ..names import SYSTEM_SCHEMAS, canonical, check_schema
from .renaming import bind_rename_schema
from .views import dependents


def bind_create_schema(node: Any, context: Context) -> CreateSchema:
    """Binds CREATE SCHEMA; its owner is the role of AUTHORIZATION, or the current one."""
    with context.at(node.this):
        exists, name = bool(node.args.get("exists")), name_of(node.this)
        if name == TEMPORARY_NAMESPACE:
            raise InvalidTableDefinition(f"each session has a schema {name} of its own: CREATE TEMPORARY TABLE")
        known = {namespace.name for namespace in context.catalog.namespaces()}
        if not (exists and canonical(name) in known):
            check_new_namespace(name)
        context.require_superuser("CREATE SCHEMA")
        _refuse_looks_within(canonical(name), context)
    return CreateSchema(Namespace(canonical(name), _owner(node.args.get("owner"), context)), exists)


def _owner(node: Any, context: Context) -> str:
    """The owner of a new schema, as schemas have it: empty for the store's own role."""
    if node is None:
        return context.owner
    if context.actor is None and name_of(node) == context.session.user:
        return ""  # the store may have no users, and its own role then has any name
    name = role_named(node, context)
    return "" if name == STORE_ROLE else name


def _refuse_looks_within(name: str, context: Context) -> None:
    """Raise `InvalidTableDefinition` if a table or view of the default schema has a name like those of a new schema."""
    if any(each.name == name for each in context.catalog.namespaces()):
        return
    stored: list[Table | View] = [*context.catalog.tables(), *context.catalog.views()]
    for each in stored:
        if each.namespace == DEFAULT_NAMESPACE and each.name.startswith(full_name(name, "")):
            raise InvalidTableDefinition(
                f'schema {name} cannot be created: "{each.name}" of schema {DEFAULT_NAMESPACE} is called as its tables '
                "would be; rename that first"
            )


def bind_alter_schema(node: Any, context: Context) -> RenameSchema | ChangeSchemaOwner:
    """Binds ALTER SCHEMA. RENAME TO is for superusers, as CREATE SCHEMA is."""
    (action,) = node.expressions
    with context.at(node.this):
        name = canonical(name_of(node.this))
        if name in (DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE, *SYSTEM_SCHEMAS):
            raise InvalidTableDefinition(f"schema {name} cannot be altered: every store has it")
        check_schema(name, context)
        before = next(each for each in context.catalog.namespaces() if each.name == name)
        context.require_owner(context.secured_schema(name), "ALTER SCHEMA")
    if isinstance(action, nodes.SetTableOwner):
        return ChangeSchemaOwner(before, replace(before, owner=new_owner(action.this, context)))
    with context.at(action.this):
        context.require_superuser("ALTER SCHEMA ... RENAME TO")
        new = name_of(action.this)
        if canonical(new) in {namespace.name for namespace in context.catalog.namespaces()}:
            raise DuplicateSchema(f"schema {new} exists already")
        if new == TEMPORARY_NAMESPACE:
            raise InvalidTableDefinition(f"a schema cannot be called {new}: each session has one of its own")
        check_new_namespace(new)
        _refuse_looks_within(new, context)
    with context.at(node.this):
        return bind_rename_schema(before, replace(before, name=new), context)


def bind_drop_schema(node: Any, context: Context) -> DropSchema:
    """Binds DROP SCHEMA; `DependentObjects` where it is not empty, unless with CASCADE."""
    exists, cascade = bool(node.args.get("exists")), bool(node.args.get("cascade"))
    with context.at(node.this):
        name = canonical(name_of(node.this))
        if name in (DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE, *SYSTEM_SCHEMAS):
            raise InvalidTableDefinition(f"schema {name} cannot be dropped: every store has it")
        try:
            check_schema(name, context)
        except UnknownSchema:
            if not exists:
                raise
            return DropSchema(name, True)
        context.require_owner(context.secured_schema(name), "DROP SCHEMA")
        tables = [table.name for table in context.catalog.tables() if table.namespace == name]
        views = [view.name for view in context.catalog.views() if view.namespace == name]
        found = [*tables, *views]
        if found and not cascade:
            raise not_empty(name, found)
        for each in found:
            views += dependents(each, each, True, context)
        return DropSchema(name, exists, tuple(tables), tuple(dict.fromkeys(views)))
