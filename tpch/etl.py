"""Loads dbgen's raw files into typed tables with Spark: `nyala spark tpch-etl`.

lineitem.tbl, or lineitem.tbl.1 ...     1|155190|7706|1|17|21168.23|0.04|...|egular courts above the|
    │  spark.pipelines.ingest: fields as texts, cast to the table's types, bad rows to their file
    ▼
lineitem, as `nyala tpch load` creates it, its row count checked against the scale factor
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..backup.running import Handler
from ..command_line import Outcome
from ..driver.connection import connect
from ..driver.stores.open_stores import is_cluster
from ..driver.stores.served_directory import reachable
from ..errors import DataError, InterfaceError, OperationalError, ProgrammingError
from ..model.lazy_dataclass import dataclass
from ..model.version import __version__
from ..spark.pipelines.ingest import IngestResult, ingest
from ..spark.pipelines.jobs import Pipeline
from . import manifest
from .schema import LINEITEM, TABLES, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINEITEMS: Final = {0.01: 60_175, 0.1: 600_572, 1: 6_001_215, 10: 59_986_052, 30: 179_998_372, 100: 600_037_902}
"""Rows of lineitem by scale factor, as dbgen generates them."""
_MOST_ITEMS: Final = 7
"""Lines per order."""


@dataclass(frozen=True, slots=True)
class EtlResult:
    """The result: each table's ingest, the scale factor by the row counts, seconds."""

    tables: Mapping[str, IngestResult]
    scale_factor: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


def etl_pipeline(arguments: argparse.Namespace) -> Pipeline:
    """The pipeline of `nyala spark tpch-etl`."""

    def work(spark: SparkSession, report: Handler) -> Outcome:
        result = etl(
            spark,
            arguments.raw,
            arguments.store,
            scale_factor=arguments.sf,
            buckets=arguments.buckets,
            replace=arguments.replace,
            rejects=arguments.rejects,
            max_rejects=arguments.max_rejects,
            progress=report,
        )
        lines = [line for table in result.tables.values() for line in table.describe()]
        return Outcome(result.to_dict(), [*lines, f"scale factor {result.scale_factor:g}, {result.seconds:.1f} s"])

    return work


def etl(
    spark: SparkSession,
    raw: Path,
    target: str | Path,
    *,
    scale_factor: float | None = None,
    buckets: int = 4,
    replace: bool = False,
    rejects: Path | None = None,
    max_rejects: int | None = None,
    progress: Handler | None = None,
) -> EtlResult:
    """Loads TPC-H's raw files into its eight tables.

    Parameters
    ----------
    raw : Path
        The directory of the files, whole or split.
    target : str or Path
        The store: the URL of a cluster or a directory, which is created if it does not exist.
    scale_factor : float, optional
        The expected scale factor; by default derived from the number of customers.
    buckets : int
        Tablets per large table.
    replace : bool
        Drops tables of an earlier load instead of raising an error.
    rejects : Path, optional
        The file for bad rows; each table has its own, with its name before the suffix. Without it, a bad row is an
        error.

    Raises
    ------
    OperationalError
        If a table has no file.
    ProgrammingError
        If a table already exists.
    DataError
        If rows are bad, or the number of rows differs from that of the scale factor.
    """
    started = time.monotonic()
    if buckets < 1:
        raise InterfaceError(f"--buckets {buckets}: at least 1 is needed")
    files = {spec.name: raw_files(raw, spec.name) for spec in TABLES}
    found: dict[str, IngestResult] = {}
    with connect(reachable(target, create=True)) as connection:
        there = {table.name for table in connection.store.tables()}
        present = [spec.name for spec in TABLES if spec.name in there]
        if present and not replace:
            raise ProgrammingError(
                f"{target} has the TPC-H table{'s' if len(present) > 1 else ''} {', '.join(present)} already; "
                "use --replace to load again"
            )
        manifest.remove(_named(target), connection)
        for name in present:
            connection.execute(f"DROP TABLE {name}")
        for spec in TABLES:
            connection.execute(spec.create_table(buckets))
            columns = raw_columns(spec)
            found[spec.name] = ingest(
                spark,
                str(raw / f"{spec.name}.tbl*"),
                target,
                spec.name,
                format="csv",
                # A quotation mark is an ordinary character in these files.
                options={"sep": "|", "header": "false", "quote": "", "escape": ""},
                mapping={name: f"_c{place}" for place, name in enumerate(columns)},
                skip=[f"_c{len(columns)}"] if _ends_with_separator(files[spec.name][0]) else [],
                rejects=None if rejects is None else rejects.with_name(f"{rejects.stem}.{spec.name}{rejects.suffix}"),
                max_rejects=max_rejects,
                progress=progress,
            )
        rows = {name: result.rows for name, result in found.items()}
        rejected = {name: sum(result.rejected.values()) for name, result in found.items()}
        scale = scale_factor or (rows["customer"] + rejected["customer"]) / 150_000
        check_counts({name: rows[name] + rejected[name] for name in rows}, scale)
        loaded = manifest.Manifest(scale, buckets, str(raw.resolve()), rows, __version__)
        loaded.write(_named(target), connection)
    return EtlResult(found, scale, time.monotonic() - started)


def _named(target: str | Path) -> manifest.Target:
    return str(target) if is_cluster(target) else Path(target)


def raw_files(raw: Path, table: str) -> list[Path]:
    """A table's files; raises `OperationalError` if there are none."""
    files = sorted(raw.glob(f"{table}.tbl*"))
    if not files:
        raise OperationalError(f"there is no {table}.tbl in {raw}; dbgen creates it")
    return files


def raw_columns(spec: TableSpec) -> list[str]:
    """A table's columns in the order of its raw file: the specification's."""
    names = [name for name, _ in spec.columns]
    if spec is LINEITEM:
        names.remove("l_linenumber")
        names.insert(3, "l_linenumber")
    return names


def _ends_with_separator(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.readline().rstrip(b"\r\n").endswith(b"|")


def check_counts(rows: Mapping[str, int], scale_factor: float) -> None:
    """Raises `DataError` if the numbers of rows differ from those of the scale factor."""
    for spec in TABLES:
        expected = spec.expected_rows(scale_factor)
        if expected is None:
            expected = LINEITEMS.get(scale_factor, rows[spec.name])
        if rows[spec.name] != expected:
            raise DataError(
                f"the files of {spec.name} hold {rows[spec.name]:,} rows; scale factor {scale_factor:g} has "
                f"{expected:,}"
            )
    if not rows["orders"] <= rows["lineitem"] <= _MOST_ITEMS * rows["orders"]:
        raise DataError(f"the files hold {rows['lineitem']:,} line items of {rows['orders']:,} orders")
