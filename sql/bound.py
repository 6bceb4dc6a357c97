"""Bound statements: what the binder makes of a parsed statement, and the planner and executor start from.

    Statement ──┬── SelectStatement(query)           ──► planner
                ├── InsertStatement, CopyFrom        ──► planner for the source, executor for the sink
                ├── ChangeStatement                  ──► the same: UPDATE and DELETE
                ├── CreateTableAs                    ──► the same: a new table and its rows
                ├── CreateTable, AlterTable, DropTable   ──► the store's catalog
                ├── CompactTable                     ──► the store's maintenance
                └── Explain(statement)

    Query = body (Select | Values | SetOperation) + ORDER BY + LIMIT
    Select = FROM relation, WHERE, GROUP BY, HAVING, projection
    Relation = TableRef | SubqueryRef | FileRef | Join

Shape of a Select with aggregation: `groups` pairs each grouping expression with the column that stands for it above,
`aggregates` does so for each aggregate call; `having` and `projection` refer to those columns only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..storage.alterations import AlterStep
from ..storage.schema import Table, TableDefinition
from ..storage.store import ChangeRange, Op, Timestamp
from .expressions import Aggregate, Column, Expr, OrderItem


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """`FOR SYSTEM_TIME` of one use of a table: its state at `until`, or, with `changes`, what happened to its rows
    until then.

    `table` is the table as it is stored; the use's own schema has the columns of a diff scan besides. `excerpt` draws
    the place in the statement, for errors of the scan.
    """

    table: Table
    until: Timestamp
    changes: ChangeRange | None = None
    excerpt: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class TableRef:
    """A use of a table: `columns` are fresh, one per table column, in schema order. `time` None reads the state of the
    statement's beginning."""

    table: Table
    alias: str
    columns: tuple[Column, ...]
    time: TimeTravel | None = None


@dataclass(frozen=True, slots=True)
class FileRef:
    """`read_parquet('path')` or `read_csv('path')`; `columns` are fresh, one per column of the file."""

    format: str
    path: str
    alias: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class SubqueryRef:
    """A derived table, a view or a CTE. `columns` are fresh, one per output column of the query.

    `shared` names a CTE or view that the statement uses more than once with this same `query` object, so that the
    planner may
    compute it once; None otherwise. A CTE bound once may be referenced several times: same `query`, fresh `columns`.
    """

    query: Query
    alias: str
    columns: tuple[Column, ...]
    shared: str | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """`left kind JOIN right ON condition`; kind is inner, left, right, full or cross; USING is bound into
    `condition`."""

    kind: str
    left: Relation
    right: Relation
    condition: Expr | None = None


Relation: TypeAlias = TableRef | FileRef | SubqueryRef | Join


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT block; see the module's page for how aggregation is laid out.

    `relation` is None for a SELECT without FROM (one row of no columns). `projection` pairs each output column with its
    expression. `grouped` is True where the block aggregates, even with no grouping expression and no aggregate call.
    """

    relation: Relation | None
    where: Expr | None
    projection: tuple[tuple[Column, Expr], ...]
    groups: tuple[tuple[Column, Expr], ...] = ()
    aggregates: tuple[tuple[Column, Aggregate], ...] = ()
    having: Expr | None = None
    grouped: bool = False
    distinct: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The output columns."""
        return tuple(column for column, _ in self.projection)


@dataclass(frozen=True, slots=True)
class Values:
    """`VALUES (...), (...)`: rows of constant expressions, already cast to the columns' types."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True, slots=True)
class SetOperation:
    """UNION, INTERSECT or EXCEPT of two queries (`kind` in lower case); `columns` are fresh, sides are cast to their
    types."""

    kind: str
    all: bool
    left: Query
    right: Query
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query: a body, its order and limits.

    `columns` are the visible output columns. ORDER BY may need more than those: `hidden` are extra columns that the
    body's projection ends with and that are dropped after sorting. `order` refers to body columns.
    """

    body: Select | Values | SetOperation
    columns: tuple[Column, ...]
    order: tuple[OrderItem, ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    hidden: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectStatement:
    """A query whose rows go to the user."""

    query: Query


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE [IF NOT EXISTS]."""

    definition: TableDefinition
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateTableAs:
    """CREATE TABLE [IF NOT EXISTS] ... AS query; `columns` are the names in the new table of the query's columns."""

    definition: TableDefinition
    columns: tuple[str, ...]
    query: Query
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE: all steps or none; no step where IF [NOT] EXISTS left nothing to do."""

    table: Table
    steps: tuple[AlterStep, ...]


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE [IF EXISTS]."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class InsertStatement:
    """INSERT INTO table (columns) query; `columns` are table column names aligned with the query's columns, which are
    cast to the table's types already. `op` is INSERT, INSERT_IGNORE or UPSERT."""

    table: Table
    columns: tuple[str, ...]
    query: Query
    op: Op = Op.INSERT


@dataclass(frozen=True, slots=True)
class ChangeStatement:
    """UPDATE or DELETE (`op`): the query gives the primary keys of the rows and, for UPDATE, the new values of further
    columns; `columns` are their names, aligned with the query's columns."""

    table: Table
    op: Op
    columns: tuple[str, ...]
    query: Query


@dataclass(frozen=True, slots=True)
class CompactTable:
    """COMPACT TABLE."""

    table: Table


@dataclass(frozen=True, slots=True)
class CopyFrom:
    """COPY table FROM 'path': a bulk load. `format` is parquet or csv; `columns` None means by name."""

    table: Table
    path: str
    format: str
    options: tuple[tuple[str, Any], ...] = ()
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ShowTables:
    """SHOW TABLES."""


@dataclass(frozen=True, slots=True)
class ShowCreateTable:
    """SHOW CREATE TABLE table."""

    table: Table


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    """SHOW PARTITIONS table."""

    table: Table


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE table."""

    table: Table


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN [ANALYZE] [VERBOSE] statement."""

    statement: Statement
    analyze: bool = False
    verbose: bool = False


WITH_QUERY = SelectStatement | InsertStatement | ChangeStatement | CreateTableAs
"""The statements that have a `query`, and so a plan."""
Statement: TypeAlias = (
    SelectStatement
    | CreateTable
    | CreateTableAs
    | AlterTable
    | DropTable
    | InsertStatement
    | ChangeStatement
    | CopyFrom
    | CompactTable
    | ShowTables
    | ShowCreateTable
    | ShowPartitions
    | Describe
    | Explain
)
