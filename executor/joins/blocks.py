"""Joins of rows in temporary files, in blocks of build rows that fit into memory.

build rows   [ block 1 | block 2 | ... ]      each as large as one thread's share of the memory
probe rows   every batch past every block; rows that have a match are remembered from block to block
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Array, Batch, Vector, concat
from ...sql.expressions import Column
from ...storage.files.spill_file import Extent
from ..lazy import empty_batch
from ..run.context import ExecutionContext
from ..run.memory import Account
from ..run.stream import Morsel, Stream, sliced
from ..spilling.encoded import types_of
from ..spilling.partitions import SpilledRows
from .pairs import MARKS_BUILD
from .sizes import loaded_bytes

SMALLEST = 1 << 18
"""Working memory of a thread in bytes, which is not charged to an account: it is of the order of a batch in flight."""

_NEEDS_HITS: Final = frozenset(("left", "full", "single", "semi", "anti", "null_anti"))
"""Kinds for which it matters which probe rows have a match."""
_HALF: Final = frozenset(("semi", "anti", "null_anti"))
"""Kinds for which one match of a probe row is as good as many."""


class Room:
    """Divides the memory of one join's account among its threads, so that each of the others still gets its share.

    `guarantee` is the number of bytes that the account may hold at least.
    """

    def __init__(self, account: Account, guarantee: int, threads: int):
        self.account = account
        self.share = max(SMALLEST, guarantee // threads)
        self._spare = guarantee // threads * (threads - 1)

    def reserve(self, size: int) -> int | None:
        """Reserve `size` bytes: return the number to release; None if there is no room."""
        if self.account.grow(size + self._spare):
            self.account.shrink(self._spare)
            return size
        if size > self.share:
            return None
        return size if self.account.grow(size) else 0

    def require(self, size: int) -> int:
        """Reserve `size` bytes that are required; raises `OperationalError` if there is no room."""
        taken = self.reserve(size)
        if taken is None:
            self.account.hold(size)
            return size
        return taken

    def release(self, taken: int) -> None:
        """Release the bytes that `reserve` returned."""
        self.account.shrink(taken)


class Joining(Protocol):
    """A block of build rows, ready for probe rows; see `pairs.Matches`."""

    def emit_matches(self, batch: Batch, hit: Array) -> Iterator[Batch]: ...

    def emit_settled(self, batch: Batch, hit: Array) -> Iterator[Batch]: ...

    def rest(self) -> Batch: ...


def read_rows(columns: Sequence[Column], batches: Iterator[Batch]) -> Batch:
    """Read all rows into one batch in memory."""
    pieces: list[list[Vector]] = [[] for _ in columns]
    rows = 0
    for batch in batches:
        rows += batch.length
        for vectors, vector in zip(pieces, batch.columns(), strict=True):
            vectors.append(vector)
    if not rows:
        return empty_batch(columns)
    joined: list[Vector] = []
    for vectors in pieces:
        joined.append(concat(vectors))
        vectors.clear()
    return Batch(joined, rows)


def read_now(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the batches that have rows, every column read: a caller that keeps them must not keep their sources."""
    for batch in batches:
        if batch.length:
            yield Batch(batch.columns(), batch.length)


@dataclass
class BlockJoin:
    """A join in blocks of build rows.

    Parameters
    ----------
    kind : str
    build_columns : sequence of Column
        Columns that are written of the build side.
    make : callable
        Prepares a block.
    """

    kind: str
    build_columns: Sequence[Column]
    make: Callable[[Batch], Joining]
    room: Room
    context: ExecutionContext

    def join_rows(self, build: SpilledRows, probe: SpilledRows) -> Iterator[Batch]:
        """Yield the join's rows."""
        hits = _Hits(probe.extents) if self.kind in _NEEDS_HITS else None
        taken = 0 if hits is None else self.room.require(hits.bytes)
        try:
            joining = None
            for block in self._blocks(build):
                joining = self.make(block)
                yield from self._pass(joining, probe, hits)
                if self.kind in MARKS_BUILD:
                    yield from read_now(sliced(joining.rest()))
            if hits is not None:
                yield from self._settle(joining or self.make(empty_batch(self.build_columns)), probe, hits)
        finally:
            self.room.release(taken)

    def _pass(self, joining: Joining, probe: SpilledRows, hits: _Hits | None) -> Iterator[Batch]:
        """Join all probe rows with one block."""
        for number, extent in enumerate(probe.extents):
            self.context.check()
            if hits is None:
                yield from read_now(joining.emit_matches(probe.read(extent), np.zeros(extent.rows, np.bool_)))
                continue
            hit = hits.get(number)
            if self.kind in _HALF:
                open_ = np.flatnonzero(~hit)
                if len(open_):
                    inner = np.zeros(len(open_), np.bool_)
                    yield from joining.emit_matches(probe.read(extent).select(open_), inner)
                    hit[open_] = inner
            else:
                yield from read_now(joining.emit_matches(probe.read(extent), hit))
            hits.set(number, hit)

    def _settle(self, joining: Joining, probe: SpilledRows, hits: _Hits) -> Iterator[Batch]:
        for number, extent in enumerate(probe.extents):
            self.context.check()
            yield from read_now(joining.emit_settled(probe.read(extent), hits.get(number)))

    def _blocks(self, build: SpilledRows) -> Iterator[Batch]:
        """Yield the build rows in blocks as large as one thread may hold, with at least one batch of the file each."""
        types = types_of(self.build_columns)
        waiting: list[Extent] = []
        size = 0
        for extent in build.extents:
            more = loaded_bytes(types, extent.rows, extent.length)
            if waiting and size + more > self.room.share:
                yield from self._block(build, waiting, size)
                waiting, size = [], 0
            waiting.append(extent)
            size += more
        if waiting:
            yield from self._block(build, waiting, size)

    def _block(self, build: SpilledRows, extents: list[Extent], size: int) -> Iterator[Batch]:
        taken = self.room.reserve(size) or 0
        try:
            yield read_rows(self.build_columns, (build.read(extent) for extent in extents))
        finally:
            self.room.release(taken)


class _Hits:
    """Marks probe rows that have a match: one bit each."""

    def __init__(self, extents: Sequence[Extent]):
        self._rows = [extent.rows for extent in extents]
        self._bits = [np.zeros((rows + 7) // 8, np.uint8) for rows in self._rows]
        self.bytes = sum(len(bits) for bits in self._bits)

    def get(self, number: int) -> Array:
        """Bits of one batch: ndarray of bool."""
        return np.unpackbits(self._bits[number], count=self._rows[number]).view(np.bool_)

    def set(self, number: int, hit: Array) -> None:
        """Replace the bits of one batch."""
        self._bits[number] = np.packbits(hit)


def block_stream(join: BlockJoin, output: tuple[Column, ...], build: SpilledRows, probe: SpilledRows) -> Stream:
    """Join in blocks, in several morsels: each with some of the rows of the side whose matches need not be known."""
    wanted = 2 * join.context.threads
    if join.kind == "full":
        pairs = [(build, probe)]
    elif join.kind in MARKS_BUILD:
        pairs = [(part, probe) for part in _parts(build, wanted)]
    else:
        pairs = [(build, part) for part in _parts(probe, wanted)]

    def morsel(some_build: SpilledRows, some_probe: SpilledRows) -> Morsel:
        return Morsel(lambda: join.join_rows(some_build, some_probe))

    return Stream(output, tuple(morsel(*pair) for pair in pairs))


def _parts(rows: SpilledRows, wanted: int) -> Iterator[SpilledRows]:
    """Split the rows into `wanted` parts, or fewer."""
    for chosen in np.array_split(np.arange(len(rows.extents)), min(wanted, len(rows.extents)) or 1):
        extents = [rows.extents[i] for i in chosen]
        size = sum(extent.length for extent in extents)
        yield SpilledRows(rows.file, rows.types, extents, size, size, sum(extent.rows for extent in extents))
