"""EXPLAIN (FORMAT JSON): a physical plan as data, for tools.

    {"operator": "HashJoin", "text": "HashJoin inner on a = b", "role": null, "details": ["runtime filter on t.a"],
     "estimated_rows": 30000, "actual_rows": 29811, "seconds": 0.0123, "memory_bytes": 1200000, "inputs": [...]}

`role` is "probe" or "build" below a hash join; `actual_rows`, `seconds` and `memory_bytes` are present only after an
execution, `spilled_bytes` only if the operator spilled. A scan also names its "table", "alias", "columns", "tablets"
and "tablets_scanned". A shared subplan is shown at its first use; later uses hold `"shared": key` alone. With VERBOSE
the outermost operator has "rules": the logical plan after each rule that changed it, line by line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..algebra import physical
from ..algebra.physical import PhysicalNode
from ..query_plan import Plan
from .plan_text import Actual, Drawing, draw_logical, drawing_of, input_roles, tablets_of


def explain_json(plan: Plan, actuals: Mapping[int, Actual] | None = None, verbose: bool = False) -> str:
    """Return the plan as a JSON text, indented by two spaces.

    `verbose` includes the rules; it needs a plan made with `PlannerOptions(trace=True)`.
    """
    outline = _outline(plan.root, drawing_of(plan.root, actuals), None)
    if verbose:
        outline["rules"] = [{"rule": name, "plan": draw_logical(node).splitlines()} for name, node in plan.trace]
    return json.dumps(outline, indent=2)


def _outline(node: PhysicalNode, drawing: Drawing, role: str | None) -> dict[str, Any]:
    repeated = isinstance(node, physical.Shared) and not drawing.first_use(node)
    outline: dict[str, Any] = {"operator": type(node).__name__, "text": drawing.head(node)}
    if role is not None:
        outline["role"] = role
    if isinstance(node, physical.TableScan):
        scanned, tablets = tablets_of(node)
        outline |= {"table": node.table.name, "alias": node.alias, "columns": [c.name for c in node.columns]}
        outline |= {"tablets": tablets, "tablets_scanned": scanned}
    if isinstance(node, physical.Shared):
        outline["shared"] = node.key
    outline["details"] = list(drawing.details(node))
    outline["estimated_rows"] = max(0, round(node.estimate))
    actual = drawing.actual(node)
    if actual is not None:
        outline |= {"actual_rows": actual.rows, "seconds": round(actual.seconds, 6), "memory_bytes": actual.memory}
        if actual.spilled:
            outline["spilled_bytes"] = actual.spilled
    if not repeated:
        roles = input_roles(node)
        outline["inputs"] = [_outline(child, drawing, role) for role, child in zip(roles, node.children(), strict=True)]
    return outline
