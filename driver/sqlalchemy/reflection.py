"""Reflection for the Inspector and autogenerating tools: information_schema in SQLAlchemy's form.

Everything is read at once for all requested tables; calls for a single table use the same result. There are no foreign
keys, unique constraints, check constraints or indexes, and their lists are empty.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.engine import Connection, default
from sqlalchemy.engine.reflection import ObjectKind, ObjectScope, ReflectionDefaults, cache
from sqlalchemy.exc import NoSuchTableError

from ...model.namespaces import TEMPORARY_NAMESPACE
from .ddl import TABLE_OPTIONS
from .types import reflected_type

AUTO: Final = "AUTO"
"""The encoding and the compression of a column that the store chooses for itself."""
_DISTRIBUTION: Final = re.compile(r"^DISTRIBUTE BY\s*(.*?)(?:^COMMENT '|\Z)", re.MULTILINE | re.DOTALL)
_NON_UNIQUE: Final = re.compile(r"^  NON UNIQUE PRIMARY KEY \(", re.MULTILINE)

_TABLES: Final = r"""
    SELECT table_name, table_type, table_comment FROM information_schema.tables
    WHERE table_schema = coalesce(:schema, current_schema()) AND table_name NOT LIKE '\_nyala\_%'
    ORDER BY table_name"""  # nyala's own: no application's model has them
_COLUMNS: Final = """
    SELECT table_name, column_name, column_default, is_nullable, column_type, character_maximum_length,
           numeric_precision, numeric_scale, is_updatable, column_comment,
           column_encoding, column_compression, column_block_size
    FROM information_schema.columns WHERE table_schema = coalesce(:schema, current_schema())
    ORDER BY table_name, ordinal_position"""
_KEYS: Final = """
    SELECT table_name, column_name FROM information_schema.key_column_usage
    WHERE table_schema = coalesce(:schema, current_schema()) ORDER BY table_name, ordinal_position"""
_TEMPORARY: Final = """
    SELECT table_name FROM information_schema.tables WHERE table_schema = 'pg_temp' AND table_type {} ORDER BY 1"""
_VIEW: Final = """
    SELECT view_definition FROM information_schema.views
    WHERE table_schema = coalesce(:schema, current_schema()) AND table_name = :name"""

_KINDS_OF_TABLES: Final = ("BASE TABLE", "LOCAL TEMPORARY")

Keyed = Iterator[tuple[tuple[str | None, str], Any]]


class NyalaReflection(default.DefaultDialect):
    """The reflecting half of the dialect."""

    # ---- names ----------------------------------------------------------------------------------------------------

    @cache
    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        return list(connection.scalars(text("SELECT schema_name FROM information_schema.schemata")))

    @cache
    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return self._relations(connection, schema, "BASE TABLE", **kw)

    @cache
    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return self._relations(connection, schema, "VIEW", **kw)

    def get_temp_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return list(connection.scalars(text(_TEMPORARY.format("<> 'VIEW'"))))

    def get_temp_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return list(connection.scalars(text(_TEMPORARY.format("= 'VIEW'"))))

    def has_schema(self, connection: Connection, schema_name: str, **kw: Any) -> bool:
        return schema_name in self.get_schema_names(connection, **kw)

    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        self._ensure_has_table_connection(connection)
        schemas = (TEMPORARY_NAMESPACE, None) if schema is None else (schema,)
        return any(table_name == name for each in schemas for name, _, _ in self._all_tables(connection, each, **kw))

    def has_index(self, connection: Connection, *args: Any, **kw: Any) -> bool:
        return False

    def has_sequence(self, connection: Connection, *args: Any, **kw: Any) -> bool:
        return False

    def _relations(self, connection: Connection, schema: str | None, kind: str, **kw: Any) -> list[str]:
        return [name for name, type_, _ in self._all_tables(connection, schema, **kw) if type_ == kind]

    @cache
    def _all_tables(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[Any]:
        return _rows(connection, _TABLES, schema)

    # ---- many tables ----------------------------------------------------------------------------------------------

    def get_multi_columns(self, connection: Connection, schema: str | None = None, **kw: Any) -> Keyed:
        def read(schema: str | None) -> dict[str, list[Any]]:
            by_table = defaultdict(list)
            for row in _rows(connection, _COLUMNS, schema):
                by_table[row.table_name].append(_column(row))
            return by_table

        return self._multi(connection, read, ReflectionDefaults.columns, schema=schema, **kw)

    def get_multi_pk_constraint(self, connection: Connection, schema: str | None = None, **kw: Any) -> Keyed:
        def read(schema: str | None) -> dict[str, Any]:
            by_table: dict[str, Any] = {}
            for table, column in _rows(connection, _KEYS, schema):
                # A primary key has no name of its own: what information_schema says is made of the table's.
                key = by_table.setdefault(table, {"name": None, "constrained_columns": []})
                key["constrained_columns"].append(column)
            return by_table

        return self._multi(connection, read, ReflectionDefaults.pk_constraint, schema=schema, **kw)

    def get_multi_table_comment(self, connection: Connection, schema: str | None = None, **kw: Any) -> Keyed:
        def read(schema: str | None) -> dict[str, Any]:
            return {name: {"text": comment} for name, _, comment in _rows(connection, _TABLES, schema)}

        return self._multi(connection, read, ReflectionDefaults.table_comment, schema=schema, **kw)

    def get_multi_table_options(self, connection: Connection, schema: str | None = None, **kw: Any) -> Keyed:
        def read(schema: str | None) -> dict[str, Any]:
            found = self._all_tables(connection, schema, info_cache=kw.get("info_cache"))
            names = [name for name, type_, _ in found if type_ in _KINDS_OF_TABLES]
            wanted = kw.get("filter_names")
            return {name: self._options(connection, schema, name) for name in names if wanted is None or name in wanted}

        return self._multi(connection, read, ReflectionDefaults.table_options, schema=schema, **kw)

    def _options(self, connection: Connection, schema: str | None, table: str) -> dict[str, Any]:
        quote = self.identifier_preparer.quote
        name = quote(table) if schema is None else f"{quote(schema)}.{quote(table)}"
        created = connection.exec_driver_sql(f"SHOW CREATE TABLE {name}").scalar_one()
        options = dict.fromkeys(TABLE_OPTIONS)
        distribution = _DISTRIBUTION.search(created)
        if distribution is not None:
            options["distribute_by"] = " ".join(distribution[1].split())
        if _NON_UNIQUE.search(created):
            described = connection.exec_driver_sql(f"DESCRIBE {name}").mappings()
            options["non_unique_key"] = [
                each["column"] for each in described if each["key"] and not each["auto_increment"]
            ]
        return {f"nyala_{option}": value for option, value in options.items() if value}

    def get_multi_foreign_keys(self, connection: Connection, **kw: Any) -> Keyed:
        return self._multi(connection, _none, ReflectionDefaults.foreign_keys, **kw)

    def get_multi_indexes(self, connection: Connection, **kw: Any) -> Keyed:
        return self._multi(connection, _none, ReflectionDefaults.indexes, **kw)

    def get_multi_unique_constraints(self, connection: Connection, **kw: Any) -> Keyed:
        return self._multi(connection, _none, ReflectionDefaults.unique_constraints, **kw)

    def get_multi_check_constraints(self, connection: Connection, **kw: Any) -> Keyed:
        return self._multi(connection, _none, ReflectionDefaults.check_constraints, **kw)

    def _multi(
        self,
        connection: Connection,
        read: Callable[[str | None], Mapping[str, Any]],
        nothing: Callable[[], Any],
        *,
        schema: str | None = None,
        filter_names: Collection[str] | None = None,
        scope: ObjectScope = ObjectScope.ANY,
        kind: ObjectKind = ObjectKind.ANY,
        **kw: Any,
    ) -> Keyed:
        """Results of `read`, which is given a schema, for each requested table and view, `nothing()` where there are
        none. Temporary objects come before those whose names they hide."""
        schemas: list[str | None] = []
        if schema is None and ObjectScope.TEMPORARY in scope:
            schemas.append(TEMPORARY_NAMESPACE)
        if ObjectScope.DEFAULT in scope:
            schemas.append(schema)
        results: dict[tuple[str | None, str], Any] = {}
        for each in schemas:
            names = []
            for name, type_, _ in self._all_tables(connection, each, info_cache=kw.get("info_cache")):
                wanted = ObjectKind.TABLE if type_ in _KINDS_OF_TABLES else ObjectKind.VIEW
                if wanted in kind and (filter_names is None or name in filter_names):
                    names.append(name)
            found = read(each) if names else {}
            for name in names:
                results.setdefault((schema, name), found[name] if name in found else nothing())
        return iter(results.items())

    # ---- one table ------------------------------------------------------------------------------------------------

    def _single(self, items: Iterable[tuple[Any, Any]], table_name: str) -> Any:
        for _, value in items:
            return value
        raise NoSuchTableError(table_name)

    @cache
    def get_columns(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return self._single(self._one(self.get_multi_columns, connection, table_name, schema, kw), table_name)

    @cache
    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return self._single(self._one(self.get_multi_pk_constraint, connection, table_name, schema, kw), table_name)

    @cache
    def get_table_comment(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return self._single(self._one(self.get_multi_table_comment, connection, table_name, schema, kw), table_name)

    @cache
    def get_table_options(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return self._single(self._one(self.get_multi_table_options, connection, table_name, schema, kw), table_name)

    @cache
    def get_foreign_keys(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return self._single(self._one(self.get_multi_foreign_keys, connection, table_name, schema, kw), table_name)

    @cache
    def get_indexes(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return self._single(self._one(self.get_multi_indexes, connection, table_name, schema, kw), table_name)

    @cache
    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return self._single(
            self._one(self.get_multi_unique_constraints, connection, table_name, schema, kw), table_name
        )

    @cache
    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return self._single(self._one(self.get_multi_check_constraints, connection, table_name, schema, kw), table_name)

    def _one(self, multi: Any, connection: Connection, table: str, schema: str | None, kw: dict[str, Any]) -> Any:
        return multi(connection, schema=schema, filter_names=[table], info_cache=kw.get("info_cache"))

    @cache
    def get_view_definition(self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any) -> str:
        definition = connection.scalar(text(_VIEW), {"name": view_name, "schema": schema})
        if definition is None:
            raise NoSuchTableError(view_name)
        return str(definition)


def _none(_schema: str | None) -> Mapping[str, Any]:
    return {}


def _rows(connection: Connection, query: str, schema: str | None) -> list[Any]:
    """The rows of a query on one schema; None: the one that is first on the search path."""
    return list(connection.execute(text(query), {"schema": schema}))


def _column(row: Any) -> dict[str, Any]:
    return {
        "name": row.column_name,
        "type": reflected_type(row.column_type, row.character_maximum_length, row.numeric_precision, row.numeric_scale),
        "nullable": row.is_nullable == "YES",
        "default": row.column_default,
        "comment": row.column_comment,
        "dialect_options": _storage(row),
    }


def _storage(row: Any) -> dict[str, Any]:
    """The `nyala_...` options of a column that differ from the defaults; none for a view's."""
    if row.column_encoding is None:
        return {}
    options = {
        "encoding": None if row.column_encoding == AUTO else row.column_encoding,
        "compression": None if row.column_compression == AUTO else row.column_compression,
        "block_size": row.column_block_size,
        "immutable": row.is_updatable == "NO",
    }
    return {f"nyala_{option}": value for option, value in options.items() if value}
