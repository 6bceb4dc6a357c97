"""The catalog of a store whose transactions cannot change it: that of now."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NoReturn

from ...errors import CatalogInTransaction, SchemaChanged, UnknownTable
from ...model.access.roles import Access
from ...model.access.steps import AccessStep
from ...model.alterations import AlterStep
from ...model.namespaces import Namespace
from ...model.schema import Table, TableDefinition, View
from ...model.store import Store
from ...model.transactions import TableRead
from .table_source import TableSource


class StoreCatalog:
    """As `OwnCatalog`, without changes: all methods that would make one raise `CatalogInTransaction`.

    Parameters
    ----------
    store : Store
    """

    state = None
    has_changes = False

    def __init__(self, store: Store):
        self._store = store

    @property
    def version(self) -> int:
        return self._store.catalog_version

    @property
    def access(self) -> Access:
        return self._store.access

    def change_access(self, steps: Sequence[AccessStep]) -> NoReturn:
        self._refuse("a change of users or grants")

    def tables(self) -> Sequence[Table]:
        return self._store.tables()

    def table(self, name: str) -> Table:
        return self._store.table(name)

    def views(self) -> Sequence[View]:
        return self._store.views()

    def view(self, name: str) -> View | None:
        return self._store.view(name)

    def namespaces(self) -> Sequence[Namespace]:
        return self._store.namespaces()

    def source(self, table: Table) -> TableSource | None:
        """None: no table is the transaction's own."""
        return None

    def latest(self, table: Table) -> Table:
        return table

    def conflict(self, table: Table, error: UnknownTable | SchemaChanged) -> Exception:
        """The error itself: others' changes of the catalog are seen at once."""
        return error

    def conflict_at_commit(self, error: UnknownTable | SchemaChanged) -> Exception:
        """The error itself."""
        return error

    def reads_before(self, read: TableRead) -> Iterator[TableRead]:
        """The read itself: no table is altered."""
        yield read

    def create_table(self, definition: TableDefinition) -> NoReturn:
        self._refuse("CREATE TABLE")

    def drop_table(self, name: str, views: Collection[str] = ()) -> NoReturn:
        self._refuse("DROP TABLE")

    def alter_table(self, name: str, steps: Sequence[AlterStep], store: TableSource) -> NoReturn:
        self._refuse("ALTER TABLE")

    def create_view(self, view: View, replaces: bool) -> NoReturn:
        self._refuse("CREATE VIEW")

    def drop_views(self, names: Collection[str]) -> NoReturn:
        self._refuse("DROP VIEW")

    def rename_view(self, name: str, new_name: str, namespace: str) -> NoReturn:
        self._refuse("ALTER VIEW")

    def create_namespace(self, namespace: Namespace) -> NoReturn:
        self._refuse("CREATE SCHEMA")

    def alter_namespace(self, namespace: Namespace) -> NoReturn:
        self._refuse("ALTER SCHEMA")

    def drop_namespace(self, name: str, tables: Collection[str], views: Collection[str]) -> NoReturn:
        self._refuse("DROP SCHEMA")

    def _refuse(self, what: str) -> NoReturn:
        raise CatalogInTransaction(
            f"{what} is not possible inside a transaction on a cluster, or in a directory that another process serves; "
            "COMMIT or ROLLBACK first"
        )

    def go_back(self, state: None) -> None:
        """Nothing."""

    def changes(self, validates_reads: bool) -> None:
        """None: COMMIT changes no catalog."""
