"""Connections that are never closed: their stores are released all the same."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.driver.connection import Connection
from nyala.driver.stores.served_directory import reachable
from nyala.storage.files.os_filesystem import OsFileSystem

PROBE = """
import nyala, sys
try:
    nyala.connect(sys.argv[1]).close()
    print("open")
except nyala.Error as error:
    print(type(error).__name__)
"""


def seen_by_others(directory: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", PROBE, str(directory)], capture_output=True, text=True, timeout=60
    ).stdout.strip()


def made(directory: Path) -> Connection:
    connection = nyala.connect(directory)
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
    return connection


def descriptors(part: Path) -> list[str]:
    links = list(Path("/proc/self/fd").iterdir())
    names = [str(link.readlink()) for link in links if link.is_symlink()]
    return [name for name in names if str(part) in name]


def until(holds: Callable[[], bool], seconds: float = 90.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_the_last_reference_releases_the_store(tmp_path: Path) -> None:
    """At once, without the cyclic collector."""
    connection = made(tmp_path / "s")
    with pytest.warns(ResourceWarning, match=rf"a connection to {tmp_path}/s was dropped without close\(\)") as told:
        del connection
    assert told[0].filename == __file__
    assert descriptors(tmp_path) == []
    OsFileSystem().lock(str(tmp_path / "s" / "LOCK")).release()
    assert seen_by_others(tmp_path / "s") == "open"


def test_a_cycle_is_released_by_the_collector(tmp_path: Path) -> None:
    """By another thread: the collector may run where locks are held."""
    cycle: list[Any] = [made(tmp_path / "s")]
    cycle.append(cycle)
    with pytest.warns(ResourceWarning, match="was dropped without close"):
        del cycle
        gc.collect()
    assert until(lambda: descriptors(tmp_path) == [])
    assert until(lambda: "nyala-abandoned" not in {thread.name for thread in threading.enumerate()})


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_garbage_that_is_collected_while_stores_are_opened(tmp_path: Path) -> None:
    """The collector's finalizers come in the middle of `connect`, which holds the lock of all stores."""
    gc.collect()
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for number in range(12):
            cycle: list[Any] = [nyala.connect(tmp_path / f"s{number}")]
            cycle.append(cycle)
            del cycle
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert until(lambda: descriptors(tmp_path) == [])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_many_stores_leave_neither_descriptors_nor_threads(tmp_path: Path) -> None:
    gc.collect()
    threads = threading.active_count()
    for number in range(60):
        connection = nyala.connect(tmp_path / f"s{number}", durability="os")
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("SELECT count(*) FROM t").fetchall()
        del connection
    gc.collect()
    assert until(lambda: descriptors(tmp_path) == [])
    assert threading.active_count() <= threads + 4  # the executor's own pool


@pytest.mark.embedded_only("a store of servers is named in a warning")
def test_a_store_in_memory_ends_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = threading.active_count()
        connection = nyala.connect(":memory:")
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        del connection
        gc.collect()
        assert until(lambda: threading.active_count() <= before + 4)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_thread_that_ends_without_closing(tmp_path: Path) -> None:
    thread = threading.Thread(target=lambda: made(tmp_path / "s").execute("SELECT * FROM t").fetchone())
    thread.start()
    thread.join()
    gc.collect()
    assert until(lambda: descriptors(tmp_path) == [])
    with nyala.connect(tmp_path / "s") as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_other_holders_keep_the_store(tmp_path: Path) -> None:
    """Cursors, tables and other connections keep what they read."""
    connection = made(tmp_path / "s")
    other = nyala.connect(tmp_path / "s")
    cursor, table, scan = connection.execute("SELECT k FROM t"), connection.table("t"), connection.table("t").scan()
    past = connection.at(connection.store.now())
    del connection
    gc.collect()
    assert cursor.fetchall() == [(1,), (2,)] and table.get(1) == {"k": 1} and scan.to_arrow().num_rows == 2
    del cursor, table, scan
    gc.collect()
    assert other.execute("SELECT count(*) FROM t").fetchone() == (2,)
    other.close()
    assert past.execute("SELECT count(*) FROM t").fetchone() == (2,)
    past.close()
    assert descriptors(tmp_path) == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_a_dropped_session_has_gathered_is_written(tmp_path: Path) -> None:
    session = made(tmp_path / "s").new_session("AUTO_FLUSH_BACKGROUND", flush_interval=0.2)
    session.insert("t", {"k": 3})
    del session
    gc.collect()
    assert until(lambda: descriptors(tmp_path) == [])
    with nyala.connect(tmp_path / "s") as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (3,)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_asyncio(tmp_path: Path) -> None:
    async def main() -> None:
        connection = await nyala.aio.connect(tmp_path / "s")
        await connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")

    asyncio.run(main())
    gc.collect()
    assert until(lambda: descriptors(tmp_path) == [])
    assert until(lambda: not any(thread.name.startswith("nyala-aio") for thread in threading.enumerate()))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_served_store(tmp_path: Path) -> None:
    connection = made(tmp_path / "s")
    connection.serve()
    del connection
    gc.collect()
    assert until(lambda: descriptors(tmp_path) == [] and not (tmp_path / "s" / "owner").exists())
    assert seen_by_others(tmp_path / "s") == "open"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_client(tmp_path: Path) -> None:
    url = reachable(tmp_path / "s", create=True)
    before = set(threading.enumerate())  # clients of other tests may still be open

    def clients() -> list[str]:
        started = set(threading.enumerate()) - before
        return [t.name for t in started if t.name.startswith(("nyala-client", "nyala-calls"))]

    client = nyala.connect(url)
    client.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    client.execute("INSERT INTO t VALUES (1)")
    client.execute("SELECT * FROM t").fetchall()
    assert clients()
    with pytest.warns(ResourceWarning, match=f"a connection to {url}.* was dropped without close"):
        del client
        gc.collect()
    assert until(lambda: clients() == []), clients()


def test_a_warning_that_is_an_error_does_not_keep_the_store(tmp_path: Path) -> None:
    target = str(tmp_path / "s")
    script = f"import nyala; c = nyala.connect({target!r}); del c; nyala.connect({target!r}, history_seconds=9).close()"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "ResourceWarning" in done.stderr
