"""Predicates as conditions over integers: what they become in the code domain.

    Range, equality, short IN lists ──► Intervals   one or two numpy ops on the narrow codes per interval
    long IN lists, runtime filters  ──► Bits        one look-up per row
    long IN lists over wide spans   ──► Members     one binary search per row
    Bloom filters over integers     ──► Hashed      one hash and one look-up per row
    alternatives of several kinds   ──► Union       what each takes

A condition is made once per scan over a file (in value space for integers, in code space for dictionaries) and then
evaluated page by page: `matches` shifts it by the page's base instead of decoding the page. `verdicts` decides whole
pages by their smallest and largest integer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...model.bloom_predicate import hash_integers, probe
from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Array

NONE, SOME, ALL = 0, 1, 2
"""Verdicts over a page: no row satisfies the condition, unknown, every present row does."""
MOST_INTERVALS = 8
"""With more intervals one look-up per row is cheaper than a pass of comparisons per interval."""
MOST_BITS = 1 << 20
"""A table of bits up to 1 MiB stays in the processor's cache; wider IN lists are searched."""
_WINDOW_SHARE, _SMALL_WINDOW = 8, 1 << 17
"""A page whose integers leave a table at its ends gets a table of its own, if that is not much larger than the page
(measured: 131,072 rows and a table of 200,000 entries take 0.2 ms; to sort out first who is outside takes 1.0 ms)."""
_MINIMUM, _MAXIMUM = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Intervals:
    """`low <= x <= high` for one of the pairs, which are disjoint and ascending; none: nothing satisfies it."""

    pairs: tuple[tuple[int, int], ...]

    def verdicts(self, lows: Array, highs: Array) -> Array:
        """Per page NONE, SOME or ALL (ndarray of uint8) from the pages' bounds (ndarrays of int64)."""
        result = np.zeros(len(lows), np.uint8)
        for low, high in self.pairs:
            low, high = max(low, _MINIMUM), min(high, _MAXIMUM)
            inside = (lows >= low) & (highs <= high)
            np.maximum(result, ((lows <= high) & (highs >= low)).astype(np.uint8) + inside, out=result)
        return result

    def matches(self, codes: Array, base: int = 0, top: int | None = None) -> Array:
        """Rows for which `codes + base` satisfies it: ndarray of bool. `codes` are unsigned, none is above `top`."""
        result: Array | None = None
        for low, high in self.pairs:
            inside = _between(codes, low - base, high - base, top)
            result = inside if result is None else np.logical_or(result, inside, out=result)
        return np.zeros(len(codes), np.bool_) if result is None else result

    def share(self, low: int, high: int, distinct: float) -> float:
        """About which share of values between `low` and `high` satisfies it, if they are evenly spread."""
        span = high - low + 1
        inside = sum(max(0, min(high, b) - max(low, a) + 1) for a, b in self.pairs)
        # Where values leave gaps (prices in whole units), a point still hits one of the distinct ones.
        return min(1.0, max(inside / span, len(self.pairs) / max(distinct, 1.0) if inside else 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Bits:
    """`bits[x - base]`, false outside of the table; `bits` is an ndarray of bool."""

    base: int
    bits: Array

    def verdicts(self, lows: Array, highs: Array) -> Array:
        """As `Intervals.verdicts`."""
        result = np.zeros(len(lows), np.uint8)
        for page, (low, high) in enumerate(zip(lows.tolist(), highs.tolist())):
            first, last = low - self.base, high - self.base
            part = self.bits[max(first, 0) : max(last + 1, 0)]
            if part.any():
                result[page] = ALL if len(part) == last - first + 1 and part.all() else SOME
        return result

    def matches(self, codes: Array, base: int = 0, top: int | None = None) -> Array:
        """As `Intervals.matches`."""
        highest = _top(codes.dtype) if top is None else top
        first = base - self.base  # where code 0 stands in the table
        if first >= 0 and first + highest < len(self.bits):
            return self.bits[first:].take(_places(codes))
        if highest < max(_WINDOW_SHARE * len(codes), _SMALL_WINDOW):
            return self._window(first, highest + 1).take(_places(codes))
        inside = _between(codes, -first, len(self.bits) - 1 - first, top)
        rows = np.flatnonzero(inside)
        if len(rows):
            bits = codes.dtype.itemsize * 8
            places = codes.take(rows) + codes.dtype.type(first % (1 << bits))  # right modulo 2**bits, see `inside`
            if len(self.bits) > 1 << bits:
                places = codes.take(rows).astype(np.int64) + first
            inside[rows] = self.bits.take(_places(places))
        return inside

    def _window(self, first: int, size: int) -> Array:
        """The `size` table entries from `first` on (which may be negative), False outside of the table."""
        window = np.zeros(size, np.bool_)
        part = self.bits[max(first, 0) : max(first + size, 0)]
        window[max(-first, 0) :][: len(part)] = part
        return window

    def share(self, low: int, high: int, distinct: float) -> float:
        """As `Intervals.share`, from a sample of the table."""
        part = self.bits[max(low - self.base, 0) : max(high - self.base + 1, 0)]
        if not len(part):
            return 0.0
        sample = part[:: max(1, len(part) // 1024)]
        return float(sample.mean()) * len(part) / (high - low + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """`x` is one of `values`: ndarray of int64, ascending."""

    values: Array

    def verdicts(self, lows: Array, highs: Array) -> Array:
        """As `Intervals.verdicts`."""
        first, last = np.searchsorted(self.values, lows), np.searchsorted(self.values, highs, "right")
        return np.where(last > first, np.where(lows == highs, ALL, SOME), NONE).astype(np.uint8)

    def matches(self, codes: Array, base: int = 0, top: int | None = None) -> Array:
        """As `Intervals.matches`."""
        highest = _top(codes.dtype) if top is None else top
        near = self.values[np.searchsorted(self.values, _clipped(base)) :]
        near = near[: np.searchsorted(near, _clipped(base + highest), "right")]
        if not len(near):
            return np.zeros(len(codes), np.bool_)
        wanted = (near.view(np.uint64) - np.uint64(base % 2**64)).astype(codes.dtype)
        if highest < MOST_BITS:
            bits = np.zeros(highest + 1, np.bool_)
            bits[_places(wanted)] = True
            return bits.take(_places(codes))
        places = np.searchsorted(wanted, codes)
        return np.asarray(wanted.take(places, mode="clip") == codes)

    def share(self, low: int, high: int, distinct: float) -> float:
        """As `Intervals.share`."""
        first, last = np.searchsorted(self.values, [low, high + 1])
        return float(min(1.0, (last - first) / max(distinct, 1.0)))


@dataclass(frozen=True, slots=True, eq=False)
class Hashed:
    """`x` may be among the values of a Bloom filter (`model.bloom_predicate`): `words` is an ndarray of uint64."""

    words: Array

    def verdicts(self, lows: Array, highs: Array) -> Array:
        """As `Intervals.verdicts`: bounds have no information about hashes, unless they are one value."""
        one = np.flatnonzero(lows == highs)
        result = np.full(len(lows), SOME, np.uint8)
        result[one] = np.where(probe(self.words, hash_integers(lows[one])), ALL, NONE)
        return result

    def matches(self, codes: Array, base: int = 0, top: int | None = None) -> Array:
        """As `Intervals.matches`."""
        highest = _top(codes.dtype) if top is None else top
        if highest < len(codes):  # fewer values than rows: each is hashed once
            values = np.arange(highest + 1, dtype=np.uint64) + np.uint64(base % 2**64)
            return probe(self.words, hash_integers(values)).take(_places(codes))
        return probe(self.words, hash_integers(codes.astype(np.uint64) + np.uint64(base % 2**64)))

    def share(self, low: int, high: int, distinct: float) -> float:
        """As `Intervals.share`: unknown; the scan measures it
        (`storage.predicate_eval.bind_predicates.Effectiveness`)."""
        return 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """`x` satisfies one of several conditions."""

    conditions: tuple[Condition, ...]

    def verdicts(self, lows: Array, highs: Array) -> Array:
        """As `Intervals.verdicts`."""
        return np.asarray(np.maximum.reduce([c.verdicts(lows, highs) for c in self.conditions]))

    def matches(self, codes: Array, base: int = 0, top: int | None = None) -> Array:
        """As `Intervals.matches`."""
        return np.asarray(np.logical_or.reduce([c.matches(codes, base, top) for c in self.conditions]))

    def share(self, low: int, high: int, distinct: float) -> float:
        """As `Intervals.share`, as if no value satisfied two of them."""
        return min(1.0, sum(c.share(low, high, distinct) for c in self.conditions))


Condition: TypeAlias = Intervals | Bits | Members | Hashed | Union


def union(conditions: Sequence[Condition]) -> Condition:
    """One of several conditions holds, in as few passes as they allow: intervals that touch become one, many of them
    a table.

    >>> union([Intervals(((1, 3),)), Intervals(((4, 5), (9, 9)))])
    Intervals(pairs=((1, 5), (9, 9)))
    """
    pairs = _joined(pair for c in conditions if isinstance(c, Intervals) for pair in c.pairs)
    others = [c for c in conditions if not isinstance(c, Intervals)]
    if not others:
        return _tabled(pairs)
    found = [*others, _tabled(pairs)] if pairs else others
    return found[0] if len(found) == 1 else Union(tuple(found))


def _joined(pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same integers as disjoint ascending intervals with gaps between them."""
    intervals: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if intervals and low <= intervals[-1][1] + 1:
            intervals[-1] = intervals[-1][0], max(intervals[-1][1], high)
        else:
            intervals.append((low, high))
    return tuple(intervals)


def _tabled(pairs: tuple[tuple[int, int], ...]) -> Condition:
    if len(pairs) <= MOST_INTERVALS or pairs[-1][1] - pairs[0][0] >= MOST_BITS:
        return Intervals(pairs)
    base = pairs[0][0]
    bits = np.zeros(pairs[-1][1] - base + 1, np.bool_)
    for low, high in pairs:
        bits[low - base : high - base + 1] = True
    return Bits(base, bits)


def members(values: Sequence[int] | Array) -> Condition:
    """`x IN (values)`, in the form that is cheapest to evaluate; `values` are distinct and ascending.

    >>> members([1, 2, 3, 7])
    Intervals(pairs=((1, 3), (7, 7)))
    """
    if not len(values):
        return Intervals(())
    array = np.asarray(values, np.int64)
    breaks = np.flatnonzero(np.diff(array) != 1) + 1
    if len(breaks) < MOST_INTERVALS:
        starts, stops = array[np.r_[0, breaks]], array[np.r_[breaks, len(array)] - 1]
        return Intervals(tuple(zip(starts.tolist(), stops.tolist())))
    base = int(array[0])
    if int(array[-1]) - base < MOST_BITS:
        bits = np.zeros(int(array[-1]) - base + 1, np.bool_)
        bits[array - base] = True
        return Bits(base, bits)
    return Members(array)


def _top(dtype: np.dtype[Any]) -> int:
    return (1 << (8 * dtype.itemsize)) - 1


def _places(codes: Array) -> Array:
    """Codes as positions: numpy refuses uint64, which is not safe for it in general but is for places in a table."""
    return codes.view(np.int64) if codes.dtype.itemsize == 8 else codes


def _clipped(value: int) -> int:
    return max(_MINIMUM, min(value, _MAXIMUM))


def _between(codes: Array, low: int, high: int, top: int | None) -> Array:
    """`low <= codes <= high` with one comparison: unsigned subtraction sends codes below `low` to the far end."""
    highest = _top(codes.dtype) if top is None else top
    if low > high or low > highest or high < 0:
        return np.zeros(len(codes), np.bool_)
    number = codes.dtype.type
    if high >= highest:
        return np.ones(len(codes), np.bool_) if low <= 0 else np.asarray(codes >= number(low))
    if low <= 0:
        return np.asarray(codes <= number(high))
    if low == high:
        return np.asarray(codes == number(low))
    return np.asarray((codes - number(low)) <= number(high - low))
