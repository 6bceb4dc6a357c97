"""Views and namespaces of a transaction (`model.store.Store`)."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from ...model.access.steps import AccessStep
from ...model.alterations import AlterStep
from ...model.catalog_batch import CatalogBatch, TransactionBatch
from ...model.namespaces import Namespace
from ...model.schema import Table, View
from .own_catalog import OwnCatalog
from .own_rows import OwnRows
from .store_catalog import StoreCatalog


class ViewMethods:
    """The part of `transaction_store.TransactionStore` for what has no rows: views, and the namespaces of tables and
    views."""

    _catalog: OwnCatalog | StoreCatalog
    _lock: threading.RLock
    _tables: dict[str, OwnRows]

    def _check(self) -> None:
        raise NotImplementedError

    def _check_writable(self) -> None:
        raise NotImplementedError

    def views(self) -> Sequence[View]:
        self._check()
        return self._catalog.views()

    def view(self, name: str) -> View | None:
        """One view; None where there is none of that name."""
        self._check()
        return self._catalog.view(name)

    def namespaces(self) -> Sequence[Namespace]:
        """All namespaces by name, ascending."""
        self._check()
        return self._catalog.namespaces()

    def create_view(self, view: View, replace: bool = False) -> None:
        """As `Store.create_view`."""
        with self._lock:
            self._check_writable()
            self._catalog.create_view(view, replace)

    def drop_views(self, names: Collection[str]) -> None:
        """As `Store.drop_views`."""
        with self._lock:
            self._check_writable()
            self._catalog.drop_views(names)

    def rename_view(self, name: str, new_name: str, namespace: str) -> None:
        """As `Store.rename_view`."""
        with self._lock:
            self._check_writable()
            self._catalog.rename_view(name, new_name, namespace)

    def create_namespace(self, namespace: Namespace) -> None:
        """As `Store.create_namespace`."""
        with self._lock:
            self._check_writable()
            self._catalog.create_namespace(namespace)

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> Table:
        """See `Store.alter_table`."""
        raise NotImplementedError

    def change_access(self, steps: Sequence[AccessStep]) -> None:
        """See `Store.change_access`."""
        raise NotImplementedError

    @contextmanager
    def change_together(self) -> Iterator[CatalogBatch]:
        """As `Store.change_together`: changes of the transaction, which COMMIT makes one step."""
        yield TransactionBatch(self)

    def alter_namespace(self, namespace: Namespace) -> None:
        """As `Transaction.alter_namespace`."""
        with self._lock:
            self._check_writable()
            self._catalog.alter_namespace(namespace)

    def drop_namespace(self, name: str, tables: Collection[str] = (), views: Collection[str] = ()) -> None:
        """As `Store.drop_namespace`; COMMIT fails if another write has changed one of the tables."""
        with self._lock:
            self._check_writable()
            for table in self._catalog.drop_namespace(name, tables, views):
                self._tables.pop(table.id, None)
