"""Programs that write and read a cluster while a test does something to its servers."""

from __future__ import annotations

import datetime
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import nyala
from nyala.cluster.wire.calls.rpc import Channels
from nyala.cluster.wire.messages.methods import ChecksumTablet, GetStatus, ReportTablets, StepDown, WorkOnTablet
from nyala.errors import AlreadyPresent, OperationalError
from nyala.model.clock import HybridClock, wall_microseconds
from nyala.testing import MiniCluster

CREATE = "CREATE TABLE chain (id BIGINT PRIMARY KEY, writer INT NOT NULL, before BIGINT, at DOUBLE NOT NULL)"


PAUSE_SECONDS = 0.03
"""Between two writes of a client: servers that start meanwhile need the processors more, and so do other tests. Three
clients write 60 rows a second."""
MOST_LEAD = 6.0
"""Seconds by which timestamps of a cluster may be ahead of its wall clocks: `RaftOptions.clock_lead`, and some for busy
machines."""


def alias(url: str, number: int) -> str:
    """The same cluster by another name, for a client of its own: connections of a process that name a cluster alike
    share one, and with it the clock, so each of them reads all that any of them has seen."""
    return url + f",{url.partition('://')[2].partition(',')[0]}" * number


@dataclass(eq=False)
class Workload:
    """Threads that insert rows, each pointing to an acknowledged one, and one that counts them by a client of its own.

    Every row has a key of its own; a write that took effect twice would be refused as already present.
    """

    url: str
    writers: int = 3
    tablets: int = 3
    poisoned: bool = True
    """A client whose clock is hours ahead calls all servers, and another reads as of the true time: that must show all
    that was acknowledged some seconds before. Not for tests that set servers' clocks wrong."""
    acknowledged: list[tuple[int, float]] = field(default_factory=list)
    """(key, when), as they came."""
    unknown: set[int] = field(default_factory=set)
    """Keys whose INSERT gave a retryable error: they may be there or not."""
    wrong: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    """Of the servers that the client with the wrong clock calls."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def create(self) -> None:
        """Make the table."""
        with nyala.connect(self.url) as connection:
            connection.execute(
                CREATE if self.tablets == 1 else f"{CREATE} DISTRIBUTE BY HASH (id) INTO {self.tablets} BUCKETS"
            )

    def start(self) -> None:
        """Start the threads."""
        for number in range(self.writers):
            self._spawn(partial(self._write, number))
        self._spawn(self._read)
        if self.poisoned:
            self._spawn(self._poison)
            self._spawn(self._read_the_past)

    def _spawn(self, body: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._guarded, args=(body,), daemon=True)
        thread.start()
        self._threads.append(thread)

    def stop(self) -> None:
        """Stop them, and complain of what went wrong."""
        self._stop.set()
        for thread in self._threads:
            thread.join(90)
            assert not thread.is_alive(), "a client hangs"
        assert not self.wrong, "\n".join(self.wrong)

    @contextmanager
    def running(self) -> Iterator[Workload]:
        """The threads run inside."""
        self.start()
        try:
            yield self
        finally:
            self._stop.set()
        self.stop()

    def under_test(self, cluster: MiniCluster) -> Iterator[Workload]:
        """A fixture's body: it runs while a test does, and is checked behind it."""
        self.create()
        self.addresses = [cluster.local.addresses[name] for name in (*cluster.tservers, *cluster.masters)]
        with self.running():
            self.wait_writes(30)
            yield self
        self.check()
        check_replicas(cluster)

    def wait_writes(self, count: int, seconds: float = 60.0) -> None:
        """Returns when this number of further rows has been acknowledged."""
        before, began = len(self.acknowledged), time.monotonic()
        while len(self.acknowledged) < before + count:
            assert time.monotonic() < began + seconds, f"no {count} writes in {seconds:g} s: {self.wrong}"
            assert not self.wrong, "\n".join(self.wrong)
            time.sleep(0.02)

    def seconds_without_writes(self, harm: Callable[[], None]) -> float:
        """Do harm: the seconds from its beginning until a write that began behind it was acknowledged."""
        began = time.monotonic()
        harm()
        before = len(self.acknowledged)
        # Each writer may have had one on its way.
        self.wait_writes(self.writers + 1)
        return self.acknowledged[before + self.writers][1] - began

    def _guarded(self, body: Callable[[], None]) -> None:
        try:
            body()
        except Exception as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
            self._stop.set()

    def _write(self, writer: int) -> None:
        with nyala.connect(self.url) as connection:
            while not self._stop.wait(PAUSE_SECONDS):
                key = next(self._numbers)
                before = self.acknowledged[-1][0] if self.acknowledged else None
                try:
                    connection.execute("INSERT INTO chain VALUES (?, ?, ?, ?)", (key, writer, before, time.time()))
                    connection.commit()
                except AlreadyPresent as error:
                    self.wrong.append(f"a write took effect twice: {error}")
                except OperationalError as error:
                    if not error.retryable:
                        raise
                    self.unknown.add(key)
                else:
                    self.acknowledged.append((key, time.monotonic()))

    def _read(self) -> None:
        seen = 0
        with nyala.connect(alias(self.url, 1)) as connection:
            while not self._stop.is_set():
                (count,) = connection.execute("SELECT count(*) FROM chain").fetchone()
                if count < seen:
                    self.wrong.append(f"a session read {count} rows after it had read {seen}")
                seen = count
                self._stop.wait(0.05)

    def _poison(self) -> None:
        """Calls all servers with a clock that is 11 seconds to a day ahead."""
        lead = 0
        channels = Channels(HybridClock(lambda: wall_microseconds() + lead * 1_000_000))
        try:
            for lead in itertools.cycle((86_000, 7200, 60, 12)):
                for address in self.addresses:
                    with suppress(OperationalError):
                        channels.get(address).call(GetStatus(), timeout=1.0)
                        self.wrong.append(f"{address} takes calls of a client whose clock is {lead} s ahead")
                if self._stop.wait(0.5):
                    return
        finally:
            channels.close()

    def _read_the_past(self) -> None:
        with nyala.connect(alias(self.url, 2)) as connection:
            while not self._stop.wait(0.2):
                # Behind a change of leaders, timestamps are ahead of the wall clock until that has caught up.
                latest, moment = time.monotonic() - MOST_LEAD, datetime.datetime.now(datetime.UTC)
                count = sum(at < latest for _, at in list(self.acknowledged))
                with connection.at(moment) as before:
                    (found,) = before.execute("SELECT count(*) FROM chain").fetchone()
                if found < count:
                    self.wrong.append(f"{found} rows as of {moment}, when {count} were acknowledged long before")

    # ---- afterwards --------------------------------------------------------------------------------------------------

    def check(self, connection: nyala.Connection | None = None) -> None:
        """Checks that every acknowledged row exists, once, and no row that was never written."""
        with nyala.connect(self.url) as own:
            rows = (connection or own).execute("SELECT id, before FROM chain ORDER BY id").fetchall()
        keys = [key for key, _ in rows]
        assert len(set(keys)) == len(keys), "a row occurs twice"
        there = set(keys)
        acknowledged = {key for key, _ in self.acknowledged}
        assert acknowledged <= there, f"lost: {sorted(acknowledged - there)[:10]}"
        assert there <= acknowledged | self.unknown, f"from nowhere: {sorted(there - acknowledged - self.unknown)[:10]}"
        check_chain(rows)


def check_chain(rows: list[tuple[int, int | None]]) -> None:
    """Every row points to one that is there."""
    there = {key for key, _ in rows}
    broken = [key for key, before in rows if before is not None and before not in there]
    assert not broken, f"rows {broken[:10]} point to rows that are lost"


def make_whole(cluster: MiniCluster) -> None:
    """Restores the cluster for the next test: ensures that servers run and reach each other, and no table exists. Fails
    if a server has ended that the test did not end."""
    for process in cluster.local.processes():
        process.check()
    for name in cluster.local.addresses:
        cluster.resume(name)
    cluster.heal()
    cluster.local.start()
    with nyala.connect(cluster.url) as connection:
        for table in connection.store.tables():
            connection.execute(f"DROP TABLE {table.name}")


def check_replicas(cluster: MiniCluster) -> None:
    """All replicas run, and are alike."""
    from nyala.cluster.admin.ksck import describe, ksck
    from nyala.cluster.admin.view import look
    from nyala.cluster.wire.calls.rpc import Channels

    clock = HybridClock()
    channels = Channels(clock)
    found = ""

    def is_clean() -> bool:
        nonlocal found
        report = ksck(look(channels, cluster.local.masters, clock), channels)
        found = describe(report)
        return report.is_clean

    try:
        cluster.wait_until(is_clean, "ksck --checksum ends clean", 90)
    except OperationalError as error:
        raise AssertionError(f"{error}:\n{found}") from error
    finally:
        channels.close()


def damage_files(cluster: MiniCluster, name: str, table: str, place: int = 0) -> list[Path]:
    """Kill a server and turn over bits in the column files of its replica of a tablet, as a bad disk does; it runs
    again then. What the replica has in memory is flushed first, so that all its rows are in these files."""
    tablet_id = cluster.locations(table)[place].tablet_id
    # The sum waits until the replica has all that was written before: otherwise it comes from the log once more. A
    # leader's timestamps may be ahead of this machine's clock: the servers' own clocks count.
    now = max(cluster.call(server, GetStatus()).clock for server in cluster.tservers)
    cluster.call(name, ChecksumTablet(tablet_id=tablet_id, snapshot=now), 60.0)
    cluster.call(name, WorkOnTablet(tablet_id=tablet_id, work="flush"), 60.0)
    cluster.kill(name)
    files = sorted((cluster.directory / name / "tablets" / tablet_id / "rowsets").glob("*.col"))
    assert files, f"{name} has no column files of {table}"
    for path in files:
        data = bytearray(path.read_bytes())
        for byte in range(len(data) // 4, len(data) // 4 * 3):
            data[byte] ^= 0x5A
        path.write_bytes(data)
    cluster.start(name)
    return files


def make_lead(cluster: MiniCluster, name: str, table: str, place: int = 0) -> None:
    """Have a server lead a tablet."""
    location = cluster.locations(table)[place]
    (target,) = [peer.id for peer in location.replicas if peer.address == cluster.local.addresses[name]]

    def leads() -> bool:
        leader = cluster.leader(table, place)
        if leader != name:
            cluster.call(leader, StepDown(tablet_id=location.tablet_id, target=target))
            return False
        # The masters may not have heard yet that a server that was killed leads no more.
        (own,) = cluster.call(name, ReportTablets(tablet_ids=(location.tablet_id,))).tablets
        return bool(own.role == "LEADER" and own.is_serving)

    cluster.wait_until(leads, f"{name} leads")
