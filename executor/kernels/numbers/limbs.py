"""Arithmetic on integers of more than 64 bits, as several arrays per batch.

Two halves, as a `Wide` vector stores them:

    value = high * 2**64 + low        both uint64; a negative value is the two's complement, as in Arrow's buffers

Limbs, any number of them, which leave 31 bits of room for sums and products before carries must be propagated:

    value = ((limbs[0] * 2**32 + limbs[1]) * 2**32 + limbs[2]) ...        all int64

Limbs are *carried* if all but the first are within 0 to 2**32 - 1. The first has the sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ....model.vectors.vector import Array

Limbs: TypeAlias = tuple[Array, ...]

LIMB_BITS = 32
LIMB_MASK = (1 << LIMB_BITS) - 1
_LOW_HALF = np.uint64(2**32 - 1)
_HALF = np.uint64(32)


def scaled(values: Array, factor: int, added: Array) -> tuple[Array, Array]:
    """Compute values * factor + added, all of them uint64; composed of four products of 32 bits."""
    low_value, high_value = values & _LOW_HALF, values >> _HALF
    low_factor, high_factor = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    lowest = low_value * low_factor
    first, second = low_value * high_factor, high_value * low_factor
    middle = (lowest >> _HALF) + (first & _LOW_HALF) + (second & _LOW_HALF)
    low = (middle << _HALF) | (lowest & _LOW_HALF)
    high = high_value * high_factor + (first >> _HALF) + (second >> _HALF) + (middle >> _HALF)
    total = low + added
    return high + (total < low), total


def negated(high: Array, low: Array, where: Array) -> tuple[Array, Array]:
    """Negate the selected rows; the others stay."""
    # Without branches: random signs mispredict every second one.
    ones = where.astype(np.uint64)
    flip = np.negative(ones)
    return (high ^ flip) + (ones & (low == 0)), (low ^ flip) + ones


def as_floats(high: Array, low: Array) -> Array:
    """Return the nearest doubles, or their neighbours."""
    negative = high.view(np.int64) < 0
    high, low = negated(high, low, negative)
    size = high.astype(np.float64) * 2.0**64 + low.astype(np.float64)
    return np.where(negative, -size, size)


# ---- limbs -----------------------------------------------------------------------------------------------------------


def limbs_of_halves(high: Array, low: Array) -> Limbs:
    """Return four carried limbs; `high` is int64, `low` uint64."""
    bits = low.view(np.int64)
    return high >> LIMB_BITS, high & LIMB_MASK, (bits >> LIMB_BITS) & LIMB_MASK, bits & LIMB_MASK


def limbs_of_integer(value: int) -> tuple[int, int, int, int]:
    """Return four carried limbs of a Python integer of at most 128 bits."""
    return value >> 96, (value >> 64) & LIMB_MASK, (value >> 32) & LIMB_MASK, value & LIMB_MASK


def widened(limbs: Limbs, count: int) -> Limbs:
    """Extend carried limbs to at least `count`."""
    while len(limbs) < count:
        limbs = (limbs[0] >> LIMB_BITS, limbs[0] & LIMB_MASK, *limbs[1:])
    return limbs


def carried(limbs: Sequence[Array]) -> Limbs:
    """Return the same values with each limb but the first within 0 to 2**32 - 1."""
    out: list[Array] = []
    carry: Array | int = 0
    for limb in reversed(limbs[1:]):
        raised: Array = limb + carry
        out.append(raised & LIMB_MASK)
        carry = raised >> LIMB_BITS
    out.append(limbs[0] + carry)
    return tuple(reversed(out))


def quotient(limbs: Limbs, divisor: Array, digits: int) -> Limbs:
    """Compute limbs * 10**digits / divisor, rounded half away from zero; `limbs` carried, the divisor from 1 to
    2**31."""
    # One limb is added above the first for its upper half, then more for the digits.
    limbs = widened(limbs, len(limbs) + 1 + -(-digits // 9))
    negative = limbs[0] < 0
    limbs = carried([np.where(negative, -limb, limb) for limb in limbs])
    while digits > 0:
        limbs = carried([limb * 10 ** min(9, digits) for limb in limbs])
        digits -= 9
    rest = np.zeros_like(divisor)
    quotients: list[Array] = []
    for limb in limbs:
        rest = (rest << LIMB_BITS) + limb
        quotients.append(rest // divisor)
        rest = rest - quotients[-1] * divisor
    quotients[-1] = quotients[-1] + (2 * rest >= divisor)
    return carried([np.where(negative, -limb, limb) for limb in quotients])


def halves_of_limbs(limbs: Limbs) -> tuple[Array, Array, Array]:
    """Return carried limbs as int64 and uint64 halves, and a mask of the values that fit these."""
    limbs = widened(limbs, 4)
    first = limbs[0]
    size = first.astype(np.float64)
    for limb in limbs[1:-3]:
        # Values that do not fit wrap around, and are detected by their size.
        first = (first << LIMB_BITS) + limb
        size = size * 2.0**LIMB_BITS + limb
    high = (first << LIMB_BITS) | limbs[-3]
    low = (limbs[-2].view(np.uint64) << np.uint64(LIMB_BITS)) | limbs[-1].view(np.uint64)
    return high, low, (size >= -(2.0**31)) & (size < 2.0**31)
