"""Evaluation of a fragment over a tablet's batches, at its server.

Each thread that reads a part of the tablet runs the fragment separately. Partial groups of its batches are merged as
they arrive. Large numbers of them are sent before the end. So a server never holds more than some ten thousand groups
for a client, except for a condition on groups (`groups`).

A statement sends the same fragment to each of its tablets, and applications repeat statements: the most recent
fragments are cached in compiled form.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from ...errors import DataError, InternalError
from ...model.schema import Table
from ...model.store import ScanSpec
from ...model.vectors.vector import Batch
from ...planner.algebra.physical import HashAggregate, ValuesScan
from ..aggregation.aggregate import Aggregation
from ..operators.basic import compile_filter, compile_project
from ..run.stream import Operator
from .fragment import Fragment, PartialAggregation
from .groups import Gathered, partials, to_batch

_KEPT: Final = 16
_KEPT_BYTES: Final = 1 << 16
"""Size in bytes above which a fragment (a list of very many values) is compiled each time."""


def evaluator(data: bytes, width: int) -> Operator:
    """Return the fragment as a function of a scan's batches, to be called once per thread.

    `width` is the number of columns of the scan. Raises `DataError` or `UnsupportedFormat` for bytes that are not a
    fragment for it.
    """
    compiled = _compiled(data) if len(data) <= _KEPT_BYTES else CompiledFragment(data)
    if compiled.width != width:
        raise DataError(f"a plan fragment for {compiled.width} columns cannot run over a scan of {width}")
    return compiled.evaluator()


def table_evaluator(fragment: bytes, table: Table, spec: ScanSpec) -> Operator:
    """Return the `evaluator` for a scan of a table, for a tablet server (`cluster.tserver.scans.fragments`)."""
    return evaluator(fragment, len(spec.columns))


class CompiledFragment:
    """A compiled fragment, which several scans and threads may run concurrently."""

    def __init__(self, data: bytes):
        fragment = Fragment.from_bytes(data)
        self.width: Final = len(fragment.fetched)
        if not 0 <= fragment.kept <= self.width:
            raise DataError(f"a plan fragment cannot keep {fragment.kept} of {self.width} columns")
        try:
            self._operators = _operators(fragment)
            self._aggregation = None if fragment.aggregation is None else _aggregation(fragment, fragment.aggregation)
        except (InternalError, LookupError) as error:
            raise DataError(f"a plan fragment refers to something that does not exist: {error}") from None
        self._having = None if fragment.aggregation is None else fragment.aggregation.having

    def evaluator(self) -> Operator:
        """Return the operator for one scan of a tablet, to be called once per thread."""
        aggregation = self._aggregation
        if aggregation is None:
            return self._rows
        if self._having is None:
            return lambda batches: (to_batch(aggregation, p) for p in partials(aggregation, self._rows(batches)))
        gathered = Gathered(aggregation, self._having)
        return lambda batches: gathered.source(self._rows(batches))

    def _rows(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Apply the steps before the aggregation."""
        batches = (batch for batch in batches if batch.length)
        for operator in self._operators:
            batches = operator(batches)
        return batches


_compiled = lru_cache(_KEPT)(CompiledFragment)


def _operators(fragment: Fragment) -> list[Operator]:
    columns = fragment.fetched[: fragment.kept]
    operators: list[Operator] = []
    if fragment.residual is not None:
        operators.append(compile_filter(fragment.fetched, fragment.residual, columns))
    elif len(columns) < len(fragment.fetched):
        operators.append(compile_project(fragment.fetched, columns))
    for step in fragment.steps:
        if step.is_filter:
            operators.append(compile_filter(columns, step.expressions[0], step.columns))
        else:
            operators.append(compile_project(columns, step.expressions))
        columns = step.columns
    return operators


def _aggregation(fragment: Fragment, aggregation: PartialAggregation) -> Aggregation:
    having = aggregation.having
    columns = fragment.steps[-1].columns if fragment.steps else fragment.fetched[: fragment.kept]
    return Aggregation(
        HashAggregate(
            columns=() if having is None else having.columns,
            source=ValuesScan(columns=columns, rows=()),
            groups=aggregation.groups,
            aggregates=aggregation.aggregates,
        )
    )
