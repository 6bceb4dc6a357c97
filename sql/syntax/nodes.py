"""Syntax nodes that sqlglot lacks: nyala's statements and table clauses. Everything else is sqlglot's own tree."""

from __future__ import annotations

from sqlglot import exp

from .nodes_access import AlterRole as AlterRole
from .nodes_access import CreateRole as CreateRole
from .nodes_access import DropRole as DropRole
from .nodes_access import GrantRight as GrantRight
from .nodes_access import GrantRole as GrantRole
from .nodes_access import RevokeRight as RevokeRight
from .nodes_access import RevokeRole as RevokeRole
from .nodes_access import RoleOption as RoleOption
from .nodes_access import SetRole as SetRole
from .nodes_access import SetTableOwner as SetTableOwner
from .nodes_access import ShowGrants as ShowGrants
from .nodes_access import ShowRoles as ShowRoles


class ArrayRow(exp.Expression):
    """The value in the row `expression` of a function of rows over the array `this`; `kind` is the function's name.
    The binder makes it; it is never parsed."""

    arg_types = {"this": True, "expression": True, "kind": True}


class CreateTable(exp.Expression):
    """`CREATE [TEMPORARY] TABLE [IF NOT EXISTS] this (columns) clauses`; `expressions` are `ColumnDef` and `PrimaryKey`
    nodes, `query` is that of CREATE TABLE AS, `like` the table of CREATE TABLE LIKE."""

    arg_types = {"this": True, "expressions": False, "exists": False, "clauses": False, "query": False, "like": False,
                 "temporary": False}  # fmt: skip


class DropTable(exp.Expression):
    """`DROP TABLE [IF EXISTS] this [CASCADE]`."""

    arg_types = {"this": True, "exists": False, "cascade": False}


class CreateView(exp.Expression):
    """`CREATE [OR REPLACE] [TEMPORARY] VIEW [IF NOT EXISTS] this [(expressions)] AS query`."""

    arg_types = {"this": True, "expressions": False, "query": True, "exists": False, "replace": False,
                 "temporary": False}  # fmt: skip


class CreateSchema(exp.Expression):
    """`CREATE SCHEMA [IF NOT EXISTS] this [AUTHORIZATION owner]`."""

    arg_types = {"this": True, "exists": False, "owner": False}


class DropSchema(exp.Expression):
    """`DROP SCHEMA [IF EXISTS] this [CASCADE]`."""

    arg_types = {"this": True, "exists": False, "cascade": False}


class AlterSchema(exp.Expression):
    """ALTER SCHEMA `this`, with one action in `expressions`: `RenameTable` or `SetTableOwner`."""

    arg_types = {"this": True, "expressions": True}


class SetSchema(exp.Expression):
    """`SET SCHEMA this` of ALTER TABLE."""

    arg_types = {"this": True}


class AlterView(exp.Expression):
    """ALTER VIEW [IF EXISTS] `this`, with one action in `expressions`: `RenameTable`, `SetSchema` or
    `SetTableOwner`."""

    arg_types = {"this": True, "expressions": True, "exists": False}


class DropView(exp.Expression):
    """`DROP VIEW [IF EXISTS] this [CASCADE]`."""

    arg_types = {"this": True, "exists": False, "cascade": False}


class AnalyzeTable(exp.Expression):
    """`ANALYZE [TABLE] [this]`."""

    arg_types = {"this": False}


class AlterTable(exp.Expression):
    """`ALTER TABLE this action, ...`; `expressions` are the actions: `AddColumn`, `DropColumn`, `RenameColumn`,
    `AlterColumn`, `AddPartition`, `DropPartition`, `RenameTable`, `SetSchema`, `TableComment`."""

    arg_types = {"this": True, "expressions": True}


class AddColumn(exp.Expression):
    """`ADD COLUMN [IF NOT EXISTS] this`, a `ColumnDef`."""

    arg_types = {"this": True, "exists": False}


class DropColumn(exp.Expression):
    """`DROP COLUMN [IF EXISTS] this`."""

    arg_types = {"this": True, "exists": False}


class RenameColumn(exp.Expression):
    """`RENAME COLUMN this TO expression`."""

    arg_types = {"this": True, "expression": True}


class RenameTable(exp.Expression):
    """`RENAME TO this`."""

    arg_types = {"this": True}


class AlterColumn(exp.Expression):
    """`ALTER COLUMN this SET expression`, a column attribute as in CREATE TABLE; `DROP DEFAULT` if there is none."""

    arg_types = {"this": True, "expression": False}


class AddPartition(exp.Expression):
    """`ADD RANGE this`, a `RangeBounds`."""

    arg_types = {"this": True}


class DropPartition(exp.Expression):
    """`DROP RANGE this`, a `RangeBounds`."""

    arg_types = {"this": True}


class TruncateTable(exp.Expression):
    """`TRUNCATE TABLE this`."""

    arg_types = {"this": True}


class CompactTable(exp.Expression):
    """`COMPACT TABLE this`."""

    arg_types = {"this": True}


class Upsert(exp.Expression):
    """`[with_] UPSERT INTO this query [returning]`; `this` is a table, or a `Schema` with columns."""

    arg_types = {"this": True, "expression": True, "with_": False, "returning": False}


class CopyFrom(exp.Expression):
    """`COPY this [(expressions)] FROM 'path' [(options)]`."""

    arg_types = {"this": True, "expressions": False, "path": True, "options": False}


class CopyTo(exp.Expression):
    """`COPY this [(expressions)] TO 'path' [(options)]`; `this` is a table or a query."""

    arg_types = {"this": True, "expressions": False, "path": True, "options": False}


class PrepareStatement(exp.Expression):
    """`PREPARE this [(expressions)] AS text`; `expressions` are types."""

    arg_types = {"this": True, "expressions": False, "text": True}


class ExecuteStatement(exp.Expression):
    """`EXECUTE this [(expressions)]`."""

    arg_types = {"this": True, "expressions": False}


class DeallocateStatement(exp.Expression):
    """`DEALLOCATE this`; without it `DEALLOCATE ALL`."""

    arg_types = {"this": False}


class DiscardSession(exp.Expression):
    """`DISCARD this`, a word."""

    arg_types = {"this": True}


class DeclareCursor(exp.Expression):
    """`DECLARE this [SCROLL] CURSOR [WITH HOLD] FOR text`; `scroll` is None if nothing is said of it."""

    arg_types = {"this": True, "scroll": False, "hold": False, "text": True}


class FetchCursor(exp.Expression):
    """`FETCH direction count FROM this`, with `move` MOVE; `count` None is ALL."""

    arg_types = {"this": True, "direction": True, "count": False, "move": False}


class CloseCursor(exp.Expression):
    """`CLOSE this`; without it `CLOSE ALL`."""

    arg_types = {"this": False}


class Unlisten(exp.Expression):
    """`UNLISTEN *`."""

    arg_types = {"this": False}


class SetSetting(exp.Expression):
    """`SET this = expression`; the value `DEFAULT` is a `Var`."""

    arg_types = {"this": True, "expression": True}


class ResetSetting(exp.Expression):
    """`RESET this`; without it `RESET ALL`."""

    arg_types = {"this": False}


class ShowSettings(exp.Expression):
    """`SHOW this`, a setting; without it `SHOW ALL`."""

    arg_types = {"this": False}


class CopyOption(exp.Expression):
    """`NAME value` within COPY's parentheses; `expression` is None for a bare name."""

    arg_types = {"this": True, "expression": False}


class FileName(exp.Expression):
    """`'this'` in FROM: the path of a file."""

    arg_types = {"this": True}


class ShowTables(exp.Expression):
    """`SHOW TABLES [LIKE this]`."""

    arg_types = {"this": False}


class ShowSchemas(exp.Expression):
    """`SHOW SCHEMAS [LIKE this]`."""

    arg_types = {"this": False}


class ShowViews(exp.Expression):
    """`SHOW VIEWS [LIKE this]`."""

    arg_types = {"this": False}


class ShowFunctions(exp.Expression):
    """`SHOW FUNCTIONS [LIKE this]`."""

    arg_types = {"this": False}


class ShowStats(exp.Expression):
    """`SHOW STATS FOR this`."""

    arg_types = {"this": True}


class ShowCreateTable(exp.Expression):
    """`SHOW CREATE TABLE this`; with `view`, `SHOW CREATE VIEW this`."""

    arg_types = {"this": True, "view": False}


class ShowPartitions(exp.Expression):
    """`SHOW PARTITIONS this`."""

    arg_types = {"this": True}


class DescribeTable(exp.Expression):
    """`DESCRIBE this`."""

    arg_types = {"this": True}


class Explain(exp.Expression):
    """`EXPLAIN [ANALYZE] [VERBOSE] this`; with a `format`, "json", in parentheses."""

    arg_types = {"this": True, "analyze": False, "verbose": False, "format": False}


class DistributeBy(exp.Expression):
    """`DISTRIBUTE BY` and its rules: `HashPartition`s, then at most one `RangePartition`."""

    arg_types = {"expressions": True}


class HashPartition(exp.Expression):
    """`HASH [(expressions)] INTO buckets BUCKETS`."""

    arg_types = {"expressions": False, "buckets": True}


class RangePartition(exp.Expression):
    """`RANGE (expressions) (partitions | [RANGE BOUND (lower, upper), ...] [SPLIT ROWS (splits)])`; `bounds` are
    tuples of two."""

    arg_types = {"expressions": True, "partitions": False, "bounds": False, "splits": False}


class RangeBounds(exp.Expression):
    """`PARTITION lower <= VALUES < upper`, either bound may be missing; or `PARTITION VALUE = value`. `expressions` are
    `HashPartition`s of its own."""

    arg_types = {"lower": False, "upper": False, "value": False, "expressions": False}


class Replicas(exp.Expression):
    """`REPLICAS this`."""

    arg_types = {"this": True}


class SetClause(exp.Expression):
    """`SET this`, a clause of CREATE TABLE, as an action of ALTER TABLE."""

    arg_types = {"this": True}


class TableComment(exp.Expression):
    """`COMMENT 'text'` of a table."""

    arg_types = {"this": True}


class TableQuota(exp.Expression):
    """`QUOTA number | 'text'` of a table; NONE without `this`."""

    arg_types = {"this": False}


class StoredAs(exp.Expression):
    """`STORED AS this`."""

    arg_types = {"this": True}


class TableProperties(exp.Expression):
    """`TBLPROPERTIES (expressions)`, each an `EQ` of two texts."""

    arg_types = {"expressions": True}


class TransactionModes(exp.Expression):
    """A statement whose `expressions` are `TransactionMode`s."""

    arg_types = {"expressions": False}


class BeginTransaction(TransactionModes):
    """`BEGIN [expressions]`."""


class SetTransaction(TransactionModes):
    """`SET TRANSACTION expressions`."""


class SetSessionCharacteristics(TransactionModes):
    """`SET SESSION CHARACTERISTICS AS TRANSACTION expressions`."""


class TransactionMode(exp.Expression):
    """`ISOLATION LEVEL level`, `READ ONLY`, `READ WRITE` or `[NOT] DEFERRABLE`: `this`, as a text in capitals."""

    arg_types = {"this": True}


class CommitTransaction(exp.Expression):
    """`COMMIT`."""

    arg_types: dict[str, bool] = {}


class RollbackTransaction(exp.Expression):
    """`ROLLBACK`."""

    arg_types: dict[str, bool] = {}


class SetSavepoint(exp.Expression):
    """`SAVEPOINT this`."""

    arg_types = {"this": True}


class ReleaseSavepoint(exp.Expression):
    """`RELEASE SAVEPOINT this`."""

    arg_types = {"this": True}


class RollbackToSavepoint(exp.Expression):
    """`ROLLBACK TO SAVEPOINT this`."""

    arg_types = {"this": True}


class NonUniqueKey(exp.Expression):
    """`NON UNIQUE PRIMARY KEY (expressions)`."""

    arg_types = {"expressions": True}


class NonUniqueKeyConstraint(exp.Expression, exp.ColumnConstraintKind):
    """`NON UNIQUE PRIMARY KEY` of a column."""

    arg_types: dict[str, bool] = {}


class ImmutableConstraint(exp.Expression, exp.ColumnConstraintKind):
    """`IMMUTABLE` of a column."""

    arg_types: dict[str, bool] = {}


class BlockSizeConstraint(exp.Expression, exp.ColumnConstraintKind):
    """`BLOCK_SIZE bytes` of a column."""

    arg_types = {"this": True}


class EncodingConstraint(exp.Expression, exp.ColumnConstraintKind):
    """`ENCODING name` of a column."""

    arg_types = {"this": True}


class CompressionConstraint(exp.Expression, exp.ColumnConstraintKind):
    """`COMPRESSION name` of a column."""

    arg_types = {"this": True}


ALL = tuple(
    node
    for node in tuple(globals().values())
    if isinstance(node, type) and node.__module__ in (__name__, AlterRole.__module__)
)
"""Every kind of node above."""
