"""Join hints for Spark, from the planner's estimates.

Spark has no size estimates for relations from Python: it takes each for a range of a few numbers, and would broadcast
all of lineitem to every executor. So every join with keys gets a hint:

    a side of at most `BROADCAST_BYTES`     broadcast it, if the join's kind allows building that side
    a side whose hash table fits memory     shuffle both sides, build a hash table of it
    any other                               shuffle both sides, sort and merge them
"""

from __future__ import annotations

from typing import Final

from ...planner.algebra.logical import Aggregate, Filter, Join, Node, Project, Shared, SingleRow
from ...planner.estimates.cardinality import Estimator
from ...planner.estimates.cost import key_pairs
from ...sql.expressions import Column
from .relations.cutting import Cutting

BROADCAST_BYTES: Final = 24 << 20
HASHED_BYTES: Final = 128 << 20
"""Bytes per task: Spark does not spill such a hash table."""
_FIXED, _TEXT = 8, 32
"""Bytes of a value in one of Spark's rows."""
_BOTH: Final = ("right", "left")
_BUILT: Final = {"inner": _BOTH, "cross": _BOTH, "right": ("left",)}
"""The sides that may be broadcast; for other kinds the right one."""
_HASHED: Final = {"inner": _BOTH, "left": _BOTH, "right": _BOTH, "full": _BOTH}


class Hints:
    """Hints for the joins of one plan.

    Parameters
    ----------
    shares : mapping of node id to float
        The fraction of a relation's rows that pass the runtime filters.
    tasks : int
        The number of tasks among which a shuffled side is divided.
    """

    def __init__(self, estimator: Estimator, cutting: Cutting, shares: dict[int, float], tasks: int):
        self._estimator = estimator
        self._cutting = cutting
        self._shares = shares
        self._tasks = tasks
        self._known: dict[int, float] = {}

    def __call__(self, join: Join) -> str | None:
        """The hint for a join, as `translate` takes it."""
        if join.kind == "null_anti":
            return None  # Spark has one strategy for these
        sizes = {"left": self.size(join.left), "right": self.size(join.right)}
        small = min(_BUILT.get(join.kind, ("right",)), key=lambda side: sizes[side])
        if join.kind != "full" and sizes[small] <= BROADCAST_BYTES:
            return f"broadcast {small}"
        if not key_pairs(join):
            return f"broadcast {small}" if join.kind in ("semi", "anti", "left", "single") else None
        built = min(_HASHED.get(join.kind, ("right",)), key=lambda side: sizes[side])
        return f"{'shuffle_hash' if sizes[built] <= HASHED_BYTES * self._tasks else 'merge'} {built}"

    def size(self, node: Node) -> float:
        """Estimated bytes of a node's rows in Spark."""
        return self.rows(node) * width(node.columns)

    def rows(self, node: Node) -> float:
        """Expected rows after runtime filters."""
        known = self._known.get(node.number)
        if known is None:
            known = self._known[node.number] = self._rows(node)
        return known

    def _rows(self, node: Node) -> float:
        rows = self._estimator.rows(node)
        if self._cutting.at(node) is not None:
            return rows * self._shares.get(node.number, 1.0)
        if isinstance(node, (Filter, Project, Aggregate, SingleRow, Shared)):
            source = node.source
            whole = max(1.0, self._estimator.rows(source))
            below = self.rows(source)
            return min(rows, below) if isinstance(node, Aggregate) else rows * min(1.0, below / whole)
        if isinstance(node, Join) and node.kind in ("semi", "anti", "null_anti"):
            return min(rows, self.rows(node.left))
        return rows


def width(columns: tuple[Column, ...]) -> int:
    """Estimated bytes of one of Spark's rows."""
    return 16 + sum(_TEXT if column.type.is_text else _FIXED for column in columns)
