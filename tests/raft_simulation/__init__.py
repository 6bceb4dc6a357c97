"""A group of Raft peers in one process, without clock, thread or socket: one seed, one history.

    profile.draw(random) ─► Simulation ──┬─ Server a: RaftNode, SimulatedLog, Disk, clocks
                             heap of     ├─ Server b: ...
                             events      └─ Invariants: checked after every step

Every event is in one heap, ordered by virtual time; every random choice comes from one `random.Random(seed)`. So a
failing seed fails again, to the byte. See `simulation` for the faults of a schedule, `invariants` for the properties
that hold all the same, and `python tests/raft_simulation --help` for running more.
"""

from .invariants import Invariant, InvariantViolation
from .profile import Profile
from .simulation import Outcome, Simulation, find_violation, simulate

__all__ = ["Invariant", "InvariantViolation", "Outcome", "Profile", "Simulation", "find_violation", "simulate"]
