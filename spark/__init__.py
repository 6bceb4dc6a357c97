"""Spark integration: tables as a data source, queries planned by nyala and executed by Spark, pipelines.

    nyala.spark.register(spark)                          spark.read.format("nyala").option("url", ...)
    nyala.spark.table(spark, "orders", url)              a DataFrame of one table, pruned and filtered
    nyala.spark.sql(spark, "SELECT ...", url)            a query that nyala plans and Spark executes
    nyala.spark.jdbc_partitions(spark, url, "orders")    arguments of spark.read.jdbc: tasks by tablet, one snapshot
    nyala.spark.jdbc_snapshot(spark, url, "orders")      a table for Spark's source jdbc, as of one time
    nyala.spark.session()                                a new Spark session, for programs without one
    nyala.spark.url(directory)                           URL by which tasks reach a directory that this process has open
    nyala.spark.token(url, user, password)               for the option `token`, in place of user and password

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

__all__ = ["jdbc_partitions", "jdbc_snapshot", "register", "session", "sql", "table", "token", "url"]


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


def token(
    target: str | Path, user: str | None = None, password: str | None = None, seconds: float = 86_400.0, **options: str
) -> str:
    """A token for the option `token`, by which programs without the password work as a user.

    Parameters
    ----------
    target : str or Path
        The store.
    user, password : str, optional
        By default those of the URL, else NYALA_USER and NYALA_PASSWORD.
    seconds : float
        The seconds for which it is valid; a day at most. It ends before that when the user gets another password.
    **options
        `tls_ca`, `tls_cert` and `tls_key` of a cluster with TLS, as for `nyala.connect`.

    Raises
    ------
    LoginNeeded
        If no user is named, so that the process itself has all rights, or the store has no users.
    InvalidPassword
        If name or password are wrong.
    """
    from ..errors import LoginNeeded
    from . import workers

    named = {name: value for name, value in {"user": user, "password": password}.items() if value is not None}
    store = workers.store(target, **named, **options)
    found: str = workers.task_access(target, {}, store, seconds)[1].get(workers.TOKEN, b"").hex()
    if not found:
        raise LoginNeeded("a token is a user's: name one with its password")
    return found
