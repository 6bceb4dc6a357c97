"""Where keys are: hints in a hash table of 8 bytes per key, so that a row is found without Bloom filters and binary
searches.

    slot    | tag: the upper bits of the hash, 20 at most | number of the rowset: 11 | row: 32 |      -1: nothing yet

Two slots side by side may hold a key. A slot is a hint: a tag says with near certainty that another key's place is
there; whoever takes the hint compares the row's key with his own, and what he finds may have been deleted or be of
another time than he asks for: then he searches as if there were no hint. Reading and writing one is atomic under
Python's lock, so threads share them without another.

Places come in when keys are found by a search. A stretch of rows in which `SEARCHES` keys were searched has all of its
keys put in at once: that takes twice as long as those searches did, so that nobody pays more than three times what he
must.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from ..vector import Array


class Hashed(Protocol):
    """A run of rows that knows the hashes of its keys; equal by identity."""

    @property
    def row_count(self) -> int: ...

    def key_hashes(self, start: int, stop: int) -> Array:
        """`KeyCodec.hash32` of the keys of the rows `start` to `stop` (exclusive): ndarray of uint32."""
        ...

    def __hash__(self) -> int: ...


T = TypeVar("T", bound=Hashed)

MOST_SLOTS: Final = 1 << 21
"""16 MB, of a tablet whose rows are looked up one by one."""
STRETCH: Final = 4_096
"""Rows whose keys are put in together."""
SEARCHES: Final = 32
_FEWEST_SLOTS: Final = 1 << 13
_ROW_BITS: Final = 32
_ROWSET_BITS: Final = 11
_PLACE_BITS: Final = _ROW_BITS + _ROWSET_BITS
_PLACE: Final = (1 << _PLACE_BITS) - 1
_ROW: Final = (1 << _ROW_BITS) - 1
_MOST_ROWSETS: Final = 1 << _ROWSET_BITS
_NEVER: Final = -(1 << 62)


class KeyPlaces(Generic[T]):
    """Hints of where keys are in some rowsets, whose keys never change. Safe for several threads.

    Parameters
    ----------
    rowsets : sequence
        The first 2,048 of them can be hinted at.

    Examples
    --------
    >>> class Rows:
    ...     row_count = 10
    >>> rows = Rows()
    >>> places = KeyPlaces([rows])
    >>> places.note(77, rows, 3)
    >>> places.get(77) == (rows, 3), places.get(78)
    (True, None)
    """

    __slots__ = ("_mask", "_numbers", "_rowsets", "_searches", "_slots", "_tag_shift")

    def __init__(self, rowsets: Sequence[T]):
        self._rowsets = tuple(rowsets)
        rows = sum(rowset.row_count for rowset in rowsets)
        # The lowest bit tells apart the two slots of a hash; all others are in the slot's number or in the tag.
        self._mask = min(MOST_SLOTS, max(_FEWEST_SLOTS, 1 << (rows + rows // 4).bit_length())) - 2
        self._tag_shift = self._mask.bit_length() - 1
        self._slots: array[int] | None = None
        """Made when something is noted first: most tablets are not looked up row by row."""
        self._numbers: dict[T, int] = {}
        self._searches: dict[int, int] | None = {} if rows <= MOST_SLOTS else None
        """By stretch; None where there is no room for all keys."""

    def of_same_rows(self, rowsets: Sequence[T]) -> KeyPlaces[T]:
        """These places for objects that stand for the same rows, one for one."""
        same = KeyPlaces(rowsets)
        if self._slots is not None:
            same._numbers = _numbered(same._rowsets)
            same._slots, same._searches = self._slots, self._searches
        return same

    def get(self, hash_: int) -> tuple[T, int] | None:
        """The rowset and row where a key with this hash may be; None where nothing is known."""
        slots = self._slots
        if slots is None:
            return None
        number, tag = hash_ << 1 & self._mask, hash_ >> self._tag_shift
        slot = slots[number]
        if slot >> _PLACE_BITS != tag:
            slot = slots[number + 1]
            if slot >> _PLACE_BITS != tag:
                return None
        return self._rowsets[(slot & _PLACE) >> _ROW_BITS], slot & _ROW

    def note(self, hash_: int, rowset: T, row: int) -> None:
        """A key with this hash was searched, and found in this row."""
        slots = self._slots
        if slots is None:
            self._numbers = _numbered(self._rowsets)
            slots = self._slots = array("q", [-1]) * (self._mask + 2)
        number = self._numbers.get(rowset)
        if number is None:
            return
        first = hash_ << 1 & self._mask
        slots[first + 1] = slots[first]
        slots[first] = hash_ >> self._tag_shift << _PLACE_BITS | number << _ROW_BITS | row
        searches = self._searches
        if searches is not None:
            stretch = number << _ROW_BITS | row // STRETCH
            count = searches[stretch] = searches.get(stretch, 0) + 1
            if count >= SEARCHES:
                searches[stretch] = _NEVER
                self._put_stretch(slots, rowset, number, row // STRETCH * STRETCH)

    def _put_stretch(self, slots: array[int], rowset: T, number: int, start: int) -> None:
        """Put in the places of all keys of a stretch, where their slots are free."""
        stop = min(start + STRETCH, rowset.row_count)
        hashes = rowset.key_hashes(start, stop).astype(np.int64)
        held = np.frombuffer(slots, np.int64)
        places = np.arange(start, stop, dtype=np.int64) | number << _ROW_BITS
        places |= hashes >> self._tag_shift << _PLACE_BITS
        firsts = hashes << 1 & self._mask
        for slot in (firsts, firsts + 1):
            left = np.flatnonzero((held[firsts] != places) & (held[slot] < 0))
            held[slot[left]] = places[left]


def _numbered(rowsets: Sequence[T]) -> dict[T, int]:
    return {rowset: number for number, rowset in enumerate(rowsets[:_MOST_ROWSETS])}
