"""Rows of the relations of `information_schema`.

They are PostgreSQL's; added are the comments of tables and columns, nyala's own name of a column's type, and the
storage attributes of columns. The catalogs themselves are not among the relations; `pg_catalog` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....model.namespaces import TEMPORARY_NAMESPACE
from ....model.types import DataType, Kind
from ..names import PG_CATALOG
from ..tables.show_create import value_text
from .objects import Attribute, Objects, SystemObject, key_name
from .pg_objects import Row
from .roles import shown_role, table_rights
from .types import long_name, postgres_name

_BITS = {"int2": 16, "int4": 32, "int8": 64, "float4": 24, "float8": 53}


def _yes(value: bool) -> str:
    return "YES" if value else "NO"


def _place(objects: Objects, each: SystemObject, prefix: str = "table") -> Row:
    """The columns that name a relation."""
    database = objects.context.session.database
    return {f"{prefix}_catalog": database, f"{prefix}_schema": each.schema, f"{prefix}_name": each.name}


def information_schema_catalog_name(objects: Objects) -> Iterator[Row]:
    """The name of the database."""
    yield {"catalog_name": objects.context.session.database}


def schemata(objects: Objects) -> Iterator[Row]:
    """The schemas."""
    session = objects.context.session
    for name in sorted(objects.namespaces):
        owner = shown_role(objects.context.secured_schema(name).owner, objects)
        yield {"catalog_name": session.database, "schema_name": name, "schema_owner": owner}


def tables(objects: Objects) -> Iterator[Row]:
    """The tables and views."""
    for each in objects.own:
        is_view = each.kind == "v"
        is_temporary = each.schema == TEMPORARY_NAMESPACE
        yield _place(objects, each) | {
            "table_type": "VIEW" if is_view else "LOCAL TEMPORARY" if is_temporary else "BASE TABLE",
            "is_insertable_into": _yes(each.table is not None),
            "is_typed": "NO",
            "table_comment": (each.table.comment or None) if each.table is not None else None,
        }


def columns(objects: Objects) -> Iterator[Row]:
    """The columns of tables and views."""
    for each in objects.own:
        place = _place(objects, each)
        for column in each.attributes:
            yield place | _column(column, objects.context.session.database)


def _column(column: Attribute, database: str) -> Row:
    stored, name = column.stored, postgres_name(column.type)
    row: Row = {
        "column_name": column.name,
        "ordinal_position": column.place,
        "is_nullable": _yes(column.nullable),
        "data_type": "ARRAY" if name.startswith("_") else long_name(name),
        "udt_catalog": database,
        "udt_schema": PG_CATALOG,
        "udt_name": name,
        "dtd_identifier": str(column.place),
        "is_self_referencing": "NO",
        "is_identity": "NO",
        "identity_cycle": "NO",
        "is_generated": "NEVER",
        "is_updatable": _yes(stored is not None and not stored.immutable),
        "column_type": column.type.kind.value,
        **_sizes(column.type, name),
    }
    if stored is not None:
        row |= {
            "column_default": None if stored.default is None else value_text(stored.type, stored.default),
            "column_comment": stored.comment or None,
            "column_encoding": stored.encoding.value,
            "column_compression": stored.compression.value,
            "column_block_size": stored.block_size or None,
        }
    return row


def _sizes(type_: DataType, name: str) -> Row:
    """The columns that hold lengths and digits."""
    if type_.kind is Kind.STRING:
        octets = None if type_.length is None else 4 * type_.length
        return {"character_maximum_length": type_.length, "character_octet_length": octets or 1 << 30}
    if type_.is_decimal:
        return {"numeric_precision": type_.precision, "numeric_precision_radix": 10, "numeric_scale": type_.scale}
    if name in _BITS:
        scale = 0 if type_.is_integer else None
        return {"numeric_precision": _BITS[name], "numeric_precision_radix": 2, "numeric_scale": scale}
    if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        return {"datetime_precision": 0 if type_.kind is Kind.DATE else 6}
    return {}


def views(objects: Objects) -> Iterator[Row]:
    """The views of the store."""
    for each in objects.own:
        if each.view is not None:
            yield _place(objects, each) | {
                "view_definition": each.view.text,
                "check_option": "NONE",
                "is_updatable": "NO",
                "is_insertable_into": "NO",
                "is_trigger_updatable": "NO",
                "is_trigger_deletable": "NO",
                "is_trigger_insertable_into": "NO",
            }


def _constraint(objects: Objects, each: SystemObject) -> Row:
    assert each.table is not None
    database = objects.context.session.database
    name = {"constraint_catalog": database, "constraint_schema": each.schema, "constraint_name": key_name(each.table)}
    return name | _place(objects, each)


def table_constraints(objects: Objects) -> Iterator[Row]:
    """The primary keys."""
    for each in objects.tables:
        if not each.has_key:
            continue
        yield _constraint(objects, each) | {
            "constraint_type": "PRIMARY KEY",
            "is_deferrable": "NO",
            "initially_deferred": "NO",
            "enforced": "YES",
        }


def key_column_usage(objects: Objects) -> Iterator[Row]:
    """The columns of the primary keys."""
    for each in objects.tables:
        if each.table is None or not each.has_key:
            continue
        constraint = _constraint(objects, each)
        for place, column in enumerate(each.table.schema.key, 1):
            yield constraint | {"column_name": column.name, "ordinal_position": place}


def constraint_column_usage(objects: Objects) -> Iterator[Row]:
    """The columns of the primary keys, without their order."""
    for row in key_column_usage(objects):
        yield {name: value for name, value in row.items() if name != "ordinal_position"}


def table_privileges(objects: Objects) -> Iterator[Row]:
    """The rights on tables and views that concern the current role."""
    for each in objects.own:
        place = _place(objects, each)
        for right in table_rights(each, objects):
            yield place | right
