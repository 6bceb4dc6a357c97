"""Three-valued logic. A BOOLEAN vector is a pair of bool arrays, values and validity; the value stored for a NULL is
arbitrary, so every formula masks it."""

from __future__ import annotations

import numpy as np

from ...model.types import BOOLEAN
from ...model.vectors.vector import Array, Const, Flat, Vector


def truths(vector: Vector) -> Array | bool:
    """Mask of rows that are true, neither false nor NULL; one bool for a `Const`."""
    if isinstance(vector, Const):
        return bool(vector.value)
    values = vector.values()
    return values if vector.validity is None else values & vector.validity


def falsehoods(vector: Vector) -> Array | bool:
    """Mask of rows that are false, neither true nor NULL; one bool for a `Const`."""
    if isinstance(vector, Const):
        return vector.value is False or (vector.value is not None and not vector.value)
    values = ~vector.values()
    return values if vector.validity is None else values & vector.validity


def conjunction(left: Vector, right: Vector) -> Vector:
    """AND: false takes precedence over NULL."""
    return _junction(left, right, True)


def disjunction(left: Vector, right: Vector) -> Vector:
    """OR: true takes precedence over NULL."""
    return _junction(left, right, False)


def _junction(left: Vector, right: Vector, unit: bool) -> Vector:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Const) and one.value is not None:
            return other if bool(one.value) is unit else Const(BOOLEAN, not unit, len(one))
    if isinstance(left, Const) and isinstance(right, Const):
        return left
    if left.validity is None and right.validity is None:
        a, b = left.values(), right.values()
        return Flat(BOOLEAN, a & b if unit else a | b)
    true = truths(left) & truths(right) if unit else truths(left) | truths(right)
    false = falsehoods(left) | falsehoods(right) if unit else falsehoods(left) & falsehoods(right)
    length = len(left)
    true, false = np.broadcast_to(true, length), np.broadcast_to(false, length)
    return Flat(BOOLEAN, true, true | false)


def negation(arg: Vector) -> Vector:
    """NOT."""
    if isinstance(arg, Const):
        return Const(BOOLEAN, None if arg.value is None else not arg.value, len(arg))
    return Flat(BOOLEAN, ~arg.values(), arg.validity)


def is_null(arg: Vector) -> Vector:
    """IS NULL; the result is never NULL."""
    if isinstance(arg, Const):
        return Const(BOOLEAN, arg.value is None, len(arg))
    if arg.validity is None:
        return Const(BOOLEAN, False, len(arg))
    return Flat(BOOLEAN, ~arg.validity)


def is_truth(arg: Vector, wanted: bool) -> Vector:
    """IS TRUE or IS FALSE; the result is never NULL."""
    mask = truths(arg) if wanted else falsehoods(arg)
    return Const(BOOLEAN, mask, len(arg)) if isinstance(mask, bool) else Flat(BOOLEAN, mask)
