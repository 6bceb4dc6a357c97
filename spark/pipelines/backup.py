"""Backups of a store: one snapshot of it, then its changes since.

1. The snapshot timestamp is chosen: everything at or before it is saved, nothing later.
2. Spark's workers write one Parquet file for each tablet: its rows or, if there is an earlier backup to continue, every
   change after that backup's snapshot. They return rows, bytes and checksums. A table that the earlier backup lacks is
   saved as of that backup's snapshot, with its changes since. It too can then be restored as of any time between.
3. The manifest names the files. It is written last: a job that fails leaves a folder without one, which the next
   backup removes.
"""

from __future__ import annotations

import datetime
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...driver.connection import connect
from ...driver.stores.cluster_url import servers
from ...driver.stores.open_stores import is_cluster
from ...driver.stores.served_directory import reachable
from ...errors import (
    HistoryGone,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    StoreLocked,
    UnknownTable,
    did_you_mean,
)
from ...model.change_columns import change_columns
from ...model.clock import format_timestamp
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import Store, Timestamp
from ...model.version import __version__
from ...sql.binding.tables.show_create import create_table_text
from ...storage.files.os_filesystem import OsFileSystem
from ..session import check_classic
from .backups import manifest
from .backups.chains import chains
from .backups.manifest import Backup, SavedFile, SavedTable
from .backups.tasks import SaveTask, damage, save
from .jobs import Handler, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIDDEN = "_nyala_"
"""Prefix of the names of tables with nyala's own data."""


@dataclass(frozen=True, slots=True)
class BackupResult:
    """The result of a backup: its manifest, its folder, its duration."""

    backup: Backup
    folder: Path
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**describe(self.backup), "folder": str(self.folder), "seconds": self.seconds}


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
    spark: SparkSession,
    target: str | Path,
    destination: str | Path,
    tables: Sequence[str] | None = None,
    *,
    full: bool = False,
    progress: Handler | None = None,
) -> BackupResult:
    """Saves tables into a directory.

    Parameters
    ----------
    target : str or Path
        The store: the URL of a cluster or a directory.
    destination : str or Path
        A directory that all workers reach under this name; created if it does not exist.
    tables : sequence of str, optional
        The tables to save; by default those of the previous backup, or all tables and views.
    full : bool
        Saves all rows even if there is an earlier backup to continue.
    progress : callable, optional
        Called with `jobs.Progress`.

    Raises
    ------
    HistoryGone
        If the store no longer has the changes since the last backup: a full one is needed.
    UnknownTable
        If a named table does not exist.
    InterfaceError
        If the last backup is of another store.
    StoreLocked
        If another backup is being written into the directory.
    """
    check_classic(spark, "backup")
    started = time.monotonic()
    place = Path(destination).expanduser().absolute()
    place.mkdir(parents=True, exist_ok=True)
    url = reachable(target)
    with _locked(place), connect(url) as connection:
        store = connection.store
        source = BackupSource.of(target, store)
        parent = None if full else _parent(place, source)
        chosen, all_tables = _chosen(store, parent, tables)
        number = _clear(place) + 1
        folder = place / manifest.folder_name(number)
        folder.mkdir()
        try:
            made = _write(spark, url, store, source, folder, number, parent, chosen, all_tables, progress)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return BackupResult(made, folder, time.monotonic() - started)


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


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Locks the directory for one backup at a time: a backup removes the remains of failed ones."""
    try:
        lock = OsFileSystem().lock(str(place / manifest.LOCK))
    except StoreLocked:
        raise StoreLocked(f"another backup is being written into {place}; wait until it has ended") from None
    try:
        yield
    finally:
        lock.release()


def _parent(place: Path, source: BackupSource) -> Backup | None:
    """The backup to continue, which is the last one; None if there is none yet."""
    backups = manifest.read_all(place)
    if not backups:
        return None
    last = backups[-1]
    if not source.is_that_of(last):
        raise InterfaceError(
            f"{place} holds backups of {last.source}, not of {source.name}; give another directory, or --full to "
            "start a new chain"
        )
    if not any(chain.backups[-1] is last for chain in chains(backups)):
        raise OperationalError(
            f"backup {last.number} in {place} continues one that no longer exists; make a full one: --full"
        )
    return last


def _clear(place: Path) -> int:
    """Removes the remains of failed backups; returns the highest number used so far."""
    folders = manifest.backup_folders(place)
    for folder in folders:
        if not (folder / manifest.NAME).exists():
            shutil.rmtree(folder, ignore_errors=True)
    return max((int(folder.name) for folder in folders), default=0)


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


# ---- writing ---------------------------------------------------------------------------------------------------------


def _write(
    spark: SparkSession,
    url: str,
    store: Store,
    source: BackupSource,
    folder: Path,
    number: int,
    parent: Backup | None,
    chosen: Sequence[Table],
    all_tables: bool,
    progress: Handler | None,
) -> Backup:
    snapshot = store.now()
    tablets = {table.id: store.describe_tablets(table) for table in chosen}
    sized = [
        (tablet.bytes, task)
        for table in chosen
        for tablet in tablets[table.id]
        for task in _tasks(url, table, tablet.id, folder, parent, snapshot)
    ]
    sized.sort(key=lambda one: one[0], reverse=True)  # a large tablet started last would delay the end
    files = _run(spark, [task for _, task in sized], parent, progress)
    saved = tuple(
        SavedTable(
            definition=table,
            statement=create_table_text(table),
            tablets=tuple(tablet.id for tablet in tablets[table.id]),
            base=_base(table, parent, snapshot),
            files=tuple(file for task, file in files if task.table.id == table.id),
        )
        for table in chosen
    )
    made = Backup(
        number=number,
        id=uuid.uuid4().hex,
        parent=None if parent is None else parent.id,
        since=None if parent is None else parent.snapshot,
        snapshot=snapshot,
        finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        source=source.name,
        store_id=source.store_id,
        nyala=__version__,
        all_tables=all_tables,
        tables=saved,
        views=tuple(store.views()) if all_tables else (),
    )
    manifest.write(folder, made, format_timestamp(snapshot))
    manifest.sync_directory(folder.parent)
    return made


def _base(table: Table, parent: Backup | None, snapshot: Timestamp) -> Timestamp | None:
    """The snapshot timestamp at which a table's rows are saved; None: its changes continue the parent."""
    if parent is None:
        return snapshot
    return parent.snapshot if parent.table_by_id(table.id) is None else None


def _tasks(
    url: str, table: Table, tablet: str, folder: Path, parent: Backup | None, snapshot: Timestamp
) -> Iterator[SaveTask]:
    """The tasks for the tablets of a table."""
    base = _base(table, parent, snapshot)
    directory = f"tables/{table.id}"
    if base is not None:
        yield SaveTask(url, table, tablet, None, base, str(folder), directory)
    if parent is not None:
        for column in change_columns(snapshot):
            if column.name in table.schema:
                raise ProgrammingError(
                    f"table {table.name} itself has a column {column.name}, so its changes cannot be read; rename "
                    "it, or make full backups: --full"
                )
        yield SaveTask(url, table, tablet, parent.snapshot, snapshot, str(folder), directory)


def _run(
    spark: SparkSession, tasks: Sequence[SaveTask], parent: Backup | None, progress: Handler | None
) -> list[tuple[SaveTask, SavedFile]]:
    """Executes the tasks; returns the files by path."""
    step = "saving rows" if parent is None else "saving changes"
    try:
        found = run_tasks(spark, step, tasks, save, progress, _rows)
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


# ---- looking at them -------------------------------------------------------------------------------------------------


def verify(
    spark: SparkSession, destination: str | Path, progress: Handler | None = None
) -> tuple[list[Backup], list[str]]:
    """Reads every file of every backup and compares it with its manifest; returns the backups, and the faults by
    number.

    A backup that continues a missing one is also faulty.
    """
    check_classic(spark, "verify")
    place = Path(destination).expanduser().absolute()
    backups = manifest.read_all(place)
    whole = {backup.id for chain in chains(backups) for backup in chain.backups}
    wrong = [
        f"backup {backup.number} continues one that does not exist, and cannot be restored"
        for backup in backups
        if backup.id not in whole
    ]
    files = [(str(backup.folder(place) / file.path), file) for backup in backups for file in backup.files]
    faults = run_tasks(spark, "reading files", files, damage, progress)
    return backups, wrong + [each for each in faults if each is not None]
