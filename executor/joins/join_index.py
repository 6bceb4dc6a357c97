"""The build side's index: from key codes to build rows.

    codes ── slots ──► slot of each distinct code ──► rows

- `DirectSlots`: a table with one entry per possible code. One random access per probe row and no comparison; for keys
  that are close together.
- `RankedSlots`: one bit per possible code, and for each word of 64 bits the number of bits set below it. A slot is the
  rank of a code among those that occur. For selected keys out of millions (typically surrogate keys) this is a
  twentieth of the direct table: built in a third of the time, and it stays in the cache (43,000 of 6 million: 2.6 ms
  instead of 8.4; a look-up takes 14 ns instead of 13).
- `HashSlots`: open addressing with linear probing over the distinct codes, every step for all rows at once. At most
  half full, and codes are mixed before they are cut, so nine of ten rows are settled after two steps.

If no key repeats, a slot maps to one row and a probe never multiplies rows. Else the rows are sorted by code and a slot
maps to a run of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from ...model.vectors.vector import Array, taken
from ..kernels.groups.row_order import is_ascending, run_starts, sort_rows

_ALWAYS_DIRECT = 1 << 17
"""Entries of a direct table (512 kB) that are used for any number of keys."""
_MOST_DIRECT = 4
"""Largest number of entries per key of a direct table: beyond, the bits and their ranks are smaller and as fast."""
_ALWAYS_RANKED = 1 << 23
"""Number of bits (1 MB, and half as much for the ranks) used for any number of keys: for a few keys among millions, a
look-up still costs a third to a seventh of a hash probe."""
_MOST_RANKED = 64
"""Number of bits per key above which the hash table is smaller."""
_RANKED_SHARE = 4
"""Bits that may replace an entry of a direct table: while they are set, each takes a byte."""
_FEW_BITS = 1 << 16
"""Number of bits below which each is set individually (16 ns each); more of them are set as bytes and packed."""
_LARGEST = 1 << 28
_PAGE = 4096
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
"""Factors of MurmurHash3's 64-bit finaliser."""

PAIRS_AT_ONCE = 1 << 18
"""Pairs of a probe that are produced at a time; a batch with more is processed in parts."""


class Slots(Protocol):
    """Maps codes to slots; `bytes` of memory."""

    bytes: int

    def find(self, codes: Array) -> Array:
        """Return the slot of each code, -1 if there is none; codes of -1 have none."""


class DirectSlots:
    """`table[code + 1]` is the slot + 1; entry 0 is for code -1."""

    def __init__(self, codes: Array, size: int):
        self._table = np.zeros(size + 1, np.int32)
        self._table[codes + 1] = np.arange(1, len(codes) + 1, dtype=np.int32)
        self.bytes = min(int(self._table.nbytes), _PAGE * len(codes))

    def find(self, codes: Array) -> Array:
        slots = taken(self._table, codes + 1)
        slots -= 1
        return slots

    def kept(self, codes: Array) -> Array:
        """Slot that each code of the build side ended up with: another row's, if the code repeats."""
        return self.find(codes)


class RankedSlots:
    """Slots that ascend by code. Bit `code + 1` of `words` is set if the code occurs; bit 0, for code -1, is never
    set."""

    def __init__(self, codes: Array, size: int):
        self._words = _bit_words(codes + 1, size // 64 + 1)
        counts = np.bitwise_count(self._words)
        ends = np.cumsum(counts, dtype=np.int32)
        self._before = ends - counts
        self.count = int(ends[-1])
        """Number of distinct codes."""
        self.bytes = int(self._words.nbytes + self._before.nbytes)

    def find(self, codes: Array) -> Array:
        places = codes + 1
        bit = np.left_shift(np.uint64(1), (places & 63).view(np.uint64))
        places >>= 6
        words = taken(self._words, places)
        hit = (words & bit) != 0
        bit -= np.uint64(1)
        words &= bit
        slots = taken(self._before, places)
        slots += np.bitwise_count(words)
        slots += 1
        slots *= hit
        slots -= 1
        return slots


def _bit_words(places: Array, count: int) -> Array:
    """Return `count` words in which the bits at `places` are set: ndarray of uint64."""
    if len(places) < _FEW_BITS:
        packed = np.zeros(count * 8, np.uint8)
        np.bitwise_or.at(packed, places >> 3, np.left_shift(np.uint8(1), (places & 7).astype(np.uint8)))
    else:
        bits = np.zeros(count * 64, np.bool_)
        bits[places] = True
        packed = np.packbits(bits, bitorder="little")
    words: Array = packed.view(np.uint64)
    return words


class NoSlots:
    """For a build side without a key."""

    bytes = 0

    def find(self, codes: Array) -> Array:
        return np.full(len(codes), -1, np.int32)


class HashSlots:
    """Open addressing; `codes` are distinct int64 of any size, and a code's slot is its position among them."""

    def __init__(self, codes: Array):
        self._allot(codes)
        slots, _ = self._settle(codes)
        assert slots is None

    @classmethod
    def learn(cls, codes: Array) -> tuple[HashSlots, Array | None, Array | None]:
        """Return the table of codes that may repeat, a row of each slot, and the slot of each row (ndarrays of intp);
        None twice if no code repeats: row and slot are then the same."""
        table = cls.__new__(cls)
        table._allot(codes)
        owners, rows = table._settle(codes)
        if owners is None or rows is None:
            return table, None, None
        slots = np.empty(len(codes), np.intp)
        slots[rows] = np.arange(len(rows))
        slots = slots.take(owners)
        # Another table, as one for all rows would be read all over.
        return cls(codes.take(rows)), rows, slots

    def _allot(self, codes: Array) -> None:
        bits = max(4, (2 * len(codes) - 1).bit_length())
        self._shift = np.uint64(64 - bits)
        self._mask = (1 << bits) - 1
        self._slots = np.full(1 << bits, -1, np.int32)
        self._codes = codes
        self.bytes = int(self._slots.nbytes + codes.nbytes)

    def _settle(self, codes: Array) -> tuple[Array | None, Array | None]:
        """Fill the table with the rows of the codes. If some repeat, return the row in the table of each row, and the
        rows in the table, ascending; else None twice."""
        places = self._home(codes)
        pending = np.arange(len(codes), dtype=np.int32)
        # If several rows write to one place, the last has it.
        self._slots[places] = pending
        owner = taken(self._slots, places)
        owners: Array | None = None
        while True:
            left = np.flatnonzero(owner != pending)
            if not len(left):
                break
            pending, places, owner = pending.take(left), places.take(left), owner.take(left)
            same = taken(codes, owner) == taken(codes, pending)
            if same.any():
                if owners is None:
                    owners = np.arange(len(codes), dtype=np.int32)
                owners[pending[same]] = owner[same]
                pending, places = pending[~same], places[~same]
            places += 1
            places &= self._mask
            free = self._slots.take(places) < 0
            self._slots[places[free]] = pending[free]
            owner = taken(self._slots, places)
        if owners is None:
            return None, None
        return owners, np.flatnonzero(owners == np.arange(len(codes)))

    def _home(self, codes: Array) -> Array:
        """Return the place at which the search for each code begins.

        A product alone maps arithmetic progressions to progressions: for keys of (host, hour in microseconds), they
        overlapped in runs of 674 places, 118 probes a row.
        """
        words = codes.view(np.uint64)
        hashes = words >> np.uint64(32)
        hashes ^= words
        hashes *= _MIX_1
        hashes ^= hashes >> np.uint64(29)
        hashes *= _MIX_2
        hashes >>= self._shift
        places: Array = hashes.view(np.intp)
        return places

    def probes(self) -> Array:
        """Return the number of places read to find each code, in no order: ndarray of intp."""
        occupied = np.flatnonzero(self._slots >= 0)
        home = self._home(self._codes.take(self._slots.take(occupied)))
        return ((occupied - home) & self._mask) + 1

    def find(self, codes: Array) -> Array:
        places = self._home(codes)
        result = taken(self._slots, places)
        if not len(self._codes):
            return result
        wrong = np.flatnonzero((result >= 0) & (taken(self._codes, result) != codes))
        while len(wrong):
            places_left = (places[wrong] + 1) & self._mask
            places[wrong] = places_left
            slots = taken(self._slots, places_left)
            result[wrong] = slots
            wrong = wrong[(slots >= 0) & (taken(self._codes, slots) != codes[wrong])]
        return result


class SameSlots:
    """The codes themselves."""

    bytes = 0

    def find(self, codes: Array) -> Array:
        return codes


def numbered_slots(codes: Array, size: int) -> tuple[Slots, Array, int]:
    """Return slots for codes that may repeat, the slot of each (ndarray of integers) and an exclusive upper bound of
    these. The codes, below `size`, are not negative; no rows are sorted."""
    if size <= max(_ALWAYS_DIRECT, _MOST_DIRECT * len(codes)):
        return SameSlots(), codes, size
    if not len(codes):
        return NoSlots(), codes, 0
    if size <= max(_ALWAYS_RANKED, _MOST_RANKED * len(codes)):
        ranked = RankedSlots(codes, size)
        return ranked, ranked.find(codes), ranked.count
    table, rows, slots = HashSlots.learn(codes)
    if rows is None or slots is None:
        return table, np.arange(len(codes)), len(codes)
    return table, slots, len(rows)


class JoinIndex:
    """Finds the build rows of probe codes.

    Parameters
    ----------
    codes : ndarray of int64, shape (n_build_rows,)
        From `KeyCoder.learn`; rows with -1 match nothing.
    size : int
        Exclusive upper bound of the codes.
    most : int
        Largest number of entries of a direct table, regardless of speed; of bits, a multiple of it.
    """

    def __init__(self, codes: Array, size: int, most: int = _LARGEST):
        self._rows: Array | None = None  # build rows by slot; None: the slot is the row
        self._starts: Array | None = None  # runs of rows by slot; None: one row each
        if len(codes) and int(codes.min()) < 0:
            self._rows = np.flatnonzero(codes >= 0)
            codes = codes.take(self._rows)
        self._slots: Slots = NoSlots()
        if not len(codes):
            self._rows = None
            return
        if size <= max(_ALWAYS_DIRECT, _MOST_DIRECT * len(codes)) and size <= most:
            self._direct(codes, size)
        elif size <= max(_ALWAYS_RANKED, _MOST_RANKED * len(codes)) and size <= _RANKED_SHARE * most:
            self._ranked(codes, size)
        else:
            self._slots = HashSlots(self._grouped(codes, size))
        if self._rows is not None and self._starts is None:
            # Slot -1 refers to the last entry.
            self._rows = np.append(self._rows, -1)

    def _direct(self, codes: Array, size: int) -> None:
        slots = DirectSlots(codes, size)
        if not bool((slots.kept(codes) == np.arange(len(codes), dtype=np.int32)).all()):
            slots = DirectSlots(self._grouped(codes, size), size)
        self._slots = slots

    def _ranked(self, codes: Array, size: int) -> None:
        self._slots = slots = RankedSlots(codes, size)
        ranks = slots.find(codes)
        if slots.count < len(codes):
            self._grouped(ranks, slots.count)
        elif not is_ascending(ranks):
            rows = np.empty(len(ranks), np.intp)
            rows[ranks] = np.arange(len(ranks)) if self._rows is None else self._rows
            self._rows = rows

    def _grouped(self, codes: Array, size: int) -> Array:
        """Sort the rows by code; return the distinct codes, ascending, whose positions are the slots."""
        order, ordered = sort_rows(codes, size)
        starts = run_starts(ordered)
        self._rows = order if self._rows is None else self._rows.take(order)
        if len(starts) < len(codes):
            self._starts = np.append(starts, len(codes))
        return ordered.take(starts).astype(np.int64)

    @property
    def bytes(self) -> int:
        """Bytes of memory; of a table, the pages that its entries may touch."""
        arrays = [array for array in (self._rows, self._starts) if array is not None]
        return self._slots.bytes + sum(int(array.nbytes) for array in arrays)

    @property
    def is_unique(self) -> bool:
        """True if no key repeats."""
        return self._starts is None

    def find(self, codes: Array) -> Array:
        """Return the build row of each probe row, -1 for none; for a unique index only."""
        assert self._starts is None
        slots = self._slots.find(codes)
        return slots if self._rows is None else self._rows.take(slots, mode="wrap")

    def has(self, codes: Array) -> Array:
        """Return a mask of the probe rows that have a build row: ndarray of bool."""
        return self._slots.find(codes) >= 0

    def pairs(self, codes: Array) -> Iterator[tuple[Array, Array]]:
        """Yield all matches as (probe rows, build rows), probe rows ascending, in parts of about `PAIRS_AT_ONCE`.

        All pairs of one probe row are in one part.
        """
        slots = self._slots.find(codes)
        probe = np.flatnonzero(slots >= 0)
        slots = taken(slots, probe)
        if self._starts is None:
            yield probe, slots.astype(np.intp) if self._rows is None else taken(self._rows, slots)
            return
        assert self._rows is not None
        first = taken(self._starts, slots)
        yield from run_pairs(probe, first, taken(self._starts, slots + 1) - first, self._rows)

    def slots(self, codes: Array) -> Array:
        """Return a number of each row's key, -1 if the build side does not have it: ndarray of int64."""
        return self._slots.find(codes).astype(np.int64)

    @property
    def rows_per_key(self) -> float:
        """Number of build rows with one key, on average."""
        if self._starts is None:
            return 1.0
        return int(self._starts[-1]) / (len(self._starts) - 1)


def run_pairs(probe: Array, first: Array, counts: Array, rows: Array) -> Iterator[tuple[Array, Array]]:
    """Yield pairs of each of the rows `probe` and the `counts` positive number of `rows` from `first` on, in parts of
    about `PAIRS_AT_ONCE`; all pairs of one probe row are in one part."""
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
        yield probe_rows, taken(rows, build_rows)
        begin = end
