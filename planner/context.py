"""Context of one planning: options, statistics, fresh column numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from ..model.lazy_dataclass import dataclass
from ..sql.bound import Query
from ..sql.expressions import Expr
from .algebra.logical import Node
from .algebra.trees import Numbers
from .estimates.cardinality import Estimator
from .query_plan import PlannerOptions


@dataclass(slots=True)
class Context:
    """State of one planning, passed to every rule."""

    estimator: Estimator
    numbers: Numbers
    options: PlannerOptions = field(default_factory=PlannerOptions)
    check: Callable[[], None] = lambda: None
    """Called between the steps of planning; an exception that it raises ends the planning."""
    shared_queries: dict[int, tuple[Query, int, Node]] = field(default_factory=dict)
    """CTEs built so far: per id of the bound query, that query, its key and its plan."""
    uses: dict[int, int] = field(default_factory=dict)
    """Number of uses of each shared subplan in the statement's plans."""
    used: dict[int, set[int]] = field(default_factory=dict)
    """Positions of each shared subplan's columns that at least one use reads, as `prune_columns` finds them."""
    repeated: set[int] = field(default_factory=set)
    """Keys of shared subplans of which some use depends on how often a row is repeated, as `prune_columns` finds."""
    use_conditions: dict[int, list[tuple[Expr, ...]]] = field(default_factory=dict)
    """Conditions that each use of a shared subplan puts on its rows, as conjunctions found by `filter_shared`."""
    _keys: int = 0

    def share_key(self) -> int:
        """A fresh key for a `Shared` subplan."""
        self._keys += 1
        return self._keys
