"""The DeltaFile: UNDO or REDO deltas of one DiskRowSet, in one format. This page is the format.

Deltas lie in the order of `deltas.Deltas`: by row, then by time. They are cut into *blocks*, each within one row group
of 131,072 rows and of at most 65,536 deltas, so that a scan of some rows reads few blocks. All integers are
little-endian; header and tail are those of `column_file`.

    offset        bytes  meaning
    0             16     header with the magic "NYALADLT"
    16            ...    the parts of the blocks, back to back: of each block its head, then its columns by id
    F             n      footer: a msgpack map, below
    size - 12     12     tail

**Footer**

    types     per column that some delta sets: [id, kind, precision, scale]; files outlive columns that are dropped
    blocks    per block: [first row, last row, oldest timestamp, newest, deltas, DELETEs among them, REINSERTs,
                          head, columns]
              head: [offset, stored bytes, bytes after decompression, CRC32 of the stored bytes, compression]
              columns: per column that some delta of the block sets: [id, number of values, offset, stored, ...]
    file      `file_identity.identity_of` the file; not in old files

Compressions are numbered as in `column_file`. Every byte of a file is under one of the checksums.

**Numbers** stand as codes over a base: 17 bytes `u64 base, u64 unit, u8 bits`, then one plane of ceil(count / 8) bytes
for each of the bits, lowest first; bit i of byte i // 8 is that of code i. A number is base + unit * code, modulo
2**64. How many there are is known before; equal numbers take no planes.

**Head** of a block of n deltas, after decompression

    u32         t, the number of distinct timestamps
    numbers     n - 1: each row less the row before it
    numbers     t - 1: each distinct timestamp less the one before it; the first is the block's oldest
    numbers     n: which of the distinct timestamps
    numbers     n: kinds (1 UPDATE, 2 DELETE, 3 REINSERT)

**Column** with v values, after decompression

    numbers     v: each place (which delta of the block) less the place before it, or -1
    u32         number of NULLs
    validity    ceil(v / 8) bytes, only where there are NULLs: bit i of byte i // 8 set where value i is present
    values      of the present ones: integers, decimals up to 18 digits, dates, timestamps, booleans: numbers;
                floats and wide decimals as in memory; texts: their lengths as numbers, then their bytes

**Example**: the UNDO file of the insertion of 131,072 rows at one moment, one DELETE per row, has two blocks. The
head of each is 4 + 4 * 17 bytes before compression: rows are one apart, and all else is equal.
"""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ...errors import CorruptionError, OperationalError
from ...model.lazy_dataclass import dataclass
from ...model.schema import Compression, Schema
from ...model.types import DataType
from ...model.vectors.vector import Array
from ..columns.column_file import encode_header, encode_tail, read_footer
from ..columns.compression import compress, decompress
from ..files.file_handles import FileHandles
from ..files.file_identity import identity_of
from ..files.filesystem import FileSystem, WritableFile
from ..files.io_limit import counted_file
from ..files.page_cache import PageCache, new_owner
from .delta_format import (
    MAGIC,
    BlockRecord,
    DeltaFooter,
    Part,
    column_types,
    cut,
    decode_column,
    decode_footer,
    decode_head,
    decode_places,
    delta_counts,
    encode_column,
    encode_footer,
    encode_head,
)
from .deltas import DeltaColumn, DeltaKind, Deltas, joined
from .row_numbers import distinct


@dataclass(frozen=True, slots=True)
class DeltaStatistics:
    """Footer statistics of a delta file, readable without its blocks."""

    count: int
    oldest: int
    newest: int
    deletes: int
    reinserts: int
    updates: dict[int, int]
    """Number of values of each column, by column id."""


# ---- writing -----------------------------------------------------------------------------------------------------


def write_delta_file(fs: FileSystem, path: str, schema: Schema, deltas: Deltas) -> int:
    """Write deltas (not empty, of rows within one rowset), durable when this returns; the file's size in bytes.

    The caller syncs the directory. A file that could not be written whole is removed again, and `DiskError` raised.
    """
    if not len(deltas):
        raise ValueError(f"{path}: a delta file holds at least one delta")
    file = counted_file(fs.create(path))
    try:
        try:
            _write(file, schema, deltas, identity_of(path))
            file.sync()
            return file.size
        finally:
            file.close()
    except BaseException:
        # The current error is more useful than a second one from cleanup.
        with contextlib.suppress(OperationalError):
            fs.remove(path)
        raise


def _write(file: WritableFile, schema: Schema, deltas: Deltas, identity: str) -> None:
    types = column_types(schema, deltas)
    file.write(encode_header(MAGIC))
    blocks = []
    for block in cut(deltas):
        head = _write_part(file, encode_head(block))
        columns = {
            column: (len(given.places), _write_part(file, encode_column(types[column], given)))
            for column, given in sorted(block.columns.items())
        }
        blocks.append(
            BlockRecord(
                int(block.rows[0]), int(block.rows[-1]), block.oldest, block.newest, len(block), *delta_counts(block),
                head, columns,
            )
        )  # fmt: skip
    footer = encode_footer(DeltaFooter(types, tuple(blocks), identity))
    file.write(footer)
    file.write(encode_tail(footer))


def _write_part(file: WritableFile, raw: bytes) -> Part:
    stored, compression = compress(raw, Compression.ZSTD)
    part = Part(file.size, len(stored), len(raw), zlib.crc32(stored), compression)
    file.write(stored)
    return part


# ---- reading -----------------------------------------------------------------------------------------------------


class DeltaFile:
    """A delta file, open for reading. Safe for several threads; touches the file at first use only. `CorruptionError`
    names file and place where bytes are damaged.

    Parameters
    ----------
    schema : Schema or None
        Whose columns are of interest; None: all that the file has.
    """

    def __init__(self, handles: FileHandles, path: str, schema: Schema | None, cache: PageCache):
        self.path = path
        self._handles = handles
        self._expected = None if schema is None else {column.id: column.type for column in schema.columns}
        self._cache = cache
        self._owner = new_owner()
        self._lock = threading.Lock()
        self._footer: DeltaFooter | None = None
        self._statistics: DeltaStatistics | None = None

    @property
    def footer(self) -> DeltaFooter:
        """The footer, read and checked at first use. `CorruptionError`, `UnsupportedFormat`."""
        if self._footer is None:
            with self._lock:
                if self._footer is None:
                    with self._cache.naming_damage():
                        self._footer = self._read_footer()
        return self._footer

    @property
    def statistics(self) -> DeltaStatistics:
        """From the footer, read at first use."""
        if self._statistics is None:
            blocks = self.footer.blocks
            updates = dict.fromkeys(self.footer.types, 0)
            for block in blocks:
                for column, (values, _) in block.columns.items():
                    updates[column] += values
            self._statistics = DeltaStatistics(
                count=sum(b.count for b in blocks),
                oldest=min(b.oldest for b in blocks),
                newest=max(b.newest for b in blocks),
                deletes=sum(b.deletes for b in blocks),
                reinserts=sum(b.reinserts for b in blocks),
                updates=updates,
            )
        return self._statistics

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return self._handles.size(self.path)

    def read(self, start: int, stop: int, columns: Collection[int] | None = None) -> Deltas:
        """The deltas of the rows `start` to `stop` (exclusive), with the values of some columns or all. Blocks of other
        rows are not read. Columns that the schema does not have any more are left out.

        UPDATEs that set none of the columns are there without a value.
        """
        return joined(
            [
                self.read_block(number, columns).between(start, stop)
                for number, block in enumerate(self.footer.blocks)
                if block.first_row < stop and start <= block.last_row
            ]
        )

    def read_block(self, number: int, columns: Collection[int] | None = None) -> Deltas:
        """All deltas of one block, with the values of some columns or all."""
        block = self.footer.blocks[number]
        wanted = block.columns if columns is None else [c for c in columns if c in block.columns]
        head = self.read_head(number)
        return replace(head, columns={c: self._column(number, c) for c in sorted(wanted) if self._is_known(c)})

    def read_column(self, number: int, column: int) -> DeltaColumn | None:
        """The values that one block gives a column; None for none."""
        is_there = column in self.footer.blocks[number].columns and self._is_known(column)
        return self._column(number, column) if is_there else None

    def existence(self) -> Deltas:
        """The DELETE and REINSERT deltas of all rows, without values."""
        parts = []
        for number, block in enumerate(self.footer.blocks):
            if block.deletes or block.reinserts:
                head = self.read_head(number)
                parts.append(head.select(head.kinds != DeltaKind.UPDATE))
        return joined(parts)

    def touched_after(self, rows: Array, since: int) -> Array:
        """Which of some rows (ndarray of int64, in any order) have a delta above a timestamp: ndarray of bool. Blocks
        of other rows and times are not read."""
        touched_rows = np.zeros(len(rows), np.bool_)
        for number, block in enumerate(self.footer.blocks):
            if block.newest > since:
                within = np.flatnonzero((rows >= block.first_row) & (rows <= block.last_row))
                if len(within):
                    touched_rows[within] |= self.read_head(number).touched(rows[within], since)
        return touched_rows

    def touched(self, column: int) -> Array:
        """The rows that some delta gives a value of a column: ascending, none twice, ndarray of int64."""
        parts = [np.empty(0, np.int64)]
        for number, block in enumerate(self.footer.blocks):
            if column in block.columns:
                count, part = block.columns[column]
                with self._decoding(number, part):
                    places = decode_places(self._read_part(number, part), count)
                parts.append(self.read_head(number).rows[places])
        return distinct(np.concatenate(parts))

    def close(self) -> None:
        """Release cached blocks and close the file."""
        self._cache.forget(self._owner)
        self._handles.forget(self.path)

    def _is_known(self, column: int) -> bool:
        return self._expected is None or column in self._expected

    def read_head(self, number: int) -> Deltas:
        """All deltas of one block without values."""
        key = number << 32
        head: Deltas | None = self._cache.get(self._owner, key)
        if head is None:
            block = self.footer.blocks[number]
            with self._decoding(number, block.head):
                head = decode_head(self._read_part(number, block.head), block)
            self._cache.put(self._owner, key, head, head.nbytes)
        return head

    def _column(self, number: int, column: int) -> DeltaColumn:
        key = number << 32 | column + 1
        cached: DeltaColumn | None = self._cache.get(self._owner, key)
        if cached is None:
            count, part = self.footer.blocks[number].columns[column]
            with self._decoding(number, part):
                cached = decode_column(self._read_part(number, part), self.footer.types[column], count)
            self._cache.put(self._owner, key, cached, cached.places.nbytes + cached.values.nbytes)
        return cached

    def _read_part(self, number: int, part: Part) -> pa.Buffer:
        data = self._handles.read_at(self.path, part.offset, part.stored)
        if len(data) < part.stored:
            raise CorruptionError(f"{len(data)} bytes instead of {part.stored}", self.path, _place(number, part))
        if (crc := zlib.crc32(data)) != part.crc:
            message = f"checksum {crc:08x} instead of {part.crc:08x}"
            raise CorruptionError(message, self.path, _place(number, part))
        return decompress(data, part.raw, part.compression)

    @contextlib.contextmanager
    def _decoding(self, number: int, part: Part) -> Iterator[None]:
        with self._cache.naming_damage():
            try:
                yield
            except (ValueError, IndexError, OSError) as error:
                raise CorruptionError(f"does not decode: {error}", self.path, _place(number, part)) from error

    def _read_footer(self) -> DeltaFooter:
        footer = decode_footer(read_footer(self._handles, self.path, MAGIC), self.path)
        for column, found in footer.types.items():
            expected = found if self._expected is None else self._expected.get(column, found)
            if _physical(found) != _physical(expected):
                message = f"holds values of type {found} of column id {column}, {expected} expected"
                raise CorruptionError(message, self.path, "footer")
        return footer


def _physical(type_: DataType) -> tuple[object, ...]:
    return type_.kind, type_.precision, type_.scale


def _place(number: int, part: Part) -> str:
    return f"block {number} at offset {part.offset}"
