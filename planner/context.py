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


@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """Options of the planner.

    Parameters
    ----------
    disabled_rules : frozenset of str
        Names of rules to leave out; tests prove each harmless that way. Mandatory rules run regardless.
    trace : bool
        Keep the logical plan after each rule that changed it, for EXPLAIN VERBOSE.
    merge_joins : str
        "auto": where they are expected to be cheaper than hash joins; "always": wherever they are possible; "never".
    check : bool
        Check the plan's invariants after every rule; an `InternalError` names the rule that broke one.
    fetch_late : bool
        True if a table may be read a second time by the keys of rows that a first scan selected (`rules.fetch_late`).
        False where scans of one statement may read different snapshots (READ_LATEST of a cluster), and for engines that
        cannot look rows up by key.
    """

    disabled_rules: frozenset[str] = frozenset()
    trace: bool = False
    check: bool = False
    merge_joins: str = "auto"
    fetch_late: bool = True


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
