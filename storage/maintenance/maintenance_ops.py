"""The maintenance operations of one tablet: the statistics of each, and its execution.

    LogGC                   segments whose entries are all in files           Tablet.trim_log
    FlushMemRowSet          the MemRowSet becomes DiskRowSets                  tablet_flush.flush
    FlushDeltaMemStores     the DeltaMemStore of one rowset: a REDO file       tablet_flush.flush_deltas
    MinorDeltaCompaction    some REDO files of one rowset become one           delta_compaction.compact_minor
    MajorDeltaCompaction    some columns of one rowset are rewritten        delta_compaction.compact_major
    CompactRowSets          several rowsets become ones that do not overlap    rowset_compaction.compact_rowsets
    UndoDeltaGC             UNDO deltas that no read can use               history.perform
    DeletedRowsetGC         rowsets whose rows were all deleted long ago       history.perform
    DeadRowGC               a rowset with many rows that were deleted long ago   rowset_compaction.compact_rowsets
    RebuildBloomFilter      a filter that is missing or damaged                derived_files.rebuild_bloom

Statistics are cheap, since they are computed before each operation: numbers in memory and footers that are read once.
More expensive ones, the choice of rowsets to merge and the age of UNDO files, are computed again only when the rowsets
have changed, or after some time.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from ...errors import CorruptionError, DiskError, TabletGone
from ...model.lazy_dataclass import dataclass
from ..keys.key_spans import RowSetExtent
from ..rowsets.memrowset import MemRowSet
from ..rowsets.rowset_writer import BACKGROUND_WORKERS
from ..rowsets.stored_rowset import StoredRowSet
from ..tablet.between_transactions import PATIENCE, Postponed
from ..tablet.tablet import Tablet
from .compaction_policy import Choice, CompactionPolicy
from .delta_compaction import compact_major, compact_minor
from .delta_policy import major_columns, major_score, minor_compaction, minor_score
from .derived_files import rebuild_bloom
from .history import ancient_bytes, dead_share, is_dead, next_mark, perform
from .maintenance_policy import OpKind, OpStatistics, flush_score
from .precedence import giving_way, is_compacted
from .rowset_compaction import compact_rowsets
from .tablet_flush import flush, flush_deltas

HISTORY_SECONDS = 60.0
"""UNDO files of unchanged rowsets are looked at again after so long: they only get older."""

_BLOOM_SCORE = 1.0
"""Of a rowset without its Bloom filter: each look-up reads a page of it, as of one rowset more."""

_REMEMBERED = 64
"""Merges whose outputs are remembered."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that can be done for a tablet.

    Parameters
    ----------
    statistics : OpStatistics
        What it would bring.
    tablet : Tablet
    target : str
        What of the tablet, for people: "MemRowSet", "rowset 12".
    run : callable
        Does it; takes the tablet's `flush_lock`. `DiskError` where the disk fails, with nothing changed.
    """

    statistics: OpStatistics
    tablet: Tablet
    target: str
    run: Callable[[], object]


class TabletOperations:
    """The operations of one tablet, with values cached between calls. Used by one thread at a time."""

    def __init__(self, tablet: Tablet, policy: CompactionPolicy):
        self.tablet = tablet
        self._policy = policy
        self._born: weakref.WeakKeyDictionary[MemRowSet, float] = weakref.WeakKeyDictionary()
        """When each MemRowSet was first seen with rows."""
        self._judged: tuple[StoredRowSet, ...] | None = None
        self._choice: tuple[Choice, list[StoredRowSet]] | None = None
        self._outputs: deque[frozenset[int]] = deque(maxlen=_REMEMBERED)
        """The ids of the rowsets that came out of each of the last merges."""
        self._aged: tuple[StoredRowSet, ...] | None = None
        self._aged_at = 0.0
        self._ancient: list[Operation] = []

    def candidates(self, now: float) -> list[Operation]:
        """The operations that could run now, at `time.monotonic`; none while another thread works on the tablet, and
        no merge while COMPACT TABLE does."""
        tablet = self.tablet
        if tablet.is_dropped or tablet.flush_lock.locked():
            return []
        if tablet.prepared.seconds > PATIENCE:
            return []  # each would wait for the outcome, and be postponed
        state = tablet.state
        operations = [*self._log_gc(), *self._flush_memrowset(now)]
        for stored in state.rowsets:
            operations += self._flush_deltas(stored, now)
            if is_compacted(tablet):
                continue
            if stored.redo:
                operations += self._compact_deltas(stored)
            if stored.rowset.bloom.damage:
                operations.append(self._rebuild_bloom(stored))
        if is_compacted(tablet):
            return operations
        return [*operations, *self._compact_rowsets(state.rowsets), *self._collect_history(state.rowsets, now)]

    # ---- memory and log ------------------------------------------------------------------------------------------

    def _log_gc(self) -> Iterator[Operation]:
        tablet = self.tablet
        unneeded = tablet.log.size - tablet.log.size_from(tablet.metadata.replay_index + 1)
        if unneeded:
            yield self._operation(OpStatistics(OpKind.LOG_GC, log_bytes=unneeded), "log", tablet.trim_log)

    def _flush_memrowset(self, now: float) -> Iterator[Operation]:
        tablet, state = self.tablet, self.tablet.state
        used = [memrowset for memrowset in state.memrowsets if memrowset.row_count]
        if not used:
            return
        size = sum(memrowset.nbytes for memrowset in used)
        age = now - min(self._born.setdefault(memrowset, now) for memrowset in used)
        score = flush_score(size, tablet.options.memrowset_bytes, age)
        if state.flushing is not None:
            score = max(score, 1.0)  # a flush that failed is not left half done
        statistics = OpStatistics(OpKind.FLUSH_MEMROWSET, size, self._anchored(m.first_index for m in used), 0, score)
        yield self._operation(statistics, "MemRowSet", self._flush)

    def _flush(self) -> None:
        before = set(self.tablet.state.rowsets)
        flush(self.tablet, BACKGROUND_WORKERS)
        _warm(stored for stored in self.tablet.state.rowsets if stored not in before)

    def _flush_deltas(self, stored: StoredRowSet, now: float) -> Iterator[Operation]:
        tablet = self.tablet
        used = [memstore for memstore in stored.memstores if memstore.count]
        if not used:
            return
        size = _delta_bytes(stored)
        age = now - min(memstore.created for memstore in used)
        score = flush_score(size, tablet.options.deltamemstore_bytes, age)
        if stored.flushing is not None:
            score = max(score, 1.0)
        statistics = OpStatistics(OpKind.FLUSH_DELTAS, size, self._anchored(m.first_index for m in used), 0, score)
        yield self._operation(statistics, _name(stored), lambda: flush_deltas(tablet, stored))

    def _anchored(self, indexes: Iterable[int]) -> int:
        """Bytes of log that must stay for the oldest of some entries."""
        oldest = min((index for index in indexes if index), default=0)
        return self.tablet.log.size_from(oldest) if oldest else 0

    # ---- speed ---------------------------------------------------------------------------------------------------

    def _compact_deltas(self, stored: StoredRowSet) -> Iterator[Operation]:
        tablet = self.tablet
        sizes = [file.size for file in stored.redo]
        run = minor_compaction(sizes)
        if run is not None:
            statistics = OpStatistics(OpKind.MINOR_DELTA_COMPACTION, score=minor_score(sizes))
            first, last = run.start, run.stop
            yield self._operation(statistics, _name(stored), lambda: compact_minor(tablet, stored, first, last))
        known = {column.id for column in tablet.table.schema.columns}
        values: dict[int, int] = {}
        for file in stored.redo:
            for column, count in file.statistics.updates.items():
                if column in known:
                    values[column] = values.get(column, 0) + count
        columns = major_columns(stored.row_count, values)
        if columns:
            score = major_score(stored.row_count, values, columns)
            statistics = OpStatistics(OpKind.MAJOR_DELTA_COMPACTION, score=score)
            yield self._operation(
                statistics, _name(stored), lambda: compact_major(tablet, stored, columns, giving_way(tablet))
            )

    def _compact_rowsets(self, rowsets: tuple[StoredRowSet, ...]) -> Iterator[Operation]:
        if self._judged is not rowsets:
            self._choice, self._judged = self._choose(rowsets), rowsets
        if self._choice is not None:
            choice, chosen = self._choice
            statistics = OpStatistics(OpKind.COMPACT_ROWSETS, score=choice.score, worth=choice.worth)
            yield self._operation(statistics, f"{len(chosen)} rowsets", lambda: self._merge(chosen))

    def _choose(self, rowsets: Sequence[StoredRowSet]) -> tuple[Choice, list[StoredRowSet]] | None:
        """The policy's choice, except rowsets that one merge has produced: if they are not as few or as full as the
        policy expects, a second merge would not change that."""
        considered = list(rowsets)
        while (choice := self._policy.choose([extent(stored) for stored in considered])) is not None:
            chosen = [considered[place] for place in choice.rowsets]
            ids = {stored.metadata.id for stored in chosen}
            if not any(ids <= outputs for outputs in self._outputs):
                return choice, chosen
            considered = [stored for stored in considered if stored not in chosen]
        return None

    def _merge(self, rowsets: Sequence[StoredRowSet]) -> None:
        mark = next_mark(self.tablet)
        merged = compact_rowsets(self.tablet, rowsets, mark, BACKGROUND_WORKERS, giving_way(self.tablet))
        self._outputs.append(frozenset(stored.metadata.id for stored in merged.rowsets))
        _warm(merged.rowsets)

    def _rebuild_bloom(self, stored: StoredRowSet) -> Operation:
        statistics = OpStatistics(OpKind.REBUILD_BLOOM, score=_BLOOM_SCORE)
        return self._operation(statistics, _name(stored), lambda: rebuild_bloom(self.tablet, stored))

    # ---- disk ----------------------------------------------------------------------------------------------------

    def _collect_history(self, rowsets: tuple[StoredRowSet, ...], now: float) -> Sequence[Operation]:
        if self._aged is not rowsets or now - self._aged_at >= HISTORY_SECONDS:
            self._ancient = list(self._ancient_history(rowsets))
            self._aged, self._aged_at = rowsets, now
        return self._ancient

    def _ancient_history(self, rowsets: Sequence[StoredRowSet]) -> Iterator[Operation]:
        tablet, mark = self.tablet, next_mark(self.tablet)
        freed = {stored: ancient_bytes(stored, mark) for stored in rowsets}
        dead = [stored for stored in rowsets if freed[stored] and is_dead(stored, mark)]
        aged = [stored for stored in rowsets if freed[stored] and stored not in dead]
        for kind, chosen in ((OpKind.DELETED_ROWSET_GC, dead), (OpKind.UNDO_DELTA_GC, aged)):
            if chosen:
                statistics = OpStatistics(kind, disk_bytes=sum(freed[stored] for stored in chosen))
                run = _collector(tablet, frozenset(chosen), mark)
                yield self._operation(statistics, f"{len(chosen)} rowsets", run)
        for stored in rowsets:
            share = 0.0 if stored in dead else dead_share(stored, mark)
            if share:
                size = stored.metadata.data_bytes
                # Like a merge it can be postponed: it frees this share of the bytes, and writes the others.
                worth = 1.0 / max(1.0 - share, 1e-9)
                statistics = OpStatistics(OpKind.DEAD_ROW_GC, 0, 0, int(share * size), share, worth)
                yield self._operation(statistics, _name(stored), partial(self._merge, [stored]))

    def _operation(self, statistics: OpStatistics, target: str, run: Callable[[], object]) -> Operation:
        return Operation(statistics, self.tablet, target, run)


def memory_bytes(tablet: Tablet) -> int:
    """About the memory that a tablet's rows and deltas take that are in no file yet."""
    state, size = tablet.state, 0
    for memrowset in state.memrowsets:
        if memrowset.row_count:
            size += memrowset.nbytes
    for stored in state.rowsets:
        size += _delta_bytes(stored)
    return size


def flush_largest(tablets: Iterable[Tablet]) -> bool:
    """Flush the MemRowSet or DeltaMemStore that takes most memory, in this thread. False if there is none except in
    tablets on which other threads work. `DiskError` if the disk fails."""
    best, flush_it = 0, None
    for tablet in tablets:
        if tablet.is_dropped or tablet.flush_lock.locked():
            continue
        state = tablet.state
        size = sum(memrowset.nbytes for memrowset in state.memrowsets if memrowset.row_count)
        if size > best:
            best, flush_it = size, partial(flush, tablet)
        for stored in state.rowsets:
            size = _delta_bytes(stored)
            if size > best:
                best, flush_it = size, partial(flush_deltas, tablet, stored)
    if flush_it is None:
        return False
    with contextlib.suppress(TabletGone, Postponed):  # dropped since: its memory is free
        flush_it()
    return True


def _delta_bytes(stored: StoredRowSet) -> int:
    return sum(memstore.nbytes for memstore in stored.memstores if memstore.count)


def extent(stored: StoredRowSet) -> RowSetExtent:
    """A rowset as the compaction policy sees it. All its files count: a compaction reads its history, too."""
    metadata = stored.metadata
    return RowSetExtent(metadata.min_key, metadata.max_key, metadata.data_bytes)


def _collector(tablet: Tablet, rowsets: frozenset[StoredRowSet], mark: int) -> Callable[[], object]:
    def collect() -> object:
        with tablet.flush_lock:
            return perform(tablet, [stored for stored in tablet.state.rowsets if stored in rowsets], mark)

    return collect


def _name(stored: StoredRowSet) -> str:
    return f"rowset {stored.metadata.id}"


def _warm(rowsets: Iterable[StoredRowSet]) -> None:
    """Read the pages of new rowsets into the cache if there is space: look-ups and scans of rows that were in memory
    need not fetch them one page after the other. Damage is reported to readers, not here."""
    with contextlib.suppress(CorruptionError, DiskError):
        for stored in rowsets:
            stored.rowset.warm()
