"""One open table: its partitioner and its tablets. The `Database` is a catalog of these.

Writes and scans of a table go through here: rows are routed to tablets, tablets are pruned for scans.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack

import numpy as np
import pyarrow as pa

from ..errors import CorruptionError, DiskError, NoPartition, NotSupportedError
from .catalog import CatalogEntry
from .checked_file import TEMPORARY_SUFFIX
from .clock import HybridClock
from .filesystem import FileSystem
from .incoming_rows import conform, describe_key, null_errors, rows_without
from .keys import Keys
from .load_record import LoadRecord, complete_loads
from .mvcc import start_together
from .page_cache import PageCache
from .partition import Partitioner
from .schema import Table
from .store import Op, RowError, ScanSpec, ScanToken, TableStatistics, Timestamp, WriteBatch, WriteResult
from .table_statistics import StatisticsCache
from .tablet import StoreOptions, Tablet
from .tablet_flush import flush_overfull
from .tablet_metadata import TabletMetadata
from .tablet_scan import tablet_tokens
from .tablet_write import TabletWrite
from .vector import Array

_WRITABLE = frozenset((Op.INSERT, Op.INSERT_IGNORE))


class TableStore:
    """An open table. All methods may be called from several threads.

    Parameters
    ----------
    pool : Executor
        For work that several tablets do at once; its tasks never wait for other tasks.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        entry: CatalogEntry,
        tablets: Sequence[Tablet],
        clock: HybridClock,
        pool: Executor,
    ):
        self.fs = fs
        self.directory = directory
        self.table: Table = entry.table
        self.partitioner = Partitioner(entry.table.schema, entry.table.partitions)
        self.tablets = tuple(tablets)
        self.clock = clock
        self.pool = pool
        self.load_lock = threading.Lock()
        """One load is published at a time."""
        self.unfinished_loads: list[LoadRecord] = []
        """Loads that happened, but some tablet's metadata does not know it yet; guarded by `load_lock`."""
        self.repairs: list[Callable[[], None]] = []
        """What must succeed before the table is written again: traces of failed steps that a crash would revive."""
        self._statistics = StatisticsCache(entry.table)

    @staticmethod
    def create(fs: FileSystem, directory: str, entry: CatalogEntry) -> None:
        """Make the files of an empty table durable, but for the name of `directory` itself."""
        for tablet_id in entry.tablet_ids:
            Tablet.create(fs, f"{directory}/{tablet_id}", tablet_id)
        fs.sync_directory(directory)

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        entry: CatalogEntry,
        *,
        cache: PageCache,
        clock: HybridClock,
        options: StoreOptions,
        pool: Executor,
    ) -> TableStore:
        """Recover a table: finish interrupted loads, then open its tablets."""
        _check_tablets(fs, directory, entry)
        metadata = [TabletMetadata.read(fs, f"{directory}/{tablet_id}") for tablet_id in entry.tablet_ids]
        metadata = complete_loads(fs, directory, metadata)

        def open_tablet(number: int) -> Tablet:
            mine = metadata[number]
            path = f"{directory}/{mine.tablet_id}"
            return Tablet.open(fs, path, entry.table, mine, cache=cache, clock=clock, options=options)

        tablets = list(pool.map(open_tablet, range(len(metadata))))
        return cls(fs, directory, entry, tablets, clock, pool)

    def close(self) -> None:
        """Sync the logs and close all files."""
        with ExitStack() as stack:
            for tablet in self.tablets:
                stack.callback(tablet.close)
            with contextlib.suppress(DiskError):
                self.finish_loads()  # the records stay, and the next opener finishes them

    # ---- writing -------------------------------------------------------------------------------------------------

    def write(self, batch: WriteBatch) -> WriteResult:
        """Insert a batch: visible at once to later snapshots and, tablet by tablet, all or nothing in a crash.

        Raises `DiskError` where a log fails: none of the failed tablets' rows are there then, nor will be.
        """
        ops = _checked_ops(batch)
        self.repair()
        rows = conform(self.table, batch.rows)
        errors = null_errors(self.table, rows)
        parts = self._route(rows, ops, errors)
        for part in parts:
            flush_overfull(part.tablet)
            part.probe()
        timestamp, applied, failures = self._apply(parts, batch.all_or_none, errors)
        # The logs of several tablets sync side by side.
        waiting = [self.pool.submit(_finish, part) for part in applied[1:]]
        failures += [error for part in applied[:1] if (error := _finish(part)) is not None]
        failures += [error for future in waiting if (error := future.result()) is not None]
        if failures:
            raise failures[0]
        for part in parts:
            errors += part.errors
        errors.sort(key=lambda error: error.row)
        is_refused = batch.all_or_none and bool(errors)
        return WriteResult(0 if is_refused else sum(part.accepted for part in parts), tuple(errors), timestamp)

    def _apply(
        self, parts: list[TabletWrite], all_or_none: bool, errors: list[RowError]
    ) -> tuple[Timestamp, list[TabletWrite], list[DiskError]]:
        """Check and apply all parts at one timestamp: (that, the parts to wait for, why others failed)."""
        failures: list[DiskError] = []
        applied: list[TabletWrite] = []
        with ExitStack() as locks:
            for part in parts:
                locks.enter_context(part.tablet.write_lock)
            for part in parts:
                part.check()
            changing = [part for part in parts if part.accepted]
            is_refused = all_or_none and (errors or any(part.errors for part in parts))
            if is_refused or not changing:
                return self.clock.now(), parts, failures
            timestamp = start_together([part.tablet.mvcc for part in changing])
            for part in parts:
                try:
                    if part.accepted:
                        part.apply(timestamp)
                    applied.append(part)
                except DiskError as error:
                    failures.append(error)
        return timestamp, applied, failures

    def _route(self, rows: pa.RecordBatch, ops: Op | Array, errors: list[RowError]) -> list[TabletWrite]:
        """The batch by tablet, in the order of tablets, without the rows that have errors; adds to these."""
        numbers = rows_without(rows.num_rows, errors)
        if errors:
            rows = rows.take(pa.array(numbers))
        if not rows.num_rows:
            return []
        places = self.partitioner.route(rows)
        if len(numbers) == 1 and places[0] >= 0:
            own = ops if isinstance(ops, Op) else ops[numbers]
            return [TabletWrite(self.tablets[int(places[0])], rows, numbers, own)]
        for row in np.flatnonzero(places < 0).tolist():
            errors.append(RowError(int(numbers[row]), self.no_partition(rows, row)))
        parts: list[TabletWrite] = []
        for place in np.unique(places).tolist():
            if place >= 0:
                mine = np.flatnonzero(places == place)
                chosen = rows if len(mine) == rows.num_rows else rows.take(pa.array(mine))
                own = numbers[mine]
                parts.append(TabletWrite(self.tablets[place], chosen, own, ops if isinstance(ops, Op) else ops[own]))
        return parts

    def no_partition(self, rows: pa.RecordBatch, row: int) -> NoPartition:
        """The error of a row that no range covers."""
        key = describe_key(self.table, Keys.from_rows(self.table.schema, rows.slice(row, 1)).values_at(0))
        labels = [partition.describe() for partition in self.partitioner.partitions]
        shown = "; ".join(labels[:4]) + ("; ..." if len(labels) > 4 else "")
        return NoPartition(f"no partition of table {self.table.name} covers the row with key {key}; it has: {shown}")

    # ---- reading -------------------------------------------------------------------------------------------------

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """The tokens of a scan at `spec.snapshot`, which is set."""
        assert spec.snapshot is not None
        for name in (*spec.columns, *(p.column for p in spec.predicates)):
            self.table.schema.column(name)
        tokens: list[ScanToken] = []
        for place in self.partitioner.prune(spec.predicates):
            tablet = self.tablets[place]
            for view, pieces, rows in tablet_tokens(tablet, spec, spec.snapshot):
                tokens.append(ScanToken(table, tablet.id, spec, (view, pieces), rows))
        return tokens

    def statistics(self) -> TableStatistics:
        """Estimates for the planner; computed again when rowsets have changed."""
        return self._statistics.get([tablet.state for tablet in self.tablets])

    # ---- after failures ------------------------------------------------------------------------------------------

    def repair(self) -> None:
        """Do what must be done before the table is written again; `DiskError` while the disk refuses."""
        while self.repairs:
            self.repairs[-1]()
            self.repairs.pop()

    def finish_loads(self) -> None:
        """Bring the metadata of all tablets up to the loads that happened, and remove their records."""
        with self.load_lock:
            if not self.unfinished_loads:
                return
            for tablet in self.tablets:
                with tablet.metadata_lock:
                    tablet.metadata.write(tablet.fs, tablet.directory)
            while self.unfinished_loads:
                self.unfinished_loads[0].remove(self.fs, self.directory)
                del self.unfinished_loads[0]

    def views(self) -> Iterator[object]:
        """The views that some token, scan or batch still holds."""
        for tablet in self.tablets:
            yield from tablet.views


def _finish(part: TabletWrite) -> DiskError | None:
    try:
        part.finish()
    except DiskError as error:
        return error
    return None


def _checked_ops(batch: WriteBatch) -> Op | Array:
    ops = batch.ops
    if isinstance(ops, Op):
        codes = {int(ops)}
    else:
        if len(ops) != batch.rows.num_rows:
            raise ValueError(f"{len(ops)} ops for {batch.rows.num_rows} rows")
        ops = np.asarray(ops, np.uint8)
        codes = set(np.unique(ops).tolist())
    if not codes <= _WRITABLE:
        code = min(codes - _WRITABLE)
        name = Op(code).name if code in Op._value2member_map_ else f"op code {code}"
        raise NotSupportedError(f"tablets cannot apply {name} yet; they apply INSERT and INSERT_IGNORE")
    return ops


def _check_tablets(fs: FileSystem, directory: str, entry: CatalogEntry) -> None:
    """Every tablet's files must be there; temporary files of an interrupted replacement go."""
    for tablet_id in entry.tablet_ids:
        path = f"{directory}/{tablet_id}"
        for name in ("metadata", "wal", "rowsets"):
            if not fs.exists(f"{path}/{name}"):
                raise CorruptionError("it is missing", f"{path}/{name}", f"tablet of table {entry.table.name}")
        for name in fs.list(path):
            if name.endswith(TEMPORARY_SUFFIX):
                fs.remove(f"{path}/{name}")
