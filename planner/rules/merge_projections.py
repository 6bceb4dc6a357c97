"""Merge consecutive projections, and drop those that change nothing.

Derived tables and views leave a projection each. An expression is moved up only if it is read once, so that nothing is
computed twice. If the order of columns matters (at the top, below set operations), a projection stays.

>>> from nyala.planner.testing import show
>>> print(show("SELECT s + 1 AS r FROM (SELECT a + k AS s FROM t) AS d", ["merge_projections"]))
Project a + k + 1
  Scan t: k, a
"""

from __future__ import annotations

from collections import Counter

from ...sql.expressions import Column, Literal
from ..algebra.logical import Aggregate, Filter, Join, Node, Project, Window
from ..algebra.trees import column_ids, each, node_expressions, substitute
from ..context import Context

UNORDERED = (Filter, Join, Aggregate, Project, Window)
"""Nodes that refer to their input's columns by number, in any order."""


def merge_projections(root: Node, context: Context) -> Node:
    """Merge and drop projections."""
    return _merged(root)


def _merged(node: Node) -> Node:
    node = node.map_children(_merged)
    if isinstance(node, UNORDERED):
        node = node.map_children(lambda child: _without_identity(child, node))
    if isinstance(node, Project) and isinstance(node.source, Project):
        return _joined(node, node.source)
    return node


def _without_identity(child: Node, parent: Node) -> Node:
    """Return the child's source if the child only passes all columns on; a join's sides keep theirs apart anyway."""
    while isinstance(child, Project) and all(isinstance(e, Column) and e.id == c.id for c, e in child.items):
        if len(child.items) != len(child.source.columns) or not isinstance(parent, UNORDERED):
            break
        child = child.source
    return child


def _joined(outer: Project, inner: Project) -> Node:
    uses = Counter(part.id for expr in node_expressions(outer) for part in each(expr) if isinstance(part, Column))
    made = column_ids(inner)
    for column, expr in inner.items:
        if not isinstance(expr, (Column, Literal)) and uses[column.id] > 1:
            return outer
    mapping = {column.id: expr for column, expr in inner.items if column.id in made}
    return _merged_once(Project(inner.source, tuple((c, substitute(e, mapping)) for c, e in outer.items)))


def _merged_once(node: Project) -> Node:
    return _joined(node, node.source) if isinstance(node.source, Project) else node
