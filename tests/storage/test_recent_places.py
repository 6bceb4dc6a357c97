"""Hints of where keys are: what was noted last, or nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from nyala.storage.keys.recent_places import MOST_SLOTS, RecentPlaces

HASH = st.integers(-(2**28), 2**28 - 1)
"""What two of them differ in is compared: 10 bits by the slot, 19 by the tag."""
NOTES = st.lists(st.tuples(HASH, st.integers(0, 4_095), st.integers(0, 2**32 - 1)))
ROWSETS = [f"rowset {number}" for number in range(4_097)]


@given(NOTES, HASH)
def test_a_hint_is_what_was_noted_last(notes: list[tuple[int, int, int]], other: int) -> None:
    places = RecentPlaces(ROWSETS, rows=100)
    for hash_, rowset, row in notes:
        places.note(hash_, ROWSETS[rowset], row)
        assert places.get(hash_) == (ROWSETS[rowset], row)
    noted = {hash_: (ROWSETS[rowset], row) for hash_, rowset, row in notes}
    assert other in noted or places.get(other) is None
    assert all(places.get(hash_) in (None, place) for hash_, place in noted.items())


def test_a_rowset_behind_the_first_4096_is_not_hinted_at() -> None:
    places = RecentPlaces(ROWSETS, rows=100)
    places.note(1, ROWSETS[4_096], 5)
    assert places.get(1) is None


def test_as_many_slots_as_rows_within_limits() -> None:
    for rows, slots in ((0, 1_024), (5_000, 8_192), (10**9, MOST_SLOTS)):
        places = RecentPlaces(["only"], rows)
        places.note(3, "only", 1)
        places.note(3 + slots, "only", 2)
        assert places.get(3) is None
        places.note(3 + slots // 2, "only", 4)
        assert places.get(3 + slots) == ("only", 2)
