"""Alembic's part: how it alters tables, and what autogenerate must not look for.

Alembic finds it by way of `plugin`, and loading it is all that is needed. A migration that fails in the middle leaves
nothing in a directory or in memory: `transactional_ddl` is True. On a cluster its earlier statements stay.
"""

from __future__ import annotations

from typing import Any

from alembic.ddl.base import ColumnComment, alter_table, format_column_name
from alembic.ddl.impl import DefaultImpl
from sqlalchemy import Column, MetaData, String, Table
from sqlalchemy import types as sqltypes
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles


class NyalaImpl(DefaultImpl):
    """ALTER TABLE as nyala has it: add, drop and rename columns, defaults, comments, names of tables."""

    __dialect__ = "nyala"
    transactional_ddl = False
    """Without a connection, as for scripts that run anywhere; with one, that of its store."""
    type_synonyms = (
        *DefaultImpl.type_synonyms,
        {"NUMERIC", "DECIMAL"},
        {"STRING", "TEXT", "CLOB", "JSON", "VARCHAR"},
    )

    def __init__(self, dialect: Any, connection: Any, as_sql: bool, transactional_ddl: bool | None, *rest: Any):
        if transactional_ddl is None and connection is not None and not as_sql:
            transactional_ddl = bool(connection.connection.driver_connection.transactional_ddl)
        super().__init__(dialect, connection, as_sql, transactional_ddl, *rest)

    def version_table_impl(
        self, *, version_table: str, version_table_schema: str | None, version_table_pk: bool, **kw: Any
    ) -> Table:
        """Alembic's own table, without primary key: Alembic updates the version, and keys cannot be updated."""
        column = Column("version_num", String(32), nullable=False)
        return Table(version_table, MetaData(), column, schema=version_table_schema)

    def correct_for_autogen_constraints(
        self, conn_uniques: Any, conn_indexes: Any, metadata_unique_constraints: Any, metadata_indexes: Any
    ) -> None:
        """Indexes and unique constraints are not made, and so not missed."""
        metadata_unique_constraints.clear()
        metadata_indexes.clear()

    def compare_server_default(
        self,
        inspector_column: Column[Any],
        metadata_column: Column[Any],
        rendered_metadata_default: str | None,
        rendered_inspector_default: str | None,
    ) -> bool:
        """True if the defaults differ as values of the column's type: '0' and 0.00 are one DECIMAL(10,2)."""
        stored = rendered_inspector_default
        # As CREATE TABLE would write it: what Alembic renders has lost whether it was a text or an expression.
        wanted = self.dialect.ddl_compiler(self.dialect, None).get_column_default_string(metadata_column)  # type: ignore[arg-type]
        if stored is None or wanted is None or stored == wanted or self.connection is None:
            return stored != wanted
        type_ = self.dialect.type_compiler_instance.process(metadata_column.type, type_expression=metadata_column)
        query = f"SELECT CAST({stored} AS {type_}) IS DISTINCT FROM CAST({wanted} AS {type_})"
        try:
            return bool(self.connection.exec_driver_sql(query).scalar())
        except DBAPIError:
            return True  # the type changes, too, and one of them is no value of the new one

    def correct_for_autogen_foreignkeys(self, conn_fks: Any, metadata_fks: Any) -> None:
        """Foreign keys are not made, and so not missed."""
        metadata_fks.clear()


@compiles(ColumnComment, "nyala")
def _column_comment(element: ColumnComment, compiler: Any, **kw: Any) -> str:
    table = alter_table(compiler, element.table_name, element.schema)
    column = format_column_name(compiler, element.column_name)
    comment = compiler.sql_compiler.render_literal_value(element.comment or "", sqltypes.String())
    return f"{table} ALTER COLUMN {column} SET COMMENT {comment}"
