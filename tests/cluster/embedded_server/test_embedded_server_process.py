"""`nyala serve` as a process: killed under writes, stopped, idle."""

from __future__ import annotations

import signal
import threading
import time

import nyala
import pytest
from embedded_server_support import ServeProcess
from nyala import errors
from nyala.cluster.embedded_server.server_record import find_server
from nyala.storage.database import Database

pytestmark = pytest.mark.slow

ROWS = 6
"""Of one statement."""


def test_no_row_that_was_acknowledged_is_lost_when_an_owner_is_killed(tmp_path):
    directory = tmp_path / "store"
    acknowledged: list[list[int]] = [[] for _ in range(3)]
    failures: list[BaseException] = []
    with ServeProcess(directory) as server:
        with nyala.connect(server.url) as connection:
            connection.execute("CREATE TABLE t (k INT PRIMARY KEY) PARTITION BY HASH (k) INTO 2 BUCKETS")

        def write(writer: int) -> None:
            try:
                with nyala.connect(server.url, deadline=10.0) as connection:
                    for number in range(1_000_000):
                        # Over both tablets nearly always, and one statement: all of it is visible, or nothing.
                        first = (number * 3 + writer) * ROWS
                        keys = list(range(first, first + ROWS))
                        connection.execute(f"INSERT INTO t VALUES {', '.join(f'({key})' for key in keys)}")
                        acknowledged[writer] += keys
            except errors.Error as error:
                failures.append(error)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
        for thread in threads:
            thread.start()
        while min(map(len, acknowledged)) < 40 and not failures:
            time.sleep(0.01)
        server.kill()
        for thread in threads:
            thread.join()
    assert [type(error) for error in failures] == [errors.DeadlineExceeded] * 3
    assert all("cannot be reached" in str(error) or "ServerUnavailable" in str(error) for error in failures)
    assert find_server(str(directory)) is None, "what the killed one has left says nothing"
    with nyala.connect(directory) as connection:
        found = {k for (k,) in connection.execute("SELECT k FROM t").fetchall()}
    wanted = {key for keys in acknowledged for key in keys}
    assert wanted <= found and len(found - wanted) <= 3 * ROWS, "and at most what each had under way besides"
    torn = [first for first in {key - key % ROWS for key in found} if not found.issuperset(range(first, first + ROWS))]
    assert not torn, "a statement is there as a whole"


def test_an_owner_that_is_told_to_stop_closes_the_store(tmp_path):
    directory = tmp_path / "store"
    with ServeProcess(directory) as server:
        found = find_server(str(directory))
        assert found is not None and found.url == server.url and found.pid == server.process.pid
        with nyala.connect(server.url) as connection:
            connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
            with pytest.raises(errors.StoreLocked):
                Database(directory)
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait() == 0
    assert not (directory / "owner").exists()
    with Database(directory) as database:
        assert [table.name for table in database.tables()] == ["t"]


def test_an_owner_ends_when_nobody_calls_and_stays_while_somebody_does(tmp_path):
    directory = tmp_path / "store"
    with ServeProcess(directory, "--idle-exit", "4") as server, nyala.connect(server.url) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        began = time.monotonic()
        while time.monotonic() - began < 6.0:
            connection.execute("UPSERT INTO t VALUES (1)")
            time.sleep(0.1)
        assert server.process.poll() is None
        assert server.process.wait() == 0
    assert not (directory / "owner").exists()


def test_a_wrong_option_or_directory_is_an_error(tmp_path):
    (tmp_path / "stranger").write_text("x")
    with ServeProcess(tmp_path) as server:
        assert server.process.wait() == 1 and not server.url
    assert {path.name for path in tmp_path.iterdir()} <= {"stranger", "LOCK"}
    with ServeProcess(tmp_path / "new", "--idle-exit", "0") as server:
        assert server.process.wait() == 1 and not (tmp_path / "new").exists()
