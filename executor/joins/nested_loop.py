"""The nested loop join: every pair is checked, in blocks. For conditions without an equality, and for one-row sides.

A right side that does not fit into memory is written to a temporary file, and then the left side as well; both are
joined from there (`blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...model.vectors.vector import Array, Batch, Const
from ...planner.algebra.physical import NestedLoopJoin, PhysicalNode
from ..expressions.evaluate import Compiler, physical
from ..lazy import joined
from ..run.context import ExecutionContext
from ..run.memory import Account
from ..run.stream import Stream, stream_of
from ..spilling.encoded import types_of
from ..spilling.partitions import SpilledRows
from ..spilling.sizes import batch_bytes
from . import range_index
from .blocks import BlockJoin, Room, block_stream
from .build_collector import BuildCollector, Once, RowWriter, Writer, all_probed
from .join_shape import JoinShape, kept_shape
from .pairs import MARKS_BUILD, Matches, Part, all_pairs
from .range_index import BuildBounds, RangeIndex
from .runtime_filters import RuntimeFilters

_SAME_KIND = frozenset(("inner", "cross"))


def open_nested_loop(
    node: NestedLoopJoin,
    context: ExecutionContext,
    filters: RuntimeFilters,
    open_node: Callable[[PhysicalNode, ExecutionContext, RuntimeFilters], Stream],
) -> Stream:
    """Read the right side whole, then stream the left side past it."""
    account = context.account("a nested loop join")
    shape = JoinShape(node.kind, node.columns, node.left.columns, node.right.columns, (), (), node.condition)
    spilled = _Spilled(shape, context, account)
    collector = BuildCollector(context, account, batch_bytes, spilled.write, spilled.writer)
    pieces = collector.collect(open_node(node.right, context, filters), lambda batch: batch)
    if collector.is_written:
        return spilled.open(open_node(node.left, context, filters))
    right = joined(node.right.columns, pieces)
    if not right.length and node.kind in ("inner", "cross", "semi", "right"):
        return stream_of(node.columns, [])
    left = open_node(node.left, context, filters)
    if right.length == 1 and node.kind in _SAME_KIND:
        return left.through(node.columns, _beside_one_row(node, right))
    loop = _Loop(shape, right, context, account)
    output = left.through(node.columns, loop.join_batches)
    return all_probed(context, account, output, loop.rest) if node.kind in MARKS_BUILD else output


class _Loop:
    """Right rows in memory, joined with left rows; it holds the account as long as it lives."""

    def __init__(self, shape: JoinShape, right: Batch, context: ExecutionContext, account: Account):
        self._matches = Matches(shape.kind, shape.output, shape.probe, shape.build, right, shape.residual)
        self._left_columns = shape.probe
        self._rows = np.arange(right.length)
        self._context = context
        self._account = account
        self._range: RangeIndex | None = None
        if right.length >= range_index.FEWEST:
            self._range = RangeIndex.make(shape, BuildBounds.of(shape, right, np.zeros(right.length, np.int64)))
        if self._range is not None and not account.grow(self._range.bytes):
            self._range = None

    def join_batches(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the join's rows for a morsel of the left side."""
        for batch in batches:
            parts, exact = self._candidates(batch)
            yield from self._context.checked(self._matches.emit(batch, self._checked(parts), exact))

    def emit_matches(self, batch: Batch, hit: Array) -> Iterator[Batch]:
        """`Matches.emit_matches`."""
        parts, exact = self._candidates(batch)
        return self._matches.emit_matches(batch, self._checked(parts), hit, exact)

    def emit_settled(self, batch: Batch, hit: Array) -> Iterator[Batch]:
        """`Matches.emit_settled`."""
        return self._matches.emit_settled(batch, hit)

    def rest(self) -> Batch:
        """`Matches.rest`."""
        return self._matches.rest(self._left_columns)

    def _candidates(self, batch: Batch) -> tuple[Iterator[Part], bool]:
        """Return the candidates, and True if all of them are matches."""
        if self._range is not None:
            parts = self._range.pairs(batch, np.zeros(batch.length, np.int64))
            if parts is not None:
                return parts, self._range.is_exact
        return all_pairs(np.arange(batch.length), self._rows), False

    def _checked(self, parts: Iterator[Part]) -> Iterator[Part]:
        for part in parts:
            # A cancel must not wait for all pairs of a batch.
            self._context.check()
            yield part


class _Spilled:
    """A join whose right side does not fit."""

    def __init__(self, shape: JoinShape, context: ExecutionContext, account: Account):
        self._shape, *sides = kept_shape(shape)
        self._left, self._right = sides
        self._context = context
        self._account = account
        self._room = Room(account, account.room or 0, context.threads)
        self._rows: Once[SpilledRows] = Once()

    def _made_rows(self) -> SpilledRows:
        return self._rows.get(lambda: SpilledRows(self._context.spill_file(), types_of(self._right.columns)))

    def writer(self) -> RowWriter:
        """Make the writer of one thread for right rows."""
        return RowWriter(self._made_rows())

    def write(self, batch: Batch, writer: Writer) -> None:
        """Write some right rows."""
        writer.add(self._right.kept(batch, ()))

    def open(self, left: Stream) -> Stream:
        """Return the join's stream, once all right rows are written: writes the left side."""
        rows = SpilledRows(self._made_rows().file, types_of(self._left.columns))

        def write(batches: Iterator[Batch]) -> None:
            writer = RowWriter(rows)
            for batch in batches:
                writer.add(self._left.kept(batch, ()))
            writer.flush()

        self._context.run_all(left, lambda batches, _: write(batches))
        return block_stream(self._blocks(), self._shape.output, self._made_rows(), rows)

    def _blocks(self) -> BlockJoin:
        def make(right: Batch) -> _Loop:
            return _Loop(self._shape, right, self._context, self._account)

        return BlockJoin(self._shape.kind, self._right.columns, make, self._room, self._context)


def _beside_one_row(node: NestedLoopJoin, right: Batch) -> Callable[[Iterator[Batch]], Iterator[Batch]]:
    """Turn a one-row right side into constants: no pairs are formed, conditions compare with a constant."""
    columns = (*node.left.columns, *node.right.columns)
    values = [(column.type, physical(column)) for column in right.columns()]
    positions = {column.id: i for i, column in enumerate(columns)}
    output = [positions[column.id] for column in node.columns]
    condition = None if node.condition is None else Compiler(columns).condition(node.condition)

    def run(batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            both = batch.append([Const(type_, value, batch.length) for type_, value in values])
            if condition is not None:
                both = condition.select(both)
            if both.length:
                yield both.project(output)

    return run
