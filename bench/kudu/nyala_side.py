"""nyala's side of the benchmark: a cluster of its servers, and clients in Python.

It may take part twice: with its client threads in few processes, as programs have them, and with a process for each. A
process of Python executes one thread at a time, one of Java all of them.
"""

from __future__ import annotations

import itertools
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.parquet as pq

from ...cluster.admin.minicluster import MiniCluster
from ...cluster.admin.processes import STOP_SECONDS
from ...driver.connection import Connection, connect
from ...errors import OperationalError
from ...model.version import __version__
from ...tpch.schema import LINEITEM
from ..files import disk_bytes
from ..narrow_rows import CREATE_NARROW
from ..ycsb.bindings.cluster import ClusterBinding
from ..ycsb.client_process import ClientJob, ClientProcesses, LoadJob
from ..ycsb.measured import latencies
from ..ycsb.model import Workload
from .model import BUCKETS, QUERIES, Operated, Plan, Query, Step
from .nyala_clients import Job, NyalaClients
from .processes import idle_share, memory_bytes, processor_seconds

_RETRY_SECONDS: Final = 0.005
_LOAD_SECONDS: Final = 3600.0


def of_processes(home: Path, plan: Plan) -> NyalaSide:
    """The side with a client process for each client thread."""
    return NyalaSide(home, plan, plan.threads)


class NyalaSide:
    """A new cluster in `home`; see `model.Side`.

    Parameters
    ----------
    processes : int, optional
        Client processes, among which the threads are divided; None: as in the plan.
    """

    def __init__(self, home: Path, plan: Plan, processes: int | None = None) -> None:
        self._home = home
        self._plan = plan if processes is None else replace(plan, processes=processes)
        self._cluster: MiniCluster | None = None
        self._connection: Connection | None = None
        self._clients: NyalaClients | None = None
        self._next = itertools.count(plan.rows, max(plan.rows, plan.singles))
        self._beats = itertools.count()

    def start(self) -> None:
        plan = self._plan
        self._cluster = MiniCluster(
            tservers=max(1, plan.replicas),
            directory=self._home / "servers",
            options={"durability": plan.durability},
            defaults={},
        )
        self._connection = connect(self._cluster.url)
        shape = f"DISTRIBUTE BY HASH ({{}}) INTO {BUCKETS} BUCKETS REPLICAS {plan.replicas}"
        fields = ", ".join(f"field{number} STRING NOT NULL" for number in range(10))
        for create in (
            f"{CREATE_NARROW} REPLICAS {plan.replicas}",
            f"CREATE TABLE usertable (ycsb_key STRING PRIMARY KEY, {fields}) " + shape.format("ycsb_key"),
            f"{LINEITEM.create_table(BUCKETS)} REPLICAS {plan.replicas}",
            f"CREATE TABLE beat (k BIGINT PRIMARY KEY) REPLICAS {plan.replicas}",
        ):
            self._connection.execute(create)
        self._clients = NyalaClients(self._cluster.url, plan.processes)

    def ingest(self) -> float:
        plan = self._plan
        return plan.rows / self._run(Job("ingest", 0, plan.rows, plan.rows, plan.batch))[0]

    def single(self, step: Step) -> float:
        plan = self._plan
        first = next(self._next) if step == "insert" else 0
        return plan.singles / self._run(Job(step, first, plan.singles, plan.rows))[0]

    def beside(self) -> tuple[float, float]:
        plan = self._plan
        assert self._clients is not None
        look_ups = Job("beside", 0, 0, plan.rows, plan.batch, plan.seconds, load_from=next(self._next))
        seconds, statements, rows = self._clients.run(look_ups, plan.threads // 2, loaders=1)
        return statements / seconds, rows / seconds

    def load(self) -> float:
        setting, processes = self._plan.ycsb, self._plan.processes
        share = setting.threads // processes
        jobs = [LoadJob(self._binding(), setting, share, number, processes) for number in range(processes)]
        with ClientProcesses(jobs) as clients:
            began = clients.begin(_LOAD_SECONDS)
            taken = clients.finish()
        if taken.failed:
            raise OperationalError(f"the load failed: {taken.error}")
        return taken.rows / (taken.ended - began)

    def operate(self, workload: Workload) -> Operated:
        setting, processes = self._plan.ycsb, self._plan.processes
        share = setting.threads // processes
        jobs = [
            ClientJob(self._binding(), workload, setting, number * share, share, number) for number in range(processes)
        ]
        with ClientProcesses(jobs) as clients:
            began = clients.begin(setting.seconds)
            taken = clients.finish()
        found = latencies(np.concatenate(list(taken.durations.values())))
        rate = taken.rows / (taken.ended - began)
        return Operated(rate, taken.failed, found.p50, found.p95, found.p99, taken.error)

    def load_lineitem(self, parquet: Path) -> float:
        rows: int = pq.read_metadata(parquet).num_rows
        began = time.perf_counter()
        self._connected().load("lineitem", parquet)
        return rows / (time.perf_counter() - began)

    def scan(self, query: Query) -> tuple[float, int, int]:
        began = time.perf_counter()
        rows, total = self._connected().execute(QUERIES[query]).fetchall()[0]
        return time.perf_counter() - began, int(rows), int(total)

    def fail_over(self) -> float:
        cluster = self._running()
        self._beat(1)
        leader = cluster.leader("beat")
        cluster.kill(leader)
        seconds = self._beat(120.0)
        cluster.start(leader)
        return seconds

    def restart(self) -> float:
        local = self._running().local
        began = time.perf_counter()
        ending = [local.process(name) for name in local.names("tserver")]
        for process in ending:
            process.signal(signal.SIGTERM)
        for process in ending:
            process.wait_ended(STOP_SECONDS)
        local.start()
        self._connected().execute("SELECT a FROM t WHERE k = 0").fetchone()
        return time.perf_counter() - began

    def idle(self, tablets: int, seconds: float) -> float:
        create = "CREATE TABLE idle (k BIGINT PRIMARY KEY) DISTRIBUTE BY HASH (k) INTO {} BUCKETS REPLICAS {}"
        self._connected().execute(create.format(tablets, self._plan.replicas))
        return idle_share(self.processor_seconds, seconds) / len(self._running().tservers)

    def disk_bytes(self) -> int:
        return disk_bytes(self._home / "servers")

    def memory_bytes(self) -> int:
        return memory_bytes(self._pids())

    def processor_seconds(self) -> float:
        return processor_seconds(self._pids())

    def stop(self) -> None:
        if self._clients is not None:
            self._clients.close()
        if self._connection is not None:
            self._connection.close()
        if self._cluster is not None:
            self._cluster.close()

    def version(self) -> str:
        processes = self._plan.processes
        return f"nyala {__version__}, Python client in {processes} process{'es' if processes > 1 else ''}"

    def _run(self, job: Job) -> tuple[float, int, int]:
        assert self._clients is not None
        return self._clients.run(job, self._plan.threads)

    def _beat(self, limit: float) -> float:
        """Inserts a row until it is acknowledged; the seconds that took."""
        began, key = time.perf_counter(), next(self._beats)
        while True:
            try:
                self._connected().execute("UPSERT INTO beat VALUES (?)", (key,))
                return time.perf_counter() - began
            except OperationalError:
                if time.perf_counter() - began > limit:
                    raise
                time.sleep(_RETRY_SECONDS)

    def _binding(self) -> ClusterBinding:
        return ClusterBinding.connected(self._running().url)

    def _pids(self) -> list[int]:
        return [pid for one in self._running().local.processes() if (pid := one.pid) is not None]

    def _running(self) -> MiniCluster:
        assert self._cluster is not None
        return self._cluster

    def _connected(self) -> Connection:
        assert self._connection is not None
        return self._connection
