"""Binds the statements about schemas: CREATE SCHEMA, DROP SCHEMA, SHOW SCHEMAS.

DROP SCHEMA ... CASCADE drops the schema's tables and views, and the views of other schemas that depend on them, in one
step of the store.
"""

from __future__ import annotations

from typing import Any

from ....errors import DependentObjects, InvalidTableDefinition, UnknownSchema
from ....model.namespaces import DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE, Namespace, check_new_namespace
from ...bound_catalog import CreateSchema, DropSchema
from ..context import Context, name_of
from ..names import SYSTEM_SCHEMAS, canonical, check_schema
from .views import dependents

_SHOWN = 3
"""The objects that an error about a schema names at most."""


def bind_create_schema(node: Any, context: Context) -> CreateSchema:
    """Binds CREATE SCHEMA; `AUTHORIZATION` alone gives the user's name."""
    with context.at(node.this):
        exists, name = bool(node.args.get("exists")), name_of(node.this)
        if name == TEMPORARY_NAMESPACE:
            raise InvalidTableDefinition(f"each session has a schema {name} of its own: CREATE TEMPORARY TABLE")
        known = {namespace.name for namespace in context.catalog.namespaces()}
        if not (exists and canonical(name) in known):
            check_new_namespace(name)
        context.require_superuser("CREATE SCHEMA")
        return CreateSchema(Namespace(canonical(name), context.owner), exists)


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
        context.require_superuser("DROP SCHEMA")
        tables = [table.name for table in context.catalog.tables() if table.namespace == name]
        views = [view.name for view in context.catalog.views() if view.namespace == name]
        found = [*tables, *views]
        if found and not cascade:
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise DependentObjects(
                f"schema {name} has {', '.join(found[:_SHOWN])}{more}; DROP SCHEMA ... CASCADE drops its tables and "
                "views too"
            )
        for each in found:
            views += dependents(each, each, True, context)
        return DropSchema(name, exists, tuple(tables), tuple(dict.fromkeys(views)))
