"""A query's plan and the options that it is made with: what callers of the planner hold, without the planner itself."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ..model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ..sql.expressions import Column
    from .algebra.logical import Node
    from .algebra.physical import PhysicalNode


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


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan that the executor can run, once `bind_parameters` has bound its parameters.

    Parameters
    ----------
    root : PhysicalNode
        Its columns are the query's visible columns, in order.
    columns : tuple of Column
        The same columns.
    logical : Node
        The logical plan after all rules.
    trace : tuple of (str, Node)
        With `PlannerOptions.trace`: the logical plan as built, then after each rule that changed it.
    deep : bool
        True if the plan is nested so deeply that it runs on a deep stack (`sql.deep_stack`).
    """

    root: PhysicalNode
    columns: tuple[Column, ...]
    logical: Node
    trace: tuple[tuple[str, Node], ...] = ()
    deep: bool = field(default=False, compare=False, repr=False)
