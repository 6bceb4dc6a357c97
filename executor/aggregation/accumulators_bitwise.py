"""Functions that fold the values of a group with one operation: bits, truths, products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...storage.vector import Flat, Vector, concat
from ..grouping import Segments
from .accumulators import Accumulator

OPERATIONS: dict[str, tuple[np.ufunc, int]] = {
    "bit_and": (np.bitwise_and, -1),
    "bit_or": (np.bitwise_or, 0),
    "bit_xor": (np.bitwise_xor, 0),
    "bool_and": (np.logical_and, 1),
    "bool_or": (np.logical_or, 0),
    "product": (np.multiply, 1),
}
"""The operation of each function, and what it does not change."""


class Fold(Accumulator[Vector]):
    """The state is a vector of the argument's type, NULL where there was no value."""

    def __init__(self, function: str):
        self._operation, self._neutral = OPERATIONS[function]

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Vector:
        arg = inputs[0]
        values, validity = arg.values(), arg.validity
        present = None
        if validity is not None:
            values = np.where(validity, values, np.array(self._neutral).astype(values.dtype))
            present = np.logical_or.reduceat(validity, groups.starts)
        with np.errstate(all="ignore"):
            return Flat(arg.type, self._operation.reduceat(values, groups.starts, dtype=values.dtype), present)

    def merge(self, states: Sequence[Vector], groups: Segments) -> Vector:
        joined = concat(list(states))
        return self.partial([joined if groups.order is None else joined.take(groups.order)], groups)
