"""Names of tables and views: their schema, and the name in the store.

    t            the first schema of the session's search path that has a table or view of this name
    s.t          schema s, whether it is on the path or not; `main` is another name of `public`
    pg_class     `pg_catalog`, which is searched before all other schemas

The store has one set of names (`model.namespaces`): everything that is bound has the name in the store, so the path
matters here only. The schemas `pg_catalog` and `information_schema` have the relations of `system.relations`, which
describe the catalog, and `nyala_catalog` has those that describe what the store and its process do. The text of a view
is bound without a path: a name without a schema is of the default one.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ...errors import (
    DuplicateTable,
    InvalidTableDefinition,
    SqlSyntaxError,
    StatementError,
    UnknownSchema,
    UnknownTable,
)
from ...model.namespaces import DEFAULT_ALIAS, DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE, full_name, local_name
from ..search_path import USER_SCHEMA
from ..syntax.written_names import did_you_mean, written_name
from .context import Catalog, Context, name_of

INFORMATION_SCHEMA = "information_schema"
PG_CATALOG = "pg_catalog"
NYALA_CATALOG = "nyala_catalog"
SYSTEM_SCHEMAS = (PG_CATALOG, INFORMATION_SCHEMA, NYALA_CATALOG)
OWN_PREFIX = "pg_"
"""The beginning of the names of all relations of `pg_catalog`."""


# ---- schemas ---------------------------------------------------------------------------------------------------------


def canonical(schema: str) -> str:
    """The name of a schema of which another name was given."""
    return DEFAULT_NAMESPACE if schema == DEFAULT_ALIAS else schema


def search_path(context: Context) -> tuple[str, ...]:
    """The schemas of the store in which names are searched, without those that do not exist and, as in PostgreSQL,
    without those that the role may not use: that of temporary objects comes first unless the session's path has it
    elsewhere."""
    if context.path is None:
        context.path = tuple(name for name in _whole_path(context) if context.may_use(name))
    return context.path


def _whole_path(context: Context) -> tuple[str, ...]:
    """`search_path` with the schemas that the role may not use."""
    known = {namespace.name for namespace in context.catalog.namespaces()}
    given = context.session.search_path()
    names = [canonical(context.session.user if name == USER_SCHEMA else name) for name in given]
    if TEMPORARY_NAMESPACE not in names:
        names.insert(0, TEMPORARY_NAMESPACE)
    return tuple(dict.fromkeys(name for name in names if name in known))


def current_schema(context: Context) -> str | None:
    """The schema in which objects without one are created; None if the path has none that exists."""
    return next((name for name in search_path(context) if name != TEMPORARY_NAMESPACE), None)


def schema_of(node: Any, context: Context, is_new: bool = False) -> str | None:
    """The schema that a table node names; None if it names none.

    Raises `UnknownSchema` if there is no such schema, and `PermissionDenied` if the role may not use it: it learns
    nothing about what is there. The name of a table that is to be created (`is_new`) needs another right, CREATE.
    """
    if node.args.get("catalog") and name_of(node.args["catalog"]) != context.session.database:
        raise StatementError(
            f"there are no databases to choose from: write {DEFAULT_NAMESPACE}.table, or the table alone"
        )
    if node.args.get("db") is None:
        return None
    if not isinstance(node.args["db"], exp.Expression):
        raise SqlSyntaxError("a name is missing before the point")
    schema = canonical(name_of(node.args["db"]))
    if schema not in SYSTEM_SCHEMAS:
        check_schema(schema, context)
        if not is_new:
            context.require_use(schema)
    return schema


def check_schema(schema: str, context: Context) -> None:
    """Raise `UnknownSchema` unless the store has the schema."""
    if schema in (DEFAULT_NAMESPACE, TEMPORARY_NAMESPACE):
        return
    known = [namespace.name for namespace in context.catalog.namespaces()]
    if schema not in known:
        there = (*known, *SYSTEM_SCHEMAS)
        raise UnknownSchema(f"schema {schema} does not exist{did_you_mean(schema, there)}")


# ---- tables and views ------------------------------------------------------------------------------------------------


def table_name(node: Any, context: Context) -> str:
    """The name in the store of the table or view that a node means. It may not exist; then it is the one that the last
    schema of the path would have."""
    if (schema := schema_of(node, context)) in SYSTEM_SCHEMAS:
        raise StatementError(f"{schema} can be read in FROM, and nothing else")
    return found_name(_name(node), schema, context)


def found_name(name: str, schema: str | None, context: Context) -> str:
    """`table_name` of a folded name and its schema."""
    if schema is not None:
        return _full_name(schema, name, context)
    path = search_path(context)
    for namespace in path[:-1]:
        if has_relation(namespace, name, context.catalog):
            return full_name(namespace, name)
    if context.actor is not None and not (path and has_relation(path[-1], name, context.catalog)):
        _refuse_unusable(name, path, context)
    if not path:
        raise UnknownSchema(f"table {name} does not exist: no schema of search_path does; write schema.{name}")
    return _full_name(path[-1], name, context)


def _refuse_unusable(name: str, path: tuple[str, ...], context: Context) -> None:
    """Raise `PermissionDenied` for a name that is in no schema of the path but one that the role may not use: it helps
    more than "does not exist", which PostgreSQL says."""
    if context.within:
        return  # the text of a view, whose names are not searched
    for namespace in _whole_path(context):
        if namespace not in path and has_relation(namespace, name, context.catalog):
            context.require_use(namespace)


def _full_name(schema: str, name: str, context: Context) -> str:
    full = full_name(schema, name)
    if full == name and "." in name and context.catalog.namespaces()[1:]:
        # "s.t" in quotes is a name without a schema, and no table of the schema s.
        if any(found.name == name and found.namespace != schema for found in _all(context.catalog)):
            raise UnknownTable(f'table "{name}" does not exist in schema {schema}')
    return full


def _all(catalog: Catalog) -> list[Any]:
    return [*catalog.tables(), *catalog.views()]


def has_relation(schema: str, name: str, catalog: Catalog) -> bool:
    """True if a schema of the store has a table or view of a name."""
    full = full_name(schema, name)
    found: Any = catalog.view(full)
    if found is None:
        try:
            found = catalog.table(full)
        except UnknownTable:
            return False
    return bool(found.namespace == schema)


def droppable_name(node: Any, exists: bool, context: Context) -> str | None:
    """`table_name` for DROP; None for an object of a schema that does not exist, where IF EXISTS allows that."""
    try:
        return table_name(node, context)
    except UnknownSchema:
        if not exists:
            raise
        return None


def new_name(node: Any, context: Context, temporary: bool = False) -> tuple[str, str]:
    """The schema of a table or view that is to be created, and its name in the store."""
    schema = schema_of(node, context, is_new=True)
    if schema in SYSTEM_SCHEMAS:
        raise StatementError(f"nothing can be created in {schema}: it describes the catalog")
    if temporary:
        if schema not in (None, TEMPORARY_NAMESPACE):
            raise InvalidTableDefinition(f"a temporary table or view cannot be in schema {schema}; leave that out")
        schema = TEMPORARY_NAMESPACE
    if schema is None:
        schema = current_schema(context)
        if schema is None:
            raise UnknownSchema("no schema of search_path exists in which it could be created; write schema.name")
    return schema, new_full_name(schema, _name(node), context.catalog)


def new_full_name(schema: str, name: str, catalog: Catalog) -> str:
    """The name in the store that a new table or view of a schema gets. Raises `InvalidTableDefinition` for one of the
    default schema that would look like another schema's: `"s.t"` in quotes is not table t of schema s."""
    if schema == DEFAULT_NAMESPACE and "." in name:
        others = {TEMPORARY_NAMESPACE, *(each.name for each in catalog.namespaces() if each.name != schema)}
        taken = next((other for other in others if name.startswith(full_name(other, ""))), None)
        if taken is not None:
            raise InvalidTableDefinition(
                f'a table or view of schema {schema} cannot be called "{name}", which means one of schema {taken}'
            )
    return full_name(schema, name)


def _name(node: Any) -> str:
    if not isinstance(node.this, exp.Identifier):
        raise SqlSyntaxError("a table name expected")
    return name_of(node.this)


def sql_name(name: str, catalog: Catalog) -> str:
    """The name in SQL of a table or view, which may not exist, of its name in the store."""
    known: Any = catalog.view(name)
    if known is None:
        known = next((table for table in catalog.tables() if table.name == name), None)
    if known is not None:
        schema: str | None = known.namespace
    else:
        named = (found.name for found in catalog.namespaces() if found.name != DEFAULT_NAMESPACE)
        schema = next((each for each in named if name.startswith(full_name(each, ""))), DEFAULT_NAMESPACE)
    assert schema is not None
    text = written_name(local_name(schema, name))
    return text if schema == DEFAULT_NAMESPACE else f"{written_name(schema)}.{text}"


def refuse_taken(name: str, catalog: Catalog, kind: str | None = None) -> None:
    """Raises `DuplicateTable` if a table or view has the name; with `kind`, only if it is of that kind."""
    if kind in (None, "table") and any(table.name == name for table in catalog.tables()):
        raise DuplicateTable(f"table {name} exists already")
    if kind in (None, "view") and catalog.view(name) is not None:
        raise DuplicateTable(f"view {name} exists already")
