"""Push limits down: a LIMIT over a sort becomes a top-N, a LIMIT over a projection goes below it. A condition that
bounds row_number() or rank() from above leaves the first rows of each partition to the window.

>>> from nyala.planner.testing import show
>>> print(show("SELECT a FROM t ORDER BY a LIMIT 3", ["push_limits"]))
Sort a first 3
  Project a
    Scan t: k, a
"""

from __future__ import annotations

from typing import Final

from ...model.types import BIGINT
from ...sql.expressions import Call, Column, Expr, Literal, conjuncts
from ...sql.functions import is_volatile
from ..algebra.logical import Filter, Limit, Node, Project, SetOperation, Sort, TopRows, Window
from ..algebra.trees import rewrite_nodes
from ..context import Context

_WORTH_DROPPING: Final = 8
"""Factor: the first rows of the partitions are at most this part of all rows."""


def push_limits(root: Node, context: Context) -> Node:
    """Move limits down."""
    return rewrite_nodes(rewrite_nodes(root, _pushed), lambda node: _first_of_partitions(node, context))


def _pushed(node: Node) -> Node:
    if not isinstance(node, Limit):
        return node
    source = node.source
    if isinstance(source, Sort) and source.limit is None and source.offset is None:
        return Sort(source.source, source.order, node.limit, node.offset)
    if isinstance(source, Project):
        return Project(_pushed(Limit(source.source, node.limit, node.offset)), source.items)
    if isinstance(source, SetOperation) and source.kind == "union" and source.all:
        return _limit_branches(node, source)
    return node


def _limit_branches(node: Limit, union: SetOperation) -> Node:
    """Limit each branch of a union: none needs to produce more rows than the whole."""
    limit = node.limit
    if not isinstance(limit, Literal) or limit.value is None or node.offset is not None:
        return node
    if isinstance(union.left, (Limit, Sort)):
        return node
    left, right = (_pushed(Limit(side, limit)) for side in (union.left, union.right))
    return Limit(SetOperation("union", True, left, right, union.output), limit)


def _first_of_partitions(node: Node, context: Context) -> Node:
    """Drop rows below a window whose numbers a filter above refuses: those that it keeps have the same numbers then."""
    if not isinstance(node, Filter) or not isinstance(window := node.source, Window):
        return node
    call, functions = window.windows[0][1], {call.function for _, call in window.windows}
    if functions not in ({"row_number"}, {"rank"}) or not call.order or isinstance(window.source, TopRows | Sort):
        return node
    groups = tuple(key for key in call.partition if isinstance(key, Column))
    if len(groups) < len(call.partition) or any(is_volatile(item.expr) for item in call.order):
        return node
    numbers = {column.id for column, _ in window.windows}
    bounds = [bound for part in conjuncts(node.predicate) if (bound := _bound(part, numbers)) is not None]
    rows = context.estimator.rows
    if not bounds or min(bounds) < 1 or _WORTH_DROPPING * rows(node) > rows(window.source):
        return node
    limit = Literal(BIGINT, False, min(bounds))
    first = TopRows(window.source, groups, call.order, limit, None, functions == {"rank"})
    return Filter(Window(first, window.windows), node.predicate)


def _bound(condition: Expr, numbers: set[int]) -> int | None:
    """The greatest number that a condition admits; None if it bounds none."""
    if not isinstance(condition, Call) or condition.function not in ("le", "lt", "eq"):
        return None
    column, value = condition.args
    if not isinstance(column, Column) or column.id not in numbers:
        return None
    if not isinstance(value, Literal) or not value.type.is_integer or value.value is None:
        return None
    return int(value.value) - (condition.function == "lt")
