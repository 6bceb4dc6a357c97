"""Kudu's side of the benchmark: its servers, and its Java client as a process."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from ...errors import OperationalError
from ..files import disk_bytes
from ..ycsb.generators import key_texts
from ..ycsb.model import Workload
from ..ycsb.operations import plan as operations_of
from .distribution import KuduDistribution
from .model import BUCKETS, Operated, Plan, Query, Step
from .processes import idle_share, memory_bytes, processor_seconds
from .servers import KuduServers

CLIENT: Final = Path(__file__).with_name("KuduClient.java")
SCAN_THREADS: Final = 2
_COLUMNS: Final = [
    "l_orderkey",
    "l_linenumber",
    "l_partkey",
    "l_suppkey",
    "l_quantity",
    "l_extendedprice",
    "l_discount",
    "l_tax",
    "l_returnflag",
    "l_linestatus",
    "l_shipdate",
    "l_commitdate",
    "l_receiptdate",
    "l_shipinstruct",
    "l_shipmode",
    "l_comment",
]
_DECIMALS: Final = ("l_quantity", "l_extendedprice", "l_discount", "l_tax")
_TEXTS: Final = ("l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode", "l_comment")
_DATES: Final = ("l_shipdate", "l_commitdate", "l_receiptdate")


class KuduSide:
    """A new cluster in `home`; see `model.Side`."""

    def __init__(self, kudu: KuduDistribution, home: Path, plan: Plan) -> None:
        self._kudu = kudu
        self._home = home
        self._plan = plan
        self._servers = KuduServers(kudu, home / "servers", max(1, plan.replicas), plan.durability)
        self._client: subprocess.Popen[str] | None = None
        self._next = itertools.count(plan.rows, max(plan.rows, plan.singles))
        self._beats = itertools.count()

    def start(self) -> None:
        self._servers.start()
        self._client = subprocess.Popen(
            [self._kudu.java, "-cp", self._kudu.class_path, str(CLIENT), self._servers.masters],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._answer()
        for table, buckets in (("t", BUCKETS), ("usertable", BUCKETS), ("lineitem", BUCKETS), ("beat", 1)):
            self._ask("create", table, self._plan.replicas, buckets)

    def ingest(self) -> float:
        plan = self._plan
        return plan.rows / self._seconds("ingest", 0, plan.rows, plan.batch, plan.threads)

    def single(self, step: Step) -> float:
        plan = self._plan
        first = next(self._next) if step == "insert" else 0
        return plan.singles / self._seconds("single", step, first, plan.singles, plan.rows, plan.threads)

    def beside(self) -> tuple[float, float]:
        plan = self._plan
        found = self._ask("beside", plan.rows, next(self._next), plan.threads // 2, 1, plan.seconds)
        seconds = float(found["seconds"])
        return int(found["looked_up"]) / seconds, int(found["written"]) / seconds

    def load(self) -> float:
        setting = self._plan.ycsb
        file = self._home / "keys"
        file.write_text("\n".join(key_texts(0, setting.records)) + "\n")
        return setting.records / self._seconds("load", file, setting.batch_rows, setting.threads)

    def operate(self, workload: Workload) -> Operated:
        setting = self._plan.ycsb
        directory = self._home / f"operations-{workload.name}"
        directory.mkdir()
        for number, client in enumerate(operations_of(workload, setting)):
            lines = (f"{kind.value}\t{key}\t{field}\n" for kind, key, field in client.requests())
            (directory / f"client-{number}").write_text("".join(lines))
        found = self._ask("operate", directory, setting.threads, setting.seconds)
        p50, p95, p99 = (float(found[name]) for name in ("p50", "p95", "p99"))
        rate = int(found["done"]) / float(found["seconds"])
        return Operated(rate, int(found["failed"]), p50, p95, p99, found.get("error"))

    def load_lineitem(self, parquet: Path) -> float:
        file = self._home / "lineitem.tsv"
        rows = _write_tsv(parquet, file)
        seconds = self._seconds("lineitem", file, self._plan.batch, 4)
        file.unlink()
        return rows / seconds

    def scan(self, query: Query) -> tuple[float, int, int]:
        found = self._ask("scan", query, SCAN_THREADS)
        rows = int(found["rows"])
        return float(found["seconds"]), rows, rows if query == "count" else int(found["sum"])

    def fail_over(self) -> float:
        self._seconds("beat", next(self._beats))
        leader = self._servers.name_of(next(iter(self._ask("leader", "beat"))))
        self._servers.kill(leader)
        seconds = self._seconds("beat", next(self._beats))
        self._servers.start()
        return seconds

    def restart(self) -> float:
        began = time.perf_counter()
        self._servers.terminate(self._servers.tservers)
        self._servers.start()
        self._ask("single", "look up", 0, 1, self._plan.rows, 1)
        return time.perf_counter() - began

    def idle(self, tablets: int, seconds: float) -> float:
        self._ask("create", "idle", self._plan.replicas, tablets)
        return idle_share(self.processor_seconds, seconds) / len(self._servers.tservers)

    def disk_bytes(self) -> int:
        return disk_bytes(self._home / "servers")

    def memory_bytes(self) -> int:
        return memory_bytes(self._servers.pids())

    def processor_seconds(self) -> float:
        return processor_seconds(self._servers.pids())

    def stop(self) -> None:
        if self._client is not None:
            self._client.kill()
            self._client.communicate()
        self._servers.stop()

    def version(self) -> str:
        return f"Kudu {self._kudu.version}, Java client"

    def _seconds(self, *words: object) -> float:
        return float(self._ask(*words)["seconds"])

    def _ask(self, *words: object) -> Mapping[str, str]:
        """Executes a command of the client; returns the fields of its answer."""
        assert self._client is not None
        assert self._client.stdin is not None
        self._client.stdin.write("\t".join(map(str, words)) + "\n")
        self._client.stdin.flush()
        return self._answer()

    def _answer(self) -> Mapping[str, str]:
        assert self._client is not None
        assert self._client.stdout is not None
        line = self._client.stdout.readline()
        if not line:
            raise OperationalError(f"Kudu's client ended with exit code {self._client.wait()}")
        state, *fields = line.rstrip("\n").split("\t")
        if state != "ok":
            raise OperationalError(f"Kudu's client: {' '.join(fields)}")
        return {name: value for name, _, value in (one.partition("=") for one in fields)}


def _write_tsv(parquet: Path, file: Path) -> int:
    """Writes lineitem with decimals in hundredths and dates in days since 1970; returns the number of rows."""
    source = pq.ParquetFile(parquet)
    options = pcsv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    rows = 0
    with file.open("wb") as sink:
        for batch in source.iter_batches(columns=_COLUMNS):
            table = pa.Table.from_batches([batch]).select(_COLUMNS)
            for name in _DECIMALS:
                hundredths = pc.multiply(table[name].cast(pa.float64()), 100.0)
                whole = np.rint(hundredths.to_numpy()).astype(np.int64)
                table = table.set_column(table.column_names.index(name), name, pa.array(whole))
            for name in _TEXTS:  # text views have no form in CSV
                table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.string()))
            for name in _DATES:
                table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.int32()))
            pcsv.write_csv(table, sink, options)
            rows += table.num_rows
    return rows
