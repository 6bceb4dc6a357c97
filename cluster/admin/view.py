"""A view of a whole cluster: the masters' data, and every tablet server's own report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...errors import AccessDenied, ClusterError, DeadlineExceeded
from ...model.clock import HybridClock
from ...model.lazy_dataclass import dataclass
from ..client.catalog.master_states import MasterState, master_states
from ..raft.messages import Peer, PeerRole
from ..wire.calls.rpc import Channels
from ..wire.messages.methods import (
    GetCatalog,
    GetStatus,
    ListServers,
    LocateTablets,
    NamedServer,
    ReportTablets,
    Request,
    ServerStatus,
    TabletReport,
)
from .masters import ask_master

_CALL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ServerView:
    """A server: its status, or the error of the call."""

    address: str
    status: ServerStatus | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class TabletView:
    """A tablet: its replicas according to the master, and servers' reports of theirs, by server id."""

    id: str
    table: str
    leader: str
    replicas: tuple[Peer, ...]
    reports: Mapping[str, TabletReport]
    wanted: int
    """Its table's number of replicas."""

    def running_voters(self) -> list[str]:
        """Returns the servers whose replicas have a vote and run."""
        return [
            peer.id
            for peer in self.replicas
            if peer.role is PeerRole.VOTER and peer.id in self.reports and self.reports[peer.id].state == "RUNNING"
        ]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A cluster at about one time."""

    masters: tuple[ServerView, ...]
    tservers: tuple[NamedServer, ...]
    answers: Mapping[str, ServerView]
    """Of tablet servers, by id."""
    tablets: tuple[TabletView, ...]
    tables: tuple[str, ...]
    quotas: Mapping[str, int]
    """Of the tables that have one, in bytes, by name."""
    clock: int
    """A hybrid time at or above every write acknowledged before."""

    def master_states(self) -> list[MasterState]:
        """Returns the states of the masters, in their order."""
        return master_states([(master.address, master.status, master.error) for master in self.masters])

    def server(self, id: str) -> NamedServer | None:
        """Returns the tablet server with an id; None if the master does not have it."""
        return next((server for server in self.tservers if server.id == id), None)


def look(
    channels: Channels,
    masters: Sequence[str],
    clock: HybridClock,
    seconds: float = 30.0,
    patience: float | None = None,
    *,
    leaderless: bool = False,
) -> ClusterView:
    """Calls all servers. Raises if no master responds; an unresponsive tablet server is part of the view.

    Parameters
    ----------
    clock : HybridClock
        Of the channels: it is above the servers' clocks after their replies.
    seconds, patience : float
        For each call of a master, as in `ask_master`.
    leaderless : bool
        If no master leads within `seconds`, return a view of the masters alone instead of raising.
    """
    with ThreadPoolExecutor(16, "nyala-look") as pool:
        try:
            known = ask_master(channels, masters, ListServers(), seconds, patience)
        except DeadlineExceeded:
            statuses = list(pool.map(lambda address: server_view(channels, address), masters))
            if leaderless and any(master.status is not None for master in statuses):
                return ClusterView(tuple(statuses), (), {}, (), (), {}, clock.now())
            raise
        present = [address for address, _ in known.masters]  # others than were given, if some have been replaced
        statuses = list(pool.map(lambda address: server_view(channels, address), present))
        catalog = ask_master(channels, masters, GetCatalog(), seconds)
        answers = dict(pool.map(lambda server: (server.id, _status_of(channels, server)), known.tservers))
        reports = dict(pool.map(lambda server: (server.id, _reports(channels, server, answers)), known.tservers))
    views: list[TabletView] = []
    for table in catalog.tables or ():
        located = ask_master(channels, masters, LocateTablets(table_id=table["id"]), seconds)
        for location in located.tablets:
            mine = {id_: of[location.tablet_id] for id_, of in reports.items() if location.tablet_id in of}
            views.append(
                TabletView(
                    location.tablet_id,
                    table["name"],
                    location.leader,
                    location.replicas,
                    mine,
                    table.get("replicas", 1),  # an embedded server's tables have one, and do not say so
                )
            )
    tables = tuple(sorted(table["name"] for table in catalog.tables or ()))
    quotas = {table["name"]: table["quota_bytes"] for table in catalog.tables or () if table.get("quota_bytes")}
    return ClusterView(tuple(statuses), known.tservers, answers, tuple(views), tables, quotas, clock.now())


def call(channels: Channels, address: str, request: Request, seconds: float = _CALL_SECONDS) -> Any:
    """Calls one server once."""
    return channels.get(address).call(request, timeout=seconds)


def server_view(channels: Channels, address: str) -> ServerView:
    """Returns the view of one server."""
    try:
        return ServerView(address, call(channels, address, GetStatus()))
    except ClusterError as error:
        return ServerView(address, None, str(error))


def _status_of(channels: Channels, server: NamedServer) -> ServerView:
    """Returns a tablet server's status; the reply of another server at its address does not count."""
    answer = server_view(channels, server.address)
    if answer.status is not None and answer.status.id != server.id:
        return ServerView(server.address, None, f"another server runs there, {answer.status.id}")
    return answer


def _reports(channels: Channels, server: NamedServer, answers: Mapping[str, ServerView]) -> Mapping[str, TabletReport]:
    if answers[server.id].status is None:
        return {}
    try:
        reply = call(channels, server.address, ReportTablets())
    except AccessDenied:
        raise  # not of this server: the caller's certificate does not suffice
    except ClusterError:
        return {}
    return {report.tablet_id: report for report in reply.tablets}
