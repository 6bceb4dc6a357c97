"""Positions of keys: hints in a hash table of 8 bytes per key, so that a row is found without Bloom filters and binary
searches.

    slot    | tag: the upper bits of the hash, 20 at most | number of the rowset: 11 | row: 32 |      -1: nothing yet

A key is in one of two adjacent slots. A slot is a hint: a tag excludes other keys with near certainty, and the reader
compares the row's key with its own. The row may have been deleted or be of another timestamp: then the reader searches
as without a hint. Reading and writing a slot is atomic under the interpreter lock, so threads share the slots without
another lock.

Positions are added when keys are found by a search. After `SEARCHES` searches within a range of rows, all of its keys
are added at once: that takes twice as long as those searches did, so that the total cost is at most three times that of
the searches.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from copy import copy
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from ...model.vectors.vector import Array
from ..files.page_cache import PageCache, new_owner


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
_SLOT_BYTES: Final = 8
_CACHE_SHARE: Final = 8
"""The slots of one tablet take an eighth of the cache at most."""
_ROW_BITS: Final = 32
_ROWSET_BITS: Final = 11
_PLACE_BITS: Final = _ROW_BITS + _ROWSET_BITS
_PLACE: Final = (1 << _PLACE_BITS) - 1
_ROW: Final = (1 << _ROW_BITS) - 1
_MOST_ROWSETS: Final = 1 << _ROWSET_BITS
_NEVER: Final = -(1 << 62)
_ONLY: Final = 0


class _Known:
    """The slots, and how often keys of each stretch were searched (None where there is no room for all keys)."""

    __slots__ = ("searches", "slots")

    def __init__(self, slots: int, has_room: bool):
        self.slots = array("q", [-1]) * slots
        self.searches: dict[int, int] | None = {} if has_room else None


class _Home:
    """The place in the cache of what is known."""

    __slots__ = ("cache", "is_given_up", "owner", "pages")

    def __init__(self, cache: PageCache):
        self.cache = cache
        self.owner = new_owner()
        self.pages = cache.pages(self.owner)
        self.is_given_up = False


def _most_slots(cache: PageCache) -> int:
    """The slots that one tablet may have in a cache as large as this one is now."""
    return max(_FEWEST_SLOTS, cache.capacity_bytes // _CACHE_SHARE // _SLOT_BYTES)


class KeyPlaces(Generic[T]):
    """Hints of where keys are in some rowsets, whose keys never change. Safe for several threads.

    Parameters
    ----------
    rowsets : sequence
        The first 2,048 of them can be hinted at.
    cache : PageCache
        Has the hints as a page of its own, once something is noted, so that they go where memory is needed for what is
        used more.

    Examples
    --------
    >>> class Rows:
    ...     row_count = 10
    >>> rows = Rows()
    >>> places = KeyPlaces([rows], PageCache(1 << 20))
    >>> places.note(77, rows, 3)
    >>> places.get(77) == (rows, 3), places.get(78)
    (True, None)
    """

    __slots__ = ("_has_room", "_home", "_mask", "_numbers", "_pages", "_rowsets", "_tag_shift")

    def __init__(self, rowsets: Sequence[T], cache: PageCache):
        self._rowsets = tuple(rowsets)
        self._home = _Home(cache)
        self._pages = self._home.pages
        self._numbers: dict[T, int] | None = None
        rows = sum(rowset.row_count for rowset in rowsets)
        most = min(MOST_SLOTS, _most_slots(cache))
        slots = max(_FEWEST_SLOTS, min(1 << most.bit_length() - 1, 1 << (rows + rows // 4).bit_length()))
        self._has_room = rows <= slots
        # The lowest bit distinguishes the two slots of a hash; all others are in the slot's number or in the tag.
        self._mask = slots - 2
        self._tag_shift = self._mask.bit_length() - 1

    def of_same_rows(self, rowsets: Sequence[T]) -> KeyPlaces[T]:
        """These places for objects that stand for the same rows, one for one; what either comes to know, both know."""
        same = copy(self)
        same._rowsets, same._numbers = tuple(rowsets), None
        return same

    def forget(self) -> None:
        """Drop all hints; concurrent readers and writers of the old table do no harm."""
        self._home.is_given_up = True
        self._home.cache.forget(self._home.owner)

    def get(self, hash_: int) -> tuple[T, int] | None:
        """The rowset and row where a key with this hash may be; None where nothing is known."""
        page = self._pages.get(_ONLY)
        if page is None:
            return None
        page.used = True
        slots = page.value.slots
        number, tag = hash_ << 1 & self._mask, hash_ >> self._tag_shift
        slot = slots[number]
        if slot >> _PLACE_BITS != tag:
            slot = slots[number + 1]
            if slot >> _PLACE_BITS != tag:
                return None
        return self._rowsets[(slot & _PLACE) >> _ROW_BITS], slot & _ROW

    def note(self, hash_: int, rowset: T, row: int) -> None:
        """A key with this hash was searched, and found in this row."""
        if self._numbers is None:
            self._numbers = {each: number for number, each in enumerate(self._rowsets[:_MOST_ROWSETS])}
        number = self._numbers.get(rowset)
        if number is None or self._home.is_given_up:
            return
        known = self._known()
        if known is None:
            return
        slots, searches = known.slots, known.searches
        first = hash_ << 1 & self._mask
        slots[first + 1] = slots[first]
        slots[first] = hash_ >> self._tag_shift << _PLACE_BITS | number << _ROW_BITS | row
        if searches is not None:
            stretch = number << _ROW_BITS | row // STRETCH
            count = searches[stretch] = searches.get(stretch, 0) + 1
            if count >= SEARCHES:
                searches[stretch] = _NEVER
                self._put_stretch(slots, rowset, number, row // STRETCH * STRETCH)

    def _known(self) -> _Known | None:
        """The hint table, made if there is space for it: the cache may have shrunk since."""
        page = self._pages.get(_ONLY)
        if page is not None:
            known: _Known = page.value
            return known
        slots, cache = self._mask + 2, self._home.cache
        if slots > _most_slots(cache) or slots * _SLOT_BYTES > cache.capacity_bytes:
            return None
        known = _Known(slots, self._has_room)
        cache.put(self._home.owner, _ONLY, known, slots * _SLOT_BYTES)
        if self._home.is_given_up:  # in the meantime: no other thread would remove it
            cache.forget(self._home.owner)
        return known

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
