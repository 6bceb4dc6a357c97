"""Real Kudu's servers: one master and tablet servers as processes on loopback."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Final

from ...cluster.admin.ports import free_ports
from ...errors import OperationalError
from ..ycsb.model import Durability
from .distribution import KuduDistribution

START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02
# The other options have their defaults. These are for loopback without a web server and without NTP.
_OPTIONS: Final = (
    "--unlock_unsafe_flags",
    "--unlock_experimental_flags",
    "--time_source=system_unsync",
    "--webserver_enabled=false",
    "--rpc_server_allow_ephemeral_ports",
    "--redact=none",
    "--minloglevel=1",
)
_MASTER_OPTIONS: Final = ("--max_create_tablets_per_ts=1000",)  # for the table of the idle servers


class KuduServers:
    """A cluster in a directory; `start` starts what does not run."""

    def __init__(self, kudu: KuduDistribution, home: Path, tservers: int, durability: Durability) -> None:
        self._kudu = kudu
        self._home = home
        self._names = ["master", *(f"tserver-{number}" for number in range(1, tservers + 1))]
        self._ports = dict(zip(self._names, free_ports(len(self._names)), strict=True))
        self._durable = ("--log_force_fsync_all=true",) if durability == "fsync" else ()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def masters(self) -> str:
        """The addresses of the masters, for clients."""
        return f"127.0.0.1:{self._ports['master']}"

    @property
    def tservers(self) -> list[str]:
        """The names of the tablet servers."""
        return self._names[1:]

    def name_of(self, address: str) -> str:
        """The server at "host:port"."""
        port = int(address.rpartition(":")[2])
        return next(name for name, own in self._ports.items() if own == port)

    def start(self) -> None:
        """Starts all servers that do not run, and waits until the tablet servers are registered."""
        for name in self._names:
            if name not in self._processes:
                self._processes[name] = self._started(name)
        deadline = time.monotonic() + START_SECONDS
        while self._registered() < len(self.tservers):
            for name, process in self._processes.items():
                if process.poll() is not None:
                    lines = self._log(name).read_text(errors="replace").strip().splitlines()
                    raise OperationalError(f"Kudu's {name} ended with {process.returncode}: {' '.join(lines[-2:])}")
            if time.monotonic() > deadline:
                raise OperationalError(f"Kudu's servers did not register within {START_SECONDS:g} s; see {self._home}")
            time.sleep(_POLL_SECONDS)

    def kill(self, name: str) -> None:
        """SIGKILL."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def terminate(self, names: list[str]) -> None:
        """SIGTERM, which Kudu takes for an immediate end; returns when they have ended."""
        ending = [self._processes.pop(name) for name in names]
        for process in ending:
            process.terminate()
        for process in ending:
            process.wait()

    def stop(self) -> None:
        """Ends all servers at once."""
        for name in list(self._processes):
            self.kill(name)

    def pids(self) -> list[int]:
        """The process ids of the servers that run."""
        return [process.pid for process in self._processes.values()]

    def _started(self, name: str) -> subprocess.Popen[bytes]:
        # Kudu itself creates the directory: it takes one that exists and has files for an incomplete store.
        directory = self._home / name
        self._home.mkdir(parents=True, exist_ok=True)
        is_master = name == "master"
        command = [
            self._kudu.program("kudu-master" if is_master else "kudu-tserver"),
            f"--fs_wal_dir={directory}",
            f"--fs_data_dirs={directory}",
            "--logtostderr",
            f"--rpc_bind_addresses=127.0.0.1:{self._ports[name]}",
            f"--{'' if is_master else 'tserver_'}master_{'addresses' if is_master else 'addrs'}={self.masters}",
            *_OPTIONS,
            *(_MASTER_OPTIONS if is_master else ()),
            *self._durable,
        ]
        with self._log(name).open("ab") as log:
            return subprocess.Popen(
                command, env=self._kudu.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _log(self, name: str) -> Path:
        return self._home / f"{name}.log"

    def _registered(self) -> int:
        listed = subprocess.run(
            [self._kudu.program("kudu"), "tserver", "list", self.masters, "--columns=uuid", "--format=csv"],
            env=self._kudu.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        return len(listed.stdout.split()) if listed.returncode == 0 else 0
