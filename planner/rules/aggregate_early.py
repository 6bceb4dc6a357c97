"""Aggregate some of a join's rows before the join, and the partial values after it (eager aggregation).

Yan and Larson (VLDB 1995); Galindo-Legaria and Joshi (SIGMOD 2001). Example: a year's sales are joined to customers and
summed by customer name. The join would look the same customer up for every sale. If the sales are summed by customer
number first, each customer is looked up once:

    Aggregate by name: sum(price)             Aggregate by name: sum(sum)
      Join on buyer = number                    Join on buyer = number
        Scan sales                    ─►          Aggregate by buyer: sum(price)
        Scan customers                              Scan sales
                                                  Scan customers

The rows that are aggregated first come from some of the relations of a join, at least those that the sums read, joined
among themselves. They are grouped by all columns of theirs that the rest of the query reads: join keys, group keys,
conditions. Further relations are added one after the other as long as that lowers the estimated cost. The plan is
changed if the best choice reduces the rows several times and leaves something to join.
`decorrelation.partial_aggregates` defines which calls can be split and how.

>>> from nyala.planner.testing import show
>>> query = "SELECT a, sum(b) FROM u JOIN t ON c = k GROUP BY a"
>>> print(show(query, ["pushdown_predicates", "prune_columns", "aggregate_early"]))
Project a, sum
  Aggregate by a: sum(sum)
    Join inner on c = k
      Aggregate by c: sum(b)
        Scan u: b, c
      Scan t: k, a
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from ...model.lazy_dataclass import dataclass
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import Column, Expr, Literal, conjuncts
from ...sql.functions import is_volatile
from ..algebra.logical import Aggregate, Filter, Join, Node, Project, Scan
from ..algebra.trees import all_of, column_ids, columns_in, each, filtered, rewrite_nodes, substitute
from ..context import Context
from ..decorrelation.partial_aggregates import Split, never_fails, summed_columns
from ..estimates.cost import WORTH_FILTERING, CostModel, KeyPair, has_exact_filter
from ..estimates.statistics import distinct_among
from ..physical.join_order import JoinGraph, bits

LEAST_ROWS = 20_000
"""Number of rows below which joining and aggregating takes negligible time anyway."""
LEAST_REDUCTION = 2.0
"""Least factor by which early aggregation must reduce the rows."""
LEAST_GAIN = 1.3
"""Least factor by which the plan must get cheaper: estimates of groups are worse than others."""
JOIN = 2.0
"""Joining a row to one more relation, in the units of `cost`: most relations are small, and the output is not copied
yet."""
FEW_GROUPS = 10_000
"""Number of groups up to which a group is found by an array look-up."""
GROUP = 2.0
"""Finding a row's group if there are few."""
GROUP_IN_ORDER = 1.0
"""Finding a row's group if rows of a group lie together in the table."""
GROUP_AMONG_MANY = 8.0
"""Finding a row's group if there are many: groups of each batch are looked up again among those of all batches."""
KEY, KEY_AMONG_MANY, TEXT_AMONG_MANY = 0.5, 4.0, 10.0
"""Each further key."""
CALL = 1.0
"""Accumulating one value, or computing one part of it."""
REDUCERS = ("semi", "anti", "null_anti")


def aggregate_early(root: Node, context: Context) -> Node:
    """Aggregate below inner joins, left joins and semi joins if that saves work."""
    return rewrite_nodes(root, lambda node: _aggregated(node, context) if isinstance(node, Aggregate) else node)


def _aggregated(node: Aggregate, context: Context) -> Node:
    if any(is_volatile(expr) for _, expr in (*node.groups, *node.aggregates)):
        return node
    cluster = _Cluster.of(node.source)
    if len(cluster.leaves) < 2 and not any(isinstance(step, Join) and step.kind == "left" for step in cluster.steps):
        return node
    if max(map(context.estimator.rows, cluster.leaves)) < LEAST_ROWS:
        return node
    best = _Search(node, cluster, context).best()
    return node if best is None else best


# ---- what is joined --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cluster:
    """A tree of inner joins and the steps between it and an aggregation.

    The steps are filters, and left, semi and anti joins with the tree's rows on their left, beginning at the bottom.
    Column numbers in all expressions are those of the leaves.
    """

    leaves: list[Node] = field(default_factory=list)
    predicates: list[Expr] = field(default_factory=list)
    steps: list[Filter | Join] = field(default_factory=list)
    renamed: dict[int, Expr] = field(default_factory=dict)

    @staticmethod
    def of(node: Node) -> _Cluster:
        cluster = _Cluster()
        cluster._climb(node)
        cluster.predicates = [substitute(part, cluster.renamed) for part in cluster.predicates]
        return cluster

    def _climb(self, node: Node) -> None:
        if isinstance(node, Project) and not any(is_volatile(expr) for _, expr in node.items):
            self._climb(node.source)
            self._rename(node)
        elif isinstance(node, Join) and node.kind in ("left", *REDUCERS):
            self._climb(node.left)
            self.steps.append(node)
        elif isinstance(node, Filter) and not is_volatile(node.predicate):
            self._climb(node.source)
            self.steps.append(node)
        else:
            self._collect(node)

    def _collect(self, node: Node) -> None:
        if isinstance(node, Join) and node.kind in ("inner", "cross"):
            self._collect(node.left)
            self._collect(node.right)
            self.predicates += conjuncts(node.condition)
        elif isinstance(node, Project) and isinstance(node.source, Join) and _only_columns(node):
            self._collect(node.source)
            self._rename(node)
        else:
            self.leaves.append(node)

    def _rename(self, node: Project) -> None:
        for column, expr in node.items:
            if not (isinstance(expr, Column) and expr.id == column.id):
                self.renamed[column.id] = substitute(expr, self.renamed)

    def condition(self, step: Filter | Join) -> Expr | None:
        """Condition that a step puts on its rows."""
        condition = step.predicate if isinstance(step, Filter) else step.condition
        return None if condition is None else substitute(condition, self.renamed)


def _only_columns(node: Project) -> bool:
    return all(isinstance(expr, Column) for _, expr in node.items)


# ---- which rows to aggregate first -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Choice:
    """The relations of `mask` aggregated first, by `keys`, with the steps numbered in `early` below the aggregation."""

    cost: float
    mask: int
    keys: dict[Expr, Column]
    split: Split
    early: frozenset[int]


class _Search:
    """Searches for the relations of a cluster that are worth aggregating before the others join them."""

    def __init__(self, node: Aggregate, cluster: _Cluster, context: Context):
        self._node, self._cluster = node, cluster
        self._context, self._estimator = context, context.estimator
        self._model = CostModel(context.estimator)
        self._graph = JoinGraph(list(cluster.leaves), [p for p in cluster.predicates if columns_in(p)], self._model)
        self._owner = {number: i for i, leaf in enumerate(cluster.leaves) for number in column_ids(leaf)}
        self._carriers = [self._model.cost(leaf).carriers for leaf in cluster.leaves]
        self._whole = (1 << len(cluster.leaves)) - 1
        self._groups = [substitute(expr, cluster.renamed) for _, expr in node.groups]
        calls = [substitute(call, cluster.renamed) for _, call in node.aggregates]
        self._calls = [call for call in calls if isinstance(call, AggregateCall)]
        self._shares = [self._share(step) for step in cluster.steps]
        self._early = [self._may_go_early(step) for step in cluster.steps]

    def best(self) -> Node | None:
        """Return the plan with the best choice; None if the plan should stay as it is."""
        mask = self._least()
        if self._last_rows() < LEAST_ROWS or not mask or not self._graph.is_connected(mask):
            return None
        first = self._choice(mask)
        if first is None:
            return None
        choices = [first]
        while near := self._graph.neighbours(choices[-1].mask):
            masks = [choices[-1].mask | 1 << i for i in bits(near)]
            grown = [choice for choice in map(self._choice, masks) if choice is not None]
            if not grown:
                break
            choices.append(min(grown, key=lambda choice: choice.cost))
        best = min(choices, key=lambda choice: choice.cost)
        return self._plan(best) if best.cost * LEAST_GAIN <= self._late_cost() else None

    def _least(self) -> int:
        """Relations that the sums read, which must be part of every choice; the largest relation if there are none."""
        read = frozenset().union(*(summed_columns(call) for call in self._calls))
        if not read <= self._owner.keys():
            return 0
        mask = 0
        for number in read:
            mask |= 1 << self._owner[number]
        leaves = self._cluster.leaves
        return mask or 1 << max(range(len(leaves)), key=lambda i: self._estimator.rows(leaves[i]))

    def _share(self, step: Filter | Join) -> float:
        """Number of rows that a step produces per input row."""
        source = step.source if isinstance(step, Filter) else step.left
        return self._estimator.rows(step) / max(1.0, self._estimator.rows(source))

    def _may_go_early(self, step: Filter | Join) -> int | None:
        """Relations that a step needs below it; None for a step that can only run last."""
        if isinstance(step, Join) and step.kind == "left":
            return None
        read = columns_in(self._cluster.condition(step))
        read -= column_ids(step.right) if isinstance(step, Join) else frozenset()
        if not read <= self._owner.keys():
            return None
        mask = 0
        for number in read:
            mask |= 1 << self._owner[number]
        return mask

    def _choice(self, mask: int) -> _Choice | None:
        """Choice of some relations; None if the aggregates cannot be split there."""
        inside = frozenset(number for number, leaf in self._owner.items() if mask >> leaf & 1)
        split = Split(inside, self._context.numbers)
        never_empty = not self._node.is_total
        for (column, _), call in zip(self._node.aggregates, self._calls, strict=True):
            if not split.add(column, call, never_empty):
                return None
        early = frozenset(i for i, needed in enumerate(self._early) if needed is not None and not needed & ~mask)
        if mask == self._whole and not any(step.kind == "left" for step in self._late_joins(early)):
            return _Choice(float("inf"), mask, {}, split, early)
        keys = self._keys(inside, split, early)
        return _Choice(self._early_cost(mask, keys, split, early), mask, keys, split, early)

    def _late_joins(self, early: frozenset[int]) -> list[Join]:
        return [step for i, step in enumerate(self._cluster.steps) if i not in early and isinstance(step, Join)]

    def _keys(self, inside: frozenset[int], split: Split, early: frozenset[int]) -> dict[Expr, Column]:
        """All expressions read of the rows that are aggregated first, except the partial values, with their columns."""
        keys: dict[Expr, Column] = {}
        above: list[Expr] = []
        for (column, _), expr in zip(self._node.groups, self._groups, strict=True):
            if isinstance(expr, Column) or not columns_in(expr) <= inside or not never_fails(expr):
                above.append(expr)
            elif expr not in keys:
                keys[expr] = self._context.numbers.column(expr, column.name)
        above += [part for part in self._cluster.predicates if not columns_in(part) <= inside]
        above += [call for _, call in split.merging]
        for i, step in enumerate(self._cluster.steps):
            condition = self._cluster.condition(step)
            if i not in early and condition is not None:
                above.append(condition)
        for part in (part for expr in above for part in each(expr)):
            if isinstance(part, Column) and part.id in inside:
                keys[part] = part
        return keys

    # ---- costs ---------------------------------------------------------------------------------------------------

    def _rows(self, mask: int, steps: frozenset[int]) -> float:
        rows = self._graph.rows(mask)
        for i in steps:
            rows *= self._shares[i]
        return rows

    def _last_rows(self) -> float:
        """Number of rows after all joins."""
        return self._rows(self._whole, frozenset(range(len(self._shares))))

    def _late_cost(self) -> float:
        """Cost of joining and aggregating beyond the least relations, all joins first."""
        rows = self._last_rows()
        return rows * (self._joined(self._least(), frozenset()) + self._finished(rows, self._calls))

    def _early_cost(self, mask: int, keys: dict[Expr, Column], split: Split, early: frozenset[int]) -> float:
        rows = self._rows(mask, early) * self._filtered(mask)
        groups = self._group_count(list(keys), rows)
        if rows < LEAST_ROWS or groups * LEAST_REDUCTION > rows:
            return float("inf")
        below = rows * (self._joined(self._least(), frozenset()) - self._joined(mask, early))
        first = rows * _grouped(list(keys), split.partials, groups, self._is_in_order(mask, keys))
        last = self._last_rows() * groups / rows
        return below + first + last * (self._joined(mask, early) + self._finished(last, self._calls))

    def _finished(self, rows: float, calls: Iterable[AggregateCall]) -> float:
        """Cost of aggregating one row of `rows` after all joins."""
        sets = 1 if self._node.sets is None else len(self._node.sets)
        return sets * _grouped(self._groups, calls, self._group_count(self._groups, rows), False)

    def _is_in_order(self, mask: int, keys: dict[Expr, Column]) -> bool:
        """True if the groups follow the order in which the largest table is stored."""
        leaves = [leaf for i, leaf in enumerate(self._cluster.leaves) if mask >> i & 1]
        largest = max(leaves, key=self._estimator.rows)
        if not isinstance(largest, Scan):
            return False
        leading = largest.table.schema.key[0].name
        return any(name == leading and number in {c.id for c in keys.values()} for number, name in largest.source_names)

    def _filtered(self, mask: int) -> float:
        """Share of the rows left by runtime filters from relations that join later, since the aggregation lets such
        filters through."""
        share = 1.0
        for members in self._graph.classes:
            inside = [column for i, column in members if mask >> i & 1 and column.id in self._carriers[i]]
            if not inside or not has_exact_filter(inside[0].type):
                continue
            for i, column in members:
                if not mask >> i & 1:
                    rows = self._estimator.rows(self._graph.leaves[i])
                    kept = self._model.filter_share(KeyPair(inside[0], column), rows)
                    share *= kept if kept <= WORTH_FILTERING else 1.0
        return share

    def _joined(self, mask: int, early: frozenset[int]) -> float:
        """Cost of joining one row to all remaining relations and steps."""
        return JOIN * ((self._whole & ~mask).bit_count() + len(self._cluster.steps) - len(early))

    def _group_count(self, keys: Sequence[Expr], rows: float) -> float:
        """Number of groups; the keys of one relation have no more values together than it has rows."""
        by_leaf: dict[int, float] = {}
        for key in keys:
            owners = {self._owner.get(number, -1) for number in columns_in(key)}
            leaf = owners.pop() if len(owners) == 1 else -1
            by_leaf[leaf] = by_leaf.get(leaf, 1.0) * max(1.0, self._estimator.domain(key))
        product = 1.0
        for leaf, values in by_leaf.items():
            product *= values if leaf < 0 else min(values, max(1.0, self._estimator.rows(self._graph.leaves[leaf])))
        return distinct_among(product, rows)

    # ---- the plan ------------------------------------------------------------------------------------------------

    def _plan(self, choice: _Choice) -> Node:
        first = self._join([leaf for i, leaf in enumerate(self._cluster.leaves) if choice.mask >> i & 1])
        for i, step in enumerate(self._cluster.steps):
            first = self._stepped(first, step) if i in choice.early else first
        keys = tuple((column, expr) for expr, column in choice.keys.items())
        partials = tuple((column, call) for call, column in choice.split.partials.items())
        others = [leaf for i, leaf in enumerate(self._cluster.leaves) if not choice.mask >> i & 1]
        joined = self._join([Aggregate(first, keys, partials), *others], column_ids(first))
        for i, step in enumerate(self._cluster.steps):
            joined = joined if i in choice.early else self._stepped(joined, step)
        groups = tuple(
            (column, choice.keys.get(expr, expr))
            for (column, _), expr in zip(self._node.groups, self._groups, strict=True)
        )
        merged = Aggregate(joined, groups, tuple(choice.split.merging), self._node.sets, self._node.set_number)
        if merged.columns == self._node.columns:
            return merged
        values = dict(choice.split.values)
        return Project(merged, tuple((column, values.get(column, column)) for column in self._node.columns))

    def _join(self, leaves: list[Node], within: frozenset[int] = frozenset()) -> Node:
        """Inner join of some relations under all predicates that read only these, except those `within` one."""
        rest = [p for p in self._cluster.predicates if not (within and columns_in(p) <= within)]
        joined, waiting = leaves[0], leaves[1:]
        while True:
            ids = column_ids(joined)
            own = [part for part in rest if columns_in(part) <= ids]
            rest = [part for part in rest if part not in own]
            if isinstance(joined, Join) and joined.kind == "cross" and own:
                joined = Join("inner", joined.left, joined.right, all_of(own))
            else:
                joined = filtered(joined, all_of(own))
            if not waiting:
                return joined
            linked = {number for part in rest if columns_in(part) & ids for number in columns_in(part)}
            following = next((leaf for leaf in waiting if column_ids(leaf) & linked), waiting[0])
            waiting.remove(following)
            joined = Join("cross", joined, following)

    def _stepped(self, source: Node, step: Filter | Join) -> Node:
        condition = self._cluster.condition(step)
        if isinstance(step, Filter):
            return filtered(source, condition)
        return Join(step.kind, source, step.right, condition)


def _grouped(keys: Sequence[Expr], calls: Iterable[AggregateCall], groups: float, in_order: bool) -> float:
    """Cost of finding one row's group and accumulating the row."""
    parts = sum(1 for call in calls for part in each(call) if not isinstance(part, (Column, Literal)))
    if not keys:
        return CALL * parts
    if in_order or groups <= FEW_GROUPS:
        return (GROUP_IN_ORDER if in_order else GROUP) + KEY * (len(keys) - 1) + CALL * parts
    texts = sum(key.type.is_text for key in keys)
    more = sorted([TEXT_AMONG_MANY] * texts + [KEY_AMONG_MANY] * (len(keys) - texts))[1:]
    return GROUP_AMONG_MANY + sum(more) + CALL * parts
