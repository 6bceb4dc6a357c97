"""Comparisons of a join's condition that bound one side's values by the other's, as BETWEEN does.

The executor sorts the build side by one of them and searches, instead of checking all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model.lazy_dataclass import dataclass
from ...model.types import INTEGER_WIDTHS, DataType, Kind
from ...sql.expressions import Call, Column, Expr, columns_of, conjuncts

_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@dataclass(frozen=True, slots=True)
class RangeBound:
    """`build <= probe` if `is_upper`, else `build >= probe`; without equality if `is_strict`. Each expression reads
    columns of its side alone."""

    is_upper: bool
    is_strict: bool
    probe: Expr
    build: Expr


def range_bounds(condition: Expr | None, probe: Sequence[Column], build: Sequence[Column]) -> tuple[RangeBound, ...]:
    """Return the bounds among the parts of a condition over the columns of both sides."""
    probe_ids = frozenset(column.id for column in probe)
    build_ids = frozenset(column.id for column in build)
    bounds = []
    for part in conjuncts(condition):
        if not isinstance(part, Call) or part.function not in _MIRRORED:
            continue
        left, right = part.args
        function = part.function
        if columns_of(left) & build_ids:
            left, right, function = right, left, _MIRRORED[function]
        on_left, on_right = columns_of(left), columns_of(right)
        if not on_right or not (on_left <= probe_ids and on_right <= build_ids):
            continue
        if _family(left.type) is not None and _family(left.type) == _family(right.type):
            # probe > build bounds the build side's values from above.
            bounds.append(RangeBound(function in ("gt", "ge"), function in ("lt", "gt"), left, right))
    return tuple(bounds)


def _family(type_: DataType) -> tuple[str, int] | None:
    """Types of one family compare as their physical values do; None: those do not compare by themselves."""
    if type_.is_float:
        return "float", 0
    if type_.kind in INTEGER_WIDTHS:
        return "integer", 0
    if type_.is_decimal and not type_.is_wide:
        return "decimal", type_.scale or 0
    return (type_.kind.value, 0) if type_.kind in (Kind.DATE, Kind.TIMESTAMP) else None
