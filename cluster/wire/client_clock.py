"""The clock of a client: its own, unless that is behind the servers'.

    the first reply shows    10:00:07      this machine's wall clock: 09:55:00
    from then on             the servers' latest time, which may be 5 min 7 s + 10 s ahead of the wall clock

A client gets the time from servers, so it works on a machine whose clock is slow. The client does not follow one server
whose clock jumps ahead later, as all others would refuse its requests then. If most servers that have replied lately
agree, they are right. Between replies the clock does not run ahead of the wall clock, because the servers' clocks may
pause if they were ahead once.
"""

from __future__ import annotations

import time

from ...model.clock import LEAD, LOGICAL_BITS, HybridClock, wall_microseconds
from ...model.store import Timestamp

MAX_LAG_SECONDS = 10 * 365 * 24 * 3600
"""A first reply that is further ahead than this, in seconds, is refused as absurd."""
MEMORY_SECONDS = 30.0
"""Seconds for which a reply counts in the vote on which servers are right."""


class ClientClock(HybridClock):
    """A client's clock. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._lag = 0
        """By how much the wall clock is behind the trusted servers, as a difference of timestamps."""
        self._is_set = False
        self._replies: dict[str, tuple[float, bool, int]] = {}
        """By address: when its server last replied (monotonic seconds), whether it was too far ahead then, and its
        timestamp."""

    def limit(self) -> Timestamp:
        """See `HybridClock.limit`; before the first reply, far ahead."""
        if self._is_set:
            return Timestamp(max(super().limit(), (wall_microseconds() << LOGICAL_BITS) + self._lag + LEAD))
        return Timestamp((wall_microseconds() + MAX_LAG_SECONDS * 1_000_000) << LOGICAL_BITS)

    def update(self, timestamp: Timestamp) -> None:
        """See `HybridClock.update`; the first timestamp sets the clock."""
        if not self._is_set:
            self._set(timestamp)
        super().update(timestamp)

    def _warn(self, latest: int, now: int) -> None:
        """No-op: a client assigns no timestamps to writes, and if its clock is behind it follows the servers'."""
        self._is_ahead = True

    def _set(self, timestamp: int) -> None:
        self._lag = max(0, timestamp - (wall_microseconds() << LOGICAL_BITS))
        self._is_set = True

    def heard(self, address: str, timestamp: int, is_ahead: bool) -> bool:
        """True if the clock may follow a server's reply, which `is_ahead` says is beyond `limit`."""
        now = time.monotonic()
        self._replies[address] = now, is_ahead, timestamp
        if not is_ahead:
            return True
        lately = [was_ahead for at, was_ahead, _ in list(self._replies.values()) if now - at < MEMORY_SECONDS]
        if 2 * sum(lately) <= len(lately) or timestamp >> LOGICAL_BITS > wall_microseconds() + MAX_LAG_SECONDS * 10**6:
            return False
        self._set(timestamp)
        return True

    def is_behind_most(self, address: str) -> bool:
        """True if a server's last reply showed a time that is far behind this clock, and those of at least half of the
        servers that have replied lately did not: so this clock is right."""
        now = time.monotonic()
        lately = {
            # What it would show now is its last timestamp and the time that has passed since.
            other: timestamp + (int((now - at) * 1_000_000) << LOGICAL_BITS) < self.latest - LEAD
            for other, (at, _, timestamp) in list(self._replies.items())
            if now - at < MEMORY_SECONDS
        }
        return lately.get(address, False) and 2 * sum(lately.values()) <= len(lately)
