"""A relation of the system catalogs as a query of constant rows.

A relation without a function here is empty: PostgreSQL has it for something that nyala has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from ....errors import UnknownTable, did_you_mean
from ....model.observations import rows_of
from ....model.types import Kind
from ...bound import Query, Values
from ...constant_rows import ConstantRows
from ..context import Context
from ..names import INFORMATION_SCHEMA, NYALA_CATALOG, PG_CATALOG
from . import information_schema, pg_objects, pg_server, roles
from .columns_nyala import OF_STATEMENTS
from .definitions import SystemColumn, SystemRelation, relations, system_type
from .objects import Objects
from .partitions import partitions
from .pg_objects import Row

_OBJECTS: Final = (
    *("attrdef", "attribute", "class", "constraint", "depend", "description", "index", "indexes", "namespace"),
    *("rewrite", "stat_user_tables", "tables", "type", "views"),
)
_SERVER: Final = (
    *("am", "collation", "database", "language", "proc", "range", "settings", "stat_activity"),
    *("stat_database", "stat_ssl", "tablespace", "timezone_abbrevs", "timezone_names"),
)
_INFORMATION: Final = (
    *("columns", "constraint_column_usage", "information_schema_catalog_name", "key_column_usage"),
    *("schemata", "table_constraints", "table_privileges", "tables", "views"),
)
_ALIASES: Final = {
    "pg_authid": "pg_roles",
    "role_table_grants": "table_privileges",
    "pg_shadow": "pg_user",
    "pg_stat_all_tables": "pg_stat_user_tables",
}
"""Relations whose rows are those of another."""
_MAKERS: Final[dict[tuple[str, str], Callable[[Objects], Iterator[Row]]]] = {
    **{(PG_CATALOG, f"pg_{name}"): getattr(pg_objects, f"pg_{name}") for name in _OBJECTS},
    **{(PG_CATALOG, f"pg_{name}"): getattr(pg_server, f"pg_{name}") for name in _SERVER},
    **{(PG_CATALOG, f"pg_{name}"): getattr(roles, f"pg_{name}") for name in ("auth_members", "roles", "user")},
    **{(INFORMATION_SCHEMA, name): getattr(roles, name) for name in ("applicable_roles", "enabled_roles")},
    **{(INFORMATION_SCHEMA, name): getattr(information_schema, name) for name in _INFORMATION},
}
_CHANGING: Final = frozenset(
    ("pg_class", "pg_settings", "pg_stat_activity", "pg_stat_user_tables", "pg_stat_all_tables", "pg_stat_database")
)
"""Relations whose rows change without the catalog: a statement that reads them is bound each time."""
_HIDDEN: Final = tuple(
    SystemColumn(name, type_, system_type(type_)) for name, type_ in (("tableoid", "oid"), ("xmin", "xid"))
)
"""The columns that each of PostgreSQL's own tables has besides its own: its number, and the transaction of a row."""
_NONE: Final = {Kind.BOOLEAN: False, Kind.SMALLINT: 0, Kind.INT: 0, Kind.BIGINT: 0, Kind.FLOAT: 0.0, Kind.DOUBLE: 0.0}
"""PostgreSQL's value for "none" in its own tables, whose columns are mostly not NULL."""


def is_system(schema: str, name: str) -> bool:
    """True if the catalogs have a relation of that name."""
    return (schema, name) in relations()


def system_relation(schema: str, name: str, context: Context) -> tuple[Query, int]:
    """One relation as a query of constant rows, and the number of its last columns that `*` leaves out.

    Raises `UnknownTable` with the names of the schema's relations.
    """
    relation = relations().get((schema, name))
    if relation is None:
        names = [name for owner, name in relations() if owner == schema]
        raise UnknownTable(f"table {schema}.{name} does not exist{did_you_mean(name, names, 'it has')}")
    if name in _CHANGING or schema == NYALA_CATALOG:
        context.momentary.append(name)
    hidden = _HIDDEN if schema == PG_CATALOG else ()
    described = (*relation.columns, *hidden)
    columns = tuple(context.column(column.name, column.type, True) for column in described)
    # A view that is bound only for its columns needs no rows; and its columns may be among them.
    rows = [] if PG_CATALOG in context.within else _rows(relation, objects_of(context))
    values = [_values(column, rows, _default(relation, column)) for column in described]
    types = [column.type for column in described]
    return Query(Values(columns, ConstantRows(types, values, len(rows))), columns), len(hidden)


def objects_of(context: Context) -> Objects:
    """The objects that the catalogs describe, found once for each binding."""
    found = context.objects
    if not isinstance(found, Objects):
        found = context.objects = Objects(context)
    return found


def _rows(relation: SystemRelation, objects: Objects) -> list[Row]:
    if relation.schema == NYALA_CATALOG and relation.name == "partitions":
        return list(partitions(objects))
    if relation.schema == NYALA_CATALOG:
        found = [dict(row) for row in rows_of(relation.name, objects.context.catalog)]
        return roles.without_others(found, objects) if relation.name in OF_STATEMENTS else found
    name = _ALIASES.get(relation.name, relation.name)
    make = _MAKERS.get((relation.schema, name))
    return [] if make is None else list(make(objects))


def _default(relation: SystemRelation, column: SystemColumn) -> Any:
    if relation.schema in (INFORMATION_SCHEMA, NYALA_CATALOG):
        return None
    if column.name == "tableoid":
        return relation.oid
    return 1 if column.name == "xmin" else _NONE.get(column.type.kind)


def _values(column: SystemColumn, rows: list[Row], default: Any) -> list[Any]:
    name = column.name
    return [row.get(name, default) for row in rows]
