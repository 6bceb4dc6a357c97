"""Delta files: data written is read back, only requested parts are read, and damage is always detected."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columnar_support import WatchedFileSystem, arrow_array
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import CorruptionError, DiskError, UnsupportedFormat
from nyala.model.schema import ColumnSchema, Schema
from nyala.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    DataType,
)
from nyala.storage.columns.column_file import ROW_GROUP_ROWS
from nyala.storage.deltas.delta_file import DeltaFile, write_delta_file
from nyala.storage.deltas.delta_format import BLOCK_DELTAS
from nyala.storage.deltas.deltas import DeltaColumn, DeltaKind, Deltas, joined, merge
from nyala.storage.deltas.inversion import insertions
from nyala.storage.files.file_handles import FileHandles
from nyala.storage.files.memory_filesystem import FaultyFileSystem, MemoryFileSystem
from nyala.storage.files.page_cache import PageCache

PATH = "r.delta"
INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 300)
VALUES: list[tuple[DataType, st.SearchStrategy[Any]]] = [
    (BOOLEAN, st.booleans()),
    (SMALLINT, st.integers(-(2**15), 2**15 - 1)),
    (BIGINT, INT64),
    (DATE, st.integers(-100_000, 100_000)),
    (TIMESTAMP, st.integers(-(10**15), 10**15)),
    (DECIMAL(9, 2), st.integers(-(10**9) + 1, 10**9 - 1)),
    (DECIMAL(18, 4), st.integers(-(10**18) + 1, 10**18 - 1)),
    (DECIMAL(38, 6), st.integers(-(10**38) + 1, 10**38 - 1)),
    (FLOAT, st.floats(width=32)),
    (DOUBLE, st.floats()),
    (STRING, st.text(max_size=20) | st.sampled_from(["", "a", "b"])),
    (BINARY, st.binary(max_size=20)),
]
SCHEMA = Schema(
    (ColumnSchema("k", BIGINT, False, id=0), *(ColumnSchema(f"c{i}", t, id=i) for i, (t, _) in enumerate(VALUES, 1))), 1
)
BASES = (0, 5, 2 * ROW_GROUP_ROWS - 3)


def write(deltas: Deltas, schema: Schema = SCHEMA) -> WatchedFileSystem:
    fs = WatchedFileSystem()
    assert write_delta_file(fs, PATH, schema, deltas) == len(fs.get(PATH))
    return fs


def opened(fs: WatchedFileSystem, schema: Schema | None = SCHEMA, cache: int = 1 << 20) -> DeltaFile:
    return DeltaFile(FileHandles(fs), PATH, schema, PageCache(cache))


@st.composite
def deltas(draw: st.DrawFn) -> Deltas:
    rows = st.integers(0, 9).map(lambda r: r + BASES[r % 3])
    marks = draw(st.sets(st.tuples(rows, st.integers(1, 2**64 - 1) | st.integers(1, 5)), min_size=1, max_size=25))
    ordered = sorted(marks)
    columns = {}
    for column in draw(st.sets(st.integers(1, len(VALUES)), max_size=4)):
        type_, values = VALUES[column - 1]
        places = sorted(draw(st.sets(st.integers(0, len(ordered) - 1), min_size=1)))
        physical = draw(st.lists(values | st.none(), min_size=len(places), max_size=len(places)))
        columns[column] = DeltaColumn(np.array(places, np.int64), arrow_array(type_, physical))
    kinds = draw(st.lists(st.sampled_from(list(DeltaKind)), min_size=len(ordered), max_size=len(ordered)))
    return Deltas(
        np.array([r for r, _ in ordered], np.int64),
        np.array([t for _, t in ordered], np.uint64),
        np.array(kinds, np.uint8),
        columns,
    )


def plain(deltas: Deltas) -> Any:
    """As plain Python values; floats by their bits."""

    def bits(value: Any) -> Any:
        return struct.pack("<d", value) if isinstance(value, float) and value == value else str(value)

    columns = {
        column: (given.values.type, given.places.tolist(), [bits(v) for v in given.values.to_pylist()])
        for column, given in sorted(deltas.columns.items())
    }
    return deltas.rows.tolist(), deltas.timestamps.tolist(), deltas.kinds.tolist(), columns


def with_columns(deltas: Deltas, columns: set[int]) -> Deltas:
    kept = {c: given for c, given in deltas.columns.items() if c in columns}
    return Deltas(deltas.rows, deltas.timestamps, deltas.kinds, kept)


@settings(max_examples=examples(200), deadline=None)
@given(deltas(), st.integers(0, 12), st.integers(0, 12), st.sets(st.integers(0, 99)), st.sampled_from(BASES))
def test_deltas_come_back(made: Deltas, low: int, high: int, columns: set[int], base: int) -> None:
    file = opened(write(made))
    end = int(made.rows[-1]) + 1
    assert plain(file.read(0, end)) == plain(made)
    assert plain(file.read(base + low, base + high)) == plain(made.between(base + low, base + high))
    assert plain(file.read(0, end, columns)) == plain(with_columns(made, columns))
    assert plain(file.existence()) == plain(with_columns(made.select(made.kinds != DeltaKind.UPDATE), set()))
    for column in (*made.columns, 99):
        given = made.columns.get(column)
        touched = [] if given is None else sorted(set(made.rows[given.places].tolist()))
        assert file.touched(column).tolist() == touched
    found = file.statistics
    assert (found.count, found.oldest, found.newest) == (len(made), made.oldest, made.newest)
    assert found.deletes == (made.kinds == DeltaKind.DELETE).sum()
    assert found.reinserts == (made.kinds == DeltaKind.REINSERT).sum()
    assert found.updates == {c: len(given.places) for c, given in made.columns.items()}


def test_columns_may_be_slices_of_larger_arrays() -> None:
    texts = pa.array([None, "a", "", None, "long text", "b"])[1:5]
    wide = arrow_array(DECIMAL(38, 6), [1, None, -(10**37), 4, 5])[1:]
    made = Deltas(
        np.arange(4),
        np.full(4, 7, np.uint64),
        np.full(4, DeltaKind.UPDATE, np.uint8),
        {11: DeltaColumn(np.arange(4), texts), 8: DeltaColumn(np.arange(4), wide)},
    )
    assert plain(opened(write(made)).read(0, 4)) == plain(made)


def test_only_blocks_of_the_rows_and_only_columns_asked_for_are_read() -> None:
    count = 2 * ROW_GROUP_ROWS + 10
    every = Deltas(
        np.arange(count),
        np.full(count, 5, np.uint64),
        np.full(count, DeltaKind.UPDATE, np.uint8),
        {2: DeltaColumn(np.arange(count), arrow_array(SMALLINT, [7] * count))},
    )
    more = {3: DeltaColumn(np.array([0, 1]), pa.array([1, 2]))}
    made = merge([every, Deltas.at(9, np.array([4, ROW_GROUP_ROWS]), DeltaKind.UPDATE, more)])
    fs = write(merge([made, Deltas.at(11, np.array([count - 1]), DeltaKind.DELETE)]))
    file = opened(fs, cache=1 << 30)
    blocks = file.footer.blocks
    assert all(b.first_row // ROW_GROUP_ROWS == b.last_row // ROW_GROUP_ROWS for b in blocks)
    assert max(b.count for b in blocks) == BLOCK_DELTAS

    def parts_read(action: Any) -> list[int]:
        fs.reads.clear()
        action()
        return [offset for _, offset, _ in fs.reads]

    second = next(b for b in blocks if b.first_row >= ROW_GROUP_ROWS)
    assert parts_read(lambda: file.read(second.first_row, second.first_row + 1, {3})) == [
        second.head.offset,
        second.columns[3][1].offset,
    ]
    assert parts_read(lambda: file.read(second.first_row, second.first_row + 1, {3})) == []
    assert parts_read(file.existence) == [blocks[-1].head.offset]
    assert file.existence().rows.tolist() == [count - 1]
    file.close()
    assert fs.open_files == 0


def test_insertions_take_little_room() -> None:
    """One DELETE per row as UNDO: nothing where all came at once, below 3 bytes where batches came in any order."""
    rows = np.random.default_rng(1)
    batches = np.uint64(1_700_000_000_000_000 << 12) + np.uint64(1 << 24) * rows.integers(0, 500, 200_000).astype("u8")
    one = opened(write(insertions(np.full(200_000, 77, np.uint64))))
    many = opened(write(insertions(batches)))
    assert one.size < 1000
    assert many.size < 1.5 * 200_000
    singles = rows.permutation(200_000).astype(np.uint64) * np.uint64(5 << 12) + np.uint64(1 << 60)
    assert opened(write(insertions(singles))).size < 3 * 200_000


def test_columns_that_the_schema_has_no_more_are_left_out() -> None:
    made = Deltas.at(
        3, np.array([1]), DeltaKind.UPDATE, {c: DeltaColumn(np.array([0]), pa.array(["x"])) for c in (11, 40)}
    )
    fs = write(made)
    assert list(opened(fs).read(0, 9).columns) == [11]
    assert list(opened(fs).read(0, 9, [40]).columns) == []
    assert list(opened(fs, None).read(0, 9).columns) == [11, 40]
    other = Schema((SCHEMA.columns[0], ColumnSchema("c11", BIGINT, id=11)), 1)
    with pytest.raises(CorruptionError, match="holds values of type STRING of column id 11, BIGINT expected"):
        opened(fs, other).read(0, 9)


def small() -> Deltas:
    columns = {
        2: DeltaColumn(np.array([0, 2]), arrow_array(SMALLINT, [5, None])),
        11: DeltaColumn(np.array([2]), pa.array(["hello hello hello hello hello hello hello hello"])),
    }
    kinds = np.array([DeltaKind.UPDATE, DeltaKind.DELETE, DeltaKind.REINSERT], np.uint8)
    return Deltas(np.array([1, 1, ROW_GROUP_ROWS]), np.array([3, 4, 9], np.uint64), kinds, columns)


def test_every_flipped_byte_and_every_cut_is_found() -> None:
    fs = write(small())
    whole = bytes(fs.get(PATH))
    damaged = [whole[:i] + bytes([whole[i] ^ 0x41]) + whole[i + 1 :] for i in range(len(whole))]
    for data in [*damaged, *(whole[:length] for length in range(len(whole)))]:
        fs.put(PATH, data)
        file = opened(fs)
        with pytest.raises(CorruptionError) as caught:
            file.read(0, 2 * ROW_GROUP_ROWS)
        assert caught.value.path == PATH and caught.value.place
        for ask in (file.existence, lambda f=file: f.touched(2), lambda f=file: f.statistics):
            try:
                ask()
            except CorruptionError:
                continue
            # The requested data is outside the damaged part.
            assert not isinstance(ask(), Deltas) or plain(ask()) == plain(opened(write(small())).existence())


def test_a_newer_version_is_refused_by_name() -> None:
    fs = write(small())
    data = fs.get(PATH)
    data[8] = 2
    data[12:16] = struct.pack("<I", zlib.crc32(bytes(data[:12])))
    fs.put(PATH, data)
    with pytest.raises(UnsupportedFormat, match="format version 2"):
        opened(fs).read(0, 9)


def test_a_file_that_cannot_be_written_whole_is_removed() -> None:
    fs = FaultyFileSystem(MemoryFileSystem())
    fs.make_directory("d")
    fs.fail("write", "*.delta", nth=2)
    with pytest.raises(DiskError):
        write_delta_file(fs, "d/r.delta", SCHEMA, small())
    assert fs.list("d") == []


def test_joined_is_merge_of_runs_that_follow_one_another() -> None:
    made = small()
    assert plain(joined([made.between(0, 2), Deltas.empty(), made.between(2, 1 << 40)])) == plain(made)
