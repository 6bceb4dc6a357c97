"""Compares a cluster of three tablet servers on this machine, each with every row, with the embedded store in the same
run.

| step | measurement |
|---|---|
| ingest | rows of a session in batches, from `CLIENTS` threads; acknowledged when a majority has them in its log |
| insert, update | single rows by `CLIENTS` threads, each a separate statement |
| look up | single rows by their key, by `CLIENTS` threads |
| leader killed | from SIGKILL of the leader of a table's only tablet to the next acknowledged write |

Both sides have the same durability. Processes, clients and disks share this machine, so a cluster does three times the
work on the same processors.
"""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table as TextTable

from ..cluster.admin.minicluster import MiniCluster
from ..driver.connect_options import Durability
from ..driver.connection import Connection, connect
from ..errors import OperationalError
from ..model.lazy_dataclass import dataclass
from .narrow_rows import CREATE_NARROW, narrow_rows
from .servers import started_cluster
from .work_directory import work_directory

CLIENTS: Final = 16
BATCH_ROWS: Final = 10_000
INGESTED: Final = 400_000
SINGLE: Final = 6_000
TARGETS: Final = {"ingest": 60_000, "insert": 1_500, "update": 1_500, "look up": 3_000}
"""Minimum rates per second, on a machine of two processors."""
RESUME_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """Rates per second by store and step, one number per round; seconds from a leader's end to the next write."""

    rates: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    resumed: list[float] = field(default_factory=list)


def measure(*, runs: int, durability: Durability, work: Path | None) -> ClusterResult:
    """Measures all steps on both sides, in turn, `runs` rounds each; the stores are created in `work` and removed."""
    result = ClusterResult()
    with (
        work_directory(work) as home,
        started_cluster(home / "cluster", durability) as cluster,
        connect(home / "embedded", durability=durability),
    ):
        stores: dict[str, Open] = {
            "cluster": partial(connect, cluster.url),
            "embedded": partial(connect, home / "embedded", durability=durability),
        }
        result.rates.update({name: {step: [] for step in TARGETS} for name in stores})
        for open_ in stores.values():
            with open_() as connection:
                connection.execute(CREATE_NARROW)
        for number in range(runs):
            for name, open_ in stores.items():
                for step, rate in _round(open_, number):
                    result.rates[name][step].append(rate)
        result.resumed.extend(_resume(cluster, runs))
    return result


def _round(open_: Open, number: int) -> Iterator[tuple[str, float]]:
    """The rates of all steps; keys of different rounds differ."""
    first = number * 10 * (INGESTED + SINGLE)
    yield "ingest", INGESTED / _seconds(open_, _batches(first))
    keys = itertools.count(first + INGESTED)
    insert = "INSERT INTO t VALUES (?, 1, 2.0, 'three', 4)"
    yield "insert", SINGLE / _seconds(open_, _statements(insert, lambda: (next(keys),)))
    known = itertools.count()
    update = "UPDATE t SET a = ? WHERE k = ?"
    yield "update", SINGLE / _seconds(open_, _statements(update, lambda: (7, first + next(known) * 61 % INGESTED)))
    select = "SELECT a, b, c FROM t WHERE k = ?"
    asked = itertools.count()
    yield "look up", SINGLE / _seconds(open_, _statements(select, lambda: (first + next(asked) * 61 % INGESTED,)))


Work = Callable[[Connection], Iterator[Callable[[], Any]]]
Open = Callable[[], Connection]


def _batches(first: int) -> Work:
    numbers = itertools.count(first, BATCH_ROWS)
    lock = threading.Lock()

    def work(connection: Connection) -> Iterator[Callable[[], Any]]:
        table = connection.table("t")
        session = connection.new_session(flush_mode="MANUAL_FLUSH", buffer_bytes=64 << 20)
        while True:
            with lock:
                start = next(numbers)
            if start >= first + INGESTED:
                return
            yield partial(_write, session, table, start)

    return work


def _write(session: Any, table: Any, start: int) -> None:
    session.insert(table, narrow_rows(start, BATCH_ROWS))
    session.flush()


def _statements(text: str, parameters: Callable[[], tuple[Any, ...]]) -> Work:
    left = itertools.count(1)
    lock = threading.Lock()

    def work(connection: Connection) -> Iterator[Callable[[], Any]]:
        cursor = connection.cursor()
        while True:
            with lock:
                if next(left) > SINGLE:
                    return
                values = parameters()
            yield partial(cursor.execute, text, values)

    return work


def _seconds(open_: Open, work: Work) -> float:
    """The duration of all work for `CLIENTS` threads, each with its own connection."""
    errors: list[Exception] = []

    def run(own: Connection) -> None:
        try:
            for task in work(own):
                task()
        except Exception as error:
            errors.append(error)

    with _connections(open_) as connections:
        threads = [threading.Thread(target=run, args=(own,)) for own in connections]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
    if errors:
        raise errors[0]
    return seconds


@contextmanager
def _connections(open_: Open) -> Iterator[list[Connection]]:
    """Connections to the same store, one per thread."""
    made = [open_() for _ in range(CLIENTS)]
    try:
        yield made
    finally:
        for one in made:
            one.close()


def _resume(cluster: MiniCluster, runs: int) -> Iterator[float]:
    with connect(cluster.url) as connection:
        connection.execute("CREATE TABLE beat (k BIGINT PRIMARY KEY)")
        keys = itertools.count()
        for _ in range(runs):
            connection.execute("INSERT INTO beat VALUES (?)", (next(keys),))
            leader = cluster.leader("beat")
            cluster.kill(leader)
            began = time.perf_counter()
            while True:
                try:
                    connection.execute("INSERT INTO beat VALUES (?)", (next(keys),))
                    break
                except OperationalError as error:
                    if not error.retryable:
                        raise
            yield time.perf_counter() - began
            cluster.start(leader)
            time.sleep(3.0)  # the restarted server catches up, so that the next round has a complete cluster


def show(found: ClusterResult, console: Console) -> None:
    """Prints medians, ratios and targets."""
    table = TextTable(title=f"{CLIENTS} clients, 3 replicas; rows or statements per second", title_justify="left")
    for name in ("", "cluster", "embedded", "cluster / embedded", "required"):
        table.add_column(name, justify="right" if name else "left")
    for step, wanted in TARGETS.items():
        ours, theirs = (statistics.median(found.rates[name][step]) for name in ("cluster", "embedded"))
        table.add_row(step, f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:.2f}", f"{wanted:,}")
    console.print(table)
    shown = ", ".join(f"{seconds:.2f}" for seconds in found.resumed)
    console.print(f"a leader is killed; seconds to the next write: {shown} (at most {RESUME_SECONDS:g})")
