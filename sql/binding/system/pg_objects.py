"""Rows of the relations of `pg_catalog` that describe tables, views, columns, keys and types.

Each function yields rows as the values of their columns by name. A column that a row leaves out is NULL, or 0 or false
where PostgreSQL has that for "none" (`relations`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

from ....model.namespaces import TEMPORARY_NAMESPACE
from ....model.schema import Table
from ...array_text import write_array
from ..catalog.renaming import names_read
from ..names import PG_CATALOG
from ..tables.show_create import name_text, value_text
from .objects import FIRST, Attribute, Objects, SystemObject, key_name
from .roles import access_list, owner_name, owner_number, role_number, secured_object
from .types import DEFAULT_COLLATION, converters, modifier_of, postgres_name, postgres_types

Row: TypeAlias = dict[str, Any]
OWNER: Final = 10
"""The number of the one role, which owns everything."""
HEAP, BTREE = 2, 403
"""The access methods that PostgreSQL has for tables and indexes."""
_FIRST_DEFAULT: Final = 1 << 31
_OPERATOR_CLASSES: Final = {
    "bool": 10003, "bytea": 10006, "date": 3122, "float4": 10012, "float8": 3123, "int2": 1979, "int4": 1978,
    "int8": 3124, "numeric": 3125, "text": 3126, "timestamp": 3128, "varchar": 3126,
}  # fmt: skip
"""The classes of operators by which PostgreSQL orders the values of an index, by type."""


def pg_namespace(objects: Objects) -> Iterator[Row]:
    """The schemas."""
    for name, oid in objects.namespaces.items():
        schema = objects.context.secured_schema(name)
        owner = role_number(schema.owner, objects)
        yield {"oid": oid, "nspname": name, "nspowner": owner, "nspacl": access_list(schema, objects)}


def pg_class(objects: Objects) -> Iterator[Row]:
    """Tables, indexes, views and the catalogs themselves."""
    for each in objects.everything():
        is_table, is_index = each.kind == "r", each.kind == "i"
        stored = is_table and each.table is not None
        yield {
            "oid": each.oid,
            "relname": each.name,
            "relnamespace": objects.namespaces[each.schema],
            "reltype": each.oid + 1 if each.oid >= FIRST and not is_index else 0,
            "relowner": owner_number(each, objects),
            "relacl": access_list(secured_object(each), objects),
            "relam": HEAP if is_table else BTREE if is_index else 0,
            "relfilenode": 0 if each.kind == "v" else each.oid,
            "relpages": _pages(each, objects) if stored else 0,
            "reltuples": float(_rows(each, objects)) if stored else -1.0 if is_table else 0.0,
            "relhasindex": stored and each.has_key,
            "relpersistence": "t" if each.schema == TEMPORARY_NAMESPACE else "p",
            "relkind": each.kind,
            "relnatts": len(each.attributes) if each.view is None else len(each.view.columns),
            "relhasrules": each.kind == "v",
            "relispopulated": True,
            "relreplident": "d" if is_table else "n",
        }


def _rows(each: SystemObject, objects: Objects) -> int:
    statistics = getattr(objects.context.catalog, "statistics", None)
    return 0 if statistics is None else int(statistics(each.table).row_count)


def _pages(each: SystemObject, objects: Objects) -> int:
    """Pages of 8 kB, from which clients estimate what a scan costs."""
    return (_rows(each, objects) * 8 * max(1, len(each.attributes)) + 8191) // 8192


def pg_attribute(objects: Objects) -> Iterator[Row]:
    """The columns of all relations."""
    for each in objects.everything():
        for column in each.attributes:
            yield _attribute(each, column)


def _attribute(each: SystemObject, column: Attribute) -> Row:
    type_ = postgres_types().get(postgres_name(column.type), postgres_types()["text"])
    stored = column.stored
    return {
        "attrelid": each.oid,
        "attname": column.name,
        "atttypid": type_.oid,
        "attstattarget": -1,
        "attlen": type_.facts["typlen"],
        "attnum": column.place,
        "attndims": 1 if type_.name.startswith("_") else 0,
        "attcacheoff": -1,
        "atttypmod": modifier_of(column.type),
        "attbyval": type_.facts["typbyval"],
        "attalign": type_.facts["typalign"],
        "attstorage": type_.facts["typstorage"],
        "attcompression": "",
        "attnotnull": stored is not None and not stored.nullable,
        "atthasdef": stored is not None and stored.default is not None and each.kind == "r",
        "attidentity": "",
        "attgenerated": "",
        "attislocal": True,
        "attcollation": type_.facts["typcollation"],
    }


def pg_attrdef(objects: Objects) -> Iterator[Row]:
    """The defaults of columns, as the expressions that CREATE TABLE has."""
    for each in objects.tables:
        for column in each.attributes:
            stored = column.stored
            if stored is not None and stored.default is not None:
                yield {
                    "oid": _FIRST_DEFAULT + (zlib.crc32(f"{each.oid}.{column.place}".encode()) >> 1),
                    "adrelid": each.oid,
                    "adnum": column.place,
                    "adbin": value_text(stored.type, stored.default),
                }


def pg_index(objects: Objects) -> Iterator[Row]:
    """The primary keys, as the indexes that they are."""
    for key in objects.keys:
        assert key.table is not None
        columns = key.attributes
        types = [postgres_name(column.type) for column in columns]
        yield {
            "indexrelid": key.oid,
            "indrelid": key.oid - 3,
            "indnatts": len(columns),
            "indnkeyatts": len(columns),
            "indisunique": True,
            "indisprimary": True,
            "indimmediate": True,
            "indisvalid": True,
            "indisready": True,
            "indislive": True,
            "indkey": " ".join(str(column.place) for column in columns),
            "indcollation": " ".join(str(DEFAULT_COLLATION if t in ("text", "varchar") else 0) for t in types),
            "indclass": " ".join(str(_OPERATOR_CLASSES.get(t, 3126)) for t in types),
            "indoption": " ".join("0" for _ in types),
        }


def pg_constraint(objects: Objects) -> Iterator[Row]:
    """The primary keys, as constraints."""
    for each in objects.tables:
        if each.table is None or not each.has_key:
            continue
        yield {
            "oid": each.oid + 4,
            "conname": key_name(each.table),
            "connamespace": objects.namespaces[each.schema],
            "contype": "p",
            "convalidated": True,
            "conrelid": each.oid,
            "conindid": each.oid + 3,
            "confupdtype": " ",
            "confdeltype": " ",
            "confmatchtype": " ",
            "conislocal": True,
            "connoinherit": True,
            "conkey": write_array(str(place) for place in range(1, each.table.schema.key_columns + 1)),
        }


def pg_description(objects: Objects) -> Iterator[Row]:
    """The comments of tables and columns."""
    for each in objects.tables:
        assert each.table is not None
        found = [(0, each.table.comment), *((c.place, c.stored.comment) for c in each.attributes if c.stored)]
        for place, comment in found:
            if comment:
                yield {"objoid": each.oid, "classoid": 1259, "objsubid": place, "description": comment}


def pg_type(objects: Objects) -> Iterator[Row]:
    """PostgreSQL's types, and the row types of tables and views."""
    common: Row = {"typowner": OWNER, "typisdefined": True, "typdelim": ",", "typtypmod": -1}
    for type_ in postgres_types().values():
        yield common | type_.facts | {"typnamespace": objects.namespaces["pg_catalog"]}
    numbers = converters()
    for each in objects.own:
        yield common | {
            "oid": each.oid + 1,
            "typname": each.name,
            "typnamespace": objects.namespaces[each.schema],
            "typlen": -1,
            "typtype": "c",
            "typcategory": "C",
            "typrelid": each.oid,
            "typinput": numbers["record_in"],
            "typoutput": numbers["record_out"],
            "typreceive": numbers["record_recv"],
            "typsend": numbers["record_send"],
            "typalign": "d",
            "typstorage": "x",
        }


def pg_tables(objects: Objects) -> Iterator[Row]:
    """The tables."""
    for each in (*objects.tables, *(each for each in objects.system if each.kind == "r")):
        yield {
            "schemaname": each.schema,
            "tablename": each.name,
            "tableowner": owner_name(each, objects),
            "hasindexes": each.table is not None,
        }


def pg_views(objects: Objects) -> Iterator[Row]:
    """The views of the store.

    Those of `nyala_catalog` are in `pg_class` alone, where tools that browse find them: Metabase reads here
    the relations that the user has rights on, and takes these for data.
    """
    for each in objects.own:
        if each.view is not None:
            yield {
                "schemaname": each.schema,
                "viewname": each.name,
                "viewowner": owner_name(each, objects),
                "definition": view_text(each.view.text),
            }


def pg_indexes(objects: Objects) -> Iterator[Row]:
    """The primary keys."""
    for key in objects.keys:
        assert key.table is not None
        yield {
            "schemaname": key.schema,
            "tablename": key.table.local_name,
            "indexname": key.name,
            "indexdef": index_text(key.table, key.schema),
        }


def pg_rewrite(objects: Objects) -> Iterator[Row]:
    """The rule of each view, from which clients find the views."""
    for each in objects.own:
        if each.view is not None:
            yield {
                "oid": each.oid + 5,
                "rulename": "_RETURN",
                "ev_class": each.oid,
                "ev_type": "1",
                "ev_enabled": "O",
                "is_instead": True,
            }


def pg_depend(objects: Objects) -> Iterator[Row]:
    """The dependencies of constraints on their tables, of indexes on their constraints, and of the rules of views on
    their view and what it reads."""
    for each in objects.own:
        if each.view is not None:
            yield _dependency(2618, each.oid + 5, 1259, each.oid, 0, "i")
            # A view may read this relation: there it is empty.
            inner = replace(objects.context, within=(PG_CATALOG,))
            for name in sorted(set(names_read(each.view, inner).values())):
                yield _dependency(2618, each.oid + 5, 1259, objects.stored[name].oid, 0, "n")
    for each in objects.tables:
        if each.table is None or not each.has_key:
            continue
        for place in range(1, each.table.schema.key_columns + 1):
            yield _dependency(2606, each.oid + 4, 1259, each.oid, place, "a")
        yield _dependency(1259, each.oid + 3, 2606, each.oid + 4, 0, "i")


def _dependency(kind: int, oid: int, needed_kind: int, needed: int, place: int, how: str) -> Row:
    return {
        "classid": kind,
        "objid": oid,
        "refclassid": needed_kind,
        "refobjid": needed,
        "refobjsubid": place,
        "deptype": how,
    }


def pg_stat_user_tables(objects: Objects) -> Iterator[Row]:
    """The tables, with their numbers of rows."""
    for each in objects.tables:
        yield {
            "relid": each.oid,
            "schemaname": each.schema,
            "relname": each.name,
            "n_live_tup": _rows(each, objects),
        }


# ---- texts of definitions --------------------------------------------------------------------------------------------


def key_columns(table: Table) -> str:
    """The columns of a primary key, for its definition."""
    return ", ".join(name_text(column.name) for column in table.schema.key)


def index_text(table: Table, schema: str) -> str:
    """The index of a primary key as CREATE INDEX would make it, with the schema unless that is empty."""
    name = name_text(table.local_name)
    where = f"{name_text(schema)}.{name}" if schema else name
    return f"CREATE UNIQUE INDEX {name_text(key_name(table))} ON {where} USING btree ({key_columns(table)})"


def constraint_text(table: Table) -> str:
    """A primary key as CREATE TABLE has it."""
    return f"PRIMARY KEY ({key_columns(table)})"


def view_text(text: str) -> str:
    """The query of a view, as PostgreSQL ends it."""
    return f"{text};"
