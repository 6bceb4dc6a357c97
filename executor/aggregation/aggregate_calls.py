"""Decomposition of SQL's aggregate functions into accumulators, and their values from the accumulators' states.

    Aggregate ── parts_of ──► Parts ── accumulator_of ──► Accumulators ── states ── result_of ──► values

Equal parts are computed once: `avg(x)` and `sum(x)` share a sum, all statistics of one pair of numbers their moments.
`aggregate_rows` performs all steps for existing rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...errors import InternalError, NumericOutOfRange
from ...model.lazy_dataclass import dataclass
from ...model.types import BIGINT, BOOLEAN, DataType, Kind
from ...model.vectors.vector import Array, Const, Flat, LazyColumn, Vector
from ...sql.expressions import Aggregate, Column, Expr
from ...sql.functions import AGGREGATES
from ..kernels.groups.segments import Segments
from ..kernels.numbers.arithmetic import divide_integers, refuse_overflow
from ..kernels.numbers.bounded_integers import from_limbs, result, scale_of
from ..kernels.numbers.limbs import quotient
from ..lazy import with_validity
from .accumulators import Accumulator, AnyValue, Count, Extreme, Rows, Sum, Total
from .accumulators_bitwise import OPERATIONS, Fold
from .accumulators_distinct import Distinct
from .accumulators_ordered import (
    Collected,
    ExtremeBy,
    Key,
    first_value,
    joined_texts,
    most_frequent,
)
from .accumulators_sketch import DistinctSketch
from .accumulators_statistics import FUNCTIONS as STATISTICS
from .accumulators_statistics import Statistics, statistic
from .late_averages import late_averages
from .percentiles import has_literal_fraction, percentile


@dataclass(frozen=True, slots=True)
class Part:
    """One accumulator with its expressions, filter and order. Equal parts are one."""

    kind: str
    inputs: tuple[Expr, ...] = ()
    filter: Expr | None = None
    distinct: bool = False
    keys: tuple[Key, ...] = ()

    @property
    def is_unread(self) -> bool:
        """True if the column can be picked without being read."""
        arg = self.inputs[0] if self.kind == "any_value" else None
        return isinstance(arg, Column) and not arg.nullable and self.filter is None


_EXTREMES = ("min", "max")
_ACCUMULATORS: dict[str, Callable[[], Accumulator[Any]]] = {
    "rows": Rows,
    "count": Count,
    "sum": Sum,
    "any_value": AnyValue,
    "min_by": lambda: ExtremeBy(greatest=False),
    "max_by": lambda: ExtremeBy(greatest=True),
    "statistics": Statistics,
    "approx_count_distinct": DistinctSketch,
    "unsorted": Collected,
    **{name: partial(Fold, name) for name in OPERATIONS},
}


def accumulator_of(part: Part) -> Accumulator[Any]:
    """Make an accumulator for a part."""
    if part.kind == "collected":
        accumulator: Accumulator[Any] = Collected(part.keys)
    elif part.kind in _EXTREMES:
        accumulator = Extreme(part.kind == "max", by_number=_is_one_number(part.inputs[0].type))
    else:
        accumulator = _ACCUMULATORS[part.kind]()
    return Distinct(accumulator) if part.distinct else accumulator


def _is_one_number(type_: DataType) -> bool:
    """True if a physical value is one integer of at most 64 bits or a float."""
    return type_.is_code_like or type_.is_float


# ---- parts -----------------------------------------------------------------------------------------------------------


def parts_of(call: Aggregate) -> list[Part]:
    """Accumulators from which an aggregate call is computed."""
    function, args, distinct = call.function, call.args, call.distinct
    if function == "count":
        return [_count_part(call)]
    if function in ("sum", "avg"):
        return [Part("sum", args, call.filter, distinct), _count_part(call)]
    if function in STATISTICS or function == "regr_count":
        return [Part("statistics", args, call.filter, distinct)]
    if function in ("min", "max") and args[0].type.kind is Kind.INTERVAL:
        return [Part(f"{function}_by", (args[0], args[0]), call.filter)]
    if function in ("min_by", "max_by"):
        return [Part(function, args[::-1], call.filter)]
    if (
        AGGREGATES[function].within_group is not None
        or function == "string_agg"
        or (function == "any_value" and call.order)
    ):
        return [_collected_part(call)]
    if function in _ACCUMULATORS or function in _EXTREMES:
        return [Part(function, args, call.filter, distinct and not AGGREGATES[function].ignores_duplicates)]
    raise InternalError(f"there is no accumulator for the aggregate {function}")


def _count_part(call: Aggregate) -> Part:
    if not call.args:
        return Part("count" if call.filter is not None else "rows", (), call.filter)
    if not call.args[0].nullable and not call.distinct and call.filter is None:
        return Part("rows")
    return Part("count", call.args, call.filter, call.distinct)


def _collected_part(call: Aggregate) -> Part:
    """Part of a function that keeps rows.

    The inputs of ordered-set functions are the value that they order by, then their fraction; those of others are their
    arguments, then their order keys. A distinct string_agg without an order is ordered by its texts.
    """
    order = call.order
    if AGGREGATES[call.function].within_group is not None:
        if has_literal_fraction(call):
            return Part("unsorted", (order[0].expr,), call.filter, call.distinct)
        keys = [(0, order[0].descending, order[0].nulls_first)]
        return Part("collected", (order[0].expr, *call.args), call.filter, call.distinct, tuple(keys))
    inputs = (*call.args, *(item.expr for item in order))
    keys = [(i, item.descending, item.nulls_first) for i, item in enumerate(order, len(call.args))]
    if call.distinct and not keys:
        keys = [(0, False, False)]
    return Part("collected", inputs, call.filter, call.distinct and call.function == "string_agg", tuple(keys))


# ---- states ----------------------------------------------------------------------------------------------------------


def state_of(accumulator: Accumulator[Any], inputs: Sequence[Vector], chosen: Array | None, groups: Segments) -> Any:
    """State of rows in the groups' order; rows that are not `chosen` (None: all are) are ignored."""
    first: Vector = inputs[0] if inputs else Const(BOOLEAN, True, groups.length)
    if chosen is not None:
        first = with_validity(first, chosen)
    return accumulator.partial([first, *inputs[1:]], groups)


def aggregate_rows(
    call: Aggregate,
    values: Callable[[Expr], Vector],
    groups: Segments,
    chosen: Array | None = None,
) -> Vector:
    """Return the values of one call, one per group.

    Parameters
    ----------
    call : Aggregate
    values : callable
        Returns the rows' values of an expression of the call (its arguments and order keys), in the groups' order.
    groups : Segments
        At least one row each.
    chosen : ndarray of bool, shape (n_rows,), optional
        True for rows that pass the call's FILTER.
    """
    states = []
    for part in parts_of(call):
        accumulator = accumulator_of(part)
        inputs = [values(expr) for expr in part.inputs]
        states.append(accumulator.finish(state_of(accumulator, inputs, chosen, groups)))
    computed = result_of(call, states, len(groups))
    return computed.get() if isinstance(computed, LazyColumn) else computed


# ---- results ---------------------------------------------------------------------------------------------------------


def result_of(call: Aggregate, states: list[Any], groups: int) -> Vector | LazyColumn:
    """Return the call's values, from the finished states of its parts."""
    function, state = call.function, states[0]
    if function in ("sum", "avg"):
        return _total(call, state, states[1], groups)
    if function in STATISTICS:
        return statistic(function, state)
    if function in _FROM_ROWS and (function != "any_value" or call.order):
        found: Vector = _FROM_ROWS[function](call, state)
        return found
    if function in ("count", "regr_count", "approx_count_distinct"):
        counts = state.counts.astype(np.int64) if function == "regr_count" else state
        return Flat(BIGINT, counts, None, 0, int(counts.max(initial=0)))
    if function == "any_value":
        slot: Vector | LazyColumn = state.slots()[0]
        return slot
    vector: Vector = state
    return vector


_FROM_ROWS: dict[str, Callable[[Aggregate, Any], Vector]] = {
    "string_agg": lambda call, rows: joined_texts(call.type, rows),
    "percentile_cont": percentile,
    "percentile_disc": percentile,
    "mode": lambda call, rows: most_frequent(call.type, rows),
    "any_value": lambda call, rows: first_value(call.type, rows),
}
"""Functions computed from `Collected` rows."""


def _total(call: Aggregate, total: Total, counts: Array, groups: int) -> Vector | LazyColumn:
    validity = None if counts.all() else counts > 0
    if call.type.is_float:
        with np.errstate(all="ignore"):
            sums = total.parts[0].astype(np.float64)
            values = sums / np.maximum(counts, 1) if call.function == "avg" else sums
            found = values.astype(call.type.dtype, copy=False)
        refuse_overflow(np.isinf(found) & np.isfinite(values), call.type)
        return Flat(call.type, found, validity)
    if call.function == "avg":
        if len(total.parts) == 1 and _has_room(call, total):
            return late_averages(
                lambda sums, counts: _average(call, Total((sums,)), counts, None if counts.all() else counts > 0),
                total.parts[0],
                counts,
            )
        try:
            return _average(call, total, counts, validity)
        except NumericOutOfRange as error:
            scale = scale_of(call.args[0].type)
            advice = f"CAST(avg(a) AS DECIMAL(38, {scale})) has room for more digits before the point"
            raise NumericOutOfRange(f"{error}; {advice}" if scale_of(call.type) > scale else str(error)) from None
    if len(total.parts) == 1:
        return result(call.type, total.parts[0], validity, (-total.most, total.most), groups)
    return from_limbs(call.type, total.limbs(), validity)


def _has_room(call: Aggregate, total: Total) -> bool:
    """True if an average of any of the sums is a value of the result's type."""
    if not call.type.is_decimal:
        return False
    shift = scale_of(call.type) - scale_of(call.args[0].type)
    return shift >= 0 and total.most * 10**shift < 10 ** (call.type.precision or 0)


def _average(call: Aggregate, total: Total, counts: Array, validity: Array | None) -> Vector:
    """Exact averages, rounded half away from zero at the result's scale."""
    shift = scale_of(call.type) - scale_of(call.args[0].type)
    if len(total.parts) == 1:
        quotients = divide_integers(total.parts[0], counts, validity, shift, rounded=True)
        if quotients is not None:
            bounds = (int(quotients.min(initial=0)), int(quotients.max(initial=0)))
            return result(call.type, quotients, validity, bounds, len(counts))
    return from_limbs(call.type, quotient(total.limbs(), np.maximum(counts, 1), shift), validity)
