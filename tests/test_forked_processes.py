"""Forks of the template behave as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from fork_support import in_child
from forked_command import nyala
from forked_processes import CAN_FORK, Fork
from nyala.cluster.admin.processes import ServerProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CAN_FORK, reason="Linux alone waits for descriptors of processes"),
]


def serve(directory: Path) -> tuple[Fork, str]:
    """A process that runs until it is ended, and its URL."""
    read, write = os.pipe()
    with Path(os.devnull).open("r+b") as nothing, os.fdopen(read) as printed:
        process = Fork(["serve", directory], [nothing.fileno(), write, nothing.fileno()])
        os.close(write)
        return process, printed.readline().strip()


def test_exit_code_output_folder_and_environment_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "40")
    done = nyala("shell", "db", stdin="SELECT 1 AS a;\n")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert (tmp_path / "db").is_dir()
    assert nyala("shell", "-c", "SELECT no_such").returncode == 1
    assert nyala("shel").returncode == 2
    helps = {nyala("shell", "--help").stdout}
    monkeypatch.setenv("COLUMNS", "120")
    helps.add(nyala("shell", "--help").stdout)
    assert len(helps) == 2


def test_a_killed_process_keeps_its_id_until_it_is_waited_for(tmp_path: Path) -> None:
    process, url = serve(tmp_path / "db")
    assert url.startswith("nyala://")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert Path(f"/proc/{process.pid}").exists()
    assert process.wait(60) == -signal.SIGKILL
    assert not Path(f"/proc/{process.pid}").exists()
    process.kill()  # no other process that has the id by now
    assert process.wait() == -signal.SIGKILL


def test_threads_start_and_end_processes_at_the_same_time(tmp_path: Path) -> None:
    ended: list[tuple[int, bool]] = []

    def run(number: int) -> None:
        process, url = serve(tmp_path / str(number))
        process.send_signal(signal.SIGTERM)
        ended.append((process.wait(60), url.startswith("nyala://")))

    threads = [threading.Thread(target=run, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [(0, True)] * 4


def test_a_forked_child_of_this_process_leaves_the_template_alone() -> None:
    """Its exit functions, which are copies of this process's, close nothing that this one uses."""
    assert nyala("shell", "-c", "SELECT 1").returncode == 0
    assert in_child(lambda: nyala("shell", "-c", "SELECT 1").returncode, exits=True) == 0
    assert nyala("shell", "-c", "SELECT 1").returncode == 0


def test_servers_of_clusters_are_forks_with_sessions_of_their_own(tmp_path: Path) -> None:
    server = ServerProcess(
        "master-1", tmp_path / "m", ["master", "--dir", str(tmp_path / "m"), "--bind", "127.0.0.1:0"]
    )
    server.start()
    try:
        assert isinstance(server._child, Fork)
        server.wait_ready()
        assert os.getsid(server._child.pid) == server._child.pid
        assert "nyala" in server.log_file.read_text()
        assert server.stop()
    finally:
        server.kill()
    server.start()
    server.kill()
    assert server.pid is None and server._child is not None and server._child.returncode == -signal.SIGKILL


def test_what_an_interpreter_reads_when_it_starts_starts_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    server = ServerProcess("master-1", tmp_path / "m", ["master", "--help"])
    server.start()
    assert isinstance(server._child, subprocess.Popen)
    assert server.wait_ended(60)
    assert server._child.returncode == 0 and "--address-file" in server.log_file.read_text()
