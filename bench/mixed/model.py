"""Data shared by the parts of the mixed benchmark: the setting, the engine protocol, and the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from ...model.lazy_dataclass import dataclass
from ..ycsb.model import Durability, Latencies

Row: TypeAlias = tuple[Any, ...]

ALONE: Final = "alone"
TOGETHER: Final = "together"
AFTERWARDS: Final = "afterwards"
"""Queries again without upserts, on the table after the upserts."""
QUERIES: Final = ("q1", "q6")


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of a run."""

    rate: float = 500.0
    """Upserts that are due per second, evenly spaced."""
    seconds: float = 30.0
    """Seconds of each phase in which queries or upserts run."""
    threads: int = 2
    """Maximum number of threads of one query."""
    writers: int = 4
    """Threads that upsert; each row is a separate transaction."""
    buckets: int = 4
    """Tablets of nyala's table."""
    durability: Durability = "fsync"
    new_share: float = 0.05
    """Fraction of the upserts with a new key."""
    seed: int = 1


class Writer(Protocol):
    """One thread's access to an engine."""

    def upsert(self, row: Row) -> None:
        """Inserts a row or replaces the one that has its key, in a separate transaction; durable when it returns."""

    def close(self) -> None:
        """Closes the access."""


class Engine(Protocol):
    """A store with an SQL engine under test."""

    name: ClassVar[str]
    """The name in `--engines`."""

    @staticmethod
    def missing() -> str | None:
        """The installation advice for a missing package; None if the engine can be created."""

    def __init__(self, home: Path, setting: Setting) -> None:
        """`home` is an empty directory for the engine's files. Nothing is started."""

    def load(self, source: Path) -> None:
        """Starts the engine, creates the table lineitem with its primary key, and loads the Parquet file `source`.

        Afterwards the table is in the state in which the engine's users would have it.
        """

    def query(self, text: str) -> Sequence[Row]:
        """All rows of a query's answer. Called by one thread."""

    def writer(self) -> Writer:
        """A writer for one thread."""

    def version(self) -> str:
        """Name and version."""

    def close(self) -> None:
        """Ends everything that `load` started."""


@dataclass(frozen=True, slots=True)
class Upserts:
    """The upserts of one phase."""

    asked: int
    """Number of upserts that were due in it."""
    done: int
    seconds: float
    """Seconds from the first one's due time to the last one's end."""
    latencies: Latencies
    """Latencies from the due times. Upserts that had not begun when the phase ended count with their waiting time
    until then."""

    @property
    def per_second(self) -> float:
        return self.done / self.seconds


@dataclass(slots=True)
class EngineRun:
    """The results of one engine."""

    version: str
    queries: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Milliseconds of each run of each of `QUERIES`, by phase (`ALONE`, `TOGETHER`, `AFTERWARDS`)."""
    upserts: dict[str, Upserts] = field(default_factory=dict)
    """By phase (`ALONE`, `TOGETHER`)."""
    checked: int = 0
    """Number of answers of Q1 that were compared with those of a consistent snapshot."""
    inconsistent: list[str] = field(default_factory=list)
    """The faults of answers that did not match one."""


@dataclass(frozen=True, slots=True)
class MixedResult:
    """The results of `measure`, by engine."""

    setting: Setting
    rows: int
    """Number of rows of lineitem, before the upserts."""
    runs: dict[str, EngineRun] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """The reason, for engines that are not on this machine."""
