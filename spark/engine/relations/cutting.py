"""Cuts a logical plan into fragments for the tablets, and the rest for Spark.

    Sort ─ Aggregate ─ Join ─┬─ Project ─ Filter ─ Scan orders       relation 1: Project ─ Filter ─ Scan
                             └─ Aggregate ─ Scan lineitem            relation 2: partial Aggregate ─ Scan

From the leaves upwards, a relation includes every operation on one table's rows that the tasks can do: conditions,
projections, the first rows of a sort or a limit, aggregations whose groups stay within a tablet. On top there may be a
partial aggregation, which Spark completes. No operation that combines rows of two tablets, or of two tables.
"""

from __future__ import annotations

from dataclasses import field, replace

from ....model.lazy_dataclass import dataclass
from ....planner.algebra.logical import Aggregate, FileScan, Filter, Limit, Node, Project, Scan, Shared, Sort
from ....planner.algebra.trees import Numbers
from ....planner.estimates.cardinality import Estimator
from ....sql.expressions import Expr, Literal
from .partial import is_apart, split

LEAST_REDUCTION = 1.5
"""Minimum ratio of rows to partial groups at which partial aggregation pays."""
MOST_KEPT = 100_000
"""Maximum number of rows that a task sorts or counts for a LIMIT above it."""


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A plan fragment that Spark tasks execute on the tablets.

    Attributes
    ----------
    node : Node
        Its columns are the relation's.
    leaf : Scan or FileScan
        The scan that it reads.
    whole_tablets : bool
        True if no tablet may be divided among tasks.
    estimate : float
        Expected rows from all tasks together.
    """

    node: Node
    leaf: Scan | FileScan
    whole_tablets: bool
    estimate: float


@dataclass(slots=True)
class Cutting:
    """The result of `cut`: the plan, and the relations by the number of the node that each represents."""

    root: Node
    cuts: dict[int, Cut] = field(default_factory=dict)

    def at(self, node: Node) -> Cut | None:
        """The relation that a node of the plan represents."""
        return self.cuts.get(node.number)


def cut(root: Node, estimator: Estimator, numbers: Numbers, tasks: int) -> Cutting:
    """Cuts a plan, for relations that are read by about `tasks` tasks."""
    estimator.rows(root)
    cutter = _Cutter(estimator, numbers, tasks)
    cutting = Cutting(cutter.visit(root))
    cutter.collect(cutting.root, cutting.cuts)
    return cutting


@dataclass(frozen=True, slots=True, eq=False)
class _Local:
    """A fragment that can be executed on the tablets."""

    node: Node
    leaf: Scan | FileScan
    whole_tablets: bool = False
    ended: bool = False
    """True if its rows are partial: nothing more can be done on the tablets."""


class _Cutter:
    """Finds the largest fragments that can be executed on the tablets."""

    def __init__(self, estimator: Estimator, numbers: Numbers, tasks: int):
        self._estimator = estimator
        self._numbers = numbers
        self._tasks = tasks
        self._shared: dict[int, Node] = {}
        self.candidates: dict[int, _Local] = {}

    def visit(self, node: Node) -> Node:
        """The node with partial aggregations inserted; records which of its parts can be executed on the tablets."""
        if isinstance(node, Shared):
            if node.key not in self._shared:
                self._shared[node.key] = self.visit(node.source)
            source = self._shared[node.key]
            return node if source is node.source else replace(node, source=source)
        changed = node.map_children(self.visit)
        if changed is not node:
            self._estimator.remember(changed, self._estimator.rows(node))
        if isinstance(changed, (Scan, FileScan)):
            self._note(_Local(changed, changed))
        children = changed.children()
        below = self.candidates.get(children[0].number) if len(children) == 1 else None
        return changed if below is None or below.ended else self._above(changed, below)

    def _above(self, node: Node, below: _Local) -> Node:
        """A node whose input is a local fragment."""
        if isinstance(node, (Filter, Project)):
            if all(column.type.is_storable for column in node.columns):
                self._note(replace(below, node=node))
        elif isinstance(node, Aggregate):
            return self._aggregate(node, below)
        elif isinstance(node, (Sort, Limit)):
            return self._first_rows(node, below)
        return node

    def _note(self, local: _Local) -> None:
        self.candidates[local.node.number] = local

    def _aggregate(self, node: Aggregate, below: _Local) -> Node:
        if not all(column.type.is_storable for column in node.columns):
            return node
        if is_apart(node):
            self._note(replace(below, node=node, whole_tablets=True))
            return node
        rows, groups = self._estimator.rows(node.source), self._estimator.rows(node)
        if groups * min(self._tasks, 4) * LEAST_REDUCTION > rows and node.groups:
            return node
        parts = split(node, self._numbers)
        if parts is None:
            return node
        partial, whole = parts
        self._estimator.remember(partial, min(rows, groups * self._tasks))
        self._estimator.remember(whole, groups)
        self._note(replace(below, node=partial, ended=True))
        return whole

    def _first_rows(self, node: Sort | Limit, below: _Local) -> Node:
        """Limits each task's rows to those that the limit above it needs."""
        kept = _most(node.limit, node.offset)
        if kept is None or kept.value > MOST_KEPT or isinstance(below.node, (Sort, Limit)):
            return node
        first = replace(node, limit=kept, offset=None)
        self._note(replace(below, node=first, ended=True))
        return replace(node, source=first)

    def collect(self, node: Node, found: dict[int, Cut]) -> None:
        """Collects the topmost local fragments below a node."""
        local = self.candidates.get(node.number)
        if local is not None:
            found[node.number] = Cut(node, local.leaf, local.whole_tablets, self._estimator.rows(node))
            return
        for child in (node.source,) if isinstance(node, Shared) else node.children():
            self.collect(child, found)


def _most(limit: Expr | None, offset: Expr | None) -> Literal | None:
    """The number of rows that a LIMIT needs, including those that OFFSET skips; None if it is not known."""
    if not isinstance(limit, Literal) or limit.value is None or limit.value < 0:
        return None
    if offset is None:
        return limit
    if not isinstance(offset, Literal):
        return None
    return replace(limit, value=limit.value + max(0, offset.value or 0))
