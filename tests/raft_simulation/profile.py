"""How rough a schedule is: every seed draws its own profile, so that calm and stormy ones are both among them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

FAULTS = (
    "crash", "crash_in_ready", "pause", "partition", "cut_one_way", "cut_link", "slow_disk", "storm", "transfer", "add",
    "remove", "trim",
)  # fmt: skip


@dataclass(slots=True)
class Profile:
    """Times in seconds of virtual time, probabilities per message or per event.

    `drift`: monotonic clocks run up to this much too fast or slow. `skew`: hybrid clocks are off by up to so many
    seconds, in both directions. `exchanges_clocks`: servers take note of each other's
    hybrid clocks with every message. `writes`: how often a client writes, too, when it comes to read. `short_reigns`: how
    often a new leader crashes, or is cut off, soon after its election. `fragile`: how often a server crashes on the way
    through a `Ready` with a new term or vote.
    """

    voters: int = 3
    duration: float = 10.0
    election_timeout: float = 1.5
    drop: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.02
    long_delay: float = 0.0
    disk: float = 0.005
    slow_disk: float = 0.0
    partial_sync: float = 0.0
    drift: float = 0.05
    skew: float = 0.0
    exchanges_clocks: bool = True
    client_interval: float = 0.3
    fault_interval: float = 1.0
    fault_length: float = 1.5
    writes: float = 0.7
    short_reigns: float = 0.0
    fragile: float = 0.0
    faint: float = 0.0
    faults: dict[str, float] = field(default_factory=lambda: dict.fromkeys(FAULTS, 1.0))
    max_batch_bytes: int = 64
    window: int = 4

    @classmethod
    def draw(cls, chance: random.Random) -> Profile:
        """One of the many; about one in six has hardly any fault of the network, and one in six is a storm."""
        roughness = chance.choice((0.02, 0.3, 0.5, 0.7, 0.9, 1.2))
        weights = {fault: chance.choice((0.0, 0.0, 1.0, 3.0)) for fault in FAULTS}
        return cls(
            voters=chance.choice((3, 3, 3, 3, 3, 5, 5, 4, 2, 1)),
            duration=chance.uniform(5.0, 16.0),
            election_timeout=chance.choice((0.8, 0.8, 1.5)),
            drop=chance.choice((0.0, 0.05, 0.15)) * roughness,
            duplicate=chance.choice((0.0, 0.1)) * roughness,
            delay=chance.choice((0.002, 0.02, 0.1)),
            long_delay=chance.choice((0.0, 0.03, 0.1)) * roughness,
            disk=chance.choice((0.001, 0.01, 0.05)),
            slow_disk=chance.choice((0.0, 0.1, 0.3)) * roughness,
            partial_sync=chance.choice((0.0, 0.3)),
            drift=chance.choice((0.0, 0.05)),
            skew=chance.choice((0.0, 0.5, 5.0)),
            exchanges_clocks=chance.random() < 0.5,
            client_interval=chance.choice((0.2, 0.4, 0.8, 1.6)),
            writes=chance.choice((0.05, 0.4, 0.8)),
            fault_interval=chance.choice((0.3, 0.6, 1.2)),
            fault_length=chance.choice((0.5, 1.5, 3.0)),
            short_reigns=chance.choice((0.0, 0.0, 0.0, 0.4, 0.8)),
            faint=chance.choice((0.0, 0.0, 0.0, 0.4, 0.7)),
            fragile=chance.choice((0.0, 0.0, 0.1, 0.3)),
            faults=weights if any(weights.values()) else dict.fromkeys(FAULTS, 1.0),
            max_batch_bytes=chance.choice((1, 40, 1000)),
            window=chance.choice((1, 2, 8)),
        )
