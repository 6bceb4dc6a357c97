"""Hints of where keys are: what was noted last, what was put in for a whole stretch, or nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from nyala.storage.files.page_cache import PageCache
from nyala.storage.keys.key_places import MOST_SLOTS, SEARCHES, STRETCH, KeyPlaces

HASH = st.integers(0, 2**32 - 1)
NOTES = st.lists(st.tuples(HASH, st.integers(0, 2_047), st.integers(0, 2**32 - 1)))


class Rows:
    """Rows whose keys have `hashes`, or `row_count` rows whose hashes must not be requested."""

    def __init__(self, hashes: npt.NDArray[np.uint32] | None = None, row_count: int = 0):
        self.hashes = hashes
        self.row_count = row_count if hashes is None else len(hashes)

    def key_hashes(self, start: int, stop: int) -> npt.NDArray[np.uint32]:
        assert self.hashes is not None, "hashes are asked for"
        assert 0 <= start < stop <= self.row_count
        return self.hashes[start:stop]


ROWSETS = [Rows() for _ in range(2_049)]


def room() -> PageCache:
    return PageCache(1 << 30)


def random_hashes(seed: int, count: int) -> npt.NDArray[np.uint32]:
    return np.random.default_rng(seed).choice(2**32, count, replace=False).astype(np.uint32)


def search_often(places: KeyPlaces[Rows], rows: Rows, row: int) -> None:
    """So often that all keys around are put in."""
    assert rows.hashes is not None
    for _ in range(SEARCHES):
        places.note(int(rows.hashes[row]), rows, row)


@given(NOTES, HASH)
def test_a_hint_is_what_was_noted_last(notes: list[tuple[int, int, int]], other: int) -> None:
    places = KeyPlaces(ROWSETS, room())
    for hash_, rowset, row in notes:
        places.note(hash_, ROWSETS[rowset], row)
        assert places.get(hash_) == (ROWSETS[rowset], row)
    noted = {hash_: (ROWSETS[rowset], row) for hash_, rowset, row in notes}
    assert other in noted or places.get(other) is None
    assert all(places.get(hash_) in (None, place) for hash_, place in noted.items())


def test_two_keys_that_share_their_slots_are_both_hinted_at_and_a_third_takes_the_place_of_the_first() -> None:
    places = KeyPlaces(ROWSETS, room())
    first, second, third = (number << 12 | 7 for number in range(3))
    places.note(first, ROWSETS[0], 1)
    places.note(second, ROWSETS[1], 2)
    assert places.get(first) == (ROWSETS[0], 1) and places.get(second) == (ROWSETS[1], 2)
    places.note(third, ROWSETS[2], 3)
    assert places.get(first) is None and places.get(second) and places.get(third) == (ROWSETS[2], 3)


def test_a_rowset_behind_the_first_2048_is_not_hinted_at() -> None:
    places = KeyPlaces(ROWSETS, room())
    places.note(1, ROWSETS[2_048], 5)
    assert places.get(1) is None


def test_a_stretch_that_is_searched_often_has_all_of_its_keys_put_in() -> None:
    rows = Rows(random_hashes(1, 2 * STRETCH + 100))
    places = KeyPlaces([Rows(random_hashes(2, 10_000)), rows], room())
    assert rows.hashes is not None
    for row in range(STRETCH, STRETCH + SEARCHES):
        hints = [places.get(int(hash_)) for hash_ in rows.hashes]
        assert sum(hint is not None for hint in hints) == row - STRETCH
        places.note(int(rows.hashes[row]), rows, row)
    hints = [places.get(int(hash_)) for hash_ in rows.hashes]
    assert all(hint in (None, (rows, row)) for row, hint in enumerate(hints))
    assert not any(hints[:STRETCH]) and not any(hints[2 * STRETCH :])
    assert sum(hint is None for hint in hints[STRETCH : 2 * STRETCH]) < STRETCH // 100
    search_often(places, rows, rows.row_count - 1)  # the last stretch is shorter
    assert all(places.get(int(hash_)) is not None for hash_ in rows.hashes[2 * STRETCH :][::9])


def test_nearly_all_keys_have_room_and_none_is_taken_for_another() -> None:
    hashes = random_hashes(3, 60_000)
    rowsets = [Rows(part) for part in np.array_split(hashes, 7)]
    places = KeyPlaces(rowsets, room())
    for rows in rowsets:
        for start in range(0, rows.row_count, STRETCH):
            search_often(places, rows, start)
    missing = 0
    for rows in rowsets:
        assert rows.hashes is not None
        for row, hash_ in enumerate(rows.hashes.tolist()):
            hint = places.get(hash_)
            missing += hint is None
            assert hint in (None, (rows, row))
    assert missing < len(hashes) // 8


def test_what_is_put_in_for_a_stretch_drives_out_nobody() -> None:
    rows, other = Rows(np.arange(STRETCH, dtype=np.uint32) % 50), Rows()
    places = KeyPlaces([rows, other], room())
    for hash_ in range(100):
        places.note(hash_, other, hash_ * STRETCH)
    search_often(places, rows, 0)
    assert all(places.get(hash_) == (other, hash_ * STRETCH) for hash_ in range(1, 100))


def test_without_room_for_all_keys_only_those_that_were_searched_are_known() -> None:
    rows = Rows(row_count=MOST_SLOTS + 1)
    places = KeyPlaces([rows], room())
    for row in range(2 * SEARCHES):
        places.note(77, rows, row)
    assert places.get(77) == (rows, 2 * SEARCHES - 1)


def test_places_stay_known_for_objects_that_stand_for_the_same_rows() -> None:
    before, after = [Rows(), Rows()], [Rows(), Rows()]
    places = KeyPlaces(before, room())
    assert places.of_same_rows(after).get(5) is None
    places.note(5, before[1], 6)
    same = places.of_same_rows(after)
    assert same.get(5) == (after[1], 6)
    same.note(8, after[0], 9)
    assert same.get(8) == (after[0], 9)


def test_what_is_known_is_a_page_of_the_cache_that_goes_where_others_are_used_more() -> None:
    cache, rows = PageCache(1 << 20), Rows()
    places = KeyPlaces([rows], cache)
    assert cache.size == 0
    places.note(5, rows, 6)
    assert 0 < cache.size <= cache.capacity_bytes // 8
    cache.put(-1, 0, "page", cache.capacity_bytes)
    assert places.get(5) is None
    places.note(7, rows, 8)
    assert places.get(7) == (rows, 8) and places.get(5) is None


def test_what_is_given_up_is_forgotten_for_all_and_takes_nothing_more() -> None:
    cache, before, after = PageCache(1 << 20), Rows(), Rows()
    places = KeyPlaces([before], cache)
    same = places.of_same_rows([after])
    same.note(5, after, 6)
    places.forget()
    assert same.get(5) is None and cache.size == 0
    same.note(5, after, 6)
    places.note(5, before, 6)
    assert same.get(5) is None and cache.size == 0


def test_where_the_cache_has_shrunk_nothing_is_remembered() -> None:
    cache = PageCache(1 << 27)
    rows = Rows(random_hashes(1, 10**6))
    places = KeyPlaces([rows], cache)
    cache.resize(8 << 20)
    places.note(77, rows, 3)
    assert places.get(77) is None and not len(cache)
    cache.resize(1 << 27)
    places.note(77, rows, 3)
    assert places.get(77) == (rows, 3)


def test_the_slots_of_a_large_tablet_take_an_eighth_of_the_cache_at_most() -> None:
    cache, rows = PageCache(1 << 20), Rows(row_count=10**6)
    KeyPlaces([rows], cache).note(1, rows, 1)
    assert cache.size == cache.capacity_bytes // 8
    cache, few = PageCache(0), Rows()
    places = KeyPlaces([few], cache)
    places.note(1, few, 1)
    assert places.get(1) is None and cache.size == 0
