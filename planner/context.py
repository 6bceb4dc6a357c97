"""What a plan is made with: options, statistics, fresh column numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ..model.schema import Table
from ..model.store import TableStatistics
from ..sql.bound import Query
from ..sql.expressions import Expr
from .algebra.logical import Node
from .algebra.trees import Numbers
from .estimates.cardinality import Estimator


class StatisticsSource(Protocol):
    """The part of a `model.store.Store` that planning needs."""

    def statistics(self, table: Table) -> TableStatistics:
        """What is known of a table's rows and columns."""


@dataclass(frozen=True, slots=True)
class PlannerOptions:
    """How to plan.

    Parameters
    ----------
    disabled_rules : frozenset of str
        Names of rules to leave out (tests prove each harmless that way). Mandatory rules run regardless.
    trace : bool
        Keep the logical plan after each rule that changed it, for EXPLAIN VERBOSE.
    merge_joins : str
        "auto": where they are expected to be cheaper than hash joins; "always": wherever they can be; "never".
    check : bool
        Check the plan's invariants after every rule; an `InternalError` names the rule that broke one.
    fetch_late : bool
        May a table be read a second time, by the keys of rows that a first scan has found (`rules.fetch_late`)? Not
        where scans of one statement may read different moments (READ_LATEST of a cluster), nor for engines that cannot
        look rows up by key.
    """

    disabled_rules: frozenset[str] = frozenset()
    trace: bool = False
    check: bool = False
    merge_joins: str = "auto"
    fetch_late: bool = True


@dataclass(slots=True)
class Context:
    """Handed to every rule of one planning."""

    estimator: Estimator
    numbers: Numbers
    options: PlannerOptions = field(default_factory=PlannerOptions)
    check: Callable[[], None] = lambda: None
    """Called between the steps of the planning; what it raises ends it."""
    shared_queries: dict[int, tuple[Query, int, Node]] = field(default_factory=dict)
    """CTEs built so far: per id of the bound query, that query, its key and its plan."""
    uses: dict[int, int] = field(default_factory=dict)
    """How often each shared subplan stands in the statement's plans."""
    used: dict[int, set[int]] = field(default_factory=dict)
    """Positions of each shared subplan's columns that some use reads, as `prune_columns` finds them."""
    wishes: dict[int, list[tuple[Expr, ...]]] = field(default_factory=dict)
    """What each use of a shared subplan asks of its rows, as `filter_shared` finds it: conjunctions."""
    _keys: int = 0

    def share_key(self) -> int:
        """A fresh key for a `Shared` subplan."""
        self._keys += 1
        return self._keys
