"""A PostgreSQL server for benchmarks: what it promises to keep, and that it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from nyala.bench import postgres
from nyala.bench.postgres import PostgresServer, connect, is_installed
from nyala.errors import OperationalError

pytestmark = pytest.mark.slow
needs_server = pytest.mark.skipif(not is_installed(), reason="no PostgreSQL server")


@pytest.fixture(params=[0o711, 0o700], ids=["in everybody's reach", "its owner's alone"])
def home(request):
    """The server runs as another user where this one is root; that user does not reach every directory."""
    with tempfile.TemporaryDirectory(prefix="nyala-test-") as directory:
        Path(directory).chmod(request.param)
        yield Path(directory, "home")


def is_running(pid):
    """Whether a process runs, and has not only ended without its parent's notice."""
    said = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return said.strip() != "" and not said.startswith("Z")


def server_process(server):
    with connect(server.dsn) as connection:
        [[path]] = connection.execute("SHOW data_directory").fetchall()
    return int(Path(path, "postmaster.pid").read_text().split()[0])


def wait_until(condition, seconds=90.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.02)


@needs_server
def test_a_server_keeps_its_data_from_one_run_to_the_next(home):
    pytest.importorskip("psycopg")
    server = PostgresServer(home, "fsync", {"work_mem": "17MB"})
    with server:
        with connect(server.dsn) as connection:
            connection.execute("CREATE TABLE t (a int, b text)")
            connection.execute("INSERT INTO t VALUES (1, 'one')")
            settings = ("fsync", "synchronous_commit", "work_mem", "listen_addresses", "unix_socket_directories")
            found = [connection.execute(f"SHOW {name}").fetchone()[0] for name in settings]
            assert found == ["on", "on", "17MB", "127.0.0.1", ""]
            assert server.version().split()[1] == connection.execute("SHOW server_version").fetchone()[0].split()[0]
        first = server_process(server)
        assert is_running(first)
    assert not is_running(first)
    assert (home / "data" / "PG_VERSION").is_file()
    assert not (home / "data").is_symlink()
    with server, connect(server.dsn) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == [(1, "one")]


@needs_server
def test_commits_of_os_durability_outlive_the_server(tmp_path):
    pytest.importorskip("psycopg")
    with PostgresServer(tmp_path / "home", "os") as server:
        with connect(server.dsn, autocommit=True) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("off",)
            connection.execute("CREATE TABLE t (a int)")
            for number in range(50):
                connection.execute("INSERT INTO t VALUES (%s)", (number,))
            os.kill(server_process(server), signal.SIGKILL)
        server.stop()
        wait_until(lambda: started(server))
        with connect(server.dsn) as connection:
            assert connection.execute("SELECT count(*), max(a) FROM t").fetchone() == (50, 49)


def started(server):
    """Whether the server starts: the processes of the one that was killed may hold its memory for a moment."""
    try:
        server.start()
    except OperationalError:
        return False
    return True


@needs_server
def test_the_password_keeps_others_out(tmp_path):
    psycopg = pytest.importorskip("psycopg")
    with PostgresServer(tmp_path / "home", "os") as server:
        wrong = " ".join("password=wrong" if part.startswith("password=") else part for part in server.dsn.split())
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            connect(wrong)


HARNESS = """
import sys, time
from pathlib import Path
from nyala.bench.postgres import PostgresServer
server = PostgresServer(Path(sys.argv[1]), "os")
server.start()
print(server.dsn, flush=True)
time.sleep(600)
"""


@needs_server
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_the_server_ends_with_its_harness(end, tmp_path):
    pytest.importorskip("psycopg")
    home = tmp_path / "home"
    command = [sys.executable, "-c", HARNESS, str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as harness:
        dsn = harness.stdout.readline().strip()
        data = (home / "data").resolve()
        with connect(dsn) as connection:
            [[backend]] = connection.execute("SELECT pg_backend_pid()").fetchall()
            server = int((data / "postmaster.pid").read_text().split()[0])
        harness.send_signal(end)
        harness.wait(60)
    wait_until(lambda: not is_running(server) and not is_running(backend))
    wait_until(lambda: data.parent in (home, home.resolve()) or not data.parent.exists())


@needs_server
def test_a_server_that_does_not_start_says_why(tmp_path):
    server = PostgresServer(tmp_path / "home", "os", {"shared_buffers": "many"})
    with pytest.raises(OperationalError, match=r'(?s)ended as it started.*"shared_buffers": "many"'):
        server.start()
    server.stop()


def test_a_machine_without_a_server_gets_advice(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "_INSTALLED", tmp_path)
    assert not is_installed()
    with pytest.raises(OperationalError, match="apt-get install postgresql"):
        PostgresServer(tmp_path / "home", "fsync").start()


def test_the_newest_server_is_taken(monkeypatch, tmp_path):
    for version in ("9", "15", "13"):
        programs = tmp_path / version / "bin"
        programs.mkdir(parents=True)
        for program in ("initdb", "postgres", "pg_ctl"):
            (programs / program).write_text("")
            (programs / program).chmod(0o755)
    (tmp_path / "17" / "bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "_INSTALLED", tmp_path)
    assert postgres.binaries() == tmp_path / "15" / "bin"
