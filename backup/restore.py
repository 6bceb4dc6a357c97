"""Restores tables from backups, as of any time that the backups cover.

1. The chain for the timestamp is found (`chains`), and the checksums of all files that are needed are compared.
2. Schemas that the store lacks are created; they stay if a later step fails. Each table is created under a temporary
   name, `_nyala_restore_...`, in the default schema, and tasks write the rows of its tablets: the last state of each
   key at or before the timestamp (`folding`), by upserts, which may be repeated.
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
from typing import Any

from ..driver.connection import Connection, connect
from ..driver.stores.open_stores import is_cluster
from ..driver.tables.timestamps import Moment
from ..errors import CorruptionError, DuplicateTable, InterfaceError, UnknownTable
from ..model.alterations import RenameTable
from ..model.clock import format_timestamp
from ..model.lazy_dataclass import dataclass
from ..model.namespaces import TEMPORARY_NAMESPACE, Namespace, full_name
from ..model.schema import ColumnSchema, Schema, Table, TableDefinition, View
from ..model.store import Store, Timestamp
from ..model.types import INT
from ..sql.binding.names import canonical
from ..sql.written_identifiers import name_parts
from . import manifest
from .chains import Chain, TableChain, chain_at, table_chains
from .places import Place
from .running import THREADS, Handler, OpenStore, Run, Threads
from .tasks import CheckTask, RestoreTask, damage
from .tasks import restore as restore_tablet

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
    source: str | Path,
    target: str | Path,
    *,
    at: Moment | None = None,
    tables: Sequence[str] | None = None,
    renamed: Mapping[str, str] | None = None,
    threads: int = THREADS,
    progress: Handler | None = None,
    io_rate: int | None = None,
) -> RestoreResult:
    """Restores tables from backups.

    Parameters
    ----------
    source : str or Path
        The directory of the backups, or its URL (`places`).
    target : str or Path
        The store to restore into: the URL of a cluster or a directory, which is created if it does not exist.
    at : datetime, str or int, optional
        The timestamp (int: hybrid time, exact); by default that of the last backup. Tables and columns are those of the
        first backup at or after it.
    tables : sequence of str, optional
        The tables to restore, by their names in that backup, and no views; by default all tables and views.
    renamed : mapping of str to str, optional
        New names for some of the tables. As with RENAME TO, a name without a schema leaves the table in its own; a
        schema that does not exist is created.
    threads : int
        Tablets restored at the same time.
    progress : callable, optional
        Called with `running.Progress`.
    io_rate : int, optional
        Bytes per second of the backup's files that are read; None: no limit.

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
    run = Threads(threads, progress, io_rate)
    restoring = Restoring.of(Place.of(source), run, at=at, tables=tables, renamed=renamed)
    with connect(target) as connection:
        return restoring.into(connection, target, lambda: connection.store, run)


@dataclass(frozen=True, slots=True)
class Restoring:
    """The input of a restore, whose files have the checksums of their manifests.

    Attributes
    ----------
    place : Place
    chain : Chain
        The backups that are read.
    at : Timestamp
        The time of the restored rows.
    tables : list of TableChain
    names : dict of str to str
        The new name of each table, by its name in the backup.
    namespaces : dict of str to str
        The schema of each table, by its new name.
    made_namespaces : tuple of str
        Schemas that the target needs: those of the tables, and all of the backup's if no tables were chosen.
    views : tuple of View
    began : float
        The time of the beginning, by `time.monotonic`.
    """

    place: Place
    chain: Chain
    at: Timestamp
    tables: list[TableChain]
    names: dict[str, str]
    namespaces: dict[str, str]
    made_namespaces: tuple[str, ...]
    views: tuple[View, ...]
    began: float

    @classmethod
    def of(
        cls,
        place: Place,
        run: Run,
        *,
        at: Moment | None = None,
        tables: Sequence[str] | None = None,
        renamed: Mapping[str, str] | None = None,
    ) -> Restoring:
        """Finds the files and checks them, by the tasks that `run` executes; parameters and errors as for
        `restore`."""
        began = time.monotonic()
        chain, moment = chain_at(manifest.read_all(place), at)
        found = table_chains(chain, moment, tables)
        names, namespaces = _names(found, renamed or {})
        _check_files(place, found, run)
        covering = chain.backups[-1]
        saved, views = (covering.namespaces, covering.views) if tables is None else ((), ())
        needed = tuple(sorted({*saved, *namespaces.values(), *(view.namespace for view in views)}))
        return cls(place, chain, moment, found, names, namespaces, needed, views, began)

    def into(self, connection: Connection, target: str | Path, open_store: OpenStore, run: Run) -> RestoreResult:
        """Restores the tables into the store of a connection, which `open_store` returns in the tasks; `target` names
        it."""
        names = self.names
        what = f"{self.chain.backups[-1].id} {self.at} {sorted(names.items())}"
        work = _Work(connection.store, names, self.namespaces, what)
        if not work.is_ready():
            work.check_names(self.views)
            work.make_namespaces(self.made_namespaces)
            made = work.make_tables(self.tables, keep_replicas=is_cluster(target))
            rows = self._fill(made, open_store, run)
            work.mark_ready()
        else:
            rows = {}
        work.finish(self.views)
        for name in names.values():
            if name not in rows:
                rows[name] = connection.table(name).count()
        numbers = tuple(backup.number for backup in self.chain.backups)
        views = tuple(view.name for view in self.views)
        return RestoreResult(self.at, rows, views, numbers, time.monotonic() - self.began)

    def _fill(self, made: Mapping[str, Table], open_store: OpenStore, run: Run) -> dict[str, int]:
        """Writes all rows; returns the number of rows of each table, by new name."""
        tasks = [
            RestoreTask(open_store, self.place, made[table.definition.name], table.definition, files, self.at)
            for table in self.tables
            for files in table.tablets
        ]
        tasks.sort(key=lambda task: sum(each.file.bytes for each in task.files), reverse=True)
        counts = run("writing rows", tasks, restore_tablet, int)
        rows = {self.names[table.definition.name]: 0 for table in self.tables}
        for task, count in zip(tasks, counts, strict=True):
            rows[self.names[task.definition.name]] += count
        return rows


def _names(found: Sequence[TableChain], renamed: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The new name of each table, by its name in the backup, and the schema of each, by its new name."""
    known = [table.definition.name for table in found]
    for name in renamed:
        if name not in known:
            raise UnknownTable(f"table {name} is to be renamed but not restored; restored: {', '.join(known)}")
    names, namespaces = {}, {}
    for table in found:
        name, namespace = table.definition.name, table.definition.namespace
        new, namespace = _placed(renamed[name], namespace) if name in renamed else (name, namespace)
        names[name], namespaces[new] = new, namespace
    twice = [name for name, count in Counter(names.values()).items() if count > 1]
    if twice:
        raise InterfaceError(f"two tables would be called {twice[0]}")
    return names, namespaces


def _placed(written: str, namespace: str) -> tuple[str, str]:
    """The name in the store, and the schema, of a table of a namespace that gets a written name."""
    match name_parts(written, folded=False):
        case [schema, name]:
            namespace = canonical(schema)
            if namespace == TEMPORARY_NAMESPACE:
                raise InterfaceError(f"{written}: a backup is not restored into temporary tables")
        case [name]:
            pass
        case _:
            name = written
    return full_name(namespace, name), namespace


def _check_files(place: Place, found: Sequence[TableChain], run: Run) -> None:
    files = {each.path: CheckTask(place, each.path, each.file) for table in found for each in table.files}
    wrong = [fault for fault in run("verifying files", list(files.values()), damage) if fault]
    if wrong:
        more = f"; {len(wrong) - 1} more of {len(files)} files are damaged" if len(wrong) > 1 else ""
        raise CorruptionError(f"{wrong[0]}{more}", place.name, "backup")


class _Work:
    """The tables of one restore in the target store, from their creation to their final names."""

    def __init__(self, store: Store, names: Mapping[str, str], namespaces: Mapping[str, str], what: str):
        self._store = store
        self._names = names
        self._namespaces = namespaces
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

    def make_namespaces(self, names: Sequence[str]) -> None:
        """Creates the schemas that the store lacks. Users are those of the other store: the store's own role owns
        them, as it does the tables and views."""
        there = {namespace.name for namespace in self._store.namespaces()}
        for name in names:
            if name not in there:
                self._store.create_namespace(Namespace(name))

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
                self._store.alter_table(UNFINISHED + name, [RenameTable(name, self._namespaces[name])])
        for view in views:
            # Users are those of the other store: one of the same name would own the view.
            self._store.create_view(replace(view, owner=""), replace=True)
        self._store.drop_table(self._marker)


def _definition(table: Table, name: str, keep_replicas: bool) -> TableDefinition:
    """The saved definition for another store: ids are assigned anew, and each row has the values it was saved with."""
    columns = tuple(replace(column, id=-1, initial=None) for column in table.schema.columns)
    schema = Schema(columns, table.schema.key_columns)
    return TableDefinition(name, schema, table.partitions, table.comment, table.replicas if keep_replicas else None)
