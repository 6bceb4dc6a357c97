"""Spark's roads to lineitem: its source `jdbc` through the doors and on PostgreSQL, and nyala's own, in one session.

    postgresql            spark.read.format("jdbc") on PostgreSQL: the base of the ratios
    jdbc, flight jdbc     the same through the doors of PostgreSQL and Flight SQL
    postgresql catalog    Spark's catalog of a JDBC database, which pushes aggregates, limits and first rows
    catalog               the same through the door of PostgreSQL
    format                spark.read.format("nyala")
    sql                   nyala.spark.sql

The roads take turns within each round, in another order each time: what follows a road with Python workers waits for
the end of these. The drivers are those of Maven Central, which Spark fetches.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rich.console import Console
from rich.table import Table as TextTable

from ..spark import session, sql
from ..spark.jdbc import DRIVERS
from ..tpch.generate import parquet_file
from . import door_transfers
from .door_servers import Server, nyala_server, postgresql_server
from .postgres import connect, is_installed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKAGES: Final = "org.postgresql:postgresql:42.7.4,org.apache.arrow:flight-sql-jdbc-driver:18.3.0"
BASE: Final = "postgresql"
QUERIES: Final[Mapping[str, str]] = {
    "count": "SELECT count(*) FROM {t}",
    "q1": "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), avg(l_discount), count(*) "
    "FROM {t} WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus",
    "q6": "SELECT sum(l_extendedprice * l_discount) FROM {t} WHERE l_shipdate >= DATE '1994-01-01' "
    "AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    "join": "SELECT count(*), sum(a.l_quantity) FROM {t} a JOIN {t} b "
    "ON a.l_orderkey = b.l_orderkey AND a.l_linenumber = b.l_linenumber WHERE b.l_quantity < 3",
    "limit": "SELECT l_orderkey, l_comment FROM {t} LIMIT 100",
    "top": "SELECT l_orderkey, l_extendedprice FROM {t} ORDER BY l_extendedprice DESC LIMIT 10",
}
Times: TypeAlias = dict[str, dict[str, list[float]]]
"""Seconds by query and road."""
Run: TypeAlias = Callable[[str], "DataFrame"]


def measure(place: Path, parquet: Path, runs: int) -> Times:
    """Loads lineitem into both servers, and runs each query on each road.

    Parameters
    ----------
    place : Path
        A directory for the databases.
    parquet : Path
        The directory with TPC-H's Parquet files.
    runs : int
        Measured rounds; one before warms up.
    """
    with ExitStack() as stack:
        data = place / "lineitem.copy"
        door_transfers.write_lineitem(parquet_file(parquet, "lineitem"), data)
        servers = {"nyala": stack.enter_context(nyala_server(place / "spark-nyala"))}
        if is_installed():
            servers[BASE] = stack.enter_context(postgresql_server(place / "spark-postgresql"))
        for server in servers.values():
            door_transfers.copy_lineitem_in(server, data)
            with connect(server.dsn, autocommit=True) as connection:
                connection.execute("ANALYZE lineitem")
        settings: dict[str, Any] = {"spark.jars.packages": PACKAGES}
        spark = session(**settings)
        stack.callback(spark.stop)
        roads = _roads(spark, servers, place / "spark-nyala")
        found: Times = {query: {road: [] for road in roads} for query in QUERIES}
        order = random.Random(1)
        for query, text in QUERIES.items():
            for number in range(runs + 1):
                for road in order.sample(list(roads), len(roads)):
                    began = time.perf_counter()
                    roads[road](text).collect()
                    if number:
                        found[query][road].append(time.perf_counter() - began)
        return found


def _roads(spark: SparkSession, servers: Mapping[str, Server], directory: Path) -> dict[str, Run]:
    def over(relation: str) -> Run:
        return lambda text: spark.sql(text.format(t=relation))

    def of_source(format_: str, view: str, options: Mapping[str, str]) -> Run:
        spark.read.format(format_).options(dbtable="lineitem", **options).load().createOrReplaceTempView(view)
        return over(view)

    roads: dict[str, Run] = {}
    for name, server in servers.items():
        options = postgres_options(server.dsn)
        set_catalog(spark, f"{name}_catalog", options)
        roads |= {
            (BASE if name == BASE else "jdbc"): of_source("jdbc", f"{name}_jdbc", options),
            (f"{BASE} catalog" if name == BASE else "catalog"): over(f"{name}_catalog.public.lineitem"),
        }
    address = servers["nyala"].flight_sql.partition("://")[2]
    flight = {
        "url": f"jdbc:arrow-flight-sql://{address}?useEncryption=false",
        "driver": DRIVERS["jdbc:arrow-flight-sql:"],
    }
    roads["flight jdbc"] = of_source("jdbc", "flight_jdbc", flight)
    roads["format"] = of_source("nyala", "own_format", {"url": str(directory)})
    roads["sql"] = lambda text: sql(spark, text.format(t="lineitem"), directory)
    return roads


def postgres_options(dsn: str) -> dict[str, str]:
    """The options of Spark's source `jdbc` for a connection string of libpq."""
    words = dict(word.split("=", 1) for word in dsn.split())
    options = {
        "url": f"jdbc:postgresql://{words['host']}:{words['port']}/{words['dbname']}",
        "driver": DRIVERS["jdbc:postgresql:"],
        "user": words["user"],
    }
    return options | ({"password": words["password"]} if "password" in words else {})


def set_catalog(spark: SparkSession, name: str, options: Mapping[str, str]) -> None:
    """Gives a session a catalog of a JDBC database that pushes all but TABLESAMPLE, which nyala does not have."""
    entry = f"spark.sql.catalog.{name}"
    spark.conf.set(entry, "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog")
    pushed = dict.fromkeys(("pushDownAggregate", "pushDownLimit", "pushDownOffset"), "true")
    for option, value in {**options, **pushed, "pushDownTableSample": "false"}.items():
        spark.conf.set(f"{entry}.{option}", value)


def show(found: Times, console: Console) -> None:
    """Prints medians, and their ratios to PostgreSQL's."""
    roads = list(next(iter(found.values())))
    table = TextTable(title="Spark by several roads: seconds, medians", title_justify="left")
    table.add_column("")
    for road in roads:
        table.add_column(road, justify="right")
        if road != BASE:
            table.add_column("ratio", justify="right", style="dim")
    for query, times in found.items():
        middle = {road: statistics.median(seconds) for road, seconds in times.items()}
        cells: list[str] = []
        for road in roads:
            cells.append(f"{middle[road]:.3f}")
            if road != BASE:
                cells.append(f"{middle[road] / middle[BASE]:.2f}" if BASE in middle else "")
        table.add_row(query, *cells)
    console.print(table)
