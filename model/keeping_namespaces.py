"""Interface of a store for namespaces: the part of `model.store.Store` about them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from .namespaces import Namespace


class KeepsNamespaces(Protocol):
    """A store, as far as it concerns namespaces."""

    def namespaces(self) -> Sequence[Namespace]:
        """All namespaces by name, ascending, with the default one."""

    def create_namespace(self, namespace: Namespace) -> None:
        """Create a namespace durably; `DuplicateSchema` where the name is taken, `InvalidTableDefinition` where it
        cannot be."""

    def drop_namespace(self, name: str, tables: Collection[str] = (), views: Collection[str] = ()) -> None:
        """Drop a namespace durably, and with it, in the same step, the tables and views named. `UnknownSchema` where
        there is none, `DependentObjects` where it has other tables or views."""
