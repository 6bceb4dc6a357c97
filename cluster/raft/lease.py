"""A leader's rounds, and what the answers to them allow it: to serve reads, and to give out timestamps.

    round 7                          round 8
    ├─ begun at t, clock limit c ────┼──────────── ...
    │      a majority has heard it: the lease holds until t + lease,
    │                               timestamps up to c may be given out and read at

A peer that hears a round promises no vote to anybody else for an election timeout, from when it heard it, which is
after t: so until t + lease no other leader can be elected (thesis, section 6.4.1). The timestamps need no clocks at
all: each new leader is told by its voters of every limit that a majority has heard, and starts above.
"""

from __future__ import annotations

from collections import deque

from .progress import NEVER


class Lease:
    """The rounds of one leader in one term.

    Attributes
    ----------
    round : int
        The newest round; 0 before the first.
    clock_limit : int
        What this round carries: never less than an earlier one's.
    until : float
        The end of the lease, in the seconds of `RaftNode.step`.
    timestamp_limit : int
        The greatest clock limit that a majority has heard.
    """

    __slots__ = ("_open", "clock_limit", "round", "timestamp_limit", "until")

    def __init__(self) -> None:
        self.round = 0
        self.clock_limit = 0
        self.until = NEVER
        self.timestamp_limit = 0
        self._open: deque[tuple[int, float, int]] = deque()

    def begin(self, now: float, clock_limit: int) -> None:
        """Begin the next round."""
        self.round += 1
        self.clock_limit = max(self.clock_limit, clock_limit)
        self._open.append((self.round, now, self.clock_limit))

    def heard(self, round: int, lease: float) -> None:
        """A majority has heard of all rounds up to `round`."""
        open = self._open
        while open and open[0][0] <= round:
            _, begun_at, limit = open.popleft()
            self.until, self.timestamp_limit = begun_at + lease, limit
