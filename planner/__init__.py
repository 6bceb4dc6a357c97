"""Planning: turns a bound query into a tree of operators that the executor runs.

    Query ──► logical_builder ──► logical nodes ──► rules/ ──► logical nodes ──► physical/ ──► physical nodes
    (sql)                           (algebra/)                       ▲                           (algebra/)
                                                                 estimates/
                                                                     ▲
                                                      statistics of the store's tables

The life of a plan:

1. `plan.plan_query` makes a `context.Context`: estimates from the store's statistics, fresh column numbers, options.
2. `logical_builder.Builder` turns the query into logical nodes clause by clause: grouping sets, windows
   (`algebra.windows`), recursion, files and series are nodes of their own. Subqueries in expressions stay expressions;
   a CTE or view used more than once becomes an `algebra.logical.Shared` subplan.
3. `plan.Pipeline` applies `rules.RULES` one after the other, to the main plan and to each shared subplan.
   `rules.decorrelate_subqueries` makes joins of all subqueries and of LATERAL with the machinery of
   `decorrelation.pull_predicates` and `decorrelation.inject_domain`.
4. The rules prove properties with `algebra.properties` (NULL-free columns, unique keys, functional dependencies) and
   estimate the rest with `estimates.cardinality.Estimator`.
5. `rules.order_joins` takes each cluster of inner joins to `physical.join_order.best_tree`, which weighs trees with
   `estimates.cost.CostModel`; runtime filters are part of the cost.
6. `physical.physical_planner.PhysicalPlanner` picks an operator for each node: build sides of joins, predicates
   evaluated on encoded pages (`scans.scan_predicates.extract`), join keys that filter a scan at run time.
   `share_small_builds` makes joins with the same small build side share one.
7. `prepared.plan_template.PlanTemplate` keeps a finished plan for other values of its parameters; `bind_parameters`
   puts them in.
8. `explaining.plan_text.explain` draws it, after an execution with measured rows next to estimated ones.

Plans are frozen values without behaviour: they may be cached, and several threads may run one concurrently.
`algebra.invariants.check_plan` checks the invariants that every rule preserves.
"""

from typing import TYPE_CHECKING

from ..model.lazy_names import imported_at_first_use
from .query_plan import Plan, PlannerOptions

if TYPE_CHECKING:
    from .explaining.plan_json import explain_json
    from .explaining.plan_text import Actual, explain
    from .plan import plan_query
    from .prepared.plan_template import PlanTemplate, bind_parameters

__all__ = [
    "Actual",
    "Plan",
    "PlanTemplate",
    "PlannerOptions",
    "bind_parameters",
    "explain",
    "explain_json",
    "plan_query",
]

# A row by its key needs no plan.
__getattr__ = imported_at_first_use(
    __name__,
    {
        "Actual": "explaining.plan_text",
        "PlanTemplate": "prepared.plan_template",
        "bind_parameters": "prepared.plan_template",
        "explain": "explaining.plan_text",
        "explain_json": "explaining.plan_json",
        "plan_query": "plan",
    },
)
