"""Several changes of the catalog as one step: a table that gets another name, and the views that read it.

    with store.change_together() as batch:              of a directory: a transaction that commits at the end
        batch.alter_table("t", [RenameTable("u")])      of a transaction: a part of it
        batch.replace_view(before, after)               of a cluster: one request to the masters, at the end

After an exception in the block nothing has changed. In a transaction, the session then undoes the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..errors import SchemaChanged
from .access.rights import Secured
from .access.steps import AccessStep, ObjectRenamed
from .alterations import AlterStep
from .namespaces import Namespace
from .schema import View


class CatalogBatch(Protocol):
    """The changes. Those of views and namespaces name what they have been made for: `SchemaChanged` if that has changed
    since; the statement is bound again."""

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> None:
        """As `Store.alter_table`."""

    def replace_view(self, before: View, after: View) -> None:
        """Another text or owner of a view. Its grants stay; those that the owner has granted, the new one has."""

    def rename_view(self, name: str, new_name: str, namespace: str) -> None:
        """As `Store.rename_view`."""

    def create_namespace(self, namespace: Namespace) -> None:
        """As `Store.create_namespace`."""

    def replace_namespace(self, before: Namespace, after: Namespace) -> None:
        """Another owner of a namespace."""

    def move_grants(self, before: Secured, key: str) -> None:
        """The grants on an object are those on another one from now on."""

    def drop_namespace(self, name: str) -> None:
        """As `Store.drop_namespace`, of an empty one."""


class ChangedStore(Protocol):
    """The methods of a transaction that make the changes of a batch."""

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> object: ...

    def view(self, name: str) -> View | None: ...

    def create_view(self, view: View, replace: bool = False) -> None: ...

    def rename_view(self, name: str, new_name: str, namespace: str) -> None: ...

    def namespaces(self) -> Sequence[Namespace]: ...

    def create_namespace(self, namespace: Namespace) -> None: ...

    def alter_namespace(self, namespace: Namespace) -> None: ...

    def drop_namespace(self, name: str) -> None: ...

    def change_access(self, steps: Sequence[AccessStep]) -> None: ...


class TransactionBatch:
    """A batch whose changes are those of a transaction (`CatalogBatch`)."""

    def __init__(self, transaction: ChangedStore):
        self._transaction = transaction

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> None:
        self._transaction.alter_table(name, steps)

    def replace_view(self, before: View, after: View) -> None:
        if self._transaction.view(before.name) != before:
            raise SchemaChanged(f"view {before.name} has been replaced or dropped meanwhile")
        self._transaction.create_view(after, replace=True)

    def rename_view(self, name: str, new_name: str, namespace: str) -> None:
        self._transaction.rename_view(name, new_name, namespace)

    def create_namespace(self, namespace: Namespace) -> None:
        self._transaction.create_namespace(namespace)

    def replace_namespace(self, before: Namespace, after: Namespace) -> None:
        if before not in self._transaction.namespaces():
            raise SchemaChanged(f"schema {before.name} has been changed or dropped meanwhile")
        self._transaction.alter_namespace(after)

    def move_grants(self, before: Secured, key: str) -> None:
        self._transaction.change_access([ObjectRenamed(before, key)])

    def drop_namespace(self, name: str) -> None:
        self._transaction.drop_namespace(name)
