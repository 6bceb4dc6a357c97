"""Interface of a store for users, memberships and grants: the part of `model.store.Store` about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .roles import Access
from .steps import AccessStep


class KeepsAccess(Protocol):
    """A store, as far as it concerns users and rights."""

    @property
    def access(self) -> Access:
        """Users, memberships and grants: the same object until they change. A store that keeps none has those of a new
        store. Of a transaction: those of now, so that a right revoked elsewhere is lost at once."""

    def change_access(self, steps: Sequence[AccessStep]) -> None:
        """Change users, memberships and grants durably, in one step; of a transaction, with its COMMIT.

        Raises
        ------
        UnknownRole, DuplicateRole, InvalidGrant, DependentObjects
            A step is not possible; nothing has changed.
        NotSupportedError
            The store keeps no users.
        """
