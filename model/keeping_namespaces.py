"""Interface of a store for namespaces, and for changes of the catalog in one step: a part of `model.store.Store`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from .catalog_batch import CatalogBatch
from .namespaces import Namespace


class KeepsNamespaces(Protocol):
    """A store, as far as it concerns namespaces."""

    def namespaces(self) -> Sequence[Namespace]:
        """All namespaces by name, ascending, with the default one."""

    def create_namespace(self, namespace: Namespace) -> None:
        """Create a namespace durably; `DuplicateSchema` where the name is taken, `InvalidTableDefinition` where it
        cannot be."""

    def change_together(self) -> AbstractContextManager[CatalogBatch]:
        """Context manager for several changes of the catalog that become one step at its end."""

    def drop_namespace(self, name: str, tables: Collection[str] = (), views: Collection[str] = ()) -> None:
        """Drop a namespace durably, and with it, in the same step, the tables and views named. `UnknownSchema` where
        there is none, `DependentObjects` where it has other tables or views."""


class AltersNamespaces(Protocol):
    """A transaction, as far as it alters namespaces."""

    def alter_namespace(self, namespace: Namespace) -> None:
        """Give a namespace another owner; `UnknownSchema` where there is none of its name."""
