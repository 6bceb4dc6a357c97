"""Aggregation: partial per batch, merged at the end.

    morsels ── keys, segments, partial states ──► partials ── concatenate, segments, merge ──► one row per group
                                                     │                           └── merge again ──► coarser sets
                                                     └── no room ──► files ── heap by heap ──► one row per group

The steps:

1. The planner's aggregates are decomposed into accumulators (`aggregate_calls`); equal ones exist once, and equal
   subexpressions of their arguments are computed once per batch.
2. Each batch is grouped by its keys. If all accumulators can add rows to the totals of their groups, the rows stay
   where they are (`kernels.groups.numbered_groups`). Else, if grouping changes the order (`segments`), the *batch* is
   reordered, lazily, so the arguments are read in group order, still encoded, and computed in that order.
3. Partials are collected, and spilled if they do not fit in memory (`partial_collector`). Many groups that repeat are
   merged by the thread of each morsel first, which leaves a partial per morsel instead of one per batch.
4. Partials are merged. If rows of two tablets cannot have equal keys (the keys include the partition columns), each
   tablet is merged separately, in parallel. Many groups are merged partition by partition (`partitioned_merge`). Keys
   that ascend along a tablet need no sorting.
5. Grouping sets: every state can be merged again, so only sets that no other set contains are computed from rows, all
   in one pass. Each of the others is computed from the smallest result of a set that contains it.
6. `result_of` computes SQL's values from the merged states; averages when they are read (`late_averages`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Batch, Const, LazyColumn, Vector
from ...planner.algebra.physical import HashAggregate
from ...sql.expressions import Case, Column, Expr, Literal
from ...sql.functions import AGGREGATES
from ..expressions.evaluate import SharedWork
from ..expressions.expression_costs import is_fallible
from ..kernels.boolean import truths
from ..kernels.groups.hash_groups import hashed_rows
from ..kernels.groups.numbered_groups import groups_by
from ..kernels.groups.segments import Segments
from ..run.context import ExecutionContext
from ..run.memory import Account
from ..run.stream import BATCH_ROWS, Morsel, Stream, sliced, stream_of
from ..spilling.heaps import Heap, HeapWork
from .accumulators import UnreadValue
from .aggregate_calls import accumulator_of, parts_of, result_of, state_of
from .partial_collector import GroupingSet, PartialCollector, roots_of
from .partials import Partial, States
from .partitioned_merge import PARTITIONED_ROWS, is_worth_partitioning, merge_few_groups, merge_groups
from .spilled_groups import SpilledGroups

COMBINED_GROUPS = 1 << 16
"""Groups of a morsel's batches from which on its thread merges them: 1 to 2 ms of work."""
COMBINED_SHARE = 0.75
"""Groups per row of the batches up to which they are merged: keys that hardly repeat in a batch may never repeat."""


class Aggregation:
    """The compiled node. Threads may share it."""

    def __init__(self, node: HashAggregate):
        self.node = node
        self.sets = node.sets if node.sets is not None else (tuple(range(len(node.groups))),)
        self.roots = roots_of(self.sets)
        self.has_coarser = len(self.roots) < len(set(self.sets))
        """True if sets are computed from others, which need the mergeable states of these."""
        self.columns = node.source.columns
        self.parts = list(dict.fromkeys(part for call in node.aggregates for part in parts_of(call)))
        self.states = States([UnreadValue() if part.is_unread else accumulator_of(part) for part in self.parts])
        self._hashed_rows: list[int] = []
        self._combined: list[int] = []
        self._compile()

    def _compile(self) -> None:
        exprs: list[Expr] = list(self.node.groups)
        self._places: list[tuple[list[int], int | None]] = []
        """For each part, the positions of its inputs and its filter among the evaluations."""
        for part in self.parts:
            inputs = () if part.is_unread else part.inputs
            self._places.append(
                (
                    list(range(len(exprs), len(exprs) + len(inputs))),
                    None if part.filter is None else len(exprs) + len(inputs),
                )
            )
            exprs += inputs if part.filter is None else (*(_guarded(arg, part.filter) for arg in inputs), part.filter)
        self._work = SharedWork(self.columns, exprs)
        self._positions = {column.id: i for i, column in enumerate(self.columns)}

    # ---- batches ------------------------------------------------------------------------------------------------

    def collect(
        self, batches: Iterator[Batch], collector: PartialCollector, order: int, tags: Sequence[str | None]
    ) -> None:
        """Pass a morsel's partials to the collector, one per batch and root. `order` is the morsel's position, `tags`
        its tablet for each root that keeps tablets apart."""
        rows = hashed = 0
        groups = dict.fromkeys(self.roots, 0)
        for batch in batches:
            batch = self.prepare(batch)
            rows += batch.length
            for root, tag in zip(self.roots, tags, strict=True):
                before = hashed_rows()
                partial = self.partial(batch, root)
                hashed += hashed_rows() - before
                groups[root] += partial.groups
                collector.add(root, partial, order, tag)
        for root, count in groups.items():
            if self.states.by_number and COMBINED_GROUPS <= count <= rows * COMBINED_SHARE:
                collector.combine(root, order)
                self._combined.append(count)
        self._hashed_rows.append(hashed)

    @property
    def hashed_rows(self) -> int:
        """Number of rows of `collect` that compiled kernels have grouped or numbered."""
        return sum(self._hashed_rows)

    @property
    def combined(self) -> int:
        """Number of groups of batches that the threads of their morsels have merged."""
        return sum(self._combined)

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with the subexpressions that several expressions share, for `partial`."""
        return self._work.prepare(batch)

    def partial(self, batch: Batch, by: GroupingSet) -> Partial:
        """Group a prepared batch of at least one row."""
        keys = [self._work.evaluations[i](batch) for i in by]
        groups = groups_by(keys, batch.length, self.states.by_number)
        key_rows = groups.representatives
        if groups.order is not None:
            batch = batch.select(groups.order)
        states = [self._state(i, batch, groups) for i in range(len(self.parts))]
        return Partial([key.take(key_rows) for key in keys], states, len(groups))

    def _state(self, index: int, batch: Batch, groups: Segments) -> Any:
        part = self.parts[index]
        if part.is_unread:
            arg = part.inputs[0]
            assert isinstance(arg, Column)
            return UnreadValue.pick(batch, self._positions[arg.id], groups)
        inputs, filter_place = self._places[index]
        chosen = None
        if filter_place is not None:
            mask = truths(self._work.evaluations[filter_place](batch))
            chosen = np.broadcast_to(np.asarray(mask), (batch.length,))
        vectors = [self._work.evaluations[place](batch) for place in inputs]
        return state_of(self.states.accumulators[index], vectors, chosen, groups)

    # ---- results ------------------------------------------------------------------------------------------------

    def batch(self, merged: Partial, states: States, by: GroupingSet, number: int) -> Batch:
        """Rows of the merged groups of the set with number `number`."""
        state_of_part = dict(zip(self.parts, states.finish(merged), strict=True))
        columns: list[Vector | LazyColumn] = self._keys(merged, by)
        for call in self.node.aggregates:
            columns.append(result_of(call, [state_of_part[p] for p in parts_of(call)], merged.groups))
        return Batch([*columns, *self._number(number, merged.groups)], merged.groups)

    def _keys(self, merged: Partial, by: GroupingSet) -> list[Vector | LazyColumn]:
        keys: list[Vector | LazyColumn] = [Const(expr.type, None, merged.groups) for expr in self.node.groups]
        for position, key in zip(by, merged.keys, strict=True):
            keys[position] = key
        return keys

    def _number(self, number: int, length: int) -> list[Vector]:
        return [] if self.node.sets is None else [Const(self.node.columns[-1].type, number, length)]

    def nothing(self) -> list[Batch]:
        """Rows for an empty input: one for each empty set, in which counts are 0 and the rest NULL."""
        keys = [Const(expr.type, None, 1) for expr in self.node.groups]
        calls = [
            Const(c.type, 0 if AGGREGATES[c.function].zero_over_nothing else None, 1) for c in self.node.aggregates
        ]
        return [Batch([*keys, *calls, *self._number(number, 1)], 1) for number, by in enumerate(self.sets) if not by]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Merged groups of a set, none of which is in another piece: of one tablet (`tag`), of one partition, or all."""

    tag: str | None
    partial: Partial
    states: States


Merged: TypeAlias = dict[GroupingSet, list[_Piece]]
"""The groups of each set."""
Spilled: TypeAlias = dict[GroupingSet, SpilledGroups]


def _guarded(arg: Expr, condition: Expr) -> Expr:
    """Return the argument, computed only for rows that pass the filter if it may fail for others."""
    if not is_fallible(arg):
        return arg
    return Case(arg.type, True, ((condition, arg),), Literal(arg.type, True))


def open_aggregate(node: HashAggregate, source: Stream, context: ExecutionContext) -> Stream:
    """Run the aggregation; its stream holds the groups, set by set."""
    aggregation = Aggregation(node)
    collector = PartialCollector(aggregation.states, list(dict.fromkeys(aggregation.sets)), context, "an aggregation")
    apart = [keeps_apart(node, root, source.partitioned_by) for root in aggregation.roots]
    orders = {id(morsel): place for place, morsel in enumerate(source.morsels)}

    def work(batches: Iterator[Batch], morsel: Morsel) -> None:
        tags = [morsel.partition if is_apart else None for is_apart in apart]
        aggregation.collect(batches, collector, orders[id(morsel)], tags)

    context.run_all(source, work)
    if context.collect:
        context.actuals.of(node).hashed_rows = aggregation.hashed_rows
        context.actuals.of(node).combined = aggregation.combined
    return finish_aggregate(aggregation, collector, source.partitioned_by, context)


def finish_aggregate(
    aggregation: Aggregation, collector: PartialCollector, partitioned_by: frozenset[int], context: ExecutionContext
) -> Stream:
    """Return the groups of all partials of a collector. `partitioned_by` is as in the stream of the rows."""
    node = aggregation.node
    spilled = collector.finish()
    merged: Merged = {}
    for by in dict.fromkeys(aggregation.sets):
        kept = {} if by in spilled else collector.take(by)
        if kept:
            merged[by] = _merged(aggregation, kept, context)
            collector.hold_merged(by, sum(piece.states.size(piece.partial) for piece in merged[by]))
    if not spilled and not merged:
        return stream_of(node.columns, aggregation.nothing())
    _coarsen(aggregation, merged, spilled, collector, context)
    apart = frozenset[int]()
    if node.sets is None and keeps_apart(node, aggregation.roots[0], partitioned_by) and not spilled:
        renumbered = {e.id: c.id for e, c in zip(node.groups, node.columns, strict=False) if isinstance(e, Column)}
        apart = frozenset(renumbered[number] for number in partitioned_by)
    morsels = _morsels(aggregation, merged, spilled, collector, context)
    return Stream(node.columns, tuple(morsels), apart)


def _merged(aggregation: Aggregation, kept: dict[str | None, list[Partial]], context: ExecutionContext) -> list[_Piece]:
    """Merge the partials of a set, tablet by tablet or partition by partition; their lists are emptied."""
    states = aggregation.states
    most = max(max(sum(p.groups for p in partials), states.most_distinct(partials)) for partials in kept.values())
    if len(kept) >= context.threads or not is_worth_partitioning(most, context):
        done = context.parallel([_task(states.merge, partials) for partials in kept.values()])
        return [_Piece(tag, merged, states) for tag, merged in zip(kept, done, strict=True)]
    pieces = []
    for tag, partials in kept.items():
        has_few_groups = sum(partial.groups for partial in partials) < PARTITIONED_ROWS
        if has_few_groups and not aggregation.has_coarser and states.most_distinct(partials) >= PARTITIONED_ROWS:
            of_functions, merged = merge_few_groups(states, partials, context)
            pieces.append(_Piece(tag, merged, of_functions))
        else:
            pieces += [_Piece(tag, merged, states) for merged in merge_groups(states, partials, context)]
    return pieces


def _task(work: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    return lambda: work(*args)


def _coarsen(
    aggregation: Aggregation, merged: Merged, spilled: Spilled, collector: PartialCollector, context: ExecutionContext
) -> None:
    """Add the missing sets, large ones first, those of one size in parallel."""
    states = aggregation.states
    waiting = [by for by in dict.fromkeys(aggregation.sets) if by not in merged and by not in spilled]
    for width in sorted({len(by) for by in waiting}, reverse=True):
        tasks, level = [], [by for by in waiting if len(by) == width]
        for by in level:
            finer = [other for other in merged if {*by} < {*other}]
            given = min(finer, key=lambda other: sum(piece.partial.groups for piece in merged[other]))
            partials = [piece.partial for piece in merged[given]]
            tasks.append(_task(states.coarsen, partials, [given.index(place) for place in by]))
        for by, partial in zip(level, context.parallel(tasks), strict=True):
            if collector.account.grow(states.size(partial)):
                merged[by] = [_Piece(None, partial, states)]
            else:
                spilled[by] = SpilledGroups(states, len(by), collector.work)
                spilled[by].add(partial)


def _morsels(
    aggregation: Aggregation, merged: Merged, spilled: Spilled, collector: PartialCollector, context: ExecutionContext
) -> list[Morsel]:
    """Morsels of the rows, set by set: those in memory piece by piece, those that were spilled heap by heap."""
    wanted = [(number, by) for number, by in enumerate(aggregation.sets) if by in merged]
    tasks = [
        _task(aggregation.batch, piece.partial, piece.states, by, number)
        for number, by in wanted
        for piece in merged[by]
    ]
    batches = iter(context.parallel(tasks))
    heaps = {by: groups.heaps(context) for by, groups in spilled.items()}
    morsels = []
    for number, by in enumerate(aggregation.sets):
        if by in spilled:
            finish = _HeapRows(aggregation, spilled[by], collector.work, by, number)
            morsels += [Morsel(_task(finish.of, heap)) for heap in heaps[by]]
            continue
        for piece in merged[by]:
            parts = sliced(next(batches), 2 * BATCH_ROWS)
            morsels += [Morsel(_task(_pieces, part, collector.account), piece.tag) for part in parts]
    return morsels


def _pieces(batch: Batch, account: Account) -> Iterator[Batch]:
    """Yield a batch in pieces. The account holds its memory as long as morsels of it exist."""
    return sliced(batch)


@dataclass(frozen=True, slots=True)
class _HeapRows:
    """Computes rows of the heaps of a grouping set."""

    aggregation: Aggregation
    groups: SpilledGroups
    work: HeapWork
    by: GroupingSet
    number: int

    def of(self, heap: Heap) -> Iterator[Batch]:
        """Yield the rows of the groups of a heap."""
        for batch in self.work.each(heap, self._finished):
            yield from sliced(batch)

    def _finished(self, heap: Heap) -> Batch:
        batch = self.aggregation.batch(self.groups.merged(heap), self.groups.states, self.by, self.number)
        return Batch(batch.columns(), batch.length)


def keeps_apart(node: HashAggregate, by: GroupingSet, partitioned_by: frozenset[int]) -> bool:
    """True if groups of two tablets can never be equal."""
    keys = {expr.id for i in by if isinstance(expr := node.groups[i], Column)}
    return bool(partitioned_by) and partitioned_by <= keys
