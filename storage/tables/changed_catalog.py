"""A transaction's changes of the catalog, applied to the catalog of its COMMIT's time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...errors import SerializationFailure, StatementError
from ...model.access.rights import secured, secured_schema
from ...model.access.steps import ObjectRenamed, apply_access_steps, without_objects
from ...model.catalog_changes import CatalogChanges, Named, NamespaceChange, TableChange
from ...model.namespaces import DEFAULT_NAMESPACE, Namespace
from ...model.schema import Table, View
from .catalog import Catalog, CatalogEntry

_RETRY = "after this transaction began; retry the transaction"


def changed_catalog(current: Catalog, changes: CatalogChanges) -> Catalog:
    """The catalog with the changes of a transaction. Raises `SerializationFailure` where another transaction or
    statement has changed the same tables, views or names, or something that the transaction has relied on."""
    check_relied_on(current, changes)
    entries = dict(current.entries)
    names = {entry.table.id: name for name, entry in entries.items()}
    found: list[tuple[TableChange, CatalogEntry | None]] = []
    for change in changes.tables:
        found.append((change, None if change.before is None else _removed(entries, names, change.before)))
    views = dict(current.views)
    namespaces = dict(current.namespaces)
    for namespace in changes.namespaces:
        _check_same_namespace(namespace, namespaces.pop(namespace.name, None))
        if namespace.after is not None:
            namespaces[namespace.name] = namespace.after
    for view in changes.views:
        _check_same(view.name, view.before, views.pop(view.name, None))
    for change, entry in found:
        if change.after is not None:
            _check_free(change.after.name, entries, views)
            after = _altered(change, entry)
            entries[after.table.name] = after
    for view in changes.views:
        if view.after is not None:
            _check_free(view.name, entries, views)
            views[view.name] = view.after
    changed = replace(current, entries=entries, views=views, namespaces=namespaces, version=current.version + 1)
    _check_namespaces(changed, changes)
    return _with_access(current, changed, changes)


def _with_access(current: Catalog, changed: Catalog, changes: CatalogChanges) -> Catalog:
    """The changed catalog with the transaction's changes of users and grants, and without grants on what is gone."""
    created = [change.versions[0] for change in changes.tables if change.before is None and change.versions]
    schemas = [secured_schema(namespace.name, namespace.owner) for namespace in changed.namespaces.values()]
    new = [*map(secured, created), *map(secured, changed.views.values()), *schemas]
    # A view that is created, granted and renamed has its grants under its first name until the step that moves them.
    new += [step.before for step in changes.access if isinstance(step, ObjectRenamed)]
    objects = {**{each.key: each for each in new}, **current.objects()}
    try:
        access = apply_access_steps(current.access, changes.access, objects)
    except StatementError as error:
        raise SerializationFailure(f"{error}: users or grants were changed by another transaction {_RETRY}") from error
    there = changed.objects()
    return replace(changed, access=without_objects(access, [key for key in objects if key not in there]))


def check_relied_on(current: Catalog, changes: CatalogChanges) -> None:
    """Raise `SerializationFailure` where something has changed that the transaction has relied on."""
    for name, before in changes.relied_on.items():
        entry = current.entries.get(name)
        _check_same(name, before, current.views.get(name) if entry is None else entry.table)
    if changes.known_names is not None:
        for name in (*current.entries, *current.views):
            if name not in changes.known_names:
                kind = "table" if name in current.entries else "view"
                raise SerializationFailure(f"{kind} {name} was created by another transaction {_RETRY}")
    if changes.known_views is not None:
        for name, view in current.views.items():
            if changes.known_views.get(name) != view:
                raise SerializationFailure(f"view {name} was created or replaced by another transaction {_RETRY}")


def _removed(entries: dict[str, CatalogEntry], names: Mapping[str, str], before: Table) -> CatalogEntry:
    """Take the entry of a table that is altered or dropped out of the entries."""
    name = names.get(before.id)
    if name is None:
        raise SerializationFailure(f"table {before.name} was dropped by another transaction {_RETRY}")
    entry = entries.pop(name)
    if entry.table != before:
        raise SerializationFailure(f"table {before.name} was altered by another transaction {_RETRY}")
    return entry


def _check_same(name: str, before: Named, now: Named) -> None:
    if isinstance(before, Table) and isinstance(now, Table) and before.id == now.id:
        return
    if before == now:
        return
    shown = before if now is None else now
    kind = "view" if isinstance(shown, View) else "table"
    what = "dropped or renamed" if now is None else "created" if before is None else "replaced"
    raise SerializationFailure(f"{kind} {name} was {what} by another transaction {_RETRY}")


def _check_same_namespace(change: NamespaceChange, now: Namespace | None) -> None:
    if change.before != now:
        what = "dropped" if now is None else "created" if change.before is None else "changed"
        raise SerializationFailure(f"schema {change.name} was {what} by another transaction {_RETRY}")


def _check_namespaces(changed: Catalog, changes: CatalogChanges) -> None:
    """Each new table or view is in a namespace, and no namespace that is dropped has any: others may have dropped or
    filled it."""
    after: list[Table | View | None] = [change.after for change in changes.tables]
    after += [change.after for change in changes.views]
    for namespace in {found.namespace for found in after if found is not None}:
        if namespace != DEFAULT_NAMESPACE and namespace not in changed.namespaces:
            raise SerializationFailure(f"schema {namespace} was dropped by another transaction {_RETRY}")
    for change in changes.namespaces:
        if change.after is None and (left := changed.names_within(change.name)):
            raise SerializationFailure(f"{left[0]} was created by another transaction {_RETRY}")


def _check_free(name: str, entries: Mapping[str, CatalogEntry], views: Mapping[str, View]) -> None:
    for kind, taken in (("table", entries), ("view", views)):
        if name in taken:
            raise SerializationFailure(f"{kind} {name} was created by another transaction {_RETRY}")


def _altered(change: TableChange, entry: CatalogEntry | None) -> CatalogEntry:
    """The entry afterwards, with the tablets of each step: a range partition that was dropped and added again has other
    ones than before."""
    if entry is None or change.before is None:
        return CatalogEntry.of(replace(change.versions[-1], version=0))
    for version in change.versions:
        entry = entry.altered(version)
    return replace(entry, table=replace(entry.table, version=change.before.version + 1))
