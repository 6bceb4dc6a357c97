"""Functions that need the values of a group together and in an order: texts joined, percentiles, the mode, the first.

    inputs ── partial ──► Tuples, unordered ── merge ──► Tuples ── finish ──► Tuples in order within each group

`Collected` keeps the rows; a function over all groups at once computes the result (`joined_texts`, `most_frequent`,
`percentiles.percentile`). Until then rows stay in the order in which they were read. `ExtremeBy` needs, and keeps, one
row only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, arrow_scalar, fill_nulls
from ...model.types import BIGINT, DataType
from ...model.vectors.vector import Array, Batch, Const, Flat, Text, Vector, concat
from ...sql.expressions import OrderItem
from ..kernels.groups.key_codes import column_codes
from ..kernels.groups.row_order import run_starts, sort_rows
from ..kernels.groups.segments import Segments
from ..kernels.numbers.bounded_integers import joined_validity
from ..lazy import with_validity
from ..sorting.sort_keys import order_of, ordered_codes
from .accumulators import OneBatch, first_rows
from .accumulators_distinct import Keeping, Tuples, joined_tuples, numbered

Key = tuple[int, bool, bool]
"""Sort keys: input, descending, NULLs first."""


class Collected(Keeping):
    """All rows of a group whose first input is not NULL; `finish` sorts them by `keys`."""

    def __init__(self, keys: Sequence[Key] = ()):
        self._keys = keys

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Tuples:
        rows = numbered(inputs, groups)
        validity = inputs[0].validity
        return rows if validity is None else rows.take(np.flatnonzero(validity))

    def merge(self, states: Sequence[Tuples], groups: Segments) -> Tuples:
        rows = joined_tuples(states, groups)
        return rows.take(sort_rows(rows.numbers, rows.groups)[0])

    def finish(self, state: Tuples) -> Tuples:
        if not self._keys:
            return state
        number = Flat(BIGINT, state.numbers, None, 0, state.groups - 1)
        items = [OrderItem(_NUMBER), *(OrderItem(_NUMBER, down, nulls_first) for _, down, nulls_first in self._keys)]
        keys = [number, *(state.columns[place] for place, _, _ in self._keys)]
        return state.take(order_of(keys, items, len(state.numbers)))


_NUMBER: Any = None
"""`order_of` reads only the directions; its keys are evaluated already."""


# ---- texts -----------------------------------------------------------------------------------------------------------


def joined_texts(type_: DataType, rows: Tuples) -> Vector:
    """string_agg: the texts of each group with the separators between them; NULL for a group without texts.

    A row's separator precedes its text; a NULL separator is empty.
    """
    texts, separators = rows.columns[0].to_arrow(), rows.columns[1]
    sizes = rows.sizes
    offsets = np.zeros(rows.groups + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    empty: Any = b"" if pa.types.is_binary(type_.arrow) else ""
    if isinstance(separators, Const):
        between = empty if separators.value is None else separators.value
    else:
        between = empty
        leading = fill_nulls(separators.to_arrow(), empty)
        first = np.zeros(len(texts), np.bool_)
        first[offsets[:-1][sizes > 0]] = True
        leading = pc.if_else(arrow_array(first), arrow_scalar(empty, type_.arrow), leading)
        texts = pc.binary_join_element_wise(leading, texts, arrow_scalar(empty, type_.arrow))
    lists = pa.ListArray.from_arrays(arrow_array(offsets), texts)
    texts_joined = pc.binary_join(lists, arrow_scalar(between, type_.arrow))
    if not sizes.all():
        texts_joined = pc.if_else(arrow_array(sizes > 0), texts_joined, arrow_scalar(None, type_.arrow))
    return Text(type_, texts_joined)


# ---- the mode, the first ---------------------------------------------------------------------------------------------


def most_frequent(type_: DataType, rows: Tuples) -> Vector:
    """mode: the most frequent value of each group, of several the first; equal values lie together."""
    if not len(rows.numbers):
        return Const(type_, None, rows.groups)
    values = rows.columns[0]
    codes, _ = column_codes(values)
    changes = np.zeros(len(codes), np.bool_)
    changes[run_starts(rows.numbers)] = True
    changes[run_starts(codes)] = True
    runs = np.flatnonzero(changes)
    lengths = np.diff(runs, append=len(codes))
    numbers = rows.numbers.take(runs)
    starts = run_starts(numbers)
    most = np.maximum.reduceat(lengths, starts)
    groups = Segments(None, starts, len(runs))
    longest = first_rows(lengths == np.repeat(most, groups.sizes), groups)
    return _spread(values.take(runs.take(longest)), numbers.take(starts), rows.groups)


def first_value(type_: DataType, rows: Tuples) -> Vector:
    """any_value with an order: each group's first value that is not NULL."""
    if not len(rows.numbers):
        return Const(type_, None, rows.groups)
    starts = run_starts(rows.numbers)
    return _spread(rows.columns[0].take(starts), rows.numbers.take(starts), rows.groups)


def _spread(values: Vector, numbers: Array, groups: int) -> Vector:
    """Put the values at the groups with these numbers, NULL at the others."""
    if len(numbers) == groups:
        return values
    places, present = np.zeros(groups, np.intp), np.zeros(groups, np.bool_)
    places[numbers] = np.arange(len(numbers))
    present[numbers] = True
    return with_validity(values.take(places), present)


# ---- the row of the least or greatest key ----------------------------------------------------------------------------


class ExtremeBy(OneBatch):
    """min_by or max_by: of inputs (key, value) the row with the extreme key, the first of several.

    Rows in which either is NULL are ignored. The state is a batch of both, one row per group, its key NULL for a group
    without a row; as vectors, these two.
    """

    by_number = True

    def __init__(self, greatest: bool):
        self._greatest = greatest

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Batch:
        present = joined_validity(*inputs)
        key, value = inputs
        codes, _ = ordered_codes(key, self._greatest, False)
        if present is not None:
            codes = np.where(present, codes.astype(np.uint64), np.uint64(2**64 - 1))
        chosen = codes == groups.spread(groups.extremes(codes, greatest=False))
        rows = first_rows(chosen if present is None else chosen & present, groups)
        keys = key.take(rows)
        if present is not None:
            keys = with_validity(keys, present.take(rows))
        return Batch([keys, value.take(rows)], len(groups))

    def merge(self, states: Sequence[Batch], groups: Segments) -> Batch:
        columns = [concat([state.column(i) for state in states]) for i in range(2)]
        order = groups.order
        return self.partial(columns if order is None else [column.take(order) for column in columns], groups)

    def finish(self, state: Batch) -> Vector:
        return with_validity(state.column(1), state.column(0).validity)
