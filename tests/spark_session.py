"""The one Spark session of all tests. Those in tests/spark have the fixture `spark` from their conftest; a test
elsewhere imports it: `from spark_session import spark`. However many import it, there is one session."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN_WARNINGS = "ignore:PySpark does not yet fully support pandas:FutureWarning"
"""PySpark says so wherever it touches Arrow, although no pandas is in play. For `pytest.mark.filterwarnings`."""
LEAN = {
    "spark.master": "local[2,3]",
    "spark.driver.memory": "1g",
    # Half the time of a JVM that lives for a minute goes into compiling what never gets hot.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # Expressions are compiled all the same; one class for all operators of a stage pays for itself with many rows.
    "spark.sql.codegen.wholeStage": "false",
}

_held: list[SparkSession] = []
"""The session, once for each fixture that holds it: one that a module imports is another fixture to pytest."""


@contextmanager
def setting(session: SparkSession, name: str, value: str) -> Iterator[None]:
    """The session with a setting, which it does not keep: the other tests share it, in whatever order they run."""
    session.conf.set(name, value)
    try:
        yield
    finally:
        session.conf.unset(name)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with the data source `nyala`; each process of pytest-xdist has its own, and its own directories."""
    from nyala.spark import session, workers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's imports
        _held.append(_held[0] if _held else session(2, **LEAN))
    yield _held[0]
    if len(_held) == 1:
        workers.close()
        _held[0].stop()
    _held.pop()
