"""Plans of EXISTS subqueries without the nodes that do not affect whether there are rows."""

from __future__ import annotations

from ...sql.expressions import Expr, Literal
from ..algebra.logical import Aggregate, Limit, Node, Project, Sort, Window
from ..algebra.properties import exactly_one_row


def only_rows(plan: Node) -> Node | None:
    """Return a plan that produces rows exactly if `plan` does, without nodes that do not affect this; None if it always
    produces one."""
    while _keeps_existence(plan):
        plan = plan.children()[0]
    return None if exactly_one_row(plan) else plan


def _keeps_existence(plan: Node) -> bool:
    """True if the node produces rows exactly if its input does."""
    if isinstance(plan, Sort):
        return plan.limit is None and plan.offset is None
    if isinstance(plan, Limit):
        return plan.offset is None and _at_least_one(plan.limit)
    return isinstance(plan, Project | Window) or (isinstance(plan, Aggregate) and not plan.is_total)


def _at_least_one(limit: Expr | None) -> bool:
    return limit is None or (isinstance(limit, Literal) and (limit.value is None or limit.value > 0))
