"""Compares Spark over nyala with Spark on Parquet: reads and ingest of lineitem; one session, in turn.

| step | nyala | peer |
|---|---|---|
| filter | four columns under Q6's conditions, summed by Spark | the same on the Parquet file |
| numbers | seven numeric columns of all rows, summed by Spark | the same on the Parquet file |
| ingest | the Parquet file into an empty table: `nyala spark ingest` | |

The reads use `nyala.spark.table` and the data source (`spark.read.format("nyala")`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table as TextTable

from ..driver.connection import connect
from ..model.lazy_dataclass import dataclass
from ..spark import session, table
from ..spark.pipelines.ingest import ingest
from .work_directory import work_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLE: Final = "lineitem"
CONDITION: Final = (
    "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' "
    "AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
)
READS: Final[Mapping[str, tuple[tuple[str, ...], str | None, float]]] = {
    "filter": (("l_shipdate", "l_discount", "l_quantity", "l_extendedprice"), CONDITION, 1.0),
    "numbers": (
        (
            "l_orderkey",
            "l_partkey",
            "l_suppkey",
            "l_linenumber",
            "l_quantity",
            "l_extendedprice",
            "l_discount",
        ),
        None,
        3.0,
    ),
}
"""Columns, condition, and the target: the maximum ratio to the time on Parquet."""
WANTED_INGEST: Final = 100_000
"""Target in rows per second."""


@dataclass(slots=True)
class SparkResult:
    """Seconds of each step by reader, and the rows of an ingest."""

    reads: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    ingest_rows: int = 0
    ingest_seconds: list[float] = field(default_factory=list)


def measure(store: Path, parquet: Path, create: str, *, runs: int, threads: int, work: Path | None) -> SparkResult:
    """Runs all steps.

    Parameters
    ----------
    store : Path
        A store with lineitem in it.
    parquet : Path
        The same rows.
    create : str
        The CREATE TABLE of the target table of the ingest.
    """
    spark = session(threads)
    result = SparkResult()
    try:
        for name, (columns, condition, _) in READS.items():
            reads: dict[str, Callable[[], DataFrame]] = {
                "parquet": lambda c=columns, w=condition: _parquet(spark, parquet, c, w),  # type: ignore[misc]
                "table()": lambda c=columns, w=condition: table(spark, TABLE, store, c, w),  # type: ignore[misc]
                "format": lambda c=columns, w=condition: _source(spark, store, c, w),  # type: ignore[misc]
            }
            result.reads[name] = {who: [] for who in reads}
            for turn in range(runs + 1):
                for who, read in reads.items():
                    began = time.perf_counter()
                    _summed(read()).collect()
                    if turn:  # the first one warms up
                        result.reads[name][who].append(time.perf_counter() - began)
        for _ in range(runs):
            _ingest(spark, parquet, create, result, work)
    finally:
        spark.stop()
    return result


def _parquet(spark: Any, file: Path, columns: tuple[str, ...], condition: str | None) -> DataFrame:
    frame = spark.read.parquet(str(file))
    return (frame if condition is None else frame.where(condition)).select(*columns)


def _source(spark: Any, store: Path, columns: tuple[str, ...], condition: str | None) -> DataFrame:
    reader = spark.read.format("nyala").option("url", str(store)).option("dbtable", TABLE)
    reader = reader.option("columns", ",".join(columns))
    return (reader if condition is None else reader.option("where", condition)).load()


def _summed(frame: DataFrame) -> DataFrame:
    """An aggregate that reads every value."""
    from pyspark.sql import functions as F

    sums = [F.max(c) if c.endswith("date") else F.sum(c) for c in frame.columns]
    return frame.agg(F.count(F.lit(1)), *sums)


def _ingest(spark: Any, parquet: Path, create: str, found: SparkResult, work: Path | None) -> None:
    with work_directory(work) as directory:
        path = directory / "store"
        with connect(path) as connection:
            connection.execute(create)
            began = time.perf_counter()
            found.ingest_rows = ingest(spark, parquet, path, TABLE).rows
            found.ingest_seconds.append(time.perf_counter() - began)


def show(found: SparkResult, console: Console) -> None:
    """Prints medians and ratios."""
    shown = TextTable(title="seconds, medians", title_justify="left")
    for name in ("step", "parquet", "table()", "ratio", "format", "ratio ", "required"):
        shown.add_column(name, justify="left" if name == "step" else "right")
    for name, times in found.reads.items():
        middle = {who: statistics.median(seconds) for who, seconds in times.items()}
        base = middle["parquet"]
        ratios = [(f"{middle[who]:.2f}", f"{middle[who] / base:.2f}") for who in ("table()", "format")]
        shown.add_row(name, f"{base:.2f}", *ratios[0], *ratios[1], f"{READS[name][2]:g}")
    console.print(shown)
    rate = found.ingest_rows / statistics.median(found.ingest_seconds)
    console.print(f"ingest: {found.ingest_rows:,} rows, {rate:,.0f} rows/s (required {WANTED_INGEST:,})")
