"""The catalog in memory, built from the rows of the system tablet. Immutable: a `Change` makes a new state.

rows ──from_records──► CatalogState ──applied(change)──► CatalogState
                           ▲                                  ║
                           ╚═══════ the same, from the rows after the change
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from ....model.access.tokens import TokenKey
from ....model.lazy_dataclass import dataclass
from ....storage.tables.catalog import Catalog
from ...wire.security.users import Rights
from .records import (
    AbsenceRecord,
    AccessRecord,
    CallRecord,
    Change,
    ClusterRecord,
    DroppedRecord,
    Key,
    NamespaceRecord,
    Record,
    ServerRecord,
    TableRecord,
    TabletRecord,
    ViewRecord,
)


class Fate(enum.Enum):
    """The decision of the catalog about a reported replica. ALIEN: its origin is unknown here, so it is left alone."""

    KEPT = enum.auto()
    DROPPED = enum.auto()
    ALIEN = enum.auto()


@dataclass(frozen=True, eq=False)
class CatalogState:
    """The durable state.

    Attributes
    ----------
    cluster : ClusterRecord or None
        None before the first master ever led.
    tables, dropped : by table id
    tablets : by tablet id
    leaving : tablet servers that are to lose their replicas, by id
    absent : tablet servers in maintenance, by id
    calls : by (client, sequence)
    catalog : Catalog
        Tables and views by name, as DDL sees them; users and grants.
    rights_version, token_keys
        As of `AccessRecord`.
    """

    cluster: ClusterRecord | None = None
    tables: Mapping[str, TableRecord] = field(default_factory=dict)
    dropped: Mapping[str, DroppedRecord] = field(default_factory=dict)
    tablets: Mapping[str, TabletRecord] = field(default_factory=dict)
    leaving: Mapping[str, ServerRecord] = field(default_factory=dict)
    absent: Mapping[str, AbsenceRecord] = field(default_factory=dict)
    calls: Mapping[tuple[str, int], CallRecord] = field(default_factory=dict)
    catalog: Catalog = field(default_factory=Catalog)
    rights_version: int = 0
    token_keys: tuple[TokenKey, ...] = ()

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> CatalogState:
        """Returns the state of a system tablet with these rows."""
        return cls().applied(Change(tuple(records)))

    def applied(self, change: Change) -> CatalogState:
        """Returns the state after a change."""
        parts = _Parts(self)
        for key in change.removes:
            parts.remove(key)
        for record in change.puts:
            parts.put(record)
        return parts.state()

    @property
    def rights(self) -> Rights:
        """Users, grants and keys, by which servers check callers."""
        return Rights(self.rights_version, self.catalog.access, self.token_keys)

    # ---- questions -------------------------------------------------------------------------------------------------

    def table(self, name: str) -> TableRecord:
        """Returns a table by name; `UnknownTable` suggests similar names."""
        return self.tables[self.catalog.table(name).id]

    def fate(self, table_id: str, tablet_id: str) -> Fate:
        """Returns the fate of a replica of a tablet that claims to belong to this table."""
        if tablet_id in self.tablets:
            return Fate.KEPT
        table = self.tables.get(table_id)
        if table_id in self.dropped or (table is not None and table.has_dropped(tablet_id)):
            return Fate.DROPPED
        return Fate.ALIEN


_PARTS = {"tablet": "tablets", "dropped": "dropped", "server": "leaving", "absence": "absent"}
"""Parts of the state by kind of record, where the keys are ids."""


class _Parts:
    """A state under change: each part is copied once, when a change affects it."""

    def __init__(self, state: CatalogState):
        self._state = state
        self._changed: dict[str, Any] = {}
        self._entries = dict(state.catalog.entries)
        self._views = dict(state.catalog.views)
        self._namespaces = dict(state.catalog.namespaces)
        self._access = state.catalog.access

    def remove(self, key: Key) -> None:
        kind, id_ = key
        if kind == TableRecord.kind:
            self._forget_name(self._part("tables").pop(id_))
        elif kind == ViewRecord.kind:
            self._views.pop(id_)
        elif kind == NamespaceRecord.kind:
            self._namespaces.pop(id_)
        elif kind == CallRecord.kind:
            client, _, sequence = id_.rpartition("/")
            self._part("calls").pop((client, int(sequence)))
        else:
            self._part(_PARTS[kind]).pop(id_)

    def put(self, record: Record) -> None:
        match record:
            case TableRecord():
                before = self._part("tables").get(record.id)
                if before is not None:
                    self._forget_name(before)
                self._part("tables")[record.id] = record
                self._entries[record.table.name] = record.entry
            case ViewRecord():
                self._views[record.view.name] = record.view
            case NamespaceRecord():
                self._namespaces[record.namespace.name] = record.namespace
            case AccessRecord():
                self._access = record.access
                self._changed |= {"rights_version": record.version, "token_keys": record.keys}
            case CallRecord():
                self._part("calls")[record.client, record.sequence] = record
            case ClusterRecord():
                self._changed["cluster"] = record
            case TabletRecord():
                self._part("tablets")[record.id] = record
            case DroppedRecord():
                self._part("dropped")[record.id] = record
            case ServerRecord():
                self._part("leaving")[record.id] = record
            case AbsenceRecord():
                self._part("absent")[record.id] = record

    def _forget_name(self, record: TableRecord) -> None:
        # A table that was renamed in the same change may have taken the name already.
        entry = self._entries.get(record.table.name)
        if entry is not None and entry.table.id == record.id:
            del self._entries[record.table.name]

    def _part(self, name: str) -> dict[Any, Any]:
        if name not in self._changed:
            self._changed[name] = dict(getattr(self._state, name))
        part: dict[Any, Any] = self._changed[name]
        return part

    def state(self) -> CatalogState:
        cluster = self._changed.get("cluster", self._state.cluster)
        version, next_table = (0, 1) if cluster is None else (cluster.version, cluster.next_table)
        catalog = Catalog(
            self._entries, version, next_table, self._views, access=self._access, namespaces=self._namespaces
        )
        return replace(self._state, **self._changed, catalog=catalog)
