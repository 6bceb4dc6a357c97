"""DDL and its consequences, as pure functions from a `CatalogState` to the `Change` that makes it durable.

    CREATE TABLE    table CREATING, its tablets on the chosen servers
    ALTER TABLE     table ALTERING in its new version, new ranges' tablets; dropped ranges' tablets are removed. Tablets
                    reach another number of replicas by the repair (`balance.repair`), one change at a time
    DROP TABLE      table and tablets are removed, a `dropped` row stays
    ───────────
    settled         table RUNNING, once every tablet serves its newest version; configurations as reported
    replaced        a new table's tablets that no server could serve, with other ids on other servers

Each change is one entry of the system tablet's log: a master that dies leaves all of it or nothing. The rows show the
work that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ....model.access.steps import AccessStep
from ....model.access.tokens import TokenKey
from ....model.alterations import AlterStep, SetReplicas
from ....model.namespaces import Namespace
from ....model.schema import TableDefinition, View
from ....storage.tables.catalog import Catalog, CatalogEntry
from ...raft.messages import Configuration
from ..directory import Observed
from .catalog_state import CatalogState
from .records import (
    AccessRecord,
    CallRecord,
    Change,
    DroppedRecord,
    Key,
    NamespaceRecord,
    Record,
    TableRecord,
    TableState,
    TabletRecord,
    ViewRecord,
)

Place: TypeAlias = Callable[[str, int, int], Sequence[Configuration]]
"""Chooses servers for new tablets: from (table id, number of tablets, replicas of each) to their configurations."""


def created(
    state: CatalogState, definition: TableDefinition, replicas: int, place: Place
) -> tuple[Change, TableRecord]:
    """Adds a table. Raises `InvalidTableDefinition` for an invalid one, `DuplicateTable` if the name is taken."""
    state.catalog.check_new(definition)
    catalog = state.catalog.with_table(definition)
    entry = catalog.entries[definition.name]
    entry = replace(entry, table=replace(entry.table, replicas=definition.replicas))
    record = TableRecord(entry, TableState.CREATING, replicas)
    tablets = _new_tablets(record, record.entry.tablet_ids, place)
    return Change((*_common(state, catalog), record, *tablets)), record


def altered(state: CatalogState, name: str, steps: Sequence[AlterStep], place: Place) -> tuple[Change, TableRecord]:
    """Changes a table to its next version; errors as for `Store.alter_table`."""
    before = state.table(name)
    table = state.catalog.altered_table(name, steps)
    catalog = state.catalog.with_altered(name, table)
    waiting = TableState.CREATING if before.state is TableState.CREATING else TableState.ALTERING
    replicas = next((step.count for step in reversed(steps) if isinstance(step, SetReplicas)), before.replicas)
    record = TableRecord(catalog.entries[table.name], waiting, replicas)
    return Change(_common(state, catalog)) + _with_tablets(before, record, place), record


def dropped(state: CatalogState, name: str, views: Collection[str]) -> Change:
    """Removes a table and some views; names of views that do not exist are ignored."""
    record = state.table(name)
    catalog = state.catalog.without([name], views)
    removes: list[Key] = [record.key, *(("tablet", tablet_id) for tablet_id in record.entry.tablet_ids)]
    removes += [(ViewRecord.kind, view) for view in sorted(set(views)) if view in state.catalog.views]
    return Change((*_common(state, catalog), DroppedRecord(record.id, name)), tuple(removes))


def view_created(state: CatalogState, view: View, is_replacing: bool) -> Change:
    """Adds a view; with `is_replacing` in place of one of its name, otherwise raises `DuplicateTable`."""
    return Change((*_common(state, state.catalog.with_view(view, is_replacing)), ViewRecord(view)))


def views_dropped(state: CatalogState, names: Collection[str]) -> Change:
    """Removes some views; raises `UnknownTable` if one does not exist."""
    state.catalog.check_views(names)
    removes = tuple((ViewRecord.kind, name) for name in sorted(set(names)))
    return Change(_common(state, state.catalog.without((), names)), removes)


def view_renamed(state: CatalogState, name: str, new_name: str, namespace: str) -> Change:
    """Renames a view; errors as for `Store.rename_view`."""
    catalog = state.catalog.with_renamed_view(name, new_name, namespace)
    return Change((*_common(state, catalog), ViewRecord(catalog.views[new_name])), ((ViewRecord.kind, name),))


def namespace_created(state: CatalogState, namespace: Namespace) -> Change:
    """Adds a namespace; raises `DuplicateSchema` if the name is taken."""
    return Change((*_common(state, state.catalog.with_namespace(namespace)), NamespaceRecord(namespace)))


def namespace_altered(state: CatalogState, namespace: Namespace) -> Change:
    """Gives a namespace another owner; errors as for `Transaction.alter_namespace`."""
    catalog = state.catalog.with_altered_namespace(namespace)
    return Change((*_common(state, catalog), NamespaceRecord(namespace)))


def namespace_dropped(state: CatalogState, name: str, tables: Collection[str], views: Collection[str]) -> Change:
    """Removes a namespace with some tables and views; names that do not exist are ignored. Raises `DependentObjects`
    if it has others."""
    catalog = state.catalog.without_namespace(name, tables, views)
    records = [state.table(table) for table in sorted(set(tables)) if table in state.catalog.entries]
    removes: list[Key] = [(NamespaceRecord.kind, name)]
    for record in records:
        removes += [record.key, *(("tablet", tablet_id) for tablet_id in record.entry.tablet_ids)]
    removes += [(ViewRecord.kind, view) for view in sorted(set(views)) if view in state.catalog.views]
    dropped = [DroppedRecord(record.id, record.table.name) for record in records]
    return Change((*_common(state, catalog), *dropped), tuple(removes))


def access_changed(state: CatalogState, steps: Sequence[AccessStep]) -> Change:
    """Changes users, memberships or grants; errors as for `Store.change_access`."""
    return Change(_common(state, state.catalog.with_access(steps)))


def keys_changed(state: CatalogState, keys: tuple[TokenKey, ...]) -> Change:
    """Replaces the keys of tokens."""
    return Change((AccessRecord(state.catalog.access, state.rights_version + 1, keys),))


# ---- what follows --------------------------------------------------------------------------------------------------


def settled(state: CatalogState, observed: Mapping[str, Observed]) -> Change:
    """Records what reports have shown: tables that have become RUNNING, tablets that serve, newer configurations."""
    puts: list[TableRecord | TabletRecord] = []
    for tablet in state.tablets.values():
        seen = observed[tablet.id]
        is_created = tablet.is_created or seen.is_serving
        if is_created != tablet.is_created or seen.configuration.index > tablet.configuration.index:
            puts.append(replace(tablet, configuration=seen.configuration, is_created=is_created))
    for table in state.tables.values():
        if table.state is not TableState.RUNNING and _is_served(table, observed):
            puts.append(replace(table, state=TableState.RUNNING))
    return Change(tuple(puts))


def _is_served(table: TableRecord, observed: Mapping[str, Observed]) -> bool:
    version = table.table.version
    tablets = [observed[tablet_id] for tablet_id in table.entry.tablet_ids]
    return all(tablet.is_serving and tablet.schema_version >= version for tablet in tablets)


def replaced(state: CatalogState, table: TableRecord, tablet_ids: Collection[str], place: Place) -> Change:
    """Replaces tablets that were never served by others; they have no rows."""
    number = table.entry.next_tablet
    tablets: list[str] = []
    for tablet_id in table.entry.tablet_ids:
        if tablet_id in tablet_ids:
            tablet_id = f"{table.id}-p{number:04d}"
            number += 1
        tablets.append(tablet_id)
    record = replace(table, entry=CatalogEntry(table.table, tuple(tablets), number))
    catalog = replace(state.catalog, version=state.catalog.version + 1)
    return Change(_common(state, catalog)) + _with_tablets(table, record, place)


def forgotten_calls(state: CatalogState, now: float, keep_seconds: float) -> Change:
    """Removes calls that are too old to be retried; `now` in seconds since 1970."""
    old = [call.key for call in state.calls.values() if now - call.time > keep_seconds]
    return Change((), tuple(old))


def with_call(state: CatalogState, change: Change, call: CallRecord, first_incomplete: int) -> Change:
    """Adds the record of the call to a change, and removes the calls that its client has completed."""
    done = [
        other.key
        for other in state.calls.values()
        if other.client == call.client and other.sequence < first_incomplete and other.sequence != call.sequence
    ]
    return change + Change((call,), tuple(done))


# ---- parts ---------------------------------------------------------------------------------------------------------


def _common(state: CatalogState, catalog: Catalog) -> tuple[Record, ...]:
    """Returns the rows that a change of the catalog may have to any object: its version, and the grants, which change
    when an object is dropped or has another owner."""
    assert state.cluster is not None, "a master that leads has written it first"
    cluster = replace(state.cluster, version=catalog.version, next_table=catalog.next_table)
    if catalog.access is state.catalog.access:
        return (cluster,)
    return cluster, AccessRecord(catalog.access, state.rights_version + 1, state.token_keys)


def _with_tablets(before: TableRecord, after: TableRecord, place: Place) -> Change:
    """Returns the table's row, with those of new tablets, without those of removed tablets."""
    new = [tablet_id for tablet_id in after.entry.tablet_ids if tablet_id not in before.tablets]
    gone = [tablet_id for tablet_id in before.entry.tablet_ids if tablet_id not in after.tablets]
    return Change((after, *_new_tablets(after, new, place)), tuple((TabletRecord.kind, tablet) for tablet in gone))


def _new_tablets(table: TableRecord, tablet_ids: Sequence[str], place: Place) -> Iterable[TabletRecord]:
    configurations = place(table.id, len(tablet_ids), table.replicas) if tablet_ids else ()
    return [
        TabletRecord(tablet_id, table.id, configuration)
        for tablet_id, configuration in zip(tablet_ids, configurations, strict=True)
    ]
