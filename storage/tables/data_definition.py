"""Changes of a store's catalog: DDL statements, one at a time, and COMMITs of transactions that have changed it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from ...model.access.steps import AccessStep
from ...model.alterations import AlterStep
from ...model.clock import HybridClock
from ...model.namespaces import Namespace
from ...model.schema import Table, TableDefinition, View
from ...model.store import Timestamp, TransactionChanges
from ..files.page_cache import PageCache
from ..log.commit_log import CommitLog
from ..tablet.tablet import StoreOptions
from .catalog_commit import CatalogCommit, record_decided
from .changed_catalog import check_relied_on
from .durable_catalog import DurableCatalog
from .table_alteration import Alteration, alter
from .table_creation import create_table
from .table_folders import TableFolders
from .table_store import TableStore

_DROP_PATIENCE = 2.0
"""Seconds that DROP waits for a flush or compaction of the dropped table; housekeeping removes the files later."""


class DataDefinition:
    """Changes the catalog of an open store. Safe for several threads.

    Parameters
    ----------
    catalog : DurableCatalog
    folders : TableFolders
    stores : dict of str to TableStore
        The open tables by id; kept up to date.
    commits : CommitLog
    clock : HybridClock
    cache : PageCache
    options : StoreOptions
    check_open : callable
        Raises `StoreClosed` where the store is closed.

    Attributes
    ----------
    lock : Lock
        Held by each change.
    switch_lock : Lock
        Held while a COMMIT changes rows and the catalog: a transaction begins before it or after it.
    """

    def __init__(
        self,
        catalog: DurableCatalog,
        folders: TableFolders,
        stores: dict[str, TableStore],
        commits: CommitLog,
        clock: HybridClock,
        *,
        cache: PageCache,
        options: StoreOptions,
        check_open: Callable[[], None],
    ):
        self.lock = threading.Lock()
        self.switch_lock = threading.Lock()
        self._catalog = catalog
        self._folders = folders
        self._stores = stores
        self._commits = commits
        self._cache = cache
        self._options = options
        self._check_open = check_open
        begin = partial(Alteration, cache=cache, options=options)
        syncs_logs = options.durability == "os"
        self._commit = CatalogCommit(catalog, folders, stores, commits, clock, begin, syncs_logs)

    def opened(self) -> None:
        """All tables are open: give the commit log the records that a crash kept from it."""
        self._commits.check_settled = self._catalog.check_settled
        if self._catalog.current.decided:
            record_decided(self._catalog, self._commits)
            if not self._catalog.current.decided:
                self._catalog.replace(self._catalog.current)

    def create_table(self, definition: TableDefinition) -> Table:
        """`Store.create_table`."""
        with self.lock:
            self._check_open()
            changed, store = create_table(self._catalog, self._folders, definition)
            self._stores[store.table.id] = store
            self._catalog.current = changed
            return store.table

    def drop_table(self, name: str, views: Collection[str] = ()) -> None:
        """`Store.drop_table`."""
        with self.lock:
            self._check_open()
            table = self._catalog.table(name)
            self._catalog.replace(self._catalog.current.without([name], views))
            self._folders.drop(self._stores.pop(table.id))
        self._folders.remove_dropped(_DROP_PATIENCE)

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> Table:
        """`Store.alter_table`."""
        with self.lock:
            self._check_open()
            catalog = self._catalog
            table = catalog.current.altered_table(name, steps)
            changed = catalog.current.with_altered(name, table)
            catalog.settle()
            store, entry = self._stores[table.id], changed.entries[table.name]
            commit = partial(catalog.write, changed)
            dropped = alter(store, entry, commit, cache=self._cache, options=self._options)
            catalog.current = changed
            self._folders.drop_tablets(table.name, dropped)
        self._folders.remove_dropped(_DROP_PATIENCE)
        return table

    def create_view(self, view: View, replace: bool) -> None:
        """`Store.create_view`."""
        with self.lock:
            self._check_open()
            self._catalog.put_view(view, replace)

    def drop_views(self, names: Collection[str]) -> None:
        """`Store.drop_views`."""
        with self.lock:
            self._check_open()
            self._catalog.drop_views(names)

    def rename_view(self, name: str, new_name: str, namespace: str) -> None:
        """`Store.rename_view`."""
        with self.lock:
            self._check_open()
            self._catalog.rename_view(name, new_name, namespace)

    def change_access(self, steps: Sequence[AccessStep]) -> None:
        """`Store.change_access`."""
        with self.lock:
            self._check_open()
            self._catalog.replace(self._catalog.current.with_access(steps))

    def create_namespace(self, namespace: Namespace) -> None:
        """`Store.create_namespace`."""
        with self.lock:
            self._check_open()
            self._catalog.replace(self._catalog.current.with_namespace(namespace))

    def drop_namespace(self, name: str, tables: Collection[str] = (), views: Collection[str] = ()) -> None:
        """`Store.drop_namespace`."""
        with self.lock:
            self._check_open()
            current = self._catalog.current
            dropped = [current.entries[table].table.id for table in tables if table in current.entries]
            self._catalog.replace(current.without_namespace(name, tables, views))
            for id_ in dropped:
                self._folders.drop(self._stores.pop(id_))
        self._folders.remove_dropped(_DROP_PATIENCE)

    def settle(self) -> None:
        """Write the catalog again where a write has failed; `DiskError` while the disk refuses."""
        if not self._catalog.is_durable:
            with self.lock:
                self._catalog.settle()

    # ---- transactions --------------------------------------------------------------------------------------------

    def take_table_number(self) -> int:
        """A number for a table that a transaction creates."""
        with self.lock:
            self._check_open()
            number = self._catalog.current.next_table
            self._catalog.current = replace(self._catalog.current, next_table=number + 1)
            return number

    def validate(self, changes: TransactionChanges) -> None:
        """Raise `SerializationFailure` where something has changed that a transaction has read of the catalog."""
        if changes.catalog is not None:
            check_relied_on(self._catalog.current, changes.catalog)

    def commit(self, changes: TransactionChanges) -> Timestamp:
        """`Store.commit_transaction` with changes of the catalog."""
        for write in changes.writes:
            store = self._stores.get(write.table.id)
            if store is not None:  # None: the transaction has created the table
                store.check_quota(write.batch.ops)
        with self.lock, self.switch_lock:
            self._check_open()
            timestamp = self._commit.run(changes)
        self._folders.remove_dropped(_DROP_PATIENCE)
        return timestamp
