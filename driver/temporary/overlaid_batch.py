"""Changes of the catalog in one step (`model.catalog_batch.CatalogBatch`), some of them of temporary objects.

Those of the base are one step. A session's own objects are changed when that has succeeded, as a table of the base may
be renamed that a temporary view reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...model.access.rights import Secured
from ...model.alterations import AlterStep
from ...model.catalog_batch import CatalogBatch
from ...model.namespaces import TEMPORARY_NAMESPACE, Namespace
from ...model.schema import View
from ...model.store import Store

_PREFIX = f"{TEMPORARY_NAMESPACE}."


class OverlaidBatch:
    """See the module's page.

    Parameters
    ----------
    base : CatalogBatch
        That of the connection's store.
    temporary : Store
        That of the temporary objects.
    """

    def __init__(self, base: CatalogBatch, temporary: Store):
        self._base = base
        self._temporary = temporary
        self._later: list[Callable[[], object]] = []

    def change_temporary(self) -> None:
        """Makes the changes of temporary objects."""
        for change in self._later:
            change()

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> None:
        if name.startswith(_PREFIX):
            self._later.append(partial(self._temporary.alter_table, name, steps))
        else:
            self._base.alter_table(name, steps)

    def replace_view(self, before: View, after: View) -> None:
        if before.namespace == TEMPORARY_NAMESPACE:
            self._later.append(partial(self._temporary.create_view, after, replace=True))
        else:
            self._base.replace_view(before, after)

    def rename_view(self, name: str, new_name: str, namespace: str) -> None:
        if name.startswith(_PREFIX):
            self._later.append(partial(self._temporary.rename_view, name, new_name, namespace))
        else:
            self._base.rename_view(name, new_name, namespace)

    def create_namespace(self, namespace: Namespace) -> None:
        self._base.create_namespace(namespace)

    def replace_namespace(self, before: Namespace, after: Namespace) -> None:
        self._base.replace_namespace(before, after)

    def move_grants(self, before: Secured, key: str) -> None:
        self._base.move_grants(before, key)

    def drop_namespace(self, name: str) -> None:
        self._base.drop_namespace(name)
