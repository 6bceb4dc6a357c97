"""Aggregation: partial per batch, merged at the end.

    morsels ── keys, segments, partial states ──► partials ── concatenate, segments, merge ──► one row per group
                                                                                 └── merge again ──► coarser sets

The steps:

1. The planner's aggregates are taken apart into accumulators (`aggregate_calls`); equal ones exist once, and equal
   subexpressions of their arguments are computed once per batch.
2. Each batch is grouped by its keys (`grouping`). If that gives it another order, the *batch* is reordered, lazily, so
   the arguments are read in group order at once, still encoded, and computed there.
3. Partials are merged: all of one tablet together, tablets apart and in parallel, where rows of two tablets cannot
   agree on the keys (the keys include the partition columns). Keys that ascend along a tablet need no sorting at all.
4. Grouping sets: every state can be merged once more, so only sets that no other set contains are made of rows, all in
   one pass. Each of the others is made of the smallest result that there is of a set that contains it.
5. `result_of` makes SQL's values of the merged states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ...planner.physical import HashAggregate
from ...sql.expressions import ZERO_OVER_NOTHING, Case, Column, Expr, Literal
from ...storage.vector import Batch, Const, LazyColumn, Vector, concat
from ..context import ExecutionContext
from ..evaluate import SharedWork, is_fallible
from ..grouping import Segments, one_group, segments
from ..kernels.boolean import truths
from ..stream import BATCH_ROWS, Morsel, Stream, sliced, stream_of
from .accumulators import AnyValue
from .aggregate_calls import accumulator_of, parts_of, result_of, state_of

GroupingSet: TypeAlias = tuple[int, ...]
"""Positions among a node's groups, ascending."""


@dataclass(frozen=True, slots=True)
class _Partial:
    """Groups of one batch, or of many: a row of `keys` and of each state per group."""

    keys: list[Vector]
    states: list[Any]
    groups: int


class _Aggregation:
    """The compiled node."""

    def __init__(self, node: HashAggregate):
        self.node = node
        self.sets = node.sets if node.sets is not None else (tuple(range(len(node.groups))),)
        self.roots = _roots(self.sets)
        self.columns = node.source.columns
        self.parts = list(dict.fromkeys(part for call in node.aggregates for part in parts_of(call)))
        self._accumulators = [accumulator_of(part) for part in self.parts]
        self._compile()

    def _compile(self) -> None:
        exprs: list[Expr] = list(self.node.groups)
        self._places: list[tuple[list[int], int | None]] = []
        """For each part where its inputs and its filter are among the evaluations."""
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

    def partials(self, batches: Iterator[Batch], morsel: Morsel) -> list[list[_Partial]]:
        """A morsel's partials, for each root those of all its batches."""
        found: list[list[_Partial]] = [[] for _ in self.roots]
        for batch in batches:
            batch = self._work.prepare(batch)
            for partials, root in zip(found, self.roots, strict=True):
                partials.append(self._partial(batch, root))
        return found

    def _partial(self, batch: Batch, by: GroupingSet) -> _Partial:
        """The groups of a batch of at least one row."""
        keys = [self._work.evaluations[i](batch) for i in by]
        groups = segments(keys, batch.length) if keys else one_group(batch.length)
        key_rows = groups.representatives
        if groups.order is not None:
            batch = batch.select(groups.order)
        states = [self._state(i, batch, groups) for i in range(len(self.parts))]
        return _Partial([key.take(key_rows) for key in keys], states, len(groups))

    def _state(self, index: int, batch: Batch, groups: Segments) -> Any:
        part = self.parts[index]
        if part.is_unread:
            arg = part.inputs[0]
            assert isinstance(arg, Column)
            return AnyValue.pick(batch, self._positions[arg.id], groups)
        inputs, filter_place = self._places[index]
        chosen = None
        if filter_place is not None:
            mask = truths(self._work.evaluations[filter_place](batch))
            chosen = np.broadcast_to(np.asarray(mask), (batch.length,))
        vectors = [self._work.evaluations[place](batch) for place in inputs]
        return state_of(self._accumulators[index], vectors, chosen, groups)

    # ---- merging ------------------------------------------------------------------------------------------------

    def merge(self, partials: Sequence[_Partial]) -> _Partial:
        """One partial of many (at least one), in each of which every group stands once."""
        return partials[0] if len(partials) == 1 else self._merge(partials)

    def coarsen(self, partials: Sequence[_Partial], given: GroupingSet, by: GroupingSet) -> _Partial:
        """The groups of a set, out of the groups of one that contains it."""
        places = [given.index(position) for position in by]
        return self._merge([_Partial([p.keys[i] for i in places], p.states, p.groups) for p in partials])

    def _merge(self, partials: Sequence[_Partial]) -> _Partial:
        total = sum(p.groups for p in partials)
        keys = [concat([p.keys[i] for p in partials]) for i in range(len(partials[0].keys))]
        groups = segments(keys, total) if keys else one_group(total)
        rows = groups.representatives
        keys = [key.take(rows) for key in keys]
        states = [self._merged(i, [p.states[i] for p in partials], groups) for i in range(len(self.parts))]
        return _Partial(keys, states, len(groups))

    def _merged(self, index: int, states: list[Any], groups: Segments) -> Any:
        if self.parts[index].is_unread:
            return AnyValue.merge_unread(states, groups)
        return self._accumulators[index].merge(states, groups)

    # ---- results ------------------------------------------------------------------------------------------------

    def batch(self, merged: _Partial, by: GroupingSet, number: int) -> Batch:
        """The rows of the merged groups of the set of this number."""
        finished = zip(self._accumulators, merged.states, strict=True)
        state_of_part = dict(zip(self.parts, [a.finish(state) for a, state in finished], strict=True))
        columns: list[Vector | LazyColumn] = self._keys(merged, by)
        for call in self.node.aggregates:
            columns.append(result_of(call, [state_of_part[p] for p in parts_of(call)], merged.groups))
        return Batch([*columns, *self._number(number, merged.groups)], merged.groups)

    def _keys(self, merged: _Partial, by: GroupingSet) -> list[Vector | LazyColumn]:
        keys: list[Vector | LazyColumn] = [Const(expr.type, None, merged.groups) for expr in self.node.groups]
        for position, key in zip(by, merged.keys, strict=True):
            keys[position] = key
        return keys

    def _number(self, number: int, length: int) -> list[Vector]:
        return [] if self.node.sets is None else [Const(self.node.columns[-1].type, number, length)]

    def nothing(self) -> list[Batch]:
        """The rows over no rows: one for each empty set, in which counts are 0 and the rest NULL."""
        keys = [Const(expr.type, None, 1) for expr in self.node.groups]
        calls = [Const(c.type, 0 if c.function in ZERO_OVER_NOTHING else None, 1) for c in self.node.aggregates]
        return [Batch([*keys, *calls, *self._number(number, 1)], 1) for number, by in enumerate(self.sets) if not by]

    def size(self, partials: Sequence[_Partial]) -> int:
        """About how many bytes partials take: 16 per key, what the accumulators say for their states."""
        total = 0
        for partial in partials:
            states = zip(self._accumulators, partial.states, strict=True)
            total += 16 * partial.groups * len(partial.keys) + sum(a.size(s, partial.groups) for a, s in states)
        return total


def _roots(sets: Sequence[GroupingSet]) -> list[GroupingSet]:
    """The sets that no other contains."""
    distinct = dict.fromkeys(sets)
    return [by for by in distinct if not any(set(by) < set(other) for other in distinct)]


Merged: TypeAlias = dict[GroupingSet, dict[str | None, _Partial]]
"""The groups of each set, by tablet where tablets have no group in common."""


def _guarded(arg: Expr, condition: Expr) -> Expr:
    """The argument, computed only for rows that pass the filter where it may refuse others."""
    if not is_fallible(arg):
        return arg
    return Case(arg.type, True, ((condition, arg),), Literal(arg.type, True))


def open_aggregate(node: HashAggregate, source: Stream, context: ExecutionContext) -> Stream:
    """Run the aggregation; its stream holds the groups, set by set."""
    aggregation = _Aggregation(node)
    found = context.run_all(source, aggregation.partials)
    merged: Merged = {}
    for place, root in enumerate(aggregation.roots):
        apart = _keeps_apart(node, root, source)
        pieces: dict[str | None, list[_Partial]] = {}
        for morsel, partials in zip(source.morsels, found, strict=True):
            if partials[place]:
                pieces.setdefault(morsel.partition if apart else None, []).extend(partials[place])
        if not pieces:
            return stream_of(node.columns, aggregation.nothing())
        context.reserve(sum(map(aggregation.size, pieces.values())), "an aggregation")
        done = context.parallel([_task(aggregation.merge, piece) for piece in pieces.values()])
        merged[root] = dict(zip(pieces, done, strict=True))
    _coarsen(aggregation, merged, context)
    return _stream(aggregation, merged, source, context)


def _task(work: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    return lambda: work(*args)


def _coarsen(aggregation: _Aggregation, merged: Merged, context: ExecutionContext) -> None:
    """Add the sets that are not there yet, large ones first, those of one size in parallel."""
    waiting = [by for by in dict.fromkeys(aggregation.sets) if by not in merged]
    for width in sorted({len(by) for by in waiting}, reverse=True):
        tasks, level = [], [by for by in waiting if len(by) == width]
        for by in level:
            rows = {other: sum(p.groups for p in found.values()) for other, found in merged.items() if {*by} < {*other}}
            given = min(rows, key=lambda other: rows[other])
            tasks.append(_task(aggregation.coarsen, list(merged[given].values()), given, by))
        for by, partial in zip(level, context.parallel(tasks), strict=True):
            merged[by] = {None: partial}


def _stream(aggregation: _Aggregation, merged: Merged, source: Stream, context: ExecutionContext) -> Stream:
    node = aggregation.node
    wanted = [(number, by, tag) for number, by in enumerate(aggregation.sets) for tag in merged[by]]
    batches = context.parallel([_task(aggregation.batch, merged[by][tag], by, number) for number, by, tag in wanted])
    morsels = [
        Morsel(_pieces(piece), tag)
        for (_, _, tag), batch in zip(wanted, batches, strict=True)
        for piece in sliced(batch, 2 * BATCH_ROWS)
    ]
    kept = frozenset[int]()
    if node.sets is None and _keeps_apart(node, aggregation.roots[0], source):
        renumbered = {e.id: c.id for e, c in zip(node.groups, node.columns, strict=False) if isinstance(e, Column)}
        kept = frozenset(renumbered[number] for number in source.partitioned_by)
    return Stream(node.columns, tuple(morsels), kept)


def _pieces(batch: Batch) -> Callable[[], Iterator[Batch]]:
    return lambda: sliced(batch)


def _keeps_apart(node: HashAggregate, by: GroupingSet, source: Stream) -> bool:
    """Can groups of two tablets never be equal?"""
    keys = {expr.id for i in by if isinstance(expr := node.groups[i], Column)}
    return bool(source.partitioned_by) and source.partitioned_by <= keys
