"""The hash join: the build side read whole and indexed, the probe side streaming past.

The life of a join:

1. The build side's morsels run in parallel; only their key columns are read (`lazy.joined` keeps the rest unread).
2. `KeyCoder` turns the keys into integers, `JoinIndex` indexes them.
3. The keys become runtime filters of scans below the probe side, which opens only now.
4. Each probe batch reads its key columns, looks them up and selects the rows with partners; payload columns of either
   side are read when somebody above touches them, for the rows still there.
5. Kinds that also give build rows without partner (right, full, ...) run the whole probe side, then add those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...planner.physical import HashJoin, PhysicalNode
from ...sql.expressions import Call, Expr, conjunction
from ...storage.types import BOOLEAN
from ...storage.vector import Array, Batch, Vector, concat
from ..context import ExecutionContext
from ..evaluate import Compiler
from ..lazy import empty_batch, empty_vector, joined
from ..stream import Morsel, Stream, stream_of
from .join_index import JoinIndex
from .join_keys import KeyCoder
from .nested_loop import all_pairs
from .pairs import MARKS_BUILD, Matches
from .runtime_filters import RuntimeFilters, filters_for

Opener = Callable[[PhysicalNode, ExecutionContext, RuntimeFilters], Stream]
"""Opens any node; handed in so that operators do not know each other."""

_DROPS_UNMATCHED_PROBE = frozenset(("inner", "semi", "right", "right_semi", "right_anti"))
"""Kinds in which a probe row without partner leaves no trace: they may filter the probe side's scans."""


def open_hash_join(node: HashJoin, context: ExecutionContext, filters: RuntimeFilters, open_node: Opener) -> Stream:
    """Run the build side, open the probe side under its filters, and give the join's stream."""
    build, keys = _read_build(node, open_node(node.build, context, filters), context)
    if not build.length and node.kind in _DROPS_UNMATCHED_PROBE:
        return stream_of(node.columns, [])
    if node.kind in _DROPS_UNMATCHED_PROBE:
        filters = _with_filters(node, keys, filters)
    probe = open_node(node.probe, context, filters)
    join = _Join(node, build, keys)
    if node.kind not in MARKS_BUILD:
        return probe.through(node.columns, join.probe_all)
    outputs = context.run_all(probe, lambda batches, _: list(join.probe_all(batches)))
    found = [batch for part in outputs for batch in part]
    return stream_of(node.columns, [*found, join.matches.rest(node.probe.columns)])


def _read_build(node: HashJoin, stream: Stream, context: ExecutionContext) -> tuple[Batch, list[Vector]]:
    """The build side's rows, unread but for their keys."""
    evaluations = Compiler(node.build.columns).compile_all(node.build_keys)

    def work(batches: Iterator[Batch], _: Morsel) -> list[tuple[Batch, list[Vector]]]:
        return [(batch, [evaluate(batch) for evaluate in evaluations]) for batch in batches]

    found = [pair for pairs in context.run_all(stream, work) for pair in pairs]
    if not found:
        return empty_batch(node.build.columns), [empty_vector(key.type) for key in node.build_keys]
    build = joined(node.build.columns, [batch for batch, _ in found])
    keys = [concat([keys[i] for _, keys in found]) for i in range(len(evaluations))]
    context.reserve(build.length * (12 + 8 * len(keys)), "a join's build side")
    return build, keys


def _with_filters(node: HashJoin, keys: Sequence[Vector], filters: RuntimeFilters) -> RuntimeFilters:
    for wanted in node.runtime_filters:
        for factory in filters_for(keys[wanted.key], wanted.bloom_keys):
            filters = filters.with_filter(wanted.column, factory)
    return filters


class _Join:
    """The probing of one join, shared by its threads."""

    def __init__(self, node: HashJoin, build: Batch, keys: list[Vector]):
        self.kind = node.kind
        probe, rows = node.probe.columns, node.build.columns
        condition = node.residual
        if node.kind == "null_anti":
            condition = _whole_condition(node)
        self.matches = Matches(node.kind, node.columns, probe, rows, build, condition)
        self._keys = Compiler(probe).compile_all(node.probe_keys)
        self._coder, codes = KeyCoder.learn(keys)
        self._index = JoinIndex(codes, self._coder.size)
        self._null_build_rows = _rows_with_null(keys, build.length)
        self._simple_null_anti = len(keys) == 1 and node.residual is None
        self._is_plain = node.residual is None and node.kind != "null_anti"

    def probe_all(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The join's rows for a morsel of the probe side."""
        for batch in batches:
            if batch.length:
                for result in self._probe(batch):
                    if result.length:
                        yield result

    def _probe(self, batch: Batch) -> Iterator[Batch]:
        keys = [evaluate(batch) for evaluate in self._keys]
        codes = self._coder.encode(keys)
        if self.kind == "null_anti":
            return self._null_anti(batch, keys, codes)
        if self._is_plain and self.kind in ("semi", "anti"):
            return self._half(batch, codes)
        if self._is_plain and self._index.is_unique:
            return self._unique(batch, codes)
        return self.matches.emit(batch, self._index.pairs(codes))

    def _half(self, batch: Batch, codes: Array) -> Iterator[Batch]:
        """Semi and anti joins by key alone."""
        mask = self._index.has(codes)
        if self.kind == "anti":
            mask = ~mask
        yield self.matches.project(batch if mask.all() else batch.select(mask))

    def _unique(self, batch: Batch, codes: Array) -> Iterator[Batch]:
        """At most one partner per probe row, so rows never multiply."""
        matches = self.matches
        rows = self._index.find(codes)
        mask = rows >= 0
        if self.kind in MARKS_BUILD:
            matches.mark(rows[mask])
            if self.kind in ("right_semi", "right_anti"):
                return
        if mask.all():
            yield matches.project(matches.pair(batch, None, rows))
        elif self.kind in ("left", "full", "single"):
            yield matches.project(matches.extended(batch, rows))
        else:
            chosen = np.flatnonzero(mask)
            yield matches.project(matches.pair(batch, chosen, rows.take(chosen)))

    # ---- NOT IN -------------------------------------------------------------------------------------------------

    def _null_anti(self, batch: Batch, keys: list[Vector], codes: Array) -> Iterator[Batch]:
        """A probe row stays unless the condition is true *or NULL* for some build row.

        Equal keys come from the index; pairs in which a key is NULL must be tried one by one.
        """
        if self._simple_null_anti:
            yield self._simple_not_in(batch, keys[0], codes)
            return
        build = self.matches.build
        null_probe = _rows_with_null(keys, batch.length)
        parts = [*self._index.pairs(codes)]
        parts.extend(all_pairs(np.arange(batch.length), self._null_build_rows))
        parts.extend(all_pairs(null_probe, np.arange(build.length)))
        yield from self.matches.emit(batch, parts)

    def _simple_not_in(self, batch: Batch, key: Vector, codes: Array) -> Batch:
        build = self.matches.build
        if not build.length:
            return self.matches.project(batch)
        if len(self._null_build_rows):
            return self.matches.project(batch.select(np.empty(0, np.intp)))
        mask = ~self._index.has(codes)
        if key.validity is not None:
            mask &= key.validity
        return self.matches.project(batch.select(mask))


def _rows_with_null(keys: Sequence[Vector], length: int) -> Array:
    """The rows in which some key is NULL."""
    present = np.ones(length, np.bool_)
    for key in keys:
        if key.validity is not None:
            present &= key.validity
    return np.flatnonzero(~present)


def _whole_condition(node: HashJoin) -> Expr | None:
    """Keys and residual as one condition."""
    parts: list[Expr] = [
        Call(BOOLEAN, True, "eq", (probe, build)) for probe, build in zip(node.probe_keys, node.build_keys, strict=True)
    ]
    return conjunction([*parts, node.residual] if node.residual is not None else parts)
