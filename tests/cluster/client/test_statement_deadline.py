"""A statement has one deadline for all of its requests: its total wait for unresponsive servers is limited."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from cluster_support_client import FakeCluster
from nyala import errors
from nyala.cluster.client.client import Client
from nyala.cluster.client.retry import Attempts
from nyala.cluster.wire.messages import methods
from nyala.driver.connection import Connection
from nyala.driver.session.session import Session
from nyala.driver.stores.open_stores import SharedStore
from nyala.model.waiting_time import WaitingTime, as_statement, carried, current_waiting, within

DEADLINE = 0.8
STALL = 0.5
"""A single request passes within it."""


class Stall:
    """Refuses the first attempts of each request of another kind, or about another tablet, for a while."""

    def __init__(self) -> None:
        self._first: dict[Any, float] = {}
        self._lock = threading.Lock()

    def __call__(self, address: str, request: Any, when: str) -> None:
        about = getattr(request, "tablet_id", None) or getattr(request, "ticket", request)
        key = type(request), getattr(about, "tablet_id", about if isinstance(about, str) else ""), str(request)[:0]
        if isinstance(request, methods.Write):
            key = (*key, request.check_only)
        with self._lock:
            first = self._first.setdefault(key, time.monotonic())
        if when == "before" and time.monotonic() - first < STALL:
            raise errors.ServerOverloaded(f"{address} has no room")


def connected(client: Client) -> Connection:
    client.runs_fragments = True  # the setting of a session over servers, though these evaluate none
    session = Session(client, threads=2)
    client.runs_fragments = False
    return Connection(SharedStore(client, None, {}), session)


@pytest.fixture
def connection(cluster: FakeCluster, make_client: Callable[..., Client]) -> Any:
    with connected(make_client()) as patient:
        patient.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT) PARTITION BY HASH (k) PARTITIONS 3")
        patient.execute("CREATE TABLE u (k INT PRIMARY KEY, v INT)")
        patient.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)")
        patient.execute("INSERT INTO u VALUES (1, 1)")
    found = connected(make_client(deadline=DEADLINE))
    yield found
    cluster.faults.clear()
    found.close()


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (11, 1), (12, 2), (13, 3), (14, 4), (15, 5)",
        "UPDATE t SET v = v + 1 WHERE v > 2",
        "DELETE FROM t WHERE v > 2",
        "INSERT INTO u SELECT k + 10, v FROM t",
        "SELECT * FROM u WHERE v IN (SELECT v FROM t)",
        "SELECT count(*) FROM t, u WHERE t.v = u.v",
        "CREATE TABLE w PRIMARY KEY (k) AS SELECT * FROM t",
        "SHOW STATS t; ALTER TABLE t ADD COLUMN w INT; SELECT w FROM t, u WHERE t.v = u.v",
    ],
)
def test_all_requests_of_a_statement_share_its_deadline(
    statement: str, connection: Connection, cluster: FakeCluster
) -> None:
    cluster.faults.append(Stall())
    # Each of its requests alone would be done before its end.
    with pytest.raises((errors.DeadlineExceeded, errors.PartlyWritten), match=r"waits for servers in all|within"):
        connection.execute(statement).fetchall()
    cluster.faults.clear()
    assert connection.execute("SELECT count(*) FROM u").fetchone() == (1,)


def test_servers_that_work_do_not_use_up_the_deadline(connection: Connection, cluster: FakeCluster) -> None:
    def slow(address: str, request: Any, when: str) -> None:
        if when == "before" and isinstance(request, methods.Write | methods.StartScan):
            time.sleep(0.3)

    cluster.faults.append(slow)
    began = time.monotonic()
    for _ in range(2):
        connection.execute("INSERT INTO u SELECT max(u.k) + 1, max(t.v) FROM t, u")
    assert time.monotonic() - began > DEADLINE


def test_a_statement_that_runs_again_has_the_same_deadline(
    connection: Connection, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in cluster.addresses:
        cluster.kill(address, elect=False)
    counted = []
    count = WaitingTime.add

    def add(waiting: WaitingTime, began: float, ended: float) -> None:
        counted.append(waiting)
        count(waiting, began, ended)

    monkeypatch.setattr(WaitingTime, "add", add)
    with pytest.raises(errors.DeadlineExceeded):
        connection.execute("SELECT * FROM t").fetchall()
    assert len(counted) > 3 and len(set(map(id, counted))) == 1


def test_a_look_at_the_masters_that_another_thread_waits_for(
    make_client: Callable[..., Client], cluster: FakeCluster
) -> None:
    client = make_client(deadline=0.4)
    release = threading.Event()

    def stuck(address: str, request: Any, when: str) -> None:
        if isinstance(request, methods.GetCatalog):
            release.wait(90.0)

    cluster.faults.append(stuck)
    other = threading.Thread(target=client.refresh_catalog)
    other.start()
    time.sleep(0.1)
    try:
        with pytest.raises(errors.DeadlineExceeded):
            client.table("nothing")
        assert other.is_alive()
    finally:
        release.set()
        other.join()


def test_waiting_at_the_same_time_counts_once() -> None:
    waiting = WaitingTime()
    for began, ended in [(3.0, 4.0), (1.0, 2.0), (1.5, 3.5), (6.0, 7.0)]:
        waiting.add(began, ended)
    assert waiting.seconds == 4.0
    with within(waiting), as_statement():
        assert current_waiting() is waiting
        assert carried(current_waiting)() is waiting
    with as_statement():
        assert current_waiting() not in (None, waiting)
    assert current_waiting() is None


def test_an_answer_does_not_count() -> None:
    waiting = WaitingTime()
    first = Attempts("a look", 3600.0, waiting=waiting, limit=10.0)
    first.timeout()
    time.sleep(0.02)
    assert (waiting.seconds, first.remaining) == (0.0, 10.0)
    first.failed(errors.ServerOverloaded("no"))
    assert waiting.seconds >= 0.02
    waiting.add(0.0, 10.0)
    with pytest.raises(
        errors.DeadlineExceeded, match="within the 10 seconds that its statement waits for servers in all"
    ):
        Attempts("a look", 3600.0, waiting=waiting, limit=10.0).pause()
    with nullcontext():
        assert Attempts("a look", 5.0, waiting=waiting, limit=10.0).remaining < 0
