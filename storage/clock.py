"""Hybrid time: one 64-bit number that follows the wall clock and never stands still or goes back.

    63                                          12 11          0
    ├── microseconds since 1970-01-01 00:00 UTC ──┤── logical ──┤

Within one microsecond, or while the wall clock lags behind what was seen already, the logical part counts; when it
is full it runs over into the microseconds. Whoever sees a timestamp from elsewhere (a log, a file, another server)
passes it to `HybridClock.update`, and every later `now` lies above it.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable

from .store import Timestamp
from .types import EPOCH_TIMESTAMP

LOGICAL_BITS = 12
_LOGICAL_MASK = (1 << LOGICAL_BITS) - 1


def wall_microseconds() -> int:
    """The system's clock: microseconds since 1970 UTC. It may jump."""
    return time.time_ns() // 1000


class HybridClock:
    """Gives out strictly ascending timestamps; safe to use from many threads.

    Parameters
    ----------
    physical : callable
        Microseconds since 1970 UTC; may jump in both directions (tests pass their own).

    Examples
    --------
    >>> clock = HybridClock(physical=lambda: 5)
    >>> [split_timestamp(clock.now()) for _ in range(3)]
    [(5, 0), (5, 1), (5, 2)]
    """

    def __init__(self, physical: Callable[[], int] = wall_microseconds):
        self._physical = physical
        self._lock = threading.Lock()
        self._latest = 0

    def now(self) -> Timestamp:
        """A timestamp above every one that this clock gave out or saw."""
        with self._lock:
            now, latest = self._physical() << LOGICAL_BITS, self._latest + 1
            self._latest = latest = now if now > latest else latest
        return latest  # type: ignore[return-value]  # the call of a NewType would cost a third of all this

    @property
    def latest(self) -> Timestamp:
        """The greatest timestamp that this clock gave out or saw; 0 before the first."""
        return Timestamp(self._latest)

    def update(self, timestamp: Timestamp) -> None:
        """Take note of a timestamp from elsewhere: every later `now` lies above it."""
        with self._lock:
            self._latest = max(self._latest, timestamp)


def make_timestamp(microseconds: int, logical: int = 0) -> Timestamp:
    """The timestamp of a microsecond since 1970 UTC and a logical count (0 to 4095)."""
    if not 0 <= logical <= _LOGICAL_MASK:
        raise ValueError(f"logical part {logical} is not between 0 and {_LOGICAL_MASK}")
    return Timestamp((microseconds << LOGICAL_BITS) | logical)


def split_timestamp(timestamp: Timestamp) -> tuple[int, int]:
    """(microseconds since 1970 UTC, logical count)."""
    return timestamp >> LOGICAL_BITS, timestamp & _LOGICAL_MASK


def timestamp_from_datetime(moment: datetime.datetime) -> Timestamp:
    """The first timestamp of a moment's microsecond; a moment without time zone is read as UTC."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return make_timestamp((moment - EPOCH_TIMESTAMP) // datetime.timedelta(microseconds=1))


def timestamp_to_datetime(timestamp: Timestamp) -> datetime.datetime:
    """The wall-clock part as a datetime in UTC."""
    moment = EPOCH_TIMESTAMP + datetime.timedelta(microseconds=split_timestamp(timestamp)[0])
    return moment.replace(tzinfo=datetime.UTC)


def format_timestamp(timestamp: Timestamp) -> str:
    """For people: the moment in UTC, and the logical count behind a `+` where it is not 0.

    >>> format_timestamp(make_timestamp(1_767_225_600_000_000, 3))
    '2026-01-01 00:00:00.000000 UTC+3'
    """
    moment = timestamp_to_datetime(timestamp).strftime("%Y-%m-%d %H:%M:%S.%f")
    logical = split_timestamp(timestamp)[1]
    return f"{moment} UTC{f'+{logical}' if logical else ''}"
