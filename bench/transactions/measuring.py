"""Runs of the workloads: the engines in turn, each with new tables."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ..work_directory import work_directory
from .engines import ENGINES
from .model import Engine, TransactionResults, TransactionRun, Workload
from .tpcc import TpcC
from .workloads import Bank, Tens

WORKLOADS: dict[str, type[Workload]] = {workload.name: workload for workload in (Tens, Bank, TpcC)}


def measure(
    engines: Sequence[str],
    workloads: Sequence[str],
    clients: Sequence[int],
    *,
    seconds: float,
    runs: int,
    durability: str,
    work_dir: Path | None = None,
) -> TransactionResults:
    """Run each workload on each engine, with each number of clients, `runs` times.

    Parameters
    ----------
    engines, workloads : sequence of str
        Names in `ENGINES` and `WORKLOADS`.
    clients : sequence of int
        Numbers of threads, each with a connection of its own.
    seconds : float
        Of each run.
    durability : {"fsync", "os"}
    work_dir : Path, optional
        For the databases; a temporary directory by default.
    """
    left_out = {name: why for name in engines if (why := ENGINES[name].missing()) is not None}
    found: dict[str, dict[int, dict[str, list[TransactionRun]]]] = {}
    versions: dict[str, str] = {}
    with work_directory(work_dir) as home:
        for name in workloads:
            for count in clients:
                by_engine = found.setdefault(name, {}).setdefault(count, {})
                for number in range(runs):
                    for engine in engines:
                        if engine in left_out:
                            continue
                        place = home / f"{name}-{count}-{number}-{engine}"
                        place.mkdir()
                        opened = ENGINES[engine](place, durability)
                        try:
                            versions[engine] = opened.version()
                            run = _run(opened, WORKLOADS[name](), count, seconds, number)
                        finally:
                            opened.close()
                        by_engine.setdefault(engine, []).append(run)
    return TransactionResults(found, versions, left_out, durability)


def _run(engine: Engine, workload: Workload, count: int, seconds: float, seed: int) -> TransactionRun:
    first = engine.client()
    for table in workload.tables():
        first.execute(table)
    workload.load(first)
    totals = [0, 0]
    lock = threading.Lock()
    errors: list[BaseException] = []
    clients = [engine.client() for _ in range(count)]
    started = time.perf_counter()
    end = started + seconds

    def work(number: int) -> None:
        chosen = random.Random(1_000 * seed + number)
        done = conflicts = 0
        try:
            while time.perf_counter() < end:
                conflicts += clients[number].transact(workload.transaction(chosen))
                done += 1
        except BaseException as error:
            errors.append(error)
        with lock:
            totals[0] += done
            totals[1] += conflicts

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    processor = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed, processor = time.perf_counter() - started, time.process_time() - processor
    if errors:
        raise errors[0]
    faults = workload.check(first)
    for client in [first, *clients]:
        client.close()
    return TransactionRun(totals[0], totals[1], elapsed, processor, tuple(faults))
