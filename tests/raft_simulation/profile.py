"""Random profiles of schedules, one per seed: calm and stormy ones."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

FAULTS = (
    "crash", "crash_in_ready", "pause", "partition", "cut_one_way", "cut_link", "slow_disk", "storm", "transfer", "add",
    "remove", "readdress", "trim", "campaign", "quiesce",
)  # fmt: skip


@dataclass(slots=True)
class Profile:
    """Times in seconds of virtual time, probabilities per message or per event.

    `drift`: monotonic clocks run up to this much too fast or slow. `skew`: hybrid clocks are off by up to this number
    of seconds, in both directions. `exchanges_clocks`: servers follow each other's hybrid clocks with every message.
    `writes`: how often a client that reads also writes.

    `short_reigns`: how often a new leader crashes, or is partitioned, soon after its election. `fragile`: how often a
    server crashes while processing a `Ready` with a new term, vote or leadership. `faint`: how often a leader's
    messages do not reach some peer in all its term.

    Drivers may differ. `holds_messages`: while hard state is written, the node continues, and its messages are held;
    otherwise it waits. `keeps_lead`: the clock limit is kept as its distance from the wall clock, which does not jump
    here; otherwise as itself.
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
    longest_restart: float = 1.5
    writes: float = 0.7
    short_reigns: float = 0.0
    fragile: float = 0.0
    faint: float = 0.0
    holds_messages: bool = False
    keeps_lead: bool = False
    faults: dict[str, float] = field(default_factory=lambda: dict.fromkeys(FAULTS, 1.0))
    max_batch_bytes: int = 64
    window: int = 4

    @classmethod
    def draw(cls, chance: random.Random) -> Profile:
        """Draws a profile: three in five have some of every fault, the others concentrate on one kind of trouble."""
        kind = chance.random()
        if kind < 0.2:
            return cls.restless(chance)
        return cls.wary(chance) if kind < 0.4 else cls.mixed(chance)

    @classmethod
    def mixed(cls, chance: random.Random) -> Profile:
        """Some of every fault, each in about half of the schedules; every sixth network is nearly perfect."""
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
            fault_interval=chance.choice((0.3, 0.6, 1.2)),
            fault_length=chance.choice((0.5, 1.5, 3.0)),
            longest_restart=chance.choice((0.2, 1.0, 3.0)),
            writes=chance.choice((0.05, 0.4, 0.8)),
            short_reigns=chance.choice((0.0, 0.0, 0.0, 0.4, 0.8)),
            fragile=chance.choice((0.0, 0.0, 0.1, 0.3)),
            faint=chance.choice((0.0, 0.0, 0.0, 0.4)),
            holds_messages=chance.random() < 0.5,
            keeps_lead=chance.random() < 0.5,
            faults=weights if any(weights.values()) else dict.fromkeys(FAULTS, 1.0),
            max_batch_bytes=chance.choice((1, 40, 1000)),
            window=chance.choice((1, 2, 8)),
        )

    @classmethod
    def restless(cls, chance: random.Random) -> Profile:
        """Leaders that can hardly send a message: logs that differ, terms that are begun more than once."""
        return cls(
            duration=chance.uniform(8.0, 25.0),
            election_timeout=0.8,
            drop=chance.choice((0.0, 0.1)),
            delay=chance.choice((0.02, 0.1, 0.2)),
            long_delay=chance.choice((0.0, 0.1)),
            disk=chance.choice((0.01, 0.1)),
            partial_sync=chance.choice((0.0, 0.5)),
            client_interval=0.8,
            writes=chance.choice((0.05, 0.5)),
            fault_interval=2.0,
            fault_length=chance.choice((0.8, 2.0)),
            longest_restart=chance.choice((0.3, 1.0, 2.0)),
            short_reigns=chance.choice((0.0, 0.3, 0.7)),
            fragile=chance.choice((0.2, 0.4)),
            faint=0.5,
            holds_messages=chance.random() < 0.5,
            faults={"crash": 1.0, "cut_link": 1.0},
            max_batch_bytes=1,
            window=1,
        )

    @classmethod
    def changing(cls, chance: random.Random) -> Profile:
        """A group whose peers are replaced while others fail, as the masters of a cluster are: it begins with one or
        three. Not drawn by `draw`."""
        return cls(
            voters=chance.choice((1, 3)),
            duration=chance.uniform(10.0, 25.0),
            election_timeout=0.8,
            drop=chance.choice((0.0, 0.05)),
            delay=chance.choice((0.002, 0.02)),
            disk=chance.choice((0.001, 0.01)),
            partial_sync=chance.choice((0.0, 0.3)),
            client_interval=0.4,
            fault_interval=chance.choice((0.3, 0.6)),
            fault_length=chance.choice((0.5, 1.5)),
            longest_restart=chance.choice((0.3, 2.0)),
            short_reigns=chance.choice((0.0, 0.4)),
            holds_messages=chance.random() < 0.5,
            keeps_lead=chance.random() < 0.5,
            faults={
                "add": 3.0,
                "replace": 3.0,
                "remove": 1.0,
                "crash": chance.choice((1.0, 3.0)),
                "cut_link": 1.0,
                "transfer": 1.0,
                "trim": 1.0,
            },
        )

    @classmethod
    def wary(cls, chance: random.Random) -> Profile:
        """Leaders that live long, but are not heard by all peers: a forgotten promise or too long a lease shows
        here."""
        return cls(
            duration=chance.uniform(8.0, 20.0),
            election_timeout=chance.choice((0.8, 1.5)),
            delay=chance.choice((0.002, 0.05)),
            drift=chance.choice((0.0, 0.05)),
            client_interval=0.5,
            writes=chance.choice((0.02, 0.1)),
            fault_interval=chance.choice((0.3, 0.6)),
            fault_length=chance.choice((1.0, 2.0)),
            longest_restart=chance.choice((0.2, 0.2, 2.0)),
            faults={
                "crash": chance.choice((0.0, 2.0, 4.0)),
                "cut_link": 2.0,
                "cut_one_way": 1.0,
                "pause": chance.choice((0.0, 1.0)),
                "transfer": chance.choice((0.0, 1.0)),
            },
        )
