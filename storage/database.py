"""The embedded store: a directory of tables behind the `Store` seam, or the same in memory.

    DIR/LOCK                           held by the process that has the store open
    DIR/FORMAT                         "nyala store, format 1"
    DIR/commits/                       which writes over several tablets count: `commit_log`
    DIR/catalog                        all tables and views: `catalog`
    DIR/tables/<table id>/             load-* while a bulk load ends: `load_record`; statistics: `analysis`
                  <tablet id>/         metadata, wal/, rowsets/: `tablet`

CREATE TABLE makes the files first and the catalog durable last, DROP TABLE the other way round: a table is in the
catalog with all its files or not at all. Opening removes folders that no table owns.

A dropped table's files stay until the last scan, token or batch that reads them is gone (`dropped_folders`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..errors import DataError, DiskError, InterfaceError, StoreClosed, TabletGone, UnknownTable
from ..model.alterations import AlterStep
from ..model.clock import HybridClock, format_timestamp, split_timestamp
from ..model.forks import check_process, stay_with_process
from ..model.schema import Table, TableDefinition
from ..model.steady_clock import PATIENCE_SECONDS, SteadyClock
from ..model.store import (
    AnalyzeResult,
    CompactionResult,
    Op,
    ScanCounters,
    ScanSpec,
    ScanToken,
    TableStatistics,
    TableStorage,
    TabletDescription,
    Timestamp,
    TransactionChanges,
    WriteBatch,
    WriteResult,
)
from ..model.transactions import DEFAULT_OPTIONS, TransactionOptions
from ..model.vectors.vector import Batch
from .deltas.single_deltas import ROW_BYTES
from .files.filesystem import FileSystem
from .files.io_limit import IoLimit
from .files.os_filesystem import OsFileSystem
from .files.page_cache import PageCache
from .files.temporary import remove_temporary_files
from .log.commit_log import CommitLog
from .maintenance.background import BackgroundWork
from .maintenance.compaction_policy import BUDGET_BYTES, CompactionPolicy
from .maintenance.memory import default_cache_bytes, default_limit
from .maintenance.tablet_flush import flush, flush_overfull, needs_flush
from .malloc import configure_heap
from .reading.tablet_check import check_tablet
from .reading.tablet_scan import scan_view
from .rowsets.memrowset import INDEX_BYTES
from .single_rows.row_write import StartedRow, finish_row
from .statistics.analysis import table_storage
from .tables.access_methods import AccessMethods
from .tables.atomic_write import AtomicWriter
from .tables.background_methods import BackgroundMethods
from .tables.catalog import Catalog
from .tables.data_definition import DataDefinition
from .tables.durable_catalog import DurableCatalog
from .tables.housekeeping import finish_loads_and_commits, flush_commit_holders
from .tables.store_directory import check_format, make_durable_directory
from .tables.table_folders import TableFolders
from .tables.table_store import TableStore
from .tables.tablet_descriptions import describe_tablets, key_samples
from .tables.transaction_commit import commit_changes
from .tables.view_methods import ViewMethods
from .tablet.tablet import StoreOptions, Tablet

if TYPE_CHECKING:
    from .loads.bulk_load import TableBulkLoader
    from .transactions.transaction_store import TransactionStore

MEMORY = ":memory:"
_GROWTH_BYTES = 1 << 20
"""Bytes of single rows after which the writer checks whether a flush is due."""
_IO_THREADS = 8
"""Threads that wait for the disk: syncs of several logs, opening of many tablets."""


class Database(AccessMethods, BackgroundMethods, ViewMethods):
    """Tables on the local disk; implements `model.store.Store`. Safe for several threads.

    Parameters
    ----------
    path : str or PathLike
        The directory, made if it is not there; ":memory:" keeps everything in memory.
    durability : {"fsync", "os"}
        "fsync": an acknowledged write survives a power failure. "os": it survives the process; a power failure may
        cost about the last second of writes. Bulk loads and flushes are always synced.
    threads : int
        That encode bulk loads.
    cache_bytes : int, optional
        Memory for decoded pages; by default a quarter of `memory_limit_bytes`, or 1 GiB where that is more.
    memrowset_bytes : int
        Size at which the rows in memory of one tablet are flushed to disk.
    fs : FileSystem, optional
        Instead of the operating system's.
    segment_bytes, rowset_bytes : int
        Sizes aimed at, of log segments and DiskRowSets.
    deltamemstore_bytes : int
        Size at which the changes in memory of one DiskRowSet are flushed to disk.
    history_seconds : int, optional
        How long the past stays readable; older history may be collected. Kept in the store; a week where never given.
    compaction_budget_bytes : int
        What one compaction of DiskRowSets may read.
    memory_limit_bytes : int, optional
        For rows that are not on disk yet and for pages, of all stores of the process together; half of the machine's
        memory by default. Writes slow down from 80 % of it, and wait for flushes above it: `memory`.
    background : bool
        False: no thread flushes or compacts; `maintain` does, when it is called.
    maintenance_io_limit : int, optional
        Bytes per second that background work may read and write; None: no limit. `limit_maintenance_io` changes it.

    Raises
    ------
    StoreLocked
        Another process, or this one, has the store open.
    UnsupportedFormat, CorruptionError
        The store is newer than this nyala, or damaged.

    Examples
    --------
    >>> with Database(":memory:") as database:
    ...     database.tables()
    []
    """

    def __init__(
        self,
        path: str | PathLike[str] = MEMORY,
        *,
        durability: str = "fsync",
        threads: int = 2,
        cache_bytes: int | None = None,
        memrowset_bytes: int = 128 << 20,
        fs: FileSystem | None = None,
        segment_bytes: int = 64 << 20,
        rowset_bytes: int = 64 << 20,
        deltamemstore_bytes: int = 32 << 20,
        history_seconds: int | None = None,
        compaction_budget_bytes: int = BUDGET_BYTES,
        memory_limit_bytes: int | None = None,
        background: bool = True,
        maintenance_io_limit: int | None = None,
    ):
        if durability not in ("fsync", "os"):
            raise InterfaceError(f"durability={durability!r}: it is 'fsync' or 'os'")
        if threads < 1:
            raise InterfaceError(f"threads={threads}: at least one is needed")
        io_limit = IoLimit(maintenance_io_limit)
        self.path = str(path)
        if not self.path:
            raise InterfaceError(f"path={path!r}: a directory or {MEMORY!r} is needed")
        self._directory = "/store" if self.path == MEMORY else self.path.rstrip("/") or "/"
        configure_heap()
        self._fs: FileSystem = fs or _file_system(self.path)
        self._options = StoreOptions(durability, memrowset_bytes, segment_bytes, rowset_bytes, deltamemstore_bytes)
        self.clock = HybridClock()
        limit = default_limit() if memory_limit_bytes is None else memory_limit_bytes
        self._cache = PageCache(default_cache_bytes(limit) if cache_bytes is None else cache_bytes)
        self._stores: dict[str, TableStore] = {}
        self._closed = False
        stay_with_process(self, self._fs)
        with ExitStack() as stack:
            make_durable_directory(self._fs, self._directory)
            self._lock = self._fs.lock(f"{self._directory}/LOCK")
            stack.callback(self._lock.release)
            self._pool = ThreadPoolExecutor(threads, "nyala-load")
            stack.callback(self._pool.shutdown)
            self._io_pool = ThreadPoolExecutor(_IO_THREADS, "nyala-io")
            stack.callback(self._io_pool.shutdown)
            check_format(self._fs, self._directory)
            remove_temporary_files(self._fs, self._directory)
            self._open_tables(history_seconds)
            stack.pop_all()
        self._maintenance = BackgroundWork(
            self._tablets,
            self._cache,
            CompactionPolicy(compaction_budget_bytes, rowset_bytes),
            limit_bytes=limit,
            syncs_logs=durability == "os",
            starts=background,
            first=lambda: flush_commit_holders(self._tablets(), self._commits),
            tasks=(self._keep_house,),
            io_limit=io_limit,
        )

    # ---- opening and closing -------------------------------------------------------------------------------------

    def _open_tables(self, history_seconds: int | None) -> None:
        self.clock.now()  # refuses a time without timestamps before anything is read
        self._commits = CommitLog(self._fs, f"{self._directory}/commits", self._options.durability == "fsync")
        self._writer = AtomicWriter(self.clock, self._io_pool, self._commits)
        self._catalog = DurableCatalog(self._fs, f"{self._directory}/catalog")
        self._commits.note_decided(self._catalog.current.decided)
        self.history_seconds = self._catalog.keep_history(history_seconds)
        self._options = replace(self._options, history_seconds=self.history_seconds)
        tables, shared = f"{self._directory}/tables", (self._cache, self.clock, self._options)
        self._folders = TableFolders(self._fs, tables, *shared, self._io_pool, self._commits)
        with ExitStack() as stack:
            stack.callback(self._commits.close)
            self._stores = self._folders.open_all(self._catalog.current)
            stack.pop_all()
        taken = self._folders.free_number(self._catalog.current.next_table)
        self._catalog.current = replace(self._catalog.current, next_table=taken)
        self._folders.opened(self._stores)
        self._ddl = DataDefinition(
            self._catalog,
            self._folders,
            self._stores,
            self._commits,
            self.clock,
            cache=self._cache,
            options=self._options,
            check_open=self._check_open,
        )
        self._ddl.opened()
        known = split_timestamp(self.clock.latest)[0]
        self.clock.steady = SteadyClock(known, min(self.history_seconds, PATIENCE_SECONDS)).now
        self.clock.now()  # logs where it is ahead

    def close(self) -> None:
        """Release everything; acknowledged writes are durable already. Closing again does nothing."""
        with self._ddl.lock:
            if self._closed:
                return
            self._closed = True
        self._maintenance.stop()
        self._maintenance.close()
        with ExitStack() as stack:
            stack.callback(self._lock.release)
            stack.callback(self._pool.shutdown)
            stack.callback(self._io_pool.shutdown)
            stack.callback(self._commits.close)
            stack.callback(self._folders.close)
            for store in self._stores.values():
                stack.callback(store.close)

    @property
    def temporary_directory(self) -> str | None:
        return self._directory if isinstance(self._fs, OsFileSystem) else None

    @property
    def runs_fragments(self) -> bool:
        return False

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Database({self.path!r}{', closed' if self._closed else f', {len(self._stores)} tables'})"

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed(f"the store {self.path} is closed; open it again")

    # ---- the catalog ---------------------------------------------------------------------------------------------

    @property
    def catalog_version(self) -> int:
        """Grows with every DDL; plans are cached under it."""
        return self._catalog.current.version

    @property
    def catalog(self) -> Catalog:
        """All of one version of the catalog."""
        self._check_open()
        return self._catalog.current

    def tables(self) -> Sequence[Table]:
        """All tables by name, ascending."""
        self._check_open()
        return self._catalog.tables()

    def table(self, name: str) -> Table:
        """One table; `UnknownTable` names close ones."""
        self._check_open()
        return self._catalog.table(name)

    def create_table(self, definition: TableDefinition) -> Table:
        """Create a table durably. Raises `DuplicateTable` or `InvalidTableDefinition`."""
        return self._ddl.create_table(definition)

    def drop_table(self, name: str, views: Collection[str] = ()) -> None:
        """Drop a table, its data and the named views durably, in one step; scans that run already finish."""
        self._ddl.drop_table(name, views)

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> Table:
        """Change a table in one atomic step (`alterations`); no stored row is rewritten. `InvalidTableDefinition`,
        `UnknownColumn`, `UnknownTable` or `DuplicateTable` where it cannot be; nothing has changed then."""
        table = self._ddl.alter_table(name, steps)
        self._maintenance.wake()
        return table

    @property
    def transactional_ddl(self) -> bool:
        return True

    def open_table(self, table: Table) -> TableStore:
        """The table with its tablets, for servers; `UnknownTable` if it has been dropped."""
        self._check_open()
        store = self._stores.get(table.id)
        if store is None:
            raise UnknownTable(f"table {table.name} has been dropped")
        return store

    @contextlib.contextmanager
    def _opened(self, table: Table) -> Iterator[TableStore]:
        """`open_table`, for work that a concurrent DROP TABLE may take the files away from: `UnknownTable` then."""
        store = self.open_table(table)
        try:
            yield store
        except (DiskError, StoreClosed, TabletGone):
            self.open_table(table)
            raise

    # ---- reading -------------------------------------------------------------------------------------------------

    def statistics(self, table: Table) -> TableStatistics:
        """Known statistics of a table's rows and columns; cheap."""
        with self._opened(table) as store:
            return store.statistics()

    def analyze_table(self, table: Table, check: Callable[[], None] | None = None) -> AnalyzeResult:
        """Bring the table's statistics up to date, durably."""
        with self._opened(table) as store:
            return store.analyze(check)

    def table_storage(self, table: Table) -> TableStorage:
        """Storage of the table on disk."""
        with self._opened(table) as store:
            return table_storage(table, store.whole_tablets)

    def tablet_count(self, table: Table) -> int:
        """Number of tablets."""
        return len(self.open_table(table).tablets)

    def describe_tablets(self, table: Table) -> Sequence[TabletDescription]:
        """The table's tablets, in the order of partitions."""
        return describe_tablets(self.open_table(table).layout, self.temporary_directory)

    def key_samples(self, table: Table, tablet_id: str) -> Sequence[tuple[Any, ...]]:
        """Primary keys (physical values, ascending) of every 4,096th row of each DiskRowSet of a tablet."""
        with self._opened(table) as store:
            return key_samples(store.layout, tablet_id)

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """The units of a scan, without tablets and rowsets that the predicates rule out.

        Each token fixes the snapshot and pins what it reads, so it gives the same rows also after flushes, and after
        the table was dropped."""
        store = self.open_table(table)
        now = self._time_of(table, spec.snapshot)
        if spec.snapshot is None:
            spec = replace(spec, snapshot=now)
        tokens = store.scan_tokens(table, spec)
        self.open_table(table)  # where it was dropped meanwhile, its files were perhaps gone before the pins
        return tokens

    def scan(self, token: ScanToken, counters: ScanCounters | None = None) -> Generator[Batch]:
        """Read a token: batches of at most 131,072 rows with the spec's columns, read lazily."""
        self._check_open()
        view, pieces = token.part
        return self._scan(scan_view(view, pieces, token.spec, counters or ScanCounters()))

    def scan_all(self, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]) -> list[Generator[Batch]]:
        """`Store.scan_all`; nothing is gained by it here."""
        return [self.scan(token, mine) for token, mine in zip(tokens, counters, strict=True)]

    def _scan(self, batches: Iterator[Batch]) -> Generator[Batch]:
        for batch in batches:
            self._check_open()
            yield batch
        check_process(self)

    def read_row(
        self, table: Table, key: Sequence[Any], columns: Sequence[str], snapshot: Timestamp | None = None
    ) -> tuple[Any, ...] | None:
        """The row with a primary key (Python values in key order): its columns as Python values, None where there is
        no such row. It sees every write that was acknowledged before the call, or the state at `snapshot`."""
        store = self._stores.get(table.id)
        if store is None or self._closed:
            store = self.open_table(table)
        if snapshot is not None and snapshot > self.clock.latest:
            self._time_of(table, snapshot)
        try:
            return store.read_row(table, key, columns, snapshot)
        except (DiskError, StoreClosed):
            self.open_table(table)  # `UnknownTable`: it was dropped meanwhile, with its files
            raise

    def _time_of(self, table: Table, snapshot: Timestamp | None) -> Timestamp:
        """The present time; `DataError` for a snapshot above it."""
        now = self.now()
        if snapshot is not None and snapshot > now:
            raise DataError(
                f"cannot read table {table.name} as of {format_timestamp(snapshot)}: it is only {format_timestamp(now)}"
            )
        return now

    def now(self) -> Timestamp:
        """A timestamp that every write acknowledged so far is at or below."""
        self._check_open()
        return self.clock.now()

    # ---- writing -------------------------------------------------------------------------------------------------

    def write(self, table: Table, batch: WriteBatch) -> WriteResult:
        """Apply a batch. Rows that are refused are answered one by one; what the others did is durable and visible when
        this returns.

        Raises what is wrong with the batch as a whole (`UnknownColumn`, `TypeMismatch`, ...), or `DiskError`: then
        nothing of it was applied, and the call may be repeated; but for `OutcomeUnknown`.
        """
        store = self.open_table(table)
        self._ddl.settle()
        self._maintenance.memory.admit(batch.rows.nbytes + INDEX_BYTES * batch.rows.num_rows)
        with self._opened(table):
            result = store.write(batch, table=table)
        if any(needs_flush(tablet) for tablet in store.whole_tablets):
            self._maintenance.wake()
        return result

    def write_row(
        self,
        table: Table,
        op: Op,
        row: Mapping[str, Any],
        unchanged_since: Timestamp | None = None,
        physical: bool = False,
    ) -> WriteResult:
        """`write` for one row of Python (or `physical`) values by column name, by a shorter way: `row_write`.

        Raises `UnknownColumn`, `TypeMismatch`, `NumericOutOfRange` or `InvalidText` for a value that the column does
        not take; what is refused because of the table's rules is answered as for a batch.
        """
        store = self._stores.get(table.id)
        if store is None or self._closed:
            store = self.open_table(table)
        self._ddl.settle()
        self._maintenance.memory.admit(ROW_BYTES)
        try:
            result = store.write_row(table, op, row, unchanged_since, physical)
        except (DiskError, StoreClosed):
            self.open_table(table)  # `UnknownTable`: it was dropped meanwhile, with its log
            raise
        writer = store.rows.writer
        if writer.grown > _GROWTH_BYTES:
            writer.grown = 0
            for tablet in store.tablets:
                flush_overfull(tablet)
            if any(needs_flush(tablet) for tablet in store.whole_tablets):
                self._maintenance.wake()
        return result

    def start_row(self, table: Table, tablet: Tablet, op: Op, row: Mapping[str, Any]) -> StartedRow | None:
        """The part of `write_row` (physical values) before it waits for the log; None where `write_row` is needed."""
        store = self._stores.get(table.id)
        if store is None or self._closed or not self._catalog.is_durable:
            return None
        return store.start_row(table, tablet, op, row) if self._maintenance.memory.admit_at_once(ROW_BYTES) else None

    def start_python_row(self, table: Table, op: Op, row: Mapping[str, Any]) -> StartedRow | None:
        """`start_row` for Python values. Raises what is wrong with a value, as `write_row`."""
        store = self._stores.get(table.id)
        if store is None or self._closed or not self._catalog.is_durable:
            return None
        return store.start_python_row(table, op, row) if self._maintenance.memory.admit_at_once(ROW_BYTES) else None

    def finish_row(self, started: StartedRow) -> WriteResult:
        """Waits until a started row is durable. Raises as `write_row`."""
        table = started.tablet.table
        try:
            result = finish_row(started)
        except (DiskError, StoreClosed):
            self.open_table(table)
            raise
        store = self._stores.get(table.id)
        if store is not None and store.has_grown(started.size, _GROWTH_BYTES):
            self._maintenance.wake()
        return result

    def commit_transaction(self, changes: TransactionChanges) -> Timestamp:
        """`Store.commit_transaction`: by one log entry where one tablet is changed, otherwise with a COMMIT
        (`storage.log.commit_log`)."""
        self._check_open()
        self._ddl.settle()
        self._maintenance.memory.admit(sum(w.nbytes + INDEX_BYTES * w.row_count for w in changes.writes))
        if changes.catalog is not None and changes.catalog.has_changes:
            timestamp = self._ddl.commit(changes)
            self._maintenance.wake()
            return timestamp
        with ExitStack() as stack:
            stores = {id_: stack.enter_context(self._opened(table)) for id_, table in changes.tables.items()}
            timestamp = commit_changes(stores, changes, self._writer, self._ddl.validate)
        if any(needs_flush(tablet) for store in stores.values() for tablet in store.whole_tablets):
            self._maintenance.wake()
        return timestamp

    def bulk_loader(self, table: Table) -> TableBulkLoader:
        """Start a bulk load of a table."""
        store = self.open_table(table)
        self._ddl.settle()
        from .loads.bulk_load import TableBulkLoader

        write = partial(self.write, store.table)
        return TableBulkLoader(store, self._pool, lambda: self.open_table(table), write=write)

    def take_numbers(self, table: Table, partition: int, count: int) -> int:
        """Reserve `count` numbers of the table's AUTO_INCREMENT column for rows of a partition; the first."""
        return self.open_table(table).tablets[partition].take_numbers(count)

    def begin(self, options: TransactionOptions = DEFAULT_OPTIONS) -> TransactionStore:
        """Begin a transaction at the latest state."""
        # Statements of their own need none of it.
        from .transactions.own_catalog import OwnCatalog
        from .transactions.transaction_store import TransactionStore

        self._check_open()
        with self._ddl.switch_lock:
            catalog = OwnCatalog(self._catalog.current, self._ddl.take_table_number, lambda: self.access)
            return TransactionStore(self, options, catalog)

    def flush(self, table: Table | None = None) -> int:
        """Flush the memory of one table or all to DiskRowSets; returns the number of rows."""
        self._check_open()
        rows = 0
        for tablet in self._tablets() if table is None else self.open_table(table).tablets:
            with contextlib.suppress(TabletGone):  # dropped meanwhile
                rows += flush(tablet)
        return rows

    def compact_table(self, table: Table, check: Callable[[], None] | None = None) -> CompactionResult:
        """As `Store.compact_table`. Reads and writes continue; finished steps remain after a `DiskError`."""
        from .maintenance.table_compaction import compact_tablets

        self._ddl.settle()
        with self._opened(table) as store:
            return compact_tablets(store.tablets, check)

    # ---- in the background ---------------------------------------------------------------------------------------

    def _tablets(self) -> list[Tablet]:
        return [tablet for store in list(self._stores.values()) for tablet in store.whole_tablets]

    def _keep_house(self) -> None:
        """Tasks that must not wait for a long operation."""
        syncs_logs = self._options.durability == "os"
        finish_loads_and_commits(lambda: list(self._stores.values()), self._commits, syncs_logs)
        with contextlib.suppress(DiskError):
            self._ddl.settle()
        self._folders.remove_dropped()

    def observations(self, kind: str) -> Iterable[Mapping[str, Any]]:
        """Rows of `nyala_catalog.<kind>`."""
        from .tables.observed_tables import observations  # few statements read them

        return observations(kind, self, self._stores)

    def check(self) -> None:
        """Hold every tablet against its invariants; reads everything. For tests and tools."""
        self._check_open()
        for tablet in self._tablets():
            check_tablet(tablet, self.clock)


def _file_system(path: str) -> FileSystem:
    """The file system of a store's path."""
    if path != MEMORY:
        return OsFileSystem()
    from .files.memory_filesystem import MemoryFileSystem

    return MemoryFileSystem()
