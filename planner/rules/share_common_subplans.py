"""Run a subplan only once if the plan contains it more than once.

Two subplans are equal if they differ only in the numbers of their columns: they read the same tables under the same
conditions and apply the same operators in the same order. TPC-H's Q11 sums the same join by part and in all. Only joins
and aggregations are worth sharing. A shared subplan is kept in memory and takes no runtime filters from the joins above
it. So the plan is costed both ways, with its joins ordered, and the cheaper one is used.

>>> from nyala.planner.testing import show
>>> query = '''SELECT a, max(c) FROM t, u WHERE a = b AND k < 9 GROUP BY a
...     HAVING max(c) > (SELECT min(c) FROM t, u WHERE a = b AND k < 9)'''
>>> print(show(query, ["pushdown_predicates", "share_common_subplans"]))
Project a, max
  Join inner on max > min
    Aggregate by a: max(c)
      Shared 1 as k, a, b, c
    Project min
      Aggregate: min(c)
        Shared 1 as k, a, b, c
Shared 1:
  Join inner on a = b
    Scan t: k, a WHERE k < 9
    Scan u: b, c
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

from ...sql.expressions import Column, Expr
from ...sql.functions import is_volatile
from ..algebra.logical import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Node,
    Project,
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
from ..algebra.trees import node_expressions, nodes, rewrite, rewrite_nodes
from ..context import Context
from ..estimates.cost import READ, CostModel
from .order_joins import order_joins


def share_common_subplans(root: Node, context: Context) -> Node:
    """Replace equal subplans with uses of one, if that is cheaper."""
    tables = Counter(node.table.id for node in nodes(root) if isinstance(node, Scan))
    if not any(count > 1 for count in tables.values()):
        return root  # nearly all queries
    shapes: Counter[Hashable] = Counter()
    _count_shapes(root, shapes)
    if not any(count > 1 for count in shapes.values()):
        return root
    numbering = _Numbering()
    counts = Counter(number for _, number in numbering.all(root) if number is not None)
    if not any(count > 1 for count in counts.values()):
        return root
    cost: float | None = None
    for number in _candidates(root, numbering, counts):
        shared = _shared(root, number, numbering, context)
        if shared is root:
            continue  # it lies within one that is shared already
        if cost is None:
            cost = _cost(root, context)
        if (with_it := _cost(shared, context)) < cost:
            root, cost = shared, with_it
    return root


def _count_shapes(node: Node, counts: Counter[Hashable]) -> tuple[str, ...]:
    """Count subplans that are worth sharing by properties that equal subplans have in common; return the tables
    below."""
    tables: tuple[str, ...] = (node.table.id,) if isinstance(node, Scan) else ()
    for child in node.children():
        tables += _count_shapes(child, counts)
    if isinstance(node, (Join, Aggregate, Window)):
        counts[type(node), _traits(node), tables] += 1
    return tables


def _candidates(root: Node, numbering: _Numbering, counts: Counter[int]) -> list[int]:
    """Numbers of repeated subplans that are candidates for sharing, from the top down."""
    found: dict[int, None] = {}
    for node, number in numbering.all(root):
        if number is not None and counts[number] > 1 and _is_costly(node):
            found[number] = None
    return list(found)


def _is_costly(node: Node) -> bool:
    """True if the node joins or aggregates, looking below nodes that cost next to nothing."""
    while isinstance(node, (Project, Filter)):
        node = node.source
    return isinstance(node, (Join, Aggregate, Window))


def _shared(root: Node, number: int, numbering: _Numbering, context: Context) -> Node:
    """Return the plan with every subplan of that number as a use of the first."""
    uses = sum(1 for _, other in numbering.all(root) if other == number)
    if uses < 2:
        return root
    key = context.share_key()
    first: list[Node] = []

    def changed(node: Node) -> Node:
        if numbering.of(node) != number:
            return node.map_children(changed)
        if not first:
            first.append(node)
        return Shared(key, first[0], node.columns)

    return changed(root)


def _cost(root: Node, context: Context) -> float:
    """Cost of the plan once its joins are ordered, each shared subplan included once."""
    model = CostModel(context.estimator)
    sources: dict[int, Node] = {}
    total = model.cost(order_joins(_with_leaves(root, sources, context), context)).total
    for source in sources.values():
        kept = context.estimator.rows(source) * READ * (1 + len(source.columns))
        total += kept + model.cost(order_joins(source, context)).total
    return total


def _with_leaves(root: Node, sources: dict[int, Node], context: Context) -> Node:
    """Replace each use of a shared subplan with a leaf of as many rows; the subplans are added to `sources`."""

    def leaf(node: Node) -> Node:
        if not isinstance(node, Shared):
            return node
        rows = context.estimator.rows(node)
        if node.key not in sources:
            sources[node.key] = node.source  # before its own inputs, which may use others
            sources[node.key] = _with_leaves(node.source, sources, context)
        standing_in = Values(node.output, ())
        context.estimator.remember(standing_in, rows)
        return standing_in

    return rewrite_nodes(root, leaf)


# ---- which subplans are the same -------------------------------------------------------------------------------------


class _Numbering:
    """Assigns equal numbers to equal subplans (hash consing), None to those that cannot be shared."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}
        self._numbers: dict[int, int | None] = {}

    def all(self, root: Node) -> Iterator[tuple[Node, int | None]]:
        """Yield every node with its number, parents first."""
        for node in nodes(root):
            yield node, self.of(node)

    def of(self, node: Node) -> int | None:
        """Return a node's number."""
        if node.number not in self._numbers:
            shape = self._shape(node)
            self._numbers[node.number] = None if shape is None else self._known.setdefault(shape, len(self._known))
        return self._numbers[node.number]

    def _shape(self, node: Node) -> Hashable | None:
        """Structural key of a node, with its inputs' numbers for its inputs and positions for columns."""
        traits = _traits(node)
        below = [self.of(child) for child in node.children()]
        exprs = node_expressions(node)
        if traits is None or None in below or any(is_volatile(expr) for expr in exprs):
            return None
        if isinstance(node, Scan):
            places = {number: i for i, (number, _) in enumerate(node.source_names)}
        else:
            inputs = (column.id for child in node.children() for column in child.columns)
            places = {number: i for i, number in enumerate(inputs)}
        return (type(node), traits, tuple(below), tuple(_placed(expr, places) for expr in exprs))


def _placed(expr: Expr, places: dict[int, int]) -> Expr:
    def placed(part: Expr) -> Expr:
        return Column(part.type, part.nullable, places.get(part.id, -1), "") if isinstance(part, Column) else part

    return rewrite(expr, placed)


def _traits(node: Node) -> Hashable | None:
    """Properties of a node other than its inputs and expressions; None for a node that cannot be shared."""
    if isinstance(node, Scan):
        names = dict(node.source_names)
        return node.table.id, node.time, tuple(names[column.id] for column in node.output), len(node.predicates)
    if isinstance(node, Join):
        return node.kind, node.condition is not None
    if isinstance(node, Aggregate):
        return len(node.groups), node.sets, node.set_number is not None
    if isinstance(node, (Sort, TopRows)):
        flags = tuple((item.descending, item.nulls_first) for item in node.order)
        extra = (node.groups and len(node.groups), node.ties) if isinstance(node, TopRows) else ()
        return flags, node.limit is not None, node.offset is not None, extra
    if isinstance(node, Limit):
        return node.limit is not None, node.offset is not None
    if isinstance(node, SetOperation):
        return node.kind, node.all
    if isinstance(node, Shared):
        return node.key
    if isinstance(node, Values):
        return len(node.rows), tuple(column.type for column in node.output)
    return type(node).__name__ if isinstance(node, (Filter, Project, Window, SingleRow, Series)) else None
