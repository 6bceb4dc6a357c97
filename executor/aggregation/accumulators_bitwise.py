"""Functions that fold the values of a group with one operation: bits, booleans, products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...model.vectors.vector import Flat, Vector, concat
from ..kernels.groups.segments import Segments
from ..kernels.numbers.arithmetic import refuse_overflow
from .accumulators import OneVector

OPERATIONS: dict[str, tuple[np.ufunc, int]] = {
    "bit_and": (np.bitwise_and, -1),
    "bit_or": (np.bitwise_or, 0),
    "bit_xor": (np.bitwise_xor, 0),
    "bool_and": (np.logical_and, 1),
    "bool_or": (np.logical_or, 0),
    "product": (np.multiply, 1),
}
"""Operation of each function, and its neutral element."""


class Fold(OneVector):
    """Folds values. The state is a vector of the argument's type, NULL for a group without a value; as vectors, the
    same."""

    def __init__(self, function: str):
        self._operation, self._neutral = OPERATIONS[function]
        self.by_number = function in ("bool_and", "bool_or")

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Vector:
        arg = inputs[0]
        values, validity = arg.values(), arg.validity
        present = None
        if validity is not None:
            values = np.where(validity, values, np.array(self._neutral).astype(values.dtype))
            present = groups.has_any(validity)
        if self.by_number:
            return Flat(arg.type, groups.extremes(values, greatest=self._neutral == 0), present)
        with np.errstate(all="ignore"):
            folded = self._operation.reduceat(values, groups.starts, dtype=values.dtype)
        if folded.dtype.kind == "f" and not np.isfinite(folded).all():
            refuse_overflow(np.isinf(folded) & ~groups.has_any(~np.isfinite(values)))
        return Flat(arg.type, folded, present)

    def merge(self, states: Sequence[Vector], groups: Segments) -> Vector:
        joined = concat(list(states))
        return self.partial([joined if groups.order is None else joined.take(groups.order)], groups)
