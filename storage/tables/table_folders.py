"""The folders under DIR/tables: opening those of the catalog's tables, making one, removing what no catalog names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack

from ...errors import DiskError
from ...model.clock import HybridClock
from ..files.filesystem import FileSystem
from ..files.page_cache import PageCache
from ..log.commit_log import CommitLog
from ..tablet.tablet import StoreOptions, Tablet
from .catalog import Catalog, CatalogEntry
from .damage_notes import DamageNotes
from .dropped_folders import DroppedFolders
from .table_store import TableStore

_log = logging.getLogger("nyala.storage")


class TableFolders:
    """Opens, makes and drops the tables of a store. Safe for several threads, but for the creation of one table twice.

    Parameters
    ----------
    fs : FileSystem
    directory : str
        DIR/tables.
    cache, clock, options
        What all tablets share.
    pool : Executor
        For work that several tablets do at once.
    commits : CommitLog
        The store's, which decides on writes over several tablets.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        cache: PageCache,
        clock: HybridClock,
        options: StoreOptions,
        pool: Executor,
        commits: CommitLog,
    ):
        self._fs = fs
        self._directory = directory
        self._cache = cache
        self._clock = clock
        self._options = options
        self._pool = pool
        self._commits = commits
        self._dropped = DroppedFolders(fs)

    def open_all(self, catalog: Catalog) -> dict[str, TableStore]:
        """Open all tables of the catalog, by id; remove the folders that no table owns."""
        by_id = {entry.table.id: entry for entry in catalog.entries.values()}
        for name in self._fs.list(self._directory):
            if name not in by_id:
                self._remove_unowned(name, catalog.next_table)
        stores: dict[str, TableStore] = {}
        with ExitStack() as stack:
            for table_id, entry in by_id.items():
                stores[table_id] = store = self._open(entry)
                stack.callback(store.close)
            stack.pop_all()
        return stores

    def opened(self, stores: Mapping[str, TableStore]) -> None:
        """Complete the opening, with the tables in `stores` (by id, kept up to date): open the commit log, and put
        tablets with undecidable writes into quarantine. Later damage is reported with the tables' names."""
        self._commits.opened()
        if self._commits.damage is not None:
            for store in stores.values():
                store.set_undecided_aside(self._commits.damage)
        self._cache.on_damage = DamageNotes(stores)

    def _remove_unowned(self, name: str, next_table: int) -> None:
        """Remove a folder that a crash left of a CREATE or a DROP. One with data whose table the catalog cannot know
        yet is kept: the catalog was perhaps restored from an older backup than the tables."""
        path = f"{self._directory}/{name}"
        if _table_number(name) >= next_table and _has_rows(self._fs, path):
            message = "%s is not in the catalog, holds rows and is left alone: is the catalog of an older backup?"
            _log.error(message, path)
            return
        try:
            self._fs.remove_tree(path)
            _log.info("removed %s, which no table owns: left of a CREATE or DROP", path)
        except DiskError as error:
            _log.warning("%s, which no table owns, cannot be removed: %s", path, error)

    def free_number(self, next_table: int) -> int:
        """The first number at or above `next_table` above those of all folders that there are."""
        return max([next_table, *(_table_number(name) + 1 for name in self._fs.list(self._directory))])

    def make(self, entry: CatalogEntry) -> TableStore:
        """Make the files of a new table and open it; an error leaves nothing of them."""
        directory = f"{self._directory}/{entry.table.id}"
        try:
            self._fs.make_directory(directory)
            TableStore.create(self._fs, directory, entry)
            self._fs.sync_directory(self._directory)
            return self._open(entry)
        except BaseException:
            self._dropped.add(f"table {entry.table.name}, which could not be created", directory)
            raise

    def _open(self, entry: CatalogEntry) -> TableStore:
        directory = f"{self._directory}/{entry.table.id}"
        return TableStore.open(
            self._fs,
            directory,
            entry,
            cache=self._cache,
            clock=self._clock,
            options=self._options,
            pool=self._pool,
            commits=self._commits,
        )

    # ---- what is dropped -----------------------------------------------------------------------------------------

    def drop(self, store: TableStore, may_go: Callable[[], bool] = lambda: True) -> None:
        """Have the files of a table removed that the catalog has no more; `may_go` as for `DroppedFolders.add`."""
        self._dropped.add(f"dropped table {store.table.name}", store.directory, store.tablets, may_go)

    def drop_tablets(self, table: str, tablets: Sequence[Tablet]) -> None:
        """Have the files of tablets removed whose range partitions were dropped from the table of this name."""
        for tablet in tablets:
            label = f"tablet {tablet.id} of table {table}, whose range partition was dropped"
            self._dropped.add(label, tablet.directory, [tablet])

    def remove_dropped(self, patience: float = 0.0) -> None:
        """Remove what can be removed of it now: `DroppedFolders.remove_free`."""
        self._dropped.remove_free(patience)

    @property
    def dropped_count(self) -> int:
        """Number of folders still to be removed."""
        return len(self._dropped)

    def close(self) -> None:
        """Remove all folders that can be removed, even with readers: the store is closed."""
        self._cache.on_damage = None  # it refers to the tables, which refer to the cache
        self._dropped.close()


def _table_number(name: str) -> int:
    """The number in the name of a table's folder; -1 where it has none."""
    digits = name.removeprefix("t")
    return int(digits) if name.startswith("t") and digits.isdecimal() else -1


def _has_rows(fs: FileSystem, path: str) -> bool:
    """True if a table's folder has log segments or files of rowsets: a CREATE TABLE that a crash ended has none."""
    try:
        folders = [f"{path}/{tablet}/{part}" for tablet in fs.list(path) for part in ("wal", "rowsets")]
        return any(fs.exists(folder) and fs.list(folder) for folder in folders)
    except DiskError:
        return False
