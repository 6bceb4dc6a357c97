"""Restores tables from backups, as of any time that the backups cover.

1. The chain for the timestamp is found (`backups.chains`), and the checksums of all files that are needed are compared.
2. Each table is created under a temporary name, `_nyala_restore_...`, and the workers write the rows of its tablets:
   the last state of each key at or before the timestamp (`backups.folding`), by upserts, which may be repeated.
3. When all rows of all tables are written, the tables are renamed, then the views are created.

So a visible table is complete. A restore that failed in step 2 is started anew by the next one; one that was
interrupted in step 3 is finished by it: a table `_nyala_restore_ready_...` marks that all rows are written.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...driver.connection import connect
from ...driver.stores.open_stores import is_cluster
from ...driver.stores.served_directory import reachable
from ...driver.tables.timestamps import Moment
from ...errors import CorruptionError, DuplicateTable, InterfaceError, UnknownTable
from ...model.alterations import RenameTable
from ...model.clock import format_timestamp
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema, Schema, Table, TableDefinition, View
from ...model.store import Store, Timestamp
from ...model.types import INT
from ..session import check_classic
from .backups import manifest
from .backups.chains import TableChain, chain_at, table_chains
from .backups.tasks import RestoreTask, damage
from .backups.tasks import restore as restore_tablet
from .jobs import Handler, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNFINISHED = "_nyala_restore_"
READY = "_nyala_restore_ready_"


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restore: the snapshot in hybrid time, rows by table, views, the numbers of the backups that
    were read, the duration in seconds."""

    at: Timestamp
    tables: dict[str, int]
    views: tuple[str, ...]
    backups: tuple[int, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "at": self.at,
            "time": format_timestamp(self.at),
            "tables": self.tables,
            "rows": sum(self.tables.values()),
            "views": list(self.views),
            "backups": list(self.backups),
            "seconds": self.seconds,
        }


def restore(
    spark: SparkSession,
    source: str | Path,
    target: str | Path,
    *,
    at: Moment | None = None,
    tables: Sequence[str] | None = None,
    renamed: Mapping[str, str] | None = None,
    progress: Handler | None = None,
) -> RestoreResult:
    """Restores tables from backups.

    Parameters
    ----------
    source : str or Path
        The directory of the backups; all workers reach it under this name.
    target : str or Path
        The store to restore into: the URL of a cluster or a directory, which is created if it does not exist.
    at : datetime, str or int, optional
        The timestamp (int: hybrid time, exact); by default that of the last backup. Tables and columns are those of the
        first backup at or after it.
    tables : sequence of str, optional
        The tables to restore, by their names in that backup, and no views; by default all tables and views.
    renamed : mapping of str to str, optional
        New names for some of the tables.

    Raises
    ------
    DataError
        If the timestamp is not covered, or not for a table.
    DuplicateTable
        If the store already has a table or view of such a name.
    CorruptionError
        If a file is missing or was altered; nothing has been created then.
    UnknownTable
        If the backup has no such table.
    """
    check_classic(spark, "restore")
    started = time.monotonic()
    place = Path(source).expanduser().absolute()
    chain, moment = chain_at(manifest.read_all(place), at)
    table_files = table_chains(chain, moment, place, tables)
    names = _names(table_files, renamed or {})
    views = chain.backups[-1].views if tables is None else ()
    _check_files(spark, place, table_files, progress)
    url = reachable(target, create=True)
    with connect(url) as connection:
        work = _Work(connection.store, names, f"{chain.backups[-1].id} {moment} {sorted(names.items())}")
        if not work.is_ready():
            work.check_names(views)
            made = work.make_tables(table_files, keep_replicas=is_cluster(target))
            rows = _fill(spark, url, table_files, made, moment, progress)
            work.mark_ready()
        else:
            rows = {}
        work.finish(views)
        for name in names.values():
            if name not in rows:
                rows[name] = connection.table(name).count()
    numbers = tuple(backup.number for backup in chain.backups)
    return RestoreResult(moment, rows, tuple(view.name for view in views), numbers, time.monotonic() - started)


def _names(found: Sequence[TableChain], renamed: Mapping[str, str]) -> dict[str, str]:
    """The new name of each table, by its name in the backup."""
    known = [table.definition.name for table in found]
    for name in renamed:
        if name not in known:
            raise UnknownTable(f"table {name} is to be renamed but not restored; restored: {', '.join(known)}")
    names = {name: renamed.get(name, name) for name in known}
    twice = [name for name, count in Counter(names.values()).items() if count > 1]
    if twice:
        raise InterfaceError(f"two tables would be called {twice[0]}")
    return names


def _check_files(spark: SparkSession, place: Path, found: Sequence[TableChain], progress: Handler | None) -> None:
    files = {str(each.path): each.file for table in found for each in table.files}
    wrong = [each for each in run_tasks(spark, "verifying files", list(files.items()), damage, progress) if each]
    if wrong:
        more = f"; {len(wrong) - 1} more of {len(files)} files are damaged" if len(wrong) > 1 else ""
        raise CorruptionError(f"{wrong[0]}{more}", str(place), "backup")


def _fill(
    spark: SparkSession,
    url: str,
    found: Sequence[TableChain],
    made: Mapping[str, Table],
    moment: Timestamp,
    progress: Handler | None,
) -> dict[str, int]:
    """Writes all rows; returns the number of rows of each table, by new name."""
    tasks = [
        (table.definition.name, RestoreTask(url, made[table.definition.name], table.definition, files, moment))
        for table in found
        for files in table.tablets
    ]
    tasks.sort(key=lambda task: sum(each.file.bytes for each in task[1].files), reverse=True)
    counts = run_tasks(spark, "writing rows", [task for _, task in tasks], restore_tablet, progress, int)
    rows = dict.fromkeys((table.definition.name for table in found), 0)
    for (name, _), count in zip(tasks, counts, strict=True):
        rows[name] += count
    return {made[name].name.removeprefix(UNFINISHED): count for name, count in rows.items()}


class _Work:
    """The tables of one restore in the target store, from their creation to their final names."""

    def __init__(self, store: Store, names: Mapping[str, str], what: str):
        self._store = store
        self._names = names
        self._marker = READY + hashlib.sha256(what.encode()).hexdigest()[:16]
        with suppress(UnknownTable):
            store.table("")  # no table has this name: a cluster's client refreshes its catalog from the masters

    def _there(self) -> set[str]:
        return {table.name for table in self._store.tables()}

    def is_ready(self) -> bool:
        """True if an earlier run of the same restore has written all rows."""
        return self._marker in self._there()

    def check_names(self, views: Sequence[View]) -> None:
        """Raises `DuplicateTable` if a name is taken."""
        there = self._there() | {view.name for view in self._store.views()}
        taken = sorted(there.intersection((*self._names.values(), *(view.name for view in views))))
        if taken:
            raise DuplicateTable(
                f"{', '.join(taken)} {'is' if len(taken) == 1 else 'are'} there already; drop them, choose "
                "other tables (--tables), or give them other names (--as OLD=NEW)"
            )

    def make_tables(self, found: Sequence[TableChain], keep_replicas: bool) -> dict[str, Table]:
        """Creates empty tables under temporary names, by their names in the backup; those of a failed run are
        dropped first."""
        there = self._there()
        made = {}
        for table in found:
            name = UNFINISHED + self._names[table.definition.name]
            if name in there:
                self._store.drop_table(name)
            made[table.definition.name] = self._store.create_table(_definition(table.definition, name, keep_replicas))
        return made

    def mark_ready(self) -> None:
        """Records that all rows are written."""
        column = ColumnSchema("ready", INT, nullable=False)
        self._store.create_table(TableDefinition(self._marker, Schema((column,), 1)))

    def finish(self, views: Sequence[View]) -> None:
        """Renames the tables to their final names, and creates the views; steps already done are skipped."""
        for name in self._names.values():
            if UNFINISHED + name in self._there():
                self._store.alter_table(UNFINISHED + name, [RenameTable(name)])
        for view in views:
            self._store.create_view(view, replace=True)
        self._store.drop_table(self._marker)


def _definition(table: Table, name: str, keep_replicas: bool) -> TableDefinition:
    """The saved definition for another store: ids are assigned anew, and each row has the values it was saved with."""
    columns = tuple(replace(column, id=-1, initial=None) for column in table.schema.columns)
    schema = Schema(columns, table.schema.key_columns)
    return TableDefinition(name, schema, table.partitions, table.comment, table.replicas if keep_replicas else None)
