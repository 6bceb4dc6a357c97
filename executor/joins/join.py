"""The hash join: the build side is read whole and indexed, the probe side streams.

The life of a join:

1. The build side's morsels run in parallel; only their key columns are read (`lazy.joined` keeps the rest unread).
2. `KeyCoder` turns the keys into integers, `JoinIndex` indexes them (`probing`).
3. The keys become runtime filters of scans below the probe side, which opens only now.
4. Each probe batch reads its key columns, looks them up and selects the rows with partners. Payload columns of either
   side are read on access by an operator above, for the remaining rows.
5. Kinds that also produce build rows without partner (right, full, ...) run the whole probe side, then add those.

A build side that does not fit into memory is written to a temporary file, with the columns that are needed. Then the
probe side is written as well, and they are joined in pieces (`spilled_join`).
"""

from __future__ import annotations

from collections.abc import Callable

from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Batch, Vector, concat
from ...planner.algebra.physical import HashJoin, PhysicalNode
from ..expressions.evaluate import Compiler
from ..lazy import empty_batch, empty_vector, joined
from ..run.context import ExecutionContext
from ..run.memory import Account
from ..run.stream import Stream, stream_of
from ..spilling.partitions import PartitionedRows, SpilledRows
from ..spilling.sizes import batch_bytes, vectors_bytes
from .blocks import Room
from .build_collector import BuildCollector, Once, Writer, all_probed
from .join_shape import DROPS_UNMATCHED_PROBE, JoinShape, KeptSide, kept_shape, shape_of
from .kept_keys import KeptKeys
from .pairs import MARKS_BUILD
from .probing import Probing, rows_with_null
from .runtime_filters import RuntimeFilters
from .sizes import INDEX
from .spilled_join import SpilledJoin

Opener = Callable[[PhysicalNode, ExecutionContext, RuntimeFilters], Stream]
"""Opens any node; passed in so that operators do not import each other."""


def open_hash_join(node: HashJoin, context: ExecutionContext, filters: RuntimeFilters, open_node: Opener) -> Stream:
    """Run the build side, open the probe side under its filters, and return the join's stream."""
    side = BuildSide(node, context)
    pieces = side.collector.collect(open_node(node.build, context, filters), side.prepare)
    account = side.account
    if side.collector.is_written:
        return side.spilled.open(filters, open_node)
    build, keys = _together(node, pieces)
    del pieces
    drops_unmatched = node.kind in DROPS_UNMATCHED_PROBE
    if not build.length and drops_unmatched:
        return stream_of(node.columns, [])
    probing = _probing(side.shape, build, keys, account)
    if probing is None:
        del build, keys
        side.collector.write_all()
        return side.spilled.open(filters, open_node)
    if context.collect:
        context.actuals.of(node).searched = probing.searched
        context.actuals.of(node).looked_up = probing.looked_up
    # They would not reach a scan that was prefetched.
    if drops_unmatched and node.runtime_filters and node.probe.number not in context.prefetched:
        kept = KeptKeys(node, account)
        kept.add(keys, counted=True)
        filters = kept.filters(filters)
    del side
    output = open_node(node.probe, context, filters).through(node.columns, probing.probe_all)
    return all_probed(context, account, output, probing.rest) if node.kind in MARKS_BUILD else output


def _together(node: HashJoin, pieces: list[_Piece]) -> tuple[Batch, list[Vector]]:
    """Combine the build side's rows, unread except for their keys."""
    if not pieces:
        return empty_batch(node.build.columns), [empty_vector(key.type) for key in node.build_keys]
    build = joined(node.build.columns, [piece.batch for piece in pieces])
    return build, [concat([piece.keys[i] for piece in pieces]) for i in range(len(node.build_keys))]


def _probing(shape: JoinShape, build: Batch, keys: list[Vector], account: Account) -> Probing | None:
    """Index the build side if the account has room for the index; else None."""
    for sparing in (False, True):
        probing = Probing(shape, build, keys, account, sparing)
        if account.grow(max(0, probing.index_bytes - INDEX * build.length)):
            return probing
    return None


@dataclass(slots=True)
class _Piece:
    """Some build rows and their keys."""

    batch: Batch
    keys: list[Vector]


class BuildSide:
    """Collection of the build side of one join."""

    def __init__(self, node: HashJoin, context: ExecutionContext):
        self.shape = shape_of(node)
        self.account = account = context.account("a join's build side")
        self.spilled = _Spilling(node, self.shape, context, account)
        self._keys = Compiler(node.build.columns).compile_all(node.build_keys)
        self.collector = BuildCollector(context, account, _piece_bytes, self.spilled.write, self.spilled.writer)

    def prepare(self, batch: Batch) -> _Piece:
        return _Piece(batch, [evaluate(batch) for evaluate in self._keys])


def _piece_bytes(piece: _Piece) -> int:
    rows = piece.batch.length
    return batch_bytes(piece.batch) + vectors_bytes(piece.keys, rows) + INDEX * rows


class _Spilling:
    """A join whose build side does not fit; its files are created when it spills."""

    def __init__(self, node: HashJoin, shape: JoinShape, context: ExecutionContext, account: Account):
        self._node = node
        self._shape = shape
        self._context = context
        self._account = account
        self._guarantee = account.room or 0
        self._keys = KeptKeys(node, account)
        self._started: Once[tuple[SpilledJoin, PartitionedRows | SpilledRows]] = Once()
        self._has_null_key = False

    def _start(self) -> tuple[SpilledJoin, PartitionedRows | SpilledRows]:
        """Create the join, and the file of the build rows."""
        shape, probe, build = kept_shape(self._shape)
        context = self._context
        room = Room(self._account, self._guarantee, context.threads)
        keep = _keeper(self._shape, probe)
        join = SpilledJoin(shape, (probe, build), keep, room, context, context.spill_file())
        return join, join.heap(build=True)

    def writer(self) -> Writer:
        """Make the writer of one thread for build rows."""
        join, heap = self._started.get(self._start)
        return join.writer(heap, build=True)

    def write(self, piece: _Piece, writer: Writer) -> None:
        """Write some build rows."""
        join, _ = self._started.get(self._start)
        writer.add(join.sides[True].kept(piece.batch, piece.keys))
        self._keys.add(piece.keys)
        if self._shape.is_simple_not_in and len(rows_with_null(piece.keys, piece.batch.length)):
            self._has_null_key = True

    def open(self, filters: RuntimeFilters, open_node: Opener) -> Stream:
        """Return the join's stream, once all build rows are written."""
        node = self._node
        if self._has_null_key:
            return stream_of(node.columns, [])
        filters = self._keys.filters(filters)
        join, heap = self._started.get(self._start)
        return join.stream(heap, lambda: open_node(node.probe, self._context, filters))


def _keeper(shape: JoinShape, side: KeptSide) -> Callable[[Batch], Batch]:
    """Return the function that reduces a probe batch to the columns that are written."""
    keys = Compiler(shape.probe).compile_all(shape.probe_keys)
    return lambda batch: side.kept(batch, [evaluate(batch) for evaluate in keys])
