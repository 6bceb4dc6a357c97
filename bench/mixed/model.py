"""What the parts of the mixed benchmark hand each other: the setting, the engines under test, and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from ..ycsb.model import Durability, Latencies

Row: TypeAlias = tuple[Any, ...]

ALONE: Final = "alone"
TOGETHER: Final = "together"
AFTERWARDS: Final = "afterwards"
"""Queries once more without upserts, on the table as these have left it."""
QUERIES: Final = ("q1", "q6")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run is made with."""

    rate: float = 500.0
    """Upserts that are due per second, evenly spaced."""
    seconds: float = 30.0
    """Of each phase in which queries or upserts run."""
    threads: int = 2
    """That one query may use."""
    writers: int = 4
    """Threads that upsert; each row is a transaction of its own."""
    buckets: int = 4
    """Tablets of nyala's table."""
    durability: Durability = "fsync"
    new_share: float = 0.05
    """Of the upserts that bring a key that is not there."""
    seed: int = 1


class Writer(Protocol):
    """One thread's way to an engine."""

    def upsert(self, row: Row) -> None:
        """Insert a row or replace the one that has its key, in a transaction of its own; durable when it returns."""

    def close(self) -> None:
        """Let go of the engine."""


class Engine(Protocol):
    """A store with an SQL engine under test."""

    name: ClassVar[str]
    """As `--engines` has it."""

    @staticmethod
    def missing() -> str | None:
        """What is not installed and how to install it; None where the engine can be made."""

    def __init__(self, home: Path, setting: Setting) -> None:
        """`home` is an empty directory for the engine's files. Nothing is started."""

    def load(self, source: Path) -> None:
        """Start, make the table lineitem with its primary key, and fill it with the Parquet file `source`, so that
        queries and upserts find it as the engine's users would have it."""

    def query(self, text: str) -> Sequence[Row]:
        """All rows of a query's answer. Called by one thread."""

    def writer(self) -> Writer:
        """A writer for one thread."""

    def version(self) -> str:
        """Name and version."""

    def close(self) -> None:
        """End everything that `load` started."""


@dataclass(frozen=True, slots=True)
class Upserts:
    """The upserts of one phase."""

    asked: int
    """That were due in it."""
    done: int
    seconds: float
    """From the first one's due time to the last one's end."""
    latencies: Latencies
    """From the due times. Those that had not begun when the phase ended count with what they had waited until then."""

    @property
    def per_second(self) -> float:
        return self.done / self.seconds


@dataclass(slots=True)
class EngineRun:
    """What one engine did."""

    version: str
    queries: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """Milliseconds of each run of each of `QUERIES`, by phase (`ALONE`, `TOGETHER`, `AFTERWARDS`)."""
    upserts: dict[str, Upserts] = field(default_factory=dict)
    """By phase (`ALONE`, `TOGETHER`)."""
    checked: int = 0
    """Answers of Q1 that were held against what a consistent snapshot could have shown."""
    inconsistent: list[str] = field(default_factory=list)
    """What was wrong with those that were none."""


@dataclass(frozen=True, slots=True)
class Found:
    """What `measure` found, by engine."""

    setting: Setting
    rows: int
    """Of lineitem, before the upserts."""
    runs: dict[str, EngineRun] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Why, for engines that are not on this machine."""
