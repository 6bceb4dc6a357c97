"""A cluster as a model, for tests of the master: servers, replicas and Raft's part in changes, without any I/O.

`ModelCluster.carry_out` does what a tablet server would do with an order, and refuses what it would refuse. It raises
`AssertionError` where an order would do harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from nyala.cluster.master.balance.cluster_view import ClusterView, ReplicaAt, ServerView, TabletView
from nyala.cluster.master.balance.orders import (
    AddReplica,
    AlterReplicas,
    AskReport,
    CreateReplica,
    DeleteReplica,
    MoveLeader,
    Order,
    RemoveReplica,
)
from nyala.cluster.master.directory import Observed
from nyala.cluster.raft.messages import Configuration, Peer, PeerRole
from nyala.cluster.wire.messages.methods import TabletReport


def report(
    tablet_id: str = "t000001-p0000",
    *,
    role: str = "FOLLOWER",
    term: int = 1,
    leader: str = "",
    peers: Iterable[str] = ("a", "b", "c"),
    index: int = 0,
    state: str = "RUNNING",
    version: int = 0,
    commit: int = 1000,
    serving: bool | None = None,
    votes: bool = False,
) -> TabletReport:
    """A report of a replica; a leader serves unless it is said not to."""
    return TabletReport(
        tablet_id=tablet_id,
        table_id=tablet_id.partition("-")[0],
        state=state,
        role=role,
        term=term,
        leader=leader,
        configuration=configuration(*peers, index=index),
        schema_version=version,
        is_serving=role == "LEADER" if serving is None else serving,
        commit_index=commit,
        votes=votes or state == "RUNNING",
    )


def configuration(*peers: str, index: int = 0) -> Configuration:
    """Peers by the ids of their servers; one in lower case behind a "+" is a PRE_VOTER."""
    return Configuration(
        tuple(
            Peer(p.lstrip("+"), f"{p.lstrip('+')}:1", PeerRole.PRE_VOTER if p.startswith("+") else PeerRole.VOTER)
            for p in peers
        ),
        index,
    )


@dataclass
class ModelServer:
    """A tablet server."""

    id: str
    is_alive: bool = True
    is_leaving: bool = False
    in_maintenance: bool = False
    is_quiescing: bool = False


@dataclass
class ModelReplica:
    """A replica on a disk: the configuration that it knows. One that is FAILED and `votes` is damaged: its log is
    whole, its data are not."""

    index: int
    state: str = "RUNNING"
    version: int = 0
    votes: bool = False


@dataclass
class ModelTablet:
    """A tablet: its true configuration, its leader, its replicas by server."""

    id: str
    table_id: str
    wanted: int
    configuration: Configuration
    version: int = 0
    is_created: bool = False
    is_dropped: bool = False
    leader: str = ""
    term: int = 0
    replicas: dict[str, ModelReplica] = field(default_factory=dict)


class ModelCluster:
    """See the module's page."""

    def __init__(self, servers: Iterable[str], tablets: Iterable[ModelTablet]):
        self.servers = {id_: ModelServer(id_) for id_ in servers}
        self.tablets = {tablet.id: tablet for tablet in tablets}

    # ---- looking ---------------------------------------------------------------------------------------------------

    def view(self) -> ClusterView:
        """Returns the view of a master that has all reports."""
        servers = {
            s.id: ServerView(
                s.id,
                f"{s.id}:1",
                s.is_alive,
                s.is_leaving,
                in_maintenance=s.in_maintenance,
                is_quiescing=s.is_quiescing,
            )
            for s in self.servers.values()
        }
        kept = {t.id: self._view(t) for t in self.tablets.values() if not t.is_dropped}
        dropped = tuple(
            ReplicaAt(t.id, server)
            for t in self.tablets.values()
            for server in t.replicas
            if t.is_dropped and self.servers[server].is_alive
        )
        return ClusterView(servers, kept, dropped)

    def _view(self, tablet: ModelTablet) -> TabletView:
        reports = {
            server: report(
                tablet.id,
                role="LEADER" if server == tablet.leader else "FOLLOWER",
                term=tablet.term,
                leader=tablet.leader,
                state=replica.state,
                version=replica.version,
                votes=replica.votes,
            )
            for server, replica in tablet.replicas.items()
        }
        reports = {
            server: replace_configuration(told, tablet.configuration, tablet.replicas[server].index)
            for server, told in reports.items()
        }
        observed = Observed(tablet.configuration, tablet.leader, tablet.term, reports)
        return TabletView(tablet.id, tablet.table_id, tablet.wanted, tablet.version, tablet.is_created, observed)

    def works(self, tablet: ModelTablet, server: str) -> bool:
        """True if a server's replica works."""
        replica = tablet.replicas.get(server)
        return self.servers[server].is_alive and replica is not None and replica.state == "RUNNING"

    def healthy(self, tablet: ModelTablet) -> int:
        """Returns the number of working voters."""
        return sum(self.works(tablet, peer.id) for peer in tablet.configuration.voters)

    def voting(self, tablet: ModelTablet) -> int:
        """Returns the number of voters that take part in the consensus, including damaged ones."""
        alive = [peer.id for peer in tablet.configuration.voters if self.servers[peer.id].is_alive]
        return sum(self.works(tablet, id_) or (id_ in tablet.replicas and tablet.replicas[id_].votes) for id_ in alive)

    def has_majority(self, tablet: ModelTablet) -> bool:
        """True if the tablet can be written."""
        return self.voting(tablet) >= tablet.configuration.majority and self.healthy(tablet) > 0

    # ---- what goes on by itself ------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Elections; learners that have copied the data get their vote."""
        for tablet in self.tablets.values():
            if not self.has_majority(tablet) or tablet.is_dropped:
                tablet.leader = ""
                continue
            if not self.works(tablet, tablet.leader) if tablet.leader else True:
                voters = tablet.configuration.voters
                tablet.leader = next(peer.id for peer in voters if self.works(tablet, peer.id))
                tablet.term += 1
            tablet.is_created = True
            for peer in tablet.configuration.peers:
                if self.servers[peer.id].is_alive and peer.id not in tablet.replicas:
                    tablet.replicas[peer.id] = ModelReplica(tablet.configuration.index)
                if peer.role is PeerRole.PRE_VOTER and self.works(tablet, peer.id):
                    self._become(tablet, [replace_role(p) if p == peer else p for p in tablet.configuration.peers])
                    break
            for peer in tablet.configuration.peers:
                if self.works(tablet, peer.id) or (peer.id in tablet.replicas and tablet.replicas[peer.id].votes):
                    tablet.replicas[peer.id].index = tablet.configuration.index
                    tablet.replicas[peer.id].version = tablet.replicas[tablet.leader].version

    def _become(self, tablet: ModelTablet, peers: Iterable[Peer]) -> None:
        tablet.configuration = Configuration(tuple(peers), tablet.configuration.index + 1)

    # ---- orders ----------------------------------------------------------------------------------------------------

    def carry_out(self, order: Order) -> None:
        """Do what an order says; nothing where the server is dead or refuses."""
        if not self.servers[order.server].is_alive:
            return
        tablet = self.tablets[order.tablet_id]
        match order:
            case CreateReplica():
                assert not tablet.is_created, f"an empty voter of {tablet.id}"
                tablet.replicas.setdefault(order.server, ModelReplica(0))
            case DeleteReplica():
                self._delete(tablet, order)
            case AlterReplicas():
                if order.server == tablet.leader:
                    tablet.replicas[order.server].version = tablet.version
            case AddReplica() | RemoveReplica():
                if order.configuration_index == tablet.configuration.index and order.server == tablet.leader:
                    self._change(tablet, order)
            case MoveLeader():
                assert self.works(tablet, order.target), f"{order.target} cannot lead {tablet.id}"
                tablet.leader, tablet.term = order.target, tablet.term + 1
            case AskReport():
                pass

    def _delete(self, tablet: ModelTablet, order: DeleteReplica) -> None:
        if order.configuration_index is None:
            assert tablet.is_dropped, f"{tablet.id} is there"
        else:
            assert tablet.configuration.peer(order.server) is None, f"{order.server} is a peer of {tablet.id}"
        tablet.replicas.pop(order.server, None)

    def _change(self, tablet: ModelTablet, order: AddReplica | RemoveReplica) -> None:
        peers = list(tablet.configuration.peers)
        if isinstance(order, AddReplica):
            assert order.peer.id not in tablet.replicas or tablet.replicas[order.peer.id].state == "TOMBSTONED"
            assert self.servers[order.peer.id].is_alive
            tablet.replicas.pop(order.peer.id, None)
            self._become(tablet, [*peers, order.peer])
        else:
            assert order.peer.id != tablet.leader, "a leader removes itself"
            self._become(tablet, [peer for peer in peers if peer.id != order.peer.id])
        assert self.has_majority(tablet), f"{order} leaves no majority of {tablet.id}"
        least = tablet.wanted // 2 + 1
        if isinstance(order, RemoveReplica) and order.peer.role is PeerRole.VOTER:  # else it has as many as before
            assert len(tablet.configuration.voters) >= least, f"{order} leaves fewer voters of {tablet.id} than {least}"


def replace_role(peer: Peer) -> Peer:
    """The peer with a vote."""
    return Peer(peer.id, peer.address, PeerRole.VOTER)


def replace_configuration(told: TabletReport, now: Configuration, index: int) -> TabletReport:
    """The report with a configuration that has at least the right number."""
    return TabletReport(
        **{name: getattr(told, name) for name in told.__struct_fields__ if name != "configuration"},
        configuration=replace_index(now, index),
    )


def replace_index(now: Configuration, index: int) -> Configuration:
    """The configuration under another index."""
    return Configuration(now.peers, index)


__all__ = [
    "ModelCluster",
    "ModelReplica",
    "ModelServer",
    "ModelTablet",
    "configuration",
    "replace",
    "report",
]
