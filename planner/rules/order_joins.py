"""Join in the cheapest order found, with the smaller side as build side; place semi and anti joins at the lowest cost.

A cluster is a tree of inner joins. Any other node (a scan, an aggregate, an outer join) is a leaf of it. Semi and anti
joins on top commute with the inner joins, since they only drop rows: each is tried on the one relation that its
condition reads and above all joins. In the result every inner join has its probe side left, its build side right.

>>> from nyala.planner.testing import show
>>> query = "SELECT t.k FROM t, u, v WHERE t.a = u.b AND u.c = v.d AND v.e = 3"
>>> print(show(query, ["pushdown_predicates", "order_joins"]))
Project k
  Join inner on a = b
    Scan t: k, a
    Join inner on c = d
      Scan u: b, c
      Scan v: d, e WHERE e = 3
"""

from __future__ import annotations

from dataclasses import field

from ...model.lazy_dataclass import dataclass
from ...sql.expressions import Column, Expr, conjuncts
from ..algebra.logical import Filter, Join, Node, Project
from ..algebra.trees import all_of, column_ids, columns_in, filtered, substitute
from ..context import Context
from ..estimates.cost import CostModel
from ..physical.join_order import JoinGraph, best_tree

REDUCERS = ("semi", "anti", "null_anti")


def order_joins(root: Node, context: Context) -> Node:
    """Reorder every cluster of inner joins."""
    return _Orderer(context).visit(root)


@dataclass(slots=True)
class _Cluster:
    leaves: list[Node] = field(default_factory=list)
    predicates: list[Expr] = field(default_factory=list)
    reducers: list[Join] = field(default_factory=list)
    renamed: dict[int, Expr] = field(default_factory=dict)


class _Orderer:
    def __init__(self, context: Context):
        self._model = CostModel(context.estimator)

    def visit(self, node: Node) -> Node:
        """Return the plan with every cluster in it ordered, innermost first."""
        if not isinstance(node, Join) or node.kind not in ("inner", "cross", *REDUCERS):
            return node.map_children(self.visit)
        cluster = _Cluster()
        self._collect(node, cluster)
        ordered = self._order(cluster)
        if cluster.renamed:
            items = tuple((column, substitute(column, cluster.renamed)) for column in node.columns)
            return Project(ordered, items)
        return ordered

    def _collect(self, node: Node, cluster: _Cluster) -> None:
        if isinstance(node, Join) and node.kind in ("inner", "cross"):
            cluster.predicates += conjuncts(node.condition)
            self._collect(node.left, cluster)
            self._collect(node.right, cluster)
        elif isinstance(node, Join) and node.kind in REDUCERS:
            cluster.reducers.append(Join(node.kind, node.left, self.visit(node.right), node.condition))
            self._collect(node.left, cluster)
        elif (
            isinstance(node, Filter)
            and isinstance(node.source, Join)
            and node.source.kind in ("inner", "cross", *REDUCERS)
        ):
            cluster.predicates += conjuncts(node.predicate)
            self._collect(node.source, cluster)
        elif isinstance(node, Project) and isinstance(node.source, (Join, Filter)) and _only_columns(node):
            self._collect(node.source, cluster)
            for column, expr in node.items:
                if isinstance(expr, Column) and expr.id != column.id:
                    cluster.renamed[column.id] = substitute(expr, cluster.renamed)
        else:
            cluster.leaves.append(self.visit(node))

    def _order(self, cluster: _Cluster) -> Node:
        predicates = [substitute(part, cluster.renamed) for part in cluster.predicates]
        conditions = [substitute(r.condition, cluster.renamed) if r.condition else None for r in cluster.reducers]
        # The innermost reducer was collected last and comes first.
        reducers = [(r.kind, r.right, c) for r, c in zip(cluster.reducers, conditions, strict=True)][::-1]
        homes = [self._home(right, condition, cluster.leaves) for _, right, condition in reducers]
        low: list[bool] = [False] * len(reducers)
        best = self._tree(cluster.leaves, predicates, reducers, homes, low)
        if len(cluster.leaves) > 1:
            for i, home in enumerate(homes):
                if home is None:
                    continue
                trial = [*low[:i], True, *low[i + 1 :]]
                candidate = self._tree(cluster.leaves, predicates, reducers, homes, trial)
                if self._model.cost(candidate).total < self._model.cost(best).total:
                    best, low = candidate, trial
        return best

    def _home(self, right: Node, condition: Expr | None, leaves: list[Node]) -> int | None:
        """Return the one leaf that a reducer's condition reads, if there is exactly one."""
        read = columns_in(condition) - column_ids(right)
        homes = [i for i, leaf in enumerate(leaves) if read & column_ids(leaf)]
        return homes[0] if len(homes) == 1 else None

    def _tree(
        self,
        leaves: list[Node],
        predicates: list[Expr],
        reducers: list[tuple[str, Node, Expr | None]],
        homes: list[int | None],
        low: list[bool],
    ) -> Node:
        reduced = list(leaves)
        high: list[tuple[str, Node, Expr | None]] = []
        for (kind, right, condition), home, placed in zip(reducers, homes, low, strict=True):
            if placed and home is not None:
                reduced[home] = Join(kind, reduced[home], right, condition)
            else:
                high.append((kind, right, condition))
        loose = [part for part in predicates if not columns_in(part)]
        graph = JoinGraph(reduced, [part for part in predicates if columns_in(part)], self._model)
        tree = best_tree(graph)
        for kind, right, condition in high:
            tree = Join(kind, tree, right, condition)
        return filtered(tree, all_of(loose))


def _only_columns(node: Project) -> bool:
    return all(isinstance(expr, Column) for _, expr in node.items)
