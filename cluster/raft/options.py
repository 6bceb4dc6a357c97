"""The numbers that a tablet's consensus runs by; all times in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.clock import LOGICAL_BITS


@dataclass(frozen=True, slots=True)
class RaftOptions:
    """Defaults are the Kudu paper's where it has them (section 3.2): heartbeats each 0.5 s, elections after 1.5 s.

    Parameters
    ----------
    heartbeat : float
        How often a leader speaks to every peer, if only to say that it is there.
    election_timeout : float
        How long a voter that has heard from a leader votes for nobody else; a voter campaigns after once to twice
        this. Also how long a leader goes on without a majority, and how long a transfer may take.
    lease : float
        How long a leader serves reads after the beginning of a round that a majority has answered. Less than
        `election_timeout` by the drift of clocks that is put up with; 0 stands for nine tenths of it.
    eviction_timeout : float
        A voter that is silent for so long is reported.
    max_batch_bytes : int
        Most bytes of bodies in one message; a longer entry travels alone.
    window : int
        Most messages with entries on their way to one peer, unanswered.
    gathers : bool
        Where several propose at a time, each of whom waits for his entry before the next, a leader holds back entries
        for a moment (`raft.replication`): `Ready.is_held` asks for a `Send` soon, which takes along what has come by
        then.
    clock_lead : int
        How far ahead of its wall clock a leader asks to be let give out timestamps, as a difference of hybrid times.
    clock_step : int
        The same ahead of its hybrid clock, where that is further ahead already. Each new leader moves that clock to the
        limit of the one before it; leads that were added to such a clock would add up, from leader to leader and over
        all tablets of a server.
    """

    heartbeat: float = 0.5
    election_timeout: float = 1.5
    lease: float = 0.0
    eviction_timeout: float = 60.0
    max_batch_bytes: int = 1 << 20
    window: int = 8
    gathers: bool = False
    clock_lead: int = 3_000_000 << LOGICAL_BITS
    clock_step: int = 1_000 << LOGICAL_BITS

    def __post_init__(self) -> None:
        if not self.lease:
            object.__setattr__(self, "lease", 0.9 * self.election_timeout)
        if not 0 < self.heartbeat < self.lease < self.election_timeout:
            raise ValueError(
                f"heartbeat {self.heartbeat}, lease {self.lease}, election_timeout {self.election_timeout}: each must "
                "be less than the next"
            )
        if self.window < 1 or self.max_batch_bytes < 1:
            raise ValueError(f"window {self.window} and max_batch_bytes {self.max_batch_bytes} must be at least 1")
