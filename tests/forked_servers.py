"""Servers of test clusters that start at once: forks of one process that has imported their modules.

A server that imports them itself takes 0.6 s of processor time to start. A fork is a process of its own like it, to be
killed and suspended: it has its own session, log, folder and environment, and ends as an interpreter ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nyala.cluster.admin import processes

TEMPLATE = '''
"""Forks a server per line of input, {"arguments", "folder", "environment", "log"}; prints its process id. When it has
ended, the file of that name in the folder of the first argument has its exit code."""
import gc, json, os, signal, sys
import nyala.cli.server_command, nyala.executor.fragments.evaluate
from nyala.__main__ import main

statuses = sys.argv[1]

def reap(*_):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        with open(f"{statuses}/{pid}.new", "w") as file:
            file.write(str(os.waitstatus_to_exitcode(status)))
        os.rename(f"{statuses}/{pid}.new", f"{statuses}/{pid}")

def become(call):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.chdir(call["folder"])
    os.environ.clear()
    os.environ.update(call["environment"])
    log = os.open(call["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
        os.dup2(descriptor, number)
    sys.stdin, sys.stdout = open(0), open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.argv = ["nyala", *call["arguments"]]

gc.collect()
gc.freeze()  # a collection in a fork would copy the pages of these objects
signal.signal(signal.SIGCHLD, reap)
while line := sys.stdin.readline():
    # The child of a fork that ends at once must not be reaped before its id is printed.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    child = os.fork()
    if child == 0:
        become(json.loads(line))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        sys.exit(main(sys.argv[1:]))
    print(child, flush=True)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
'''


class ForkedServer:
    """In place of a `subprocess.Popen` of `python -m nyala ...`: what `ServerProcess` needs of it."""

    def __init__(self, command: Sequence[str], *, stdout: Any, **_: object) -> None:
        assert list(command[:3]) == [sys.executable, "-m", "nyala"]
        call = {
            "arguments": command[3:],
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
            "log": str(stdout.name),
        }
        template, self._statuses = _template()
        assert template.stdin is not None and template.stdout is not None
        template.stdin.write(json.dumps(call) + "\n")
        template.stdin.flush()
        self.pid = int(template.stdout.readline())
        self.returncode: int | None = None

    def wait(self) -> int:
        """Returns the exit code of a process that has ended, or is ending."""
        while self.returncode is None:
            try:
                self.returncode = int((self._statuses / str(self.pid)).read_text())
            except FileNotFoundError:
                time.sleep(0.001)
        return self.returncode


def fork_servers() -> None:
    """Clusters of this process have forks as their servers from now on."""
    # As long as there is `fork`, and /proc, which says of a process that it is another's.
    if sys.platform == "linux":
        processes.subprocess = SimpleNamespace(  # type: ignore[attr-defined]
            Popen=ForkedServer, DEVNULL=subprocess.DEVNULL, run=subprocess.run
        )


@cache
def _template() -> tuple[subprocess.Popen[str], Path]:
    """The process that forks, and its folder of exit codes. It ends with this one, at the end of its input."""
    statuses = tempfile.TemporaryDirectory(prefix="nyala-servers-")
    command = [sys.executable, "-c", TEMPLATE, statuses.name]
    template = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    template.statuses = statuses  # type: ignore[attr-defined] - removed with it
    return template, Path(statuses.name)
