"""Server processes of this machine: started in the background, found again by their directory, stopped by their id.

| file | |
|---|---|
| NAME/ | the server's own directory |
| NAME.address | "host:port", written by the server when it serves calls |
| NAME.pid | "<process id> <its start time in clock ticks>": no other process is ever mistaken for it |
| NAME.log | its log, one JSON object per line |
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Protocol

from ...errors import ClusterError, DeadlineExceeded
from ...model.lazy_dataclass import dataclass

START_SECONDS = 60.0
"""Seconds for a server to listen."""
STOP_SECONDS = 30.0
"""Seconds for a server to transfer leaderships and end by itself."""
_POLL_SECONDS = 0.02
_LOG_TAIL = 12


class Child(Protocol):
    """A process that this one has started."""

    pid: int
    returncode: int | None

    def wait(self) -> int:
        """Returns its exit code, as soon as it has ended."""


def start_interpreter(arguments: Sequence[str], log: IO[bytes]) -> Child:
    """Starts `python -m nyala` with these arguments. Its output goes to `log`.

    Tests that start hundreds of servers replace this function by one that forks a process which has imported nyala.
    """
    # A session of its own: Ctrl-C at the terminal ends the starter of the server, not the server.
    return subprocess.Popen(
        [sys.executable, "-m", "nyala", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


@dataclass(slots=True)
class ServerProcess:
    """A server of this machine, running or not.

    Parameters
    ----------
    name : str
        "master-1", "tserver-2": for people.
    directory : Path
        The server's own.
    command : sequence of str
        The arguments after `python -m nyala`.
    """

    name: str
    directory: Path
    command: Sequence[str]
    _child: Child | None = None
    _is_to_run: bool = False
    """This object has started it, and its end was not requested since."""

    @property
    def pid(self) -> int | None:
        """The process's id; None if it is not running."""
        try:
            pid, started = self.pid_file.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid) if _start_time(int(pid)) == started else None

    @property
    def pid_file(self) -> Path:
        return self.directory.with_name(f"{self.directory.name}.pid")

    @property
    def address_file(self) -> Path:
        return self.directory.with_name(f"{self.directory.name}.address")

    @property
    def log_file(self) -> Path:
        return self.directory.with_name(f"{self.directory.name}.log")

    @property
    def address(self) -> str:
        """Its address; "" before it first listened."""
        try:
            return self.address_file.read_text().strip()
        except FileNotFoundError:
            return ""

    def start(self) -> None:
        """Starts the process, if it is not running; `wait_ready` returns when it listens."""
        if self.pid is not None:
            return
        self.reap()
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.address_file.unlink(missing_ok=True)
        with self.log_file.open("ab") as log:
            self._child = start_interpreter([*self.command, "--address-file", str(self.address_file)], log)
        self._is_to_run = True
        pid = self._child.pid
        self.pid_file.write_text(f"{pid} {_start_time(pid)}\n")

    def wait_ready(self, seconds: float = START_SECONDS) -> str:
        """Returns the address, as soon as the server listens. Raises `ClusterError` if it has ended, with the last
        lines of its log."""
        end = time.monotonic() + seconds
        while not (address := self.address):
            self.reap()
            if self.pid is None:
                raise ClusterError(
                    f"{self.name} has ended while it started; its log {self.log_file} ends:\n{self.tail()}"
                )
            if time.monotonic() > end:
                raise DeadlineExceeded(f"{self.name} does not listen after {seconds:g} s; see {self.log_file}")
            time.sleep(_POLL_SECONDS)
        return address

    def tail(self) -> str:
        """Returns the last lines of its log."""
        try:
            lines = self.log_file.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-_LOG_TAIL:])

    def check(self) -> None:
        """Raises `ClusterError` if a process that this object started has ended without a request."""
        self.reap()
        if self._is_to_run and self._child is not None and self._child.returncode is not None:
            raise ClusterError(
                f"{self.name} has ended by itself (exit status {self._child.returncode}); its log {self.log_file} "
                f"ends:\n{self.tail()}"
            )

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; no-op if the process is not running."""
        pid = self.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self, seconds: float = STOP_SECONDS) -> bool:
        """Requests an orderly end, and kills the server after `seconds`; True if it ended by itself."""
        self._is_to_run = False
        self.signal(signal.SIGTERM)
        # A suspended process cannot end.
        self.signal(signal.SIGCONT)
        if self.wait_ended(seconds):
            return True
        self.kill()
        return False

    def kill(self) -> None:
        """Ends the process at once, as a crash does (SIGKILL)."""
        self._is_to_run = False
        self.signal(signal.SIGKILL)
        if not self.wait_ended(STOP_SECONDS):
            raise DeadlineExceeded(f"{self.name} (process {self.pid}) does not end")

    def wait_ended(self, seconds: float) -> bool:
        """Waits until the process has ended; False if it has not."""
        end = time.monotonic() + seconds
        while True:
            if self.pid is None:
                self.reap()
                return True
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_SECONDS)

    def reap(self) -> None:
        """Reaps an ended process that this object started."""
        if self._child is not None and self.pid is None:
            self._child.wait()


def _start_time(pid: int) -> str:
    """Returns the start time of a process, from the system; "" if there is none (or it has ended)."""
    try:
        with Path(f"/proc/{pid}/stat").open(encoding="utf-8") as file:
            # The name, in parentheses, may hold anything.
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return _start_time_by_ps(pid)
    return "" if fields[0] in ("Z", "X") else fields[19]


def _start_time_by_ps(pid: int) -> str:
    """Returns the same without /proc."""
    if sys.platform == "linux":
        return ""
    output = subprocess.run(["ps", "-o", "lstart=,stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    text = output.stdout.strip()
    return "" if not text or text.split()[-1].startswith("Z") else "-".join(text.split()[:-1])
