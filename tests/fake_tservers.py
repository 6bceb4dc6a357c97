"""Tablet servers that are none, for tests of the master: they take its orders, pretend to have replicas, and report.

What Raft would agree on is known to all of them at once (`FakeTablet`): a tablet has a leader as soon as a majority of
its voters have a replica and are up. Several are run by one thread, which reports and lets learners catch up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nyala.cluster.raft.messages import Configuration, Peer, PeerRole
from nyala.cluster.wire.messages.methods import (
    AlterTablet,
    ChangeReplicas,
    ConfigurationReply,
    CreateTablet,
    DeleteTablet,
    Done,
    Heartbeat,
    HeartbeatReply,
    ReportTablets,
    Request,
    StepDown,
    TabletReport,
    TabletReports,
)
from nyala.errors import ConfigurationRefused, Error, NotTheLeader, ReplicaUnavailable, ServerUnavailable


@dataclass
class FakeTablet:
    """The common state of the replicas of a tablet."""

    configuration: Configuration
    table_id: str
    version: int
    name: str
    leader: str = ""
    term: int = 0
    replicas: set[str] = field(default_factory=set)
    """The ids of servers that have one."""


class FakeTservers:
    """See the module's page.

    Parameters
    ----------
    names : iterable of str
        Their ids.
    send : callable
        Brings a heartbeat to the master that leads; raises what a call may raise.
    """

    def __init__(self, names: Iterable[str], send: Callable[[Heartbeat], HeartbeatReply]):
        self.lock = threading.RLock()
        self.tablets: dict[str, FakeTablet] = {}
        self.servers = {name: FakeTserver(name, self) for name in names}
        self.send = send
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake-tservers", daemon=True)

    def add(self, name: str) -> FakeTserver:
        """One more server."""
        with self.lock:
            self.servers[name] = FakeTserver(name, self)
            return self.servers[name]

    def start(self) -> FakeTservers:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def of(self, name: str) -> dict[str, set[str]]:
        """The servers with replicas of each tablet of the table of this name."""
        with self.lock:
            return {id_: set(t.replicas) for id_, t in self.tablets.items() if t.name == name and t.replicas}

    def settle(self) -> None:
        """Elections, promotions and copies."""
        with self.lock:
            for tablet_id, tablet in self.tablets.items():
                works = [p.id for p in tablet.configuration.voters if self._works(tablet, p.id)]
                if len(works) < tablet.configuration.majority:
                    tablet.leader = ""
                    continue
                if tablet.leader not in works:
                    tablet.leader, tablet.term = works[0], tablet.term + 1
                for peer in tablet.configuration.peers:
                    if self.servers[peer.id].is_up and peer.id not in tablet.replicas:
                        tablet.replicas.add(peer.id)  # copied from the leader
                    if peer.role is PeerRole.PRE_VOTER and self._works(tablet, peer.id):
                        voters = [Peer(p.id, p.address) if p == peer else p for p in tablet.configuration.peers]
                        tablet.configuration = Configuration(tuple(voters), tablet.configuration.index + 1)
                self.tablets[tablet_id] = tablet

    def _works(self, tablet: FakeTablet, server: str) -> bool:
        return server in tablet.replicas and self.servers[server].is_up

    def _run(self) -> None:
        while not self._stopped.wait(0.02):
            self.settle()
            for server in list(self.servers.values()):
                if server.is_up:
                    server.beat()


class FakeTserver:
    """One of them. `refuses`: orders of these classes fail; `is_up` False: everything does, and it is silent."""

    def __init__(self, name: str, cluster: FakeTservers):
        self.id = name
        self.address = f"{name}:1"
        self.is_up = True
        self.refuses: set[type[Request]] = set()
        self.orders: list[Request] = []
        self._cluster = cluster
        self._sequence = 0
        self._is_full = False
        self._told: dict[str, TabletReport] = {}

    @property
    def peer(self) -> Peer:
        return Peer(self.id, self.address)

    # ---- reports

    def beat(self) -> None:
        """One heartbeat."""
        reports = self.reports()
        is_full, before = self._is_full, {} if self._is_full else self._told
        self._sequence += 1
        beat = Heartbeat(
            server=self.peer,
            sequence=self._sequence,
            is_full=is_full,
            reports=tuple(r for id_, r in reports.items() if before.get(id_) != r),
            removed=tuple(id_ for id_ in before if id_ not in reports),
        )
        try:
            reply = self._cluster.send(beat)
        except Error:
            self._is_full = False
            return
        self._is_full = reply.wants_full_report
        if reply.is_leader and not reply.wants_full_report:
            self._told = reports

    def reports(self) -> dict[str, TabletReport]:
        with self._cluster.lock:
            mine = {id_: t for id_, t in self._cluster.tablets.items() if self.id in t.replicas}
            return {id_: self._report(id_, tablet) for id_, tablet in mine.items()}

    def _report(self, tablet_id: str, tablet: FakeTablet) -> TabletReport:
        is_leader = tablet.leader == self.id
        return TabletReport(
            tablet_id=tablet_id,
            table_id=tablet.table_id,
            state="RUNNING",
            role="LEADER" if is_leader else "FOLLOWER",
            term=tablet.term,
            leader=tablet.leader,
            configuration=tablet.configuration,
            schema_version=tablet.version,
            is_serving=is_leader,
            commit_index=tablet.configuration.index + 1,
        )

    # ---- orders

    @property
    def handlers(self) -> Mapping[type[Request], Callable[[Any, Any], Any]]:
        methods: dict[type[Request], Callable[[Any], Any]] = {
            CreateTablet: self._create,
            DeleteTablet: self._delete,
            AlterTablet: self._alter,
            ChangeReplicas: self._change,
            StepDown: self._step_down,
            ReportTablets: self._reports,
        }
        return {kind: self._taking(method) for kind, method in methods.items()}

    def _taking(self, method: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        def take(request: Request, context: Any) -> Any:
            if not self.is_up:
                raise ServerUnavailable(f"{self.id} is down")
            with self._cluster.lock:
                self.orders.append(request)
                if type(request) in self.refuses:
                    raise ServerUnavailable(f"{self.id} refuses {type(request).__name__}")
                return method(request)

        return take

    def _create(self, request: CreateTablet) -> Done:
        table = request.tablet.table
        fresh = FakeTablet(request.configuration, table["id"], table["version"], table["name"])
        tablet = self._cluster.tablets.setdefault(request.tablet.id, fresh)
        tablet.replicas.add(self.id)
        return Done()

    def _delete(self, request: DeleteTablet) -> Done:
        tablet = self._cluster.tablets.get(request.tablet_id)
        index = request.configuration_index
        if tablet is not None and (index is None or tablet.configuration.index <= index):
            assert index is None or tablet.configuration.peer(self.id) is None
            tablet.replicas.discard(self.id)
        return Done()

    def _alter(self, request: AlterTablet) -> Done:
        tablet = self._led(request.tablet.id)
        tablet.version = max(tablet.version, request.tablet.table["version"])
        tablet.name = request.tablet.table["name"]
        return Done()

    def _change(self, request: ChangeReplicas) -> ConfigurationReply:
        tablet = self._led(request.tablet_id)
        now = tablet.configuration
        if request.configuration_index not in (None, now.index):
            raise ConfigurationRefused(f"the configuration is {now.index}")
        peers = [peer for peer in now.peers if peer.id != request.peer.id]
        assert request.peer.id != self.id
        if request.kind == "add":
            peers.append(request.peer)
        tablet.configuration = Configuration(tuple(peers), now.index + 1)
        return ConfigurationReply(configuration=tablet.configuration)

    def _step_down(self, request: StepDown) -> Done:
        tablet = self._led(request.tablet_id)
        tablet.leader, tablet.term = request.target or "", tablet.term + 1
        return Done()

    def _reports(self, request: ReportTablets) -> TabletReports:
        reports = self.reports()
        wanted = reports if request.tablet_ids is None else [id_ for id_ in request.tablet_ids if id_ in reports]
        return TabletReports(tablets=tuple(reports[id_] for id_ in sorted(wanted)))

    def _led(self, tablet_id: str) -> FakeTablet:
        tablet = self._cluster.tablets.get(tablet_id)
        if tablet is None or self.id not in tablet.replicas:
            raise ReplicaUnavailable(f"{self.id} has no {tablet_id}")
        if tablet.leader != self.id:
            raise NotTheLeader(f"{tablet.leader} leads {tablet_id}")
        return tablet


def eventually(condition: Callable[[], Any], seconds: float = 90.0) -> Any:
    """Wait until a condition holds; what it gave."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)
    return found
