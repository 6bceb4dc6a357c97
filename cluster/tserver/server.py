"""The tablet server: its parts, and the order in which they start and stop.

    start   directories locked ─► port bound ─► consensus, peer streams ─► tablets listed ─► serving ─► tablets opened
    drain   leaderships transferred ─► no new work ─► running calls and scans end
    stop    heartbeats ─► peer streams, port ─► maintenance ─► scans ─► tablets ─► consensus ─► directories

A server serves requests before its tablets are open: calls to such a tablet report that it is starting. Nothing is
flushed when a server stops, since the log has everything.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from ...model import metrics
from ...model.clock import HybridClock
from ...model.forks import stay_with_process
from ...model.steady_clock import PATIENCE_SECONDS, SteadyClock
from ...model.version import __version__
from ...storage.files.filesystem import FileSystem
from ...storage.files.io_limit import IoLimit
from ...storage.files.os_filesystem import OsFileSystem
from ...storage.files.page_cache import PageCache
from ...storage.maintenance.background import Rounds
from ...storage.maintenance.observed import kind_rows, operation_rows, rowset_rows
from ..consensus.host import ConsensusHost
from ..raft.messages import Peer
from ..tablets.replica_metrics import directory_samples, replica_samples
from ..wire.calls.rpc import Channels
from ..wire.faults import FAULTS, FaultyFileSystem
from ..wire.messages.envelope import Caller
from ..wire.messages.methods import ServerStatus, TabletReport
from ..wire.messages.user_methods import SetRights
from ..wire.peer_transport import PeerTransport
from ..wire.process.log_files import Retention
from ..wire.process.server_process import Around, itself, run_server
from ..wire.security.table_rights import TableRights
from ..wire.security.tls import expiry, server_credentials
from ..wire.security.users import Users
from ..wire.server import RpcServer
from ..wire.server_limits import Limits
from .abandoned_transactions import AbandonedTransactions
from .completions import Completions
from .directories import KIND, ServerDirectories
from .heartbeats import Heartbeats
from .known_masters import KnownMasters
from .maintenance import Maintenance
from .options import TabletServerOptions
from .quiescing import Quiescing
from .quotas import Quotas
from .rights import KnownRights
from .scans.fragments import Fragments
from .scans.scan_service import ScanService
from .service import Service
from .tablet_manager import TabletManager

TRANSFER_SECONDS = 3.0
"""Seconds for which a stopping server waits for other leaders."""
_log = logging.getLogger("nyala.cluster.tserver")


class _Deciding:
    """At its end, the thread's messages to peers are sent together; then the writes that it decided are completed."""

    __slots__ = ("_here", "_holding")

    def __init__(self, here: AbstractContextManager[None], holding: AbstractContextManager[None]) -> None:
        self._here = here
        self._holding = holding

    def __enter__(self) -> None:
        self._here.__enter__()
        self._holding.__enter__()

    def __exit__(self, *exception: Any) -> None:
        try:
            self._holding.__exit__(*exception)
        finally:
            self._here.__exit__(*exception)


class TabletServer:
    """A tablet server in this process; construction binds the port and locks the directories.

    Parameters
    ----------
    options : TabletServerOptions
    fragments : Fragments, optional
        Evaluates the fragments of scans; None: scans with fragments are refused.
    fs : FileSystem, optional
        Instead of the operating system's.
    clock : HybridClock, optional
        Instead of a new one.

    Raises
    ------
    StoreLocked, CorruptionError, UnsupportedFormat, DiskError, OperationalError
        The directory cannot be used.
    ServerUnavailable
        The port cannot be used.
    InterfaceError
        The TLS files cannot be used.
    """

    def __init__(
        self,
        options: TabletServerOptions,
        *,
        fragments: Fragments | None = None,
        fs: FileSystem | None = None,
        clock: HybridClock | None = None,
    ):
        self.options = options
        self.clock = clock or HybridClock(FAULTS.wall_microseconds)
        self._steady = SteadyClock(0, min(options.history_seconds, PATIENCE_SECONDS), self.clock.wall)
        self.clock.steady = self._history_time
        self._started = time.time()
        self._stopped = False
        self._tls = server_credentials(options.tls)
        files = fs or OsFileSystem()
        if options.allow_faults:
            files = FaultyFileSystem(files)
        stay_with_process(self, files)
        with ExitStack() as stack:
            self._directories = ServerDirectories(
                files, options.directory, options.data_directories, options.reserve_bytes
            )
            stack.callback(self._directories.release)
            self._rights = KnownRights(files, self._directories.own.path)
            self._rpc = RpcServer(
                options.bind,
                self.clock,
                id=self._directories.id,
                limits=Limits(idle_scan_seconds=options.scanner_ttl),
                is_overloaded=lambda: self.maintenance.is_overloaded(),
                tls=self._tls,
                flight_port=options.flight_port,
            )
            stack.callback(self._rpc.stop)
            self.peer = Peer(self._directories.id, options.advertise or self._rpc.address)
            if self._tls is not None:
                self._tls.check_address(self.peer.address)
            self._cache = PageCache(options.cache_bytes)
            io_limit = IoLimit(options.maintenance_io_limit)
            self._channels = Channels(self.clock, Caller(self.peer.id, self.peer.address), self._tls)
            stack.callback(self._channels.close)
            self._transport = PeerTransport(
                lambda: self.peer, self.clock, lambda batch: self._host.receive(batch), self._rpc.reactor, self._tls
            )
            stack.callback(self._transport.close)
            self._completions = Completions()
            stack.callback(self._completions.close)
            self._host = ConsensusHost(
                self.peer,
                self.clock,
                self._transport,
                options.raft,
                durability=options.durability,
                log_threads=1 + len(options.data_directories),
                deciding=self._deciding,
                is_missing=lambda tablet_id: self.tablets.is_missing(tablet_id),
                disk_full=lambda tablet_id, error: self.tablets.disk_full(tablet_id, error),
                reactor=self._rpc.reactor,
            )
            stack.callback(self._host.close)
            self._masters = KnownMasters(files, options.directory, options.masters)
            self._heartbeats = Heartbeats(
                self._masters.first,
                self._channels,
                lambda: self.peer,
                lambda ids: self.tablets.reports(ids),
                options.heartbeat_interval,
                lambda: self._host.is_quiescing,
                options.location,
                self._masters.note,
                self._rights,
                lambda: self.quotas.sizes(),
                lambda above: self.quotas.update(above),
            )
            self.tablets = TabletManager(
                files,
                self._directories,
                self._host,
                self._channels,
                self.peer,
                cache=self._cache,
                clock=self.clock,
                options=options.store,
                io_limit=io_limit,
                on_change=self._heartbeats.note,
                release_scans=lambda tablet_id: self.scans.release(tablet_id),
                space_again=lambda: self.maintenance.try_again(),
            )
            stack.callback(self.tablets.close)
            self.quotas = Quotas(self.tablets.replicas, options.heartbeat_interval)
            self.quiescing = Quiescing(self._host, self.tablets, self.peer.address, lambda: self.scans.count)
            self.scans = ScanService(
                self.quiescing.replica_for_scan,
                fragments,
                threads=options.scan_threads,
                budget_bytes=options.scanner_bytes,
                ttl=options.scanner_ttl,
            )
            stack.callback(self.scans.close)
            self.maintenance = Maintenance(
                self.tablets.replicas,
                self._cache,
                durability=options.durability,
                rowset_bytes=options.rowset_bytes,
                limit_bytes=options.memory_limit_bytes,
                io_limit=io_limit,
                background=options.background,
                also=(self.scans.expire, self.tablets.keep_house),
                failed=self.tablets.met,
            )
            self._space = Rounds(
                "nyala-space", self.tablets.look_for_space, options.background, interval=options.full_check_seconds
            )
            stack.callback(self._space.stop)
            self._abandoned = AbandonedTransactions(
                self.tablets.replicas, self._channels, self._heartbeats.masters, options.background
            )
            stack.callback(self._abandoned.stop)
            self._service = Service(
                self.tablets,
                self.scans,
                self.maintenance,
                self.quotas,
                self.quiescing,
                self.status,
                self._completions,
            )
            self._rpc.handlers = self._service.handlers(FAULTS.set if options.allow_faults else None)
            self._rpc.at_once = self._service.at_once()
            self._rpc.later = self._service.later()
            self._rpc.handlers[SetRights] = self._rights.set
            users = Users(self._tls is not None, lambda: self._rpc.ports)
            tables = TableRights(lambda tablet_id: self.tablets.get(tablet_id).table)
            self._rpc.admit = users.admission(lambda: self._rights.current, tables.check)
            self._rpc.scan = self.scans.scan
            self._rpc.message = self._transport.receive
            self._rpc.around = self._deciding
            metrics.register(self.samples)
            stack.pop_all()

    def _deciding(self) -> _Deciding:
        return _Deciding(self._completions.here(), self._transport.holding())

    def _history_time(self) -> int:
        """Returns the ancient history mark, in microseconds since 1970. A server keeps all history while no leading
        master accepts its heartbeats, as in the case of a clock that is too far ahead."""
        return self._steady.now() if self._heartbeats.are_accepted else 0

    @property
    def address(self) -> str:
        """ "host:port" at which it listens."""
        return self._rpc.address

    @property
    def id(self) -> str:
        """The server's permanent id."""
        return self.peer.id

    def start(self) -> None:
        """Serves calls, opens the tablets in the background, and reports to the masters."""
        self.tablets.open_all()  # first: an existing tablet must not be created again
        self._rpc.start()
        self._heartbeats.start()
        _log.info(
            "tablet server started",
            extra={"fields": {"id": self.id, "address": self.address, "directory": self.options.directory}},
        )

    def drain(self) -> None:
        """Transfers leaderships and lets running work end, for about `drain_seconds` at most."""
        self.tablets.hand_over(time.monotonic() + TRANSFER_SECONDS)
        self._rpc.drain(self.options.drain_seconds)

    def stop(self) -> None:
        """Stops at once: running calls and scans fail. Acknowledged writes are durable already. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        with ExitStack() as stack:
            stack.callback(self._directories.release)
            stack.callback(self.maintenance.close)
            stack.callback(self._channels.close)
            stack.callback(self._completions.close)  # completes writes that the consensus has decided or abandoned
            stack.callback(self._host.close)
            stack.callback(self.tablets.close)
            stack.callback(self.scans.close)
            stack.callback(self.maintenance.stop)
            for replica in self.tablets.replicas():
                stack.callback(replica.tablet.prepared.end)  # which maintenance may wait for
            stack.callback(self._space.stop)
            stack.callback(self._abandoned.stop)
            stack.callback(self._rpc.stop)
            stack.callback(self._transport.close)
            stack.callback(self._heartbeats.stop)

    def status(self) -> ServerStatus:
        """Returns the server's status."""
        memory = self.maintenance.memory.measure()
        replicas = list(self.tablets.replicas())
        return ServerStatus(
            id=self.id,
            kind=KIND,
            address=self.peer.address,
            version=__version__,
            pid=os.getpid(),
            started=self._started,
            clock=self.clock.now(),
            tablets=self.tablets.count,
            leaders=sum(replica.consensus.status().is_serving for replica in replicas),
            memory_bytes=memory.used,
            details={
                "memory_limit_bytes": memory.limit,
                "scans": self.scans.count,
                "is_quiescing": self.quiescing.is_quiescing,
                "sizes": self.quotas.sizes(),
                "directories": [{"path": d.path, "error": d.error, "full": d.full} for d in self._directories.all],
                "masters": [
                    {"address": r.address, "is_leader": r.is_leader, "error": r.error}
                    for r in self._heartbeats.reporters
                ],
                **dict(self._rpc.under_way),
                **dict(self._rpc.processed),
                **expiry(self._tls),
            },
        )

    def masters(self) -> list[str]:
        """Returns the addresses of all masters, the leading one first."""
        return self._heartbeats.masters()

    def reports(self) -> list[TabletReport]:
        """Returns the reports of all replicas."""
        return self.tablets.reports(None)

    def not_ready(self) -> str:
        """Returns the reason for which clients should use other servers: tablets are still being opened."""
        opening = sum(report.state == "BOOTSTRAPPING" for report in self.tablets.reports(None))
        return f"{opening} tablets are being opened" if opening else ""

    def observations(self, kind: str) -> Iterable[Mapping[str, Any]]:
        """Rows of this server as `nyala_catalog` has them for a store: rowsets and operations; of tablets the names."""
        if kind == "operations":
            return operation_rows(self.maintenance.status())
        if kind == "operation_kinds":
            return kind_rows(self.maintenance.status())
        replicas = [replica for replica in self.tablets.replicas() if replica.state == "RUNNING"]
        if kind == "rowsets":
            return rowset_rows(replica.tablet for replica in replicas)
        return [{"table_name": replica.table.name, "tablet_id": replica.tablet_id} for replica in replicas]

    def samples(self) -> Iterator[metrics.Sample]:
        """For `metrics.collect`; none after `stop`."""
        if not self._stopped:
            yield from replica_samples(self.tablets.reports(None))
            yield from directory_samples((d.error, d.full) for d in self._directories.all)

    def __enter__(self) -> TabletServer:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def run(
    options: TabletServerOptions,
    *,
    fragments: Fragments | None = None,
    name: str = "tserver",
    address_file: str | None = None,
    log_file: str | None = None,
    retention: Retention | None = None,
    around: Around = itself,
) -> int:
    """Runs a tablet server in this process until it is stopped; returns the exit status.
    `wire.process.server_process.run_server` explains `name`, `address_file`, `log_file`, `retention` and
    `around`."""
    return run_server(
        around(lambda: TabletServer(options, fragments=fragments)),
        name=name,
        address_file=address_file,
        log_file=log_file,
        retention=retention,
    )
