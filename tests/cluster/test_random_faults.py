"""Random schedules of faults of servers, disks, files and clocks, while programs write and read: acknowledged writes
stay, and everything recovers by itself, without a restart of any server that was not killed.

NYALA_FAULT_SEEDS=20 run this number of schedules, of the seeds from 1 on

The bugs that each part would have found:

    full disks     a data directory that met ENOSPC was retired for ever: replicas stay FAILED, voters are replaced
    damaged files  a leader whose column file is damaged stayed leader, and readers got CorruptionError
    poison         one client whose clock is hours ahead moved all servers: reads as of the true time miss rows
                   (`Workload.poisoned`)
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable

import nyala
import pytest
from cluster_workload import Workload, alias, check_replicas, damage_files, make_lead
from nyala.cluster.wire.messages.maintenance_methods import MaintainServer, QuiesceServer
from nyala.cluster.wire.messages.methods import GetStatus, ListServers, ReportTablets
from nyala.errors import OperationalError
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow

SEEDS = range(1, 1 + int(os.environ.get("NYALA_FAULT_SEEDS", "1")))
OPTIONS = {"master.dead-after": "8", "tserver.memrowset-bytes": str(1 << 20), "durability": "os"}
TABLETS = 2


class Faults:
    """One schedule."""

    def __init__(self, cluster: MiniCluster, workload: Workload, seed: int):
        self._cluster = cluster
        self._workload = workload
        self._chance = random.Random(seed)

    def run(self) -> None:
        """All kinds of faults, in an order of this seed; passing ones end in between."""
        kinds: list[Callable[[], None]] = [
            self.full_disks,
            self.all_disks_full,
            self.full_master,
            self.damaged_leader,
            self.killed,
            self.paused,
            self.cut_off,
            self.quiesced,
            self.maintained,
        ]
        self._chance.shuffle(kinds)
        for kind in kinds:
            kind()
            self._cluster.wait_until(self._is_whole, f"all is well after {kind.__name__}", 60)
            self._workload.wait_writes(20)

    def _is_whole(self) -> bool:
        """True if every tablet has three replicas that run and vote, and no replica is replaced."""
        reports = [r for name in self._cluster.tservers for r in self._cluster.call(name, ReportTablets()).tablets]
        voters = {r.tablet_id: len(r.configuration.voters) for r in reports if r.is_serving}
        running = [r for r in reports if r.state == "RUNNING"]
        return set(voters.values()) == {3} and len(voters) == TABLETS and len(running) == 3 * TABLETS

    def _some(self) -> str:
        return self._chance.choice(self._cluster.tservers)

    def full_disks(self) -> None:
        for name in self._chance.sample(list(self._cluster.tservers), self._chance.randint(1, 2)):
            self._cluster.faults(name, full_path=f"/{name}/")
        time.sleep(self._chance.uniform(0.5, 2))
        self._cluster.heal()

    def all_disks_full(self) -> None:
        for name in self._cluster.tservers:
            self._cluster.faults(name, full_path=f"/{name}/")
        time.sleep(self._chance.uniform(2, 3))
        self._cluster.heal()

    def full_master(self) -> None:
        leading = next(m for m in self._cluster.masters if self._cluster.call(m, GetStatus()).is_leader)
        self._cluster.faults(leading, full_path=f"/{leading}/")
        time.sleep(self._chance.uniform(0.5, 2))
        self._cluster.heal()

    def damaged_leader(self) -> None:
        place = self._chance.randrange(TABLETS)
        leader = self._cluster.leader("chain", place)
        damage_files(self._cluster, leader, "chain", place)
        make_lead(self._cluster, leader, "chain", place)
        self._workload.wait_writes(20)

    def killed(self) -> None:
        name = self._some()
        self._cluster.kill(name)
        time.sleep(self._chance.uniform(0, 2))
        self._cluster.start(name)

    def paused(self) -> None:
        name = self._some()
        self._cluster.pause(name)
        time.sleep(self._chance.uniform(0.5, 3))
        self._cluster.resume(name)

    def quiesced(self) -> None:
        """Two of three servers quiesce, and one of the three is killed or paused: another one leads in any case."""
        for name in self._chance.sample(list(self._cluster.tservers), 2):
            self._cluster.call(name, QuiesceServer(action="begin"))
        self._chance.choice((self.killed, self.paused))()
        self._workload.wait_writes(20)
        for name in self._cluster.tservers:
            self._cluster.call(name, QuiesceServer(action="end"))

    def maintained(self) -> None:
        """A server is away for longer than until it counts as dead, for maintenance."""
        name = self._some()
        (id,) = (
            server.id
            for server in self._cluster.ask_master(ListServers()).tservers
            if server.address == self._cluster.local.addresses[name]
        )
        self._cluster.ask_master(MaintainServer(server=id))
        self._cluster.kill(name)
        self._workload.wait_writes(20)
        self._cluster.start(name)
        self._cluster.ask_master(MaintainServer(server=id, in_maintenance=False))

    def cut_off(self) -> None:
        self._cluster.cut(self._some())
        time.sleep(self._chance.uniform(0.5, 3))
        self._cluster.heal()


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_all_heals(seed: int) -> None:
    with MiniCluster(tservers=3, masters=1, options=OPTIONS) as cluster:
        workload = Workload(cluster.url, tablets=TABLETS)
        workload.create()
        workload.addresses = [cluster.local.addresses[name] for name in (*cluster.tservers, *cluster.masters)]
        stop, wrong = threading.Event(), []

        def scan() -> None:
            """Reads whole rows: a damaged file must not reach any client."""
            with nyala.connect(alias(cluster.url, 3), deadline=60) as connection:
                while not stop.wait(0.2):
                    try:
                        connection.execute("SELECT count(before), max(at) FROM chain").fetchall()
                    except OperationalError as error:
                        wrong.append(f"{type(error).__name__}: {error}")

        reader = threading.Thread(target=scan)
        with workload.running():
            workload.wait_writes(30)
            reader.start()
            try:
                Faults(cluster, workload, seed).run()
            finally:
                stop.set()
                reader.join()
        assert not wrong, wrong
        workload.check()
        check_replicas(cluster)
