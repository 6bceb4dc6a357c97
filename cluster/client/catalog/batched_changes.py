"""Changes of the catalog that a client records, to send them as one request (`model.catalog_batch.CatalogBatch`)."""

from __future__ import annotations

from collections.abc import Sequence

from ....model.access.rights import Secured
from ....model.alterations import AlterStep
from ....model.namespaces import Namespace
from ....model.schema import View
from ...wire.messages.catalog_methods import (
    AlterTableStep,
    CatalogStep,
    CreateNamespaceStep,
    DropNamespaceStep,
    MoveGrantsStep,
    RenameViewStep,
    ReplaceNamespaceStep,
    ReplaceViewStep,
)
from ...wire.messages.plain import namespace_to_plain, step_to_plain, view_to_plain


class BatchedChanges:
    """See the module's page."""

    def __init__(self) -> None:
        self.steps: list[CatalogStep] = []

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> None:
        self.steps.append(AlterTableStep(name, tuple(map(step_to_plain, steps))))

    def replace_view(self, before: View, after: View) -> None:
        self.steps.append(ReplaceViewStep(view_to_plain(before), view_to_plain(after)))

    def rename_view(self, name: str, new_name: str, namespace: str) -> None:
        self.steps.append(RenameViewStep(name, new_name, namespace))

    def create_namespace(self, namespace: Namespace) -> None:
        self.steps.append(CreateNamespaceStep(namespace_to_plain(namespace)))

    def replace_namespace(self, before: Namespace, after: Namespace) -> None:
        self.steps.append(ReplaceNamespaceStep(namespace_to_plain(before), namespace_to_plain(after)))

    def move_grants(self, before: Secured, key: str) -> None:
        self.steps.append(MoveGrantsStep(before.key, key))

    def drop_namespace(self, name: str) -> None:
        self.steps.append(DropNamespaceStep(name))
