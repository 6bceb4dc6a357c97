"""DiskRowSet: a run of rows on disk, ascending by primary key, one file per column (Kudu paper, section 4.3).

The life of a scan:
1. `key_range` turns predicates on the leading key columns into a range of rows.
2. `bind` brings the other predicates into the code domain of their column files and ranks them.
3. Per row group of 131,072 rows the page statistics decide: skip it, or take a predicate for granted.
4. What is left is evaluated on the codes, until nothing or all predicates are left (`_RowGroup.survivors`).
5. A `Batch` of `LazyColumn`s goes out: other columns are read when touched, for the surviving rows only.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np

from ..errors import CorruptionError
from .bloom import BloomReader
from .code_conditions import ALL, NONE, SOME
from .column_file import ROW_GROUP_ROWS
from .column_reader import ColumnReader
from .filesystem import FileSystem
from .key_index import KeyIndex
from .keys import Keys
from .page_cache import PageCache
from .predicate_eval import satisfies
from .predicates import ColumnPredicate
from .rowset_metadata import RowSetMetadata
from .scan_predicates import BoundPredicate, bind, key_range
from .schema import ColumnSchema, Schema
from .sketch import ColumnSketch
from .store import ScanCounters
from .vector import Array, Batch, Const, LazyColumn, Vector

GATHER_SHARE = 32
"""Once fewer than one row in 32 survives, gathering the rows is cheaper than comparing all (measured: 65,536 two-byte
codes are compared in 6 to 12 µs, but numpy needs 80 µs to list the survivors of a mask with 4 % of them)."""


class DiskRowSet:
    """The rows of one flush, load or compaction. Immutable; safe for several threads.

    Invariants: rows ascend strictly by key; every column file has `row_count` rows; a column without a file was added
    to the table later and reads as its default. Files must exist until `close`, which scans must not outlive.
    """

    def __init__(self, schema: Schema, metadata: RowSetMetadata, readers: dict[int, ColumnReader], bloom: BloomReader):
        self.metadata = metadata
        self._schema = schema
        self._readers = readers
        self._bloom = bloom

    @classmethod
    def open(
        cls, fs: FileSystem, directory: str, schema: Schema, metadata: RowSetMetadata, cache: PageCache
    ) -> DiskRowSet:
        """A rowset by its metadata. No file is touched before it is needed; damage shows up then, as
        `CorruptionError` with file and place."""
        handles = cache.handles(fs)
        readers = {
            column.id: ColumnReader(
                handles,
                posixpath.join(directory, metadata.column_files[column.id]),
                column.id,
                column.type,
                metadata.row_count,
                cache,
            )
            for column in schema.columns
            if column.id in metadata.column_files
        }
        bloom = BloomReader(handles, posixpath.join(directory, metadata.bloom_file), metadata.row_count, cache)
        return cls(schema, metadata, readers, bloom)

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return self.metadata.row_count

    @cached_property
    def _index(self) -> KeyIndex:
        return KeyIndex([self._readers[c.id] for c in self._schema.key], self.row_count, self._bloom)

    def find(self, keys: Keys) -> Array:
        """Row offset per key, -1 where it is not here: ndarray of int64, shape (n_keys,)."""
        return self._index.find(keys)

    def statistics(self) -> dict[int, ColumnSketch]:
        """What is known of each column that has a file, by column id."""
        return {column: reader.footer.sketch for column, reader in self._readers.items()}

    def scan(
        self,
        columns: Sequence[ColumnSchema],
        predicates: Sequence[ColumnPredicate],
        start_row: int,
        stop_row: int,
        counters: ScanCounters,
    ) -> Iterator[Batch]:
        """The rows from `start_row` to `stop_row` (exclusive) that satisfy all predicates, in key order.

        Parameters
        ----------
        columns : sequence of ColumnSchema
            What the batches hold, in order; may be empty.
        predicates : sequence of ColumnPredicate
            A conjunction over columns of the rowset's schema, by name.
        counters : ScanCounters
            Counted up as the scan goes; a column that a batch reads later is counted then.

        Yields
        ------
        Batch
            Of at most 131,072 rows, never empty; columns are read at first touch.
        """
        stop_row = min(stop_row, self.row_count)
        stored = self._without_constants(predicates)
        if stored is None or start_row >= stop_row:
            return
        keys = key_range(self._schema.key, stored, self._index, self.row_count, counters)
        bound = [
            bind(p, column, self._readers[column.id])
            for p in stored
            if not any(p is done for done in keys.consumed)
            for column in [self._schema.column(p.column)]
        ]
        bound.sort(key=lambda b: b.rank)
        readers = self._distinct_readers(columns, bound)
        start, stop = max(start_row, keys.start), min(stop_row, keys.stop)
        if start >= stop:
            _count_skipped(counters, readers, start_row, stop_row)
            return
        _count_skipped(counters, readers, start_row, start)
        _count_skipped(counters, readers, stop, stop_row)
        first = start // ROW_GROUP_ROWS
        verdicts = [_group_verdicts(b, start, stop) for b in bound]
        for group in range(first, (stop - 1) // ROW_GROUP_ROWS + 1):
            low, high = max(start, group * ROW_GROUP_ROWS), min(stop, (group + 1) * ROW_GROUP_ROWS)
            mine = [int(v[group - first]) for v in verdicts]
            if NONE in mine:
                counters.rowgroups_skipped += 1
                counters.pages_skipped += sum(_page_count(r, low, high) for r in readers)
                continue
            counters.rows_considered += high - low
            todo = [b for b, verdict in zip(bound, mine) if verdict != ALL]
            rows = _RowGroup(low, high, counters)
            survivors = rows.survivors(todo)
            if survivors is None or len(survivors):
                yield self._batch(columns, rows, survivors)
            else:
                rows.count_untouched(readers)

    def check(self) -> None:
        """Read everything and hold it against the invariants; `CorruptionError` where something is wrong."""
        for reader in self._readers.values():
            for page in range(len(reader.footer.pages)):
                reader.page(page)
        self._bloom.check()
        types = tuple(c.type for c in self._schema.key)
        readers = [self._readers[c.id] for c in self._schema.key]
        for start in range(0, self.row_count, ROW_GROUP_ROWS):
            # One row more, so that the step into the next row group is seen too.
            stop = min(start + ROW_GROUP_ROWS + 1, self.row_count)
            keys = Keys(types, tuple(r.read(start, stop, None) for r in readers))
            if not keys.is_strictly_ascending():
                raise CorruptionError("keys do not ascend", readers[0].path, f"rows {start} to {stop}")
            if not (self.find(keys) == np.arange(start, stop)).all():
                raise CorruptionError("the key index misses rows", readers[0].path, f"rows {start} to {stop}")

    def close(self) -> None:
        """Give up cached pages and open files."""
        for reader in self._readers.values():
            reader.close()
        self._bloom.close()

    def _without_constants(self, predicates: Sequence[ColumnPredicate]) -> list[ColumnPredicate] | None:
        """The predicates over columns that have files; None where one over a column without is false."""
        stored: list[ColumnPredicate] = []
        for predicate in predicates:
            column = self._schema.column(predicate.column)
            if column.id in self._readers:
                stored.append(predicate)
            elif not satisfies(predicate, column.default, column.type):
                return None
        return stored

    def _distinct_readers(self, columns: Sequence[ColumnSchema], bound: Sequence[BoundPredicate]) -> list[ColumnReader]:
        ids = {c.id for c in columns} | {b.column.id for b in bound}
        return [self._readers[i] for i in sorted(ids) if i in self._readers]

    def _batch(self, columns: Sequence[ColumnSchema], rows: _RowGroup, survivors: Array | None) -> Batch:
        length = rows.length if survivors is None else len(survivors)
        rows.counters.rows_returned += length
        slots: list[Vector | LazyColumn] = []
        for column in columns:
            reader = self._readers.get(column.id)
            if reader is None:
                slots.append(Const(column.type, column.default, length))
            else:
                slots.append(LazyColumn(rows.loader(reader), survivors))
        return Batch(slots, length)


class _RowGroup:
    """The part of a scan within one row group: rows `start` to `stop`, and the columns of it read so far."""

    __slots__ = ("_read", "counters", "length", "start", "stop")

    def __init__(self, start: int, stop: int, counters: ScanCounters):
        self.start = start
        self.stop = stop
        self.length = stop - start
        self.counters = counters
        self._read: dict[ColumnReader, Vector] = {}

    def survivors(self, todo: Sequence[BoundPredicate]) -> Array | None:
        """Rows (relative to `start`, ascending, ndarray of intp) that satisfy all; None for all rows."""
        mask: Array | None = None
        rows: Array | None = None
        for predicate in todo:
            if rows is not None:
                rows = rows[predicate.mask(self.column(predicate.reader, rows))]
                if not len(rows):
                    return rows
                continue
            found = predicate.mask(self.column(predicate.reader, None))
            mask = found if mask is None else np.logical_and(mask, found, out=mask)
            if np.count_nonzero(mask) * GATHER_SHARE < self.length:
                rows = np.flatnonzero(mask)
                if not len(rows):
                    return rows
        if rows is None and mask is not None and not mask.all():
            rows = np.flatnonzero(mask)
        return rows

    def column(self, reader: ColumnReader, rows: Array | None) -> Vector:
        """A column at `rows`, or all of it; whole columns are kept for the batch that comes of this row group."""
        whole = self._read.get(reader)
        if whole is not None:
            return whole if rows is None else whole.take(rows)
        vector = reader.read(self.start, self.stop, rows, self.counters)
        if rows is None:
            self._read[reader] = vector
        return vector

    def loader(self, reader: ColumnReader) -> Callable[[Array | None], Vector]:
        """What reads a column of the batch."""
        return partial(self.column, reader)

    def count_untouched(self, readers: Sequence[ColumnReader]) -> None:
        """Count the pages of the columns that were not needed to see that no row survives."""
        untouched = [r for r in readers if r not in self._read]
        self.counters.pages_skipped += sum(_page_count(r, self.start, self.stop) for r in untouched)


def _page_count(reader: ColumnReader, start: int, stop: int) -> int:
    first, last = reader.page_range(start, stop)
    return last - first


def _count_skipped(counters: ScanCounters, readers: Sequence[ColumnReader], start: int, stop: int) -> None:
    """Count what lies wholly within rows that the key range rules out."""
    if start >= stop:
        return
    for reader in readers:
        size = reader.footer.page_rows
        last = stop // size if stop < reader.footer.rows else len(reader.footer.pages)
        counters.pages_skipped += max(0, last - -(-start // size))


def _group_verdicts(bound: BoundPredicate, start: int, stop: int) -> Array:
    """Per row group that the rows touch: ALL or NONE where its pages agree on it, else SOME."""
    first, last = start // ROW_GROUP_ROWS, (stop - 1) // ROW_GROUP_ROWS + 1
    per_group = bound.reader.pages_per_group
    pages = min(last * per_group, len(bound.reader.footer.pages))
    verdicts = bound.verdicts(first * per_group, pages)
    if per_group == 1:
        return verdicts
    starts = np.arange(0, len(verdicts), per_group)
    highest, lowest = np.maximum.reduceat(verdicts, starts), np.minimum.reduceat(verdicts, starts)
    return np.where(highest == lowest, highest, SOME)
