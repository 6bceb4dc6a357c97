"""The interval tree of a tablet's rowsets: which of them may hold a key (Kudu paper, section 4.5).

Rowsets are intervals of encoded keys, both ends inclusive, and may overlap. The tree is a sorted array read as a
balanced binary tree: the middle entry of a span is its root, and each root knows the greatest key below it.

      min   a    b    c    f    g          root c: greatest key of all is z
      max   d    b    z    h    g          looking for e: the left subtree ends at d; c matches; f, g start later

A rowset tree is immutable; flush and compaction make a new one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.keys.key_encoding import search_encoded
from ...model.keys.keys import Keys
from ...model.vectors.vector import Array

T = TypeVar("T")

_STAB_COST = 20
"""Number of rowsets that a search over sorted keys visits in the time of one descent of the tree (measured: 0.5 against
10 microseconds; sorting itself costs about as much as one key more)."""

_FEW_ROWSETS = 24
"""Up to here one key is held against every rowset: that takes less time than going down the tree."""


class RowSetTree(Generic[T]):
    """Finds rowsets by key.

    Parameters
    ----------
    entries : sequence of (min_key, max_key, rowset)
        Encoded keys, both inclusive; in any order. The rowsets themselves are never looked at.

    Examples
    --------
    >>> tree = RowSetTree([(b"a", b"d", "one"), (b"c", b"z", "two")])
    >>> tree.containing(b"c"), tree.overlapping(b"e", b""), tree.overlapping(b"", b"c")
    (['one', 'two'], ['two'], ['one'])
    """

    def __init__(self, entries: Sequence[tuple[bytes, bytes, T]]):
        ordered = sorted(entries, key=lambda entry: entry[:2])
        self._mins = [entry[0] for entry in ordered]
        self._maxs = [entry[1] for entry in ordered]
        self._rowsets = [entry[2] for entry in ordered]
        self._greatest = [b""] * len(ordered)
        self._build(0, len(ordered))

    def __len__(self) -> int:
        return len(self._rowsets)

    def containing(self, key: bytes) -> list[T]:
        """The rowsets whose interval holds an encoded key, by ascending min key."""
        if len(self._rowsets) == 1:
            return [self._rowsets[0]] if self._mins[0] <= key <= self._maxs[0] else []
        if len(self._rowsets) <= _FEW_ROWSETS:
            return [r for low, high, r in zip(self._mins, self._maxs, self._rowsets) if low <= key <= high]
        return [self._rowsets[i] for i in self._stab(key)]

    def overlapping(self, lower: bytes, upper: bytes) -> list[T]:
        """The rowsets that may hold keys `lower <= key < upper` (an empty `upper` is unbounded), by min key."""
        end = bisect_left(self._mins, upper) if upper else len(self)
        return [self._rowsets[i] for i in self._reaching(lower, end)]

    def candidates(self, keys: Keys) -> Iterator[tuple[T, Array]]:
        """For each rowset that may hold some of the keys: which ones.

        Returns
        -------
        iterator of (rowset, ndarray of intp)
            Row numbers in `keys`, in *key order*; rowsets without any are left out. Rowsets by ascending min key.
        """
        if not len(self) or not len(keys):
            return
        if (len(keys) - 1) * _STAB_COST <= len(self):
            yield from self._one_by_one(keys)
        else:
            yield from self._sorted(keys)

    def _one_by_one(self, keys: Keys) -> Iterator[tuple[T, Array]]:
        found: dict[int, list[int]] = {}
        for row in keys.order().tolist():
            for place in self._stab(keys.encode_one(row)):
                found.setdefault(place, []).append(row)
        for place in sorted(found):
            yield self._rowsets[place], np.array(found[place], np.intp)

    def _sorted(self, keys: Keys) -> Iterator[tuple[T, Array]]:
        order = keys.order()
        packed = keys.packed()
        if packed is not None:
            ordered = packed.take(order)
            first = np.searchsorted(ordered, _integers(self._mins), side="left")
            end = np.searchsorted(ordered, _integers(self._maxs), side="right")
        else:
            encoded = keys.encoded().take(arrow_array(order))
            first = search_encoded(encoded, arrow_array(self._mins, pa.binary()))
            end = search_encoded(encoded, arrow_array(self._maxs, pa.binary()), right=True)
        for rowset, start, stop in zip(self._rowsets, first.tolist(), end.tolist(), strict=True):
            if start < stop:
                yield rowset, order[start:stop]

    def _stab(self, key: bytes) -> list[int]:
        return self._reaching(key, bisect_right(self._mins, key))

    def _reaching(self, lower: bytes, end: int) -> list[int]:
        """Places before `end` whose max key is at or above `lower`, ascending."""
        reaching: list[int] = []
        pending = [(0, len(self))]
        while pending:
            low, high = pending.pop()
            middle = (low + high) // 2
            if low >= high or self._greatest[middle] < lower:
                continue
            if middle < end:
                if self._maxs[middle] >= lower:
                    reaching.append(middle)
                pending.append((middle + 1, high))
            pending.append((low, middle))
        reaching.sort()
        return reaching

    def _build(self, low: int, high: int) -> bytes:
        """Fill in the greatest key of the subtree over places `low` to `high`."""
        if low >= high:
            return b""
        middle = (low + high) // 2
        greatest = max(self._maxs[middle], self._build(low, middle), self._build(middle + 1, high))
        self._greatest[middle] = greatest
        return greatest


def _integers(encoded: Sequence[bytes]) -> Array:
    return np.array([int.from_bytes(key, "big") for key in encoded], np.uint64)
