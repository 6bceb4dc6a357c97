"""A cluster of processes on this machine, in one directory, for `nyala cluster start` and tests (`minicluster`).

    DIR/cluster.json        the servers: names, kinds, addresses, options
        master-1/ ...       a server's own directory; master-1.pid, master-1.log beside it (`processes`)
        tserver-1/ ...
        certificates/   of a cluster with TLS: its CA, one certificate for all servers, an admin's, a client's

Addresses are chosen at the first start and stay, so that they survive a restart.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from ...errors import ClusterError, DeadlineExceeded, InterfaceError
from ...model.clock import HybridClock
from ...model.lazy_dataclass import dataclass
from ...net.addresses import port_of
from ..wire.calls.rpc import Channels
from ..wire.client_clock import ClientClock
from ..wire.messages.methods import GetStatus, ListServers, ServerStatus
from ..wire.security.tls import read_credentials
from ..wire.security.tls_files import TlsFiles
from .certificates import files_of, make_certificates
from .masters import ask_master
from .ports import HOST, free_ports
from .processes import START_SECONDS, ServerProcess

_FILE = "cluster.json"
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server of a local cluster, running or not. `kind`: "master" or "tserver"; `status` None: it does not
    respond."""

    name: str
    kind: str
    address: str
    pid: int | None
    status: ServerStatus | None


@dataclass(slots=True)
class LocalCluster:
    """The servers in a directory.

    Parameters
    ----------
    directory : Path
    options : mapping of str to str
        Options of every server: long options of `nyala master` or `nyala tserver` without their dashes, such
        as `durability`; "" for those without a value. A key "master.x" or "tserver.x" is for one kind only.
    is_secure : bool
        Its servers accept only TLS, by the certificates in the directory.
    """

    directory: Path
    options: Mapping[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    """By server name: the masters, then the tablet servers, in the order of their creation."""
    is_secure: bool = False
    added: dict[str, str] = field(default_factory=dict)
    """The masters that were added to existing ones, with the name of the one that each is to replace, or "". They are
    started without their own addresses in --masters, and so never begin a cluster of their own."""
    _processes: dict[str, ServerProcess] = field(default_factory=dict)
    """Those that were requested: the starter of a process must reap it."""

    @classmethod
    def open(cls, directory: Path) -> LocalCluster:
        """Returns the cluster in a directory; raises `InterfaceError` if there is none."""
        try:
            content = json.loads((directory / _FILE).read_text())
        except FileNotFoundError:
            raise InterfaceError(
                f"{directory} holds no cluster; make one with: nyala cluster start --dir {directory}"
            ) from None
        tls, added = content.get("tls", False), content.get("added", {})
        return cls(directory.resolve(), content["options"], content["servers"], tls, added)

    @classmethod
    def create(
        cls,
        directory: Path,
        tservers: int,
        masters: int = 1,
        options: Mapping[str, str] | None = None,
        *,
        is_secure: bool = False,
    ) -> LocalCluster:
        """Returns a new cluster, not started yet; `is_secure`: certificates are made for it. Raises `InterfaceError` if
        the directory holds something else, or cannot be created."""
        if tservers < 1 or masters not in (1, 3):
            raise InterfaceError(f"{tservers} tablet servers, {masters} masters: expected 1 or more, and 1 or 3")
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InterfaceError(f"{directory} cannot be the directory of a cluster: {error.strerror}") from error
        if any(directory.iterdir()):
            raise InterfaceError(f"{directory} is not empty; a cluster needs an empty directory")
        cluster = cls(directory.resolve(), dict(options or {}), is_secure=is_secure)
        if is_secure:
            make_certificates(cluster.certificates, [[HOST, "localhost"]])
        cluster.add("master", masters)
        cluster.add("tserver", tservers)
        return cluster

    def add(self, kind: str, count: int = 1) -> list[str]:
        """Adds `count` servers, not started yet; returns their names."""
        unused = (name for number in itertools.count(1) if not self._is_used(name := f"{kind}-{number}"))
        names = list(itertools.islice(unused, count))
        ports = {port_of(address) for address in self.addresses.values()}
        for name, port in zip(names, free_ports(count, ports)):
            self.addresses[name] = f"{HOST}:{port}"
        masters_first = sorted(self.addresses.items(), key=lambda server: not server[0].startswith("master-"))
        self.addresses = dict(masters_first)
        self._write()
        return names

    def _is_used(self, name: str) -> bool:
        """True if a server has the name, or had it and has left its directory."""
        return name in self.addresses or (self.directory / name).exists()

    def add_master(self, replaced: str = "") -> str:
        """Adds the process of a further master, not started yet; returns its name. It is to be added to the others,
        too (`master_changes`), perhaps instead of the one named `replaced`."""
        (name,) = self.add("master")
        self.added[name] = replaced
        self._write()
        return name

    def forget(self, name: str) -> None:
        """Stops a server and drops it from the cluster; its directory stays. No-op if there is none of the name."""
        if name in self.addresses:
            self.process(name).stop()
            del self.addresses[name], self._processes[name]
            self.added.pop(name, None)
            self._write()

    def check_made_with(
        self,
        *,
        tservers: int | None = None,
        masters: int | None = None,
        durability: str | None = None,
        is_secure: bool | None = None,
    ) -> None:
        """Raises `InterfaceError` if the cluster was made with other options than requested; None: not requested. More
        tablet servers may be requested."""
        made = self.options.get("durability", "fsync")
        asked = [
            *([] if tservers is None or tservers >= len(self.tservers) else [f"--tservers {tservers}"]),
            *([] if masters in (None, len(self.masters)) else [f"--masters {masters}"]),
            *([] if durability in (None, made) else [f"--durability {durability}"]),
            *([] if is_secure in (None, self.is_secure) else ["--tls"]),
        ]
        if asked:
            raise InterfaceError(
                f"{self.directory} holds a cluster with --tservers {len(self.tservers)} --masters {len(self.masters)} "
                f"--durability {made}{' --tls' if self.is_secure else ''}, and cannot be started with "
                f"{' '.join(asked)}; only --tservers of an existing cluster can be raised; "
                "`nyala cluster add-master` adds a master"
            )

    def _write(self) -> None:
        path = self.directory / _FILE
        temporary = path.with_suffix(".tmp")
        content = {
            "options": dict(self.options),
            "servers": self.addresses,
            "tls": self.is_secure,
            "added": self.added,
        }
        temporary.write_text(json.dumps(content, indent=2) + "\n")
        temporary.replace(path)

    # ---- lookup ------------------------------------------------------------------------------------------------------

    def names(self, kind: str) -> list[str]:
        """Returns the names of the servers of a kind, in the order of their creation."""
        return [name for name in self.addresses if name.startswith(f"{kind}-")]

    @property
    def masters(self) -> list[str]:
        """The masters' addresses."""
        return [self.addresses[name] for name in self.names("master")]

    @property
    def tservers(self) -> list[str]:
        """The tablet servers' addresses."""
        return [self.addresses[name] for name in self.names("tserver")]

    @property
    def url(self) -> str:
        """For `nyala.connect`."""
        return f"nyala://{','.join(self.masters)}"

    @property
    def certificates(self) -> Path:
        """Directory of the certificates of a cluster with TLS."""
        return self.directory / "certificates"

    @property
    def client_tls(self) -> TlsFiles | None:
        """For clients; None without TLS."""
        return self._tls("client")

    @property
    def admin_tls(self) -> TlsFiles | None:
        """For administrators; None without TLS."""
        return self._tls("admin")

    def _tls(self, name: str) -> TlsFiles | None:
        return files_of(self.certificates, name) if self.is_secure else None

    def channels(self, clock: HybridClock | None = None) -> Channels:
        """Returns channels to the servers, as an administrator."""
        files = self.admin_tls
        return Channels(clock or ClientClock(), tls=None if files is None else read_credentials(files))

    def process(self, name: str) -> ServerProcess:
        """Returns the process of a server."""
        if name not in self._processes:
            self._processes[name] = self._make_process(name)
        return self._processes[name]

    def _make_process(self, name: str) -> ServerProcess:
        kind = name.partition("-")[0]
        home = self.directory / name
        masters = [address for address in self.masters if name not in self.added or address != self.addresses[name]]
        command = [kind, "--dir", str(home), "--bind", self.addresses[name], "--masters", ",".join(masters)]
        if (files := self._tls(HOST)) is not None:
            command += ["--tls-ca", files.ca, "--tls-cert", files.certificate, "--tls-key", files.key]
        for option, value in self.options.items():
            of_kind, _, rest = option.rpartition(".")
            if of_kind in ("", kind, name):
                command += [f"--{rest}"] if value == "" else [f"--{rest}", value]
        return ServerProcess(name, home, command)

    def processes(self) -> list[ServerProcess]:
        """Returns the processes of all servers, masters first."""
        return [self.process(name) for name in self.addresses]

    def status(self) -> list[LocalServer]:
        """Returns all servers, masters first, with their status."""
        channels = self.channels()
        try:
            return [self._status(channels, name) for name in self.addresses]
        finally:
            channels.close()

    def _status(self, channels: Channels, name: str) -> LocalServer:
        process = self.process(name)
        kind, address, pid = name.partition("-")[0], self.addresses[name], process.pid
        status = None
        if pid is not None:
            try:
                status = channels.get(address).call(GetStatus(), timeout=2.0)
            except ClusterError:
                status = None
        return LocalServer(name, kind, address, pid, status)

    # ---- start and stop --------------------------------------------------------------------------------------------

    def start(self, seconds: float = 2 * START_SECONDS) -> None:
        """Starts all servers that are not running; returns when a master leads and every tablet server is
        registered."""
        started = self.processes()
        for process in started:
            process.start()
        for process in started:
            process.wait_ready(seconds)
        self.wait_registered(seconds)

    def wait_registered(self, seconds: float = START_SECONDS, names: Sequence[str] | None = None) -> None:
        """Returns when these tablet servers (all of them by default) have registered at the leading master."""
        wanted = {self.addresses[n] for n in self.names("tserver") if names is None or n in names}
        end = time.monotonic() + seconds
        channels = self.channels()
        try:
            while True:
                known = ask_master(channels, self.masters, ListServers(), end - time.monotonic())
                alive = {server.address for server in known.tservers if server.state not in ("DEAD", "REPLACED")}
                if wanted <= alive:
                    return
                if time.monotonic() > end:
                    missing = ", ".join(sorted(wanted - alive))
                    raise DeadlineExceeded(f"the master has no report of {missing} after {seconds:g} s")
                time.sleep(_POLL_SECONDS)
        finally:
            channels.close()

    def stop(self, seconds: float = START_SECONDS) -> list[str]:
        """Stops all servers, tablet servers first; returns the names of those that had to be killed."""
        killed = []
        for process in reversed(self.processes()):
            if process.pid is not None and not process.stop(seconds):
                killed.append(process.name)
        return killed
