"""Backups of a store: one snapshot of it, then its changes since.

1. The snapshot timestamp is chosen: everything at or before it is saved, nothing later.
2. Tasks write one Parquet file for each tablet: its rows or, if there is an earlier backup to continue, every change
   after that backup's snapshot. They return rows, bytes and checksums. A table that the earlier backup lacks is saved
   as of that backup's snapshot, with its changes since. It too can then be restored as of any time between.
3. The manifest names the files. It is written last: a backup that fails leaves a folder without one, which the next
   backup removes.
"""

from __future__ import annotations

import datetime
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..driver.connection import connect
from ..driver.stores.cluster_url import servers
from ..driver.stores.open_stores import MEMORY, is_cluster
from ..driver.stores.server_processes import holds_store, no_store
from ..errors import (
    HistoryGone,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    UnknownTable,
    did_you_mean,
)
from ..model.change_columns import change_columns
from ..model.clock import format_timestamp
from ..model.lazy_dataclass import dataclass
from ..model.namespaces import DEFAULT_NAMESPACE
from ..model.schema import Table
from ..model.store import Store, Timestamp
from ..model.version import __version__
from ..sql.binding.tables.show_create import create_table_text
from . import manifest
from .chains import chains
from .manifest import Backup, SavedFile, SavedTable
from .places import Place
from .running import THREADS, Handler, OpenStore, Run, Threads
from .tasks import CheckTask, SaveTask, damage, save

HIDDEN = "_nyala_"
"""Prefix of the names of tables with nyala's own data."""


@dataclass(frozen=True, slots=True)
class BackupResult:
    """The result of a backup: its manifest, its folder, its duration."""

    backup: Backup
    folder: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**describe(self.backup), "folder": self.folder, "seconds": self.seconds}


def describe(backup: Backup) -> dict[str, Any]:
    """A summary of a backup, for display and JSON."""
    return {
        "number": backup.number,
        "kind": backup.kind,
        "snapshot": backup.snapshot,
        "snapshot_time": format_timestamp(backup.snapshot),
        "since": backup.since,
        "rows": backup.rows,
        "bytes": backup.bytes,
        "tables": {table.definition.name: table.rows for table in backup.tables},
        "views": [view.name for view in backup.views],
        "source": backup.source,
    }


def backup(
    target: str | Path,
    destination: str | Path,
    tables: Sequence[str] | None = None,
    *,
    full: bool = False,
    threads: int = THREADS,
    progress: Handler | None = None,
    io_rate: int | None = None,
) -> BackupResult:
    """Saves tables into a directory of backups, while the store is in use.

    Parameters
    ----------
    target : str or Path
        The store: the URL of a cluster or a directory, also one that another process serves.
    destination : str or Path
        A directory, or the URL of one (`places`); created if it does not exist.
    tables : sequence of str, optional
        The tables to save; by default those of the previous backup, or all tables and views.
    full : bool
        Saves all rows even if there is an earlier backup to continue.
    threads : int
        Tablets saved at the same time.
    progress : callable, optional
        Called with `running.Progress`.
    io_rate : int, optional
        Bytes per second that are read from the store and written; None: no limit.

    Raises
    ------
    HistoryGone
        If the store no longer has the changes since the last backup: a full one is needed.
    UnknownTable
        If a named table does not exist.
    InterfaceError
        If the last backup is of another store, or the destination's URL is wrong.
    StoreLocked
        If another backup is being written into the directory, or a process has the store open without serving it.
    """
    check_target(target)
    with connect(target) as connection:
        run = Threads(threads, progress, io_rate)
        return save_store(target, lambda: connection.store, Place.of(destination), run, tables, full=full)


def check_target(target: str | Path) -> None:
    """Raises `InterfaceError` for ":memory:", and `OperationalError` for a directory without a store."""
    if str(target) == MEMORY:
        raise InterfaceError("':memory:' is a store of one connection, and ends with it")
    if is_cluster(target):
        return
    path = Path(target).expanduser()
    if not holds_store(path):
        raise OperationalError(no_store(path))


def save_store(
    target: str | Path,
    open_store: OpenStore,
    place: Place,
    run: Run,
    tables: Sequence[str] | None = None,
    *,
    full: bool = False,
) -> BackupResult:
    """`backup` of a store that `open_store` returns, here and in the tasks that `run` executes; `target` names it."""
    started = time.monotonic()
    place.make()
    with place.locked():
        store = open_store()
        source = BackupSource.of(target, store)
        parent = None if full else _parent(place, source)
        chosen, all_tables = _chosen(store, parent, tables)
        folder = manifest.folder_name(_clear(place) + 1)
        place.claim(folder)
        try:
            made = _Writer(source, open_store, place, folder, parent, run).write(chosen, all_tables)
        except BaseException:
            with suppress(OperationalError):
                place.delete(folder)
            raise
    return BackupResult(made, place.path(folder), time.monotonic() - started)


@dataclass(frozen=True, slots=True)
class BackupSource:
    """The source of a backup: a backup continues only backups of the same store."""

    name: str
    store_id: str

    @classmethod
    def of(cls, target: str | Path, store: Store) -> BackupSource:
        """The store behind a target."""
        if is_cluster(target):
            named = ",".join(f"{host}:{port}" for host, port in sorted(servers(str(target))))
            return cls(f"nyala://{named}", str(getattr(store, "cluster_id", "")))
        return cls(str(Path(target).expanduser().resolve()), "")

    def is_that_of(self, backup: Backup) -> bool:
        """True if the backup is of this source. A cluster is identified by its id, whatever its masters; a directory
        by its path."""
        if self.store_id or backup.store_id:
            return self.store_id == backup.store_id
        return self.name == backup.source


def _parent(place: Place, source: BackupSource) -> Backup | None:
    """The backup to continue, which is the last one; None if there is none yet."""
    backups = manifest.read_all(place)
    if not backups:
        return None
    last = backups[-1]
    if not source.is_that_of(last):
        raise InterfaceError(
            f"{place.name} holds backups of {last.source}, not of {source.name}; give another directory, or --full to "
            "start a new chain"
        )
    if not any(chain.backups[-1] is last for chain in chains(backups)):
        raise OperationalError(
            f"backup {last.number} in {place.name} continues one that no longer exists; make a full one: --full"
        )
    return last


def _clear(place: Place) -> int:
    """Removes the remains of failed backups; returns the highest number used so far.

    Without a lock, a folder without a manifest may also be one that another process is writing: it stays.
    """
    folders = manifest.backup_folders(place)
    if place.is_local:
        for folder in folders:
            if not place.exists(f"{folder}/{manifest.NAME}"):
                with suppress(OperationalError):
                    place.delete(folder)
    return max(map(int, folders), default=0)


def _chosen(store: Store, parent: Backup | None, names: Sequence[str] | None) -> tuple[list[Table], bool]:
    """The tables to save, by name; True if these are all tables."""
    with suppress(UnknownTable):
        store.table("")  # no table has this name: a cluster's client refreshes its catalog from the masters
    there = {table.name: table for table in store.tables() if not table.name.startswith(HIDDEN)}
    if names is None and parent is not None and not parent.all_tables:
        saved = {table.definition.id for table in parent.tables}
        return [table for table in there.values() if table.id in saved], False
    if not names:
        return list(there.values()), True
    for name in names:
        if name not in there:
            raise UnknownTable(f"table {name} does not exist{did_you_mean(name, there)}")
    return [table for name, table in there.items() if name in names], False


def _further_namespaces(store: Store) -> tuple[str, ...]:
    return tuple(found.name for found in store.namespaces() if found.name != DEFAULT_NAMESPACE)


# ---- writing ---------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes one backup: its files, then its manifest."""

    def __init__(
        self, source: BackupSource, open_store: OpenStore, place: Place, folder: str, parent: Backup | None, run: Run
    ):
        self._source = source
        self._open_store = open_store
        self._place = place
        self._folder = folder
        self._parent = parent
        self._run = run

    def write(self, chosen: Sequence[Table], all_tables: bool) -> Backup:
        """Saves the tables, and the views if these are all tables."""
        store, parent = self._open_store(), self._parent
        snapshot = store.now()
        tablets = {table.id: store.describe_tablets(table) for table in chosen}
        sized = [
            (tablet.bytes, task)
            for table in chosen
            for tablet in tablets[table.id]
            for task in self._tasks(table, tablet.id, snapshot)
        ]
        sized.sort(key=lambda one: one[0], reverse=True)  # a large tablet started last would delay the end
        files = self._files([task for _, task in sized])
        saved = tuple(
            SavedTable(
                definition=table,
                statement=create_table_text(table),
                tablets=tuple(tablet.id for tablet in tablets[table.id]),
                base=self._base(table, snapshot),
                files=tuple(file for task, file in files if task.table.id == table.id),
            )
            for table in chosen
        )
        made = Backup(
            number=int(self._folder),
            id=uuid.uuid4().hex,
            parent=None if parent is None else parent.id,
            since=None if parent is None else parent.snapshot,
            snapshot=snapshot,
            finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            source=self._source.name,
            store_id=self._source.store_id,
            nyala=__version__,
            all_tables=all_tables,
            tables=saved,
            views=tuple(store.views()) if all_tables else (),
            namespaces=_further_namespaces(store) if all_tables else (),
        )
        if files:
            self._place.sync(f"{self._folder}/tables")
        manifest.write(self._place, made, format_timestamp(snapshot))
        self._place.sync()
        return made

    def _base(self, table: Table, snapshot: Timestamp) -> Timestamp | None:
        """The snapshot timestamp at which a table's rows are saved; None: its changes continue the parent."""
        parent = self._parent
        if parent is None:
            return snapshot
        return parent.snapshot if parent.table_by_id(table.id) is None else None

    def _tasks(self, table: Table, tablet: str, snapshot: Timestamp) -> Iterator[SaveTask]:
        """The tasks for a tablet."""
        base, parent = self._base(table, snapshot), self._parent
        files = (self._open_store, self._place, self._folder, f"tables/{table.id}", table, tablet)
        if base is not None:
            yield SaveTask(*files, since=None, at=base)
        if parent is not None:
            for column in change_columns(snapshot):
                if column.name in table.schema:
                    raise ProgrammingError(
                        f"table {table.name} itself has a column {column.name}, so its changes cannot be read; rename "
                        "it, or make full backups: --full"
                    )
            yield SaveTask(*files, since=parent.snapshot, at=snapshot)

    def _files(self, tasks: Sequence[SaveTask]) -> list[tuple[SaveTask, SavedFile]]:
        """Executes the tasks; returns the files by path."""
        parent = self._parent
        step = "saving rows" if parent is None else "saving changes"
        try:
            found = self._run(step, tasks, save, _rows)
        except HistoryGone as error:
            if parent is None:
                raise
            raise HistoryGone(
                f"the store no longer has all changes since backup {parent.number} "
                f"({format_timestamp(parent.snapshot)}): a full backup is needed, --full ({error})"
            ) from error
        files = [(task, file) for task, file in zip(tasks, found, strict=True) if file is not None]
        return sorted(files, key=lambda one: one[1].path)


def _rows(file: SavedFile | None) -> int:
    return 0 if file is None else file.rows


# ---- verifying -------------------------------------------------------------------------------------------------------


def verify(
    destination: str | Path, *, threads: int = THREADS, progress: Handler | None = None, io_rate: int | None = None
) -> tuple[list[Backup], list[str]]:
    """Reads every file of every backup and compares it with its manifest; returns the backups, and the faults by
    number.

    A backup that continues a missing one is also faulty.
    """
    return verify_files(Place.of(destination), Threads(threads, progress, io_rate))


def verify_files(place: Place, run: Run) -> tuple[list[Backup], list[str]]:
    """`verify` of a place, by the tasks that `run` executes."""
    backups = manifest.read_all(place)
    whole = {backup.id for chain in chains(backups) for backup in chain.backups}
    wrong = [
        f"backup {backup.number} continues one that does not exist, and cannot be restored"
        for backup in backups
        if backup.id not in whole
    ]
    tasks = [CheckTask(place, f"{backup.folder}/{file.path}", file) for backup in backups for file in backup.files]
    return backups, wrong + [fault for fault in run("reading files", tasks, damage) if fault is not None]
