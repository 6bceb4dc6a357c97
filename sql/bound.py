"""Bound statements: the binder's output, and the input of the planner and the executor.

    Statement ──┬── SelectStatement(query)           ──► planner
                ├── InsertStatement, CopyFrom        ──► planner for the source, executor for the sink
                ├── ChangeStatement, MergeStatement  ──► the same: UPDATE and DELETE; ON CONFLICT
                ├── CreateTableAs                    ──► the same: a new table and its rows
                ├── CreateTable, AlterTable, DropTable   ──► the store's catalog; also those of `bound_catalog`
                ├── CompactTable                     ──► the store's maintenance
                ├── those of `bound_transactions`    ──► the driver's session
                └── Explain(statement)

    Query = body (Select | Values | SetOperation | Recursive) + ORDER BY + LIMIT
    Select = FROM relation, WHERE, GROUP BY, HAVING, projection
    Relation = TableRef | SubqueryRef | SeriesRef | WorkingRef | FileRef | Join

In a Select with aggregation, `groups` pairs each grouping expression with the column that represents it above the
aggregation; `aggregates` does so for each aggregate call. `having` and `projection` refer to those columns only.
`windows` does the same for window calls, which read the rows that HAVING keeps; `qualify` filters after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, TypeAlias

from ..model.alterations import AlterStep
from ..model.lazy_dataclass import dataclass
from ..model.schema import Table, TableDefinition
from ..model.store import ChangeRange, Op, Timestamp
from .bound_access import AccessStatement
from .bound_access import ChangeAccess as ChangeAccess
from .bound_access import SetRole as SetRole
from .bound_access import ShowGrants as ShowGrants
from .bound_access import ShowRoles as ShowRoles
from .bound_catalog import AnalyzeTables as AnalyzeTables
from .bound_catalog import CatalogStatement
from .bound_catalog import ChangeSchemaOwner as ChangeSchemaOwner
from .bound_catalog import ChangeViewOwner as ChangeViewOwner
from .bound_catalog import CreateSchema as CreateSchema
from .bound_catalog import CreateView as CreateView
from .bound_catalog import Describe as Describe
from .bound_catalog import DescribeView as DescribeView
from .bound_catalog import DropSchema as DropSchema
from .bound_catalog import DropView as DropView
from .bound_catalog import RenameSchema as RenameSchema
from .bound_catalog import RenameView as RenameView
from .bound_catalog import ShowCreateTable as ShowCreateTable
from .bound_catalog import ShowFunctions as ShowFunctions
from .bound_catalog import ShowPartitions as ShowPartitions
from .bound_catalog import ShowSchemas as ShowSchemas
from .bound_catalog import ShowStats as ShowStats
from .bound_catalog import ShowTables as ShowTables
from .bound_catalog import ViewPair as ViewPair
from .bound_session import CloseCursor as CloseCursor
from .bound_session import Deallocate as Deallocate
from .bound_session import DeclareCursor as DeclareCursor
from .bound_session import Discard as Discard
from .bound_session import ExecutePrepared as ExecutePrepared
from .bound_session import FetchCursor as FetchCursor
from .bound_session import PrepareStatement as PrepareStatement
from .bound_session import SessionStatement as SessionStatement
from .bound_transactions import BeginTransaction as BeginTransaction
from .bound_transactions import CommitTransaction as CommitTransaction
from .bound_transactions import ReleaseSavepoint as ReleaseSavepoint
from .bound_transactions import RollbackToSavepoint as RollbackToSavepoint
from .bound_transactions import RollbackTransaction as RollbackTransaction
from .bound_transactions import RowLocks as RowLocks
from .bound_transactions import SetSavepoint as SetSavepoint
from .bound_transactions import SetSessionCharacteristics as SetSessionCharacteristics
from .bound_transactions import SetTransaction as SetTransaction
from .bound_transactions import TransactionModes as TransactionModes
from .bound_transactions import TransactionStatement as TransactionStatement
from .expressions import Aggregate, Column, Expr, OrderItem, Window
from .files import FileDescription, FileSource


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """`FOR SYSTEM_TIME` of one use of a table: its state as of `until` or, with `changes`, the changes up to then.

    `table` is the table as it is stored; the schema of this use also has the columns of a diff scan. `excerpt` is the
    position in the statement, drawn for errors of the scan.
    """

    table: Table
    until: Timestamp
    changes: ChangeRange | None = None
    excerpt: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class TableRef:
    """A use of a table; `columns` are fresh, one per table column, in schema order.

    `time` None reads the snapshot taken when the statement begins.
    """

    table: Table
    alias: str
    columns: tuple[Column, ...]
    time: TimeTravel | None = None


@dataclass(frozen=True, slots=True)
class FileRef:
    """External files: `read_parquet('path')`, `read_csv('path')` or `'path'`.

    `columns` are fresh, one per column of the files; `names` are their names in the files. `description` holds the
    schema and statistics read from the files.
    """

    source: FileSource
    alias: str
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    description: FileDescription = field(default_factory=lambda: FileDescription(()), compare=False)


@dataclass(frozen=True, slots=True)
class SubqueryRef:
    """A derived table, a view or a CTE. `columns` are fresh, one per output column of the query.

    `shared` names a CTE or view that the statement uses more than once with this `query` object; None otherwise. The
    planner may then compute it once. A CTE bound once may be referenced several times: same `query`, fresh `columns`.
    """

    query: Query
    alias: str
    columns: tuple[Column, ...]
    shared: str | None = None


@dataclass(frozen=True, slots=True)
class SeriesRef:
    """`generate_series(start, stop, step)` in FROM; `columns` is the one fresh column of its values.

    The bounds may read columns of the relations to its left.
    """

    start: Expr
    stop: Expr
    step: Expr
    alias: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class WorkingRef:
    """The use of a recursive query within itself: the rows of the previous round; `key` is that of its `Recursive`."""

    key: int
    alias: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """`left kind JOIN right ON condition`; kind is inner, left, right, full or cross; USING is bound into
    `condition`."""

    kind: str
    left: Relation
    right: Relation
    condition: Expr | None = None


Relation: TypeAlias = TableRef | FileRef | SubqueryRef | SeriesRef | WorkingRef | Join


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT block; the module docstring describes the layout of aggregation.

    `relation` is None for a SELECT without FROM (one row of no columns). `projection` pairs each output column with its
    expression. `grouped` is True if the block aggregates, even with no grouping expression and no aggregate call. With
    grouping sets, `sets` are positions among `groups`. `set_number` is the column with the 0-based number of the set
    that a row belongs to; a group that is not in its set is NULL. `distinct_on` are columns of the projection: of rows
    that are equal in them, only the first in the query's order is returned.
    """

    relation: Relation | None
    where: Expr | None
    projection: tuple[tuple[Column, Expr], ...]
    groups: tuple[tuple[Column, Expr], ...] = ()
    aggregates: tuple[tuple[Column, Aggregate], ...] = ()
    having: Expr | None = None
    grouped: bool = False
    distinct: bool = False
    windows: tuple[tuple[Column, Window], ...] = ()
    qualify: Expr | None = None
    distinct_on: tuple[Column, ...] = ()
    sets: tuple[tuple[int, ...], ...] | None = None
    set_number: Column | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The output columns."""
        return tuple(column for column, _ in self.projection)


@dataclass(frozen=True, slots=True)
class Values:
    """`VALUES (...), (...)`: rows of constant expressions, already cast to the columns' types; `ConstantRows` for a
    relation of the system catalogs."""

    columns: tuple[Column, ...]
    rows: Sequence[tuple[Expr, ...]]


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
class Recursive:
    """A query of WITH RECURSIVE that reads itself: `anchor` UNION [ALL] `step`.

    The FROM of `step` has a `WorkingRef` of this `key`. `columns` are fresh; both sides are cast to their types.
    """

    key: int
    all: bool
    anchor: Query
    step: Query
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query: a body, its order and limits.

    `columns` are the visible output columns. ORDER BY may need more: `hidden` are extra columns at the end of the
    body's projection, which are dropped after sorting. `order` refers to body columns. With `ties`, rows that are equal
    in `order` to the last row within LIMIT are returned too.
    """

    body: Select | Values | SetOperation | Recursive
    columns: tuple[Column, ...]
    order: tuple[OrderItem, ...] = ()
    limit: Expr | None = None
    offset: Expr | None = None
    hidden: tuple[Column, ...] = ()
    ties: bool = False


@dataclass(frozen=True, slots=True)
class SelectStatement:
    """A query whose rows are returned to the caller.

    `locks` are those of FOR UPDATE and its like. Then the last columns of the query are keys of locked rows, which are
    not part of the result; it has `visible` columns. `settings` are set when the statement starts.
    """

    query: Query
    locks: tuple[RowLocks, ...] = ()
    settings: tuple[SetSetting, ...] = ()

    @property
    def visible(self) -> int:
        """Number of columns of the result."""
        return self.locks[0].first if self.locks else len(self.query.columns)


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE [IF NOT EXISTS]."""

    definition: TableDefinition
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateTableAs:
    """CREATE TABLE [IF NOT EXISTS] ... AS query; `columns` are the new table's names for the query's columns."""

    definition: TableDefinition
    columns: tuple[str, ...]
    query: Query
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE: all steps or none; empty if IF [NOT] EXISTS left nothing to do.

    If it gets another name, `readers` are the views that read the table, before and with the new name in their texts.
    """

    table: Table
    steps: tuple[AlterStep, ...]
    readers: tuple[ViewPair, ...] = ()


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE [IF EXISTS]; `views` depend on it and are dropped too."""

    name: str
    if_exists: bool = False
    views: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InsertStatement:
    """INSERT INTO table (columns) query; `columns` are table column names aligned with the query's columns, which are
    cast to the table's types already. `op` is INSERT, INSERT_IGNORE or UPSERT.

    `returning` are the query's last columns, which RETURNING returns for each row; None without RETURNING.
    """

    table: Table
    columns: tuple[str, ...]
    query: Query
    op: Op = Op.INSERT
    returning: tuple[Column, ...] | None = None


@dataclass(frozen=True, slots=True)
class MergeStatement:
    """INSERT ... ON CONFLICT DO UPDATE, and INSERT IGNORE or UPSERT with RETURNING.

    The query looks up each row in the table and computes the operation for it. Its columns are: the columns of the
    table named by `columns`; an INT, the row's `Op` (INSERT or UPDATE; 0: skip the row); then `returning`. An INSERT
    sets all `columns`, an UPDATE those of them that `updated` names. `repeated` is the treatment of a key that occurs
    more than once: "refused", or the "first" or the "last" row is used.
    """

    table: Table
    columns: tuple[str, ...]
    updated: tuple[str, ...]
    query: Query
    repeated: str
    returning: tuple[Column, ...] | None = None


@dataclass(frozen=True, slots=True)
class ChangeStatement:
    """UPDATE or DELETE (`op`): the query returns the primary keys of the rows and, for UPDATE, the new values of
    further columns.

    `columns` are their names, aligned with the query's columns. `returning` is as in `InsertStatement`.
    """

    table: Table
    op: Op
    columns: tuple[str, ...]
    query: Query
    returning: tuple[Column, ...] | None = None


@dataclass(frozen=True, slots=True)
class CompactTable:
    """COMPACT TABLE."""

    table: Table


@dataclass(frozen=True, slots=True)
class CopyFrom:
    """COPY table FROM 'path': a bulk load. `format` is parquet or csv; `columns` None matches columns by name."""

    table: Table
    path: str
    format: str
    options: tuple[tuple[str, Any], ...] = ()
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CopyTo:
    """COPY (query) TO 'path': writes the query's rows to a new file."""

    query: Query
    path: str
    format: str
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SetSetting:
    """SET name = value; the value is in plain units (`sql.settings`)."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class ResetSettings:
    """RESET name; without a name RESET ALL."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class ShowSettings:
    """SHOW name; without a name SHOW ALL."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN [ANALYZE] [VERBOSE] statement; with `as_json`, FORMAT JSON."""

    statement: Statement
    analyze: bool = False
    verbose: bool = False
    as_json: bool = False


WITH_QUERY = SelectStatement | InsertStatement | MergeStatement | ChangeStatement | CreateTableAs | CopyTo
"""The statements that have a `query`, and so a plan."""
Statement: TypeAlias = (
    SelectStatement
    | CreateTable
    | CreateTableAs
    | AlterTable
    | DropTable
    | InsertStatement
    | MergeStatement
    | ChangeStatement
    | CopyFrom
    | CopyTo
    | CompactTable
    | SetSetting
    | ResetSettings
    | ShowSettings
    | CatalogStatement
    | AccessStatement
    | TransactionStatement
    | SessionStatement
    | Explain
)
