"""percentile_cont, percentile_disc and the median: a value at a fraction of each group's rows in their order.

    rows, group by group ── ranks ──► few groups: each is partitioned at its ranks ──► values there
                              └─────► many groups: all rows are sorted at once ─────► values there

To partition a group takes a pass or two over its rows, to sort it about twenty. A fraction that is a literal is no
input of the state, so percentiles of one column share its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import DataError
from ...model.types import BIGINT, DOUBLE, DataType
from ...model.vectors.vector import Array, Const, Flat, Vector
from ...sql.expressions import Aggregate, Literal, OrderItem
from ..kernels.numbers.bounded_integers import floats
from ..lazy import with_validity
from ..sorting.sort_keys import order_of, ordered_codes
from .accumulators_distinct import Tuples

FUNCTIONS = ("percentile_cont", "percentile_disc")
PARTITIONED_ROWS = 100
"""Average number of rows per group from which on each group is partitioned: a call costs some ten microseconds."""


def has_literal_fraction(call: Aggregate) -> bool:
    """True if the call's fraction is no input of its state."""
    return call.function in FUNCTIONS and isinstance(call.args[0], Literal) and call.args[0].value is not None


def percentile(call: Aggregate, rows: Tuples) -> Vector:
    """Return the values of a call, one per group, NULL for a group without rows.

    `rows` are in any order within each group if the call has a literal fraction, else in the requested one.
    """
    is_continuous = call.function == "percentile_cont"
    type_ = DOUBLE if is_continuous else call.type
    if not len(rows.numbers):
        return Const(type_, None, rows.groups)
    sizes = rows.sizes
    starts = np.where(sizes > 0, np.cumsum(sizes) - sizes, 0)
    fractions, defined = _fractions(call, rows, sizes, starts)
    if is_continuous:
        place = fractions * np.maximum(sizes - 1, 0)
        ranks = [np.floor(place).astype(np.intp), np.ceil(place).astype(np.intp)]
    else:
        ranks = [np.maximum(np.ceil(fractions * sizes), 1).astype(np.intp) - 1]
    if has_literal_fraction(call):
        chosen = rows_at_ranks(rows, call.order[0], starts, sizes, ranks)
    else:
        chosen = [starts + rank for rank in ranks]
    if not is_continuous:
        return _discrete(type_, rows.columns[0].take(chosen[0]), defined)
    picked = (floats(rows.columns[0].take(at)) for at in chosen)
    lower, upper = (np.broadcast_to(np.asarray(values, np.float64), sizes.shape) for values in picked)
    with np.errstate(all="ignore"):
        found = np.where(lower == upper, lower, lower + (upper - lower) * (place - ranks[0]))
    return Flat(DOUBLE, found, None if defined.all() else defined)


def _discrete(type_: DataType, values: Vector, defined: Array) -> Vector:
    return values if defined.all() else with_validity(values, defined)


def _fractions(call: Aggregate, rows: Tuples, sizes: Array, starts: Array) -> tuple[Array, Array]:
    """Per group: the fraction, and whether there is a result."""
    argument = call.args[0]
    if has_literal_fraction(call):
        assert isinstance(argument, Literal)
        picked: Vector = Const(argument.type, argument.value, rows.groups)
    else:
        picked = rows.columns[1].take(starts)
    values = np.array(np.broadcast_to(np.asarray(floats(picked), np.float64), (rows.groups,)))
    defined = sizes > 0 if picked.validity is None else (sizes > 0) & picked.validity
    wrong = defined & ~((values >= 0) & (values <= 1))
    if wrong.any():
        raise DataError(f"the fraction of a percentile must be from 0 to 1, and is {values[wrong][0]:g}")
    values[~defined] = 0.0
    return values, defined


def rows_at_ranks(rows: Tuples, item: OrderItem, starts: Array, sizes: Array, ranks: Sequence[Array]) -> list[Array]:
    """Return, for each array of ranks, the row of each group that has this rank in the order of its first column.

    Parameters
    ----------
    rows : Tuples
        Group by group, in any order within each.
    item : OrderItem
        Only its directions are read.
    starts, sizes : ndarray of int, shape (n_groups,)
        The first row of each group, 0 for an empty one, and the number of its rows.
    ranks : sequence of ndarray of intp, shape (n_groups,)
        From 0; 0 for an empty group.
    """
    length = len(rows.numbers)
    if length < PARTITIONED_ROWS * rows.groups:
        number = Flat(BIGINT, rows.numbers, None, 0, rows.groups - 1)
        order = order_of([number, rows.columns[0]], [OrderItem(item.expr), item], length)
        return [order.take(starts + rank) for rank in ranks]
    codes, _ = ordered_codes(rows.columns[0], item.descending, item.nulls_first)
    found = [starts.astype(np.intp) for _ in ranks]
    for group in np.flatnonzero(sizes).tolist():
        start = int(starts[group])
        wanted = [int(rank[group]) for rank in ranks]
        order = np.argpartition(codes[start : start + int(sizes[group])], sorted({*wanted}))
        for places, rank in zip(found, wanted, strict=True):
            places[group] = start + order[rank]
    return found
