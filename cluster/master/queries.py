"""Replies of the leading master from memory: catalog, locations, servers, heartbeats."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import NotSupportedError, NotTheLeader, UnknownTable
from ...model.access.holders import Holder
from ..raft.messages import Configuration, Peer
from ..wire.call_context import CallContext
from ..wire.messages.access_plain import access_to_plain
from ..wire.messages.methods import (
    CatalogReply,
    GetCatalog,
    Heartbeat,
    HeartbeatReply,
    ListServers,
    LocateTablets,
    LocationsReply,
    NamedServer,
    Request,
    ServersReply,
    TabletLocation,
)
from ..wire.messages.plain import namespace_to_plain, view_to_plain
from ..wire.security.users import Users, rights_to_plain
from .catalog.catalog_manager import CatalogManager
from .catalog.catalog_state import CatalogState
from .catalog.quotas import tables_above_quota
from .directory import TabletDirectory
from .options import MasterOptions

_LONG_SECONDS = 1e9
"""Shown as the silence of servers whose address another one has taken."""


class Queries:
    """The methods of the master that change nothing durable.

    Parameters
    ----------
    masters : callable
        Returns the addresses of all masters.
    address : str
        This one's.
    users : Users, optional
        Finds the users of callers; None: no checks, for tests.
    """

    def __init__(
        self,
        manager: CatalogManager,
        options: MasterOptions,
        masters: Callable[[], tuple[str, ...]],
        address: str,
        users: Users | None = None,
    ):
        self._users = users
        self._manager = manager
        self._options = options
        self._masters = masters
        self._address = address

    def heartbeat(self, request: Heartbeat, context: CallContext) -> HeartbeatReply:
        """Handles `Heartbeat`; a master that does not lead returns the leader's address."""
        manager = self._manager
        try:
            # A deposed master that has not noticed it must not accept servers' reports.
            manager.rows.check_leader()
            with manager.changed:
                state, directory = manager.leading()
                self._holder(context, state, Heartbeat)
                if request.rights_version < 0 and state.rights.has_users:
                    raise NotSupportedError("the cluster has users, and this server's version does not check them")
                before = directory.version
                taken = directory.heartbeat(request, manager.monotonic())
                if directory.version != before:
                    manager.notify()
                above = tables_above_quota(state, directory)
        except NotTheLeader as error:
            return HeartbeatReply(is_leader=False, leader=error.leader)
        cluster_id = "" if state.cluster is None else state.cluster.id
        return HeartbeatReply(
            is_leader=True,
            leader=self._address,
            wants_full_report=not taken,
            cluster_id=cluster_id,
            masters=self._masters(),
            rights=None if request.rights_version >= state.rights_version else rights_to_plain(state.rights),
            above_quota=above,
        )

    def _holder(self, context: CallContext, state: CatalogState, method: type[Request]) -> Holder | None:
        return None if self._users is None else self._users.holder(context, state.rights, method)

    def catalog(self, request: GetCatalog, context: CallContext) -> CatalogReply:
        """Handles `GetCatalog`."""
        state, _ = self._manager.confirmed()
        holder = self._holder(context, state, GetCatalog)
        assert state.cluster is not None
        version, cluster_id = state.catalog.version, state.cluster.id
        if request.known_version == version:
            return CatalogReply(version=version, cluster_id=cluster_id, masters=self._masters())
        tables = [state.tables[entry.table.id].plain for _, entry in sorted(state.catalog.entries.items())]
        views = [view_to_plain(view) for _, view in sorted(state.catalog.views.items())]
        access = state.catalog.access
        namespaces = [namespace_to_plain(found) for _, found in sorted(state.catalog.namespaces.items())]
        return CatalogReply(
            version=version,
            cluster_id=cluster_id,
            tables=tuple(tables),
            views=tuple(views),
            namespaces=tuple(namespaces),
            masters=self._masters(),
            access=None if access.is_first else access_to_plain(access, holder is None or holder.is_superuser),
        )

    def locate(self, request: LocateTablets, context: CallContext) -> LocationsReply:
        """Handles `LocateTablets`: in the order of partitions, or of the ids, without tablets that do not exist."""
        self._manager.rows.check_leader()
        with self._manager.changed:
            state, directory = self._manager.leading()
            self._holder(context, state, LocateTablets)
            tablet_ids = request.tablet_ids
            if request.table_id is not None:
                table = state.tables.get(request.table_id)
                if table is None:
                    dropped = state.dropped.get(request.table_id)
                    what = f"table {request.table_id}" if dropped is None else f"table {dropped.name} any more"
                    raise UnknownTable(f"there is no {what}")
                tablet_ids = table.entry.tablet_ids
            return LocationsReply(tablets=tuple(_location(t, directory) for t in tablet_ids if t in state.tablets))

    def servers(self, request: ListServers, context: CallContext) -> ServersReply:
        """Handles `ListServers`."""
        self._manager.rows.check_leader()
        with self._manager.changed:
            state, directory = self._manager.leading()
            self._holder(context, state, ListServers)
            named = _named_servers(state, directory, self._manager.monotonic(), self._options.dead_after)
        masters = tuple((address, address == self._address) for address in self._masters())
        return ServersReply(tservers=named, masters=masters)


def _location(tablet_id: str, directory: TabletDirectory) -> TabletLocation:
    observed = directory.tablets[tablet_id]
    return TabletLocation(
        tablet_id=tablet_id,
        replicas=_addressed(observed.configuration, directory),
        leader=observed.leader if observed.configuration.peer(observed.leader) is not None else "",
        term=observed.term,
        locations=tuple(
            directory.servers[peer.id].location if peer.id in directory.servers else ""
            for peer in observed.configuration.peers
        ),
    )


def _addressed(configuration: Configuration, directory: TabletDirectory) -> tuple[Peer, ...]:
    """Returns the peers with their present addresses, which may differ from those in the configuration."""
    return tuple(
        Peer(peer.id, directory.servers[peer.id].address if peer.id in directory.servers else peer.address, peer.role)
        for peer in configuration.peers
    )


def _named_servers(
    state: CatalogState, directory: TabletDirectory, now: float, dead_after: float
) -> tuple[NamedServer, ...]:
    replicas: dict[str, int] = {}
    leaders: dict[str, int] = {}
    for observed in directory.tablets.values():
        for peer in observed.configuration.peers:
            replicas[peer.id] = replicas.get(peer.id, 0) + 1
        leaders[observed.leader] = leaders.get(observed.leader, 0) + 1
    return tuple(
        NamedServer(
            id=server.id,
            address=server.address,
            state="REPLACED"
            if server.is_replaced
            else _server_state(server.id in state.leaving, now - server.last_heard < dead_after),
            seconds_silent=min(now - server.last_heard, _LONG_SECONDS),
            replicas=replicas.get(server.id, 0),
            leaders=leaders.get(server.id, 0),
            in_maintenance=server.id in state.absent,
            is_quiescing=server.is_quiescing,
            location=server.location,
        )
        for _, server in sorted(directory.servers.items())
    )


def _server_state(is_leaving: bool, is_alive: bool) -> str:
    if not is_alive:
        return "DEAD"
    return "LEAVING" if is_leaving else "ALIVE"
