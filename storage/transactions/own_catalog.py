"""The catalog as a transaction sees it: that of its BEGIN, with its own changes.

Each change makes a new `CatalogState`, so that a savepoint is a reference to one. Tables that the transaction creates
have their permanent ids at once; versions of tables and of the catalog are numbers of the transaction alone until
COMMIT.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

from ...errors import SchemaChanged, SerializationFailure, UnknownTable
from ...model.access.rights import schema_key, secured, view_key
from ...model.access.roles import Access
from ...model.access.steps import AccessStep, ForgetObjects, ObjectRenamed, OwnerChanged
from ...model.alterations import AlterStep, DropColumn, DropRangePartition
from ...model.catalog_changes import CatalogChanges, Named, NamespaceChange, TableChange, ViewChange
from ...model.lazy_dataclass import dataclass
from ...model.namespaces import Namespace
from ...model.schema import Table, TableDefinition, View
from ...model.store import Replica
from ...model.transactions import TableRead
from ..tables.catalog import Catalog, CatalogEntry
from .altered_rows import reads_before
from .altered_source import AlteredTable
from .table_source import NewTable, TableSource

_versions = itertools.count(1)


@dataclass(frozen=True, slots=True, eq=False)
class OwnTable:
    """A table that the transaction has created or altered.

    Parameters
    ----------
    before : CatalogEntry, optional
        As the transaction has found it; None: it has created it.
    versions : tuple of Table
        The table after CREATE, and after each ALTER.
    removes_values : bool
        A column or a range partition was dropped.
    source : NewTable or AlteredTable
        The rows under the transaction's own ones.
    """

    before: CatalogEntry | None
    versions: tuple[Table, ...]
    removes_values: bool
    source: NewTable | AlteredTable


@dataclass(frozen=True, slots=True, eq=False)
class CatalogState:
    """One version of a transaction's catalog.

    Parameters
    ----------
    catalog : Catalog
    own : mapping of str to OwnTable
        By id.
    dropped : mapping of str to Table
        Tables that the transaction has found and dropped, by id.
    version : int
        `Store.catalog_version`.
    access : tuple of AccessStep
        The transaction's changes of users and grants.
    """

    catalog: Catalog
    own: Mapping[str, OwnTable] = field(default_factory=dict)
    dropped: Mapping[str, Table] = field(default_factory=dict)
    version: int = 0
    access: tuple[AccessStep, ...] = ()


class OwnCatalog:
    """The catalog of one transaction, whose lock guards changes.

    Parameters
    ----------
    found : Catalog
        That of BEGIN.
    take_number : callable
        Returns a number for a new table, which no other table gets.
    latest_access : callable
        Returns the users and grants of now, which hold in a transaction that has not changed them.
    """

    def __init__(self, found: Catalog, take_number: Callable[[], int], latest_access: Callable[[], Access]):
        self._found = found
        self._take_number = take_number
        self._latest_access = latest_access
        self.state = CatalogState(found, version=found.version)
        self._names: dict[str, None] = {}
        """Names that were looked up."""
        self._is_listed = False
        self._is_view_bound = False
        """True if a view was created: what its names stood for counts."""

    @property
    def has_changes(self) -> bool:
        """True if the transaction has changed it."""
        return self.state.catalog is not self._found

    @property
    def version(self) -> int:
        """`Store.catalog_version`."""
        return self.state.version

    @property
    def access(self) -> Access:
        """Users and grants: a right that is revoked elsewhere is lost in the transaction, too.

        Raises `SerializationFailure` where the transaction has changed them, and another one has, too.
        """
        latest = self._latest_access()
        if not self.state.access:
            return latest
        if latest is not self._found.access:
            raise SerializationFailure(
                "users or grants were changed by another transaction after this one began; retry the transaction"
            )
        return self.state.catalog.access

    # ---- what there is -------------------------------------------------------------------------------------------

    def tables(self) -> Sequence[Table]:
        """All tables by name, ascending."""
        self._is_listed = True
        return self.state.catalog.tables()

    def table(self, name: str) -> Table:
        """One table; `UnknownTable` names close ones."""
        self._names[name] = None
        return self.state.catalog.table(name)

    def views(self) -> Sequence[View]:
        """All views by name, ascending."""
        self._is_listed = True
        return self.state.catalog.all_views()

    def view(self, name: str) -> View | None:
        """One view; None where there is none of that name."""
        self._names[name] = None
        return self.state.catalog.views.get(name)

    def namespaces(self) -> Sequence[Namespace]:
        """All namespaces by name, ascending. Each statement reads them, and looks up its names afterwards: the
        look-ups count for SERIALIZABLE, and this list does not."""
        return self.state.catalog.all_namespaces()

    def source(self, table: Table) -> TableSource | None:
        """The rows of a table that the transaction has created or altered; None for other tables."""
        own = self.state.own.get(table.id)
        return None if own is None else own.source

    def latest(self, table: Table) -> Table:
        """The present version of a table that the transaction has created or altered, or the table itself.
        `UnknownTable` where the transaction has dropped it."""
        own = self.state.own.get(table.id)
        if own is not None:
            return own.versions[-1]
        if table.id in self.state.dropped:
            raise UnknownTable(f"table {table.name} has been dropped")
        return table

    def conflict(self, table: Table, error: UnknownTable | SchemaChanged) -> Exception:
        """`SerializationFailure` for the store's error about a table of BEGIN, which another transaction has altered or
        dropped since; the error itself otherwise."""
        entry = self._found_entry(table.id)
        if entry is None or self.latest(entry.table).version != table.version:
            return error
        what = "dropped" if isinstance(error, UnknownTable) else "altered"
        return SerializationFailure(
            f"table {table.name} was {what} by another transaction after this one began; retry the transaction"
        )

    def conflict_at_commit(self, error: UnknownTable | SchemaChanged) -> Exception:
        """`conflict` for an error of the COMMIT."""
        return SerializationFailure(f"{error}; retry the transaction")

    # ---- changes -------------------------------------------------------------------------------------------------

    def _change(
        self,
        catalog: Catalog,
        own: Mapping[str, OwnTable] | None = None,
        dropped: Mapping[str, Table] | None = None,
        access: Sequence[AccessStep] = (),
    ) -> None:
        state = self.state
        version = -next(_versions)
        self.state = CatalogState(
            catalog,
            state.own if own is None else own,
            state.dropped if dropped is None else dropped,
            version,
            (*state.access, *access),
        )

    def create_table(self, definition: TableDefinition) -> Table:
        """`Store.create_table`."""
        catalog = self.state.catalog
        catalog.check_new(definition)
        changed = replace(catalog, next_table=self._take_number()).with_table(definition)
        entry = changed.entries[definition.name]
        source = NewTable(entry, _place())
        own = OwnTable(None, (entry.table,), False, source)
        self._change(changed, {**self.state.own, entry.table.id: own})
        return entry.table

    def drop_table(self, name: str, views: Collection[str] = ()) -> Table:
        """`Store.drop_table`; the table that is dropped."""
        state = self.state
        table = state.catalog.table(name)
        own = {id_: other for id_, other in state.own.items() if id_ != table.id}
        found = self._found_entry(table.id)
        dropped = state.dropped if found is None else {**state.dropped, table.id: found.table}
        self._change(state.catalog.without([name], views), own, dropped, _forgotten(views))
        return table

    def alter_table(self, name: str, steps: Sequence[AlterStep], store: TableSource) -> Table:
        """`Store.alter_table`; `store` has the rows."""
        state = self.state
        table = replace(state.catalog.altered_table(name, steps), version=-next(_versions))
        changed = state.catalog.with_altered(name, table)
        entry = changed.entries[table.name]
        known = state.own.get(table.id)
        removes = any(isinstance(step, DropColumn | DropRangePartition) for step in steps)
        if known is None:
            found = state.catalog.entries[name]
            source: NewTable | AlteredTable = AlteredTable(store, found, entry, _place())
            own = OwnTable(found, (table,), removes, source)
        else:
            numbers = known.source.numbers
            if known.before is None:
                source = NewTable(entry, _place(), numbers)
            else:
                source = AlteredTable(store, known.before, entry, _place(), numbers)
            own = OwnTable(known.before, (*known.versions, table), known.removes_values or removes, source)
        given = _owner_changed(table.id, state.catalog.table(name).owner, table.owner)
        self._change(changed, {**state.own, table.id: own}, access=given)
        return table

    def create_view(self, view: View, replaces: bool) -> None:
        """`Store.create_view`."""
        catalog = self.state.catalog
        changed = catalog.with_view(view, replaces)
        self._is_view_bound = True
        before = catalog.views.get(view.name, view)
        self._change(changed, access=_owner_changed(view_key(view.name), before.owner, view.owner))

    def drop_views(self, names: Collection[str]) -> None:
        """`Store.drop_views`."""
        catalog = self.state.catalog
        catalog.check_views(names)
        self._change(catalog.without((), names), access=_forgotten(names))

    def rename_view(self, name: str, new_name: str, namespace: str) -> None:
        """`Store.rename_view`."""
        catalog = self.state.catalog
        changed = catalog.with_renamed_view(name, new_name, namespace)
        self._change(changed, access=[ObjectRenamed(secured(catalog.views[name]), view_key(new_name))])

    def change_access(self, steps: Sequence[AccessStep]) -> None:
        """`Store.change_access`."""
        self._change(self.state.catalog.with_access(steps), access=steps)

    def create_namespace(self, namespace: Namespace) -> None:
        """`Store.create_namespace`."""
        self._change(self.state.catalog.with_namespace(namespace))

    def alter_namespace(self, namespace: Namespace) -> None:
        """`Transaction.alter_namespace`."""
        changed = self.state.catalog.with_altered_namespace(namespace)
        before = self.state.catalog.namespaces[namespace.name]
        self._change(changed, access=_owner_changed(schema_key(before.name), before.owner, namespace.owner))

    def drop_namespace(self, name: str, tables: Collection[str], views: Collection[str]) -> list[Table]:
        """`Store.drop_namespace`; the tables that are dropped."""
        found = self.state
        found.catalog.without_namespace(name, tables, views)  # raises where it cannot be dropped
        dropped = [self.drop_table(table) for table in tables]
        forgotten = ForgetObjects((*(view_key(view) for view in views), schema_key(name)))
        self._change(self.state.catalog.without_namespace(name, tables, views), access=[forgotten])
        return dropped

    def go_back(self, state: CatalogState) -> None:
        """Return to an earlier state."""
        self.state = state

    def _found_entry(self, table_id: str) -> CatalogEntry | None:
        return next((entry for entry in self._found.entries.values() if entry.table.id == table_id), None)

    # ---- COMMIT --------------------------------------------------------------------------------------------------

    def changes(self, validates_reads: bool) -> CatalogChanges | None:
        """Everything for COMMIT; None where it needs nothing.

        Parameters
        ----------
        validates_reads : bool
            Of a SERIALIZABLE transaction that changes something: what it has looked up and listed must be unchanged.
        """
        if not self.has_changes and not validates_reads:
            return None
        tables = self._table_changes()
        views = self._view_changes()
        changed = {view.name for view in views}
        for change in tables:
            changed |= {table.name for table in (change.before, change.after) if table is not None}
        relied_on: dict[str, Named] = {}
        if validates_reads or (views and self._is_view_bound):
            for name in self._names:
                named = self._found_named(name)
                if name not in changed and (validates_reads or named is not None):
                    relied_on[name] = named
        known_names = None
        if validates_reads and self._is_listed:
            known_names = {*self._found.entries, *self._found.views, *changed}
            relied_on |= {name: self._found_named(name) for name in known_names if name not in changed}
        is_needed = any(change.before is not None for change in tables)
        known_views = self._found.views if is_needed else None
        changed_namespaces = self._namespace_changes()
        return CatalogChanges(tables, views, relied_on, known_names, known_views, self.state.access, changed_namespaces)

    def reads_before(self, read: TableRead) -> Iterator[TableRead]:
        """A read in terms of the table at BEGIN; none of a table that there was not."""
        own = self.state.own.get(read.table.id)
        found = self._found_entry(read.table.id)
        if found is not None and (own is not None or read.table.id in self.state.dropped):
            yield from reads_before([read], found.table)
        elif own is None:
            yield read

    def _found_named(self, name: str) -> Named:
        entry = self._found.entries.get(name)
        return self._found.views.get(name) if entry is None else entry.table

    def _table_changes(self) -> tuple[TableChange, ...]:
        state = self.state
        changes = [TableChange(table, (), True) for table in state.dropped.values()]
        for own in state.own.values():
            before = None if own.before is None else own.before.table
            changes.append(TableChange(before, own.versions, own.removes_values))
        return tuple(changes)

    def _view_changes(self) -> tuple[ViewChange, ...]:
        found, now = self._found.views, self.state.catalog.views
        return tuple(
            ViewChange(name, found.get(name), now.get(name))
            for name in sorted({*found, *now})
            if found.get(name) != now.get(name)
        )

    def _namespace_changes(self) -> tuple[NamespaceChange, ...]:
        found, now = self._found.namespaces, self.state.catalog.namespaces
        return tuple(
            NamespaceChange(name, found.get(name), now.get(name))
            for name in sorted({*found, *now})
            if found.get(name) != now.get(name)
        )


def _owner_changed(key: str, before: str, after: str) -> list[AccessStep]:
    return [] if before == after else [OwnerChanged(key, before, after)]


def _forgotten(views: Collection[str]) -> list[AccessStep]:
    return [ForgetObjects(tuple(view_key(name) for name in views))] if views else []


def _place() -> Replica:
    """The place of tablets that are to be made; they have no directory yet."""
    return Replica(socket.gethostname(), None)
