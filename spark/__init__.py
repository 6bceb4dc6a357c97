"""Spark integration: tables as a data source, queries planned by nyala and executed by Spark, pipelines.

    nyala.spark.register(spark)                          spark.read.format("nyala").option("url", ...)
    nyala.spark.table(spark, "orders", url)              a DataFrame of one table, pruned and filtered
    nyala.spark.sql(spark, "SELECT ...", url)            a query that nyala plans and Spark executes
    nyala.spark.jdbc_partitions(spark, url, "orders")    arguments of spark.read.jdbc: tasks by tablet, one snapshot
    nyala.spark.jdbc_snapshot(spark, url, "orders")      a table for Spark's source jdbc, as of one time
    nyala.spark.session()                                a new Spark session, for programs without one
    nyala.spark.url(directory)                           URL by which tasks reach a directory that this process has open

PySpark is loaded by the first call of one of them, not by importing this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Imported first, so that the name then refers to the function: the module of that name is not loaded again.
from .session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..driver.tables.timestamps import Moment

__all__ = ["jdbc_partitions", "jdbc_snapshot", "register", "session", "sql", "table", "url"]


def register(spark: SparkSession) -> None:
    """Registers the format `nyala` with a session: `spark.read.format("nyala")`, `CREATE TABLE ... USING nyala`.

    If nyala is installed as a package, Spark finds it without this call.
    """
    from .source.data_source import NyalaDataSource

    spark.dataSource.register(NyalaDataSource)


def table(
    spark: SparkSession,
    name: str,
    url: str | Path | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    at: Moment | None = None,
) -> DataFrame:
    """A table, or some of its columns and rows, as a DataFrame; see `nyala.spark.source.table_frame.table`."""
    from .source import table_frame

    return table_frame.table(spark, name, url, columns, where, at)


def sql(spark: SparkSession, text: str, url: str | Path | None = None, at: Moment | None = None) -> DataFrame:
    """A query that nyala plans and Spark executes, as a DataFrame; see `nyala.spark.engine.frames.sql`."""
    from .engine import frames

    return frames.sql(spark, text, url, at)


def jdbc_partitions(
    spark: SparkSession,
    url: str,
    table: str,
    properties: Mapping[str, str] | None = None,
    at: Moment | None = None,
    pieces: int = 1,
) -> dict[str, Any]:
    """The arguments of `spark.read.jdbc` that read a table by tablets, at one snapshot; see `nyala.spark.jdbc`."""
    from . import jdbc

    return jdbc.jdbc_partitions(spark, url, table, properties, at, pieces)


def jdbc_snapshot(
    spark: SparkSession, url: str, table: str, properties: Mapping[str, str] | None = None, at: Moment | None = None
) -> str:
    """A table as of one time, for Spark's source `jdbc`; see `nyala.spark.jdbc`."""
    from . import jdbc

    return jdbc.jdbc_snapshot(spark, url, table, properties, at)


def url(target: str | Path) -> str:
    """The URL by which Spark's tasks reach a store, for the option `url`.

    A directory that this process has open is served from now on until it is closed; another may be served by its
    process.
    """
    from ..driver.stores.served_directory import reachable

    return reachable(target)
