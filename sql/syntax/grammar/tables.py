"""Parses the statements about tables: CREATE TABLE with its clauses, ALTER TABLE, DROP TABLE, TRUNCATE TABLE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokens import TokenType

from .. import nodes, not_supported
from .catalog import CatalogParser

_OTHERS = "DATABASE EXTENSION FUNCTION INDEX MATERIALIZED OR PROCEDURE ROLE SCHEMA SEQUENCE TEMP TEMPORARY TRIGGER TYPE"
OTHER_OBJECTS = frozenset([*_OTHERS.split(), "EXTERNAL", "UNIQUE", "UNLOGGED", "USER"])
"""Objects other than tables that other databases CREATE and DROP, by the first word."""


class TableParser(CatalogParser):
    """The part of `grammar.statements.NyalaParser` that parses table definitions."""

    CONSTRAINT_PARSERS: ClassVar[dict[str, Any]] = {
        **CatalogParser.CONSTRAINT_PARSERS,
        "BLOCK_SIZE": lambda self: self.expression(nodes.BlockSizeConstraint(this=self._number())),
        "IMMUTABLE": lambda self: self.expression(nodes.ImmutableConstraint(), self._prev),
        "NON": lambda self: self._non_unique_key(),
    }

    def _expect_table(self, verb: str) -> None:
        if not self._match(TokenType.TABLE):
            if self._word() in OTHER_OBJECTS:
                having = f"{verb} TABLE and {verb} VIEW"
                hint = not_supported.OBJECTS.get(self._word(), "")
                self.refuse(f"{verb} {self._word()}", self._curr, having, hint)
            self.raise_error("TABLE expected")

    def _create(self) -> Any:
        replace = bool(self._match_text_seq("OR", "REPLACE"))
        if not replace and self._match(TokenType.SCHEMA):
            return self._create_schema()
        temporary = self._temporary()
        if self._match(TokenType.VIEW):
            return self._create_view(replace, temporary)
        if not replace and not temporary and self._is_role_next():
            return self._create_role()
        if replace:
            self.refuse("CREATE OR REPLACE TABLE", instead="CREATE OR REPLACE VIEW")
        return self._create_table(temporary)

    def _temporary(self) -> bool:
        """True for `[LOCAL] TEMPORARY` or `TEMP`, as in PostgreSQL."""
        words = ("TEMP", "TEMPORARY")
        if self._word() == "LOCAL" and self._next and self._next.text.upper() in words:
            self._advance()
        if self._word() not in words:
            return False
        self._advance()
        return True

    def _create_table(self, temporary: bool = False) -> Any:
        self._expect_table("CREATE")
        exists = self._parse_exists(not_=True)
        name = self._parse_table_parts(schema=True)
        columns: list[Any] = []
        if self._match(TokenType.LIKE):
            like = self._parse_table_parts(schema=True)
            return nodes.CreateTable(this=name, exists=exists, like=like, temporary=temporary)
        if self._match(TokenType.L_PAREN):
            columns = self._parse_csv(self._table_item)
            self._match_r_paren()
        if self._match(TokenType.PRIMARY_KEY, advance=False) or self._word() == "NON":
            columns.append(self._table_item())  # CREATE TABLE AS, as Impala has it; and Kudu's first design documents
        clauses = []
        while (clause := self._table_clause()) is not None:
            clauses.append(clause)
        if temporary:
            self._on_commit()
        query = self._query() if self._match(TokenType.ALIAS) else None
        if not columns and query is None:
            self.raise_error("the table's columns in parentheses expected")
        return nodes.CreateTable(
            this=name, expressions=columns, exists=exists, clauses=clauses, query=query, temporary=temporary
        )

    def _on_commit(self) -> None:
        """Parses ON COMMIT PRESERVE ROWS, which is what temporary tables do."""
        start = self._curr
        if not self._match(TokenType.ON):
            return
        self._expect("COMMIT")
        if not self._match_text_seq("PRESERVE"):
            hint = "a temporary table ends with the session: TRUNCATE or DROP it"
            self.refuse(f"ON COMMIT {self._word()}", start, "ON COMMIT PRESERVE ROWS", hint)
        self._expect("ROWS")

    def _table_item(self) -> Any:
        """Parses a column, or a constraint of the table: its PRIMARY KEY."""
        if self._match_text_seq("NON", "UNIQUE"):
            self._expect_primary_key()
            return nodes.NonUniqueKey(expressions=self._parse_wrapped(self._names_if_any))
        if self._match(TokenType.PRIMARY_KEY):
            return exp.PrimaryKey(expressions=self._parse_wrapped_csv(self._identifier))
        if self._next and (self._next.token_type == TokenType.L_PAREN or self._word() in ("CONSTRAINT", "EXCLUDE")):
            self._refuse_constraint()
        return self._parse_constraint() or self._column_definition()

    def _refuse_constraint(self) -> None:
        """Rejects an unsupported constraint at the current token."""
        word = self._word()
        if self._curr and self._curr.token_type != TokenType.IDENTIFIER and word in not_supported.CONSTRAINTS:
            self.refuse(word, self._curr, hint=not_supported.CONSTRAINTS[word])

    def _names_if_any(self) -> list[Any]:
        at_end = self._match(TokenType.R_PAREN, advance=False)
        return [] if at_end else self._parse_csv(self._identifier)

    def _non_unique_key(self) -> Any:
        start = self._prev
        self._expect("UNIQUE")
        self._expect_primary_key()
        return self.expression(nodes.NonUniqueKeyConstraint(), start)

    def _expect_primary_key(self) -> None:
        if not self._match(TokenType.PRIMARY_KEY):
            self.raise_error("PRIMARY KEY expected")

    def _column_definition(self) -> Any:
        name = self._identifier("a column name expected")
        kind = self._parse_types(schema=True)
        if kind is None:
            self.raise_error("a column type expected")
        constraints = []
        while True:
            if self._word() != "CONSTRAINT":  # the name of a column's PRIMARY KEY is skipped
                self._refuse_constraint()
            if (constraint := self._parse_column_constraint()) is None:
                break
            constraints.append(constraint)
        return self.expression(exp.ColumnDef(this=name, kind=kind, constraints=constraints))

    def _table_clause(self) -> Any:
        if self._match(TokenType.DISTRIBUTE_BY) or self._match_text_seq("DISTRIBUTE", "BY"):
            return nodes.DistributeBy(expressions=self._parse_csv(self._partition_rule))
        if self._match(TokenType.PARTITION_BY):
            return nodes.DistributeBy(expressions=self._parse_csv(self._partition_rule))
        if self._match_text_seq("STORED"):
            self._expect("AS")
            return nodes.StoredAs(this=self._name())
        if self._match_text_seq("TBLPROPERTIES"):
            return nodes.TableProperties(expressions=self._parse_wrapped_csv(self._property))
        if self._match_text_seq("REPLICAS"):
            return nodes.Replicas(this=self._number())
        if self._match_text_seq("COMMENT"):
            return nodes.TableComment(this=self._text())
        if self._match_text_seq("QUOTA"):
            return self._quota()
        return None

    def _quota(self) -> Any:
        if self._match_text_seq("NONE"):
            return nodes.TableQuota()
        is_text = self._curr is not None and self._curr.token_type == TokenType.STRING
        return nodes.TableQuota(this=self._text() if is_text else self._number())

    def _property(self) -> Any:
        name = self._text()
        if not self._match(TokenType.EQ):
            self.raise_error("a property is written 'name' = 'value'")
        return self.expression(exp.EQ(this=name, expression=self._text()))

    def _partition_rule(self) -> Any:
        if self._match_text_seq("HASH"):
            return self._hash_partition()
        if self._match_text_seq("RANGE"):
            return self._range_partition()
        return self.raise_error("HASH or RANGE expected")

    def _hash_partition(self) -> Any:
        columns = self._parse_wrapped_csv(self._identifier) if self._match(TokenType.L_PAREN, advance=False) else None
        if self._match_text_seq("PARTITIONS"):
            return nodes.HashPartition(expressions=columns, buckets=self._number())
        self._expect("INTO")
        buckets = self._number()
        self._expect("BUCKETS")
        return nodes.HashPartition(expressions=columns, buckets=buckets)

    def _range_partition(self) -> Any:
        columns = self._parse_wrapped_csv(self._identifier)
        if self._word() in ("RANGE", "SPLIT"):
            return self._split_range(columns)
        if not self._match(TokenType.L_PAREN):
            self.raise_error("the partitions in parentheses expected")
        if self._word() in ("RANGE", "SPLIT"):
            rule = self._split_range(columns)
        else:
            # A table that lost its last range to ALTER TABLE is written without any.
            is_empty = self._match(TokenType.R_PAREN, advance=False)
            ranges = [] if is_empty else self._parse_csv(self._range_bounds)
            rule = nodes.RangePartition(expressions=columns, partitions=ranges)
        self._match_r_paren()
        return rule

    def _split_range(self, columns: list[Any]) -> Any:
        """`[RANGE BOUND (lower, upper), ...] [SPLIT ROWS (row, ...)]`."""
        bounds = []
        while self._word() == "RANGE":
            self._advance()
            self._expect("BOUND")
            bounds.append(self._range_bound())
            if self._word() == "," and self._next and self._next.text.upper() == "RANGE":
                self._advance()
        splits = self._parse_wrapped_csv(self._bound) if self._match_text_seq("SPLIT", "ROWS") else None
        return nodes.RangePartition(expressions=columns, bounds=bounds, splits=splits)

    def _range_bound(self) -> Any:
        rows = self._parse_wrapped_csv(self._bound)
        if len(rows) != 2:
            self.raise_error(BOUND_SYNTAX, self._prev)
        return self.expression(exp.Tuple(expressions=rows))

    def _range_bounds(self) -> Any:
        bounds = self._plain_range_bounds()
        rules = []
        while self._match_text_seq("HASH"):
            rules.append(self._hash_partition())
            if self._word() == "," and self._next and self._next.text.upper() == "HASH":
                self._advance()
        bounds.set("expressions", rules)
        return bounds

    def _plain_range_bounds(self) -> Any:
        self._expect("PARTITION")
        if self._match_text_seq("VALUE", "="):
            return nodes.RangeBounds(value=self._bound())
        lower = upper = None
        if not self._match(TokenType.VALUES):
            lower = self._bound()
            if not self._match(TokenType.LTE):
                self.raise_error(BOUNDS_SYNTAX)
            self._expect("VALUES")
        if self._match(TokenType.LT):
            upper = self._bound()
        elif lower is None:
            self.raise_error(BOUNDS_SYNTAX)
        return nodes.RangeBounds(lower=lower, upper=upper)

    def _bound(self) -> Any:
        return self._parse_bitwise() or self.raise_error("a value expected")

    def _drop_object(self) -> Any:
        if self._match(TokenType.VIEW):
            return self._drop_view()
        if self._is_role_next():
            return self._drop_role()
        if self._match(TokenType.SCHEMA):
            return self._drop_schema()
        self._expect_table("DROP")
        exists = self._parse_exists()
        name = self._parse_table_parts(schema=True)
        return nodes.DropTable(this=name, exists=exists, cascade=self._cascade())

    # ---- ALTER TABLE -------------------------------------------------------------------------------------------------

    def _alter_table(self) -> Any:
        if self._is_role_next():
            return self._alter_role()
        if self._match(TokenType.VIEW):
            return self._alter_view()
        if self._match(TokenType.SCHEMA):
            return self._alter_schema()
        self._expect_table("ALTER")
        name = self._parse_table_parts(schema=True)
        return nodes.AlterTable(this=name, expressions=self._parse_csv(self._alter_action))

    def _alter_action(self) -> Any:
        for word, method in ALTER_ACTIONS.items():
            if self._match_text_seq(word):
                return method(self)
        return self.raise_error("ADD, DROP, RENAME, ALTER, SET, OWNER or COMMENT expected")

    def _add(self) -> Any:
        if self._range_next():
            return nodes.AddPartition(this=self._range_bounds())
        if self._word() in CONSTRAINT_WORDS and self._curr.token_type != TokenType.IDENTIFIER:
            self.refuse(f"ADD {self._word()}", self._curr, hint=ONLY_KEY)
        self._match(TokenType.COLUMN)
        exists = self._parse_exists(not_=True)
        column = self._column_definition()
        if self._word() in ("FIRST", "AFTER"):
            self.refuse(f"ADD COLUMN ... {self._word()}", self._curr, hint=not_supported.ORDER_STAYS)
        return nodes.AddColumn(this=column, exists=exists)

    def _drop(self) -> Any:
        if self._range_next():
            return nodes.DropPartition(this=self._range_bounds())
        if self._word() == "CONSTRAINT" and self._next:
            self.refuse("DROP CONSTRAINT", self._curr, hint=not_supported.CONSTRAINT_STAYS)
        self._match(TokenType.COLUMN)
        exists = self._parse_exists()
        return nodes.DropColumn(this=self._identifier("a column name expected"), exists=exists)

    def _range_next(self) -> bool:
        """True if `[RANGE] PARTITION` comes next; RANGE is skipped."""
        if self._word() == "RANGE" and self._next and self._next.token_type == TokenType.PARTITION:
            self._advance()
        return self._word() == "PARTITION"

    def _rename(self) -> Any:
        if self._match_text_seq("TO"):
            return nodes.RenameTable(this=self._identifier("a table name expected"))
        self._match(TokenType.COLUMN)
        column = self._identifier("a column name expected")
        self._expect("TO")
        return nodes.RenameColumn(this=column, expression=self._identifier("a column name expected"))

    def _alter_column(self) -> Any:
        self._match(TokenType.COLUMN)
        column = self._identifier("a column name expected")
        if self._word() == "TYPE":
            self.refuse("ALTER COLUMN ... TYPE", self._curr, hint=LASTING)
        if self._match_text_seq("DROP"):
            if self._word() == "NOT":
                self.refuse("ALTER COLUMN ... DROP NOT NULL", self._curr, hint=LASTING)
            self._expect("DEFAULT")
            return nodes.AlterColumn(this=column)
        self._expect("SET")
        if self._word() in ("NOT", "DATA"):
            what = "NOT NULL" if self._word() == "NOT" else "DATA TYPE"
            self.refuse(f"ALTER COLUMN ... SET {what}", self._curr, hint=LASTING)
        if self._word() not in COLUMN_SETTINGS:
            self.raise_error(f"{', '.join(COLUMN_SETTINGS[:-1])} or {COLUMN_SETTINGS[-1]} expected")
        return nodes.AlterColumn(this=column, expression=self._parse_column_constraint().args["kind"])

    def _set_clause(self) -> Any:
        if self._match_text_seq("REPLICAS"):
            return nodes.SetClause(this=nodes.Replicas(this=self._number()))
        if self._match_text_seq("TBLPROPERTIES"):
            properties = nodes.TableProperties(expressions=self._parse_wrapped_csv(self._property))
            return nodes.SetClause(this=properties)
        if self._match_text_seq("QUOTA"):
            return self._quota()
        if self._match(TokenType.SCHEMA):
            return nodes.SetSchema(this=self._identifier("the name of a schema expected"))
        return self.raise_error("QUOTA, REPLICAS, SCHEMA or TBLPROPERTIES expected")

    def _table_comment(self) -> Any:
        return nodes.TableComment(this=self._text())

    def _table_owner(self) -> Any:
        self._expect("TO")
        return nodes.SetTableOwner(this=self._identifier("the name of a role expected"))

    def _truncate_table(self) -> Any:
        self._match(TokenType.TABLE)
        if self._next and self._next.token_type is not TokenType.DOT:
            self._match_text_seq("ONLY")  # PostgreSQL's word for a table without those that inherit from it
        name = self._parse_table_parts(schema=True)
        if self._curr and self._curr.token_type == TokenType.COMMA:
            self.refuse("TRUNCATE of several tables", self._curr, hint="truncate them one by one")
        return nodes.TruncateTable(this=name)


BOUND_SYNTAX = "a range bound is written RANGE BOUND ((lower), (upper))"
BOUNDS_SYNTAX = "a range partition is written lower <= VALUES < upper, or VALUE = x"
LASTING = "type and nullability of a column cannot change (UPDATE can copy its values to a new column)"
ONLY_KEY = "the primary key is a table's only constraint, and cannot change"
CONSTRAINT_WORDS = ("CONSTRAINT", "PRIMARY", "PRIMARY KEY", "FOREIGN", "FOREIGN KEY", "UNIQUE", "CHECK")
COLUMN_SETTINGS = ("DEFAULT", "ENCODING", "COMPRESSION", "BLOCK_SIZE", "COMMENT")
"""The attributes that ALTER COLUMN can SET."""
ALTER_ACTIONS: dict[str, Callable[[TableParser], Any]] = {
    "ADD": TableParser._add,
    "DROP": TableParser._drop,
    "RENAME": TableParser._rename,
    "ALTER": TableParser._alter_column,
    "SET": TableParser._set_clause,
    "COMMENT": TableParser._table_comment,
    "OWNER": TableParser._table_owner,
}
"""The actions of ALTER TABLE, by their first word."""
