"""Where keys were found lately: one slot of 8 bytes for each of many hashes, so that a key that is asked for again is
found without Bloom filters and binary searches.

    slot    | tag: 19 bits of the hash | number of the rowset: 12 | row: 32 |      -1: nothing yet

A slot is a hint. A tag says with near certainty that another key's place is there; whoever takes the hint compares the
row's key with his own, and what he finds may have been deleted or be of another time than he asks for: then he
searches as if there were no hint. Slots are overwritten by whatever key comes next. Reading and writing one is atomic
under Python's lock, so threads share them without another.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Hashable)

MOST_SLOTS: Final = 1 << 18
"""2 MB, of a tablet whose rows are looked up one by one."""
_FEWEST_SLOTS: Final = 1 << 10
_ROW_BITS: Final = 32
_ROWSET_BITS: Final = 12
_PLACE_BITS: Final = _ROW_BITS + _ROWSET_BITS
_PLACE: Final = (1 << _PLACE_BITS) - 1
_ROW: Final = (1 << _ROW_BITS) - 1
_TAG: Final = (1 << 19) - 1
_MOST_ROWSETS: Final = 1 << _ROWSET_BITS


class RecentPlaces(Generic[T]):
    """Hints of where keys are in some rowsets, which never change. Safe for several threads.

    Parameters
    ----------
    rowsets : sequence
        Hashable, by identity as a rule. The first 4,096 of them can be hinted at.
    rows : int
        Of all rowsets together: there are about as many slots, but no more than `MOST_SLOTS`.

    Examples
    --------
    >>> places = RecentPlaces(["one", "two"], rows=10)
    >>> places.note(hash((7,)), "two", 3)
    >>> places.get(hash((7,))), places.get(hash((8,)))
    (('two', 3), None)
    """

    __slots__ = ("_mask", "_numbers", "_rowsets", "_slot_bits", "_slots")

    def __init__(self, rowsets: Sequence[T], rows: int):
        self._rowsets = rowsets
        self._mask = min(MOST_SLOTS, max(_FEWEST_SLOTS, 1 << rows.bit_length())) - 1
        self._slot_bits = self._mask.bit_length()
        self._slots: array[int] | None = None
        """Made when something is noted first: most tablets are not looked up row by row."""
        self._numbers: dict[T, int] = {}

    def get(self, hash_: int) -> tuple[T, int] | None:
        """The rowset and row where a key with this hash was found last; None where nothing is known."""
        slots = self._slots
        if slots is None:
            return None
        slot = slots[hash_ & self._mask]
        if slot < 0 or slot >> _PLACE_BITS != (hash_ >> self._slot_bits) & _TAG:
            return None
        return self._rowsets[(slot & _PLACE) >> _ROW_BITS], slot & _ROW

    def note(self, hash_: int, rowset: T, row: int) -> None:
        """A key with this hash is in this row."""
        slots = self._slots
        if slots is None:
            self._numbers = {each: number for number, each in enumerate(self._rowsets[:_MOST_ROWSETS])}
            slots = self._slots = array("q", [-1]) * (self._mask + 1)
        number = self._numbers.get(rowset)
        if number is not None:
            slots[hash_ & self._mask] = (hash_ >> self._slot_bits & _TAG) << _PLACE_BITS | number << _ROW_BITS | row
