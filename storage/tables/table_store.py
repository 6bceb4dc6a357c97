"""One open table: its partitioner and its tablets. The `Database` is a catalog of these.

Writes and scans of a table go through here: rows are routed to tablets, tablets are pruned for scans.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import CorruptionError, DiskError, StoreClosed, TabletGone, UnknownColumn
from ...model import metrics
from ...model.altered_table import check_same_columns
from ...model.clock import HybridClock
from ...model.schema import Table
from ...model.store import (
    CHANGE_COLUMN,
    CHANGED_AT_COLUMN,
    AnalyzeResult,
    Op,
    ScanCounters,
    ScanSpec,
    ScanToken,
    TableStatistics,
    Timestamp,
    WriteBatch,
    WriteResult,
)
from ..files.filesystem import FileSystem
from ..files.page_cache import PageCache
from ..loads.load_record import LoadRecord
from ..log.commit_log import CommitLog
from ..log.decision import Decision
from ..log.tablet_log import WriteContext
from ..maintenance.tablet_flush import flush_overfull, is_overfull, needs_flush
from ..reading.tablet_scan import Part, cut_tokens, even_rows, tablet_tokens
from ..single_rows.row_access import RowAccess
from ..single_rows.row_changes import RowChange, rows_of
from ..single_rows.row_read import Altered
from ..single_rows.row_rules import BatchPathNeeded
from ..single_rows.row_write import StartedRow
from ..single_rows.rows_write import RowsWrite
from ..statistics.analysis import Analysis, analyze
from ..statistics.table_statistics import StatisticsCache
from ..tablet.damaged_tablet import damaged_tablet
from ..tablet.tablet import StoreOptions, Tablet, TabletView
from ..writing.incoming_rows import incoming, row_errors
from ..writing.tablet_part import TabletPart, are_few
from .atomic_write import AtomicWriter, TableBatch
from .catalog import CatalogEntry
from .table_layout import TableLayout
from .tablet_opening import TabletOpening

if TYPE_CHECKING:
    from ...model.vectors.vector import Array
    from .quotas import Quota

_NO_WAIT = WriteContext(waits=False)


class TableStore:
    """An open table. All methods may be called from several threads.

    Parameters
    ----------
    pool : Executor
        For work that several tablets do at once; its tasks never wait for other tasks.
    commits : CommitLog
        The store's, which decides on writes over several tablets.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        entry: CatalogEntry,
        tablets: Sequence[Tablet],
        clock: HybridClock,
        pool: Executor,
        commits: CommitLog,
    ):
        self.fs = fs
        self.directory = directory
        self.layout = TableLayout.of(entry.table, tablets)
        """Replaced as a whole, under the `write_lock`s of all its tablets."""
        self.clock = clock
        self.pool = pool
        self.commits = commits
        self.writer = AtomicWriter(clock, pool, commits)
        self.alter_lock = threading.Lock()
        self._quota: Quota | None = None
        """Held while the table goes over to another layout."""
        self.load_lock = threading.Lock()
        """One load is published at a time."""
        self.unfinished_loads: list[LoadRecord] = []
        """Loads that happened, but some tablet's metadata does not know it yet; guarded by `load_lock`."""
        self.repairs: list[Callable[[], None]] = []
        """Steps that must succeed before the table is written again: they remove traces of failed steps that a crash
        would revive."""
        self.ranges_dropped_at = Timestamp(0)
        """When a range partition was dropped for the last time since the store was opened: what became of its rows is
        not known any more."""
        self.statistics_cache = StatisticsCache(entry.table, Analysis.read(fs, directory))
        self._rows: RowAccess | None = None
        metrics.register(self.samples)

    def samples(self) -> Iterator[metrics.Sample]:
        """For `metrics.collect`: `background` reads whole tablets only."""
        yield metrics.Sample("nyala_tablets_quarantined", len(self.tablets) - len(self.whole_tablets))

    @property
    def table(self) -> Table:
        """The current table."""
        return self.layout.table

    @property
    def tablets(self) -> tuple[Tablet, ...]:
        """The tablets that there are now."""
        return self.layout.tablets

    @property
    def whole_tablets(self) -> list[Tablet]:
        """Those that are not in quarantine."""
        return [tablet for tablet in self.layout.tablets if tablet.damage is None]

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
        commits: CommitLog,
    ) -> TableStore:
        """Recover a table: finish interrupted loads, then open its tablets. Damaged ones are put in quarantine."""
        tablets = TabletOpening(fs, directory, entry, cache, clock, options, pool, commits).run()
        return cls(fs, directory, entry, tablets, clock, pool, commits)

    def set_undecided_aside(self, damage: CorruptionError) -> None:
        """Put the tablets into quarantine whose logs have parts that the commit log does not decide on, since it is
        damaged. Before the table is used: nothing was written since it was opened."""
        tablets = list(self.tablets)
        for place, tablet in enumerate(tablets):
            if tablet.passed_over:
                tablet.log.close()
                tablet.close_files()
                shared: dict[str, Any] = {"cache": tablet.cache, "clock": self.clock, "options": tablet.options}
                tablets[place] = damaged_tablet(self.fs, tablet.directory, tablet.id, self.table, damage, **shared)
        self.layout = TableLayout.of(self.table, tablets)

    def close(self) -> None:
        """Sync the logs and close all files."""
        with ExitStack() as stack:
            for tablet in self.tablets:
                stack.callback(tablet.close)
            with contextlib.suppress(DiskError):
                self.finish_loads()  # the records stay, and the next opener finishes them

    # ---- writing -------------------------------------------------------------------------------------------------

    def write(self, batch: WriteBatch, check_only: bool = False, table: Table | None = None) -> WriteResult:
        """Apply a batch: visible at once to later snapshots, and all or nothing in a crash, however many tablets its
        rows go to. With `check_only`: say what would be refused now, and change nothing. `table` is as the caller knows
        it: `SchemaChanged` where a column's name means another one now.

        Raises `DiskError` where a log fails: nothing is changed then, nor will be. `OutcomeUnknown`: nothing is
        changed, but after a crash all of it may be.
        """
        if self.table.quota_bytes is not None:
            self.check_quota(batch.ops)
        while True:
            layout = self.layout
            if table is not None and table is not layout.table:
                check_same_columns(table, layout.table, batch.rows.schema.names)
            result = self._write(layout, batch, check_only)
            if result is not None:
                return result

    def _write(self, layout: TableLayout, batch: WriteBatch, check_only: bool) -> WriteResult | None:
        """`write`; None where the table was altered meanwhile, with nothing done."""
        if are_few(0, batch.rows.num_rows) and not check_only:
            with contextlib.suppress(BatchPathNeeded):
                rows = rows_of(self.rows.writer.codec, batch)
                return self._apply(self.routed_rows(layout, rows, unchanged_since=batch.unchanged_since), batch)
        return self._apply(self.routed(layout, batch), batch, check_only)

    def _apply(self, routed: TableBatch, batch: WriteBatch, check_only: bool = False) -> WriteResult | None:
        outcome = self.writer.apply([routed], [part.tablet for part in routed.parts], check_only)
        if outcome is None:
            return None
        if isinstance(outcome, Decision):
            outcome.wait()
            return None
        self.writer.finish(outcome)
        errors = routed.all_errors()
        is_refused = check_only or (batch.all_or_none and bool(errors))
        applied = 0 if is_refused else sum(part.applied for part in routed.parts)
        return WriteResult(applied, tuple(errors), outcome.timestamp)

    def routed(self, layout: TableLayout, batch: WriteBatch, snapshot: Timestamp | None = None) -> TableBatch:
        """A batch by tablet, its keys searched in rowsets. `snapshot`: that of the transaction that writes it. Raises
        what is wrong with the batch as a whole, `DiskError` where repairs fail."""
        self.repair()
        rows = incoming(layout.table, batch)
        errors = row_errors(layout.table, rows)
        parts = layout.route(rows, errors, snapshot)
        for part in parts:
            flush_overfull(part.tablet)
            part.probe()
        return TableBatch([*parts], errors, batch.all_or_none, self.repairs, lambda: self.layout is layout)

    def routed_rows(
        self,
        layout: TableLayout,
        rows: Sequence[RowChange],
        snapshot: Timestamp | None = None,
        unchanged_since: Timestamp | None = None,
    ) -> TableBatch:
        """As `routed`, for a few rows, which are written one by one, all or none of them. `BatchPathNeeded` if they
        must go as a batch."""
        self.repair()
        by_place: dict[int, list[RowChange]] = {}
        for row in rows:
            by_place.setdefault(layout.partitioner.route_one(row.key), []).append(row)
        codec = self.rows.writer.codec
        if -1 in by_place or codec.table is not layout.table:
            raise BatchPathNeeded
        parts: list[TabletPart] = []
        for place in sorted(by_place):
            tablet = layout.tablets[place]
            if tablet.damage is not None:
                tablet.refuse()
            flush_overfull(tablet)
            parts.append(RowsWrite(tablet, codec, by_place[place], snapshot, unchanged_since))
        return TableBatch(parts, [], True, self.repairs, lambda: self.layout is layout)

    # ---- single rows ---------------------------------------------------------------------------------------------

    def write_row(
        self,
        table: Table,
        op: Op,
        row: Mapping[str, Any],
        unchanged_since: Timestamp | None = None,
        physical: bool = False,
    ) -> WriteResult:
        """`write` for one row of Python (or `physical`) values, by the row path: `row_write`. `table` is the caller's
        version."""
        if self.repairs:
            self.repair()
        if self.table.quota_bytes is not None:
            self.check_quota(op)
        writer = self.rows.writer
        if table is not writer.codec.table:
            check_same_columns(table, writer.codec.table, list(row))
        return writer.write_physical(op, row) if physical else writer.write(op, row, unchanged_since)

    def start_row(self, table: Table, tablet: Tablet, op: Op, row: Mapping[str, Any]) -> StartedRow | None:
        """The part of `write_row`, for physical values, before it waits for the log. None, with nothing done, if it
        would have to wait before that, changes nothing, or must be written as a batch. `tablet` is the row's."""
        writer = self.rows.writer
        if self.repairs or table is not writer.codec.table or is_overfull(tablet):
            return None
        if self.table.quota_bytes is not None:
            return None
        try:
            return writer.start_physical(op, row, _NO_WAIT)
        except (DiskError, StoreClosed):
            return None  # `write_row` has the error

    def start_python_row(self, table: Table, op: Op, row: Mapping[str, Any]) -> StartedRow | None:
        """`start_row` for Python values, of which the tablet follows."""
        writer = self.rows.writer
        if self.repairs or table is not writer.codec.table or self.table.quota_bytes is not None:
            return None
        if any(map(is_overfull, self.whole_tablets)):
            return None
        try:
            return writer.start(op, row, _NO_WAIT)
        except (DiskError, StoreClosed):
            return None  # `write_row` has the error

    def check_quota(self, ops: Op | Array) -> None:
        """Raise `QuotaExceeded` if rows with these ops are not accepted because of the table's quota."""
        if self.table.quota_bytes is not None:
            from .quotas import Quota  # few tables have one

            if self._quota is None:
                self._quota = Quota()
            self._quota.check(self.table, self.whole_tablets, ops)

    def has_grown(self, size: int, most: int) -> bool:
        """Counts the bytes of a row of `start_row`; True if a flush is due, after each `most` bytes."""
        writer = self.rows.writer
        writer.grown += size
        if writer.grown <= most:
            return False
        writer.grown = 0
        return any(needs_flush(tablet) for tablet in self.whole_tablets)

    def read_row(
        self,
        table: Table,
        key: Sequence[Any],
        columns: Sequence[str],
        snapshot: Timestamp | None,
        counters: ScanCounters | None = None,
    ) -> tuple[Any, ...] | None:
        """Look up a row by its primary key: `row_read`. `table` is the caller's version."""
        while True:
            reader = self.rows.reader
            if table is not reader.codec.table:
                check_same_columns(table, reader.codec.table, columns)
            try:
                return reader.read(key, columns, snapshot, counters)
            except Altered:
                with self.alter_lock:
                    pass

    @property
    def rows(self) -> RowAccess:
        """Row path: access to single rows of the current table."""
        found = self._rows
        if found is None or not found.is_current():
            layout = self.layout
            found = self._rows = RowAccess(
                layout.table,
                layout.partitioner,
                layout.tablets,
                self.clock,
                lambda: self.layout is layout,
                lambda batch: self.write(batch, table=layout.table),
                lambda: self.layout is layout and not self.repairs,
            )
        return found

    # ---- reading -------------------------------------------------------------------------------------------------

    def scan_tokens(self, table: Table, spec: ScanSpec) -> list[ScanToken]:
        """The tokens of a scan at `spec.snapshot`, which is set."""
        while True:
            layout = self.layout
            try:
                tokens = _tokens(layout, table, spec)
                # Views that were taken while the table was altered may be of both schemas.
                if self.layout is layout and all(token.part[0].table is layout.table for token in tokens):
                    return tokens
            except UnknownColumn:
                with self.alter_lock:
                    if self.layout is layout:
                        raise
            with self.alter_lock:
                pass

    def statistics(self) -> TableStatistics:
        """Estimates for the planner; computed again when rowsets have changed."""
        return self.statistics_cache.get({tablet.id: tablet.pin() for tablet in self.whole_tablets})

    def analyze(
        self, check: Callable[[], None] | None = None, tablets: Sequence[Tablet] | None = None
    ) -> AnalyzeResult:
        """Flush the table, or some of its tablets, and look at what updates and deletions made of the rows:
        `analysis`."""
        analysis, result = analyze(self.tablets if tablets is None else tablets, self.clock.now(), check)
        with self.alter_lock:
            if tablets is not None:
                analysis = self.statistics_cache.analysis.with_tablets([tablet.id for tablet in tablets], analysis)
            analysis.write(self.fs, self.directory)
            self.statistics_cache = StatisticsCache(self.table, analysis)
        return result

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
            for tablet in self.whole_tablets:
                with tablet.metadata_lock:
                    tablet.metadata.write(tablet.fs, tablet.directory)
            while self.unfinished_loads:
                self.unfinished_loads[0].remove(self.fs, self.directory)
                del self.unfinished_loads[0]


def _tokens(layout: TableLayout, table: Table, spec: ScanSpec) -> list[ScanToken]:
    assert spec.snapshot is not None
    names = (*spec.columns, *(predicate.column for predicate in spec.predicates))
    for name in names:
        if spec.changes is None or name not in (CHANGE_COLUMN, CHANGED_AT_COLUMN):
            layout.table.schema.column(name)
    check_same_columns(table, layout.table, names)
    parts: list[tuple[str, str, list[tuple[TabletView, Part, int]]]] = []
    if spec.tablet is not None and all(tablet.id != spec.tablet for tablet in layout.tablets):
        raise TabletGone(f"table {layout.table.name} has no tablet {spec.tablet}: its range partition was dropped")
    for place in layout.partitioner.prune(spec.predicates, spec.one_of):
        tablet = layout.tablets[place]
        if spec.tablet not in (None, tablet.id):
            continue
        partition = layout.partitioner.partitions[place].place
        parts.append((tablet.id, partition, tablet_tokens(tablet, spec, spec.snapshot)))
    size = even_rows(spec, [rows for _, _, tokens in parts for _, _, rows in tokens])
    if size is not None:
        smaller = replace(spec, split_rows=size)
        parts = [(tablet, place, cut_tokens(tokens[0][0], smaller)) for tablet, place, tokens in parts if tokens]
    return [
        ScanToken(table, tablet, spec, (view, pieces), rows, partition)
        for tablet, partition, tokens in parts
        for view, pieces, rows in tokens
    ]
