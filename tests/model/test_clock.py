"""The hybrid clock: strictly ascending whatever the wall clock does."""

from __future__ import annotations

import datetime
import itertools
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.model.clock import (
    HybridClock,
    format_timestamp,
    make_timestamp,
    split_timestamp,
    timestamp_from_datetime,
    timestamp_to_datetime,
    wall_microseconds,
)
from nyala.model.store import Timestamp


@given(st.lists(st.integers(0, 2**50), min_size=1))
def test_time_ascends_strictly_however_the_wall_clock_jumps(readings: list[int]) -> None:
    remaining = iter(readings)
    clock = HybridClock(lambda: next(remaining))
    given_out = [clock.now() for _ in readings]
    assert all(a < b for a, b in itertools.pairwise(given_out))
    assert all(split_timestamp(t)[0] >= r for t, r in zip(given_out, readings))


def test_the_logical_part_runs_over_into_the_microseconds() -> None:
    clock = HybridClock(lambda: 7)
    clock.update(make_timestamp(7, 4095))
    assert split_timestamp(clock.now()) == (8, 0)


def test_an_update_lifts_the_clock_and_never_lowers_it() -> None:
    clock = HybridClock(lambda: 100)
    clock.update(make_timestamp(500, 3))
    assert clock.now() == make_timestamp(500, 4)
    clock.update(Timestamp(0))
    assert clock.now() == make_timestamp(500, 5)


def test_threads_never_share_a_timestamp() -> None:
    clock = HybridClock(lambda: 1)
    seen: list[list[Timestamp]] = [[] for _ in range(4)]

    def draw(into: list[Timestamp]) -> None:
        into.extend(clock.now() for _ in range(2_000))

    threads = [threading.Thread(target=draw, args=(into,)) for into in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({t for into in seen for t in into}) == 8_000


def test_the_wall_clock_is_the_default() -> None:
    before = wall_microseconds()
    assert split_timestamp(HybridClock().now())[0] >= before


@given(st.datetimes(min_value=datetime.datetime(1970, 1, 1)))
def test_datetimes_round_trip(moment: datetime.datetime) -> None:
    assert timestamp_to_datetime(timestamp_from_datetime(moment)) == moment.replace(tzinfo=datetime.UTC)


def test_a_zoned_datetime_is_the_same_moment() -> None:
    zoned = datetime.datetime(2026, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert format_timestamp(timestamp_from_datetime(zoned)) == "2026-01-01 00:00:00.000000 UTC"


def test_a_logical_part_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="4096 is not between 0 and 4095"):
        make_timestamp(1, 4096)
