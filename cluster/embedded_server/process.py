"""A process that only serves a store to others: `nyala serve`.

    store locked ─► "starting" in DIR/owner ─► store opened ─► serving, with its address in DIR/owner ─► idle or SIGTERM
    ─► no new calls, running ones end ─► store closed ─► DIR/owner removed

Acknowledged rows are durable before that: nothing is lost if the process is killed.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable
from typing import Protocol, TypeAlias

from ...model.lazy_dataclass import dataclass
from ...storage.database import Database
from ...storage.files.filesystem import Lock
from ...storage.files.os_filesystem import OsFileSystem
from ..tserver.scans.fragments import Fragments
from ..wire.process.log_files import Retention
from ..wire.process.server_process import Around, itself, run_server
from .server import LOOPBACK, EmbeddedServer
from .server_record import ServerRecord, place_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedServerOptions:
    """Options of a serving process.

    Parameters
    ----------
    directory : str
        The store's; created if it does not exist.
    bind : str
        "host:port" to listen at; port 0 takes any free one.
    flight_port : int
        Port for scans; 0 takes any free one.
    idle_exit : float, optional
        Seconds without a call after which it ends.
    durability : {"fsync", "os"}
    history_seconds : int, optional
    memory_limit_bytes : int, optional
    maintenance_io_limit : int, optional
        As in `Database`.
    """

    directory: str
    bind: str = LOOPBACK
    flight_port: int = 0
    idle_exit: float | None = None
    durability: str = "fsync"
    history_seconds: int | None = None
    memory_limit_bytes: int | None = None
    maintenance_io_limit: int | None = None


class Door(Protocol):
    """A server beside this one for clients of another protocol, on the same store."""

    def start(self) -> None: ...

    def drain(self) -> None:
        """Accepts no new clients, and lets running statements end."""

    def close(self) -> None:
        """Ends all clients, before the store is closed."""

    def idle_seconds(self) -> float:
        """Seconds since a client last sent something; 0 while one is connected."""


MakeDoor: TypeAlias = Callable[[Database], Door]


class EmbeddedServerProcess:
    """The store and its servers. Construction raises as `Database`, `EmbeddedServer` and `make_door`."""

    def __init__(self, options: EmbeddedServerOptions, fragments: Fragments | None, make_door: MakeDoor | None = None):
        directory = os.path.realpath(options.directory)
        files = _AnnouncingFileSystem(directory)
        try:
            threads = os.cpu_count() or 1
            self._store = Database(
                directory,
                durability=options.durability,
                history_seconds=options.history_seconds,
                threads=threads,
                fs=files,
                memory_limit_bytes=options.memory_limit_bytes,
                maintenance_io_limit=options.maintenance_io_limit,
            )
        except BaseException:
            files.take_back()
            raise
        try:
            self._server = EmbeddedServer(
                self._store,
                directory=directory,
                fragments=fragments,
                bind=options.bind,
                flight_port=options.flight_port,
                idle_exit=options.idle_exit,
                on_idle=self._end_if_idle,
            )
            self._idle_exit = options.idle_exit
            self._door: Door | None = None
            if make_door is not None:
                try:
                    self._door = make_door(self._store)
                except BaseException:
                    self._server.close(0.0)
                    raise
        except BaseException:
            self._store.close()
            files.take_back()
            raise

    @property
    def address(self) -> str:
        """ "host:port" at which it listens."""
        return self._server.address

    @property
    def store(self) -> Database:
        """The store."""
        return self._store

    def start(self) -> None:
        """Serves calls."""
        self._server.start()
        if self._door is not None:
            self._door.start()

    def _end_if_idle(self) -> None:
        if self._door is None or self._door.idle_seconds() >= (self._idle_exit or 0.0):
            _end_process()

    def drain(self) -> None:
        """Lets running calls end."""
        if self._door is not None:
            self._door.drain()
        self._server.drain()

    def stop(self) -> None:
        """Stops, and closes the store."""
        try:
            if self._door is not None:
                self._door.close()
            self._server.close(0.0)
        finally:
            self._store.close()
            self._server.forget()


class _AnnouncingFileSystem(OsFileSystem):
    """Announces in DIR/owner that a process has locked the store, before opening it, which may take long."""

    def __init__(self, directory: str):
        self._directory = directory
        self._record: ServerRecord | None = None

    def lock(self, path: str, shared: bool = False) -> Lock:
        lock = super().lock(path, shared)
        self._record = ServerRecord(address="", id=uuid.uuid4().hex, pid=os.getpid(), place=place_of(self._directory))
        self._record.write(self._directory)
        return lock

    def take_back(self) -> None:
        """Withdraws the announcement of a store that could not be opened."""
        if self._record is not None:
            self._record.remove(self._directory)


def _end_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def run(
    options: EmbeddedServerOptions,
    *,
    fragments: Fragments | None = None,
    make_door: MakeDoor | None = None,
    ready: Callable[[str], None] | None = None,
    around: Around = itself,
    log_file: str | None = None,
    retention: Retention | None = None,
) -> int:
    """Serves a directory until SIGTERM, or until no call has arrived for long enough; returns the exit status.

    `make_door` makes a further server of the store. `ready` is called with the address.
    `wire.process.server_process.run_server` explains the rest.
    """
    make = around(lambda: EmbeddedServerProcess(options, fragments, make_door))
    return run_server(make, name="owner", ready=ready, log_file=log_file, retention=retention)
