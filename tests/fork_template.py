"""The process that `forked_processes` forks: it imports nyala, and then starts a fork for each request.

It is an interpreter of its own with one thread, and has opened no store, server or channel, so a fork inherits nothing
but modules. Packets on the socket whose descriptor is the first argument are JSON:

    {"start": arguments of nyala, "folder", "environment", "is_session"}    with descriptors 0, 1, 2    {"pid"}
    {"wait": pid}                                                           {"code"}, null while the process runs

An ended fork keeps its process id until its exit code was requested, as the child of any process does. The second
argument is `servers` or `commands`; for `commands` it runs a statement first. The template ends when the socket is
closed.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import threading
import time
from importlib import import_module
from typing import Any

FIRST = "CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1); SELECT k FROM t ORDER BY k"
"""A first statement imports modules, and compiles methods of dataclasses."""
_SERVER = ("nyala.cli.server_command", "nyala.executor.fragments.evaluate", "nyala.sql.settings")
MODULES = {
    "master": _SERVER,
    "tserver": _SERVER,
    "serve": ("nyala.cli.serve_command",),
    "gateway": ("nyala.cli.gateway_command",),
}
"""Imports of commands, by name: the template has them before it forks the first of the kind."""
PACKET_BYTES = 1 << 20


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(requests.fileno(), False)
    nyala = import_module("nyala.__main__")
    if sys.argv[2] == "commands":
        nyala.main(["shell", "-c", FIRST])  # prints where nothing reads
    freeze()
    while True:
        packet, descriptors, _, _ = socket.recv_fds(requests, PACKET_BYTES, 3)
        if not packet:
            return
        request = json.loads(packet)
        if "wait" in request:
            reply = {"code": exit_code(request["wait"])}
        else:
            prepare(request["start"][0])
            assert threading.active_count() == 1, threading.enumerate()
            reply = {"pid": os.fork()}
            if reply["pid"] == 0:
                requests.close()
                become(request, descriptors)
                sys.exit(nyala.main(sys.argv[1:]))
            for descriptor in descriptors:
                os.close(descriptor)
        requests.send(json.dumps(reply).encode())


def prepare(command: str) -> None:
    """Import what a fork that runs this command will import."""
    missing = [module for module in MODULES.get(command, ()) if module not in sys.modules]
    for module in missing:
        import_module(module)
    if missing:
        freeze()


def freeze() -> None:
    """Keep the collector from objects that stay: a collection in a fork would copy their pages."""
    gc.collect()
    gc.freeze()


def exit_code(pid: int) -> int | None:
    """The exit code of an ended fork, as `subprocess` has it; None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Give a fork what a process of its own has: session, folder, environment, standard streams, arguments."""
    if request["is_session"]:
        os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.argv = ["nyala", *request["start"]]


if __name__ == "__main__":
    main()
