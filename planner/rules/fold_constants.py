"""Evaluate constant expressions once, and remove conditions and inputs that can never be true.

>>> from nyala.planner.testing import show
>>> print(show("SELECT a FROM t WHERE a > 1 + 2 AND (1 = 1 OR a = 7)", ["fold_constants"]))
Project a
  Filter a > 3
    Scan t: k, a
>>> print(show("SELECT a FROM t WHERE 1 > 2", ["fold_constants"]))
Project a
  Values: no rows of k, a
"""

from __future__ import annotations

from dataclasses import replace

from ...sql.expressions import Literal
from ..algebra.logical import Filter, Join, Node, Values
from ..algebra.trees import TRUE, map_expressions, rewrite_nodes
from ..context import Context
from ..fold import fold, fold_predicate


def fold_constants(root: Node, context: Context) -> Node:
    """Evaluate constant expressions in every node."""
    return rewrite_nodes(root, _folded)


def _folded(node: Node) -> Node:
    if isinstance(node, Filter):
        predicate = fold_predicate(node.predicate)
        if predicate == TRUE:
            return node.source
        if isinstance(predicate, Literal):
            return Values(node.columns, ())
        return node if predicate is node.predicate else Filter(node.source, predicate)
    if isinstance(node, Join) and node.condition is not None:
        condition = fold(node.condition)
        if condition == TRUE and node.kind == "inner":
            return Join("cross", node.left, node.right)
        return node if condition is node.condition else replace(node, condition=condition)
    return map_expressions(node, fold)
