"""The hash join of a build side that does not fit: both sides are partitioned by the hash of their keys (a Grace hash
join).

    build ──┬─► partition 0 ─┐            ┌─ partition 0 ◄─┬── probe
            ├─► partition 1 ─┼─ join each ┼─ partition 1 ◄─┤
            └─► ...         ─┘   by itself└─ ...         ◄─┘

Rows with equal keys are in one partition, so each partition is a separate join, of any kind, and one morsel. A
partition that does not fit is partitioned again by further bits of the hash. If that does not help, because most rows
have one key, its build rows are joined in blocks (`blocks`).

NULL keys are handled first. A row with one has no partner, so it is dropped; if it must be produced alone, such rows
are distributed over the partitions round-robin. NOT IN becomes an anti join once it is known that the build side has no
NULL. With several keys or a further condition a NULL may match any row, and the whole join runs in blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.types import INT
from ...model.vectors.vector import Array, Batch, Flat
from ...storage.files.spill_file import SpillFile
from ..run.context import ExecutionContext
from ..run.stream import Morsel, Stream, sliced
from ..spilling.encoded import types_of
from ..spilling.partitions import DEEPEST, PARTITIONS, PartitionedRows, SpilledRows, partition_numbers
from .blocks import BlockJoin, Room, block_stream, read_now, read_rows
from .build_collector import RowWriter
from .join_shape import DROPS_UNMATCHED_PROBE, JoinShape, KeptSide
from .pairs import KEEPS_PROBE, MARKS_BUILD
from .probing import Probing, rows_with_null
from .sizes import loaded_bytes

_KEEPS_BUILD = frozenset(("right", "full", "right_anti"))
"""Kinds that produce a build row without partner."""
_NEEDLESS_CUT = 7 / 8
"""Share of the input above which a partition is not cut again: most of its rows have one key."""


class PartitionWriter(RowWriter):
    """Cuts one thread's batches into partitions.

    Parameters
    ----------
    keys : sequence of int
        Positions of the key columns.
    keeps_null_keys : bool
        Else rows with a NULL in the key are dropped.
    partitions : ndarray of bool, shape (PARTITIONS,), optional
        Rows of other partitions are dropped.
    """

    def __init__(
        self,
        parts: PartitionedRows,
        keys: Sequence[int],
        keeps_null_keys: bool,
        level: int = 0,
        partitions: Array | None = None,
    ):
        super().__init__(parts.parts[0])
        self._parts = parts
        self._keys = keys
        self._keeps_null_keys = keeps_null_keys
        self._level = level
        self._partitions = partitions

    def add(self, batch: Batch) -> None:
        """Write a batch, as `RowWriter` does; of dropped rows only the keys are read."""
        keys = [batch.column(i) for i in self._keys]
        numbers = partition_numbers(keys, batch.length, self._level)
        alone = rows_with_null(keys, batch.length)
        numbers[alone] = np.arange(len(alone)) % PARTITIONS
        kept = np.ones(batch.length, np.bool_) if self._partitions is None else self._partitions.take(numbers)
        if not self._keeps_null_keys:
            kept[alone] = False
        if not kept.all():
            batch, numbers = batch.select(kept), numbers[kept]
        super().add(batch.append([Flat(INT, numbers)]))

    def _write(self, batch: Batch) -> None:
        numbers = batch.column(batch.width - 1).values()
        self._parts.add(batch.project(range(batch.width - 1)), numbers)


@dataclass
class SpilledJoin:
    """A hash join whose sides are in a temporary file.

    Parameters
    ----------
    shape : JoinShape
        Over the columns that are written.
    sides : tuple of KeptSide
        Probe and build.
    keep_probe : callable
        Reduces a probe batch to the columns that are written.
    """

    shape: JoinShape
    sides: tuple[KeptSide, KeptSide]
    keep_probe: Callable[[Batch], Batch]
    room: Room
    context: ExecutionContext
    file: SpillFile

    # ---- writing ----------------------------------------------------------------------------------------------------

    @property
    def is_cut(self) -> bool:
        """True if the sides are cut into partitions."""
        return self.shape.kind != "null_anti" or self.shape.is_simple_not_in

    def heap(self, build: bool) -> PartitionedRows | SpilledRows:
        """Make the storage of a side's rows."""
        types = types_of(self.sides[build].columns)
        return PartitionedRows(self.file, types) if self.is_cut else SpilledRows(self.file, types)

    def writer(self, heap: PartitionedRows | SpilledRows, build: bool, partitions: Array | None = None) -> RowWriter:
        """Make the writer of one thread for a side."""
        if isinstance(heap, SpilledRows):
            return RowWriter(heap)
        return self._cutting(heap, build, 0, partitions)

    def _cutting(
        self, heap: PartitionedRows, build: bool, level: int, partitions: Array | None = None
    ) -> PartitionWriter:
        keeps = self.shape.kind in _KEEPS_BUILD if build else self.shape.kind in (*KEEPS_PROBE, "anti")
        return PartitionWriter(heap, self.sides[build].key_places, keeps, level, partitions)

    # ---- joining ----------------------------------------------------------------------------------------------------

    def stream(self, build: PartitionedRows | SpilledRows, open_probe: Callable[[], Stream]) -> Stream:
        """Return the join's stream, once the build side is written: writes the probe side."""
        if self.shape.is_simple_not_in:
            self.shape = replace(self.shape, kind="anti")
        partitions = None
        if isinstance(build, PartitionedRows) and self.shape.kind in DROPS_UNMATCHED_PROBE:
            partitions = np.array([part.rows > 0 for part in build.parts])
        probe = self._write_probe(open_probe(), partitions)
        if isinstance(build, PartitionedRows) and isinstance(probe, PartitionedRows):
            pairs = list(zip(build.parts, probe.parts, strict=True))
            return Stream(self.shape.output, tuple(self._morsel(*pair) for pair in pairs if self._gives_rows(*pair)))
        assert isinstance(build, SpilledRows) and isinstance(probe, SpilledRows)
        return block_stream(self._blocks(), self.shape.output, build, probe)

    def _write_probe(self, stream: Stream, partitions: Array | None) -> PartitionedRows | SpilledRows:
        heap = self.heap(build=False)

        def write(batches: Iterator[Batch]) -> None:
            writer = self.writer(heap, False, partitions)
            for batch in batches:
                writer.add(self.keep_probe(batch))
            writer.flush()

        self.context.run_all(stream, lambda batches, _: write(batches))
        return heap

    def _gives_rows(self, build: SpilledRows, probe: SpilledRows) -> bool:
        kind = self.shape.kind
        if not probe.rows:
            return kind in _KEEPS_BUILD and build.rows > 0
        return build.rows > 0 or kind not in DROPS_UNMATCHED_PROBE

    def _morsel(self, build: SpilledRows, probe: SpilledRows) -> Morsel:
        return Morsel(lambda: self._partition(build, probe, 0, is_worth_cutting=True))

    def _partition(self, build: SpilledRows, probe: SpilledRows, level: int, is_worth_cutting: bool) -> Iterator[Batch]:
        """Join a partition that `level` has cut."""
        self.context.check()
        if not self._gives_rows(build, probe):
            return
        taken = self.room.reserve(loaded_bytes(build.types, build.rows, build.size))
        if taken is not None:
            try:
                yield from self._whole(build, probe)
            finally:
                self.room.release(taken)
        elif is_worth_cutting and level < DEEPEST:
            yield from self._cut(build, probe, level + 1)
        else:
            yield from self._blocks().join_rows(build, probe)

    def _whole(self, build: SpilledRows, probe: SpilledRows) -> Iterator[Batch]:
        probing = self._probing(read_rows(self.sides[True].columns, build.batches()))
        yield from read_now(probing.probe_all(self.context.checked(probe.batches())))
        if self.shape.kind in MARKS_BUILD:
            yield from read_now(sliced(probing.rest()))

    def _cut(self, build: SpilledRows, probe: SpilledRows, level: int) -> Iterator[Batch]:
        builds = self._cut_side(build, True, level)
        partitions = None
        if self.shape.kind in DROPS_UNMATCHED_PROBE:
            partitions = np.array([part.rows > 0 for part in builds.parts])
        probes = self._cut_side(probe, False, level, partitions)
        for some_build, some_probe in zip(builds.parts, probes.parts, strict=True):
            is_worth_cutting = some_build.rows < _NEEDLESS_CUT * build.rows
            yield from self._partition(some_build, some_probe, level, is_worth_cutting)

    def _cut_side(self, rows: SpilledRows, build: bool, level: int, partitions: Array | None = None) -> PartitionedRows:
        parts = PartitionedRows(self.file, rows.types)
        writer = self._cutting(parts, build, level, partitions)
        for batch in self.context.checked(rows.batches()):
            writer.add(batch)
        writer.flush()
        return parts

    def _probing(self, build: Batch) -> Probing:
        keys = [build.column(i) for i in self.sides[True].key_places]
        return Probing(self.shape, build, keys, sparing=True)

    def _blocks(self) -> BlockJoin:
        return BlockJoin(self.shape.kind, self.sides[True].columns, self._probing, self.room, self.context)
