"""The build side's index: from key codes to build rows.

    codes ── slots ──► slot of each distinct code ──► rows

- `DirectSlots`: a table with one entry per possible code. One random access per probe row and no comparison; for keys
  whose span is at most some times their number (surrogate keys always).
- `HashSlots`: open addressing with linear probing over the distinct codes, every step for all rows at once. At most
  half full, so nine of ten rows are settled after two steps.

Where no key repeats, a slot leads to one row and a probe never multiplies rows. Else the rows lie sorted by code and a
slot leads to a run of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from ...storage.vector import Array
from ..grouping import run_starts, sort_rows

_ALWAYS_DIRECT = 1 << 23
"""A table of so many entries (32 MB, of which the system hands out only the pages touched) is made whatever the
number of keys: for a few keys among millions, a look-up still costs a third of a hash probe."""
_SPARSEST = 16
"""A direct table may have so many entries per key: beyond, the hash table is smaller and as fast."""
_LARGEST = 1 << 28
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""2**64 / golden ratio (Knuth, The Art of Computer Programming 6.4): spreads consecutive keys evenly."""

PAIRS_AT_ONCE = 1 << 18
"""Pairs of a probe that are made at a time; a batch with more is worked off in parts."""


class Slots(Protocol):
    """Maps codes to slots."""

    def find(self, codes: Array) -> Array:
        """The slot of each code, -1 where there is none; codes of -1 have none."""


class DirectSlots:
    """`table[code + 1]` is the slot + 1; entry 0 is for code -1."""

    def __init__(self, codes: Array, size: int):
        self._table = np.zeros(size + 1, np.int32)
        self._table[codes + 1] = np.arange(1, len(codes) + 1, dtype=np.int32)

    def find(self, codes: Array) -> Array:
        found: Array = self._table.take(codes + 1)
        found -= 1
        return found

    def kept(self, codes: Array) -> Array:
        """The slot that each code of the build side ended up with: another's, where the code repeats."""
        return self.find(codes)


class NoSlots:
    """For a build side without a key."""

    def find(self, codes: Array) -> Array:
        return np.full(len(codes), -1, np.int32)


class HashSlots:
    """Open addressing; `codes` are distinct."""

    def __init__(self, codes: Array):
        bits = max(4, (2 * len(codes) - 1).bit_length())
        self._shift = np.uint64(64 - bits)
        self._mask = (1 << bits) - 1
        self._slots = np.full(1 << bits, -1, np.int32)
        self._codes = codes
        places = self._home(codes)
        pending = np.arange(len(codes), dtype=np.int32)
        while len(pending):
            free = self._slots.take(places) < 0
            self._slots[places[free]] = pending[free]
            # Of several that wanted one place, the last has it.
            settled = self._slots.take(places) == pending
            pending, places = pending[~settled], (places[~settled] + 1) & self._mask

    def _home(self, codes: Array) -> Array:
        return ((codes.astype(np.uint64) * _MULTIPLIER) >> self._shift).astype(np.intp)

    def find(self, codes: Array) -> Array:
        places = self._home(codes)
        result = self._slots.take(places)
        wrong = np.flatnonzero((result >= 0) & (self._codes.take(result, mode="clip") != codes))
        while len(wrong):
            places_left = (places[wrong] + 1) & self._mask
            places[wrong] = places_left
            found = self._slots.take(places_left)
            result[wrong] = found
            wrong = wrong[(found >= 0) & (self._codes.take(found, mode="clip") != codes[wrong])]
        return result


class JoinIndex:
    """Finds the build rows of probe codes.

    Parameters
    ----------
    codes : ndarray of int64, shape (n_build_rows,)
        From `KeyCoder.learn`; rows with -1 match nothing.
    size : int
        Codes are below it.
    """

    def __init__(self, codes: Array, size: int):
        self._rows: Array | None = None  # build rows by slot; None: the slot is the row
        self._starts: Array | None = None  # runs of rows by slot; None: one row each
        if len(codes) and int(codes.min()) < 0:
            self._rows = np.flatnonzero(codes >= 0)
            codes = codes.take(self._rows)
        self._slots: Slots = NoSlots()
        if not len(codes):
            return
        direct = size <= max(_ALWAYS_DIRECT, _SPARSEST * len(codes)) and size <= _LARGEST
        if direct:
            slots = DirectSlots(codes, size)
            if bool((slots.kept(codes) == np.arange(len(codes), dtype=np.int32)).all()):
                self._slots = slots
                return
        self._with_runs(codes, size, direct)

    def _with_runs(self, codes: Array, size: int, direct: bool) -> None:
        order, ordered = sort_rows(codes, size)
        starts = run_starts(ordered)
        distinct = ordered.take(starts).astype(np.int64)
        self._rows = order if self._rows is None else self._rows.take(order)
        if len(starts) < len(codes):
            self._starts = np.append(starts, len(codes))
        self._slots = DirectSlots(distinct, size) if direct else HashSlots(distinct)

    @property
    def is_unique(self) -> bool:
        """Does no key repeat?"""
        return self._starts is None

    def find(self, codes: Array) -> Array:
        """The build row of each probe row, -1 for none; for a unique index only."""
        assert self._starts is None
        slots = self._slots.find(codes)
        if self._rows is None or not len(self._rows):
            return slots
        return np.where(slots >= 0, self._rows.take(slots, mode="clip"), -1)

    def has(self, codes: Array) -> Array:
        """Has each probe row a build row? ndarray of bool."""
        return self._slots.find(codes) >= 0

    def pairs(self, codes: Array) -> Iterator[tuple[Array, Array]]:
        """All matches as (probe rows, build rows), probe rows ascending, in parts of about `PAIRS_AT_ONCE`.

        All pairs of one probe row are in one part.
        """
        slots = self._slots.find(codes)
        probe = np.flatnonzero(slots >= 0)
        slots = slots.take(probe)
        if self._starts is None:
            yield probe, slots.astype(np.intp) if self._rows is None else self._rows.take(slots)
            return
        assert self._rows is not None
        first = self._starts.take(slots)
        counts = self._starts.take(slots + 1) - first
        ends = np.cumsum(counts)
        begin = 0
        while begin < len(probe):
            done = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, done + PAIRS_AT_ONCE, side="right")))
            part = slice(begin, end)
            probe_rows = np.repeat(probe[part], counts[part])
            # Each run counts up from its start: one long ramp, shifted where a run begins.
            shift = first[part] - (ends[part] - counts[part] - done)
            build_rows = np.repeat(shift, counts[part]) + np.arange(len(probe_rows))
            yield probe_rows, self._rows.take(build_rows)
            begin = end
