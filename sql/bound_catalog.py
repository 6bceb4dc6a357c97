"""Bound statements about the catalog: schemas, views, ANALYZE, SHOW, DESCRIBE. The others are in `bound`."""

from __future__ import annotations

from typing import TypeAlias

from ..model.lazy_dataclass import dataclass
from ..model.namespaces import Namespace
from ..model.schema import Table, View
from .expressions import Column

ViewPair: TypeAlias = tuple[View, View]
"""A view as the statement has found it, and as it leaves it."""


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] VIEW [IF NOT EXISTS]."""

    view: View
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropView:
    """DROP VIEW [IF EXISTS]; `views` depend on it and are dropped too."""

    name: str
    if_exists: bool = False
    views: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RenameView:
    """ALTER VIEW ... RENAME TO or SET SCHEMA, by names in the store; nothing to do if they are the same. `readers` are
    the views that read it, before and with its new name in their texts."""

    name: str
    new_name: str
    namespace: str
    readers: tuple[ViewPair, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeViewOwner:
    """ALTER VIEW ... OWNER TO; the view before and after. None: there is no such view (IF EXISTS)."""

    view: ViewPair | None


@dataclass(frozen=True, slots=True)
class CreateSchema:
    """CREATE SCHEMA [IF NOT EXISTS]."""

    namespace: Namespace
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameSchema:
    """ALTER SCHEMA ... RENAME TO: the schema before and after; its tables and views with their new names in the store;
    the views that read any of them, before and with these names in their texts."""

    before: Namespace
    after: Namespace
    tables: tuple[tuple[Table, str], ...] = ()
    views: tuple[tuple[View, str], ...] = ()
    readers: tuple[ViewPair, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeSchemaOwner:
    """ALTER SCHEMA ... OWNER TO: the schema before and after."""

    before: Namespace
    after: Namespace


@dataclass(frozen=True, slots=True)
class DropSchema:
    """DROP SCHEMA [IF EXISTS]; `tables` and `views`, by their names in the store, go with it."""

    name: str
    if_exists: bool = False
    tables: tuple[str, ...] = ()
    views: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShowSchemas:
    """SHOW SCHEMAS; `pattern` is that of LIKE."""

    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class AnalyzeTables:
    """ANALYZE, of one table or all."""

    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class ShowTables:
    """SHOW TABLES or, if `views` is True, SHOW VIEWS; `pattern` is that of LIKE."""

    pattern: str | None = None
    views: bool = False


@dataclass(frozen=True, slots=True)
class ShowFunctions:
    """SHOW FUNCTIONS; `pattern` is that of LIKE."""

    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ShowCreateTable:
    """SHOW CREATE TABLE table, SHOW CREATE VIEW view."""

    table: Table | View


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    """SHOW PARTITIONS table."""

    table: Table


@dataclass(frozen=True, slots=True)
class ShowStats:
    """SHOW STATS FOR table."""

    table: Table


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE table."""

    table: Table


@dataclass(frozen=True, slots=True)
class DescribeView:
    """DESCRIBE view."""

    view: View
    columns: tuple[Column, ...]


CatalogStatement: TypeAlias = (
    CreateView
    | DropView
    | RenameView
    | ChangeViewOwner
    | CreateSchema
    | RenameSchema
    | ChangeSchemaOwner
    | DropSchema
    | ShowSchemas
    | AnalyzeTables
    | ShowTables
    | ShowFunctions
    | ShowCreateTable
    | ShowPartitions
    | ShowStats
    | Describe
    | DescribeView
)
