"""Aggregation: partial per batch, merged at the end.

    morsels ── keys, segments, partial states ──► partials ── concatenate, segments, merge ──► one row per group

The steps:

1. The planner's aggregates are taken apart into accumulators (`avg` is a sum and a count); equal ones exist once, and
   equal subexpressions of their arguments are computed once per batch.
2. Each batch is grouped by its keys (`grouping`). If that gives it another order, the *batch* is reordered, lazily, so
   the arguments are read in group order at once, still encoded, and computed there.
3. Partials are merged: all of one tablet together, tablets apart and in parallel, where rows of two tablets cannot
   agree on the keys (the keys include the partition columns). Keys that ascend along a tablet need no sorting at all.
4. `_results` makes SQL's values of the merged states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InternalError
from ..planner.physical import HashAggregate
from ..sql.expressions import Aggregate, Column, Expr
from ..storage.types import BOOLEAN
from ..storage.vector import Array, Batch, Const, Flat, LazyColumn, Vector, concat
from .accumulators import Accumulator, AnyValue, Count, Distinct, Extreme, Rows, Sum, Total
from .context import ExecutionContext
from .evaluate import SharedWork
from .grouping import Segments, one_group, segments
from .kernels.arithmetic import divide_integers
from .kernels.boolean import truths
from .kernels.numbers import from_objects, result, scale_of
from .lazy import with_validity
from .stream import BATCH_ROWS, Morsel, Stream, sliced, stream_of


@dataclass(frozen=True, slots=True)
class _Part:
    """One accumulator: over which expression, for which rows. Equal parts are one."""

    function: str
    arg: Expr | None
    filter: Expr | None
    distinct: bool

    def accumulator(self) -> Accumulator[Any]:
        base = _ACCUMULATORS[self.function]()
        return Distinct(base) if self.distinct and isinstance(base, Count | Sum) else base

    @property
    def is_unread(self) -> bool:
        """Can the column be picked without being read?"""
        return self.function == "any_value" and isinstance(self.arg, Column) and not self.arg.nullable


_ACCUMULATORS: dict[str, Callable[[], Accumulator[Any]]] = {
    "rows": Rows,
    "count": Count,
    "sum": Sum,
    "min": lambda: Extreme(greatest=False),
    "max": lambda: Extreme(greatest=True),
    "any_value": AnyValue,
}


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
        self.columns = node.source.columns
        parts = [_parts_of(call) for call in node.aggregates]
        self.parts = list(dict.fromkeys(part for group in parts for part in group))
        self._accumulators = [part.accumulator() for part in self.parts]
        self._compile()

    def _compile(self) -> None:
        exprs: list[Expr] = list(self.node.groups)
        places: list[tuple[int | None, int | None]] = []
        for part in self.parts:
            place: list[int | None] = []
            for expr in (None if part.is_unread else part.arg, part.filter):
                place.append(None if expr is None else len(exprs))
                if expr is not None:
                    exprs.append(expr)
            places.append((place[0], place[1]))
        self._work = SharedWork(self.columns, exprs)
        self._places = places
        self._positions = {column.id: i for i, column in enumerate(self.columns)}

    # ---- batches ------------------------------------------------------------------------------------------------

    def partial(self, batch: Batch) -> _Partial:
        """The groups of a batch of at least one row."""
        batch = self._work.prepare(batch)
        evaluations = self._work.evaluations
        count = len(self.node.groups)
        keys = [evaluations[i](batch) for i in range(count)]
        groups = segments(keys, batch.length) if count else one_group(batch.length)
        key_rows = groups.representatives
        if groups.order is not None:
            batch = batch.select(groups.order)
        states = [self._state(i, batch, groups) for i in range(len(self.parts))]
        return _Partial([key.take(key_rows) for key in keys], states, len(groups))

    def _state(self, index: int, batch: Batch, groups: Segments) -> Any:
        part, accumulator = self.parts[index], self._accumulators[index]
        if part.is_unread:
            assert isinstance(part.arg, Column)
            return AnyValue.pick(batch, self._positions[part.arg.id], groups)
        arg_place, filter_place = self._places[index]
        evaluations = self._work.evaluations
        if arg_place is not None:
            arg = evaluations[arg_place](batch)
        else:
            arg = Const(BOOLEAN, True, batch.length)
        if filter_place is not None:
            mask = truths(evaluations[filter_place](batch))
            arg = with_validity(arg, np.broadcast_to(np.asarray(mask), (batch.length,)))
        return accumulator.partial(arg, groups)

    def partials(self, batches: Iterator[Batch], morsel: Morsel) -> list[_Partial]:
        """A morsel's partials."""
        return [self.partial(batch) for batch in batches]

    # ---- merging ------------------------------------------------------------------------------------------------

    def merge(self, partials: Sequence[_Partial]) -> _Partial:
        """One partial of many (at least one); every group stands in it once."""
        total = sum(p.groups for p in partials)
        keys = [concat([p.keys[i] for p in partials]) for i in range(len(self.node.groups))]
        if len(partials) == 1:
            groups = Segments(None, np.arange(total), total)
        else:
            groups = segments(keys, total) if keys else one_group(total)
        if len(groups) < total or groups.order is not None:
            rows = groups.representatives
            keys = [key.take(rows) for key in keys]
        states = [self._merged(i, [p.states[i] for p in partials], groups) for i in range(len(self.parts))]
        return _Partial(keys, states, len(groups))

    def _merged(self, index: int, states: list[Any], groups: Segments) -> Any:
        accumulator = self._accumulators[index]
        if self.parts[index].is_unread:
            return states[0] if len(states) == 1 else AnyValue.merge_unread(states, groups)
        if len(states) == 1 and not isinstance(accumulator, Distinct):
            return states[0]
        return accumulator.merge(states, groups)

    # ---- results ------------------------------------------------------------------------------------------------

    def batch(self, merged: _Partial) -> Batch:
        """The rows of merged groups."""
        state_of = dict(zip(self.parts, merged.states, strict=True))
        columns: list[Vector | LazyColumn] = [*merged.keys]
        for call in self.node.aggregates:
            columns.append(_result(call, [state_of[p] for p in _parts_of(call)], merged.groups))
        return Batch(columns, merged.groups)

    def nothing(self) -> Batch:
        """The single row of an aggregation without groups over no rows: counts are 0, the rest NULL."""
        counts = [call.function == "count" for call in self.node.aggregates]
        calls = zip(self.node.aggregates, counts, strict=True)
        return Batch([Const(call.type, 0 if is_count else None, 1) for call, is_count in calls], 1)


def _parts_of(call: Aggregate) -> list[_Part]:
    """The accumulators that an aggregate call is computed from."""
    arg = call.args[0] if call.args else None
    if call.function == "count":
        if arg is None:
            return [_Part("count" if call.filter is not None else "rows", None, call.filter, False)]
        if not arg.nullable and not call.distinct and call.filter is None:
            return [_Part("rows", None, None, False)]
        return [_Part("count", arg, call.filter, call.distinct)]
    if call.function in ("sum", "avg"):
        assert arg is not None
        counted = _parts_of(Aggregate(call.type, False, "count", call.args, call.distinct, call.filter))
        return [_Part("sum", arg, call.filter, call.distinct), *counted]
    if call.function in ("min", "max", "any_value"):
        return [_Part(call.function, arg, call.filter, False)]
    raise InternalError(f"there is no accumulator for the aggregate {call.function}")


def _result(call: Aggregate, states: list[Any], groups: int) -> Vector | LazyColumn:
    if call.function == "count":
        return Flat(call.type, states[0], None, 0, int(states[0].max(initial=0)))
    if call.function in ("min", "max"):
        found: Vector = states[0]
        return found
    if call.function == "any_value":
        slot: Vector | LazyColumn = states[0].slots()[0]
        return slot
    total, counts = states
    validity = None if counts.all() else counts > 0
    if call.type.is_float:
        with np.errstate(all="ignore"):
            sums = total.parts[0].astype(np.float64)
            values = sums / np.maximum(counts, 1) if call.function == "avg" else sums
        return Flat(call.type, values.astype(call.type.dtype, copy=False), validity)
    if call.function == "avg":
        return _average(call, total, counts, validity)
    if len(total.parts) == 1 and total.parts[0].dtype != object:
        return result(call.type, total.parts[0], validity, (-total.most, total.most), groups)
    return from_objects(call.type, total.as_objects(), validity)


def _average(call: Aggregate, total: Total, counts: Array, validity: Array | None) -> Vector:
    """Exact: half away from zero at the result's scale."""
    shift = scale_of(call.type) - scale_of(call.args[0].type)
    if len(total.parts) == 1 and total.parts[0].dtype != object:
        quotient = divide_integers(total.parts[0], counts, validity, shift, rounded=True)
        if quotient is not None:
            bounds = (int(quotient.min(initial=0)), int(quotient.max(initial=0)))
            return result(call.type, quotient, validity, bounds, len(counts))
    sums = total.as_objects()
    divisor = np.maximum(counts, 1).astype(object)
    size = (2 * abs(sums) * 10**shift + divisor) // (2 * divisor)
    return from_objects(call.type, np.where(sums < 0, -size, size), validity)


def open_aggregate(node: HashAggregate, source: Stream, context: ExecutionContext) -> Stream:
    """Run the aggregation; its stream holds the groups."""
    aggregation = _Aggregation(node)
    found = context.run_all(source, aggregation.partials)
    by_partition: dict[str | None, list[_Partial]] = {}
    apart = _keeps_apart(node, source)
    for morsel, partials in zip(source.morsels, found, strict=True):
        if partials:
            by_partition.setdefault(morsel.partition if apart else None, []).extend(partials)
    if not by_partition:
        return stream_of(node.columns, [] if node.groups else [aggregation.nothing()])
    context.reserve(_size(by_partition), "an aggregation")

    def task(partials: list[_Partial]) -> Callable[[], Batch]:
        return lambda: aggregation.batch(aggregation.merge(partials))

    merged = context.parallel([task(partials) for partials in by_partition.values()])
    morsels = [
        Morsel(_pieces(piece), tag)
        for tag, batch in zip(by_partition, merged, strict=True)
        for piece in sliced(batch, 2 * BATCH_ROWS)
    ]
    renumbered = {e.id: c.id for e, c in zip(node.groups, node.columns) if isinstance(e, Column)}
    kept = frozenset(renumbered[number] for number in source.partitioned_by) if apart else frozenset[int]()
    return Stream(node.columns, tuple(morsels), kept)


def _pieces(batch: Batch) -> Callable[[], Iterator[Batch]]:
    return lambda: sliced(batch)


def _keeps_apart(node: HashAggregate, source: Stream) -> bool:
    """Can groups of two tablets never be equal?"""
    keys = {expr.id for expr in node.groups if isinstance(expr, Column)}
    return bool(source.partitioned_by) and source.partitioned_by <= keys


def _size(by_partition: dict[str | None, list[_Partial]]) -> int:
    """About how many bytes the partials take: 16 per key or state."""
    return sum(16 * p.groups * (len(p.keys) + len(p.states)) for found in by_partition.values() for p in found)
