"""Data shared by the parts of this benchmark."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import field
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from ...model.lazy_dataclass import dataclass
from ...tpch.queries import QUERIES as TPCH

TABLE: Final = "lineitem"
KEY: Final = ("l_orderkey", "l_linenumber")
PRICING_SUMMARY: Final = TPCH[0].text
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """One query. `averages` are the 0-based columns of its answer that engines may round differently."""

    name: str
    what: str
    text: str
    averages: frozenset[int] = frozenset()


QUERIES: Final = (
    Query("Q1", "scan of 6 columns (TPC-H Q1)", PRICING_SUMMARY, frozenset({6, 7, 8})),
    Query("Q2", "scan of no columns", f"SELECT count(*) FROM {TABLE}"),
    Query("Q3", "non-key predicate", f"SELECT count(*) FROM {TABLE} WHERE l_quantity = 48"),
    Query("Q4", "key look-up, no such key", f"SELECT count(*) FROM {TABLE} WHERE l_orderkey = 2000"),
    Query("Q4b", "key look-up", f"SELECT count(*) FROM {TABLE} WHERE l_orderkey = 2016"),
)
"""The paper's queries, and a look-up with a result.

TPC-H uses the first eight of every 32 order keys, and 2000 is not one of them.
"""


@dataclass(frozen=True, slots=True)
class EngineJob:
    """The parameters of an engine; picklable."""

    source: Path
    """The Parquet file of lineitem."""
    create_table: str
    """Its DDL for nyala; the others take columns and types from the file."""
    home: Path
    """A directory for the engine's files: empty, or with those that it has loaded."""
    threads: int
    """Maximum number of threads of one query."""
    server: str = ""
    """The connection string of a server, for an engine that has one."""


class Engine(Protocol):
    """A store under test, in one process and one thread: `open`, then `load` or queries, at the end `close`."""

    name: ClassVar[str]
    """The name in `--engines`."""
    settings: ClassVar[str]
    """A description of its configuration for the report."""

    def __init__(self, job: EngineJob) -> None:
        """Opens nothing."""

    def open(self) -> None:
        """Opens the engine to load into the job's home, or to query the table that another process has loaded there."""

    def load(self) -> bool:
        """Creates the table from the job's source, with the usual key and statistics; all rows are on disk when it
        returns.

        Returns False if there is nothing to load.
        """

    def run(self, query: Query) -> list[Row]:
        """The whole answer, in the engine's own types."""

    def converted(self, query: Query, rows: list[Row]) -> list[Row]:
        """The same answer in texts, integers, decimals, and floats for averages. Not timed."""

    def disk_bytes(self) -> int:
        """The size of the loaded table with its indexes, after `open`."""

    def version(self) -> str:
        """The engine's name and version."""

    def close(self) -> None:
        """Closes the store, opened or not."""


@dataclass(slots=True)
class Timing:
    """One query on one engine: seconds of all runs, including the first.

    `trouble` describes a wrong or missing answer, which ends the runs.
    """

    seconds: list[float] = field(default_factory=list)
    trouble: str | None = None

    @property
    def median(self) -> float | None:
        """The median; None if there is trouble: a wrong answer has no time."""
        return None if self.trouble or not self.seconds else statistics.median(self.seconds)


@dataclass(slots=True)
class Outcome:
    """One engine."""

    version: str
    settings: str
    load_seconds: float | None
    """None if there is nothing to load."""
    disk_bytes: int
    queries: dict[str, Timing] = field(default_factory=dict)
    """By the query's name."""


@dataclass(slots=True)
class LineitemResult:
    """A whole run. `left_out` has the reason for each engine that did not take part."""

    rows: int
    threads: int
    runs: int
    engines: dict[str, Outcome] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: dict[str, Any]) -> LineitemResult:
        """The inverse of `dataclasses.asdict`."""
        engines = {
            name: Outcome(**{**outcome, "queries": {query: Timing(**t) for query, t in outcome["queries"].items()}})
            for name, outcome in data["engines"].items()
        }
        return cls(**{**data, "engines": engines})

    @property
    def troubles(self) -> list[str]:
        """A sentence for each answer that is wrong or missing."""
        return [
            f"{engine}, {query}: {timing.trouble}"
            for engine, outcome in self.engines.items()
            for query, timing in outcome.queries.items()
            if timing.trouble
        ]


def difference(query: Query, ours: Sequence[Row], theirs: Sequence[Row]) -> str | None:
    """The first difference of two answers, in a few words; None if they are equal.

    Averages may differ by a relative 1e-12; everything else must be equal, sums of decimals to their last digit.
    """
    if len(ours) != len(theirs):
        return f"{len(ours)} rows instead of {len(theirs)}"
    for number, (mine, other) in enumerate(zip(ours, theirs), 1):
        if len(mine) != len(other):
            return f"{len(mine)} columns instead of {len(other)}"
        for column, (a, b) in enumerate(zip(mine, other)):
            if not (_close(a, b) if column in query.averages else a == b):
                return f"row {number}, column {column + 1}: {a} instead of {b}"
    return None


def _close(a: float | Decimal, b: float | Decimal) -> bool:
    return math.isclose(float(a), float(b), rel_tol=1e-12)
