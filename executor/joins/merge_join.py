"""The merge join: two sides in the order of the join keys, tablet by tablet, with one batch of each in memory.

Both tables are partitioned alike, so equal keys are in tablets of the same partition, and each pair of tablets is one
morsel. Within it, both sides ascend by the keys:

    left      [1 1 2 4 5 5 7 8]  [8 9 9 ...]          batches as they arrive
    right     [2 2 3 5] [6 6] [7 8 8] [9 ...          blocks: no key is in two of them

1. The right side's batches are cut into *blocks* where the key changes. Rows that share a batch's last key become a
   separate small block, since the next batch may have that key too. So batches need not be copied.
2. A block is indexed like a build side (`probing`): its keys lie close together, so the index fits in the processor's
   caches, and look-ups ascend.
3. A left batch is looked up in the current block up to the block's last key, the rest of it in the next block. These
   are mostly whole batches, whose columns need not be read or copied. Duplicates, conditions and kinds mean the same as
   in the hash join.
4. When the left side has passed a block, its rows without partner are produced if the kind needs them, and the block is
   dropped. If the kind does not need rows without a partner and one side has ended, the other is not read further.

Rows are produced in key order, except for the rows without partner of each block or batch, which follow its matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from ...errors import InternalError, OperationalError
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Batch, concat
from ...planner.algebra.physical import MergeJoin, PhysicalNode, TableScan, nodes
from ...sql.expressions import Column
from ..expressions.evaluate import Compiler
from ..lazy import empty_batch, empty_vector, joined
from ..run.context import ExecutionContext
from ..run.stream import Morsel, Stream
from .join_shape import JoinShape
from .pairs import MARKS_BUILD
from .probing import Probing
from .runtime_filters import RuntimeFilters

BLOCK_ROWS = 1 << 16
"""Rows that the right side gathers at least for a block: setting up an index of few rows costs more than its
look-ups."""
_NEEDS_LEFT = frozenset(("inner", "left", "semi", "anti", "single"))
"""Kinds that produce nothing once the left side has ended."""
_NEEDS_RIGHT = frozenset(("inner", "semi", "right", "right_semi", "right_anti"))
"""Kinds that produce nothing once the right side has ended."""

KeyValues: TypeAlias = tuple[Any, ...]
"""The physical values of a row's keys: Python orders these tuples as keys are ordered."""
Opener = Callable[[PhysicalNode, ExecutionContext, RuntimeFilters], Stream]


def open_merge_join(node: MergeJoin, context: ExecutionContext, filters: RuntimeFilters, open_node: Opener) -> Stream:
    """Open the join: a morsel per partition that has rows on a side that matters."""
    left, right = open_node(node.left, context, filters), open_node(node.right, context, filters)
    _check_unchanged(node, context)
    lefts, rights = _by_partition(left), _by_partition(right)
    merge = _MergeJoin(node, context)
    partitions = list(dict.fromkeys([*lefts, *rights]))
    if node.kind in _NEEDS_LEFT:
        partitions = [partition for partition in partitions if partition in lefts]
    if node.kind in _NEEDS_RIGHT:
        partitions = [partition for partition in partitions if partition in rights]
    morsels = tuple(Morsel(partial(merge.join_partition, lefts.get(p, ()), rights.get(p, ())), p) for p in partitions)
    given = left if node.kind in _NEEDS_LEFT else right if node.kind in _NEEDS_RIGHT else None
    kept = frozenset[int]() if given is None else given.partitioned_by
    if not kept <= {column.id for column in node.columns}:
        kept = frozenset()
    return Stream(node.columns, morsels, kept)


def _by_partition(stream: Stream) -> dict[str | None, tuple[Morsel, ...]]:
    by_partition: dict[str | None, tuple[Morsel, ...]] = {}
    for morsel in stream.morsels:
        if morsel.partition in by_partition:
            raise InternalError("a side of a merge join produces several morsels for one tablet")
        by_partition[morsel.partition] = (morsel,)
    return by_partition


def _check_unchanged(node: MergeJoin, context: ExecutionContext) -> None:
    """Check that both tables are still partitioned alike, as the plan assumes; an ALTER TABLE may have changed that."""
    for scan in nodes(node):
        if isinstance(scan, TableScan) and context.store.table(scan.table.name).partitions != scan.table.partitions:
            raise OperationalError(
                f"the partitions of table {scan.table.name} were altered while the statement started; retry it"
            )


class _MergeJoin:
    """One join, shared by its threads."""

    def __init__(self, node: MergeJoin, context: ExecutionContext):
        self._context = context
        self._kind = node.kind
        self._shape = JoinShape(
            node.kind,
            node.columns,
            node.left.columns,
            node.right.columns,
            node.left_keys,
            node.right_keys,
            node.residual,
        )
        self._left = _Side(node.left.columns, node.left_keys)
        self._right = _Side(node.right.columns, node.right_keys)

    def join_partition(self, lefts: Sequence[Morsel], rights: Sequence[Morsel]) -> Iterator[Batch]:
        """Yield the rows of one partition; a side without a tablet there has no rows."""
        for batch in self._all(self._batches(lefts), self._blocks(rights)):
            self._context.check()
            if batch.length:
                yield batch

    def _all(self, lefts: Iterator[Batch], blocks: Iterator[_Block]) -> Iterator[Batch]:
        block = next(blocks, None)
        for batch in lefts:
            rows = self._left.rows_of(batch)
            start, stop = 0, batch.length
            while start < stop:
                if block is None:
                    if self._kind in _NEEDS_RIGHT:
                        return
                    yield from self._beside_nothing(rows.slice(start, stop).batch)
                    break
                end = start + rows.slice(start, stop).end(block.last)
                if end > start:
                    yield from block.probe(rows.slice(start, end).batch)
                    start = end
                if start < stop:
                    yield from block.rest()
                    block = next(blocks, None)
        if self._kind not in _NEEDS_LEFT:
            while block is not None:
                yield from block.rest()
                block = next(blocks, None)

    def _beside_nothing(self, batch: Batch) -> Iterator[Batch]:
        """Handle left rows behind the last block."""
        return _Block(self._shape, self._right.nothing(), ()).probe(batch)

    def _batches(self, morsels: Sequence[Morsel]) -> Iterator[Batch]:
        return chain.from_iterable(self._context.checked(morsel.run()) for morsel in morsels)

    def _blocks(self, morsels: Sequence[Morsel]) -> Iterator[_Block]:
        """Yield the right side's rows in blocks, such that no key is in two blocks."""
        last: list[_Rows] = []  # rows of one key, with which the previous batch ended
        for batch in _gathered(self._right.columns, self._batches(morsels)):
            rows = self._right.rows_of(batch)
            begin = 0
            if last:
                begin = rows.end(last[0].key_at(0))
                last += [rows.slice(0, begin)] if begin else []
                if begin == batch.length:
                    continue
                yield self._block(last)
            end = rows.end(rows.last, inclusive=False)
            if begin < end:
                yield self._block([rows.slice(begin, end)])
            last = [rows.slice(max(begin, end), batch.length)]
        if last:
            yield self._block(last)

    def _block(self, parts: Sequence[_Rows]) -> _Block:
        columns = self._right.columns
        batch = parts[0].batch if len(parts) == 1 else joined(columns, [part.batch for part in parts])
        vectors = zip(*(part.keys.columns for part in parts), strict=True)
        keys = Keys(parts[0].keys.types, tuple(concat(list(column)) for column in vectors))
        return _Block(self._shape, _Rows(batch, keys), parts[-1].last)


def _gathered(columns: Sequence[Column], batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the batches, small ones combined."""
    small: list[Batch] = []
    rows = 0
    for batch in batches:
        small.append(batch)
        rows += batch.length
        if rows >= BLOCK_ROWS:
            yield small[0] if len(small) == 1 else joined(columns, small)
            small, rows = [], 0
    if small:
        yield joined(columns, small)


class _Side:
    """The columns of one side, and the evaluation of its keys."""

    def __init__(self, columns: Sequence[Column], keys: Sequence[Column]):
        self.columns = columns
        self._types = tuple(key.type for key in keys)
        self._evaluations = Compiler(columns).compile_all(keys)

    def rows_of(self, batch: Batch) -> _Rows:
        """Return a batch with its keys, which are read."""
        return _Rows(batch, Keys(self._types, tuple(evaluate(batch) for evaluate in self._evaluations)))

    def nothing(self) -> _Rows:
        """Return no rows."""
        return _Rows(empty_batch(self.columns), Keys(self._types, tuple(map(empty_vector, self._types))))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that ascend by their keys."""

    batch: Batch
    keys: Keys

    def key_at(self, row: int) -> KeyValues:
        """Return the keys of a row."""
        return self.keys.values_at(row)

    @property
    def last(self) -> KeyValues:
        """Return the greatest key."""
        return self.key_at(self.batch.length - 1)

    def slice(self, start: int, stop: int) -> _Rows:
        """Return some of the rows."""
        if stop - start == self.batch.length:
            return self
        keys = Batch(list(self.keys.columns), self.batch.length).slice(start, stop)
        return _Rows(self.batch.slice(start, stop), Keys(self.keys.types, tuple(keys.columns())))

    def end(self, bound: KeyValues, inclusive: bool = True) -> int:
        """Return the number of rows with keys below the bound, or at most at it."""
        low, high = 0, self.batch.length
        if self.last < bound:
            return high
        while low < high:
            middle = (low + high) >> 1
            key = self.key_at(middle)
            if key < bound or (inclusive and key == bound):
                low = middle + 1
            else:
                high = middle
        return low


class _Block:
    """Right rows with all partners of left rows for keys up to `last`; indexed at first use."""

    def __init__(self, shape: JoinShape, rows: _Rows, last: KeyValues):
        self.last = last
        self._shape = shape
        self._rows = rows
        self._probing: Probing | None = None

    def _indexed(self) -> Probing:
        if self._probing is None:
            self._probing = Probing(self._shape, self._rows.batch, list(self._rows.keys.columns))
        return self._probing

    def probe(self, batch: Batch) -> Iterator[Batch]:
        """Yield the output for left rows."""
        return self._indexed().probe_all(iter((batch,)))

    def rest(self) -> Iterator[Batch]:
        """Yield the output that is known once all left rows of its keys have been probed."""
        if self._shape.kind in MARKS_BUILD:
            yield self._indexed().rest()
