"""Real processes under continuous writes: killed, paused, partitioned, down for long. No acknowledged write is lost,
none happens twice, no session reads backwards, and replicas end equal.

The tests share a cluster.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import nyala
import pyarrow as pa
import pytest
from cluster_workload import PAUSE_SECONDS, Workload, alias, check_chain, check_replicas
from histories import History, Operation
from nyala.cluster.wire.messages.methods import WorkOnTablet
from nyala.errors import OperationalError
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow

RESUME_SECONDS = 5.0
"""The product's guarantee: seconds after a leader's death until its tablet accepts writes again."""
UNSEEN_SECONDS = 2.5
"""Above the time after which a follower without messages campaigns."""
WIDE_BYTES, WIDE_ROWS = 32 << 10, 20 * 128
"""80 MiB: a leader keeps 64 MiB of its log for peers that lack them, by whole segments of 8 MiB."""


@pytest.fixture(scope="module")
def shared() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=3, options={"durability": "os"}) as cluster:
        yield cluster


@pytest.fixture
def one_tablet(cluster: MiniCluster) -> Iterator[Workload]:
    yield from Workload(cluster.url, tablets=1).under_test(cluster)


def test_a_leader_is_killed_then_a_follower(cluster: MiniCluster, workload: Workload) -> None:
    leader = cluster.leader("chain")
    cluster.kill(leader)
    workload.wait_writes(60)
    cluster.start(leader)
    workload.wait_writes(30)
    follower = cluster.followers("chain", 1)[0]
    cluster.kill(follower)
    workload.wait_writes(60)
    cluster.start(follower)
    workload.wait_writes(30)
    check_replicas(cluster)
    tablets = {location.tablet_id for location in cluster.locations("chain")}
    assert not tablets & (copied(cluster, leader) | copied(cluster, follower)), "the log had what they missed"


def test_writes_resume_within_five_seconds_of_a_leaders_death(cluster: MiniCluster, one_tablet: Workload) -> None:
    """No other test asserts a duration, since that depends on the machine as well. This one is a guarantee of the
    product, and a change that doubled the time would show nowhere else. A busy machine may spoil a measurement, hardly
    three in a row: the best of up to three deaths counts."""
    measured = []
    for _ in range(3):
        leader = cluster.leader("chain")
        measured.append(one_tablet.seconds_without_writes(partial(cluster.kill, leader)))
        cluster.start(leader)
        if measured[-1] <= RESUME_SECONDS:
            return
        one_tablet.wait_writes(30)
    pytest.fail(f"writes resumed {', '.join(f'{seconds:.1f}' for seconds in measured)} s after a leader's death")


def test_a_server_stands_still_for_ten_seconds(cluster: MiniCluster, workload: Workload) -> None:
    leader = cluster.leader("chain")
    ends = time.monotonic() + 10
    cluster.pause(leader)
    workload.wait_writes(60)
    time.sleep(max(0.0, ends - time.monotonic()))
    cluster.resume(leader)
    workload.wait_writes(60)


def test_a_server_is_cut_off(cluster: MiniCluster, workload: Workload) -> None:
    leader = cluster.leader("chain", 2)
    cluster.cut(leader)
    workload.wait_writes(60)
    cluster.heal()
    workload.wait_writes(60)


def test_two_servers_do_not_hear_each_other(cluster: MiniCluster, workload: Workload) -> None:
    leader = cluster.leader("chain")
    cluster.cut(leader, cluster.followers("chain")[0])
    time.sleep(UNSEEN_SECONDS)
    workload.wait_writes(100)
    cluster.heal()
    workload.wait_writes(60)


def test_a_chain_holds_at_past_moments_though_all_servers_are_killed(cluster: MiniCluster, workload: Workload) -> None:
    moments = []
    with nyala.connect(cluster.url) as connection:
        for _ in range(3):
            workload.wait_writes(80)
            (count,) = connection.execute("SELECT count(*) FROM chain").fetchone()
            moments.append((connection.store.now(), count))
        # The writers do not stop: each has a row in progress, with an unknown outcome.
        for name in cluster.local.addresses:
            cluster.kill(name)
        cluster.local.start()
        workload.wait_writes(30)
        for moment, count in moments:
            with connection.at(moment) as past:
                rows = past.execute("SELECT id, before FROM chain").fetchall()
            assert len(rows) >= count
            check_chain(rows)


# ---- a server that was away for long -------------------------------------------------------------------------------


def test_a_server_that_the_log_does_not_reach_back_to_is_copied(cluster: MiniCluster) -> None:
    with nyala.connect(cluster.url) as connection:
        connection.execute("CREATE TABLE wide (id BIGINT PRIMARY KEY, v BINARY) REPLICAS 3")
        connection.execute("INSERT INTO wide VALUES (-1, NULL)")
        (location,) = cluster.locations("wide")
        away = cluster.followers("wide")[0]
        others = [name for name in cluster.tservers if name != away]
        cluster.kill(away)
        began = {name: oldest_segment(cluster, name, location.tablet_id) for name in others}
        for start in range(0, WIDE_ROWS, 128):
            ids = range(start, start + 128)
            noise = [os.urandom(WIDE_BYTES) for _ in ids]  # incompressible
            connection.table("wide").upsert(pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(noise)}))
        for name in others:
            cluster.call(name, WorkOnTablet(tablet_id=location.tablet_id, work="flush"), 60.0)

        def is_collected() -> bool:
            return all(oldest_segment(cluster, name, location.tablet_id) > began[name] for name in others)

        cluster.wait_until(is_collected, "what it lacks is gone from the others' logs")
        cluster.start(away)
        cluster.wait_until(lambda: location.tablet_id in copied(cluster, away), f"{away} has copied the replica")
        assert connection.execute("SELECT count(*) FROM wide").fetchone() == (WIDE_ROWS + 1,)
        check_replicas(cluster)


def oldest_segment(cluster: MiniCluster, name: str, tablet_id: str) -> str:
    """Returns the name of the first file of a replica's log: it begins with an index."""
    return min(path.name for path in (cluster.directory / name / "tablets" / tablet_id / "wal").iterdir())


def copied(cluster: MiniCluster, name: str) -> set[str]:
    """Returns all tablets that a server's log lists as copied from another one."""
    lines = cluster.local.process(name).log_file.read_text().splitlines()
    return {json.loads(line)["fields"]["tablet"] for line in lines if '"event": "copied"' in line}


# ---- histories -----------------------------------------------------------------------------------------------------


def test_single_rows_are_linearizable_and_sessions_never_read_backwards(cluster: MiniCluster) -> None:
    """Reads and writes by key are linearizable, and each row of a scan with READ_LATEST. A scan with the default read
    mode shows what its session has written and read, or later state."""
    with nyala.connect(cluster.url) as connection:
        connection.execute("CREATE TABLE register (k INT PRIMARY KEY, v BIGINT) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS")
    register = Register(cluster.url)
    with register.running():
        for place, harm in enumerate((cluster.kill, cluster.pause)):
            register.wait_operations(cluster, 150)
            victim = cluster.leader("register", place)
            harm(victim)
            # Enough operations to need another leader: half of them are for the victim's tablet.
            register.wait_operations(cluster, 200)
            cluster.resume(victim)
            cluster.start(victim)
        register.wait_operations(cluster, 200)
    register.history.check()
    check_replicas(cluster)


class Register:
    """Clients that read and write six rows, each with a clock of its own, and record their operations."""

    KEYS = range(6)

    def __init__(self, url: str):
        self.history = History()
        self._url = url
        self._values = itertools.count(1)
        self._stop = threading.Event()
        self._wrong: list[BaseException] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        modes = ("READ_LATEST", "READ_LATEST", "READ_LATEST", "READ_YOUR_WRITES")
        clients = [partial(self._client, number, mode) for number, mode in enumerate(modes, 1)]
        threads = [threading.Thread(target=self._guarded, args=(body,)) for body in (*clients, self._session)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(60)
        assert not self._wrong

    def wait_operations(self, cluster: MiniCluster, count: int) -> None:
        """Returns when this number of further operations are done, or begun."""
        before = len(self.history.operations)

        def are_done() -> bool:
            return len(self.history.operations) >= before + count or bool(self._wrong)

        cluster.wait_until(are_done, f"{count} operations are done")
        assert not self._wrong

    def _guarded(self, body: Callable[[], None]) -> None:
        try:
            body()
        except Exception as error:
            self._wrong.append(error)

    def _client(self, number: int, read_mode: str) -> None:
        """Writes and reads single rows by key, and with READ_LATEST all of them."""
        chosen = random.Random(number)
        scans = 0.1 if read_mode == "READ_LATEST" else 0.0
        with nyala.connect(alias(self._url, number), read_mode=read_mode) as connection:
            while not self._stop.wait(PAUSE_SECONDS):
                key, began, what = chosen.choice(self.KEYS), time.monotonic(), chosen.random()
                with unless_retryable():
                    if what < scans:
                        found = dict(connection.execute("SELECT k, v FROM register").fetchall())
                        for key in self.KEYS:
                            self.history.read(key, found.get(key), began)
                    elif what < 0.5:
                        self._write(connection, key)
                    else:
                        row = connection.execute("SELECT v FROM register WHERE k = ?", (key,)).fetchone()
                        self.history.read(key, None if row is None else row[0], began)

    def _session(self) -> None:
        """Writes single rows, and reads all of them at once, with the default read mode."""
        chosen = random.Random(0)
        last: dict[int, Operation] = {}
        with nyala.connect(self._url) as connection:
            while not self._stop.wait(PAUSE_SECONDS):
                with unless_retryable():
                    if chosen.random() < 0.5:
                        key = chosen.choice(self.KEYS)
                        last[key] = self._write(connection, key)
                    found = dict(connection.execute("SELECT k, v FROM register").fetchall())
                    for key in self.KEYS:
                        last[key] = self.history.session_read(key, found.get(key), last.get(key))

    def _write(self, connection: nyala.Connection, key: int) -> Operation:
        value = next(self._values)
        with self.history.write(key, value) as operation:
            connection.execute("UPSERT INTO register VALUES (?, ?)", (key, value))
        return operation


@contextmanager
def unless_retryable() -> Iterator[None]:
    """Context manager whose body may end with an error after which its outcome is unknown."""
    try:
        yield
    except OperationalError as error:
        if not error.retryable:
            raise
