"""Names of tables and views: their schema, and checks that a name is free.

There is one user schema, `main`, which may be written or omitted. The schemas `pg_catalog` and `information_schema`
have the relations of `system.relations`, which describe the catalog, and `nyala_catalog` has those that describe what
the store and its process do.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ...errors import DuplicateTable, SqlSyntaxError, StatementError, UnknownTable
from .context import Catalog, name_of

SCHEMA = "main"
INFORMATION_SCHEMA = "information_schema"
PG_CATALOG = "pg_catalog"
NYALA_CATALOG = "nyala_catalog"
SYSTEM_SCHEMAS = (PG_CATALOG, INFORMATION_SCHEMA, NYALA_CATALOG)
OWN_PREFIX = "pg_"
"""The beginning of the names of all relations of `pg_catalog`."""


def schema_of(node: Any) -> str | None:
    """The schema that a table node names; None if it names none. Raises `UnknownTable` if there is no such schema."""
    if node.args.get("catalog"):
        raise StatementError(f"there are no databases to choose from: write {SCHEMA}.table, or the table alone")
    if node.args.get("db") is None:
        return None
    if not isinstance(node.args["db"], exp.Expression):
        raise SqlSyntaxError("a name is missing before the point")
    schema = name_of(node.args["db"])
    if schema not in (SCHEMA, *SYSTEM_SCHEMAS):
        where = f"write {node.name} or {SCHEMA}.{node.name}"
        there = f"{SCHEMA}, {PG_CATALOG}, {INFORMATION_SCHEMA} and {NYALA_CATALOG}"
        raise UnknownTable(f"schema {schema} does not exist; there are {there}: {where}")
    return schema


def table_name(node: Any) -> str:
    """The folded name of a table or view in the user schema."""
    if (schema := schema_of(node)) in SYSTEM_SCHEMAS:
        raise StatementError(f"{schema} can be read in FROM, and nothing else")
    if not isinstance(node.this, exp.Identifier):
        raise SqlSyntaxError("a table name expected")
    return name_of(node.this)


def refuse_taken(name: str, catalog: Catalog, kind: str | None = None) -> None:
    """Raises `DuplicateTable` if a table or view has the name; with `kind`, only if it is of that kind."""
    if kind in (None, "table") and any(table.name == name for table in catalog.tables()):
        raise DuplicateTable(f"table {name} exists already")
    if kind in (None, "view") and catalog.view(name) is not None:
        raise DuplicateTable(f"view {name} exists already")
