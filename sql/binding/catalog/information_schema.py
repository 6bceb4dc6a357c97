"""Binds the relations of `information_schema`: constant rows, built from the catalog when the statement is bound.

They are PostgreSQL's, reduced to the columns that apply to nyala; added are the comments of tables and columns and the
storage attributes of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from ....errors import Error, UnknownTable, did_you_mean
from ....model.schema import ColumnSchema, Table
from ....model.types import INT, STRING, DataType
from ...bound import Query, Values
from ...expressions import Column, Literal
from ..context import Context
from ..names import INFORMATION_SCHEMA, SCHEMA
from ..tables.show_create import value_text
from .views import describe_view

CATALOG = "nyala"
Row: TypeAlias = tuple[Any, ...]


def information(name: str, context: Context) -> Query:
    """One relation as a query of constant rows; `UnknownTable` lists the existing ones."""
    if name not in RELATIONS:
        raise UnknownTable(f"table {INFORMATION_SCHEMA}.{name} does not exist{did_you_mean(name, RELATIONS, 'it has')}")
    names, rows = RELATIONS[name]
    types = [INT if name in NUMBERS else STRING for name in names.split()]
    columns = tuple(context.column(name, type_, True) for name, type_ in zip(names.split(), types))
    # A view that is bound only for its columns needs no rows; and its columns may be among them.
    found = () if INFORMATION_SCHEMA in context.within else rows(context)
    return Query(Values(columns, tuple(_literals(row, types) for row in found)), columns)


def _literals(row: Row, types: list[DataType]) -> tuple[Literal, ...]:
    return tuple(Literal(type_, value is None, value) for value, type_ in zip(row, types, strict=True))


def _yes(value: bool) -> str:
    return "YES" if value else "NO"


def _schemata(context: Context) -> Iterator[Row]:
    yield CATALOG, SCHEMA
    yield CATALOG, INFORMATION_SCHEMA


def _tables(context: Context) -> Iterator[Row]:
    listed = [(table.name, "BASE TABLE", table.comment or None) for table in context.catalog.tables()]
    listed += [(view.name, "VIEW", None) for view in context.catalog.views()]
    for name, kind, comment in sorted(listed):
        yield CATALOG, SCHEMA, name, kind, _yes(kind != "VIEW"), comment


def _views(context: Context) -> Iterator[Row]:
    for view in context.catalog.views():
        yield CATALOG, SCHEMA, view.name, view.text, "NONE", "NO", "NO"


def _columns(context: Context) -> Iterator[Row]:
    found: dict[str, list[Row]] = {}
    for table in context.catalog.tables():
        found[table.name] = [_table_column(column, place) for place, column in enumerate(table.schema.columns, 1)]
    inner = replace(context, within=(INFORMATION_SCHEMA,))
    for view in context.catalog.views():
        try:
            columns = describe_view(view, inner).columns
        except Error:
            continue  # an invalid view has no columns
        found[view.name] = [_view_column(column, place) for place, column in enumerate(columns, 1)]
    for name in sorted(found):
        for row in found[name]:
            yield CATALOG, SCHEMA, name, *row


def _table_column(column: ColumnSchema, place: int) -> Row:
    default = None if column.default is None else value_text(column.type, column.default)
    rules = _yes(column.auto_increment), _yes(not column.immutable), column.comment or None
    stored = column.encoding.value, column.compression.value, column.block_size or None
    return column.name, place, default, _yes(column.nullable), *_type(column.type), *rules, *stored


def _view_column(column: Column, place: int) -> Row:
    return column.name, place, None, _yes(column.nullable), *_type(column.type), "NO", "NO", None, None, None, None


def _type(type_: DataType) -> Row:
    """The values of data_type, character_maximum_length, numeric_precision, numeric_scale."""
    return type_.kind.value, type_.length, type_.precision, type_.scale if type_.is_decimal else None


def _constraint(table: Table) -> Row:
    return CATALOG, SCHEMA, f"{table.name}_pkey", CATALOG, SCHEMA, table.name


def _table_constraints(context: Context) -> Iterator[Row]:
    for table in context.catalog.tables():
        yield *_constraint(table), "PRIMARY KEY", "NO", "NO", "YES"


def _key_column_usage(context: Context) -> Iterator[Row]:
    for table in context.catalog.tables():
        for place, column in enumerate(table.schema.key, 1):
            yield *_constraint(table), column.name, place


_TABLE = "table_catalog table_schema table_name"
_CONSTRAINT = f"constraint_catalog constraint_schema constraint_name {_TABLE}"
NUMBERS = frozenset(
    {"ordinal_position", "character_maximum_length", "numeric_precision", "numeric_scale", "column_block_size"}
)
"""The columns of type INT; all others are texts."""
RELATIONS: dict[str, tuple[str, Callable[[Context], Iterator[Row]]]] = {
    "columns": (
        f"{_TABLE} column_name ordinal_position column_default is_nullable data_type character_maximum_length "
        "numeric_precision numeric_scale is_identity is_updatable column_comment "
        "column_encoding column_compression column_block_size",
        _columns,
    ),
    "key_column_usage": (f"{_CONSTRAINT} column_name ordinal_position", _key_column_usage),
    "schemata": ("catalog_name schema_name", _schemata),
    "table_constraints": (
        f"{_CONSTRAINT} constraint_type is_deferrable initially_deferred enforced",
        _table_constraints,
    ),
    "tables": (f"{_TABLE} table_type is_insertable_into table_comment", _tables),
    "views": (f"{_TABLE} view_definition check_option is_updatable is_insertable_into", _views),
}
"""The columns of each relation, and the function that makes its rows."""
