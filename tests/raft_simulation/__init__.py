"""A group of Raft peers in one process, without clock, thread or socket: one seed, one history.

    profile.draw(random) ─► Simulation ──┬─ Server a: RaftNode, SimulatedLog, Disk, clocks
                             heap of     ├─ Server b: ...
                             events      └─ Invariants: looked at after every step

All that happens is an event in one heap, ordered by virtual time; all that is left to chance comes from one
`random.Random(seed)`. So a seed that fails fails again, to the byte. See `simulation` for what can go wrong in a
schedule, `invariants` for what must hold all the same, and `python tests/raft_simulation --help` for running more.
"""

from .invariants import Invariant, InvariantViolation
from .profile import Profile
from .simulation import Outcome, Simulation, find_violation, simulate

__all__ = ["Invariant", "InvariantViolation", "Outcome", "Profile", "Simulation", "find_violation", "simulate"]
