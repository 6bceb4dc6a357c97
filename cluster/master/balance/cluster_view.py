"""A view of the cluster at one moment, on which all decisions are based: the desired state and the reported one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from ....model.lazy_dataclass import dataclass
from ...raft.messages import Configuration, PeerRole
from ...wire.messages.methods import TabletReport
from ..catalog.catalog_state import CatalogState, Fate
from ..catalog.records import TableState
from ..directory import Observed, TabletDirectory
from .placement import Loads

RUNNING, FAILED, TOMBSTONED = "RUNNING", "FAILED", "TOMBSTONED"
"""States of replicas (`TabletReport.state`) that decisions depend on."""


@dataclass(frozen=True, slots=True)
class ServerView:
    """A tablet server. `is_alive`: heard from recently, or within its time to report. `has_reported`: all its replicas
    are known. `in_maintenance`: its absence is expected. `is_quiescing`: it is not to lead. `location`: as in
    `cluster.locations`."""

    id: str
    address: str
    is_alive: bool = True
    is_leaving: bool = False
    has_reported: bool = True
    in_maintenance: bool = False
    is_quiescing: bool = False
    location: str = ""

    @property
    def takes_replicas(self) -> bool:
        """True if replicas may be placed there."""
        return self.is_alive and self.has_reported and not self.is_leaving and not self.in_maintenance

    @property
    def is_lost(self) -> bool:
        """True if its replicas are to be copied to others: it is away, and not for maintenance."""
        return not self.is_alive and not self.in_maintenance


@dataclass(frozen=True, slots=True)
class TabletView:
    """A tablet. `replicas`: the desired number; `schema_version`: the version of its table. `may_shrink`: a surplus
    replica has existed for so long that no move of it can be in progress."""

    id: str
    table_id: str
    replicas: int
    schema_version: int
    is_created: bool
    observed: Observed
    may_shrink: bool = True

    @property
    def configuration(self) -> Configuration:
        return self.observed.configuration

    def report(self, server: str) -> TabletReport | None:
        """Returns a server's report of its replica; None if it has none."""
        return self.observed.reports.get(server)


@dataclass(frozen=True, slots=True)
class ReplicaAt:
    """A replica that a server has."""

    tablet_id: str
    server: str


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Servers and tablets by id. `dropped`: replicas of dropped tablets; `unsettled`: replicas that reported an
    uncommitted configuration, and leaders that reported an old one."""

    servers: Mapping[str, ServerView]
    tablets: Mapping[str, TabletView]
    dropped: tuple[ReplicaAt, ...] = ()
    unsettled: tuple[ReplicaAt, ...] = ()

    def address(self, server: str) -> str:
        """Returns a server's address."""
        return self.servers[server].address

    def loads(self) -> Loads:
        """Returns the servers' loads by their tablets' configurations."""
        return loads_of((tablet.table_id, tablet.observed) for tablet in self.tablets.values())

    def locations(self) -> dict[str, str]:
        """Returns the locations of servers, by id."""
        return {server.id: server.location for server in self.servers.values()}

    def takers(self) -> dict[str, str]:
        """The addresses, by id, of the servers that accept replicas."""
        return {server.id: server.address for server in self.servers.values() if server.takes_replicas}


def loads_of(tablets: Iterable[tuple[str, Observed]]) -> Loads:
    """Returns the servers' loads by the configurations of tablets: (table id, tablet) each."""
    loads = Loads()
    for table_id, observed in tablets:
        for peer in observed.configuration.peers:
            loads.add(table_id, peer.id)
        if observed.leader:
            loads.lead(table_id, observed.leader)
    return loads


@dataclass(slots=True)
class Surplus:
    """Times since which tablets have had surplus replicas, to distinguish a move in progress from an abandoned one.
    `own` are tablets to which the master's own order added a replica: no other component moves them."""

    grace: float
    since: dict[str, float] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)

    def moved(self, tablet_id: str, is_added: bool) -> None:
        """Records that the master itself has added or removed a replica."""
        (self.own.add if is_added else self.own.discard)(tablet_id)

    def shrinkable(self, tablets: Iterable[tuple[str, Configuration, int]], now: float) -> frozenset[str]:
        """Returns the tablets that may lose a replica, from (id, its configuration, desired number of replicas)
        each."""
        larger = [
            (id_, len(configuration.voters) > desired)
            for id_, configuration, desired in tablets
            if len(configuration.peers) > desired
        ]
        self.own &= {id_ for id_, _ in larger}
        # From when the replica has a vote: no choice is made while it copies.
        self.since = {id_: self.since.get(id_, now) for id_, has_votes in larger if has_votes}
        return frozenset(
            tablet for tablet, since in self.since.items() if now - since >= self.grace or tablet in self.own
        )


def view_cluster(
    state: CatalogState, directory: TabletDirectory, surplus: Surplus, now: float, dead_after: float
) -> ClusterView:
    """Returns the view at `now` (monotonic seconds); servers that were silent for `dead_after` seconds count as
    dead."""
    servers = {
        s.id: ServerView(
            s.id,
            s.address,
            is_alive=now - s.last_heard < dead_after,
            is_leaving=s.id in state.leaving,
            has_reported=s.has_reported,
            in_maintenance=s.id in state.absent and not s.is_replaced,
            is_quiescing=s.is_quiescing,
            location=s.location,
        )
        for s in directory.servers.values()
    }
    return ClusterView(
        servers,
        _tablets(state, directory, surplus, now),
        _dropped(state, directory, servers),
        _unsettled(directory, servers),
    )


def _tablets(state: CatalogState, directory: TabletDirectory, surplus: Surplus, now: float) -> Mapping[str, TabletView]:
    desired = {tablet.id: state.tables[tablet.table_id].replicas for tablet in state.tablets.values()}
    sizes = [(id_, directory.tablets[id_].configuration, count) for id_, count in desired.items()]
    may_shrink = surplus.shrinkable(sizes, now)
    return {
        tablet.id: TabletView(
            tablet.id,
            tablet.table_id,
            desired[tablet.id],
            state.tables[tablet.table_id].table.version,
            tablet.is_created or directory.tablets[tablet.id].is_serving,
            directory.tablets[tablet.id],
            tablet.id in may_shrink,
        )
        for tablet in state.tablets.values()
    }


def _dropped(
    state: CatalogState, directory: TabletDirectory, servers: Mapping[str, ServerView]
) -> tuple[ReplicaAt, ...]:
    """Returns the replicas to delete. A tablet of a dropped range partition stays until the others have their table's
    new version."""
    dropped: list[ReplicaAt] = []
    for server in directory.servers.values():
        if not servers[server.id].is_alive:
            continue
        for tablet_id in sorted(server.reports.keys() - state.tablets.keys()):
            report = server.reports[tablet_id]
            if state.fate(report.table_id, tablet_id) is Fate.DROPPED and not _is_changing(state, report):
                dropped.append(ReplicaAt(tablet_id, server.id))
    return tuple(dropped)


def _is_changing(state: CatalogState, report: TabletReport) -> bool:
    table = state.tables.get(report.table_id)
    return table is not None and table.state is TableState.ALTERING


def _unsettled(directory: TabletDirectory, servers: Mapping[str, ServerView]) -> tuple[ReplicaAt, ...]:
    """Returns the replicas whose last report leaves their configuration open; a new report is requested from them."""
    return tuple(
        ReplicaAt(tablet_id, server)
        for tablet_id, observed in directory.tablets.items()
        for server, report in observed.reports.items()
        if report.configuration.index != observed.configuration.index
        and (server == observed.leader or report.configuration.index > observed.configuration.index)
        and servers[server].is_alive
    )


def healthy_voters(tablet: TabletView, servers: Mapping[str, ServerView]) -> Collection[str]:
    """Returns the servers of working voters: alive, with a running replica."""
    healthy: list[str] = []
    for peer in tablet.configuration.peers:
        server, report = servers.get(peer.id), tablet.report(peer.id)
        if peer.role is PeerRole.VOTER and server is not None and server.is_alive:
            if report is not None and report.state == RUNNING:
                healthy.append(peer.id)
    return healthy


def voting_voters(tablet: TabletView, servers: Mapping[str, ServerView]) -> Collection[str]:
    """Returns the servers of voters that take part in the consensus: alive, with a voting replica, damaged or not."""
    voting: list[str] = []
    for peer in tablet.configuration.voters:
        server, report = servers.get(peer.id), tablet.report(peer.id)
        if server is not None and server.is_alive and report is not None and (report.state == RUNNING or report.votes):
            voting.append(peer.id)
    return voting
