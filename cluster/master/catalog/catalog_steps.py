"""Several changes of the catalog as one: each is made to the state that the one before leaves."""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import ProtocolError, SchemaChanged
from ....model.access.steps import ObjectRenamed
from ....model.alterations import RenameTable
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
from ...wire.messages.plain import namespace_from_plain, step_from_plain, view_from_plain
from .catalog_changes import (
    Place,
    access_changed,
    altered,
    namespace_altered,
    namespace_created,
    namespace_dropped,
    view_created,
    view_renamed,
)
from .catalog_state import CatalogState
from .records import Change, Key, Record


def changed_by_steps(state: CatalogState, steps: Sequence[CatalogStep], place: Place) -> Change:
    """The change that all steps make. Errors as those of each change, and `SchemaChanged` if a view or namespace is
    another one than a step was made for."""
    puts: dict[Key, Record] = {}
    removes: dict[Key, None] = {}
    for step in steps:
        change = _changed(state, step, place)
        state = state.applied(change)
        # Of several changes of one row the last one counts.
        for key in change.removes:
            puts.pop(key, None)
            removes[key] = None
        for record in change.puts:
            removes.pop(record.key, None)
            puts[record.key] = record
    return Change(tuple(puts.values()), tuple(removes))


def altered_names(steps: Sequence[CatalogStep]) -> list[str]:
    """The names of the tables that the steps alter, as they are afterwards."""
    names = []
    for step in steps:
        if isinstance(step, AlterTableStep):
            renamed = (each.name for each in map(step_from_plain, step.steps) if isinstance(each, RenameTable))
            names.append(next(renamed, step.name))
    return names


def _changed(state: CatalogState, step: CatalogStep, place: Place) -> Change:
    if isinstance(step, AlterTableStep):
        return altered(state, step.name, [step_from_plain(each) for each in step.steps], place)[0]
    return _change(state, step)


def _change(state: CatalogState, step: CatalogStep) -> Change:
    catalog = state.catalog
    if isinstance(step, ReplaceViewStep):
        before, after = view_from_plain(step.before), view_from_plain(step.after)
        if before.name != after.name or before.namespace != after.namespace:
            raise ProtocolError(f"a view is replaced by one of its name; {before.name} and {after.name} are two")
        if catalog.views.get(before.name) != before:
            raise SchemaChanged(f"view {before.name} has been replaced or dropped meanwhile")
        return view_created(state, after, True)
    if isinstance(step, RenameViewStep):
        return view_renamed(state, step.name, step.new_name, step.namespace)
    if isinstance(step, CreateNamespaceStep):
        return namespace_created(state, namespace_from_plain(step.namespace))
    if isinstance(step, ReplaceNamespaceStep):
        old, new = namespace_from_plain(step.before), namespace_from_plain(step.after)
        if catalog.namespaces.get(old.name) != old:
            raise SchemaChanged(f"schema {old.name} has been changed or dropped meanwhile")
        return namespace_altered(state, new)
    if isinstance(step, MoveGrantsStep):
        known = catalog.objects().get(step.key)
        return Change() if known is None else access_changed(state, [ObjectRenamed(known, step.new_key)])
    assert isinstance(step, DropNamespaceStep)
    return namespace_dropped(state, step.name, (), ())
