"""Syntax nodes that sqlglot lacks: nyala's statements and table clauses. Everything else is sqlglot's own tree."""

from __future__ import annotations

from sqlglot import exp


class CreateTable(exp.Expression):
    """`CREATE TABLE [IF NOT EXISTS] this (columns) clauses`; `expressions` are `ColumnDef` and `PrimaryKey` nodes,
    `query` is that of CREATE TABLE AS."""

    arg_types = {"this": True, "expressions": False, "exists": False, "clauses": False, "query": False}


class DropTable(exp.Expression):
    """`DROP TABLE [IF EXISTS] this`."""

    arg_types = {"this": True, "exists": False}


class AlterTable(exp.Expression):
    """`ALTER TABLE this action, ...`; `expressions` are the actions: `AddColumn`, `DropColumn`, `RenameColumn`,
    `AlterColumn`, `AddPartition`, `DropPartition`, `RenameTable`, `TableComment`."""

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
    """`ALTER COLUMN this SET expression`, a column attribute as in CREATE TABLE; `DROP DEFAULT` where there is none."""

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
    """`UPSERT INTO this query`; `this` is a table, or a `Schema` with columns."""

    arg_types = {"this": True, "expression": True}


class CopyFrom(exp.Expression):
    """`COPY this [(expressions)] FROM 'path' [(options)]`."""

    arg_types = {"this": True, "expressions": False, "path": True, "options": False}


class CopyOption(exp.Expression):
    """`NAME value` within COPY's parentheses; `expression` is None for a bare name."""

    arg_types = {"this": True, "expression": False}


class ShowTables(exp.Expression):
    """`SHOW TABLES`."""

    arg_types: dict[str, bool] = {}


class ShowCreateTable(exp.Expression):
    """`SHOW CREATE TABLE this`."""

    arg_types = {"this": True}


class ShowPartitions(exp.Expression):
    """`SHOW PARTITIONS this`."""

    arg_types = {"this": True}


class DescribeTable(exp.Expression):
    """`DESCRIBE this`."""

    arg_types = {"this": True}


class Explain(exp.Expression):
    """`EXPLAIN [ANALYZE] [VERBOSE] this`."""

    arg_types = {"this": True, "analyze": False, "verbose": False}


class DistributeBy(exp.Expression):
    """`DISTRIBUTE BY` and its rules: `HashPartition`s, then at most one `RangePartition`."""

    arg_types = {"expressions": True}


class HashPartition(exp.Expression):
    """`HASH [(expressions)] INTO buckets BUCKETS`."""

    arg_types = {"expressions": False, "buckets": True}


class RangePartition(exp.Expression):
    """`RANGE (expressions) (partitions | SPLIT ROWS (splits))`."""

    arg_types = {"expressions": True, "partitions": False, "splits": False}


class RangeBounds(exp.Expression):
    """`PARTITION lower <= VALUES < upper`, either bound may be missing; or `PARTITION VALUE = value`."""

    arg_types = {"lower": False, "upper": False, "value": False}


class Replicas(exp.Expression):
    """`REPLICAS this`."""

    arg_types = {"this": True}


class TableComment(exp.Expression):
    """`COMMENT 'text'` of a table."""

    arg_types = {"this": True}


class StoredAs(exp.Expression):
    """`STORED AS this`."""

    arg_types = {"this": True}


class TableProperties(exp.Expression):
    """`TBLPROPERTIES (expressions)`, each an `EQ` of two texts."""

    arg_types = {"expressions": True}


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


ALL = tuple(node for node in tuple(globals().values()) if isinstance(node, type) and node.__module__ == __name__)
"""Every kind of node above."""
