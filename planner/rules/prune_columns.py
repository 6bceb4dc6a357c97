"""Drop columns that no node above reads, down to the scans.

A left join is dropped if no column of its right side is read and the right side has at most one row per key. Such a
join cannot add rows.

>>> from nyala.planner.testing import show
>>> print(show("SELECT n FROM (SELECT a, count(*) AS n, sum(k) AS s FROM t GROUP BY a) AS g", ["prune_columns"]))
Project n
  Project n
    Project count
      Aggregate by a: count(*)
        Scan t: a

Where repeated rows make no difference (under IN and EXISTS, DISTINCT, min and max), an inner join of which one side's
columns are not read is a semi-join, unless each row has one partner at most: it need not form all pairs.

>>> rules = ["pushdown_predicates", "prune_columns"]
>>> print(show("SELECT a FROM t WHERE a IN (SELECT x.b FROM u x, u y WHERE x.c = y.c)", rules))
Project a
  Join semi on a = b
    Scan t: a
    Project x.b
      Join semi on x.c = y.c
        Scan u x: b, c
        Scan u y: c
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...sql.constant_rows import ConstantRows
from ...sql.expressions import Aggregate as AggregateCall
from ...sql.expressions import conjuncts
from ...sql.functions import is_volatile
from ..algebra.logical import (
    Aggregate,
    FileScan,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Recursive,
    Scan,
    Series,
    SetOperation,
    Shared,
    SingleRow,
    Sort,
    TopRows,
    Values,
    Window,
)
from ..algebra.properties import LEFT_ONLY, unique_keys
from ..algebra.trees import column_equality, column_ids, columns_in, columns_in_all, node_expressions, rewrite_nodes
from ..context import Context

Wanted = frozenset[int]

_IGNORES_REPETITION = frozenset(("min", "max", "bool_and", "bool_or"))
"""Aggregates whose value is the same however often a row is repeated."""


def prune_columns(root: Node, context: Context) -> Node:
    """Drop columns that are not needed; the plan's own columns stay."""
    return _Pruner(context).prune(root, column_ids(root))


class _Pruner:
    """Prunes one plan and records in the context the positions of shared subplans that it reads."""

    def __init__(self, context: Context):
        self._used = context.used
        self._repeated = context.repeated

    def prune(self, node: Node, wanted: Wanted, as_set: bool = False) -> Node:
        """Return the node with at least the columns `wanted`; `as_set`: the number of equal rows makes no
        difference."""
        if isinstance(node, Scan):
            kept = tuple(c for c in node.output if c.id in wanted)
            return node if len(kept) == len(node.output) else replace(node, output=kept)
        if isinstance(node, FileScan):
            kept = tuple(c for c in node.output if c.id in wanted)
            return node if len(kept) == len(node.output) else replace(node, output=kept)
        if isinstance(node, Values):
            return _prune_values(node, wanted)
        if isinstance(node, Project):
            items = tuple(item for item in node.items if item[0].id in wanted)
            # Each row draws its own random().
            as_set = as_set and not any(is_volatile(expr) for _, expr in items)
            source = self.prune(node.source, columns_in_all(expr for _, expr in items), as_set)
            unchanged = source is node.source and len(items) == len(node.items)
            return node if unchanged else Project(source, items)
        if isinstance(node, Aggregate):
            return self.prune_aggregate(node, wanted)
        if isinstance(node, Join):
            return self.prune_join(node, wanted, as_set)
        if isinstance(node, Window):
            return self.prune_window(node, wanted)
        if isinstance(node, (Filter, Sort, Limit, TopRows, Series)):
            below = wanted | columns_in_all(node_expressions(node))
            keeps = isinstance(node, Filter) or (isinstance(node, Sort) and node.limit is None and node.offset is None)
            keeps = keeps and not any(map(is_volatile, node_expressions(node)))
            return node.map_children(lambda child: self.prune(child, below, as_set and keeps))
        if isinstance(node, SetOperation):
            return self.prune_set_operation(node, wanted, as_set)
        if isinstance(node, SingleRow):
            return node.map_children(lambda child: self.prune(child, wanted))
        if isinstance(node, Recursive):
            # The columns that one round needs of the previous one are not known without a fixed point: every column
            # stays.
            return node.map_children(lambda child: exactly(self.prune(child, column_ids(child)), _numbers(child)))
        if isinstance(node, Shared):
            places = {i for i, column in enumerate(node.output) if column.id in wanted}
            self._used.setdefault(node.key, set()).update(places)
            if not as_set:
                self._repeated.add(node.key)
        return node

    def prune_aggregate(self, node: Aggregate, wanted: Wanted) -> Node:
        calls = tuple(item for item in node.aggregates if item[0].id in wanted)
        kept = node if len(calls) == len(node.aggregates) else replace(node, aggregates=calls)
        below = columns_in_all(node_expressions(kept))
        as_set = all(_ignores_repetition(call) for _, call in kept.aggregates)
        as_set = as_set and not any(map(is_volatile, node_expressions(kept)))
        return kept.map_children(lambda child: self.prune(child, below, as_set))

    def prune_window(self, node: Window, wanted: Wanted) -> Node:
        calls = tuple(item for item in node.windows if item[0].id in wanted)
        if not calls:
            return self.prune(node.source, wanted)
        kept = node if len(calls) == len(node.windows) else Window(node.source, calls)
        below = (wanted | columns_in_all(node_expressions(kept))) - {column.id for column, _ in node.windows}
        return kept.map_children(lambda child: self.prune(child, below))

    def prune_join(self, node: Join, wanted: Wanted, as_set: bool) -> Node:
        if node.kind == "left" and not wanted & column_ids(node.right) and _finds_at_most_one(node):
            return self.prune(node.left, wanted, as_set)
        if as_set and node.kind == "inner":
            node = _as_semi_join(node, wanted)
        below = wanted | columns_in(node.condition)
        left = self.prune(node.left, below & column_ids(node.left), as_set)
        right_wanted = columns_in(node.condition) if node.kind in LEFT_ONLY else below
        # A second partner is an error for a scalar subquery.
        right_as_set = node.kind in LEFT_ONLY or (as_set and node.kind != "single")
        right = self.prune(node.right, right_wanted & column_ids(node.right), right_as_set)
        return node if left is node.left and right is node.right else replace(node, left=left, right=right)

    def prune_set_operation(self, node: SetOperation, wanted: Wanted, as_set: bool) -> Node:
        as_set = not node.all or (as_set and node.kind == "union")
        if node.kind != "union" or not node.all:
            # Rows are compared as a whole, so every column counts.
            wanted = column_ids(node)
        places = [i for i, column in enumerate(node.output) if column.id in wanted]
        sides = []
        for side in (node.left, node.right):
            columns = [side.columns[i] for i in places]
            kept = self.prune(side, frozenset(c.id for c in columns), as_set)
            sides.append(exactly(kept, [c.id for c in columns]))
        output = tuple(node.output[i] for i in places)
        if output == node.output and sides[0] is node.left and sides[1] is node.right:
            return node
        return SetOperation(node.kind, node.all, sides[0], sides[1], output)


def _numbers(node: Node) -> list[int]:
    return [column.id for column in node.columns]


def _prune_values(node: Values, wanted: Wanted) -> Node:
    places = [i for i, column in enumerate(node.output) if column.id in wanted]
    if len(places) == len(node.output):
        return node
    output = tuple(node.output[i] for i in places)
    if isinstance(node.rows, ConstantRows):
        return Values(output, node.rows.pick(places))
    return Values(output, tuple(tuple(row[i] for i in places) for row in node.rows))


def _ignores_repetition(call: AggregateCall) -> bool:
    return call.distinct or call.function in _IGNORES_REPETITION


def _as_semi_join(node: Join, wanted: Wanted) -> Join:
    """Return an inner join as a semi-join if one side only decides which rows exist, and may have several partners.

    With one partner at most the inner join has no more rows, and may be reordered with others.
    """
    if not any(column_equality(part) for part in conjuncts(node.condition)):
        return node
    for left, right in ((node.left, node.right), (node.right, node.left)):
        if not wanted & column_ids(right):
            semi = Join("semi", left, right, node.condition)
            return node if _finds_at_most_one(semi) else semi
    return node


def _finds_at_most_one(node: Join) -> bool:
    pairs = [pair for part in conjuncts(node.condition) if (pair := column_equality(part))]
    joined = {column.id for pair in pairs for column in pair}
    return any(key <= joined for key in unique_keys(node.right))


def exactly(node: Node, order: Iterable[int]) -> Node:
    """Return the node with just these columns in this order."""
    by_number = {column.id: column for column in node.columns}
    wanted = [by_number[number] for number in order]
    if [c.id for c in node.columns] == [c.id for c in wanted]:
        return node
    return Project(node, tuple((column, column) for column in wanted))


def pruned(plan: Node, wanted: Wanted, context: Context) -> Node:
    """Return any part of a plan without the columns that are neither requested nor needed for its rows."""
    return _Pruner(context).prune(plan, wanted)


def prune_shared(plan: Node, positions: Iterable[int], as_set: bool, context: Context) -> Node:
    """Return a shared subplan with only the columns at `positions`, which some use reads; `as_set`: the number of equal
    rows makes no difference to any use."""
    order = [plan.columns[i].id for i in sorted(positions)]
    return exactly(_Pruner(context).prune(plan, frozenset(order), as_set), order)


def narrow_uses(root: Node, positions: Mapping[int, Iterable[int]]) -> Node:
    """Return the plan with every use of a shared subplan narrowed to the columns that `prune_shared` kept."""

    def narrowed(node: Node) -> Node:
        if not isinstance(node, Shared) or node.key not in positions:
            return node
        return replace(node, output=tuple(node.output[i] for i in sorted(positions[node.key])))

    return rewrite_nodes(root, narrowed)
