"""Processes that run nyala and start at once: forks of one process, the template, that has imported its modules.

An interpreter that imports nyala takes 0.6 to 0.9 s of processor time before it runs a command, a fork a tenth of that.
A fork is a process as any other, to be killed and suspended. Tests of how nyala starts use interpreters.

Several threads may start processes. A process that is itself forked from this one makes templates of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

from nyala.cluster.admin import processes

TEMPLATE = Path(__file__).with_name("fork_template.py")
CAN_FORK = sys.platform == "linux"
"""Processes are waited for by their descriptors, which Linux has."""
ENVIRONMENT = dict(os.environ)
"""Of the templates: what a single test sets is not theirs. A process's own variables are those of its start."""


_start_interpreter = processes.start_interpreter


class Template:
    """The process that forks.

    Parameters
    ----------
    kind : str
        "servers", or "commands", which has run a statement: modules and methods that statements need are ready.
    """

    def __init__(self, kind: str) -> None:
        self._lock = threading.Lock()
        """Held from a request to its reply."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(TEMPLATE), str(theirs.fileno()), kind],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=ENVIRONMENT,
                start_new_session=True,  # Ctrl-C ends the tests, which end it
            )
        atexit.register(self._close, os.getpid())

    def request(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """The reply to a request of `fork_template`."""
        with self._lock:
            packet = json.dumps(request).encode()
            if descriptors:
                socket.send_fds(self._socket, [packet], list(descriptors))
            else:
                self._socket.send(packet)
            reply = self._socket.recv(1 << 16)
        assert reply, f"the template of forks has ended with {self._process.wait(10)}"
        return json.loads(reply)  # type: ignore[no-any-return]

    def _close(self, process: int) -> None:
        """At the end of the process that has made it; a fork of that one, at its own end, leaves it alone."""
        if process == os.getpid():
            self._socket.close()
            self._process.wait()


@cache
def _template(kind: str, process: int) -> Template:
    return Template(kind)


_making = threading.Lock()
"""Held while a template is looked up: two threads would make two."""


class Fork:
    """A process of nyala, forked from a template; has what tests use of `subprocess.Popen`.

    Parameters
    ----------
    arguments : sequence
        Of the command `nyala`.
    streams : sequence of int
        Descriptors of its standard input, output and error output.
    kind : str
        Of the template.
    is_session : bool
        True if it is to lead a session of its own.
    """

    def __init__(
        self, arguments: Sequence[object], streams: Sequence[int], *, kind: str = "servers", is_session: bool = False
    ) -> None:
        with _making:
            self._template = _template(kind, os.getpid())
        request = {
            "start": list(map(str, arguments)),
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
            "is_session": is_session,
        }
        self.pid: int = self._template.request(request, streams)["pid"]
        self.returncode: int | None = None
        self._reaping = threading.Lock()

    def poll(self) -> int | None:
        """The exit code; None while the process runs."""
        with self._reaping:
            if self.returncode is None:
                self.returncode = self._template.request({"wait": self.pid})["code"]
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, as soon as the process has ended; raises `subprocess.TimeoutExpired`."""
        if self.poll() is None:
            descriptor = os.pidfd_open(self.pid)
            try:
                select.select([descriptor], [], [], timeout)
            finally:
                os.close(descriptor)
        if self.poll() is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a crash does."""
        self.send_signal(signal.SIGKILL)


def start_nyala(
    arguments: Sequence[object], streams: Sequence[int], *, kind: str = "servers"
) -> Fork | subprocess.Popen[bytes]:
    """A fork where there can be one, otherwise an interpreter; the parameters are those of `Fork`."""
    if CAN_FORK:
        return Fork(arguments, streams, kind=kind)
    command = [sys.executable, "-m", "nyala", *map(str, arguments)]
    return subprocess.Popen(command, stdin=streams[0], stdout=streams[1], stderr=streams[2])


def fork_servers() -> None:
    """Clusters that this process starts have forks as their servers from now on."""
    if CAN_FORK:
        processes.start_interpreter = _start_server


def _start_server(arguments: Sequence[str], log: IO[bytes]) -> Fork | subprocess.Popen[bytes]:
    if _of_python(os.environ) != _of_python(ENVIRONMENT):  # an interpreter reads them when it starts
        return _start_interpreter(arguments, log)
    with Path(os.devnull).open("rb") as nothing:
        return Fork(arguments, [nothing.fileno(), log.fileno(), log.fileno()], is_session=True)


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}
