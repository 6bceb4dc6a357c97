"""TPC-H's queries by psycopg against the same queries in the process that has the store open, for `bench.doors`.

Both sides have a store of their own with the same files, since a directory belongs to one process, and both return rows
of Python values. Rounds alternate. Before a query is measured, both sides run it several times.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from ..driver.connection import connect
from ..model.lazy_dataclass import dataclass
from ..tpch.check import same_value
from ..tpch.load import load
from ..tpch.queries import QUERIES
from . import postgres
from .door_servers import nyala_server

WARM_UPS: Final = 3
"""Rounds of each query that are not measured."""
MOST_RATIO: Final = 1.1
"""Maximum ratio of the time by psycopg to the time embedded."""


@dataclass(slots=True)
class QueryTimes:
    """Seconds of one query, one number per round; True if both returned the same rows."""

    name: str
    psycopg: list[float] = field(default_factory=list)
    embedded: list[float] = field(default_factory=list)
    rows: int = 0
    is_equal: bool = True

    @property
    def ratio(self) -> float:
        """Of the medians."""
        return statistics.median(self.psycopg) / statistics.median(self.embedded)


def mean_ratio(found: Sequence[QueryTimes]) -> float:
    """The geometric mean of the ratios."""
    return statistics.geometric_mean(query.ratio for query in found)


def measure(sf: float, data: Path, work: Path, runs: int) -> list[QueryTimes]:
    """Runs the 22 queries on both sides.

    Parameters
    ----------
    sf : float
        The scale factor.
    data : Path
        The directory with the Parquet files.
    work : Path
        The directory for the two stores.
    runs : int
        Measured rounds of each query.
    """
    load(work / "embedded", sf, data=data)
    shutil.copytree(work / "embedded", work / "served")
    with (
        connect(work / "embedded") as embedded,
        nyala_server(work / "served") as server,
        postgres.connect(server.dsn, autocommit=True) as client,
    ):
        sides: tuple[Callable[[str], list[Any]], ...] = (
            lambda text: embedded.execute(text).fetchall(),
            lambda text: client.execute(text).fetchall(),
        )
        return [_measured(f"q{query.number}", query.text, sides, runs) for query in QUERIES]


def _measured(name: str, text: str, sides: Sequence[Callable[[str], list[Any]]], runs: int) -> QueryTimes:
    found = QueryTimes(name)
    ours, theirs = (run(text) for run in sides)
    found.rows, found.is_equal = len(ours), are_equal(ours, theirs)
    for number in range(WARM_UPS + runs):
        for run, seconds in zip(sides, (found.embedded, found.psycopg), strict=True):
            began = time.perf_counter()
            run(text)
            if number >= WARM_UPS:
                seconds.append(time.perf_counter() - began)
    return found


def are_equal(ours: Sequence[tuple[Any, ...]], theirs: Sequence[tuple[Any, ...]]) -> bool:
    """True if the rows are the same in any order; floats may differ as sums in another order do."""
    return len(ours) == len(theirs) and all(
        len(one) == len(other) and all(map(same_value, one, other))
        for one, other in zip(sorted(ours, key=repr), sorted(theirs, key=repr), strict=True)
    )
