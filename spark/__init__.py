"""Spark: tables as a data source, queries planned here and run there, pipelines.

    nyala.spark.register(spark)                          spark.read.format("nyala").option("url", ...)
    nyala.spark.table(spark, "orders", url)              a DataFrame of one table, pruned and filtered
    nyala.spark.sql(spark, "SELECT ...", url)            a query that nyala plans and Spark runs
    nyala.spark.session()                                a Spark session, for whoever has none
    nyala.spark.url(directory)                           what tasks reach a directory by that this process has open

PySpark is loaded when one of them is called, and not with this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

# First of all, so that the name means the function: the module of that name is loaded now and never again.
from .session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..driver.tables.timestamps import Moment

__all__ = ["register", "session", "sql", "table", "url"]


def register(spark: SparkSession) -> None:
    """Make the format `nyala` known to a session: `spark.read.format("nyala")`, `CREATE TABLE ... USING nyala`. Where
    nyala is installed as a package, Spark finds it unasked."""
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
    """A query that nyala plans and Spark runs, as a DataFrame; see `nyala.spark.engine.frames.sql`."""
    from .engine import frames

    return frames.sql(spark, text, url, at)


def url(target: str | Path) -> str:
    """The URL by which Spark's tasks reach a store: of a directory that this process has open, which is served from now
    on until it is closed, or that another process serves. For the option `url`."""
    from ..driver.stores.served_directory import reachable

    return reachable(target)
