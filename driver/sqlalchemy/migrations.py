"""Alembic's part: how it alters tables, and what autogenerate must not look for.

Alembic finds it by way of `plugin`, and loading it is all that is needed. A migration that fails in the middle leaves
what its earlier statements did: `transactional_ddl` is False.
"""

from __future__ import annotations

from typing import Any

from alembic.ddl.base import ColumnComment, alter_table, format_column_name
from alembic.ddl.impl import DefaultImpl
from sqlalchemy import Column, MetaData, String, Table
from sqlalchemy import types as sqltypes
from sqlalchemy.ext.compiler import compiles


class NyalaImpl(DefaultImpl):
    """ALTER TABLE as nyala has it: add, drop and rename columns, defaults, comments, names of tables."""

    __dialect__ = "nyala"
    transactional_ddl = False
    type_synonyms = (
        *DefaultImpl.type_synonyms,
        {"NUMERIC", "DECIMAL"},
        {"STRING", "TEXT", "CLOB", "JSON", "VARCHAR"},
    )

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

    def correct_for_autogen_foreignkeys(self, conn_fks: Any, metadata_fks: Any) -> None:
        """Foreign keys are not made, and so not missed."""
        metadata_fks.clear()


@compiles(ColumnComment, "nyala")
def _column_comment(element: ColumnComment, compiler: Any, **kw: Any) -> str:
    table = alter_table(compiler, element.table_name, element.schema)
    column = format_column_name(compiler, element.column_name)
    comment = compiler.sql_compiler.render_literal_value(element.comment or "", sqltypes.String())
    return f"{table} ALTER COLUMN {column} SET COMMENT {comment}"
