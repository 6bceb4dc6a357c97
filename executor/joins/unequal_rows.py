"""Semi-joins and anti-joins on equal keys and one value that differs, `k = k AND v <> v`, decided without pairs.

    build rows, by key    k: 1 1 2 2     one value of each key, and        k   known  several
                          v: 7 7 7 8     whether there is another          1   7      no
                                                                           2   8      yes

A key with two different values has one that differs from any value of a probe row. A key with one value has one if the
probe row's is another. So the rows of a key are read once, in any order, and never again, however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import DataError
from ...model.vectors.vector import Array, Batch, taken
from ...sql.expressions import Call, Column, Expr, columns_of
from ..expressions.evaluate import Compiler
from .join_index import Slots, numbered_slots
from .join_keys import KeyCoder
from .join_shape import JoinShape


class UnequalRows:
    """For each key of the build side, one value and whether it has another. Threads share it.

    Parameters
    ----------
    slots : Slots
        Of the keys that have a value.
    known : ndarray of integers, shape (1 + n_slots,)
        Of slot - 1 the code of a value; -1 for none. Entry 0 is for keys without a slot.
    several : ndarray of bool, shape (1 + n_slots,)
        True if the key has another value.
    coder : KeyCoder
        Of the values.
    value : Expr
        The probe side's value, over `columns`.
    """

    def __init__(
        self, slots: Slots, known: Array, several: Array, coder: KeyCoder, value: Expr, columns: Sequence[Column]
    ):
        self._slots = slots
        self._known = known
        self._several = several
        self._coder = coder
        self._value = Compiler(columns).compile(value)

    @property
    def bytes(self) -> int:
        """Bytes of memory."""
        return self._slots.bytes + int(self._known.nbytes + self._several.nbytes)

    @classmethod
    def make(cls, shape: JoinShape, build: Batch, codes: Array, size: int) -> UnequalRows | None:
        """Return the values of the build side's keys; None if the join is not of this form.

        Parameters
        ----------
        shape : JoinShape
            Of any kind and condition.
        codes : ndarray of int64, shape (build.length,)
            Of the keys; -1 for rows without a key.
        size : int
            Exclusive upper bound of the codes.
        """
        sides = _sides(shape)
        if sides is None:
            return None
        try:
            value = Compiler(shape.build).compile(sides[1])(build)
        except DataError:
            return None  # of a row that no probe row may meet
        coder, values = KeyCoder.learn([value])
        if int(values.min(initial=0)) < 0 or int(codes.min(initial=0)) < 0:
            rows = np.flatnonzero((codes >= 0) & (values >= 0))
            codes, values = codes.take(rows), values.take(rows)
        slots, places, count = numbered_slots(codes, size)
        values = values.astype(np.int32 if coder.size < 1 << 31 else np.int64, copy=False)
        known = np.full(1 + count, -1, values.dtype)
        several = np.zeros(1 + count, np.bool_)
        places = places + 1
        known[places] = values  # of several rows, any
        several[places[taken(known, places) != values]] = True
        return cls(slots, known, several, coder, sides[0], shape.probe)

    def has(self, probe: Batch, codes: Array) -> Array:
        """Return a mask of the probe rows with a build row of equal key and different value: ndarray of bool."""
        places = self._slots.find(codes) + 1
        known = taken(self._known, places)
        result: Array = known >= 0
        rows: Array | None = None if result.all() else np.flatnonzero(result)
        if rows is not None:
            if not len(rows):
                return result
            # The value of other rows may be an error.
            probe, places, known = probe.select(rows), taken(places, rows), taken(known, rows)
        value = self._value(probe)
        differs: Array = self._coder.encode([value]) != known
        differs |= taken(self._several, places)
        if value.validity is not None:
            differs &= value.validity
        if rows is None:
            return differs
        result[rows] = differs
        return result


def _sides(shape: JoinShape) -> tuple[Expr, Expr] | None:
    """Return the probe's and the build side's value of a semi-join or anti-join on one value that differs; else
    None."""
    condition = shape.residual
    if shape.kind not in ("semi", "anti") or not isinstance(condition, Call) or condition.function != "ne":
        return None
    build_ids = frozenset(column.id for column in shape.build)
    probe, build = sorted(condition.args, key=lambda arg: bool(columns_of(arg) & build_ids))
    read = columns_of(build)
    if columns_of(probe) & build_ids or not read or not read <= build_ids:
        return None
    type_ = build.type
    if probe.type != type_ or not (type_.is_text or type_.is_float or type_.is_integer_like):
        return None
    return probe, build
