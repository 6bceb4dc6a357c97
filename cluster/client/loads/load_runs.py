"""The rows of a bulk load until its end: sorted pieces of each tablet, in memory, or in a temporary file.

    append ─► rows by tablet ─ 256 MB ─► run: each tablet's rows by key, cut into pieces ─► temporary file
                                 └─────── the last run stays in memory

The file has no name and vanishes with the process. Each piece in it is an Arrow IPC stream of its own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import IO

import numpy as np
import pyarrow as pa

from ....errors import AlreadyPresent
from ....model.keys.keys import Keys
from ....model.lazy_dataclass import dataclass
from ....model.schema import Table
from ....storage.writing.incoming_rows import describe_key
from ..writes.routing import cut


@dataclass(frozen=True, slots=True, eq=False)
class StoredPiece:
    """Some rows of one tablet, by key: in memory, or `length` bytes at `offset` of the file."""

    tablet_id: str
    first_key: bytes
    last_key: bytes
    rows: pa.RecordBatch | None
    offset: int = 0
    length: int = 0


class LoadRuns:
    """The sorted pieces of a load. One thread adds, several may read."""

    def __init__(self, table: Table):
        self._table = table
        self._is_unique = table.schema.auto_increment is None
        self._key = [column.name for column in table.schema.key if not column.auto_increment]
        """Without the numbers, which the tablets assign; may be empty."""
        self._file: IO[bytes] | None = None
        self._end = 0
        self.pieces: dict[str, list[StoredPiece]] = {}
        """By tablet; run after run, each ascending by key."""

    def add(self, tablet_id: str, batches: Sequence[pa.RecordBatch], spill: bool) -> None:
        """Sorts the rows of a run that belong to a tablet; raises `AlreadyPresent` for a duplicate key."""
        rows = pa.Table.from_batches(batches).combine_chunks()
        keys = Keys.from_rows(self._table.schema, rows, self._key) if self._key else None
        if keys is not None and not keys.is_strictly_ascending():
            if self._is_unique:
                self._refuse_repeated(keys)
            order = keys.order()
            rows, keys = rows.take(pa.array(order)), keys.take(order)
        for whole in rows.combine_chunks().to_batches():
            for start, stop in cut(whole, 0, whole.num_rows):
                piece = whole.slice(start, stop - start)
                ends = (start, stop - 1)
                first, last = (b"" if keys is None else keys.encode_one(row) for row in ends)
                stored = self._spilled(tablet_id, first, last, piece) if spill else None
                self.pieces.setdefault(tablet_id, []).append(stored or StoredPiece(tablet_id, first, last, piece))

    def check_unique(self) -> None:
        """Raises `AlreadyPresent` if two runs have the same key."""
        if not self._is_unique:
            return
        for pieces in self.pieces.values():
            ordered = sorted(pieces, key=lambda piece: piece.first_key)
            if all(before.last_key < after.first_key for before, after in pairwise(ordered)):
                continue
            keys = pa.Table.from_batches([self.read(piece).select(self._key) for piece in ordered]).combine_chunks()
            self._refuse_repeated(Keys.from_rows(self._table.schema, keys))

    def _refuse_repeated(self, keys: Keys) -> None:
        repeated = keys.duplicates()
        if len(repeated):
            key = describe_key(self._table, keys.values_at(int(repeated[0])))
            raise AlreadyPresent(f"key {key} is in this load of table {self._table.name} twice")

    def in_turn(self) -> Iterator[StoredPiece]:
        """Returns all pieces, alternating between the tablets, so that their leaders work in parallel."""
        for place in range(max(map(len, self.pieces.values()), default=0)):
            yield from (pieces[place] for pieces in self.pieces.values() if place < len(pieces))

    def read(self, piece: StoredPiece) -> pa.RecordBatch:
        """Returns a piece's rows."""
        if piece.rows is not None:
            return piece.rows
        assert self._file is not None
        data = os.pread(self._file.fileno(), piece.length, piece.offset)
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            return reader.read_next_batch()

    def close(self) -> None:
        """Drops everything."""
        self.pieces.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spilled(self, tablet_id: str, first: bytes, last: bytes, rows: pa.RecordBatch) -> StoredPiece:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="nyala-load-")  # noqa: SIM115  # closed with the load
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        data = sink.getvalue()
        offset, self._end = self._end, self._end + data.size
        view = memoryview(data)
        while len(view):
            written = os.pwrite(self._file.fileno(), view, offset + data.size - len(view))
            view = view[written:]
        return StoredPiece(tablet_id, first, last, None, offset, data.size)


def numbered(count: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Row numbers from 0."""
    return np.arange(count, dtype=np.intp)
