"""ALTER TABLE for an open table: from the catalog to the tablets, concurrent with reads and writes.

1. Tablets of new range partitions are made and opened; their files are durable, but no catalog names them.
2. Every tablet flushes leftovers of an earlier flush, then hands over its locks for flushes and writes: no write is in
   flight. Its log is prepared for rows of the new schema.
3. The catalog is replaced. This commits the ALTER; after a crash the table opens as before or after it, and tablet
   folders that the catalog does not name are removed.
4. The tablets switch to the new schema, and the store its new layout. A MemRowSet with rows of the old schema is
   flushed next. Nothing in this step can fail.
5. Without the locks: the folders of dropped range partitions are removed (`dropped_folders`).

A running scan continues with the schema it began with. A writer that began before the ALTER finds another layout once
it has the locks, and starts again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from ...errors import DiskError
from ..files.page_cache import PageCache
from ..log.wal_format import log_schema
from ..maintenance.tablet_flush import quiet
from ..statistics.table_statistics import StatisticsCache
from ..tablet.tablet import StoreOptions, Tablet
from ..tablet.tablet_metadata import TabletMetadata
from ..tablet.tablet_replay import open_tablet
from .catalog import CatalogEntry
from .table_layout import TableLayout
from .table_store import TableStore


class Alteration:
    """The alteration of one open table, step by step; one of a table at a time. `alter` takes the steps of an ALTER
    TABLE, `catalog_commit` those of a transaction.

    Parameters
    ----------
    store : TableStore
    entry : CatalogEntry
        The table after the alteration, and its tablets (`CatalogEntry.altered`).
    cache, options
        For tablets of new range partitions, which are made at once: `DiskError` where they cannot be.

    Attributes
    ----------
    before, after : TableLayout
    dropped : list of Tablet
        Those of dropped range partitions: nothing is written to them afterwards, but scans may still read them.
    """

    def __init__(self, store: TableStore, entry: CatalogEntry, *, cache: PageCache, options: StoreOptions):
        self._store = store
        self.before = before = store.layout
        _refuse_damaged(before, entry)
        self._made = _make_tablets(store, entry, cache, options)
        tablets = {tablet.id: tablet for tablet in (*before.tablets, *self._made)}
        self.after = TableLayout.of(entry.table, [tablets[tablet_id] for tablet_id in entry.tablet_ids])
        self.dropped = [tablet for tablet in before.tablets if tablet not in self.after.tablets]
        self._kept = [tablet for tablet in before.tablets if tablet in self.after.tablets]
        self._has_new_schema = before.table.schema != entry.table.schema

    def hold_flushes(self, locks: ExitStack) -> None:
        """Flush leftovers of earlier flushes, and hold the `flush_lock`s. Before the `write_lock`s of all tablets and
        the table's `alter_lock` are acquired, which the other steps need."""
        for tablet in self.before.tablets:
            if tablet.damage is None:
                locks.enter_context(quiet(tablet))

    def prepare(self) -> None:
        """Prepare all that may fail, first of all the logs for rows of the new schema. Raises with nothing done."""
        if not self._has_new_schema:
            return
        try:
            for tablet in self._kept:
                for stored in tablet.state.rowsets:
                    stored.deleted.load()  # may read: `set_table` must not
                tablet.decide_all()
                tablet.log.change_schema(log_schema(self.after.table.schema))
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Undo `prepare`: the catalog could not be replaced."""
        if not self._has_new_schema:
            return
        for tablet in self._kept:
            restore = partial(tablet.log.change_schema, log_schema(self.before.table.schema))
            try:
                restore()
            except DiskError:
                self._store.repairs.append(restore)

    def switch(self) -> None:
        """Go over to the new layout; nothing here can fail."""
        store, after = self._store, self.after
        for tablet in self._kept:
            if self._has_new_schema:
                tablet.set_table(after.table, is_log_ready=True)
            else:
                tablet.table = after.table
        if self.dropped:
            store.ranges_dropped_at = store.clock.now()
        store.layout = after
        store.statistics_cache = StatisticsCache(after.table, store.statistics_cache.analysis)

    def close(self, removes_files: bool = False) -> None:
        """Close the new tablets after a failure. Their files stay where a catalog that names them may be on the disk:
        the next ALTER of the table replaces them, or the next opening of the store removes them."""
        _close(self._made)
        for tablet in self._made if removes_files else ():
            with contextlib.suppress(DiskError):
                self._store.fs.remove_tree(tablet.directory)


def alter(
    store: TableStore,
    entry: CatalogEntry,
    commit: Callable[[], None],
    *,
    cache: PageCache,
    options: StoreOptions,
) -> list[Tablet]:
    """Bring an open table to a new state; one alteration of a table at a time. The tablets of dropped range partitions
    are returned: nothing is written to them any more, but scans may still read them.

    Parameters
    ----------
    entry : CatalogEntry
        The table after the alteration, and its tablets (`CatalogEntry.altered`).
    commit : callable
        Replaces the catalog durably; `DiskError` where it cannot.

    Raises `DiskError`: the table is as it was.
    """
    alteration = Alteration(store, entry, cache=cache, options=options)
    try:
        with ExitStack() as locks:
            alteration.hold_flushes(locks)
            for tablet in alteration.before.tablets:
                locks.enter_context(tablet.write_lock)
            locks.enter_context(store.alter_lock)
            alteration.prepare()
            try:
                commit()
            except BaseException:
                alteration.undo()
                raise
            alteration.switch()
    except BaseException:
        alteration.close()
        raise
    return alteration.dropped


def _refuse_damaged(before: TableLayout, entry: CatalogEntry) -> None:
    """Raise `CorruptionError` where columns change and a tablet that stays is in quarantine: its log would have to
    begin a segment for the new ones. Its range partition can be dropped, and others can come and go."""
    if before.table.schema != entry.table.schema:
        for tablet in before.tablets:
            if tablet.damage is not None and tablet.id in entry.tablet_ids:
                tablet.refuse()


def _make_tablets(store: TableStore, entry: CatalogEntry, cache: PageCache, options: StoreOptions) -> list[Tablet]:
    """The tablets of partitions that are new: durable, empty and open."""
    known = {tablet.id for tablet in store.tablets}
    fresh = [tablet_id for tablet_id in entry.tablet_ids if tablet_id not in known]
    made: list[Tablet] = []
    try:
        for tablet_id in fresh:
            # What an ALTER that failed left.
            store.fs.remove_tree(f"{store.directory}/{tablet_id}")
            Tablet.create(store.fs, f"{store.directory}/{tablet_id}", tablet_id)
        if fresh:
            store.fs.sync_directory(store.directory)
        for tablet_id in fresh:
            path = f"{store.directory}/{tablet_id}"
            metadata = TabletMetadata.read(store.fs, path)
            made.append(
                open_tablet(
                    store.fs,
                    path,
                    entry.table,
                    metadata,
                    cache=cache,
                    clock=store.clock,
                    options=options,
                    commits=store.commits,
                )
            )
    except BaseException:
        _close(made)
        raise
    return made


def _close(made: Sequence[Tablet]) -> None:
    for tablet in made:
        with contextlib.suppress(DiskError):
            tablet.close()
