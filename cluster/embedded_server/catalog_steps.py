"""The steps of `ChangeCatalog`, made to a directory's catalog in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.catalog_batch import CatalogBatch
from ...storage.tables.catalog import Catalog
from ..wire.messages.catalog_methods import (
    AlterTableStep,
    CatalogStep,
    CreateNamespaceStep,
    DropNamespaceStep,
    MoveGrantsStep,
    RenameViewStep,
    ReplaceNamespaceStep,
    ReplaceViewStep,
)
from ..wire.messages.plain import namespace_from_plain, step_from_plain, view_from_plain


def make_steps(steps: Sequence[CatalogStep], batch: CatalogBatch, catalog: Catalog) -> None:
    """Makes the steps; `catalog` is that of before."""
    for step in steps:
        if isinstance(step, AlterTableStep):
            batch.alter_table(step.name, [step_from_plain(each) for each in step.steps])
        elif isinstance(step, ReplaceViewStep):
            batch.replace_view(view_from_plain(step.before), view_from_plain(step.after))
        elif isinstance(step, RenameViewStep):
            batch.rename_view(step.name, step.new_name, step.namespace)
        elif isinstance(step, CreateNamespaceStep):
            batch.create_namespace(namespace_from_plain(step.namespace))
        elif isinstance(step, ReplaceNamespaceStep):
            batch.replace_namespace(namespace_from_plain(step.before), namespace_from_plain(step.after))
        elif isinstance(step, MoveGrantsStep):
            if (known := catalog.objects().get(step.key)) is not None:
                batch.move_grants(known, step.new_key)
        elif isinstance(step, DropNamespaceStep):
            batch.drop_namespace(step.name)
