"""The rules that improve a logical plan, one per file, in the order in which they run.

The reasons for the order:

1. `fold_constants` first: every later rule then compares literals instead of expressions.
2. `decorrelate_subqueries` before any rule that moves predicates: a correlated predicate may only move once it is a
   join's condition. After it, no expression holds a subquery. `inline_shared` then opens CTEs that are used once.
3. `factor_disjunctions` finds join conditions and single-table predicates inside ORs; `simplify_joins` makes inner
   joins of outer ones; `infer_predicates` copies predicates to equal columns. All three feed `pushdown_predicates`,
   and read its input most easily while predicates still stand in few places. `filter_shared` then finds the predicates
   above the uses of shared subplans.
4. `reduce_group_keys` and `aggregate_before_join` need the primary keys, so they come before `prune_columns` drops
   unread ones; `sum_offsets` and `sum_quotients` leave fewer and cheaper aggregates to the latter. `merge_projections`
   removes projections that they and the decorrelation leave, and `share_common_subplans` finds equal subplans while
   they still have all columns.
5. `aggregate_early` estimates the rows of joins of some relations, so predicates must be in the scans by then. It
   leaves two joins to be ordered instead of one.
6. `order_joins` last but for the limits: costs depend on predicates in the scans and on the number of columns read.
7. `push_limits` makes the top-Ns; `fetch_late` removes from their inputs columns that can be read afterwards.
"""

from __future__ import annotations

from collections.abc import Callable

from ...model.lazy_dataclass import dataclass
from ..algebra.logical import Node
from ..context import Context
from .aggregate_before_join import aggregate_before_join
from .aggregate_early import aggregate_early
from .decorrelate_subqueries import decorrelate_subqueries
from .factor_disjunctions import factor_disjunctions
from .fetch_late import fetch_late
from .filter_shared import filter_shared
from .fold_constants import fold_constants
from .infer_predicates import infer_predicates
from .inline_shared import inline_shared
from .merge_projections import merge_projections
from .order_joins import order_joins
from .prune_columns import prune_columns
from .push_limits import push_limits
from .pushdown_predicates import pushdown_predicates
from .reduce_group_keys import reduce_group_keys
from .share_common_subplans import share_common_subplans
from .simplify_joins import simplify_joins
from .sum_offsets import sum_offsets
from .sum_quotients import sum_quotients


@dataclass(frozen=True, slots=True)
class Rule:
    """A function from plan to equivalent plan; it returns the same object if it changes nothing.

    A `mandatory` rule cannot be disabled: without it no plan can be executed.
    """

    apply: Callable[[Node, Context], Node]
    mandatory: bool = False

    @property
    def name(self) -> str:
        """Name of the function, which EXPLAIN VERBOSE prints and `PlannerOptions.disabled_rules` takes."""
        return self.apply.__name__


RULES: tuple[Rule, ...] = (
    Rule(fold_constants),
    Rule(decorrelate_subqueries, mandatory=True),
    Rule(inline_shared),
    Rule(factor_disjunctions),
    Rule(simplify_joins),
    Rule(infer_predicates),
    Rule(pushdown_predicates),
    Rule(filter_shared),
    Rule(reduce_group_keys),
    Rule(sum_offsets),
    Rule(sum_quotients),
    Rule(aggregate_before_join),
    Rule(merge_projections),
    Rule(share_common_subplans),
    Rule(prune_columns),
    Rule(aggregate_early),
    Rule(order_joins),
    Rule(push_limits),
    Rule(fetch_late),
)

RULE_NAMES = tuple(rule.name for rule in RULES)

__all__ = ["RULES", "RULE_NAMES", "Rule"]
