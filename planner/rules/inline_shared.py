"""Inline a shared subplan that is used once, so that the other rules can reach it.

>>> from nyala.planner.testing import show
>>> query = "WITH c AS (SELECT a FROM t) SELECT x.a FROM c AS x, c AS y WHERE x.a = 1 AND y.a = 2"
>>> print(show(query, ["inline_shared"]))
Project a
  Filter a = 1 AND a = 2
    Join cross
      Shared 1 as a
      Shared 1 as a
Shared 1:
  Project a
    Scan t: k, a
"""

from __future__ import annotations

from ..algebra.logical import Node, Project, Shared
from ..algebra.trees import rewrite_nodes
from ..context import Context


def inline_shared(root: Node, context: Context) -> Node:
    """Replace single uses of shared subplans by the subplans."""

    def inlined(node: Node) -> Node:
        if not isinstance(node, Shared) or context.uses.get(node.key, 0) != 1:
            return node
        source = inline_shared(node.source, context)
        return Project(source, tuple(zip(node.output, source.columns, strict=True)))

    return rewrite_nodes(root, inlined)
