"""Users, memberships and grants of a transaction (`model.access.keeping`)."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ...model.access.roles import Access
from ...model.access.steps import AccessStep
from .own_catalog import OwnCatalog
from .store_catalog import StoreCatalog


class AccessMethods:
    """The part of `transaction_store.TransactionStore` for users and rights."""

    _catalog: OwnCatalog | StoreCatalog
    _lock: threading.RLock

    @property
    def access(self) -> Access:
        """Those of now with the transaction's changes; `SerializationFailure` if others have changed them too."""
        return self._catalog.access

    def change_access(self, steps: Sequence[AccessStep]) -> None:
        """As `Store.change_access`, with COMMIT."""
        with self._lock:
            self._check_writable()
            self._catalog.change_access(steps)

    def _check_writable(self) -> None:
        raise NotImplementedError
