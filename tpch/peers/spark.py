"""Spark twice, in one JVM child process: on the Parquet files, and over the tablets of the compared store.

On the files, sqlglot translates the queries to Spark's SQL, a cost of the first run only; over the store, nyala plans
them (`engine="spark"`). Results are returned as Arrow in both cases. The session is `nyala.spark.session`: a quarter of
the machine's memory, the requested number of threads and shuffle partitions, no user interface; all else is Spark's
default.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlglot

from ...driver.connection import Connection, connect
from ...errors import InterfaceError
from ...model.version import __version__
from ...spark import java, session
from ..generate import parquet_file
from ..schema import TABLES
from .peer import missing_module


class _OneSession:
    """The session that both share; it is stopped when both have released it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session: Any = None
        self._holders = 0

    def acquire(self, threads: int) -> Any:
        with self._lock:
            if self._session is None:
                self._session = session(threads)
            self._holders += 1
            return self._session

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders:
                self._session.stop()
                self._session = None


_shared = _OneSession()


class _OnSpark:
    """The common requirements: PySpark, Java, the session."""

    def __init__(self) -> None:
        self._session: Any = None

    def missing(self) -> str | None:
        missing = missing_module("pyspark", "Spark", "spark")
        if missing is None and not java.is_there():
            return java.MISSING
        return missing

    def close(self) -> None:
        if self._session is not None:
            self._session = None
            _shared.release()


class Spark(_OnSpark):
    """Spark on the Parquet files. The first run of the first query includes the warm-up of the JVM."""

    name = "spark-parquet"

    @property
    def version(self) -> str:
        return str(self._session.version)

    def prepare(self, data: Path, threads: int) -> None:
        self._session = _shared.acquire(threads)
        for spec in TABLES:
            self._session.read.parquet(str(parquet_file(data, spec.name))).createOrReplaceTempView(spec.name)

    def run(self, text: str) -> pa.Table:
        table: pa.Table = self._session.sql(spark_sql(text)).toArrow()
        return table


class SparkOverStore(_OnSpark):
    """Spark over the tables that `nyala tpch load` filled, through its own connection.

    Attributes
    ----------
    database : Path or str, optional
        The store; the caller sets it before `prepare`.
    """

    name = "spark-nyala"

    def __init__(self) -> None:
        super().__init__()
        self.database: Path | str | None = None
        self._connection: Connection | None = None

    @property
    def version(self) -> str:
        return f"{self._session.version}, nyala {__version__}"

    def prepare(self, data: Path, threads: int) -> None:
        if self.database is None:
            raise InterfaceError("spark-nyala reads a loaded store, and none is named")
        self._session = _shared.acquire(threads)
        self._connection = connect(self.database, threads=threads, engine="spark")

    def run(self, text: str) -> pa.Table:
        assert self._connection is not None, "prepare must be called first"
        return self._connection.execute(text).arrow()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        super().close()


@cache
def spark_sql(text: str) -> str:
    """A query in Spark's SQL.

    >>> spark_sql("SELECT substring(a from 1 for 2) FROM t ORDER BY a DESC")
    'SELECT SUBSTRING(a, 1, 2) FROM t ORDER BY a DESC NULLS FIRST'
    """
    (statement,) = sqlglot.transpile(text, read="postgres", write="spark")
    return str(statement)
