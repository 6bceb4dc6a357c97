"""Parameters of a tablet's consensus; all times in seconds."""

from __future__ import annotations

import math

from ...model.clock import LOGICAL_BITS
from ...model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RaftOptions:
    """Parameters of consensus. Defaults follow the Kudu paper (section 3.2): heartbeats each 0.5 s, elections after 1.5
    s.

    Parameters
    ----------
    heartbeat : float
        Interval at which a leader sends to every peer, with or without entries.
    election_timeout : float
        Time for which a voter that has heard from a leader votes for no other peer; a voter campaigns after once to
        twice this. Also how long a leader stays leader without a majority, and the limit of a transfer.
    lease : float
        Time for which a leader serves reads, from the beginning of a round that a majority has heard. Less than
        `election_timeout` by the tolerated drift of clocks; 0 stands for nine tenths of it.
    eviction_timeout : float
        A voter that is silent for this time is reported.
    max_batch_bytes : int
        Most bytes of bodies in one message; a longer entry is sent alone.
    window : int
        Most unanswered messages with entries to one peer.
    slot : float
        Rounds are due at multiples of this time, so that the heartbeats of many tablets coincide; up to a slot before
        `heartbeat` has passed. 0: after exactly `heartbeat`.
    gathers : bool
        If several callers propose concurrently, each of them waiting for its entry before the next, a leader holds
        entries back for a moment (`raft.replication`): `Ready.is_held` then requests a `Send` soon, which includes the
        entries that have arrived by then.
    clock_lead : int
        Lead over its wall clock up to which a leader requests the right to assign timestamps, as a difference of
        hybrid times. Less than `election_timeout`: the limit of a leader that died has passed when another is elected.
    clock_step : int
        The same ahead of its hybrid clock, if that is already further ahead. Each new leader moves that clock to the
        previous leader's limit. Leads added to that clock would accumulate, from leader to leader and over all tablets
        of a server.
    """

    heartbeat: float = 0.5
    election_timeout: float = 1.5
    lease: float = 0.0
    eviction_timeout: float = 60.0
    max_batch_bytes: int = 1 << 20
    window: int = 8
    slot: float = 0.0
    gathers: bool = False
    clock_lead: int = 1_000_000 << LOGICAL_BITS
    clock_step: int = 1_000 << LOGICAL_BITS

    def next_heartbeat(self, now: float) -> float:
        """Returns when a round is due after one that is begun now."""
        due = now + self.heartbeat
        return math.floor(due / self.slot) * self.slot if self.slot else due

    def __post_init__(self) -> None:
        if not self.lease:
            object.__setattr__(self, "lease", 0.9 * self.election_timeout)
        if not 0 < self.heartbeat < self.lease < self.election_timeout:
            raise ValueError(
                f"heartbeat {self.heartbeat}, lease {self.lease}, election_timeout {self.election_timeout}: each must "
                "be less than the next"
            )
        if not 0 <= self.slot < self.heartbeat:
            raise ValueError(f"slot {self.slot} must be less than heartbeat {self.heartbeat}")
        if self.window < 1 or self.max_batch_bytes < 1:
            raise ValueError(f"window {self.window} and max_batch_bytes {self.max_batch_bytes} must be at least 1")
