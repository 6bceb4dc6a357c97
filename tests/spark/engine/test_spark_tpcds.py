"""TPC-DS through the engine: Spark's answers are those of nyala's own executor.

All 103 statements take some minutes, so those here are chosen: each form of window, grouping, set operation and join
that TPC-DS has, and all that divide DECIMALs by averages. `NYALA_TPCDS=all` runs every one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import nyala
import pytest
from nyala.bench.suites.answers import difference, take_apart
from nyala.bench.suites.queries.tpcds_queries import NAMES, text
from nyala.bench.suites.queries.tpcds_schema import generate, load
from nyala.driver.connection import Connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHOSEN = ("1", "4", "5", "8", "14a", "16", "36", "39a", "47", "51", "53", "57", "63", "72", "87", "89", "93", "97")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("spark-tpcds")
    with nyala.connect(place / "store", threads=2) as connection:
        load(connection, generate(place / "parquet"))
    return place / "store"


@pytest.fixture(scope="module")
def connection(spark: SparkSession, directory: Path) -> Iterator[Connection]:
    with nyala.connect(directory, threads=2) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES if os.environ.get("NYALA_TPCDS") == "all" else CHOSEN)
def test_spark_answers_as_nyala_does(connection: Connection, name: str) -> None:
    statement = take_apart(text(name))
    expected = connection.execute(statement.unlimited).fetchall()
    connection.execute("SET engine = spark")
    try:
        found = connection.execute(text(name)).fetchall()
    finally:
        connection.execute("SET engine = nyala")
    assert difference(statement, found, expected) is None
