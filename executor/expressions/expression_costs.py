"""Cost and fallibility of an expression, summed once per node; compilation depends on both."""

from __future__ import annotations

from typing import Final, NamedTuple

from ...sql.expressions import Call, Case, Cast, Column, Expr, InValues, Literal, summary, walk
from ...sql.functions import OPERATIONS


class Summary(NamedTuple):
    """Properties of an expression that its compilation depends on. `column`: the only column that it reads, None for
    none, SEVERAL."""

    column: Column | str | None
    cost: int
    fallible: bool
    volatile: bool


SEVERAL: Final = "several"


def summarized(expr: Expr) -> Summary:
    try:
        found: Summary = expr._summary
    except AttributeError:
        found = summary(expr, _summed)
    return found


def _summed(node: Expr, parts: tuple[Summary, ...]) -> Summary:
    if isinstance(node, Column):
        return Summary(node, _own_cost(node), False, False)
    used = {part.column.id if isinstance(part.column, Column) else part.column: part.column for part in parts}
    used.pop(None, None)
    return Summary(
        None if not used else next(iter(used.values())) if len(used) == 1 else SEVERAL,
        _own_cost(node) + sum(part.cost for part in parts),
        _may_refuse(node) or any(part.fallible for part in parts),
        (isinstance(node, Call) and OPERATIONS[node.function].volatile) or any(part.volatile for part in parts),
    )


def is_fallible(expr: Expr) -> bool:
    """True if the expression may fail for a row."""
    return summarized(expr).fallible


def fails_rarely(expr: Expr) -> bool:
    """True if the expression fails only for numbers near the limits of their type, or that another type cannot hold."""
    return all(_fails_at_limits(node) for node in walk(expr) if _may_refuse(node))


def _fails_at_limits(node: Expr) -> bool:
    if isinstance(node, Cast):
        return node.type.is_numeric and node.arg.type.is_numeric
    operation = OPERATIONS[node.function] if isinstance(node, Call) else None
    return operation is not None and (operation.overflows or operation.fails_at_limits_only)


def _may_refuse(node: Expr) -> bool:
    if isinstance(node, Cast):
        return True
    if not isinstance(node, Call):
        return False
    operation = OPERATIONS[node.function]
    if operation.overflows:
        # The binder made a decimal of fewer than 38 digits wide enough.
        return not (node.type.is_decimal and (node.type.precision or 38) < 38)
    if node.function in ("like", "ilike"):
        pattern = node.args[1]
        return not isinstance(pattern, Literal) or str(pattern.value).endswith("\\")
    if node.function in ("div", "mod") and node.type.is_integer:
        # Only 0 fails; the quotient of the least integer by -1 overflows.
        divisor = node.args[1]
        return not (isinstance(divisor, Literal) and divisor.value is not None and divisor.value not in (0, -1))
    return operation.fallible


def cost(expr: Expr) -> int:
    """Approximate number of passes over its rows that an expression takes."""
    return summarized(expr).cost


def _own_cost(node: Expr) -> int:
    if isinstance(node, Call):
        return 1 if OPERATIONS[node.function].cheap else 4
    if isinstance(node, Case | InValues):
        return 2
    return 3 if isinstance(node, Cast) or (isinstance(node, Column) and node.type.is_text) else 0
