"""The master process: catalog, placement, directory of tablets, over one port.

    RpcServer ──┬── Ddl ────────┐
                ├── Queries ────┼── CatalogManager ── SystemTablet (a Replica) ── ConsensusHost ── other masters
                └── Membership ─┤
    Coordinator ────────────────┘── Channels ── tablet servers

All masters run all of it; those that do not lead reply `NotTheLeader` with the leader's address.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from ...errors import ClusterError, Error, InterfaceError, OperationalError
from ...model import metrics
from ...model.clock import HybridClock
from ...model.forks import stay_with_process
from ...model.version import __version__
from ...storage.files.filesystem import FileSystem
from ...storage.files.os_filesystem import OsFileSystem
from ...storage.maintenance.background import Rounds, keep_house
from ...storage.maintenance.compaction_policy import CompactionPolicy
from ...storage.maintenance.manager import MaintenanceManager
from ...storage.tablet.tablet import StoreOptions
from ..consensus.host import ConsensusHost
from ..raft.messages import Peer
from ..tablets.health import ReplicaListener
from ..tablets.replica import Replica
from ..tablets.replica_metrics import replica_samples
from ..wire.call_context import CallContext
from ..wire.calls.rpc import Channels
from ..wire.faults import FAULTS, FaultyFileSystem
from ..wire.messages.catalog_methods import ChangeCatalog
from ..wire.messages.envelope import Caller
from ..wire.messages.maintenance_methods import LeaveCluster, MaintainServer
from ..wire.messages.methods import (
    AlterTable,
    CreateTable,
    CreateView,
    DropTable,
    DropViews,
    GetCatalog,
    GetStatus,
    Heartbeat,
    ListServers,
    LocateTablets,
    Reply,
    ReportTablets,
    Request,
    ServerStatus,
    SetFaults,
    TabletReport,
    TabletReports,
)
from ..wire.messages.namespace_methods import CreateNamespace, DropNamespace
from ..wire.messages.user_methods import BeginLogin, ChangeAccess, FinishLogin, MakeTaskToken
from ..wire.messages.view_methods import RenameView
from ..wire.peer_transport import PeerTransport
from ..wire.process.log_files import Retention
from ..wire.process.server_process import Around, itself, run_server
from ..wire.security.logins import Logins
from ..wire.security.tls import expiry, server_credentials
from ..wire.security.users import Users
from ..wire.server import RpcServer
from .balance.coordinator import Coordinator
from .catalog.catalog_manager import CatalogManager
from .catalog.ddl import Ddl
from .catalog.rights import MasterRights
from .catalog.space import MasterSpace
from .catalog.system_copy import SystemCopies, others_have_catalog
from .catalog.system_tablet import TABLET_ID, SystemTablet, belongs_to, first_id, master_peers
from .master_directory import MasterDirectory
from .membership import MasterMembership
from .options import MasterOptions
from .queries import Queries

_MEMROWSET_BYTES = 16 << 20
_SEGMENT_BYTES = 8 << 20
_HISTORY_SECONDS = 900
_log = logging.getLogger("nyala.cluster.master")


class MasterServer:
    """A master. It listens from its construction (`address`), and serves requests from `start` on.

    Parameters
    ----------
    options : MasterOptions
    fs : FileSystem, optional
        Instead of the operating system's.
    """

    def __init__(self, options: MasterOptions, fs: FileSystem | None = None):
        self.options = options
        self._started = time.time()
        self._clock = HybridClock(FAULTS.wall_microseconds)
        self._coordinator: Coordinator | None = None
        self._rounds: Rounds | None = None
        self._stopped = False
        self._tls = server_credentials(options.tls)
        stay_with_process(self)
        with ExitStack() as stack:
            self._rpc = RpcServer(options.bind, self._clock, tls=self._tls, flight_port=None)
            stack.callback(self._rpc.stop)
            self.address = options.advertise or self._rpc.address
            if self._tls is not None:
                self._tls.check_address(self.address)
            files = fs or OsFileSystem()
            if options.allow_faults:
                files = FaultyFileSystem(files)
            stay_with_process(files)
            self._directory = MasterDirectory(files, options.directory)
            stack.callback(self._directory.release)
            self.peer = Peer(self._directory.id or first_id(options.masters, self.address), self.address)
            self._rpc.id = self.peer.id
            self._open_tablet(files, stack)
            self._set_up()
            stack.pop_all()

    def _open_tablet(self, fs: FileSystem, stack: ExitStack) -> None:
        options = self.options
        self._channels = Channels(self._clock, Caller(self.peer.id, self.address), self._tls)
        stack.callback(self._channels.close)
        self._directory.begin(self.peer.id, options.masters, lambda tablets: self._create(fs, tablets))
        self._transport = PeerTransport(
            lambda: self.peer, self._clock, lambda batch: self._host.receive(batch), self._rpc.reactor, self._tls
        )
        stack.callback(self._transport.close)
        self._space = MasterSpace(fs, self._directory.path, self._note_space)
        self._host = ConsensusHost(
            self.peer,
            self._clock,
            self._transport,
            options.raft,
            durability=options.durability,
            threads=2,
            disk_full=self._space.note_full,
            reactor=self._rpc.reactor,
        )
        stack.callback(self._host.close)
        self._tablet = SystemTablet(
            fs,
            self._directory.tablet(TABLET_ID),
            self._host,
            clock=self._clock,
            options=StoreOptions(
                durability=options.durability,
                memrowset_bytes=_MEMROWSET_BYTES,
                segment_bytes=_SEGMENT_BYTES,
                history_seconds=_HISTORY_SECONDS,
            ),
            address=self.address,
            full=lambda: self._space.full,
            listener=ReplicaListener(self._changed, lambda replica, peer: self._copies.ask(replica, peer)),
        )
        self._copies = SystemCopies(self._tablet, self._channels, self.peer)
        stack.callback(self._copies.close)
        if not self._directory.removed:
            self._tablet.open()
        stack.callback(self._tablet.close)
        self._check_address()

    def _create(self, fs: FileSystem, tablets: str) -> None:
        """Creates the system tablet in a new directory, unless the cluster has one: this master is then to be added to
        it, or has lost its files."""
        masters = self.options.masters
        others = [address for address in masters if address != self.address]
        if others_have_catalog(self._channels, others):
            return
        if masters and self.address not in masters:
            raise InterfaceError(
                f"the masters are configured as {', '.join(masters)}, and this one, at {self.address}, is none of "
                "them; to add it to them, one of them must be running"
            )
        SystemTablet.create(fs, f"{tablets}/{TABLET_ID}", master_peers(masters, self.address))

    def _check_address(self) -> None:
        """Raises `OperationalError` if the directory is that of a master at another address: the others would not reach
        this one. Only a single master may move."""
        configuration = self._tablet.configuration
        known = configuration.peer(self.peer.id)
        if known is None:
            if belongs_to(self.peer.id, self.address):
                return
            where = "another address"
        elif known.address == self.address or len(configuration.peers) == 1:
            return
        else:
            where = known.address
        raise OperationalError(
            f"{self._directory.path} belongs to the master at {where}, and is started at {self.address}; start it as "
            "before, or add a master with an empty directory (nyala cluster add-master)"
        )

    def _set_up(self) -> None:
        options, rng = self.options, random.Random()
        self._manager = CatalogManager(self._tablet)
        is_secure = self._tls is not None
        users = Users(is_secure, lambda: self._rpc.ports)
        ddl = Ddl(self._manager, options, rng, users)
        self._membership = MasterMembership(
            self._tablet, self._manager, self._directory, self._channels, self.peer, options.masters
        )
        masters = self._membership.addresses
        self._rights = MasterRights(self._manager, self._channels, is_secure, masters, options.dead_after)
        ddl.check_users_possible, ddl.spread_rights = self._rights.check_users_possible, self._rights.spread
        queries = Queries(self._manager, options, masters, self.address, users)
        self._logins = Logins(self._rights.rights, self._rights.signing_key, users, options.login_seconds)
        self._rpc.admit = lambda method, context: self._admit(users, method, context)
        self._coordinator = Coordinator(self._manager, ddl, self._channels, options, rng)
        self._maintenance = MaintenanceManager(self._tablet.maintainable, CompactionPolicy(), lambda: False)
        self._rpc.handlers.update(self._handlers(ddl, queries))
        self._rpc.message = self._transport.receive
        self._rpc.around = self._transport.holding
        metrics.register(self.samples)

    def _handlers(self, ddl: Ddl, queries: Queries) -> Mapping[type[Request], Callable[[Any, CallContext], Reply]]:
        handlers: dict[type[Request], Callable[[Any, CallContext], Reply]] = {
            CreateTable: ddl.create_table,
            AlterTable: ddl.alter_table,
            DropTable: ddl.drop_table,
            CreateView: ddl.create_view,
            DropViews: ddl.drop_views,
            RenameView: ddl.rename_view,
            CreateNamespace: ddl.create_namespace,
            DropNamespace: ddl.drop_namespace,
            ChangeCatalog: ddl.change_catalog,
            ChangeAccess: ddl.change_access,
            BeginLogin: self._logins.begin,
            FinishLogin: self._logins.finish,
            MakeTaskToken: self._logins.make_task_token,
            LeaveCluster: ddl.leave_cluster,
            MaintainServer: ddl.maintain_server,
            Heartbeat: queries.heartbeat,
            GetCatalog: queries.catalog,
            LocateTablets: queries.locate,
            ListServers: queries.servers,
            ReportTablets: self._report,
            GetStatus: self._status,
            **self._copies.handlers,
            **self._membership.handlers,
        }
        if self.options.allow_faults:
            handlers[SetFaults] = FAULTS.set
        return handlers

    def _admit(self, users: Users, method: Request, context: CallContext) -> None:
        """Checks the caller of any method; those that answer clients check again with the state that they use."""
        users.holder(context, self._rights.known_rights(), type(method))

    # ---- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Takes part in elections, and serves requests."""
        self._rounds = Rounds("nyala-master-maintenance", self._maintain)
        self._rpc.start()
        assert self._coordinator is not None
        self._coordinator.start()
        self._membership.start()

    def drain(self, grace: float = 5.0) -> bool:
        """Transfers leadership, refuses new calls, and lets running ones end; True if all did."""
        replica = self._tablet.replica
        if self._membership.others() and replica is not None and self._tablet.serving_term is not None:
            try:
                replica.consensus.transfer()
            except ClusterError as error:
                _log.info("leadership is not transferred", extra={"fields": {"error": str(error)}})
        return self._rpc.drain(grace)

    def stop(self) -> None:
        """Stops; acknowledged changes are durable. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        with ExitStack() as stack:
            stack.callback(self._directory.release)
            stack.callback(self._channels.close)
            stack.callback(self._host.close)
            stack.callback(self._tablet.close)
            stack.callback(self._rpc.stop)
            stack.callback(self._transport.close)
            stack.callback(self._copies.close)
            stack.callback(self._rights.close)
            for running in (self._membership, self._rounds, self._coordinator):
                if running is not None:
                    stack.callback(running.stop)

    # ---- parts -----------------------------------------------------------------------------------------------------

    def _changed(self, replica: Replica) -> None:
        """Called when this master's part in the system tablet's consensus has changed: it may have begun to lead."""
        if self._coordinator is not None:
            self._coordinator.wake()

    def _note_space(self, is_full: bool) -> None:
        replica = self._tablet.replica
        if replica is not None:
            replica.consensus.note_space(is_full)

    def _leave_to_others(self) -> None:
        """Transfers leadership if this master's disk is full and enough others have space to change the catalog.

        Not before the others have looked at their disks: a master whose disk filled at the same time could not store
        its vote, and no master would lead until there is space.
        """
        if not self._space.others_have_looked:
            return
        replica = self._tablet.replica
        if not self._membership.others() or replica is None or self._tablet.serving_term is None:
            return
        if not replica.consensus.voters_without_space():
            with suppress(ClusterError):
                replica.consensus.transfer()

    def _maintain(self) -> None:
        self._space.look()
        if self._space.full:
            self._leave_to_others()
            return  # the rest of the disk's space is for the log
        with self._tablet.work_lock:
            keep_house(self._tablet.maintainable(), self.options.durability == "os")
            while (record := self._maintenance.run_one()) is not None:
                if record.error:
                    _log.warning("maintenance failed", extra={"fields": {"error": record.error}})
                    break

    def _report(self, request: ReportTablets, context: CallContext) -> TabletReports:
        """Handles `ReportTablets`: of the system tablet."""
        replica = self._tablet.replica
        is_asked = request.tablet_ids is None or TABLET_ID in request.tablet_ids
        return TabletReports(tablets=(replica.report(),) if is_asked and replica is not None else ())

    def masters(self) -> list[str]:
        """Returns the addresses of all masters."""
        return list(self._membership.addresses())

    def reports(self) -> list[TabletReport]:
        """Returns the report of the system tablet."""
        replica = self._tablet.replica
        return [] if replica is None else [replica.report()]

    def not_ready(self) -> str:
        """Returns the reason for which this master cannot serve clients: it knows no leader."""
        if absence := self._tablet.absence:
            return absence
        return "" if self._manager.is_leading or self._tablet.leader_address else "no master leads"

    def samples(self) -> Iterator[metrics.Sample]:
        """For `metrics.collect`; none after `stop`."""
        replica = self._tablet.replica
        if self._stopped or replica is None:
            return
        yield metrics.Sample("nyala_master_is_leader", int(self._manager.is_leading))
        yield from replica_samples([replica.report()])

    def _status(self, request: GetStatus, context: CallContext) -> ServerStatus:
        """Handles `GetStatus`."""
        membership = self._membership
        details: dict[str, Any] = {
            "masters": list(membership.addresses()),
            "membership": membership.state,
            "cluster": self._directory.cluster,
            **expiry(self._tls),
        }
        if (replica := self._tablet.replica) is not None:
            report = replica.report()
            names = ("term", "last_index", "commit_index", "applied_index")
            details["log"] = {name: getattr(report, name) for name in names}
        if self._space.full:
            details["full"] = self._space.full
        try:
            state, directory = self._manager.leading()
            assert state.cluster is not None
            details |= {
                "cluster_id": state.cluster.id,
                "tables": len(state.tables),
                "tablets": len(state.tablets),
                "servers": len(directory.servers),
                "repair_is_paused": self._coordinator is not None and self._coordinator.is_braked,
            }
        except Error:
            details["leader"] = self._tablet.leader_address
        return ServerStatus(
            id=self.peer.id,
            kind="master",
            address=self.address,
            version=__version__,
            pid=os.getpid(),
            started=self._started,
            clock=self._clock.now(),
            is_leader=self._manager.is_leading,
            tablets=int(self._tablet.replica is not None),
            leaders=int(self._tablet.serving_term is not None),
            details=details,
        )


def run(
    options: MasterOptions,
    *,
    name: str = "master",
    address_file: str | None = None,
    log_file: str | None = None,
    retention: Retention | None = None,
    around: Around = itself,
) -> int:
    """Runs a master in this process until it is stopped; returns the exit status.
    `wire.process.server_process.run_server` explains `name`, `address_file`, `log_file`, `retention` and
    `around`."""
    return run_server(
        around(lambda: MasterServer(options)),
        name=name,
        address_file=address_file,
        log_file=log_file,
        retention=retention,
    )
