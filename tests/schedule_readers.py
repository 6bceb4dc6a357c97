"""Readers among transactions of two groups of replicas: what they have read is compared with the model in the end.

A read at a timestamp, at any replica, must show the final state as of it, however early it was. A read of the latest
state, at the leader, must have a timestamp at or above all that was acknowledged before it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from cluster_tablets_support import Group, rows_at, soon
from nyala.errors import ClusterError
from nyala.model.clock import LOGICAL_BITS, wall_microseconds
from nyala.model.store import Timestamp

PATIENCE = 0.05
"""Seconds: reads of what is prepared wait, and end without a result."""
Rows = dict[int, int]
"""The value of each key."""
Versions = Sequence[tuple[int, Rows]]
"""Changes of one group by timestamp, ascending."""


@dataclass
class Readers:
    """`acknowledged` gives the greatest timestamp of a group's acknowledged changes, of one key or of all."""

    groups: Sequence[Group]
    rng: random.Random
    acknowledged: Callable[[int, int | None], int]
    scans: list[tuple[int, int, Rows]] = field(default_factory=list)
    """Group, timestamp, rows."""
    rows: list[tuple[int, int, int, int | None]] = field(default_factory=list)
    """Group, timestamp, key, value."""

    def scan(self) -> None:
        """At any replica, as of now or a little earlier."""
        number = self.rng.randrange(2)
        server = self.rng.choice(self.groups[number].running)
        at = server.clock.now() - (self.rng.choice([0, 0, 1_000, 20_000]) << LOGICAL_BITS)
        with suppress(ClusterError):
            server.replica.view(Timestamp(at), deadline=soon(PATIENCE))
            self._note(number, server, at)

    def scan_latest(self) -> None:
        number = self.rng.randrange(2)
        before, server = self.acknowledged(number, None), self.groups[number].leader()
        with suppress(ClusterError):
            at = server.replica.view(None, deadline=soon(PATIENCE)).timestamp
            assert at >= before, "a scan of the latest state does not see an acknowledged change"
            self._note(number, server, at)

    def _note(self, number: int, server: object, at: int) -> None:
        self.scans.append((number, at, {key: n for key, _, n in rows_at(server.replica, at)}))

    def look_up(self) -> None:
        """One row: the latest at the leader, or as of a little earlier at any replica."""
        number, key = self.rng.randrange(2), self.rng.randrange(8)
        group = self.groups[number]
        before, is_latest = self.acknowledged(number, key), self.rng.random() < 0.6
        server = group.leader() if is_latest else self.rng.choice(group.running)
        snapshot = None if is_latest else Timestamp(server.clock.now() - (1_000 << LOGICAL_BITS))
        with suppress(ClusterError):
            row, at = server.replica.read_row([key], ["n"], snapshot, deadline=soon(PATIENCE))
            assert not is_latest or at >= before, "a look-up does not see an acknowledged change"
            self.rows.append((number, at, key, row[0] if row else None))

    def skew(self) -> None:
        """A wall clock jumps to up to two seconds from the true time."""
        server = self.rng.choice(self.rng.choice(self.groups).servers)
        offset = int(self.rng.choice([0.0, self.rng.uniform(-2, 2)]) * 1e6)
        server.clock._physical = lambda: wall_microseconds() + offset

    def check(self, versions: Sequence[Versions]) -> None:
        for number, at, rows in self.scans:
            assert rows == state(versions[number], at), f"a scan of group {number} at {at} was wrong"
        for number, at, key, value in self.rows:
            assert value == state(versions[number], at).get(key), f"a look-up of {key} in {number} at {at} was wrong"
        self.scans.clear()
        self.rows.clear()


def state(versions: Versions, at: int) -> Rows:
    """The rows as of a timestamp."""
    rows: Rows = {}
    for timestamp, values in versions:
        if timestamp <= at:
            rows |= values
    return rows
