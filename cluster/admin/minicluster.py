"""A cluster for tests: real processes on this machine that a test can kill, pause, restart and partition.

    with MiniCluster(tservers=3) as cluster:
        connection = nyala.connect(cluster.url)
        cluster.kill(cluster.leader("t", 0))

It has a temporary directory that is removed with it, unless it is given one.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from ...errors import ClusterError, DeadlineExceeded, InterfaceError, did_you_mean
from ..wire.messages.methods import GetCatalog, LocateTablets, Request, SetFaults, TabletLocation
from .local_cluster import LocalCluster
from .masters import ask_master
from .processes import START_SECONDS

_POLL_SECONDS = 0.05
TEST_DEFAULTS: Mapping[str, str] = {
    "allow-faults": "",
    "tserver.memrowset-bytes": str(32 << 20),
    "tserver.cache-bytes": str(128 << 20),
}
"""Several servers run on one machine, and tests slow them down."""


class MiniCluster:
    """A running cluster of processes; a context manager.

    Parameters
    ----------
    tservers, masters : int
        Numbers of servers; masters are 1 or 3.
    directory : Path, optional
        Its directory, kept afterwards; a temporary one by default, removed at the end.
    options : mapping of str to str
        As for `LocalCluster`, in addition to `defaults`.
    tls : bool
        Its servers accept only TLS: `nyala.connect(cluster.url, **cluster.tls)`.
    defaults : mapping of str to str
        Replaces the servers' own defaults. Without "allow-faults", `cut` and `faults` are
        refused.

    Server names are "master-1", ..., "tserver-1", ...
    """

    def __init__(
        self,
        tservers: int = 3,
        masters: int = 1,
        directory: Path | None = None,
        options: Mapping[str, str] | None = None,
        tls: bool = False,
        defaults: Mapping[str, str] = TEST_DEFAULTS,
    ):
        self._is_temporary = directory is None
        home = Path(tempfile.mkdtemp(prefix="nyala-cluster-")) if directory is None else directory
        self._faults: dict[str, SetFaults] = {}
        options = {**defaults, **(options or {})}
        self.local = LocalCluster.create(home, tservers, masters, options, is_secure=tls)
        self._channels = self.local.channels()
        try:
            self.local.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """For `nyala.connect`."""
        return self.local.url

    @property
    def tls(self) -> dict[str, str]:
        """The options of `nyala.connect` for a client; none without TLS."""
        files = self.local.client_tls
        return {} if files is None else files.options()

    @property
    def directory(self) -> Path:
        """The parent of the servers' directories."""
        return self.local.directory

    @property
    def tservers(self) -> list[str]:
        """The names of the tablet servers."""
        return self.local.names("tserver")

    @property
    def masters(self) -> list[str]:
        """The names of the masters."""
        return self.local.names("master")

    def close(self) -> None:
        """Ends all servers at once, and removes a temporary directory."""
        for process in self.local.processes():
            process.kill()
        self._channels.close()
        if self._is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> MiniCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # ---- faults of servers -------------------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """Sends SIGKILL, like a crash."""
        self._check(name)
        self.local.process(name).kill()

    def stop(self, name: str) -> bool:
        """Sends SIGTERM for an orderly end; False if it had to be killed."""
        self._check(name)
        return self.local.process(name).stop()

    def start(self, name: str) -> None:
        """Starts a server that is not running; returns when it listens and has registered at the master."""
        self._check(name)
        process = self.local.process(name)
        process.start()
        process.wait_ready()
        if name in self.tservers:
            self.local.wait_registered(START_SECONDS, [name])
        if name in self._faults:
            self.call(name, self._faults[name])

    def restart(self, name: str) -> None:
        """`stop`, then `start`."""
        self.stop(name)
        self.start(name)

    def pause(self, name: str) -> None:
        """Sends SIGSTOP: the process is suspended, its sockets stay open."""
        self._check(name)
        self.local.process(name).signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Sends SIGCONT."""
        self._check(name)
        self.local.process(name).signal(signal.SIGCONT)

    def cut(self, name: str, *others: str) -> None:
        """Drops all traffic between a server and others (all servers and clients if none is named)."""
        targets = tuple(self.local.addresses[other] for other in others) or ("*",)
        self.faults(name, cut=targets)
        for other in others:
            self.faults(other, cut=(*self._faults.get(other, SetFaults()).cut, self.local.addresses[name]))

    def heal(self, *names: str) -> None:
        """Undoes `cut` and `faults`, of all servers if none is named."""
        for name in names or tuple(self._faults):
            self._faults.pop(name, None)
            with contextlib.suppress(ClusterError):
                self.call(name, SetFaults())

    def faults(self, name: str, **settings: Any) -> None:
        """Injects faults into a server: `wire.messages.methods.SetFaults`."""
        self._check(name)
        self._faults[name] = SetFaults(**settings)
        self.call(name, self._faults[name])

    def add_tserver(self) -> str:
        """Starts one more tablet server; returns its name."""
        (name,) = self.local.add("tserver")
        self.start(name)
        return name

    def call(self, name: str, request: Request, seconds: float = 10.0) -> Any:
        """Calls a method of a server."""
        self._check(name)
        return self._channels.get(self.local.addresses[name]).call(request, timeout=seconds)

    def ask_master(self, request: Request, seconds: float = 30.0) -> Any:
        """Calls a method of the leading master."""
        return ask_master(self._channels, self.local.masters, request, seconds)

    # ---- locations ---------------------------------------------------------------------------------------------------

    def locations(self, table: str) -> list[TabletLocation]:
        """Returns the locations of a table's tablets, in the order of partitions."""
        for entry in self.ask_master(GetCatalog()).tables or ():
            if entry["name"] == table:
                return list(self.ask_master(LocateTablets(table_id=entry["id"])).tablets)
        raise InterfaceError(f"the cluster has no table {table}")

    def leader(self, table: str, place: int = 0) -> str:
        """Returns the name of the server that leads a tablet; waits until there is one."""
        found = ""

        def has_leader() -> bool:
            nonlocal found
            location = self.locations(table)[place]
            addresses = {peer.id: peer.address for peer in location.replicas}
            found = self.name_of(addresses.get(location.leader, ""))
            return bool(found)

        self.wait_until(has_leader, f"tablet {place} of {table} has a leader")
        return found

    def followers(self, table: str, place: int = 0) -> list[str]:
        """Returns the names of the servers with the other replicas of a tablet."""
        leader = self.leader(table, place)
        names = [self.name_of(peer.address) for peer in self.locations(table)[place].replicas]
        return [name for name in names if name and name != leader]

    def name_of(self, address: str) -> str:
        """Returns the name of the server at an address; "" if there is none."""
        return next((name for name, known in self.local.addresses.items() if known == address), "")

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
        """Returns when a condition holds; errors of the cluster count as "not yet"."""
        end = time.monotonic() + seconds
        last: ClusterError | None = None
        while True:
            try:
                if condition():
                    return
            except ClusterError as error:
                last = error
            if time.monotonic() > end:
                raise DeadlineExceeded(f"timed out after {seconds:g} s waiting until {what}") from last
            time.sleep(_POLL_SECONDS)

    def _check(self, name: str) -> None:
        if name not in self.local.addresses:
            raise InterfaceError(f"there is no server {name}{did_you_mean(name, self.local.addresses)}")
