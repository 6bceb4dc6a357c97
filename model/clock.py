"""Hybrid time: strictly increasing 64-bit timestamps that follow the wall clock.

    63                                          12 11          0
    ├── microseconds since 1970-01-01 00:00 UTC ──┤── logical ──┤

Within one microsecond, or while the wall clock is behind a timestamp seen before, the logical part counts; when it is
full it overflows into the microseconds. Callers pass timestamps from a log, a file or another server to
`HybridClock.update`; every later `now` is above them.
"""

from __future__ import annotations

import datetime
import functools
import logging
import threading
import time
from collections.abc import Callable

from ..errors import ClockOutOfRange
from .store import Timestamp
from .types import EPOCH_TIMESTAMP

LOGICAL_BITS = 12
_LOGICAL_MASK = (1 << LOGICAL_BITS) - 1


LEAD_SECONDS = 10
"""Limit of the lead over the wall clock, in seconds: a larger one is logged, and timestamps of other machines beyond it
are refused (Kudu's bound)."""
LEAD = (LEAD_SECONDS * 1_000_000) << LOGICAL_BITS
"""The same as a difference of timestamps."""
DRIFT = 1_000 << LOGICAL_BITS
"""A millisecond, as a difference of timestamps: `HybridClock.limit` is at least so far ahead of the clock."""
END = (1 << 64) - 1
"""The last timestamp that 64 bits hold."""
_BEYOND = "this machine's clock shows {} UTC: timestamps end on 2112-09-17; set the clock right"
_log = logging.getLogger(__name__)


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
        self._tolerated = 0
        self.steady: Callable[[], int] = physical
        """Clock by which history expires: an embedded store's `SteadyClock`, else the wall clock."""
        self._is_ahead = False
        """True if the wall clock is more than `LEAD_SECONDS` behind, and that was logged."""

    def now(self) -> Timestamp:
        """Returns a timestamp above every one that this clock has returned or seen."""
        with self._lock:
            now, latest = self._physical() << LOGICAL_BITS, self._latest + 1
            if now > latest:
                latest = now
                self._is_ahead = False
            elif latest - now > LEAD and not self._is_ahead:
                self._warn(latest, now)
            if latest > END:
                raise ClockOutOfRange(_BEYOND.format(timestamp_to_datetime(Timestamp(now)).strftime("%Y-%m-%d %H:%M")))
            self._latest = latest
        return latest  # type: ignore[return-value]  # the call of a NewType would cost a third of all this

    def _warn(self, latest: int, now: int) -> None:
        """Log once that timestamps are ahead of the wall clock, until it has caught up. Needs the lock."""
        self._is_ahead = True
        _log.warning(
            "timestamps of writes are %.0f seconds ahead of this machine's clock (%s against %s): it was ahead "
            "before, or is behind now. Timestamps continue from there until it has caught up; see docs/operations.md",
            ((latest - now) >> LOGICAL_BITS) / 1e6,
            format_timestamp(Timestamp(latest)),
            format_timestamp(Timestamp(now)),
        )

    def wall(self) -> int:
        """Microseconds since 1970 UTC by the physical clock; may jump."""
        return self._physical()

    def limit(self) -> Timestamp:
        """The greatest timestamp of another machine that this clock may follow: `LEAD_SECONDS` ahead of the wall clock.

        If this clock is ahead itself, as after a wrong wall clock, the limit is its own latest timestamp plus `DRIFT`.
        Clocks that are ahead count calls instead of microseconds; `DRIFT` allows for their differences, and is too
        small to lead a clock far.
        """
        return Timestamp(max((self._physical() << LOGICAL_BITS) + LEAD, self._latest + DRIFT))

    def limit_of_peers(self) -> Timestamp:
        """`limit` for timestamps of servers of the same cluster: `tolerate` raises it."""
        return Timestamp(max(self.limit(), self._tolerated))

    def is_beyond(self, timestamp: int) -> bool:
        """True if a timestamp is more than `LEAD_SECONDS` ahead of the wall clock, and ahead of this clock."""
        return timestamp > self._latest and timestamp > (self._physical() << LOGICAL_BITS) + LEAD

    def tolerate(self, timestamp: Timestamp) -> None:
        """Allow peers to be up to `LEAD_SECONDS` ahead of a timestamp that this machine's files contain. So if the
        clocks of all machines were ahead once, their servers can connect again; the clock itself does not move."""
        self._tolerated = max(self._tolerated, timestamp + LEAD)

    @property
    def latest(self) -> Timestamp:
        """The greatest timestamp that this clock has returned or seen; 0 before the first."""
        return Timestamp(self._latest)

    def advance(self, timestamp: Timestamp) -> bool:
        """`update` to a timestamp above every one that this clock has returned or seen; False, with nothing done, for
        any other."""
        with self._lock:
            if timestamp <= self._latest:
                return False
            self._latest = timestamp
            return True

    def update(self, timestamp: Timestamp) -> None:
        """Record a timestamp of another source: every later `now` is above it."""
        if timestamp > self._latest:  # it never goes back, so an earlier one needs no lock
            with self._lock:
                self._latest = max(self._latest, timestamp)


@functools.lru_cache(maxsize=256)  # a statement that looks several times sees one time
def wall_time(now: Timestamp) -> int:
    """Wall-clock microsecond that `now()` shows for a hybrid timestamp just drawn; hybrid time may be ahead of it."""
    return min(wall_microseconds(), now >> LOGICAL_BITS)


def make_timestamp(microseconds: int, logical: int = 0) -> Timestamp:
    """The timestamp of a microsecond since 1970 UTC and a logical count (0 to 4095)."""
    if not 0 <= logical <= _LOGICAL_MASK:
        raise ValueError(f"logical part {logical} is not between 0 and {_LOGICAL_MASK}")
    return Timestamp((microseconds << LOGICAL_BITS) | logical)


def split_timestamp(timestamp: Timestamp) -> tuple[int, int]:
    """(microseconds since 1970 UTC, logical count)."""
    return timestamp >> LOGICAL_BITS, timestamp & _LOGICAL_MASK


def timestamp_from_datetime(moment: datetime.datetime) -> Timestamp:
    """First hybrid timestamp of a datetime's microsecond; a datetime without time zone is read as UTC."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return make_timestamp((moment - EPOCH_TIMESTAMP) // datetime.timedelta(microseconds=1))


def timestamp_to_datetime(timestamp: Timestamp) -> datetime.datetime:
    """The wall-clock part as a datetime in UTC."""
    moment = EPOCH_TIMESTAMP + datetime.timedelta(microseconds=split_timestamp(timestamp)[0])
    return moment.replace(tzinfo=datetime.UTC)


def format_timestamp(timestamp: Timestamp) -> str:
    """Readable form: the time in UTC, and the logical count after a `#` (a `+` would read as a time zone). A count of 0
    is omitted, and so is the greatest, which means the end of a microsecond.

    >>> format_timestamp(make_timestamp(1_767_225_600_000_000, 3))
    '2026-01-01 00:00:00.000000 UTC#3'
    """
    moment = timestamp_to_datetime(timestamp).strftime("%Y-%m-%d %H:%M:%S.%f")
    logical = split_timestamp(timestamp)[1]
    return f"{moment} UTC{f'#{logical}' if 0 < logical < _LOGICAL_MASK else ''}"
