"""Bitmaps over texts equal masks of bool, across words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.executor.files import csv_bits

MASKS = st.lists(st.booleans(), min_size=1, max_size=260).map(lambda values: np.array(values, np.bool_))


def mask_of(bitmap: Any, size: int) -> list[bool]:
    found = np.unpackbits(bitmap.view(np.uint8), bitorder="little").astype(bool)
    return list(found[:size])


@given(MASKS, st.integers(0, 260))
def test_bitmaps_are_masks(mask: Any, begin: int) -> None:
    size, bitmap = len(mask), csv_bits.bits(mask)
    places = [int(place) for place in np.flatnonzero(mask)]
    assert mask_of(bitmap, size) == list(mask)
    assert mask_of(csv_bits.inside(bitmap), size) == list(np.cumsum(mask) % 2 == 1)
    for is_first in (False, True):
        assert mask_of(csv_bits.after(bitmap, is_first), size) == [is_first, *mask[:-1]]
    assert mask_of(csv_bits.before(bitmap), size) == [*mask[1:], False]
    assert csv_bits.count(bitmap) == len(places)
    assert csv_bits.first(bitmap) == min(places, default=-1)
    assert csv_bits.last(bitmap) == max(places, default=-1)
    assert mask_of(csv_bits.since(bitmap, begin), size) == [
        at >= begin and bool(is_in) for at, is_in in enumerate(mask)
    ]
    for place in places[:1]:
        assert csv_bits.count(csv_bits.without(bitmap, place)) == len(places) - 1


@pytest.mark.parametrize("size", [1, 63, 64, 65, 128])
def test_a_full_bitmap_has_no_bits_behind_its_end(size: int) -> None:
    assert csv_bits.last(csv_bits.bits(np.ones(size, np.bool_))) == size - 1
