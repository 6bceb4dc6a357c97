"""Faults of a cluster of real processes while histories are recorded: of servers, network and clocks, and what
administrators do."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress

import nyala
from nyala.cluster.admin.moves import ReplicaMover
from nyala.errors import ClusterError
from nyala.testing import MiniCluster

MOVE_SECONDS = 20.0


class Faults:
    """A schedule of faults, each of about a second; all kinds come in turn, in an order of the seed.

    Parameters
    ----------
    cluster : MiniCluster
        With one server more than a tablet has replicas.
    table : str
        Its leaders and replicas are moved.
    stop : threading.Event
        Set: the schedule ends after the running fault.
    seed : int
    """

    def __init__(self, cluster: MiniCluster, table: str, stop: threading.Event, seed: int):
        self._cluster = cluster
        self._table = table
        self._stop = stop
        self._chance = random.Random(seed)
        self._mover = ReplicaMover(cluster.local.channels(), cluster.local.masters, cluster.local.addresses)
        self.happened: list[str] = []

    def run(self, seconds: float) -> None:
        """All kinds, then all again, for a time; nothing is left of them at the end."""
        kinds: list[Callable[[], None]] = [
            self.killed, self.paused, self.cut_off, self.parted, self.clock_ahead, self.led_elsewhere, self.moved,
            self.compacted,
        ]  # fmt: skip
        end = threading.Timer(seconds, self._stop.set)
        end.start()
        try:
            while not self._stop.is_set():
                self._chance.shuffle(kinds)
                for kind in kinds:
                    if self._stop.wait(0.4):
                        break
                    kind()
                    self.happened.append(kind.__name__)
        finally:
            end.cancel()
            self._stop.set()
            self._cluster.heal()

    def _some(self) -> str:
        return self._chance.choice(self._cluster.tservers)

    def _place(self) -> int:
        return self._chance.randrange(len(self._cluster.locations(self._table)))

    def killed(self) -> None:
        name = self._some()
        self._cluster.kill(name)
        self._stop.wait(0.5)
        self._cluster.start(name)

    def paused(self) -> None:
        name = self._some()
        self._cluster.pause(name)
        self._stop.wait(1.0)
        self._cluster.resume(name)

    def cut_off(self) -> None:
        """A server reaches neither servers nor clients."""
        self._cluster.cut(self._some())
        self._stop.wait(1.0)
        self._cluster.heal()

    def parted(self) -> None:
        """A server does not reach another one, and is reached by all clients."""
        one, other = self._chance.sample(self._cluster.tservers, 2)
        self._cluster.cut(one, other)
        self._stop.wait(1.0)
        self._cluster.heal()

    def clock_ahead(self) -> None:
        """A wall clock jumps ahead and back again; hybrid time does not."""
        self._cluster.faults(self._some(), clock_skew=self._chance.uniform(0.05, 2.0))
        self._stop.wait(0.7)
        self._cluster.heal()

    def led_elsewhere(self) -> None:
        tablet = self._cluster.locations(self._table)[self._place()].tablet_id
        with suppress(ClusterError):
            self._mover.step_down(tablet, seconds=3.0)

    def moved(self) -> None:
        """A replica moves to the server that has none of its tablet."""
        location = self._cluster.locations(self._table)[self._place()]
        there = {self._cluster.name_of(peer.address) for peer in location.replicas}
        (target,) = set(self._cluster.tservers) - there or {""}
        if target:
            with suppress(ClusterError):
                self._mover.move(location.tablet_id, self._chance.choice(sorted(there)), target, MOVE_SECONDS)

    def compacted(self) -> None:
        """Everything is flushed and compacted."""
        with nyala.connect(self._cluster.url) as connection, suppress(ClusterError):
            connection.execute(f"COMPACT TABLE {self._table}")
