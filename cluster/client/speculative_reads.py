"""Speculative reads: a look-up without a reply after its tablet's recent 95th percentile is sent to a second replica
("The Tail at Scale", Dean and Barroso 2013; the Kudu paper's future work). The first reply counts, the other call is
cancelled.

| `speculative_reads` | a second replica may reply to |
|---|---|
| "off" | nothing |
| "snapshots" | look-ups as of a timestamp: any replica that is complete up to there has the same row |
| "recent" | look-ups of the latest row, too, with its state of some seconds ago, own writes included |

The leader alone can say which row is the latest. "recent" permits an older one: as of two seconds before the leader
last replied, at least `AGE_SECONDS` ago, since followers learn up to which time they are complete by heartbeats; never
before the latest write of this client; at most `MOST_AGE_SECONDS` ago.

The extra load has a budget: `SHARE` of all look-ups, and `BURST` at a time; a twentieth of all look-ups are later than
the percentile, so a part of it is kept for those that are much later. A server that lost to its substitute is
tried last for some seconds (`Locations.shun`), so further look-ups go to the other replica first, and cost nothing
extra. Once a second the masters are then called for the tablet's leader, which may be another one by now.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from ...model.clock import LOGICAL_BITS
from ...model.store import Timestamp
from ..wire.messages.methods import Request
from .catalog.locations import Locations
from .client_context import ClientContext

FIRST_SECONDS: Final = 0.05
"""Seconds until the second call while a tablet has fewer than `LEAST_SAMPLES` replies."""
LEAST_SECONDS: Final = 0.002
"""Least seconds until the second call: below, a pause of the own process looks like a slow server."""
LEAST_SAMPLES: Final = 20
SAMPLES: Final = 200
"""Replies of a tablet from which the percentile is computed, again after each `LEAST_SAMPLES`."""
PERCENTILE: Final = 0.95
SHARE: Final = 0.03
BURST: Final = 10.0
RESERVE: Final = 5.0
"""Part of the budget for look-ups that are much later than usual, so that it is left when a server fails."""
LATE_SECONDS: Final = 0.1
LATE_FACTOR: Final = 5.0
"""Least seconds, and multiple of the percentile, for which these have waited further."""
LOCATE_SECONDS: Final = 1.0
AGE_SECONDS: Final = 2.0
MOST_AGE_SECONDS: Final = 10.0
HEARTBEAT_SECONDS: Final = 2.0
"""Seconds before a leader's last reply up to which followers are complete: four of its heartbeats, some of which may be
late."""


class Backup:
    """The second call of a speculative read.

    Attributes
    ----------
    stages : tuple of (float, float)
        Seconds to wait before it is sent, each with the part of the budget that must be left then.
    has_won : bool
        Set if its reply came first.
    """

    __slots__ = ("_choose", "address", "has_won", "request", "stages")

    def __init__(self, request: Request, after: float, choose: Callable[[float], str]):
        self.address = ""
        self.request = request
        self.stages = (after, RESERVE), (max(LATE_SECONDS, LATE_FACTOR * after), 0.0)
        self.has_won = False
        self._choose = choose

    def is_allowed(self, reserve: float) -> bool:
        """True if there is another replica, and the budget permits the call now, with `reserve` left; it is then
        counted as sent, to `address`."""
        self.address = self._choose(reserve)
        return bool(self.address)


class Counts(NamedTuple):
    """Speculative reads of a client: look-ups that might have been sent twice, those that were, and those to which the
    second replica replied first."""

    eligible: int
    sent: int
    won: int


class _Latency:
    """Recent seconds of one tablet's replies."""

    __slots__ = ("_new", "_seconds", "after", "located", "replied")

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=SAMPLES)
        self._new = 0
        self.after = FIRST_SECONDS
        self.located = 0.0
        """When the masters were called for a slow leader's successor."""
        self.replied = 0
        """Hybrid time of the last reply of the leader; 0: none."""

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)
        self._new += 1
        if self._new >= LEAST_SAMPLES:
            self._new = 0
            ordered = sorted(self._seconds)
            self.after = max(LEAST_SECONDS, ordered[int(PERCENTILE * (len(ordered) - 1))])


class SpeculativeReads:
    """Latencies, budget, and counts of one client. Thread-safe.

    Parameters
    ----------
    shared : ClientContext
    locations : Locations
    """

    def __init__(self, shared: ClientContext, locations: Locations):
        self.is_on = shared.options.speculative_reads != "off"
        self._is_recent = shared.options.speculative_reads == "recent"
        self._shared = shared
        self._locations = locations
        # Guards all below.
        self._lock = threading.Lock()
        self._latencies: dict[str, _Latency] = {}
        self._budget = BURST
        self._eligible = self._sent = self._won = 0

    @property
    def counts(self) -> Counts:
        """The counts so far."""
        with self._lock:
            return Counts(self._eligible, self._sent, self._won)

    # ---- one look-up -----------------------------------------------------------------------------------------------

    def past(self, tablet_id: str) -> Timestamp | None:
        """Returns the timestamp as of which another replica may reply to a look-up of the latest row; None: none
        may."""
        if not self._is_recent:
            return None
        now = self._shared.clock.latest
        latency = self._latencies.get(tablet_id)
        past = now - _ticks(AGE_SECONDS)
        if latency is not None and latency.replied:
            past = min(past, latency.replied - _ticks(HEARTBEAT_SECONDS))
        past = max(past, self._shared.latest_write)
        return Timestamp(past) if past >= now - _ticks(MOST_AGE_SECONDS) else None

    def is_leader_slow(self, tablet_id: str) -> bool:
        """True if the tablet's leader did not respond lately."""
        location = self._locations.cached(tablet_id)
        return location is not None and bool(location.leader) and self._locations.is_shunned(location.leader)

    def may_have_moved(self, tablet_id: str) -> bool:
        """True once a second for a tablet whose leader is slow: the masters may know another one."""
        now = time.monotonic()
        with self._lock:
            latency = self._latency(tablet_id)
            if now - latency.located < LOCATE_SECONDS:
                return False
            latency.located = now
            return True

    def backup(self, tablet_id: str, address: str, request: Request) -> Backup:
        """Returns the second call of a look-up that is sent to `address`."""
        with self._lock:
            self._budget = min(BURST, self._budget + SHARE)
            self._eligible += 1
            after = self._latency(tablet_id).after
        return Backup(request, after, lambda reserve: self._chosen(tablet_id, address, reserve))

    def _chosen(self, tablet_id: str, address: str, reserve: float) -> str:
        """Returns the replica for a second call, and counts it; "" if there is none, or no budget."""
        location = self._locations.cached(tablet_id)
        voters = [] if location is None else self._locations.for_reading(location, "any", 0, "")
        other = next((a for a in voters if a != address and not self._locations.is_shunned(a)), "")
        with self._lock:
            if not other or self._budget < 1.0 + reserve:
                return ""
            self._budget -= 1.0
            self._sent += 1
        return other

    def ended(self, tablet_id: str, address: str, backup: Backup | None, began: float, is_latest: bool) -> None:
        """Records a reply that came after the call of `address` began (`time.monotonic`)."""
        if backup is not None and backup.has_won:
            self._locations.shun(address)
            with self._lock:
                self._won += 1
            return
        with self._lock:
            latency = self._latency(tablet_id)
            latency.add(time.monotonic() - began)
            if is_latest:
                latency.replied = self._shared.clock.latest

    def _latency(self, tablet_id: str) -> _Latency:
        """Needs the lock."""
        return self._latencies.setdefault(tablet_id, _Latency())


def _ticks(seconds: float) -> int:
    return int(seconds * 1e6) << LOGICAL_BITS
