"""The benchmarks of `nyala bench all`, their order and their command lines.

A `Benchmark` is a command of `nyala` that saves its numbers by --json, with a function that makes a `Section` of them.
The storage engine comes first, then SQL, many clients, the cluster, and Spark last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from ...model.lazy_dataclass import dataclass
from . import sections, sections_cluster, sections_doors, sections_sql
from .model import Section

Needs: TypeAlias = Literal["nothing", "parquet", "store"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The parameters of all benchmarks."""

    sf: float
    threads: int
    work: Path
    """The directory of the data, of incomplete results, and of temporary files. An absolute path."""
    quick: bool = False
    """True for a trial: small, and once."""
    records: int = 1_000_000
    """Number of records of YCSB."""
    kudu: Path | None = None
    """The directory of real Kudu's jars."""
    seconds: float = 20.0
    """Seconds of each workload of YCSB. A minute for each of ten, on seven stores, would be more than an hour."""

    @property
    def parquet(self) -> Path:
        """TPC-H as Parquet files."""
        return self.work / f"tpch-parquet-sf{self.sf:g}"

    @property
    def store(self) -> Path:
        """TPC-H in a store."""
        return self.work / f"tpch-sf{self.sf:g}"

    def runs(self, count: int) -> Sequence[str]:
        """The option for the number of runs; one in a trial."""
        return ("--runs", "1" if self.quick else str(count))

    @property
    def files(self) -> Sequence[str]:
        """The options of benchmarks that read lineitem's Parquet file."""
        return ("--sf", f"{self.sf:g}", "--data-dir", str(self.parquet))


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark. `command` begins with "nyala" or a program, without --json, whose path is appended."""

    name: str
    """The name for its files, and for --only and --skip."""
    command: Callable[[Settings], Sequence[str]]
    section: Callable[[Any], Section]
    needs: Needs = "nothing"
    missing: Callable[[Settings], str | None] = lambda settings: None
    """The reason why it cannot run on this machine; None if it can."""


def data_command(settings: Settings) -> Sequence[str]:
    """The command that creates the Parquet files and the store."""
    return ("nyala", "tpch", "load", str(settings.store), *settings.files)


def _no_spark(settings: Settings) -> str | None:
    if find_spec("pyspark") is None:
        return "pyspark is not installed; try: pip install 'nyala[spark]'"
    return None


def _no_clients(settings: Settings) -> str | None:
    for name in ("psycopg", "adbc_driver_postgresql", "adbc_driver_flightsql", "psutil"):
        if find_spec(name) is None:
            return f"{name} is not installed; try: pip install 'nyala[bench]'"
    return None


def _no_duckdb(settings: Settings) -> str | None:
    return None if find_spec("duckdb") is not None else "duckdb is not installed; try: pip install 'nyala[bench]'"


def _no_kudu(settings: Settings) -> str | None:
    if settings.kudu is None:
        return "--kudu names no directory with Kudu's jars; `nyala bench kudu --help` says more"
    return None if find_spec("psutil") is not None else "psutil is not installed; try: pip install 'nyala[bench]'"


def _load(settings: Settings) -> Sequence[str]:
    return ("nyala", "bench", "load", *settings.files, *settings.runs(3))


def _storage(settings: Settings) -> Sequence[str]:
    return ("nyala", "bench", "storage", *settings.files, *settings.runs(5))


def _points(settings: Settings) -> Sequence[str]:
    return ("nyala", "bench", "points", *settings.files, *settings.runs(3))


def _maintenance(settings: Settings) -> Sequence[str]:
    return ("nyala", "bench", "maintenance", "--hours", "0.2" if settings.quick else "2")


def _plan(settings: Settings) -> Sequence[str]:
    return ("nyala", "bench", "plan", str(settings.store), *settings.runs(5))


def _tpch(settings: Settings) -> Sequence[str]:
    return ("nyala", "tpch", "compare", str(settings.store), *settings.runs(5), "--threads", str(settings.threads))


def _lineitem(settings: Settings) -> Sequence[str]:
    return ("nyala", "bench", "lineitem", *settings.files, *settings.runs(10))


def _driver(settings: Settings) -> Sequence[str]:
    return ("nyala", "bench", "driver", *settings.runs(5))


def _ycsb(settings: Settings) -> Sequence[str]:
    size = ("--records", str(settings.records), "--seconds", f"{settings.seconds:g}")
    small = ("--records", "5000", "--ops", "1000", "--seconds", "3")
    return ("nyala", "bench", "ycsb", "--distribution", "both", *(small if settings.quick else size))


def _mixed(settings: Settings) -> Sequence[str]:
    small = ("--seconds", "3") if settings.quick else ()
    return ("nyala", "bench", "mixed", *settings.files, *small)


def _transactions(settings: Settings) -> Sequence[str]:
    small = ("--seconds", "0.5") if settings.quick else ()
    return ("nyala", "bench", "transactions", *settings.runs(3), *small)


def _doors(settings: Settings) -> Sequence[str]:
    small = ("--rows", "10000", "--seconds", "0.3")
    large = ("--rows", "6000000")
    files = settings.files
    return ("nyala", "bench", "doors", *files, *settings.runs(5), *(small if settings.quick else large))


def _cluster(settings: Settings) -> Sequence[str]:
    return ("nyala", "bench", "cluster", *settings.runs(3))


def _cluster_tpch(settings: Settings) -> Sequence[str]:
    return ("nyala", "bench", "cluster", str(settings.store), *settings.runs(15))


def _kudu(settings: Settings) -> Sequence[str]:
    small = (
        "--rows",
        "20000",
        "--singles",
        "200",
        "--records",
        "2000",
        "--ops",
        "500",
        "--seconds",
        "3",
        "--sf",
        "0.01",
    )
    jars = ("--kudu", str(settings.kudu))
    return ("nyala", "bench", "kudu", *jars, *settings.runs(3), *(small if settings.quick else ()))


def _spark(settings: Settings) -> Sequence[str]:
    return ("nyala", "bench", "spark", str(settings.store), *settings.runs(3))


def _spark_tpch(settings: Settings) -> Sequence[str]:
    few = ("--queries", "1,6") if settings.quick else ()
    peers = ("--peers", "spark-nyala,spark-parquet")
    return ("nyala", "tpch", "compare", str(settings.store), *peers, *few, *settings.runs(1))


def _suites(settings: Settings) -> Sequence[str]:
    small = ("--rows", "20000", "--scale", "0.01") if settings.quick else ()
    return ("nyala", "bench", "suites", *small, *settings.runs(5), "--threads", str(settings.threads))


def _lineitem_section(data: Any) -> Section:
    from ..lineitem.report import section

    return section(data)


def _ycsb_section(data: Any) -> Section:
    from ..ycsb.report import section

    return section(data)


def _mixed_section(data: Any) -> Section:
    from ..mixed.report import section

    return section(data)


def _transactions_section(data: Any) -> Section:
    from ..transactions.report import section

    return section(data)


def _kudu_section(data: Any) -> Section:
    from ..kudu.report import section

    return section(data)


def _suites_section(data: Any) -> Section:
    from ..suites.report import section

    return section(data)


SUITE: Final = (
    Benchmark("load", _load, sections.load, "parquet", _no_duckdb),
    Benchmark("storage", _storage, sections.storage, "parquet", _no_duckdb),
    Benchmark("points", _points, sections.points, "parquet", _no_duckdb),
    Benchmark("maintenance", _maintenance, sections.maintenance),
    Benchmark("plan", _plan, sections_sql.plan, "store"),
    Benchmark("tpch", _tpch, sections_sql.tpch, "store"),
    Benchmark("lineitem", _lineitem, _lineitem_section, "parquet"),
    Benchmark("suites", _suites, _suites_section, missing=_no_duckdb),
    Benchmark("driver", _driver, sections.driver, missing=_no_duckdb),
    Benchmark("ycsb", _ycsb, _ycsb_section),
    Benchmark("mixed", _mixed, _mixed_section, "parquet"),
    Benchmark("transactions", _transactions, _transactions_section),
    Benchmark("doors", _doors, sections_doors.doors, "parquet", _no_clients),
    Benchmark("cluster", _cluster, sections_cluster.cluster),
    Benchmark("cluster-tpch", _cluster_tpch, sections_cluster.cluster_tpch, "store"),
    Benchmark("kudu", _kudu, _kudu_section, missing=_no_kudu),
    Benchmark("spark", _spark, sections_cluster.spark, "store", _no_spark),
    Benchmark("spark-tpch", _spark_tpch, sections_sql.spark_tpch, "store", _no_spark),
)


def named(section: Section, name: str) -> Section:
    """The section under its benchmark's name, which is unique."""
    return replace(section, name=name)
