"""Users, memberships and grants of an open store (`model.access.keeping`)."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.access.roles import Access
from ...model.access.steps import AccessStep
from .data_definition import DataDefinition
from .durable_catalog import DurableCatalog


class AccessMethods:
    """The part of `storage.database.Database` for users and rights."""

    _catalog: DurableCatalog
    _ddl: DataDefinition

    @property
    def access(self) -> Access:
        """Users, memberships and grants; the same object until they change."""
        return self._catalog.current.access

    def change_access(self, steps: Sequence[AccessStep]) -> None:
        """Change users, memberships and grants durably, in one step; errors as of `Store.change_access`."""
        self._ddl.change_access(steps)
