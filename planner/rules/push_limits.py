"""Push limits down: a LIMIT over a sort becomes a top-N, a LIMIT over a projection goes below it.

>>> from nyala.planner.testing import show
>>> print(show("SELECT a FROM t ORDER BY a LIMIT 3", ["push_limits"]))
Sort a first 3
  Project a
    Scan t: k, a
"""

from __future__ import annotations

from ...sql.expressions import Literal
from ..algebra.logical import Limit, Node, Project, SetOperation, Sort
from ..algebra.trees import rewrite_nodes
from ..context import Context


def push_limits(root: Node, context: Context) -> Node:
    """Move limits down."""
    return rewrite_nodes(root, _pushed)


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
