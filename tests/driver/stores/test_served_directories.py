"""Reaching a store from other processes: exactly one process owns it, and all others connect to that one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nyala
import pytest
from embedded_server_support import ServeProcess
from fork_support import in_child, raised_by
from nyala import errors
from nyala.cluster.client.client import Client
from nyala.cluster.embedded_server.server_record import find_server
from nyala.driver.stores import keep_alive
from nyala.driver.stores.served_directory import reachable
from nyala.storage.database import Database

pytestmark = pytest.mark.slow

HOLDER = """
import sys
import nyala
with nyala.connect(sys.argv[1]) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS t (k INT PRIMARY KEY)")
    print(connection.serve() if sys.argv[2] == "serve" else "", flush=True)
    sys.stdin.readline()
"""


class Holder:
    """Another process that has a directory open."""

    def __init__(self, directory: Path, how: str) -> None:
        command = [sys.executable, "-c", HOLDER, str(directory), how]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def __enter__(self) -> Holder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.communicate("\n")
        assert self.process.returncode == 0


@pytest.fixture
def made(tmp_path):
    """A directory with a store; servers that were started for it are ended."""
    directory = tmp_path / "store"
    with nyala.connect(directory) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1), (2)")
    yield directory
    found = find_server(str(directory))
    if found is not None:
        assert found.pid != os.getpid()
        os.kill(found.pid, signal.SIGTERM)
        while find_server(str(directory)) is not None:
            time.sleep(0.02)


def keys(connection: nyala.Connection) -> list[int]:
    return [k for (k,) in connection.execute("SELECT k FROM t ORDER BY k").fetchall()]


def test_a_cluster_is_reached_where_it_is_and_memory_is_not():
    assert reachable("nyala://one,two:7052/") == "nyala://one,two:7052/"
    for target, reason in ((":memory:", "Connection.serve"), ("nyala://one:x", "not a server"), ("http://x", "http")):
        with pytest.raises(errors.InterfaceError, match=reason):
            reachable(target)


def test_a_directory_that_this_process_has_open_is_served_until_it_is_closed(made):
    with nyala.connect(made) as connection:
        url = connection.serve()
        assert url == connection.serve() == reachable(made) == reachable(f"{made}/../store")
        with nyala.connect(url) as other, connection.at(connection.store.now()) as past:
            assert isinstance(other.store, Client) and isinstance(connection.store, Database)
            other.execute("INSERT INTO t VALUES (3)")
            assert keys(connection) == keys(other) == [1, 2, 3] and keys(past) == [1, 2]
            assert other.serve() == url
            connection.close()
            assert find_server(str(made)) is not None, "another connection has it still"
    assert find_server(str(made)) is None and not (made / "owner").exists()


def test_a_store_in_memory_is_served_too(connection):
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    with nyala.connect(connection.serve()) as other:
        other.execute("INSERT INTO t VALUES (1)")
    assert keys(connection) == [1]


def test_a_second_process_reaches_what_the_first_one_serves(made):
    with Holder(made, "serve") as holder:
        assert reachable(made) == holder.url
        with nyala.connect(made, threads=2, durability="fsync") as connection:
            assert isinstance(connection.store, Client) and connection.serve() == holder.url == reachable(made)
            connection.execute("INSERT INTO t VALUES (9)")
            with nyala.connect(made) as another:
                assert another.store is connection.store and keys(another) == [1, 2, 9]
        for option in ({"durability": "os"}, {"history_seconds": 5}, {"store_memory": "1GB"}):
            with pytest.raises(errors.InterfaceError, match="served by another process"):
                nyala.connect(made, **option)
    with nyala.connect(made) as connection:
        assert isinstance(connection.store, Database) and keys(connection) == [1, 2, 9]


def test_a_directory_that_another_process_has_for_itself_is_an_error_that_helps(made):
    with Holder(made, "keep") as holder:
        for reach in (nyala.connect, reachable):
            with pytest.raises(
                errors.StoreLocked, match=rf"process {holder.process.pid}; .*does not serve it: close it"
            ):
                reach(made)


def test_a_directory_that_nobody_has_gets_an_owner(made):
    url = reachable(made, idle_exit=10.0)
    found = find_server(str(made))
    assert found is not None and found.url == url and found.pid != os.getpid()
    with nyala.connect(made) as connection:
        assert isinstance(connection.store, Client) and keys(connection) == [1, 2]
        # No client calls, but this process relies on it: it stays.
        time.sleep(12.0)
        assert reachable(made) == url and keys(connection) == [1, 2]
    os.kill(found.pid, signal.SIGKILL)
    other = reachable(made)
    assert other != url and find_server(str(made)).pid != found.pid


def test_an_owner_ends_when_those_who_need_it_have(made):
    script = (
        f"from nyala.driver.stores.served_directory import reachable; print(reachable({str(made)!r}, idle_exit=5.0))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = find_server(str(made))
    assert found is not None and done.stdout.strip() == found.url
    deadline = time.monotonic() + 90
    while (made / "owner").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with nyala.connect(made) as connection:
        assert isinstance(connection.store, Database)


def test_all_who_start_an_owner_at_once_get_the_same(made):
    """Threads, and processes."""
    script = f"from nyala.driver.stores.served_directory import reachable; print(reachable({str(made)!r}))"
    others = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        urls = set(pool.map(lambda _: reachable(made), range(2)))
    for other in others:
        urls.add(other.communicate()[0].strip())
        assert other.returncode == 0
    assert len(urls) == 1


def test_one_who_connects_while_the_owner_is_closing_waits_for_it(made):
    with ServeProcess(made) as owner:
        owner.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 90  # a statement that finds no server times out after 30 s
        while True:
            try:
                with nyala.connect(made) as connection:
                    if keys(connection) == [1, 2] and isinstance(connection.store, Database):
                        break
            except errors.ClusterError:
                # It replied to the probe, but not to the call.
                assert time.monotonic() < end
        owner.process.wait()


def test_where_there_is_no_store_one_is_made_only_if_asked_for(tmp_path):
    for directory, reason in ((tmp_path / "new", "no such directory"), (tmp_path, "no nyala store in it")):
        with pytest.raises(errors.OperationalError, match=reason):
            reachable(directory)
    assert not list(tmp_path.iterdir())
    directory = tmp_path / "new"
    url = reachable(directory, create=True)
    with nyala.connect(url) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    os.kill(find_server(str(directory)).pid, signal.SIGKILL)


def test_a_store_that_cannot_be_opened_says_so(made):
    (made / "FORMAT").write_text("nyala store, format 99\n")
    with pytest.raises(errors.OperationalError, match=r"cannot be served: .*format 99"):
        reachable(made)


def test_a_copy_of_a_directory_is_not_served(made, tmp_path):
    with ServeProcess(made) as owner:
        copy = tmp_path / "copy"
        shutil.copytree(made, copy)
        assert (copy / "owner").exists() and find_server(str(copy)) is None
        with nyala.connect(copy) as connection, nyala.connect(made) as original:
            connection.execute("INSERT INTO t VALUES (3)")
            assert keys(connection) == [1, 2, 3] and keys(original) == [1, 2]
            assert original.serve() == owner.url


def test_a_damaged_or_stale_file_is_nobody(made):
    for content in ("", "{", '{"address": 5}', '{"address": "127.0.0.1:1", "id": "x", "pid": 1, "place": "0:0"}'):
        (made / "owner").write_text(content)
        assert find_server(str(made)) is None
        with nyala.connect(made) as connection:
            assert isinstance(connection.store, Database)


def test_a_forked_child_leaves_its_parents_server_alone(made):
    with nyala.connect(made) as connection:
        url = connection.serve()
        server = connection._shared.server
        calls = [lambda: server.close(), lambda: server.forget(), lambda: nyala.connect(url)]
        told = in_child(lambda: [raised_by(call) for call in calls], exits=True)
        assert [text.partition(":")[0] for text in told] == ["InterfaceError"] * 3
        assert find_server(str(made)) is not None
        with nyala.connect(url) as other:
            assert keys(other) == [1, 2]


def test_what_is_kept_is_told_to_the_keeper_alone(made):
    reachable(made, idle_exit=30.0)
    found = find_server(str(made))
    assert found is not None and found.id in keep_alive._keeper._servers
