"""The seam between SQL and tablets: what any store must offer. `storage.database.Database` is the embedded one.

The life of a read, seen from above: `Store.table` gives the schema, `Store.scan_tokens` turns a `ScanSpec` into
tokens (tablets that the predicates rule out give none), `Store.scan` reads one token as batches. Tokens are read
by several threads at once; each is plain data and names its snapshot.

The life of a write: rows of one table go into a `WriteBatch`, `Store.write` applies it and answers per row. When it
returns, the rows that were not refused are durable and visible to every later scan.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, NewType, Protocol

import pyarrow as pa

from ..errors import IntegrityError
from .access.keeping import KeepsAccess
from .alterations import AlterStep
from .catalog_changes import CatalogChanges
from .keeping_namespaces import AltersNamespaces, KeepsNamespaces
from .lazy_dataclass import dataclass
from .predicates import ColumnPredicate, OneOf
from .schema import Table, TableDefinition, View
from .transactions import DEFAULT_OPTIONS, TableRead, TransactionOptions
from .vectors.vector import Array, Batch

Timestamp = NewType("Timestamp", int)
"""Hybrid time: microseconds since 1970 << 12 | logical counter."""

CHANGE_COLUMN = "_change"
"""Of a diff scan: what happened to the row, STRING: "insert", "update" or "delete"."""
CHANGED_AT_COLUMN = "_changed_at"
"""Of a diff scan with the full history: when it happened, BIGINT: a hybrid timestamp."""


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """Makes a scan a diff scan: not the rows at a time, but what happened to them after `since` and up to the scan's
    snapshot.

    Net (the default): each row whose state differs between the two times, once: "insert" and "update" with the values
    at the end, "delete" with the values at `since`. With `history`: every change, by key and then in order of time,
    with the values after it ("delete": before it). Predicates apply to the values shown.
    """

    since: Timestamp
    history: bool = False


@dataclass(frozen=True, slots=True)
class EvenSplit:
    """Divide a scan into at least `tokens` tokens of equal size, if it covers `least_rows` to `most_rows` rows before
    predicates (None: no limit)."""

    tokens: int
    least_rows: int
    most_rows: int | None = None


@dataclass(frozen=True, slots=True)
class ScanSpec:
    """Specification of a scan of a table.

    Parameters
    ----------
    columns : tuple of str
        The projection, in output order; may be empty (batches then carry only their length).
    predicates : tuple of ColumnPredicate
        A conjunction; every returned row satisfies all of them. Their columns need not be projected.
    snapshot : Timestamp, optional
        Read as of this time; None reads the latest.
    split_rows : int, optional
        Tokens should cover about this many rows each, so that several threads share a tablet; None: one per tablet.
    ordered : bool
        The rows of each token ascend by primary key; there is one token per tablet then.
    descending : bool
        With `ordered`: the rows descend by primary key.
    limit : int, optional
        Limit of rows per token.
    changes : ChangeRange, optional
        A diff scan; `columns` may name `CHANGE_COLUMN` and `CHANGED_AT_COLUMN` too. One token per tablet.
    tablet : str, optional
        Read this tablet alone, by its id.
    fragment : bytes
        A plan fragment that the server applies to each token's batches, for stores that run fragments
        (`Store.runs_fragments`); its output may have other columns than the scan. The limit then applies to the scan.
    split_evenly : EvenSplit, optional
        Divide scans of some sizes further than `split_rows` says. Stores may ignore it.
    one_of : tuple of OneOf
        Conditions that the caller evaluates on the rows itself; here they only leave out tablets without such rows.
        Stores may ignore them.
    """

    columns: tuple[str, ...]
    predicates: tuple[ColumnPredicate, ...] = ()
    snapshot: Timestamp | None = None
    split_rows: int | None = None
    ordered: bool = False
    limit: int | None = None
    changes: ChangeRange | None = None
    tablet: str | None = None
    fragment: bytes = b""
    descending: bool = False
    split_evenly: EvenSplit | None = None
    one_of: tuple[OneOf, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanToken:
    """One unit of a scan: a tablet, or a part of it. The tokens of one call tile the table's rows, in the order of
    tablets and, within a tablet's rowset, of the key."""

    table: Table
    tablet_id: str
    spec: ScanSpec
    part: tuple[Any, ...] = ()
    """Which part of the tablet; its meaning is the store's own."""
    rows: int = 0
    """About how many rows it covers before predicates."""
    partition: str = ""
    """Which part of the space of partition keys the tablet has: equal for tablets of two tables that have the same
    buckets and the same range."""
    is_small: bool = False
    """True if one message of a server is expected to carry the whole result. Then `Store.scan_all` saves time."""


class ScanBatches(Protocol):
    """The batches of one token."""

    def __iter__(self) -> Iterator[Batch]: ...

    def __next__(self) -> Batch: ...

    def close(self) -> None:
        """End the scan. Closing again has no effect."""


@dataclass(slots=True)
class ScanCounters:
    """Counters of a scan: rows and pages read and skipped. EXPLAIN ANALYZE shows them, tests assert them. Filled by
    `Store.scan`.

    `watch`, if given, is called before each row group with its number of rows, also if all are dropped; an exception
    from it ends the scan.
    """

    rows_considered: int = 0
    rows_returned: int = 0
    pages_read: int = 0
    pages_skipped: int = 0
    rowgroups_skipped: int = 0
    bytes_read: int = 0
    watch: Callable[[int], None] | None = field(default=None, compare=False, repr=False)

    def passing(self, rows: int) -> None:
        """Report that the scan is about to read or skip `rows` rows."""
        if self.watch is not None:
            self.watch(rows)

    def add(self, other: ScanCounters) -> None:
        """Count another scan's work into this one."""
        self.rows_considered += other.rows_considered
        self.rows_returned += other.rows_returned
        self.pages_read += other.pages_read
        self.pages_skipped += other.pages_skipped
        self.rowgroups_skipped += other.rowgroups_skipped
        self.bytes_read += other.bytes_read


class Op(enum.IntEnum):
    """Operation of a row of a `WriteBatch`. The ops of one key take effect in the order of their rows.

    The IGNORE forms skip cases in which the plain ones return an error: a key that exists (INSERT), one that does not
    (UPDATE, DELETE), a change of an immutable column (UPDATE, UPSERT: the cell is unchanged, the others change).
    """

    INSERT = 1
    INSERT_IGNORE = 2
    UPSERT = 3
    UPDATE = 4
    DELETE = 5
    UPSERT_IGNORE = 6
    UPDATE_IGNORE = 7
    DELETE_IGNORE = 8


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """Rows to write into one table.

    Parameters
    ----------
    rows : pa.RecordBatch
        Columns by name, of the table's Arrow types; all key columns are required. A missing column gets its default in
        inserted rows, and is unchanged in updated rows. DELETE uses only the key.
    ops : Op or ndarray of uint8, shape (n_rows,)
        One op for all rows, or one each.
    isset : mapping of str to ndarray of bool, shape (n_rows,)
        For columns that only some rows have: True for these rows. In the others the column counts as missing.
    all_or_none : bool
        If one row is refused, none is applied, as SQL statements require. The errors still list all invalid rows.
        (Kudu's sessions apply the valid rows, which is the default.)
    unchanged_since : Timestamp, optional
        Snapshot at which the updated or deleted rows were read, for writes that depend on their values. A row that
        another write has changed since is refused with `RowChanged` (`writing.changed_since`). Only with `all_or_none`.
    """

    rows: pa.RecordBatch
    ops: Op | Array = Op.INSERT
    all_or_none: bool = False
    isset: Mapping[str, Array] = field(default_factory=dict)
    unchanged_since: Timestamp | None = None

    def __post_init__(self) -> None:
        if self.unchanged_since is not None and not self.all_or_none:
            raise ValueError("rows that are unchanged since a time are written all or none")


@dataclass(frozen=True, slots=True)
class RowError:
    """Error of one row of a batch; `row` is its index in the batch."""

    row: int
    error: IntegrityError


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Result of a batch: `applied` rows changed the table, `errors` were refused one by one, the rest were ignored by
    the IGNORE forms."""

    applied: int
    errors: tuple[RowError, ...] = ()
    timestamp: Timestamp = Timestamp(0)


class TableWrite:
    """Net changes of a transaction to one table: one row per key, in `batch`.

    INSERT: the key was absent at the snapshot. UPDATE, DELETE: it was present. UPSERT, DELETE_IGNORE: not known (or
    absent, where the table has AUTO_INCREMENT numbers, which an INSERT cannot give). The batch is `all_or_none` and has
    no `unchanged_since`; the transaction's snapshot holds for all rows.

    Parameters
    ----------
    table : Table
    batch : WriteBatch, optional
        None in subclasses that have the rows in another form, and make the batch only if it is read.
    """

    def __init__(self, table: Table, batch: WriteBatch | None = None):
        self.table = table
        self._batch = batch

    @property
    def batch(self) -> WriteBatch:
        """The changes."""
        assert self._batch is not None
        return self._batch

    @property
    def row_count(self) -> int:
        """Number of rows."""
        count: int = self.batch.rows.num_rows
        return count

    @property
    def nbytes(self) -> int:
        """About the bytes of the rows in memory."""
        size: int = self.batch.rows.nbytes
        return size


@dataclass(frozen=True, slots=True)
class TransactionChanges:
    """Everything that a COMMIT decides on.

    Parameters
    ----------
    snapshot : Timestamp
        At which the transaction has read.
    writes : tuple of TableWrite
        By table; several of one table take effect in their order. They have no key in common, but for a row that was
        deleted and inserted again with other values of IMMUTABLE columns: a DELETE, then an INSERT.
    reads : tuple of TableRead
        To be validated: of SERIALIZABLE all that was read, otherwise the rows locked with FOR UPDATE.
    catalog : CatalogChanges, optional
        Changes of the catalog, or what a SERIALIZABLE transaction has read of it. Never given to stores that are not
        `transactional_ddl`. Writes to altered tables are of their last versions, reads of those before.
    """

    snapshot: Timestamp
    writes: tuple[TableWrite, ...]
    reads: tuple[TableRead, ...] = ()
    catalog: CatalogChanges | None = None

    @property
    def tables(self) -> dict[str, Table]:
        """The tables written to or read from, by id."""
        written = {write.table.id: write.table for write in self.writes}
        return written | {read.table.id: read.table for read in self.reads if read.table.id not in written}


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of a column for the planner. `low` and `high` are physical values, None where unknown."""

    low: Any = None
    high: Any = None
    null_count: int = 0
    distinct_count: float | None = None


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """Estimates for the planner, kept by the storage as data is written."""

    row_count: int = 0
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """Result of `compact_table`: rowsets and bytes on disk before and after, and bytes written."""

    rowsets_before: int = 0
    rowsets_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True)
class AnalyzeResult:
    """Result of `analyze_table`: number of rows, rows flushed first, rowsets, and the number of changed rowsets that it
    read."""

    rows: int = 0
    rows_flushed: int = 0
    rowsets: int = 0
    rowsets_read: int = 0


@dataclass(frozen=True, slots=True)
class ColumnStorage:
    """Storage of a column: bytes on disk, encodings of its files, and the approximate size of a decoded value in bytes
    (None if unknown)."""

    bytes: int = 0
    encodings: tuple[str, ...] = ()
    width: float | None = None


@dataclass(frozen=True, slots=True)
class TableStorage:
    """Storage of a table on disk, without rows in memory. `bytes` includes keys and deltas."""

    tablets: int = 0
    rowsets: int = 0
    bytes: int = 0
    columns: Mapping[str, ColumnStorage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replica:
    """Location of a tablet's replica: the host, the store's directory there (None: in memory), and the replica's
    role."""

    host: str
    directory: str | None
    role: str = "LEADER"


@dataclass(frozen=True, slots=True)
class TabletDescription:
    """A tablet for clients: `partition` is a readable text, `rows` the number of existing rows, `bytes` the size on
    disk."""

    id: str
    partition: str
    rows: int
    bytes: int
    replicas: tuple[Replica, ...]


class BulkLoader(Protocol):
    """Writes many rows as sorted DiskRowSets, bypassing log and MemRowSet, visible all at once at `finish`.

    A context manager: leaving it without `finish` (or by an exception) leaves no trace of the load.
    """

    def append(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows, in any order; columns by name."""

    def finish(self) -> int:
        """Make all rows durable and visible; how many there are.

        Raises `AlreadyPresent` where a key occurs twice or is in the table already; nothing is loaded then.
        """

    def __enter__(self) -> BulkLoader: ...

    def __exit__(self, *exc: object) -> None: ...


class Store(KeepsAccess, KeepsNamespaces, Protocol):
    """Everything that SQL needs of a store. All methods may be called from several threads."""

    @property
    def catalog_version(self) -> int:
        """Grows with every DDL; plans are cached under it."""

    @property
    def transactional_ddl(self) -> bool:
        """True if transactions can change the catalog; False: these raise `NotSupportedError` for DDL."""

    @property
    def temporary_directory(self) -> str | None:
        """A folder on the disk that the store is on, for temporary files; None where there is none."""

    @property
    def runs_fragments(self) -> bool:
        """True if servers can execute plan fragments (`ScanSpec.fragment`); False for the embedded store."""

    def tables(self) -> Sequence[Table]:
        """All tables by name, ascending."""

    def table(self, name: str) -> Table:
        """One table; `UnknownTable` names close ones."""

    def create_table(self, definition: TableDefinition) -> Table:
        """Create a table durably; `DuplicateTable` where the name is taken, `InvalidTableDefinition` where it cannot
        be."""

    def drop_table(self, name: str, views: Collection[str] = ()) -> None:
        """Drop a table and its data durably, and with it, in the same step, the views named; scans that run already
        finish."""

    def views(self) -> Sequence[View]:
        """All views by name, ascending."""

    def view(self, name: str) -> View | None:
        """One view; None where there is none of that name."""

    def create_view(self, view: View, replace: bool = False) -> None:
        """Keep a view durably, with `replace` in the place of one of its name. Tables and views share their names:
        `DuplicateTable` where the name is taken."""

    def drop_views(self, names: Collection[str]) -> None:
        """Drop views durably, in one step; `UnknownTable` where one is not there."""

    def rename_view(self, name: str, new_name: str, namespace: str) -> None:
        """Rename a view durably, and move it to a namespace, in one step; its grants stay. `UnknownTable` where it is
        not there, `DuplicateTable` where the new name is taken."""

    def alter_table(self, name: str, steps: Sequence[AlterStep]) -> Table:
        """Change a table in one atomic step (`alterations`); no stored row is rewritten. `InvalidTableDefinition`,
        `UnknownColumn`, `UnknownTable` or `DuplicateTable` where it cannot be; nothing has changed then."""

    def compact_table(self, table: Table, check: Callable[[], None] | None = None) -> CompactionResult:
        """Flush the table, merge all deltas into base data and merge overlapping rowsets, at once and completely.
        `check` is called before each step; an exception from it ends the work, and finished steps remain."""

    def write_row(
        self, table: Table, op: Op, row: Mapping[str, Any], unchanged_since: Timestamp | None = None
    ) -> WriteResult:
        """`write` for one row of Python values, by a shorter way. `unchanged_since` is as that of a `WriteBatch`."""

    def read_row(
        self, table: Table, key: Sequence[Any], columns: Sequence[str], snapshot: Timestamp | None = None
    ) -> tuple[Any, ...] | None:
        """The row with a primary key (Python values in key order): its columns as Python values, None where there is
        no such row."""

    def statistics(self, table: Table) -> TableStatistics:
        """Known statistics of a table's rows and columns; cheap."""

    def analyze_table(self, table: Table, check: Callable[[], None] | None = None) -> AnalyzeResult:
        """Update the table's statistics with all updates and deletions, durably, after a flush. `DiskError` if the disk
        fails; then, and if `check`, which is called before each row group, raises, they are unchanged."""

    def table_storage(self, table: Table) -> TableStorage:
        """Storage of the table on disk."""

    def tablet_count(self, table: Table) -> int:
        """Number of tablets of the table."""

    def describe_tablets(self, table: Table) -> Sequence[TabletDescription]:
        """The table's tablets, in the order of partitions."""

    def key_samples(self, table: Table, tablet_id: str) -> Sequence[tuple[Any, ...]]:
        """Primary keys (physical values, ascending) of rows of a tablet at about even distances, few thousand rows
        apart; rows that are not on disk yet may be left out. `TabletGone` where there is no such tablet."""

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """The units of a scan; tablets and ranges that the predicates rule out are left out. `TabletGone` where the
        spec names a tablet that is not there."""

    def scan(self, token: ScanToken, counters: ScanCounters | None = None) -> Iterator[Batch]:
        """Read a token: batches of at most 131,072 rows with the spec's columns, read lazily. `counters`, where given,
        are counted up as the scan goes."""

    def scan_all(self, tokens: Sequence[ScanToken], counters: Sequence[ScanCounters]) -> Sequence[ScanBatches]:
        """`scan` for several tokens, of one table or of several, each with its counters. If servers scan, all requests
        are sent at once, before the first batch is read. The caller must close each of the results, read or not."""

    def write(self, table: Table, batch: WriteBatch) -> WriteResult:
        """Apply a batch; see the module's page."""

    def bulk_loader(self, table: Table) -> BulkLoader:
        """Start a bulk load of a table."""

    def take_numbers(self, table: Table, partition: int, count: int) -> int:
        """Reserve `count` consecutive numbers of the table's AUTO_INCREMENT column for rows of a partition (its place
        among the table's), and return the first. Numbers that are not used leave gaps."""

    def begin(self, options: TransactionOptions = DEFAULT_OPTIONS) -> Transaction:
        """Begin a transaction at the latest state. `ActiveTransaction` on a store that is one already."""

    def commit_transaction(self, changes: TransactionChanges) -> Timestamp:
        """Apply the changes of a transaction to all tables and tablets at one timestamp, durably, or none of them.

        Returns the commit timestamp: a read as of it sees all of the changes, a read as of an earlier time none.
        Without writes it only validates the reads, and returns the snapshot.

        Raises
        ------
        SerializationFailure
            A key of the writes, or a row of the reads, was changed after the snapshot; the message names table and key.
        HistoryGone
            The snapshot is so old that changes since cannot be determined.
        SchemaChanged, UnknownTable
            A table was altered in the columns concerned, or dropped.
        OutcomeUnknown
            The outcome is known after the next opening of the store, or after a time; as for `write`.
        """

    def now(self) -> Timestamp:
        """A timestamp that every write acknowledged so far by this store is at or below: of a cluster, by this client,
        or before a timestamp that it has observed. Of a transaction: its snapshot."""

    def close(self) -> None:
        """Release everything; acknowledged writes are durable already."""


class Transaction(Store, AltersNamespaces, Protocol):
    """A transaction: a store whose tables are those of its snapshot merged with its own writes.

    Scans fix the own rows that they show in `scan_tokens`; later writes of the transaction do not change them, and
    they can be read to their end after COMMIT or ROLLBACK. Writes need no `unchanged_since`: `commit` finds conflicts.
    After `commit` (whatever its outcome) or `rollback`, every other method raises `NoActiveTransaction`; `close` is
    `rollback`, or nothing.
    """

    @property
    def options(self) -> TransactionOptions:
        """The characteristics that it began with."""

    @property
    def snapshot(self) -> Timestamp:
        """The time that it reads at."""

    @property
    def is_open(self) -> bool:
        """False after `commit` or `rollback`."""

    @property
    def has_writes(self) -> bool:
        """True if it has changed rows or the catalog so far."""

    def own_rows(self, table: Table) -> int:
        """Number of the table's rows that it has written or deleted so far; for EXPLAIN ANALYZE."""

    def lock_rows(self, table: Table, keys: pa.RecordBatch) -> None:
        """Have COMMIT validate these rows (key columns by name) as if they were read by a SERIALIZABLE transaction:
        SELECT ... FOR UPDATE."""

    def lock_row(self, table: Table, key: Sequence[Any]) -> None:
        """`lock_rows` for one key of Python values."""

    def savepoint(self) -> int:
        """A mark to which `rollback_to` returns; marks ascend, and cost nothing until rows are written after them."""

    def rollback_to(self, savepoint: int) -> None:
        """Undo all writes made after the mark, which stays valid; later marks become invalid. Reads are not
        forgotten."""

    def release(self, savepoint: int) -> None:
        """Discard the mark and later ones; what they kept for undoing is freed, the writes stay."""

    def commit(self) -> Timestamp:
        """`Store.commit_transaction` with all changes. Ends the transaction, also by an error."""

    def rollback(self) -> None:
        """End the transaction; nothing was written. No-op after the end."""
