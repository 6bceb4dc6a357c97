"""DiskRowSet: a run of rows on disk, ascending by primary key, one file per column (Kudu paper, section 4.3).

The life of a scan:
1. `key_range` turns predicates on the leading key columns into a range of rows.
2. `bind` brings the other predicates into the code domain of their column files and ranks them.
3. Per row group of 131,072 rows the page statistics decide: skip it, or take a predicate for granted.
4. What is left is evaluated on the codes, until nothing or all predicates are left (`RowGroup.survivors`).
5. A `Batch` of `LazyColumn`s goes out: other columns are read when touched, for the surviving rows only.
A scan at another time than that of the base data brings patches: `PatchedScan` has a say in 3 and 4, `PatchedColumn`
in 5.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import CorruptionError
from ...model.keys.key_codec import KeyCodec
from ...model.keys.keys import Keys
from ...model.predicates import ColumnPredicate
from ...model.schema import ColumnSchema, Schema
from ...model.store import ScanCounters
from ...model.vectors.vector import Array, Batch, Const, LazyColumn, Vector
from ..columns.column_file import ROW_GROUP_ROWS
from ..columns.column_reader import CellSource, ColumnReader, row_cells
from ..columns.sketch import ColumnSketch
from ..deltas.latest_state import RowSetPatches
from ..files.filesystem import FileSystem
from ..files.page_cache import PageCache
from ..keys.bloom import BloomProbe, BloomReader
from ..predicate_eval.bind_predicates import BoundPredicate, bind, key_range
from ..predicate_eval.code_conditions import ALL, NONE, SOME
from ..predicate_eval.evaluation import evaluate, satisfies
from ..predicate_eval.key_index import KeyIndex
from .changed_rows_apart import AsideRows, SetAside, set_aside
from .changed_rows_overlay import PatchedScan
from .row_group import RowGroup
from .rowset_metadata import RowSetMetadata


class DiskRowSet:
    """The rows of one flush, load or compaction. Immutable; safe for several threads.

    Invariants: rows ascend strictly by key; every column file has `row_count` rows; a column without a file was added
    to the table later and reads as its initial value. Files must exist until `close`, which scans must not outlive.
    """

    def __init__(self, schema: Schema, metadata: RowSetMetadata, readers: dict[int, ColumnReader], bloom: BloomReader):
        self.metadata = metadata
        self._schema = schema
        self._readers = readers
        self._bloom = bloom
        self._cell_sources: tuple[Sequence[ColumnSchema], list[CellSource]] | None = None

    @classmethod
    def open(
        cls, fs: FileSystem, directory: str, schema: Schema, metadata: RowSetMetadata, cache: PageCache
    ) -> DiskRowSet:
        """A rowset by its metadata. No file is touched before it is needed; damage shows up then, as
        `CorruptionError` with file and place."""
        readers = _column_readers(fs, directory, schema, metadata, cache, ())
        path = posixpath.join(directory, metadata.bloom_file)
        bloom = BloomReader(cache.handles(fs), path, metadata.row_count, cache)
        return cls(schema, metadata, readers, bloom)

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return self.metadata.row_count

    @cached_property
    def _index(self) -> KeyIndex:
        return KeyIndex([self._readers[c.id] for c in self._schema.key], self.row_count, self._bloom)

    @property
    def column_ids(self) -> list[int]:
        """The permanent ids of the table's columns, in their order; not all need have a file."""
        return [column.id for column in self._schema.columns]

    def with_schema(self, schema: Schema) -> DiskRowSet:
        """The same rowset after its table was altered: columns are identified by their ids, so names may differ,
        dropped ones are not read any more, and added ones read as `ColumnSchema.initial`."""
        return DiskRowSet(schema, self.metadata, self._readers, self._bloom)

    def with_metadata(self, metadata: RowSetMetadata, fs: FileSystem, directory: str, cache: PageCache) -> DiskRowSet:
        """The same rows, described by other metadata: columns with other files are opened anew, the others shared."""
        before = self.metadata.column_files
        same = {c: r for c, r in self._readers.items() if metadata.column_files.get(c) == before[c]}
        new = _column_readers(fs, directory, self._schema, metadata, cache, same)
        return DiskRowSet(self._schema, metadata, {**new, **same}, self._bloom)

    def warm(self) -> None:
        """Bring the pages into the cache, as far as there is room, those of the key first. Raises as a scan does."""
        for column in self._schema.columns:
            reader = self._readers.get(column.id)
            if reader is not None and not reader.warm():
                return

    @property
    def bloom(self) -> BloomReader:
        """The filter of its keys."""
        return self._bloom

    @property
    def readers(self) -> list[ColumnReader | BloomReader]:
        """Readers of its files."""
        return [*self._readers.values(), self._bloom]

    def find(self, keys: Keys, likely: bool = False) -> Array:
        """Row offset per key, -1 for absent keys: ndarray of int64, shape (n_keys,). If the keys are `likely` to be
        here, the Bloom filter is skipped."""
        return self._index.find(keys, likely)

    def find_one(self, key: Sequence[Any], probe: BloomProbe | None, counters: ScanCounters | None = None) -> int:
        """`find` for one key of physical values; without a probe, the Bloom filter is skipped."""
        if probe is None:
            return self._index.find_one(key, counters)
        return self._index.look_up(key, probe, counters)

    def holds(self, row: int, key: Sequence[Any], counters: ScanCounters | None = None) -> bool:
        """True if this is the key, given as physical values, of a row."""
        return self._index.holds(row, key, counters)

    @property
    def key_samples(self) -> list[tuple[Any, ...]]:
        """The key of every 4,096th row, the first included, as physical values."""
        return self._index.firsts

    def rows_below(self, key: Sequence[Any]) -> int:
        """Number of rows with keys below this one, which is given as physical values."""
        return self._index.search(key, after=False)

    def rows_within(
        self, predicates: Sequence[ColumnPredicate], schema: Schema, counters: ScanCounters | None = None
    ) -> tuple[int, int]:
        """The rows (first, end) that the predicates on the leading key columns of `schema` leave."""
        keys = key_range(schema.key, predicates, self._index, self.row_count, counters)
        return keys.start, keys.stop

    def search(self, key: Sequence[Any], after: bool, counters: ScanCounters | None = None) -> int:
        """The first row whose key, of physical values, begins with `key` or is above it; with `after`, the first that
        is above all keys that begin with it. The number of rows where there is none."""
        return self._index.search(key, after, counters)

    def index_keys(
        self, start: int, stop: int, codec: KeyCodec, counters: ScanCounters | None = None
    ) -> list[int] | list[bytes]:
        """The keys of the rows `start` to `stop` (exclusive, not empty) as index keys: `KeyCodec.index_key`."""
        return self._index.index_keys(start, stop, codec, counters)

    def key_hashes(self, start: int, stop: int) -> Array:
        """`Keys.hashes_32` of the rows `start` to `stop` (exclusive, not empty): ndarray of uint32."""
        return self._index.hashes_32(start, stop)

    def rows(
        self, columns: Sequence[ColumnSchema], start: int, stop: int, counters: ScanCounters | None = None
    ) -> list[tuple[Any, ...] | None]:
        """The base data of the rows `start` to `stop` (exclusive, not empty) as Python values: `read` for few rows."""
        if not columns:
            return [()] * (stop - start)
        lists = [
            reader.values(start, stop, counters) if reader is not None else [initial] * (stop - start)
            for _, reader, initial in map(self._cell_source, columns)
        ]
        return list(zip(*lists))

    def read(self, column: ColumnSchema, start: int, stop: int, counters: ScanCounters | None = None) -> Vector:
        """The base data of a column, of the rows `start` to `stop` (exclusive, not empty)."""
        reader = self._readers.get(column.id)
        if reader is None:
            return Const(column.type, column.initial, stop - start)
        return reader.read(start, stop, None, counters)

    def cells(
        self, columns: Sequence[ColumnSchema], row: int, found: Mapping[int, Any], counters: ScanCounters | None = None
    ) -> tuple[Any, ...]:
        """The values of a row as Python values: those that were `found` elsewhere, by column id, the others of the base
        data."""
        # Look-ups of single rows pass the same sequence each time.
        sources = self._cell_sources
        if sources is None or sources[0] is not columns:
            sources = self._cell_sources = (columns, [self._cell_source(column) for column in columns])
        return row_cells(sources[1], row, found, counters)

    def _cell_source(self, column: ColumnSchema) -> CellSource:
        reader = self._readers.get(column.id)
        return column.id, reader, None if reader is not None else column.type.to_python(column.initial)

    def reader(self, column: int) -> ColumnReader | None:
        """The file of a column by its id; None where it was added to the table later."""
        return self._readers.get(column)

    def statistics(self) -> dict[int, ColumnSketch]:
        """Known statistics of each column that has a file, by column id."""
        return {column: reader.footer.sketch for column, reader in self._readers.items()}

    def scan(
        self,
        columns: Sequence[ColumnSchema],
        predicates: Sequence[ColumnPredicate],
        start_row: int,
        stop_row: int,
        counters: ScanCounters,
        patches: RowSetPatches | None = None,
        schema: Schema | None = None,
        in_order: bool = True,
    ) -> Iterator[Batch]:
        """The rows from `start_row` to `stop_row` (exclusive) that satisfy all predicates.

        Parameters
        ----------
        columns : sequence of ColumnSchema
            What the batches hold, in order; may be empty. Only their ids, types and initial values matter.
        predicates : sequence of ColumnPredicate
            A conjunction over columns of `schema`, by name.
        counters : ScanCounters
            Counted up as the scan goes; a column that a batch reads later is counted then.
        patches : RowSetPatches, optional
            Makes it a scan of the rowset at another time than that of its base data.
        schema : Schema, optional
            The table's when the scan was planned; the rowset's own if None.
        in_order : bool
            Give the rows in key order; else those with patches may come last.

        Yields
        ------
        Batch
            Of at most 131,072 rows, never empty; columns are read at first touch.
        """
        schema = self._schema if schema is None else schema
        stop_row = min(stop_row, self.row_count)
        located = [(p, schema.column(p.column)) for p in predicates]
        constant = [(p, column) for p, column in located if column.id not in self._readers]
        if start_row >= stop_row or _is_ruled_out(constant, patches):
            counters.passing(max(0, stop_row - start_row))
            return
        stored = [(p, column) for p, column in located if column.id in self._readers]
        keys = key_range(schema.key, [p for p, _ in stored], self._index, self.row_count, counters)
        done = {id(p) for p in keys.consumed}
        bound = [bind(p, column, self._readers[column.id]) for p, column in stored if id(p) not in done]
        bound.sort(key=lambda b: b.rank)
        read_ids = {c.id for c in columns} | {b.column.id for b in bound}
        readers = [self._readers[i] for i in sorted(read_ids) if i in self._readers]
        start, stop = max(start_row, keys.start), min(stop_row, keys.stop)
        if start >= stop:
            counters.passing(stop_row - start_row)
            _count_skipped(counters, readers, start_row, stop_row)
            return
        counters.passing(stop_row - start_row - (stop - start))
        _count_skipped(counters, readers, start_row, start)
        _count_skipped(counters, readers, stop, stop_row)
        first, last = start // ROW_GROUP_ROWS, (stop - 1) // ROW_GROUP_ROWS
        verdicts = [_group_verdicts(b, start, stop) for b in bound]
        judging = [*((b.predicate, b.column) for b in bound), *constant]
        aside: SetAside | None = None
        patched: PatchedScan | SetAside | None = None
        if patches is not None:
            verdicts += [
                np.full(last - first + 1, ALL if satisfies(p, column.initial, column.type) else NONE, np.uint8)
                for p, column in constant
            ]
            if not in_order:
                aside = set_aside(patches, {c.id for c in columns} | {c.id for _, c in judging}, start, stop)
            patched = PatchedScan(patches, judging, start, stop) if aside is None else aside
        laid_over = patches if aside is None else None
        for group in range(first, last + 1):
            low, high = max(start, group * ROW_GROUP_ROWS), min(stop, (group + 1) * ROW_GROUP_ROWS)
            counters.passing(high - low)
            mine = [int(v[group - first]) for v in verdicts]
            rows = RowGroup(low, high, counters)
            part = None if patched is None else patched.of_group(low, high, mine)
            if part is None and (patched is not None or NONE in mine):
                rows.count_skipped(readers)
                continue
            if part is None:
                survivors = rows.survivors([b for b, v in zip(bound, mine) if v != ALL and b.is_needed])
            else:
                survivors = part.survivors(rows, bound)
            counters.rows_considered += high - low
            if survivors is None or len(survivors):
                yield self._batch(columns, rows, survivors, laid_over)
            else:
                rows.count_untouched(readers)
        if aside is not None:
            yield from self._scan_aside(columns, judging, verdicts, aside, AsideRows(start, stop, counters))

    def _scan_aside(
        self,
        columns: Sequence[ColumnSchema],
        predicates: Sequence[tuple[ColumnPredicate, ColumnSchema]],
        verdicts: Sequence[Array],
        aside: SetAside,
        rows: AsideRows,
    ) -> Iterator[Batch]:
        """The separate changed rows that satisfy the predicates, whose `verdicts` are by row group."""
        # Where a column has no patches at all, what statistics say of its pages holds for these rows, too.
        given = [aside.patches.vector(column.id, column.type) for _, column in predicates]
        unpatched = [found != NONE for patch, found in zip(given, verdicts) if patch is None]
        living = aside.within(np.logical_and.reduce(unpatched), rows.start) if unpatched else aside.living
        chosen = living - rows.start
        for predicate, column in predicates:
            if not len(chosen):
                return
            vector = rows.patched(column, self._readers.get(column.id), aside.patches, chosen)
            chosen = rows.keep(chosen, evaluate(predicate, vector))
        for start in range(0, len(chosen), ROW_GROUP_ROWS):
            yield self._batch(columns, rows, chosen[start : start + ROW_GROUP_ROWS], aside.patches)

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
        """Release cached pages and close files."""
        for reader in self._readers.values():
            reader.close()
        self._bloom.close()

    def _batch(
        self,
        columns: Sequence[ColumnSchema],
        rows: RowGroup,
        survivors: Array | None,
        patches: RowSetPatches | None,
    ) -> Batch:
        length = rows.length if survivors is None else len(survivors)
        rows.counters.rows_returned += length
        slots: list[Vector | LazyColumn] = []
        for column in columns:
            reader = self._readers.get(column.id)
            if patches is not None:
                slots.append(LazyColumn(rows.patched_loader(column, reader, patches), survivors))
            elif reader is None:
                slots.append(Const(column.type, column.initial, length))
            else:
                slots.append(LazyColumn(rows.loader(reader), survivors))
        return Batch(slots, length)


def _column_readers(
    fs: FileSystem,
    directory: str,
    schema: Schema,
    metadata: RowSetMetadata,
    cache: PageCache,
    known: Collection[int],
) -> dict[int, ColumnReader]:
    """Readers of the columns that have files, except the known ones, by id. A reader that is not closed would leave an
    entry in the cache."""
    handles = cache.handles(fs)
    return {
        column.id: ColumnReader(
            handles,
            posixpath.join(directory, metadata.column_files[column.id]),
            column.id,
            column.type,
            metadata.row_count,
            cache,
        )
        for column in schema.columns
        if column.id in metadata.column_files and column.id not in known
    }


def _is_ruled_out(constant: Sequence[tuple[ColumnPredicate, ColumnSchema]], patches: RowSetPatches | None) -> bool:
    """True if a predicate over a column without a file, which is equal in all rows, excludes all rows."""
    return any(
        not satisfies(predicate, column.initial, column.type)
        and (patches is None or patches.vector(column.id, column.type) is None)
        for predicate, column in constant
    )


def _count_skipped(counters: ScanCounters, readers: Sequence[ColumnReader], start: int, stop: int) -> None:
    """Count pages that are wholly within rows excluded by the key range."""
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


def rowset_keys(schema: Schema, rowset: DiskRowSet) -> list[Keys]:
    """All keys of a rowset's base data, in pieces, in key order."""
    types = tuple(column.type for column in schema.key)
    batches = rowset.scan(schema.key, (), 0, rowset.row_count, ScanCounters())
    return [Keys(types, tuple(batch.columns())) for batch in batches]
