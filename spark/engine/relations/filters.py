"""Runtime filters for relations: keys of build sides that are read before Spark starts.

    Join on l_partkey = p_partkey              keys = SELECT p_partkey FROM part WHERE p_name LIKE '%green%'
      Scan lineitem              ─►            lineitem's relation reads only rows whose l_partkey is among them
      Scan part WHERE p_name ...

nyala's executor passes such filters down while a join runs. Spark's joins start after the relations are defined. So
nyala reads the keys in advance, if that costs less than sending the excluded rows to Spark. Filters from a build side's
own joins are kept too, so filters reach the scans along chains of joins, as in the executor. Spark still joins: some
filters let rows pass that have no match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Final

from ....executor import ExecutionContext
from ....executor.execute import open_node
from ....executor.expressions.evaluate import Compiler
from ....executor.joins.kept_keys import KeptKeys
from ....executor.joins.runtime_filters import FilterFactory, RuntimeFilters
from ....model.lazy_dataclass import dataclass
from ....model.predicates import ColumnPredicate, InList
from ....model.vectors.vector import Batch
from ....planner.algebra.physical import (
    HashAggregate,
    HashJoin,
    MergeJoin,
    NestedLoopJoin,
    PhysicalNode,
    RuntimeFilter,
    Shared,
    TableScan,
    WorkingTable,
    nodes,
)
from ....planner.algebra.physical import Recursive as RecursiveNode
from ....planner.estimates.cost import CostModel, KeyPair

MOST_KEYS: Final = 4_000_000
"""Maximum number of build rows for which keys are read in advance."""
CROSSING: Final = 30.0
"""Cost of a row that is sent to Spark and joined there, in the units of `planner.estimates.cost`."""
CELL: Final = 6.0
"""Cost of each of its columns."""
CHECKED: Final = 0.15
READ: Final = 0.6
JOINED: Final = 9.0
GROUPED: Final = 4.0
"""nyala's cost of a row of a build side: checking a condition, reading a column, joining, finding its group."""


@dataclass(slots=True)
class GatheredFilters:
    """Filters by the number of the scanned column, and the fraction of a scan's rows that each is expected to keep."""

    by_column: dict[int, list[FilterFactory]] = field(default_factory=dict)
    shares: dict[int, float] = field(default_factory=dict)

    def predicates(self, names: Mapping[int, str]) -> tuple[ColumnPredicate, ...]:
        """The filters of a scan; `names` are the table's column names by number."""
        return tuple(factory(name) for number, name in names.items() for factory in self.by_column.get(number, ()))

    def share(self, numbers: Iterable[int]) -> float:
        """The fraction of a scan's rows that is expected to pass; `numbers` are its columns'."""
        return min((self.shares.get(number, 1.0) for number in numbers), default=1.0)


def gather(root: PhysicalNode, model: CostModel, context: ExecutionContext) -> GatheredFilters:
    """Reads the keys of those hash joins for which it pays, and makes filters of them."""
    found = GatheredFilters()
    _Gatherer(model, context, found).visit(root, _Recording(found=found))
    return found


@dataclass(frozen=True, slots=True)
class _Recording(RuntimeFilters):
    """Filters on their way down that are recorded at the scans."""

    found: GatheredFilters = field(default_factory=GatheredFilters)

    def with_filter(self, column: int, factory: FilterFactory) -> RuntimeFilters:
        return replace(self, by_column={**self.by_column, column: (*self.by_column.get(column, ()), factory)})

    def predicates(self, node: TableScan) -> tuple[ColumnPredicate, ...]:
        self.record(node)
        return RuntimeFilters.predicates(self, node)

    def record(self, node: TableScan) -> None:
        """Records the filters that reached a scan."""
        for column in node.fetched:
            known = self.found.by_column.setdefault(column.id, [])
            known += [factory for factory in self.by_column.get(column.id, ()) if factory not in known]


class _Gatherer:
    """Walks a plan in the executor's order: build sides first."""

    def __init__(self, model: CostModel, context: ExecutionContext, found: GatheredFilters):
        self._model = model
        self._context = context
        self._found = found
        self._seen: set[int] = set()

    def visit(self, node: PhysicalNode, filters: RuntimeFilters) -> None:
        """Gathers filters below a node; `filters` are for the scans below it."""
        if isinstance(node, TableScan):
            assert isinstance(filters, _Recording)
            filters.record(node)
        elif isinstance(node, HashJoin):
            self._join(node, filters)
        elif isinstance(node, Shared):
            if node.key not in self._seen:
                self._seen.add(node.key)
                self.visit(node.source, _Recording(found=self._found))
        elif isinstance(node, RecursiveNode):
            for part in node.children():
                self.visit(part, _Recording(found=self._found))
        else:
            for child in node.children():
                self.visit(child, filters)

    def _join(self, node: HashJoin, filters: RuntimeFilters) -> None:
        if node.runtime_filters and self._is_worth_it(node):
            below = self._keys(node, filters)
            self.visit(node.probe, below)
        else:
            self.visit(node.build, filters)
            self.visit(node.probe, filters)

    # ---- is it worth it? ---------------------------------------------------------------------------------------------

    def _is_worth_it(self, node: HashJoin) -> bool:
        if node.build.estimate > MOST_KEYS:
            return False
        if any(isinstance(inner, (Shared, RecursiveNode, WorkingTable)) for inner in nodes(node.build)):
            return False  # shared subplans must not run twice; working tables of recursions are not available
        saved = sum(self._saved(node, wanted) for wanted in node.runtime_filters)
        return saved > self._work(node.build)

    def _saved(self, node: HashJoin, wanted: RuntimeFilter) -> float:
        scan = next((s for s in _scans(node.probe) if any(c.id == wanted.column for c in s.fetched)), None)
        if scan is None:
            return 0.0
        pair = KeyPair(node.probe_keys[wanted.key], node.build_keys[wanted.key])
        share = self._model.filter_share(pair, node.build.estimate)
        return scan.estimate * (1.0 - share) * (CROSSING + CELL * len(scan.columns))

    def _work(self, node: PhysicalNode) -> float:
        """The cost of executing a build side for its keys."""
        total = 0.0
        for inner in nodes(node):
            if isinstance(inner, TableScan):
                rows = float(self._context.store.statistics(inner.table).row_count)
                conditions = len(inner.predicates) + (inner.residual is not None)
                total += rows * CHECKED * max(1, conditions) + inner.estimate * READ
            elif isinstance(inner, (HashJoin, MergeJoin, NestedLoopJoin)):
                total += JOINED * sum(child.estimate for child in inner.children())
            elif isinstance(inner, HashAggregate):
                total += GROUPED * inner.source.estimate
        return total

    # ---- reading keys ------------------------------------------------------------------------------------------------

    def _keys(self, node: HashJoin, filters: RuntimeFilters) -> RuntimeFilters:
        """The filters, extended by those from the keys of a join's build side."""
        context = self._context
        kept = KeptKeys(node, context.account("the keys of a join's build side"))
        compiled = Compiler(node.build.columns).compile_all(node.build_keys)

        def add(batches: Iterator[Batch], _: object) -> int:
            rows = 0
            for batch in batches:
                kept.add([evaluate(batch) for evaluate in compiled])
                rows += batch.length
            return rows

        rows = sum(context.run_all(open_node(node.build, context, filters), add))
        for wanted in node.runtime_filters:
            pair = KeyPair(node.probe_keys[wanted.key], node.build_keys[wanted.key])
            share = self._model.filter_share(pair, float(rows))
            self._found.shares[wanted.column] = min(share, self._found.shares.get(wanted.column, 1.0))
        if rows:
            return kept.filters(filters)
        for wanted in node.runtime_filters:
            filters = filters.with_filter(wanted.column, _nothing)
        return filters


def _nothing(column: str) -> ColumnPredicate:
    return InList(column, ())


def _scans(root: PhysicalNode) -> Iterator[TableScan]:
    return (node for node in nodes(root) if isinstance(node, TableScan))
