"""`TransactionStore`: a transaction over any store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import pyarrow as pa

from ...errors import (
    ActiveTransaction,
    DataError,
    InternalError,
    InvalidSavepoint,
    NoActiveTransaction,
    ReadOnlyTransaction,
    SchemaChanged,
    UnknownTable,
)
from ...model.alterations import AlterStep
from ...model.altered_table import check_same_columns
from ...model.clock import format_timestamp
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.observations import rows_of
from ...model.schema import Table, TableDefinition
from ...model.store import (
    AnalyzeResult,
    CompactionResult,
    Op,
    ScanBatches,
    ScanCounters,
    ScanSpec,
    ScanToken,
    Store,
    TableStatistics,
    TableStorage,
    TabletDescription,
    Timestamp,
    TransactionChanges,
    WriteBatch,
    WriteResult,
)
from ...model.transactions import DEFAULT_OPTIONS, Isolation, TableRead, TransactionOptions
from ...model.vectors.vector import Batch
from ..files.spill_file import SpillFile
from ..single_rows.row_rules import BatchPathNeeded
from ..single_rows.row_write import as_batch
from .access_methods import AccessMethods
from .altered_rows import altered_rows
from .base_rows import BaseRows
from .batch_write import write_batch
from .merged_scan import merged_tokens
from .net_writes import net_changes
from .own_catalog import CatalogState, OwnCatalog
from .own_rows import Mark, OwnRows, table_context
from .reads import TableReads
from .row_write import note_known, write_single
from .store_catalog import StoreCatalog
from .table_source import TableSource
from .token_scans import scan_token, scan_tokens_together
from .transaction_load import TransactionLoad
from .view_methods import ViewMethods

_MEMORY_LIMIT = 256 << 20
_NEED = (
    "the transaction's own rows need more memory than its limit; set temp_directory to another place, raise "
    "memory_limit, or commit more often"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Savepoint:
    """State of a transaction: own rows by table id, with marks in them, and the catalog."""

    rows: dict[str, tuple[OwnRows, Mark]]
    catalog: CatalogState | None


class TransactionStore(AccessMethods, ViewMethods):
    """A transaction; implements `model.store.Transaction`. Safe for several threads.

    Parameters
    ----------
    store : Store
    options : TransactionOptions
    catalog : OwnCatalog, optional
        The catalog at BEGIN, to be changed; None: that of the store, which the transaction cannot change.

    Examples
    --------
    >>> from ..database import Database
    >>> with Database(":memory:") as database:
    ...     TransactionStore(database, TransactionOptions()).has_writes
    False
    """

    def __init__(self, store: Store, options: TransactionOptions, catalog: OwnCatalog | None = None):
        self._store = store
        self._catalog: OwnCatalog | StoreCatalog = catalog or StoreCatalog(store)
        self._options = options
        self._snapshot = store.now()
        self._is_open = True
        self._lock = threading.RLock()
        """Held while own rows change."""
        self._tables: dict[str, OwnRows] = {}
        """By table id: tables that were written, or looked up by key."""
        self._reads: dict[tuple[str, int], TableReads] = {}
        """By table id and version; so the next one."""
        self._locked: dict[tuple[str, int], TableReads] = {}
        """Rows locked with FOR UPDATE."""
        self._marks: dict[int, _Savepoint] = {}
        """By savepoint, ascending."""
        self._next_mark = 0
        self._limit = _MEMORY_LIMIT if options.memory_limit is None else options.memory_limit
        self._file: SpillFile | None = None
        self._notes_reads = options.isolation is Isolation.SERIALIZABLE

    # ---- the transaction -----------------------------------------------------------------------------------------

    @property
    def options(self) -> TransactionOptions:
        return self._options

    @property
    def snapshot(self) -> Timestamp:
        return self._snapshot

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def has_writes(self) -> bool:
        return any(not own.is_empty for own in list(self._tables.values())) or self._catalog.has_changes

    def __repr__(self) -> str:
        return f"TransactionStore({self._store!r}, {'open' if self._is_open else 'ended'})"

    def own_rows(self, table: Table) -> int:
        """Number of the table's rows that the transaction has written or deleted so far."""
        own = self._tables.get(table.id)
        if own is None or own.is_empty:
            return 0
        with self._lock:
            return own.version().row_count

    def lock_rows(self, table: Table, keys: pa.RecordBatch) -> None:
        """Have COMMIT validate these rows."""
        with self._lock:
            self._check()
            self._reads_of(self._locked, table).note_keys(keys.select([column.name for column in table.schema.key]))

    def lock_row(self, table: Table, key: Sequence[Any]) -> None:
        """`lock_rows` for one key of Python values."""
        with self._lock:
            self._check()
            self._reads_of(self._locked, table).note_row(tuple(key))

    def savepoint(self) -> int:
        """A mark to which `rollback_to` returns."""
        with self._lock:
            self._check()
            self._next_mark += 1
            rows = {table_id: (own, own.mark()) for table_id, own in self._tables.items() if not own.is_empty}
            self._marks[self._next_mark] = _Savepoint(rows, self._catalog.state)
            return self._next_mark

    def rollback_to(self, savepoint: int) -> None:
        """Undo all writes made after the mark. Raises `InvalidSavepoint`."""
        with self._lock:
            self._check()
            saved = self._marked(savepoint)
            for later in [mark for mark in self._marks if mark > savepoint]:
                del self._marks[later]
            for table_id, own in self._tables.items():
                if table_id not in saved.rows:
                    own.go_back(None)
            for table_id, (own, mark) in saved.rows.items():
                self._tables[table_id] = own  # the table may have been altered or dropped since
                own.go_back(mark)
            self._catalog.go_back(saved.catalog)  # type: ignore[arg-type]

    def release(self, savepoint: int) -> None:
        """Discard the mark and later ones. Raises `InvalidSavepoint`."""
        with self._lock:
            self._check()
            self._marked(savepoint)
            for later in [mark for mark in self._marks if mark >= savepoint]:
                del self._marks[later]
            if not self._marks:
                for own in self._tables.values():
                    own.singles.journal.clear()

    def _marked(self, savepoint: int) -> _Savepoint:
        saved = self._marks.get(savepoint)
        if saved is None:
            raise InvalidSavepoint(f"savepoint {savepoint} does not exist, or was released or rolled back")
        return saved

    def commit(self) -> Timestamp:
        """`Store.commit_transaction` with all changes. Ends the transaction, also by an error."""
        with self._lock:
            self._check()
            self._is_open = False
            try:
                writes = [write for own in self._tables.values() for write in net_changes(own)]
                has_changes = bool(writes) or self._catalog.has_changes
                reads = self._all_reads(has_changes)
                catalog = self._catalog.changes(self._notes_reads and has_changes)
                if not writes and not reads and catalog is None:
                    return self._snapshot
                changes = TransactionChanges(self._snapshot, tuple(writes), tuple(reads), catalog)
            finally:
                self._forget()
        try:
            return self._store.commit_transaction(changes)
        except (UnknownTable, SchemaChanged) as error:
            raise self._catalog.conflict_at_commit(error) from error

    def _all_reads(self, has_changes: bool) -> list[TableRead]:
        """The reads to be validated: without changes only locked rows, as the others are those of one snapshot."""
        found = [read for reads in self._locked.values() for read in reads.reads()]
        if has_changes:
            found += [read for reads in self._reads.values() for read in reads.reads()]
        if not self._catalog.has_changes:
            return found
        return [read for some in found for read in self._catalog.reads_before(some)]

    def rollback(self) -> None:
        """End the transaction; nothing was written. No-op after the end."""
        with self._lock:
            self._is_open = False
            self._forget()

    def close(self) -> None:
        """`rollback`."""
        self.rollback()

    def _forget(self) -> None:
        self._tables = {}
        self._reads = {}
        self._locked = {}
        self._marks = {}
        self._file = None

    def _check(self) -> None:
        if not self._is_open:
            raise NoActiveTransaction("the transaction has ended; begin another one")

    def _check_writable(self) -> None:
        self._check()
        if self._options.read_only:
            raise ReadOnlyTransaction("the transaction is READ ONLY; begin one that is READ WRITE to change rows")

    # ---- the store under it --------------------------------------------------------------------------------------

    @property
    def catalog_version(self) -> int:
        return self._catalog.version

    @property
    def transactional_ddl(self) -> bool:
        return self._store.transactional_ddl

    @property
    def temporary_directory(self) -> str | None:
        return self._store.temporary_directory

    @property
    def runs_fragments(self) -> bool:
        """False once there are own rows, which servers do not see."""
        return self._store.runs_fragments and not self.has_writes

    def observations(self, kind: str) -> Iterable[Mapping[str, Any]]:
        return rows_of(kind, self._store)

    def now(self) -> Timestamp:
        """The snapshot."""
        self._check()
        return self._snapshot

    def tables(self) -> Sequence[Table]:
        self._check()
        return self._catalog.tables()

    def table(self, name: str) -> Table:
        """One table; `UnknownTable` names close ones."""
        self._check()
        return self._catalog.table(name)

    def _source(self, table: Table) -> TableSource:
        """Source of the rows under the own ones of a table."""
        return (self._catalog.has_changes and self._catalog.source(table)) or self._store

    def _current(self, table: Table, names: Iterable[str]) -> Table:
        """The present version of a table, where the caller's names mean the same columns; `SchemaChanged` where they do
        not, `UnknownTable` where the transaction has dropped it."""
        if not self._catalog.has_changes:
            return table
        latest = self._catalog.latest(table)
        if latest is not table:
            check_same_columns(table, latest, tuple(names))
        return latest

    def statistics(self, table: Table) -> TableStatistics:
        """Those of the store, with the number of own rows."""
        self._check()
        table = self._catalog.latest(table)
        try:
            found = self._source(table).statistics(table)
        except UnknownTable as error:
            raise self._catalog.conflict(table, error) from error
        own = self._tables.get(table.id)
        if own is None or own.is_empty:
            return found
        with self._lock:
            growth = own.growth()
        return replace(found, row_count=max(0, found.row_count + growth))

    def table_storage(self, table: Table) -> TableStorage:
        """Storage of the table on disk."""
        self._check()
        table = self._catalog.latest(table)
        return self._source(table).table_storage(table)

    def tablet_count(self, table: Table) -> int:
        """Number of tablets of the table."""
        self._check()
        table = self._catalog.latest(table)
        return self._source(table).tablet_count(table)

    def describe_tablets(self, table: Table) -> Sequence[TabletDescription]:
        """The table's tablets, in the order of partitions."""
        self._check()
        table = self._catalog.latest(table)
        return self._source(table).describe_tablets(table)

    def key_samples(self, table: Table, tablet_id: str) -> Sequence[tuple[Any, ...]]:
        """Primary keys of the store's rows at about even distances."""
        self._check()
        table = self._catalog.latest(table)
        return self._source(table).key_samples(table, tablet_id)

    # ---- changes of the catalog ----------------------------------------------------------------------------------

    def create_table(self, definition: TableDefinition) -> Table:
        """As `Store.create_table`: for the transaction alone until COMMIT."""
        with self._lock:
            self._check_writable()
            return self._catalog.create_table(definition)

    def drop_table(self, name: str, views: Collection[str] = ()) -> None:
        """As `Store.drop_table`; COMMIT fails if another write has changed the table."""
        with self._lock:
            self._check_writable()
            table = self._catalog.drop_table(name, views)
            self._tables.pop(table.id, None)

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> Table:
        """As `Store.alter_table`."""
        with self._lock:
            self._check_writable()
            table = self._catalog.alter_table(name, steps, self._store)
            own = self._tables.pop(table.id, None)
            if own is not None and not own.is_empty:
                self._tables[table.id] = altered_rows(own, table, self._base_rows(table))
            return table

    # ---- what a transaction cannot do ----------------------------------------------------------------------------

    def compact_table(self, table: Table, check: Callable[[], None] | None = None) -> CompactionResult:
        """Raises `ActiveTransaction`."""
        self._refuse_maintenance("COMPACT TABLE")

    def analyze_table(self, table: Table, check: Callable[[], None] | None = None) -> AnalyzeResult:
        """Raises `ActiveTransaction`."""
        self._refuse_maintenance("ANALYZE")

    def _refuse_maintenance(self, what: str) -> NoReturn:
        self._check()
        raise ActiveTransaction(f"{what} cannot run inside a transaction; COMMIT or ROLLBACK first")

    def begin(self, options: TransactionOptions = DEFAULT_OPTIONS) -> NoReturn:
        """Raises `ActiveTransaction`."""
        raise ActiveTransaction(
            "a transaction is active already; COMMIT or ROLLBACK it first, or set a SAVEPOINT in it"
        )

    def commit_transaction(self, changes: TransactionChanges) -> NoReturn:
        """Raises `ActiveTransaction`."""
        raise ActiveTransaction("a transaction is active already; its changes are committed by `commit`")

    def take_numbers(self, table: Table, partition: int, count: int) -> int:
        """Those of the store."""
        self._check_writable()
        table = self._catalog.latest(table)
        return self._source(table).take_numbers(table, partition, count)

    # ---- reading -------------------------------------------------------------------------------------------------

    def _is_past(self, table: Table, snapshot: Timestamp | None) -> bool:
        """True for a read as of an earlier time; `DataError` as of a later one."""
        if snapshot is None or snapshot == self._snapshot:
            return False
        if snapshot > self._snapshot:
            raise DataError(
                f"cannot read table {table.name} as of {format_timestamp(snapshot)}: the transaction reads as of "
                f"{format_timestamp(self._snapshot)}"
            )
        return True

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """The units of a scan, over the store's rows and the own ones of now; of the past, and of changes, the store's
        alone."""
        self._check()
        names = (name for some in (spec.columns, (p.column for p in spec.predicates)) for name in some)
        table = self._current(table, names)
        try:
            return self._scan_tokens(table, spec)
        except (UnknownTable, SchemaChanged) as error:
            raise self._catalog.conflict(table, error) from error

    def _scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        source = self._source(table)
        if self._is_past(table, spec.snapshot):
            return source.scan_tokens(table, spec)
        spec = replace(spec, snapshot=self._snapshot)
        if self._notes_reads:
            with self._lock:
                self._reads_of(self._reads, table).note_scan(() if spec.changes is not None else spec.predicates)
        own = self._tables.get(table.id)
        if own is None or own.is_empty or spec.changes is not None:
            return source.scan_tokens(table, spec)
        if spec.fragment:
            raise InternalError(f"a fragment cannot see the own rows of table {table.name}")
        with self._lock:
            own.check_version(table)
            version = own.version()
        return merged_tokens(own, version, spec)

    def scan(self, token: ScanToken, counters: ScanCounters | None = None) -> Iterator[Batch]:
        """Read a token; also after the end of the transaction."""
        return scan_token(self._store, token, counters)

    def scan_all(self, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]) -> list[ScanBatches]:
        """`Store.scan_all`; the store's tokens are read together."""
        return scan_tokens_together(self._store, tokens, counters)

    def read_row(
        self, table: Table, key: Sequence[Any], columns: Sequence[str], snapshot: Timestamp | None = None
    ) -> tuple[Any, ...] | None:
        """The row with a primary key as the transaction sees it; of the past as the store does."""
        self._check()
        table = self._current(table, columns)
        try:
            return self._read_row(table, key, columns, snapshot)
        except (UnknownTable, SchemaChanged) as error:
            raise self._catalog.conflict(table, error) from error

    def _read_row(
        self, table: Table, key: Sequence[Any], columns: Sequence[str], snapshot: Timestamp | None
    ) -> tuple[Any, ...] | None:
        source = self._source(table)
        if self._is_past(table, snapshot):
            return source.read_row(table, key, columns, snapshot)
        with self._lock:
            own = self._own(table)
            codec = own.context.codec
            physical = codec.take_key(key)
            index = codec.key.index_key(physical)
            entry = own.entry(index, physical)
            if entry is not None:
                return own.values(entry, columns)
        found = source.read_row(table, key, columns, self._snapshot)
        with self._lock:
            if self._notes_reads:
                self._reads_of(self._reads, table).note_row(tuple(key))
            note_known(own, index, found is not None)
        return found

    def _reads_of(self, reads: dict[tuple[str, int], TableReads], table: Table) -> TableReads:
        version = table.id, table.version
        found = reads.get(version)
        if found is None:
            found = reads[version] = TableReads(table)
        return found

    # ---- writing -------------------------------------------------------------------------------------------------

    def _own(self, table: Table) -> OwnRows:
        """The own rows of a table; the lock is held."""
        own = self._tables.get(table.id)
        if own is None or (own.is_empty and own.context.table is not table):
            own = self._tables[table.id] = OwnRows(table_context(table), self._base_rows(table))
        own.check_version(table)
        return own

    def _base_rows(self, table: Table) -> BaseRows:
        # A point look-up of a server is a message; several are one scan.
        return BaseRows(self._source(table), table, self._snapshot, not self._store.runs_fragments)

    def write(self, table: Table, batch: WriteBatch) -> WriteResult:
        """Apply a batch to the own rows; refused rows as `Store.write` refuses them."""
        with self._lock:
            self._check_writable()
            table = self._current(table, batch.rows.schema.names)
            note = partial(self._note_keys, table) if self._notes_reads else None
            own = self._own(table)
            try:
                result = write_batch(own, batch, partial(self._source(table).take_numbers, table), note)
            except (UnknownTable, SchemaChanged) as error:
                raise self._catalog.conflict(table, error) from error
            self._limit_memory()
            return result

    def write_row(
        self, table: Table, op: Op, row: Mapping[str, Any], unchanged_since: Timestamp | None = None
    ) -> WriteResult:
        """`write` for one row of Python values, by a shorter way."""
        with self._lock:
            self._check_writable()
            table = self._current(table, row)
            own = self._own(table)
            taken = own.context.codec.take(row)
            stored = taken[1]
            note = self._reads_of(self._reads, table).note_row if self._notes_reads else None
            try:
                numbers = partial(self._source(table).take_numbers, table)
                result = write_single(own, op, taken, bool(self._marks), numbers, note)
                if own.runs and not own.singles.entries:  # they became a run
                    self._limit_memory()
                return result
            except BatchPathNeeded:
                return self.write(table, as_batch(own.context.codec, op, row, stored))
            except (UnknownTable, SchemaChanged) as error:
                raise self._catalog.conflict(table, error) from error

    def _note_keys(self, table: Table, keys: Keys) -> None:
        arrays = [vector.to_arrow() for vector in keys.columns]
        names = [column.name for column in table.schema.key]
        self._reads_of(self._reads, table).note_keys(pa.RecordBatch.from_arrays(arrays, names=names))

    def _limit_memory(self) -> None:
        """Move own rows to a file if they take too much memory; the lock is held."""
        if sum(own.nbytes for own in self._tables.values()) > self._limit:
            for own in self._tables.values():
                own.spill(self._move)

    def _move(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that are in a temporary file, in memory that the system may give away."""
        with self._lock:
            if self._file is None:
                self._file = SpillFile(self._options.temporary_directory or self.temporary_directory, _NEED)
            file = self._file
        return file.map(file.write(rows))

    def bulk_loader(self, table: Table) -> TransactionLoad:
        """Start a bulk load whose rows become own rows."""
        self._check_writable()
        table = self._catalog.latest(table)
        insert = partial(self._insert_all, table)
        return TransactionLoad(table_context(table), self._check, insert, self._move, self._limit)

    def _insert_all(self, table: Table, batches: Iterable[pa.RecordBatch]) -> None:
        with self._lock:
            mark = self.savepoint()
            try:
                for batch in batches:
                    written = self.write(table, WriteBatch(batch, Op.INSERT, all_or_none=True))
                    if written.errors:
                        raise written.errors[0].error
            except BaseException:
                self.rollback_to(mark)
                raise
            finally:
                self.release(mark)
