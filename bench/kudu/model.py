"""The steps of the benchmark and their results, shared by both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from ...model.lazy_dataclass import dataclass
from ..ycsb.model import Durability, Setting, Workload

Step: TypeAlias = Literal["insert", "update", "look up"]
Query: TypeAlias = Literal["count", "all", "Q1", "Q6"]

SINGLE: Final[tuple[Step, ...]] = ("insert", "update", "look up")
QUERIES: Final[dict[Query, str]] = {
    "count": "SELECT count(*), count(*) FROM lineitem",
    "all": "SELECT count(*), sum(l_extendedprice * 100) FROM (SELECT * FROM lineitem)",
    "Q1": "SELECT count(*), sum(l_extendedprice * (1 - l_discount) * 10000) FROM lineitem "
    "WHERE l_shipdate <= DATE '1998-09-02'",
    "Q6": "SELECT count(*), sum(l_extendedprice * l_discount * 10000) FROM lineitem "
    "WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' "
    "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
}
"""By name: the number of rows that the scan returns, and the sum by which both sides check their answers."""
BUCKETS: Final = 3
"""Tablets of the tables."""
YCSB: Final = ("A", "B", "C", "D", "F")


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run; `rows` and `singles` are per round."""

    replicas: int
    durability: Durability
    threads: int
    """Client threads of each step."""
    processes: int
    """Client processes of nyala, among which its threads are divided. Kudu's client is one process."""
    rows: int
    """Rows of the ingest, in batches of `batch`."""
    singles: int
    """Statements of each step of single rows."""
    batch: int
    ycsb: Setting
    workloads: tuple[Workload, ...]
    lineitem: Path | None
    """The Parquet file of lineitem; None leaves out the scans."""
    seconds: float
    """Length of the steps of look-ups beside a load, and of idle servers."""
    idle_tablets: int
    """Tablets of the table of the idle servers; 0 leaves out the step."""


class Side(Protocol):
    """One store, from empty servers to their end. Rates are per second."""

    def start(self) -> None:
        """Starts the servers and the clients, with empty tables."""

    def ingest(self) -> float:
        """`Plan.rows` rows of the narrow table, in batches: rows per second."""

    def single(self, step: Step) -> float:
        """`Plan.singles` statements of one row each, after `ingest`: statements per second."""

    def beside(self) -> tuple[float, float]:
        """Look-ups by half of the threads while one more thread loads: look-ups and written rows per second."""

    def load(self) -> float:
        """The load of YCSB: rows per second."""

    def operate(self, workload: Workload) -> Operated:
        """A workload of YCSB."""

    def load_lineitem(self, parquet: Path) -> float:
        """Rows per second."""

    def scan(self, query: Query) -> tuple[float, int, int]:
        """One scan of lineitem: its seconds, number of rows, and sum."""

    def fail_over(self) -> float:
        """Seconds from SIGKILL of the leader of a table's only tablet to the next acknowledged write."""

    def restart(self) -> float:
        """Seconds from SIGTERM of all tablet servers, by way of their start, to an answered look-up."""

    def idle(self, tablets: int, seconds: float) -> float:
        """Processor time of each tablet server per second, with that many more tablets and no clients."""

    def disk_bytes(self) -> int:
        """Of all servers."""

    def memory_bytes(self) -> int:
        """Resident memory of all server processes."""

    def processor_seconds(self) -> float:
        """User and system time of all server processes so far."""

    def stop(self) -> None:
        """Ends everything that `start` started."""

    def version(self) -> str:
        """The name and version of the store and of its client."""


@dataclass(frozen=True, slots=True)
class Operated:
    """The result of a workload of YCSB; latencies in milliseconds over all of its operations."""

    per_second: float
    failed: int
    p50: float
    p95: float
    p99: float
    error: str | None = None


@dataclass(slots=True)
class Compared:
    """All rounds, by side and measurement, one number per round. A step that failed has no number, but a note."""

    plan: dict[str, Any]
    versions: dict[str, str] = field(default_factory=dict)
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    answers: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    """(rows, sum) of each scan, by side."""
    notes: list[str] = field(default_factory=list)
    """Steps that failed, and answers that differ."""

    def add(self, side: str, name: str, value: float) -> None:
        """Adds the number of one more round."""
        self.values.setdefault(side, {}).setdefault(name, []).append(value)

    def wrong_answers(self) -> list[str]:
        """The scans to which the sides gave different answers."""
        first: Mapping[str, tuple[int, int]] = next(iter(self.answers.values()), {})
        return [name for name, answer in first.items() for other in self.answers.values() if other.get(name) != answer]
