"""128-bit integers as two arrays of 64-bit halves: what lies in a `Wide` vector, calculated with as a batch.

value = high * 2**64 + low        both uint64; a negative value is the two's complement, as in Arrow's buffers
"""

from __future__ import annotations

import numpy as np

from ...storage.vector import Array

_LOW_HALF = np.uint64(2**32 - 1)
_HALF = np.uint64(32)


def scaled(values: Array, factor: int, added: Array) -> tuple[Array, Array]:
    """values * factor + added, all of them uint64; made of four products of 32 bits."""
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
    """The negative values of the rows asked for, the others as they are."""
    return np.where(where, ~high + (low == 0), high), np.where(where, ~low + np.uint64(1), low)


def as_floats(high: Array, low: Array) -> Array:
    """The nearest doubles, or their neighbours."""
    negative = high.view(np.int64) < 0
    high, low = negated(high, low, negative)
    size = high.astype(np.float64) * 2.0**64 + low.astype(np.float64)
    return np.where(negative, -size, size)
