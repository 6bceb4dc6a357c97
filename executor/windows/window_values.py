"""Window functions of positions: numbers of rows and peers, and values of other rows, for all rows at once.

With IGNORE NULLS, rows are counted among those whose value is not NULL: `_Present` maps a run of rows to the run of
present ones within it, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import DataError
from ...model.types import DataType
from ...model.vectors.vector import Array, Const, Flat, Vector
from ...sql.expressions import Window
from ..kernels.conditional import pick
from ..kernels.numbers.bounded_integers import integers
from ..lazy import with_validity
from .window_frames import Frames, Layout

# ---- numbers ---------------------------------------------------------------------------------------------------------


def row_number(call: Window, layout: Layout, values: Sequence[Vector]) -> Vector:
    """row_number: from 1 in each partition."""
    return _counted(call.type, layout.rows - layout.first + 1)


def rank(call: Window, layout: Layout, values: Sequence[Vector]) -> Vector:
    """rank: the number of the first peer."""
    return _counted(call.type, layout.first_peer - layout.first + 1)


def dense_rank(call: Window, layout: Layout, values: Sequence[Vector]) -> Vector:
    """dense_rank: the number of the group of peers."""
    return _counted(call.type, layout.peer_of - layout.peer_of.take(layout.first) + 1)


def percent_rank(call: Window, layout: Layout, values: Sequence[Vector]) -> Vector:
    """percent_rank: the share of the other rows that precede all peers."""
    others = layout.last - layout.first - 1
    return Flat(call.type, (layout.first_peer - layout.first) / np.maximum(others, 1))


def cume_dist(call: Window, layout: Layout, values: Sequence[Vector]) -> Vector:
    """cume_dist: the share of the rows that precede or are peers."""
    return Flat(call.type, (layout.last_peer - layout.first) / (layout.last - layout.first))


def ntile(call: Window, layout: Layout, values: Sequence[Vector]) -> Vector:
    """ntile: the number of the bucket; the number of buckets is the argument's value in the partition's first row."""
    asked = values[0].take(layout.first)
    buckets = np.broadcast_to(np.asarray(integers(asked)), (layout.length,))
    _check_positive(buckets, asked.validity, "the argument of ntile")
    buckets = np.maximum(buckets, 1)
    rows, row = layout.last - layout.first, layout.rows - layout.first
    size, larger = rows // buckets, rows % buckets
    in_larger = (size + 1) * larger
    tile = np.where(row < in_larger, row // (size + 1), larger + (row - in_larger) // np.maximum(size, 1))
    return Flat(call.type, (tile + 1).astype(call.type.dtype), asked.validity)


def _counted(type_: DataType, numbers: Array) -> Vector:
    return Flat(type_, numbers.astype(np.int64, copy=False), None, 1, int(numbers.max()))


def _check_positive(numbers: Array, validity: Array | None, what: str) -> None:
    wrong = numbers <= 0 if validity is None else (numbers <= 0) & validity
    if wrong.any():
        raise DataError(f"{what} must be greater than zero, not {int(numbers[wrong][0])}")


NUMBERING: dict[str, Callable[[Window, Layout, Sequence[Vector]], Vector]] = {
    "row_number": row_number,
    "rank": rank,
    "dense_rank": dense_rank,
    "percent_rank": percent_rank,
    "cume_dist": cume_dist,
    "ntile": ntile,
}


# ---- values of other rows --------------------------------------------------------------------------------------------


class _Present:
    """The rows that are counted: all, or those whose value is not NULL."""

    def __init__(self, value: Vector, ignore_nulls: bool):
        skipping = ignore_nulls and value.has_nulls
        self._rows: Array | None = None
        if skipping:
            present = np.broadcast_to(np.asarray(value.validity), (len(value),))
            self._rows = np.flatnonzero(present)
            self._before = np.concatenate([[0], np.cumsum(present)])

    def before(self, rows: Array) -> Array:
        """Number of counted rows before each row (its number from 0 to the number of rows)."""
        return rows if self._rows is None else self._before.take(rows)

    def rows(self, numbers: Array) -> Array:
        """Return the row of each number, -1 for a negative one."""
        if self._rows is None or not len(self._rows):
            return numbers if self._rows is None else np.full(len(numbers), -1)
        return np.where(numbers < 0, -1, self._rows.take(np.maximum(numbers, 0)))


def _taken(value: Vector, rows: Array) -> Vector:
    """Return the value at each row, NULL for a negative row."""
    gathered = value.take(np.maximum(rows, 0))
    return gathered if (rows >= 0).all() else with_validity(gathered, rows >= 0)


def neighbour(call: Window, layout: Layout, values: Sequence[Vector]) -> Vector:
    """lag and lead."""
    value, distance = values[0], values[1]
    back = call.function == "lag"
    steps = np.broadcast_to(np.asarray(integers(distance)), (layout.length,))
    steps = np.clip(steps, -layout.length, layout.length) * (-1 if back else 1)
    present = _Present(value, call.ignore_nulls)
    # The row itself may not be counted: then the next one on either side is one step away.
    own, behind = present.before(layout.rows), present.before(layout.rows + 1)
    target = np.where(steps > 0, behind - 1 + steps, own + steps)
    inside = (target >= present.before(layout.first)) & (target < present.before(layout.last))
    rows = np.where(steps == 0, layout.rows, present.rows(np.where(inside, target, -1)))
    known = distance.validity
    if len(values) == 2:
        return _taken(value, rows if known is None else np.where(known, rows, -1))
    choice = (rows < 0).astype(np.intp)
    candidates = [value.take(np.maximum(rows, 0)), values[2]]
    if known is not None:
        choice[~known] = 2
        candidates.append(Const(call.type, None, layout.length))
    return pick(call.type, choice, candidates)


def framed(call: Window, frames: Frames, values: Sequence[Vector]) -> Vector:
    """first_value, last_value and nth_value."""
    value = values[0]
    present = _Present(value, call.ignore_nulls)
    runs = [(present.before(start), present.before(end)) for start, end in frames.runs]
    sizes: Any = sum(end - start for start, end in runs)
    if call.function == "first_value":
        wanted = np.zeros(len(value), np.int64)
    elif call.function == "last_value":
        wanted = sizes - 1
    else:
        asked = values[1]
        numbers = np.broadcast_to(np.asarray(integers(asked)), (len(value),))
        _check_positive(numbers, asked.validity, "the number of nth_value")
        wanted = numbers - 1 if asked.validity is None else np.where(asked.validity, numbers - 1, -1)
    target = np.full(len(value), -1)
    wanted = np.where(wanted < sizes, wanted, -1)
    for start, end in runs:
        hit = (target < 0) & (wanted >= 0) & (wanted < end - start)
        target[hit] = (start + wanted)[hit]
        wanted = np.where(target < 0, wanted - (end - start), -1)
    return _taken(value, present.rows(target))
