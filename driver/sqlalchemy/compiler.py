"""SQLAlchemy's statements as nyala's SQL, which is PostgreSQL's wherever both have a thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import types as sqltypes
from sqlalchemy.exc import CompileError
from sqlalchemy.schema import Column, Table
from sqlalchemy.sql import compiler, crud, elements
from sqlalchemy.sql import util as sql_util
from sqlalchemy.sql.elements import BindParameter

from ...sql.syntax.dialect import NyalaTokenizer
from .statements import OnConflict, SystemTime, Upsert

_UPSERT_MARK: Final = "\0upsert"
"""A prefix that occurs in no text: INSERT followed by it becomes UPSERT."""
_FRACTIONS: Final = (sqltypes.Numeric, sqltypes.Float)


class NyalaIdentifierPreparer(compiler.IdentifierPreparer):
    """Names are in lower case unless quoted; every word of the grammar is quoted, wherever it would do without."""

    reserved_words = {
        word.lower() for phrase in (*NyalaTokenizer.KEYWORDS, "check hash non primary range") for word in phrase.split()
    }


class NyalaCompiler(compiler.SQLCompiler):
    """Writes queries and statements that change rows.

    Attributes
    ----------
    numbered : column or None
        The integer key that this INSERT does not name, and that the dialect numbers (`numbering`).
    """

    numbered: Column[Any] | None = None

    # ---- queries --------------------------------------------------------------------------------------------------

    def limit_clause(self, select: Any, **kw: Any) -> str:
        text = ""
        if select._limit_clause is not None:
            text += "\n LIMIT " + self.process(select._limit_clause, **kw)
        if select._offset_clause is not None:
            text += "\n OFFSET " + self.process(select._offset_clause, **kw)
        return text

    def get_select_precolumns(self, select: Any, **kw: Any) -> str:
        if not select._distinct_on:
            return super().get_select_precolumns(select, **kw)
        return "DISTINCT ON (" + ", ".join(self.process(column, **kw) for column in select._distinct_on) + ") "

    def visit_postgresql_distinct_on(self, element: Any, **kw: Any) -> str:
        """`select(...).ext(distinct_on(...))`, which SQLAlchemy has for PostgreSQL and nyala means the same by."""
        return "ON (" + ", ".join(self.process(column, **kw) for column in element._distinct_on) + ")"

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        lock = select._for_update_arg
        words = ["FOR KEY SHARE" if lock.key_share else "FOR SHARE"] if lock.read else ["FOR UPDATE"]
        if lock.key_share and not lock.read:
            words = ["FOR NO KEY UPDATE"]
        if lock.of:
            tables = dict.fromkeys(table for part in lock.of for table in sql_util.surface_selectables_only(part))
            named = {**kw, "ashint": True, "use_schema": False}
            words.append("OF " + ", ".join(self.process(table, **named) for table in tables))
        words += ["NOWAIT"] * bool(lock.nowait) + ["SKIP LOCKED"] * bool(lock.skip_locked)
        return " " + " ".join(words)

    def format_from_hint_text(self, sqltext: str, table: Any, hint: str, iscrud: bool) -> str:
        return f"{sqltext} {hint}"

    def visit_nyala_system_time(self, element: SystemTime, asfrom: bool = False, **kw: Any) -> str:
        if not asfrom:
            return self.visit_alias(element, asfrom=asfrom, **kw)
        # The time precedes the alias: SQLAlchemy calls this for the table and for the alias, one after the other.
        kw.pop("fromhints", None)
        linter = kw.pop("from_linter", None)
        name = element.name
        if isinstance(name, elements._truncated_label):
            name = self._truncated_identifier("alias", name)
        if linter is not None:
            linter.froms[element._de_clone()] = name
        table = element.element._compiler_dispatch(self, asfrom=True, **kw)
        time = self.process(element.time, **kw)
        return f"{table} FOR SYSTEM_TIME AS OF {time} AS {self.preparer.format_alias(element, name)}"

    def visit_empty_set_expr(self, element_types: Sequence[Any], **kw: Any) -> str:
        types = [sqltypes.INTEGER() if type_._isnull else type_ for type_ in element_types or [sqltypes.INTEGER()]]
        names = [self.dialect.type_compiler_instance.process(type_) for type_ in types]
        return "SELECT " + ", ".join(f"CAST(NULL AS {name})" for name in names) + " WHERE false"

    # ---- expressions ----------------------------------------------------------------------------------------------

    def visit_truediv_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """`/` of integers truncates: unless one side is known to be something else, the divisor becomes a DECIMAL."""
        left, right = self.process(binary.left, **kw), self.process(binary.right, **kw)
        if any(side.type._type_affinity in _FRACTIONS for side in (binary.left, binary.right)):
            return f"{left} / {right}"
        digits = sqltypes.Numeric(19, 0) if isinstance(binary.right.type, sqltypes.Integer) else sqltypes.Numeric()
        return f"{left} / CAST({right} AS {self.dialect.type_compiler_instance.process(digits)})"

    def visit_bitwise_xor_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._generate_generic_binary(binary, " # ", **kw)

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._generate_generic_binary(binary, f" {_match_operator(binary)} ", **kw)

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._generate_generic_binary(binary, f" !{_match_operator(binary)} ", **kw)

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        parts = [self.process(binary.left, **kw), self.process(binary.right, **kw)]
        if binary.modifiers["flags"] is not None:
            parts.append(self.render_literal_value(binary.modifiers["flags"], sqltypes.STRINGTYPE))
        return f"regexp_replace({', '.join(parts)})"

    def visit_ilike_case_insensitive_operand(self, element: Any, **kw: Any) -> str:
        return str(element.element._compiler_dispatch(self, **kw))

    def visit_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._ilike(binary, "ILIKE", **kw)

    def visit_not_ilike_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return self._ilike(binary, "NOT ILIKE", **kw)

    def _ilike(self, binary: Any, operator: str, **kw: Any) -> str:
        text = f"{self.process(binary.left, **kw)} {operator} {self.process(binary.right, **kw)}"
        escape = binary.modifiers.get("escape", None)
        return text if escape is None else f"{text} ESCAPE {self.render_literal_value(escape, sqltypes.STRINGTYPE)}"

    def visit_aggregate_strings_func(self, fn: Any, **kw: Any) -> str:
        inherited = getattr(super(), "visit_aggregate_strings_func", None)
        if inherited is None:  # SQLAlchemy 2.0
            return f"string_agg{self.function_argspec(fn, **kw)}"
        return str(inherited(fn, use_function_name="string_agg", **kw))

    def visit_json_getitem_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        raise CompileError("nyala keeps JSON as a text and has no operators that look into it")

    visit_json_path_getitem_op_binary = visit_json_getitem_op_binary

    # ---- statements that change rows ------------------------------------------------------------------------------

    def visit_insert(self, insert_stmt: Any, visited_bindparam: Any = None, visiting_cte: Any = None, **kw: Any) -> str:
        column = None if self.stack else _unnamed_number(insert_stmt, self.column_keys)
        cells: list[Any] = []
        if column is not None:
            insert_stmt, cells = self._with_number(insert_stmt, column)
        if isinstance(insert_stmt, Upsert):
            insert_stmt = insert_stmt.prefix_with(_UPSERT_MARK)
        text = super().visit_insert(insert_stmt, visited_bindparam, visiting_cte, **kw)
        for cell in cells:
            self.binds[cell.key].required = False
        self.insert_prefetch = [*self.insert_prefetch, *cells]
        return text.replace(f"INSERT {_UPSERT_MARK}", "UPSERT")

    def _with_number(self, statement: Any, column: Column[Any]) -> tuple[Any, list[Any]]:
        """The statement with a parameter for the column that `numbering` fills in each of its rows, and these cells."""
        self.numbered = column
        if not statement._multi_values:
            self.column_keys = [*(self.column_keys or ()), column.key]
            return statement, [column]
        rows = statement._multi_values[0]
        cells = [crud._multiparam_column(column, place) for place in range(len(rows))]
        numbered = [
            {column: BindParameter(cell.key, None, type_=column.type, required=False), **row}
            for cell, row in zip(cells, rows)
        ]
        statement = statement._generate()
        statement._multi_values = (numbered,)
        return statement, cells

    def visit_nyala_on_conflict(self, clause: OnConflict, **kw: Any) -> str:
        statement: Any = self.stack[-1]["selectable"]
        table = statement.table
        target = clause.target or (list(table.primary_key.columns) if clause.values is not None else [])
        names = ", ".join(self.preparer.quote(column if isinstance(column, str) else column.name) for column in target)
        text = f"ON CONFLICT ({names})" if names else "ON CONFLICT"
        if clause.values is None:
            return f"{text} DO NOTHING"
        text += " DO UPDATE SET " + ", ".join(self._assignments(clause.values, table, kw))
        if clause.where is not None:
            text += " WHERE " + self.process(clause.where, include_table=True, use_schema=False, **kw)
        return text

    def _assignments(self, values: dict[Any, Any], table: Table, kw: dict[str, Any]) -> list[str]:
        assignments = []
        for key, value in values.items():
            column = table.c[key] if isinstance(key, str) and key in table.c else key
            if isinstance(value, BindParameter) and value.type._isnull and isinstance(column, Column):
                value = value._with_binary_element_type(column.type)
            text = self.process(value.self_group(), use_schema=False, **kw)
            assignments.append(f"{self.preparer.quote(column if isinstance(column, str) else column.name)} = {text}")
        return assignments

    def update_from_clause(
        self, update_stmt: Any, from_table: Any, extra_froms: Any, from_hints: Any, **kw: Any
    ) -> str:
        kw["asfrom"] = True
        return "FROM " + ", ".join(t._compiler_dispatch(self, fromhints=from_hints, **kw) for t in extra_froms)

    def delete_extra_from_clause(
        self, delete_stmt: Any, from_table: Any, extra_froms: Any, from_hints: Any, **kw: Any
    ) -> str:
        kw["asfrom"] = True
        return "USING " + ", ".join(t._compiler_dispatch(self, fromhints=from_hints, **kw) for t in extra_froms)


def _match_operator(binary: Any) -> str:
    flags = binary.modifiers["flags"]
    if flags not in (None, "i"):
        raise CompileError(
            f"regexp_match has the flag 'i' and no other, not {flags!r}; write (?{flags}) in the pattern"
        )
    return "~" if flags is None else "~*"


def _unnamed_number(statement: Any, given: Sequence[str] | None) -> Column[Any] | None:
    """The table's autoincrement column, where the statement gives it no value and can be given one."""
    table = statement.table
    column = table._autoincrement_column if isinstance(table, Table) else None
    if column is None or statement.select is not None or given is None:
        return None
    rows = statement._multi_values[0] if statement._multi_values else [statement._values or {}]
    if not all(isinstance(row, dict) for row in rows):
        return None  # rows without names hold a value for each column
    named = {getattr(key, "key", key) for key in rows[0]} | set(given)
    return None if column.key in named else column
