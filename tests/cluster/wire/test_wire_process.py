"""A server's process: its address file, its log, its end. Injected faults of its files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nyala.cluster.wire.faults import Faults, FaultyFileSystem
from nyala.cluster.wire.messages.methods import SetFaults
from nyala.cluster.wire.process.server_process import FAILED_STATUS
from nyala.errors import DiskError
from nyala.storage.files.filesystem import FileSystem
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.files.os_filesystem import OsFileSystem

PATIENCE = 90.0

_SERVER = """
import logging, os, signal, sys, threading, time
from nyala import errors
from nyala.cluster.wire.messages.methods import Done, KeepAlive
from nyala.cluster.wire.process.server_process import run_server
from nyala.cluster.wire.server import RpcServer
from nyala.model.clock import HybridClock

mode = sys.argv[2]

class Server:
    def __init__(self):
        if mode == "refuses":
            raise errors.StoreLocked("process 1 has it")
        self.rpc = RpcServer("127.0.0.1:0", HybridClock(), handlers={KeepAlive: lambda request, context: Done()})
        self.address = self.rpc.address
    def start(self):
        self.rpc.start()
        logging.getLogger("nyala.test").warning("a disk is %s", "slow", extra={"fields": {"path": "/x", "seconds": 2}})
        if mode == "thread":
            threading.Thread(target=lambda: 1 / 0).start()
        if mode == "own thread":
            threading.Timer(0.2, lambda: threading.Thread(target=lambda: 1 / 0, name="nyala-heart").start()).start()
        if mode == "signalled in wait":
            threading.Event.wait = wait_and_be_signalled
    def drain(self):
        print("drained", flush=True)
        if mode.startswith("hangs"):
            time.sleep(100)
        self.rpc.drain()
    def stop(self):
        self.rpc.stop()
        print("stopped", flush=True)

wait = threading.Event.wait

def wait_and_be_signalled(event, timeout=None):
    threading.Event.wait = wait
    with event._cond:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)
    return wait(event, timeout)

sys.exit(run_server(Server, name="server-1", address_file=sys.argv[1], grace=0.5 if mode == "hangs" else 20.0))
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def run(mode: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _SERVER, str(tmp_path / "address"), mode]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def address_of(directory: Path) -> str:
    end = time.monotonic() + PATIENCE
    while not (directory / "address").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    return (directory / "address").read_text().strip()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, list[dict[str, Any]]]:
    """Returns exit status, output, and the lines of the log."""
    out, log = process.communicate(timeout=PATIENCE)
    return process.returncode, out, [json.loads(line) for line in log.splitlines()]


@pytest.mark.parametrize("signalled", [signal.SIGTERM, signal.SIGINT])
def test_a_server_ends_well(start: Any, tmp_path: Path, signalled: signal.Signals) -> None:
    process = start("well")
    host, _, port = address_of(tmp_path).rpartition(":")
    assert host == "127.0.0.1" and int(port)
    process.send_signal(signalled)
    status, out, log = ended(process)
    assert (status, out) == (0, "drained\nstopped\n")
    assert [line["event"] for line in log] == ["a disk is slow", "ready", "draining", "stopped"]
    first = log[0]
    assert (first["level"], first["server"], first["logger"]) == ("WARNING", "server-1", "nyala.test")
    assert first["fields"] == {"path": "/x", "seconds": 2}
    assert first["time"].endswith("+00:00")
    assert log[1]["fields"]["address"] == f"{host}:{port}"


def test_sigusr1_shows_the_stacks_of_all_threads(start: Any, tmp_path: Path) -> None:
    process = start("well")
    address_of(tmp_path)
    process.send_signal(signal.SIGUSR1)
    stacks = []
    while not stacks or "in <module>" not in stacks[-1]:  # the main thread is the last
        stacks.append(process.stderr.readline())
    text = "".join(stacks)
    assert "Thread 0x" in text and "in run_server" in text and "in watch" in text
    process.send_signal(signal.SIGTERM)
    assert ended(process)[:2] == (0, "drained\nstopped\n")


def test_a_signal_may_come_just_as_the_main_thread_goes_to_wait(start: Any) -> None:
    status, out, _ = ended(start("signalled in wait"))
    assert (status, out) == (0, "drained\nstopped\n")


def test_a_second_signal_ends_a_server_at_once(start: Any, tmp_path: Path) -> None:
    process = start("hangs long")
    address_of(tmp_path)
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "drained\n"
    process.send_signal(signal.SIGINT)
    status, out, log = ended(process)
    assert (status, out) == (3, "")
    assert "a second signal" in log[-1]["event"]


def test_a_server_that_cannot_start_says_why(start: Any) -> None:
    status, _, log = ended(start("refuses"))
    assert status == 1
    assert log[0]["event"] == "the server cannot start: process 1 has it"
    assert log[0]["fields"] == {"class": "StoreLocked"}


def test_a_server_that_hangs_is_ended(start: Any, tmp_path: Path) -> None:
    process = start("hangs")
    address_of(tmp_path)
    process.send_signal(signal.SIGTERM)
    status, out, log = ended(process)
    assert (status, out) == (3, "drained\n")
    assert "ends at once" in log[-1]["event"]


def test_errors_of_threads_are_logged_in_a_line(start: Any, tmp_path: Path) -> None:
    process = start("thread")
    address_of(tmp_path)
    process.send_signal(signal.SIGTERM)
    status, _, log = ended(process)
    assert status == 0
    assert any("ZeroDivisionError" in line.get("error", "") for line in log)


# ---- files ----------------------------------------------------------------------------------------------------------


def test_operations_on_a_broken_path_fail() -> None:
    faults = Faults()
    files: FileSystem = FaultyFileSystem(MemoryFileSystem(), faults)
    files.make_directory("good")
    files.make_directory("bad")
    for directory in ("good", "bad"):
        file = files.create(f"{directory}/x")
        file.write(b"abc")
        file.sync()
        file.close()
    reading, writing = files.open("bad/x"), files.append("bad/x")
    faults.set(SetFaults(broken_path="bad"))
    attempts: list[Callable[[], Any]] = [
        lambda: files.create("bad/y"),
        lambda: files.append("bad/x"),
        lambda: files.open("bad/x"),
        lambda: files.exists("bad/x"),
        lambda: files.list("bad"),
        lambda: files.make_directory("bad/z"),
        lambda: files.rename("good/x", "bad/w"),
        lambda: files.rename("bad/x", "good/w"),
        lambda: files.remove("bad/x"),
        lambda: files.remove_tree("bad"),
        lambda: files.truncate("bad/x", 0),
        lambda: files.sync_directory("bad"),
        lambda: files.lock("bad/LOCK"),
        lambda: reading.read_at(0, 1),
        lambda: writing.write(b"d"),
        writing.sync,
    ]
    for attempt in attempts:
        with pytest.raises(DiskError, match="bad"):
            attempt()
    assert files.open("good/x").read_at(0, 9) == b"abc"
    faults.clear()
    assert files.open("bad/x").read_at(0, 9) == b"abc"


def test_syncs_take_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    faults = Faults()
    files = FaultyFileSystem(OsFileSystem(), faults)
    faults.set(SetFaults(disk_delay=0.5))
    file = files.create(str(tmp_path / "x"))
    file.write(b"abc")
    assert slept == []
    file.sync()
    file.close()
    files.sync_directory(str(tmp_path))
    assert slept == [0.5, 0.5]


def test_a_dead_thread_of_the_server_ends_the_process(start: Callable[[str], subprocess.Popen[str]]) -> None:
    process = start("own thread")
    _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == FAILED_STATUS
    line = json.loads(log.splitlines()[-1])
    assert line["event"] == "an error in the thread nyala-heart: the process ends at once"
    assert (line["level"], "ZeroDivisionError" in line["error"]) == ("CRITICAL", True)
