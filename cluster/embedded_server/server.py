"""Serving an embedded store to other processes, by the cluster's own protocol.

    clients ──► RpcServer ──┬── EmbeddedCatalog ──┐
                            ├── TabletService ─┼── Calls ──► Database
                            ├── RowWrites ─────┤
                            ├── OwnedWrites ───┤
                            ├── OwnedLoads ────┤
                            └── ScanService ───┘

The process that owns the store continues to use it as before, unhindered. The server's clock is the store's own, and
follows the timestamps of all callers: a client's next scan sees everything that was acknowledged to it.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import ParamSpec, TypeVar

from ...model.access.tokens import TokenKey, kept_keys, new_key, signing_key
from ...model.forks import stay_with_process
from ...model.vectors.vector import Batch
from ...model.version import __version__
from ...storage.database import Database
from ...storage.maintenance.background import Rounds
from ..raft.messages import Peer
from ..tserver.options import TabletServerOptions
from ..tserver.scans.fragments import Fragments
from ..tserver.scans.scan_service import ScanService
from ..tserver.tablet_service import TabletService
from ..wire.call_context import CallContext
from ..wire.messages.methods import (
    EMBEDDED_SERVER,
    GetStatus,
    Request,
    ScanEnd,
    ScanTablet,
    ServerStatus,
    WriteRow,
)
from ..wire.messages.user_methods import BeginLogin, FinishLogin, MakeTaskToken
from ..wire.process.forking import note_process
from ..wire.security.logins import Logins
from ..wire.security.table_rights import TableRights
from ..wire.security.users import NO_USERS, Rights, Users
from ..wire.server import RpcServer
from .call_results import Calls
from .catalog import EmbeddedCatalog, Handler
from .joint_writes import OwnedWrites
from .loads import OwnedLoads
from .row_writes import RowWrites
from .server_record import ServerRecord, place_of
from .tablets import EmbeddedTablets

P = ParamSpec("P")
R = TypeVar("R")
LOOPBACK = "127.0.0.1:0"
DRAIN_SECONDS = 5.0
"""Seconds for which a server that closes lets running calls and scans continue."""


class EmbeddedServer:
    """Serves a store from `start` to `close`; the caller then closes the store. Must be closed by the process that
    made it.

    Parameters
    ----------
    store : Database
    directory : str, optional
        The store's directory: DIR/owner announces the server there. None: not announced, as for a store in memory.
    fragments : Fragments, optional
        Evaluates the fragments of scans; None: scans with fragments are refused.
    bind : str
        "host:port" to listen at; there is no authentication, so only this machine's users should have access.
    flight_port : int
        Port for scans; 0 takes any free one.
    idle_exit : float, optional
        For DIR/owner: idle seconds after which `on_idle` ends the server.
    on_idle : callable, optional
        Called every second once no call has arrived for `idle_exit` seconds.

    Raises
    ------
    ServerUnavailable
        The port cannot be used.
    InterfaceError
        This process was forked from one that uses gRPC.
    """

    def __init__(
        self,
        store: Database,
        *,
        directory: str | None,
        fragments: Fragments | None = None,
        bind: str = LOOPBACK,
        flight_port: int = 0,
        idle_exit: float | None = None,
        on_idle: Callable[[], None] = lambda: None,
    ):
        note_process()
        self.id = uuid.uuid4().hex
        self._store = store
        self._directory = directory
        self._idle_exit = idle_exit
        self._on_idle = on_idle
        self._process = os.getpid()
        self._started = time.time()
        self._used = time.monotonic()
        self._rounds: Rounds | None = None
        self._closed = False
        stay_with_process(self)
        self._rpc = RpcServer(bind, store.clock, id=self.id, flight_port=flight_port)
        self.peer = Peer(self.id, self._rpc.address)
        defaults = TabletServerOptions(directory="")
        calls = Calls(self.id, store.clock)
        tablets = EmbeddedTablets(store, calls)
        self._keys: tuple[TokenKey, ...] = ()
        """Of the tokens of users, until this server ends."""
        self._keys_lock = threading.Lock()
        users = Users(is_secure=False, ports=lambda: self._rpc.ports)
        rights = TableRights(lambda tablet_id: tablets.get(tablet_id).table, tablets.table)
        self._rpc.admit = users.admission(self._rights, rights.check)
        logins = Logins(self._rights, self._signing_key, users)
        self._loads = OwnedLoads(store, calls)
        self._writes = OwnedWrites(store, tablets, calls)
        self._rows = RowWrites(store, tablets, calls)
        self._scans = ScanService(
            tablets.get,
            fragments,
            threads=defaults.scan_threads,
            budget_bytes=defaults.scanner_bytes,
            ttl=defaults.scanner_ttl,
        )
        served = TabletService(tablets.get, self._scans)
        handlers: dict[type[Request], Handler] = {
            **EmbeddedCatalog(store, self.id, calls, lambda: self.peer).handlers(),
            **served.handlers(),
            **self._writes.handlers(),
            BeginLogin: logins.begin,
            FinishLogin: logins.finish,
            MakeTaskToken: logins.make_task_token,
            **self._loads.handlers(),
        }
        self._rpc.handlers = {kind: self._noted(handler) for kind, handler in handlers.items()}
        self._rpc.handlers[GetStatus] = self._noted(lambda request, context: self.status())
        self._rpc.at_once = {kind: self._noted(each) for kind, each in served.at_once().items()}
        self._rpc.later = {WriteRow: self._noted(self._rows.write_row_later)}
        self._rpc.scan = self._scan

    @property
    def address(self) -> str:
        """ "host:port" at which it listens."""
        return self._rpc.address

    @property
    def url(self) -> str:
        """URL for clients."""
        return f"nyala://{self.address}"

    # ---- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Serves calls, and announces that in DIR/owner."""
        self._rpc.start()
        self._rounds = Rounds("nyala-embedded-server", self._keep_house)
        self._tell(self.address)

    def drain(self, grace: float = DRAIN_SECONDS) -> None:
        """Accepts no new calls, and lets running ones end, for `grace` seconds at most."""
        self._tell("")
        self._rpc.drain(grace)

    def close(self, grace: float = DRAIN_SECONDS) -> None:
        """Drains, then ends running calls. Until `forget`, DIR/owner records that the process still has the store.
        Idempotent."""
        if self._closed:
            return
        self._closed = True
        with ExitStack() as stack:
            stack.callback(self._loads.close)
            stack.callback(self._scans.close)
            stack.callback(self._rows.close)
            stack.callback(self._rpc.stop, cut=True)
            if self._rounds is not None:
                stack.callback(self._rounds.stop)
            self.drain(grace)

    def forget(self) -> None:
        """Removes DIR/owner: the store is closed."""
        if self._directory is not None:
            self._record("").remove(self._directory)

    def _tell(self, address: str) -> None:
        if self._directory is not None:
            self._record(address).write(self._directory)

    def _record(self, address: str) -> ServerRecord:
        assert self._directory is not None
        place = place_of(self._directory)
        return ServerRecord(address=address, id=self.id, pid=self._process, place=place, idle_exit=self._idle_exit)

    def _keep_house(self) -> None:
        self._scans.expire()
        self._loads.expire()
        self._writes.expire()
        if self._idle_exit is not None and self.idle_seconds() >= self._idle_exit:
            self._on_idle()

    # ---- calls ---------------------------------------------------------------------------------------------------

    def idle_seconds(self) -> float:
        """Seconds since the last call or batch of a scan; 0 during one, during a bulk load, and while a batch is
        incomplete."""
        under_way = self._rpc.under_way
        if under_way["calls"] or under_way["scans"] or self._loads.count or self._writes.count:
            self._used = time.monotonic()
        return time.monotonic() - self._used

    def _noted(self, handler: Callable[P, R]) -> Callable[P, R]:
        def noted(*arguments: P.args, **named: P.kwargs) -> R:
            self._used = time.monotonic()
            return handler(*arguments, **named)

        return noted

    def _scan(self, ticket: ScanTablet, context: CallContext) -> Iterator[Batch | ScanEnd]:
        self._used = time.monotonic()
        return self._scans.scan(ticket, context)

    # ---- users ---------------------------------------------------------------------------------------------------

    def _rights(self) -> Rights:
        access = self._store.access
        return Rights(1, access, self._keys) if access.has_users else NO_USERS

    def _signing_key(self, deadline: float) -> TokenKey:
        with self._keys_lock:
            now = time.time()
            key = signing_key(self._keys, now)
            if key is None:
                key = new_key(self._keys, now)
                self._keys = (*kept_keys(self._keys, now), key)
            return key

    def status(self) -> ServerStatus:
        """Returns the server's status."""
        catalog = self._store.catalog
        tablets = sum(len(entry.tablet_ids) for entry in catalog.entries.values())
        return ServerStatus(
            id=self.id,
            kind=EMBEDDED_SERVER,
            address=self.address,
            version=__version__,
            pid=self._process,
            started=self._started,
            clock=self._store.clock.now(),
            is_leader=True,
            tablets=tablets,
            leaders=tablets,
            memory_bytes=self._store.memory_status().used,
            details={
                "directory": self._directory,
                "tables": len(catalog.entries),
                "idle_exit": self._idle_exit,
                "scans": self._scans.count,
                "loads": self._loads.count,
                **dict(self._rpc.under_way),
                **dict(self._rpc.processed),
            },
        )
