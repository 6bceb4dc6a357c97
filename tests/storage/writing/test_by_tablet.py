"""Rows by tablet: all that have one, once, in their order; copied only where they must be."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from nyala.storage.writing.by_tablet import by_tablet, spans


@given(st.lists(st.one_of(st.integers(-1, 4), st.just(40_000)), max_size=40))
def test_each_tablet_gets_its_rows_in_their_order(places: list[int]) -> None:
    rows = pa.record_batch({"row": pa.array(range(len(places)), pa.int64())})
    expected: dict[int, list[int]] = {}
    for row, place in enumerate(places):
        if place >= 0:
            expected.setdefault(place, []).append(row)
    found = list(by_tablet(rows, np.array(places, np.int64)))
    assert [(place, mine["row"].to_pylist()) for place, mine in found] == sorted(expected.items())
    order, parts = spans(np.array(places, np.int64))
    assert {place: order[start:stop].tolist() for place, start, stop in parts} == expected


def test_rows_of_one_tablet_are_not_copied() -> None:
    rows = pa.record_batch({"row": [1, 2, 3]})
    ((place, mine),) = by_tablet(rows, np.array([7, 7, 7]))
    assert place == 7 and mine is rows
