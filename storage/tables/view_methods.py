"""Views and namespaces of an open store (`model.store.Store`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from ...model.catalog_batch import CatalogBatch, TransactionBatch
from ...model.namespaces import Namespace
from ...model.schema import View
from ...model.store import Transaction
from .data_definition import DataDefinition
from .durable_catalog import DurableCatalog


class ViewMethods:
    """The part of `database.Database` for what has no rows: views, and the namespaces of tables and views."""

    _catalog: DurableCatalog
    _ddl: DataDefinition

    def _check_open(self) -> None:
        raise NotImplementedError

    def views(self) -> Sequence[View]:
        """All views by name, ascending."""
        self._check_open()
        return self._catalog.views()

    def view(self, name: str) -> View | None:
        """One view; None where there is none of that name."""
        self._check_open()
        return self._catalog.current.views.get(name)

    def create_view(self, view: View, replace: bool = False) -> None:
        """Keep a view durably, with `replace` in the place of one of its name. Tables and views share their names:
        `DuplicateTable` where the name is taken."""
        self._ddl.create_view(view, replace)

    def drop_views(self, names: Collection[str]) -> None:
        """Drop views durably, in one step; `UnknownTable` where one is not there."""
        self._ddl.drop_views(names)

    def rename_view(self, name: str, new_name: str, namespace: str) -> None:
        """Rename a view durably, and move it to a namespace, in one step; its grants stay. `UnknownTable` where it is
        not there, `DuplicateTable` where the new name is taken."""
        self._ddl.rename_view(name, new_name, namespace)

    @contextmanager
    def change_together(self) -> Iterator[CatalogBatch]:
        """As `Store.change_together`: a transaction that commits at the end. Raises `SerializationFailure` if others
        have changed the same objects since the begin of the block."""
        transaction = self.begin()
        try:
            yield TransactionBatch(transaction)
            transaction.commit()
        finally:
            transaction.close()

    def begin(self) -> Transaction:
        """See `Store.begin`."""
        raise NotImplementedError

    def namespaces(self) -> Sequence[Namespace]:
        """All namespaces by name, ascending, with the default one."""
        self._check_open()
        return self._catalog.namespaces()

    def create_namespace(self, namespace: Namespace) -> None:
        """Create a namespace durably; `DuplicateSchema` where the name is taken, `InvalidTableDefinition` where it
        cannot be."""
        self._ddl.create_namespace(namespace)

    def drop_namespace(self, name: str, tables: Collection[str] = (), views: Collection[str] = ()) -> None:
        """Drop a namespace durably, and with it, in the same step, the tables and views named. `UnknownSchema` where
        there is none, `DependentObjects` where it has other tables or views."""
        self._ddl.drop_namespace(name, tables, views)
