"""One query between nyala's plan and Spark: prepared for `EXPLAIN` and for a DataFrame.

    logical plan ── cut ──► relations and the rest
    gather ──► keys of small build sides, as predicates of relations
    deal ──► the tablets of each task
    Hints, translate ──► Spark SQL

Everything is read as of one snapshot, chosen before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import sqlglot

from ...executor import ExecutionContext
from ...executor.execute import execute
from ...executor.joins.runtime_filters import described
from ...model.lazy_dataclass import dataclass
from ...model.predicates import ColumnPredicate
from ...model.store import Timestamp
from ...model.types import TINYINT
from ...planner import Plan, PlannerOptions
from ...planner.algebra.logical import Aggregate, Node, Scan, Shared
from ...planner.algebra.physical import PhysicalNode, TableScan
from ...planner.algebra.physical import Project as PhysicalProject
from ...planner.algebra.trees import Numbers, nodes
from ...planner.context import Context
from ...planner.estimates.cardinality import Estimator
from ...planner.estimates.cost import CostModel
from ...planner.explaining.plan_text import draw_logical
from ...planner.physical.physical_planner import PhysicalPlanner
from ...sql.expressions import Column, Literal
from .. import types
from .hints import Hints
from .relations.cutting import Cut, Cutting, cut
from .relations.filters import GatheredFilters, gather
from .relations.parts import deal
from .relations.tasks import Reading, as_spark
from .relations.views import Relation, Rows, fresh_prefix
from .translate.translation import Translation, translate

SMALL_TABLE: Final = 20_000
"""Rows up to which a table is read here and passed to Spark: cheaper than starting a task."""
FEW_ROWS: Final = 5_000
"""Expected rows of a larger table's scan up to which it is read here."""
MOST_ROWS: Final = 1 << 16
"""Actual rows above which tasks read them instead."""
TASKS_PER_CORE: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class QuerySource:
    """A relation of a query: its subplan, its filters, and the transfer of its rows to Spark."""

    name: str
    cut: Cut
    filters: tuple[ColumnPredicate, ...]
    relation: Relation

    @property
    def how(self) -> str:
        """The access method in one line, for display."""
        if isinstance(self.relation, Rows):
            return f"{self.relation.table.num_rows:,} rows, read already"
        return f"~{self.cut.estimate:,.0f} rows, {self.relation.tasks} task{'' if self.relation.tasks == 1 else 's'}"


@dataclass(slots=True)
class Query:
    """A query prepared for Spark.

    Attributes
    ----------
    root : Node
        The plan with its partial aggregations.
    sources : dict of int to QuerySource
        The relations, by the number of the node of `root` that each represents.
    hints : Hints
    """

    root: Node
    sources: dict[int, QuerySource]
    hints: Hints

    @property
    def relations(self) -> list[tuple[str, Relation]]:
        """The relations by their names."""
        return [(source.name, source.relation) for source in self.sources.values()]

    @property
    def tasks(self) -> int:
        """The number of tasks that read the relations."""
        return sum(relation.tasks for _, relation in self.relations if isinstance(relation, Reading))

    def name_of(self, node: Node) -> str | None:
        """The name of the relation for a node; None if it is not one."""
        source = self.sources.get(node.number)
        return None if source is None else source.name

    def translation(self) -> Translation:
        """The Spark SQL; raises `NotSupportedError` if a part of the query cannot be expressed."""
        return translate(self.root, self.name_of, self.hints)

    def explain(self) -> str:
        """The Spark SQL, and the scan of each relation."""
        parts = ["-- Spark SQL", sqlglot.parse_one(self.translation().text, read="spark").sql("spark", pretty=True)]
        for source in self.sources.values():
            parts += [f"-- {source.name}: {source.how}", draw_logical(source.cut.node)]
            if source.filters:
                parts.append(f"  runtime filters: {', '.join(map(described, source.filters))}")
        return "\n".join(parts)


def prepare(
    plan: Plan, context: ExecutionContext, url: str, cores: int, client: Mapping[str, Any] | None = None
) -> Query:
    """Prepares a planned query for Spark.

    Parameters
    ----------
    context : ExecutionContext
        Its store and snapshot (required) are read.
    url : str
        The URL by which the tasks reach the store.
    cores : int
        Number of concurrent tasks.
    client : mapping of str to Any, optional
        Options of the tasks' clients (`workers.task_access`).

    Reads the keys of small build sides, and small tables.
    """
    return _Preparation(plan, context, url, cores, dict(client or {})).query()


class _Preparation:
    def __init__(self, plan: Plan, context: ExecutionContext, url: str, cores: int, client: dict[str, Any]):
        assert context.snapshot is not None, "all tasks read one snapshot"
        self._plan = plan
        self._context = context
        self._snapshot: Timestamp = context.snapshot
        self._url = url
        self._client = client
        self._cores = cores
        self._tasks = TASKS_PER_CORE * cores
        self._estimator = Estimator(context.store)
        self._numbers = Numbers(_highest_number(plan.logical))
        self._found = GatheredFilters()
        self._cutting = Cutting(plan.logical)

    def query(self) -> Query:
        self._found = gather(self._chosen(self._plan.logical), CostModel(self._estimator), self._working())
        self._context.check()
        self._cutting = cut(self._plan.logical, self._estimator, self._numbers, self._tasks)
        sources: dict[int, QuerySource] = {}
        prefix = fresh_prefix()
        for place, (key, found) in enumerate(self._cutting.cuts.items()):
            self._context.check()
            filters = self._predicates(found)
            name = f"{prefix}_{place}_{_label(found)}"
            sources[key] = QuerySource(name, found, filters, self._relation(found, filters))
        hints = Hints(self._estimator, self._cutting, self._shares(sources), self._cores)
        return Query(self._cutting.root, sources, hints)

    def _chosen(self, node: Node) -> PhysicalNode:
        """The physical plan of a node, with hash joins, because those provide runtime filters."""
        self._estimator.rows(node)
        options = PlannerOptions(merge_joins="never")
        return PhysicalPlanner(Context(self._estimator, self._numbers, options, self._context.check)).plan(node)

    def _working(self) -> ExecutionContext:
        """The context for work done here, which is not counted in the statement's progress."""
        return replace(self._context, progress=None, tracker=None, shared={})

    # ---- relations ---------------------------------------------------------------------------------------------------

    def _predicates(self, found: Cut) -> tuple[ColumnPredicate, ...]:
        return self._found.predicates(dict(found.leaf.source_names)) if isinstance(found.leaf, Scan) else ()

    def _relation(self, found: Cut, filters: tuple[ColumnPredicate, ...]) -> Relation:
        plan = _with_columns(_filtered(self._chosen(found.node), filters), self._numbers)
        names = tuple(f"c{column.id}" for column in plan.columns)
        reading = Reading(self._url, plan, self._snapshot, names, share=self._cores, options=self._client)
        if self._is_small(found) and (rows := self._rows(reading)) is not None:
            return rows
        scan = _leaf(plan)
        if scan is None:
            return reading
        store, whole = self._context.store, found.whole_tablets
        parts = deal(store, scan, self._snapshot, self._tasks, whole_tablets=whole)
        return replace(reading, parts=parts)

    def _is_small(self, found: Cut) -> bool:
        """True if a relation is read here: only if it is cheap, or returns few rows without aggregation."""
        if not isinstance(found.leaf, Scan):
            return False
        if self._context.store.statistics(found.leaf.table).row_count <= SMALL_TABLE:
            return True
        return found.estimate <= FEW_ROWS and not any(isinstance(node, Aggregate) for node in nodes(found.node))

    def _rows(self, reading: Reading) -> Rows | None:
        """A relation's rows; None if there are too many."""
        batches: list[pa.RecordBatch] = []
        found: Iterator[pa.RecordBatch] = as_spark(reading.columns, execute(reading.plan, self._working()))
        count = 0
        for batch in found:
            count += batch.num_rows
            if count > MOST_ROWS:
                return None
            batches.append(batch)
        return Rows(reading.columns, pa.Table.from_batches(batches, types.arrow_schema(reading.columns)))

    def _shares(self, sources: Mapping[int, QuerySource]) -> dict[int, float]:
        """The fraction of rows that each relation is expected to return; exact for those already read."""
        shares: dict[int, float] = {}
        for key, source in sources.items():
            if isinstance(source.relation, Rows):
                shares[key] = source.relation.table.num_rows / max(1.0, source.cut.estimate)
            elif isinstance(source.cut.leaf, Scan):
                shares[key] = self._found.share(number for number, _ in source.cut.leaf.source_names)
        return shares


def _highest_number(root: Node) -> int:
    """The highest number of a column in a plan."""
    highest = 0
    for node in nodes(root):
        numbers = [column.id for column in node.columns]
        if isinstance(node, Scan):
            numbers += [number for number, _ in node.source_names]
        if isinstance(node, Shared):
            numbers.append(_highest_number(node.source))
        highest = max(highest, *numbers, 0)
    return highest


def _label(found: Cut) -> str:
    """A readable name of the relation's table."""
    leaf = found.leaf
    name = leaf.table.name if isinstance(leaf, Scan) else "file"
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)


def _leaf(plan: PhysicalNode) -> TableScan | None:
    while children := plan.children():
        (plan,) = children
    return plan if isinstance(plan, TableScan) else None


def _filtered(plan: PhysicalNode, filters: tuple[ColumnPredicate, ...]) -> PhysicalNode:
    """The plan of a relation with additional predicates at its scan."""
    if not filters:
        return plan
    if isinstance(plan, TableScan):
        return replace(plan, predicates=(*plan.predicates, *filters))
    return replace(plan, source=_filtered(plan.children()[0], filters))  # type: ignore[call-arg]


def _with_columns(plan: PhysicalNode, numbers: Numbers) -> PhysicalNode:
    """The plan with at least one column: Spark cannot count the rows of Arrow batches without columns."""
    if plan.columns:
        return plan
    one = Literal(TINYINT, False, 1)
    column: Column = numbers.column(one, "one")
    return PhysicalProject(columns=(column,), estimate=plan.estimate, source=plan, expressions=(one,))
