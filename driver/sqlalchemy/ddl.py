"""CREATE TABLE, ALTER TABLE and their like as nyala's SQL.

A table of the metadata becomes a table whose primary key comes first, in key order, because that is what a store of
sorted rows needs. A table without primary key gets a key that the store makes up: hidden numbers, or, with the option
`nyala_non_unique_key`, some of its columns and hidden numbers behind them.

| option of | | |
|---|---|---|
| `Table` | `nyala_distribute_by` | what stands behind DISTRIBUTE BY: `"HASH (host) INTO 4 BUCKETS"` |
| | `nyala_non_unique_key` | columns of a NON UNIQUE PRIMARY KEY: `["host", "day"]` |
| `Column` | `nyala_encoding` | `"DICT"` |
| | `nyala_compression` | `"ZSTD"` |
| | `nyala_block_size` | bytes |
| | `nyala_immutable` | True |

Rules that nyala does not have (foreign keys, UNIQUE, CHECK) are left out with a `NotEnforcedWarning`: the ORM finds its
joins by foreign keys that no store knows, and programs that rely on a rule can turn the warning into an error. An index
that is not unique is omitted without a warning, because it changes no result. Computed columns are refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import types as sqltypes
from sqlalchemy.exc import CompileError
from sqlalchemy.schema import Column, Table
from sqlalchemy.sql import compiler

TABLE_OPTIONS: Final[dict[str, Any]] = {"distribute_by": None, "non_unique_key": None}
COLUMN_OPTIONS: Final[dict[str, Any]] = {"encoding": None, "compression": None, "block_size": None, "immutable": False}
_WORD: Final = re.compile(r"[A-Za-z_]+")


class NotEnforcedWarning(UserWarning):
    """A rule of the metadata is not in the table, because nyala has no such rules."""


class NyalaDDLCompiler(compiler.DDLCompiler):
    """Writes statements that change the catalog."""

    # ---- tables ---------------------------------------------------------------------------------------------------

    def visit_create_table(self, create: Any, **kw: Any) -> str:
        order = {column: place for place, column in enumerate(_key(create.element))}
        columns = [item for item in create.columns if not item.element.system]
        create.columns = sorted(columns, key=lambda item: order.get(item.element, len(order)))
        return super().visit_create_table(create, **kw)

    def create_table_constraints(self, table: Table, _include_foreign_key_constraints: Any = None, **kw: Any) -> str:
        for constraint in table._sorted_constraints:
            if constraint is not table.primary_key:
                self.process(constraint)  # which says that it is left out
        if table.primary_key.columns:
            return self.process(table.primary_key)
        return f"NON UNIQUE PRIMARY KEY ({self._names(column.name for column in _key(table))})"

    def post_create_table(self, table: Table) -> str:
        text = ""
        distribution = table.dialect_options["nyala"]["distribute_by"]
        if distribution:
            text += f"\nDISTRIBUTE BY {distribution}"
        if table.comment is not None:
            text += f"\nCOMMENT {self._text(table.comment)}"
        return text

    def get_column_specification(self, column: Column[Any], **kw: Any) -> str:
        type_ = self.dialect.type_compiler_instance.process(column.type, type_expression=column)
        return " ".join([self.preparer.format_column(column), type_, *self._attributes(column)])

    def _attributes(self, column: Column[Any]) -> Iterator[str]:
        if not column.nullable:
            yield "NOT NULL"
        default = self.get_column_default_string(column)
        if default is not None:
            yield f"DEFAULT {default}"
        yield from self._storage(column)
        if column.comment is not None:
            yield f"COMMENT {self._text(column.comment)}"

    def _storage(self, column: Column[Any]) -> Iterator[str]:
        if column.computed is not None:
            self.process(column.computed)
        options = column.dialect_options["nyala"]
        if options["immutable"]:
            yield "IMMUTABLE"
        for option in ("encoding", "compression"):
            if options[option]:
                if not _WORD.fullmatch(options[option]):
                    raise CompileError(f"nyala_{option}={options[option]!r} is not the name of one")
                yield f"{option.upper()} {options[option].upper()}"
        if options["block_size"]:
            yield f"BLOCK_SIZE {int(options['block_size'])}"

    # ---- constraints ----------------------------------------------------------------------------------------------

    def visit_primary_key_constraint(self, constraint: Any, **kw: Any) -> str:
        # Its name is left out: a table has one primary key, and it is known by that.
        return f"PRIMARY KEY ({self._names(column.name for column in constraint.columns)})"

    def visit_foreign_key_constraint(self, constraint: Any, **kw: Any) -> str:
        return _left_out(f"FOREIGN KEY ({self._names(constraint.column_keys)})", constraint.parent)

    def visit_unique_constraint(self, constraint: Any, **kw: Any) -> str:
        return _left_out(f"UNIQUE ({self._names(column.name for column in constraint.columns)})", constraint.parent)

    def visit_check_constraint(self, constraint: Any, **kw: Any) -> str:
        return _left_out(f"CHECK ({constraint.sqltext})", constraint.parent)

    visit_table_or_column_check_constraint = visit_column_check_constraint = visit_check_constraint

    def visit_computed_column(self, generated: Any, **kw: Any) -> str:
        raise CompileError("nyala has no computed columns; a view has")

    def visit_create_index(
        self, create: Any, include_schema: bool = False, include_table_schema: bool = True, **kw: Any
    ) -> str:
        index = create.element
        return _left_out(f"unique index {index.name}", index.table) if index.unique else ""

    def visit_drop_index(self, drop: Any, **kw: Any) -> str:
        return ""

    def visit_add_constraint(self, create: Any, **kw: Any) -> str:
        self.process(create.element)
        return ""

    def visit_drop_constraint(self, drop: Any, **kw: Any) -> str:
        return ""

    # ---- comments -------------------------------------------------------------------------------------------------

    def visit_set_table_comment(self, create: Any, **kw: Any) -> str:
        return f"ALTER TABLE {self.preparer.format_table(create.element)} COMMENT {self._text(create.element.comment)}"

    def visit_drop_table_comment(self, drop: Any, **kw: Any) -> str:
        return f"ALTER TABLE {self.preparer.format_table(drop.element)} COMMENT ''"

    def visit_set_column_comment(self, create: Any, **kw: Any) -> str:
        return self._column_comment(create.element, create.element.comment)

    def visit_drop_column_comment(self, drop: Any, **kw: Any) -> str:
        return self._column_comment(drop.element, "")

    def _column_comment(self, column: Column[Any], comment: str | None) -> str:
        table = self.preparer.format_table(column.table)
        return (
            f"ALTER TABLE {table} ALTER COLUMN {self.preparer.format_column(column)} SET COMMENT {self._text(comment)}"
        )

    # ---- parts ----------------------------------------------------------------------------------------------------

    def create_table_select_suffixes(self, element: Any, type_: str, **kw: Any) -> str:
        """CREATE TABLE AS needs a key; SQLAlchemy's construct has no place for one."""
        return "(NON UNIQUE PRIMARY KEY ())" if type_ == "create_table_as" else ""

    def _names(self, names: Any) -> str:
        return ", ".join(self.preparer.quote(name) for name in names)

    def _text(self, text: str | None) -> str:
        return self.sql_compiler.render_literal_value(text or "", sqltypes.String())


def _left_out(rule: str, table: Any) -> str:
    name = getattr(table, "fullname", table)
    message = f"{rule} of {name} is not in the table: in nyala the primary key is the only rule about several rows"
    warnings.warn(message, NotEnforcedWarning, stacklevel=2)
    return ""


def _key(table: Table) -> Sequence[Column[Any]]:
    """The columns that come first: the primary key's, or those of `nyala_non_unique_key`."""
    names = table.dialect_options["nyala"]["non_unique_key"]
    if table.primary_key.columns:
        if names:
            raise CompileError(
                f"table {table.fullname} has a primary key and nyala_non_unique_key; it can have one of them"
            )
        return list(table.primary_key.columns)
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    return [table.c[name] for name in names or ()]
