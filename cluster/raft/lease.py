"""A leader's rounds, and the rights that their responses give: to serve reads, and to assign timestamps.

    round 7                          round 8
    ├─ begun at t, clock limit c ────┼──────────── ...
    │      a majority has heard it: the lease holds until t + lease,
    │                               timestamps up to c may be assigned and read at

A peer that hears a round promises to vote for no other peer for one election timeout. The promise starts when the round
is heard, which is after t, so no other leader can be elected until t + lease (thesis, section 6.4.1). The timestamps
need no clocks: each new leader learns from its voters every limit that a majority has heard, and starts above it.
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
        The limit that this round carries: never less than an earlier one's.
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
        """Begins the next round."""
        self.round += 1
        self.clock_limit = max(self.clock_limit, clock_limit)
        self._open.append((self.round, now, self.clock_limit))

    def is_open(self, round: int) -> bool:
        """True if a round up to this one has not been heard by a majority yet."""
        return bool(self._open) and self._open[0][0] <= round

    def heard(self, round: int, lease: float) -> None:
        """Records that a majority has heard all rounds up to `round`."""
        open = self._open
        while open and open[0][0] <= round:
            _, begun_at, limit = open.popleft()
            self.until, self.timestamp_limit = begun_at + lease, limit
