"""A fragment: operators applied to a scan's batches before they leave the tablet's server.

    TableScan ─► residual ─► Filter, Project, ... ─► partial HashAggregate ─► HAVING
    └ ScanSpec ┘ └────────────────────────── Fragment ─────────────────────────────┘

It is cut out of a physical plan, serialized, and evaluated by the tablet's server (`evaluate`), which returns the
scan's own columns or partial groups (`remote`). Not everything can be sent: expressions that `sql.expression_codec`
refuses stay at the client, and so do aggregates whose states hold any number of rows for a group.

A condition on groups (HAVING) is sent if all rows of a group lie in one tablet. It is a hint: the server may drop
groups that do not satisfy it, and the caller checks the condition again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import msgspec

from ...errors import DataError, NotSupportedError, UnsupportedFormat
from ...model.lazy_dataclass import dataclass
from ...planner.algebra.physical import Filter, HashAggregate, PhysicalNode, Project, TableScan
from ...sql.expression_codec import (
    columns_from_plain,
    columns_to_plain,
    expression_from_plain,
    expression_to_plain,
)
from ...sql.expressions import Aggregate, Column, Expr
from ..aggregation.aggregate_calls import parts_of

VERSION: Final = 2
_TRAVELLING: Final = frozenset(
    ["rows", "count", "sum", "min", "max", "any_value", "statistics", "approx_count_distinct"]
)
"""Accumulators whose states are a few values per group."""


@dataclass(frozen=True, slots=True)
class Step:
    """A filter (one expression, a condition) or a projection (one per column), and the columns that it produces."""

    is_filter: bool
    expressions: tuple[Expr, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Having:
    """A condition on whole groups; `columns` are those of the aggregation, groups first."""

    condition: Expr
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class PartialAggregation:
    """Groups and aggregates of a HashAggregate without grouping sets, with the condition that its groups must
    satisfy."""

    groups: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    having: Having | None = None


@dataclass(frozen=True, slots=True)
class Fragment:
    """A serializable part of a plan; see the module's docstring. `fetched` are the scan's columns; the first `kept` of
    them pass the residual's filter."""

    fetched: tuple[Column, ...]
    kept: int
    residual: Expr | None = None
    steps: tuple[Step, ...] = ()
    aggregation: PartialAggregation | None = None

    def with_having(self, having: Having) -> Fragment:
        """Return the fragment with a condition on its groups, of which each must have all its rows in one tablet."""
        assert self.aggregation is not None
        return replace(self, aggregation=replace(self.aggregation, having=having))

    def to_bytes(self) -> bytes:
        """Serialize the fragment for a request; raises `NotSupportedError` if something in it cannot be serialized."""
        aggregation = self.aggregation
        plain = {
            "version": VERSION,
            "fetched": columns_to_plain(self.fetched),
            "kept": self.kept,
            "residual": None if self.residual is None else expression_to_plain(self.residual),
            "steps": [
                [step.is_filter, [expression_to_plain(e) for e in step.expressions], columns_to_plain(step.columns)]
                for step in self.steps
            ],
            "aggregation": None
            if aggregation is None
            else [
                [expression_to_plain(group) for group in aggregation.groups],
                [expression_to_plain(call) for call in aggregation.aggregates],
                None
                if aggregation.having is None
                else [expression_to_plain(aggregation.having.condition), columns_to_plain(aggregation.having.columns)],
            ],
        }
        return msgspec.msgpack.encode(plain)

    @classmethod
    def from_bytes(cls, data: bytes) -> Fragment:
        """Parse the bytes of `to_bytes`; raises `DataError` for bytes that are not a fragment."""
        try:
            plain: Any = msgspec.msgpack.decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise DataError(f"the bytes are not a plan fragment: {error}") from None
        if not isinstance(plain, dict) or plain.get("version") != VERSION:
            raise UnsupportedFormat(f"the plan fragment has another version than {VERSION}")
        try:
            return cls(
                columns_from_plain(plain["fetched"]),
                int(plain["kept"]),
                None if plain["residual"] is None else expression_from_plain(plain["residual"]),
                tuple(
                    Step(bool(is_filter), tuple(map(expression_from_plain, exprs)), columns_from_plain(columns))
                    for is_filter, exprs, columns in plain["steps"]
                ),
                None if plain["aggregation"] is None else _aggregation(*plain["aggregation"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the bytes are not a plan fragment: {error!r}") from None


def _aggregation(groups: Any, calls: Any, having: Any) -> PartialAggregation:
    aggregates = tuple(expression_from_plain(call) for call in calls)
    for call in aggregates:
        if not isinstance(call, Aggregate):
            raise DataError(f"an aggregate was expected, not a {type(call).__name__}")
    condition = None
    if having is not None:
        condition = Having(expression_from_plain(having[0]), columns_from_plain(having[1]))
        if len(condition.columns) != len(groups) + len(aggregates):
            raise DataError(f"a condition on {len(condition.columns)} columns of {len(groups) + len(aggregates)}")
    return PartialAggregation(
        tuple(expression_from_plain(group) for group in groups),
        aggregates,  # type: ignore[arg-type]
        condition,
    )


def scan_fragment(node: TableScan) -> Fragment:
    """Fragment of a scan: the operations of the node that its `ScanSpec` does not cover."""
    return Fragment(node.fetched, len(node.columns), node.residual)


def aggregate_fragment(node: HashAggregate) -> tuple[TableScan, Fragment] | None:
    """Return the scan that an aggregation reads through filters and projections only, and the fragment up to it.

    None if another operator lies between, or the partial groups cannot be serialized.
    """
    if node.sets is not None or not all(_travels(call) for call in node.aggregates):
        return None
    scan_steps = scan_and_steps(node.source)
    if scan_steps is None:
        return None
    scan, steps = scan_steps
    aggregation = PartialAggregation(node.groups, node.aggregates)
    return scan, Fragment(scan.fetched, len(scan.columns), scan.residual, steps, aggregation)


def scan_and_steps(node: PhysicalNode) -> tuple[TableScan, tuple[Step, ...]] | None:
    """Return the scan below filters and projections only, and these as steps in order of execution; None if another
    operator lies between."""
    steps: list[Step] = []
    while isinstance(node, Filter | Project):
        if isinstance(node, Filter):
            steps.append(Step(True, (node.predicate,), node.columns))
        else:
            steps.append(Step(False, node.expressions, node.columns))
        node = node.source
    return (node, tuple(reversed(steps))) if isinstance(node, TableScan) else None


def _travels(call: Aggregate) -> bool:
    return all(part.kind in _TRAVELLING and not part.distinct for part in parts_of(call))


def encoded(fragment: Fragment) -> bytes | None:
    """Serialize the fragment; None if something in it cannot be serialized."""
    try:
        return fragment.to_bytes()
    except NotSupportedError:
        return None
