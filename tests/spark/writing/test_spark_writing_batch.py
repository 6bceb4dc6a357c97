"""Batch writes by Spark's own road: operations, modes, tasks and jobs that fail, a tablet server that dies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nyala
import pyarrow as pa
import pytest
from nyala.driver.connection import Connection
from nyala.spark import workers
from nyala.spark.writing.batch import TableWriter, TaskMessage
from nyala.spark.writing.jobs import Jobs, State
from nyala.spark.writing.tasks import write_task
from nyala.testing import MiniCluster
from pyspark.sql.types import StructType
from spark_writing_support import staging_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANY = 150_000
"""Rows of a partition that do not fit into a commit message."""
TABLE = "CREATE TABLE t (k BIGINT PRIMARY KEY, v STRING) DISTRIBUTE BY HASH (k) INTO 3 BUCKETS"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Connection, str]]:
    """A store of this process, and the URL by which others reach it."""
    with nyala.connect(tmp_path / "store") as connection:
        connection.serve()
        connection.execute(TABLE)
        yield connection, str(tmp_path / "store")


def save(frame: DataFrame, url: str, mode: str = "append", **options: Any) -> None:
    frame.write.format("nyala").mode(mode).options(url=url, **{"dbtable": "t", **options}).save()


def rows_and_sum(connection: Connection, table: str = "t") -> tuple[int, int]:
    """Number of rows and the sum of their keys; asserts that each value belongs to its key."""
    found = connection.execute(
        f"SELECT count(*), sum(k), count(CASE WHEN v = 'v' || CAST(k AS STRING) THEN 1 END) FROM {table}"
    ).fetchone()
    assert found is not None
    assert found[0] == found[2]
    return int(found[0]), int(found[1] or 0)


def of_range(count: int, start: int = 0) -> tuple[int, int]:
    return count, sum(range(start, start + count))


def keyed(spark: SparkSession, start: int, end: int, partitions: int = 2) -> DataFrame:
    return spark.range(start, end, 1, partitions).selectExpr("id AS k", "'v' || id AS v")


def failing(frame: DataFrame, attempts: int) -> DataFrame:
    """The same rows, but the first `attempts` attempts of each task fail near their end."""

    def half(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        rows = 0
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if rows > 100_000 and context.attemptNumber() < attempts:
                raise RuntimeError("this attempt fails")

    return frame.mapInArrow(half, frame.schema)


def test_operations_and_modes_of_one_table(spark: SparkSession, served: tuple[Connection, str]) -> None:
    connection, url = served
    save(keyed(spark, 0, 100), url)
    assert rows_and_sum(connection) == of_range(100)
    with pytest.raises(Exception, match=r"AlreadyPresent.*k = 99"):
        save(keyed(spark, 99, 200), url)
    assert rows_and_sum(connection) == of_range(100)
    save(spark.range(50).selectExpr("id AS K", "CAST(NULL AS STRING) AS V"), url, operation="upsert")
    assert connection.execute("SELECT count(*) FROM t WHERE v IS NULL").fetchone() == (50,)
    save(spark.range(50).selectExpr("id AS k"), url, operation="delete", staged="true")
    assert rows_and_sum(connection) == of_range(50, 50)
    save(keyed(spark, 40, 60), url, operation="insert_ignore", staged="false")
    assert rows_and_sum(connection) == of_range(60, 40)
    save(keyed(spark, 80, 180), url, mode="overwrite")
    assert rows_and_sum(connection) == of_range(100, 80)
    spark.sql(f"CREATE OR REPLACE TEMP VIEW target USING nyala OPTIONS (url '{url}', dbtable 't', operation 'upsert')")
    spark.sql("INSERT INTO target SELECT id AS k, 'v' || id AS v FROM range(170, 190)")
    assert rows_and_sum(connection) == of_range(110, 80)
    assert staging_tables(connection) == []


def test_a_table_is_made_of_the_columns_and_wrong_ones_are_refused_before_any_task(
    spark: SparkSession, served: tuple[Connection, str]
) -> None:
    connection, url = served
    frame = spark.sql("SELECT DATE'2026-01-01' AS Day, 1.5BD AS price, 'x' AS name, CAST(NULL AS TIMESTAMP) AS at")
    save(frame, url, dbtable="made", primaryKey="name, Day", distributeBy="HASH (day) INTO 2 BUCKETS")
    assert [str(column.type) for column in connection.table("made").columns] == [
        "STRING",
        "DATE",
        "DECIMAL(2,1)",
        "TIMESTAMP",
    ]
    assert connection.table("made").key == ("name", "day")
    assert connection.execute("SELECT count(*) FROM made").fetchone() == (1,)
    wrong = {
        r"UnknownColumn.*column w": spark.sql("SELECT 1 AS k, 2 AS w"),
        r"NotNullViolation.*lacks column k": spark.sql("SELECT 'x' AS v"),
        r"TypeMismatch.*column v.*STRING": spark.sql("SELECT 1 AS k, 2 AS v"),
        r"NotSupportedError.*column v holds bare NULLs": spark.sql("SELECT 1 AS k, NULL AS v"),
    }
    for message, rows in wrong.items():
        with pytest.raises(Exception, match=message):
            save(rows, url, **({"dbtable": "untyped", "primaryKey": "k"} if "bare" in message else {}))
    with pytest.raises(Exception, match=r"InterfaceError.*staged=false"):
        save(keyed(spark, 0, 1), url, staged="false")
    save(spark.sql("SELECT 1 AS k, NULL AS v"), url)
    assert connection.execute("SELECT * FROM t").fetchall() == [(1, None)]


def test_a_table_that_was_made_anew_a_moment_ago_is_the_one_that_is_written(served: tuple[Connection, str]) -> None:
    connection, url = served
    schema = StructType().add("k", "long").add("v", "string")
    rows = [pa.record_batch({"k": [1], "v": ["v1"]})]
    for job in range(3):
        writer = TableWriter({"url": url, "dbtable": "t"}, schema, overwrite=False)
        task = TaskMessage(write_task(workers.connection(url), writer._plan, 0, job, iter(rows)))
        # By now this process's Spark workers know the catalog, and look again after a second.
        connection.execute("DROP TABLE t")
        connection.execute(TABLE)
        writer.commit([task])
        assert rows_and_sum(connection) == (1, 1)


def test_a_key_is_written_once_whatever_fails(spark: SparkSession, served: tuple[Connection, str]) -> None:
    connection, url = served
    rows = keyed(spark, 0, MANY, partitions=1)
    with pytest.raises(Exception, match="this attempt fails"):
        save(failing(rows, attempts=3), url, idempotencyKey="nightly")
    assert rows_and_sum(connection) == (0, 0)
    assert staging_tables(connection) == []
    record = Jobs(connection).find("nightly")
    assert record is not None
    assert record.state is State.ABORTED
    save(failing(rows, attempts=1), url, idempotencyKey="nightly")
    assert rows_and_sum(connection) == of_range(MANY)
    assert staging_tables(connection) == []
    save(keyed(spark, MANY, MANY + 10), url, idempotencyKey="nightly")
    assert rows_and_sum(connection) == of_range(MANY)
    with pytest.raises(Exception, match=r"InterfaceError.*belongs to a job with operation=insert"):
        save(rows, url, idempotencyKey="nightly", operation="upsert")


def test_a_tablet_server_that_dies_costs_no_row(spark: SparkSession, tmp_path: Path) -> None:
    with (
        MiniCluster(tservers=3, directory=tmp_path / "cluster") as cluster,
        nyala.connect(cluster.url) as connection,
    ):
        connection.execute(TABLE)

        def kill() -> None:
            cluster.wait_until(lambda: staging_tables(connection) != [], "tasks write into a staging table")
            cluster.kill(cluster.leader(staging_tables(connection)[0]))

        killer = threading.Thread(target=kill)
        killer.start()
        save(slow(keyed(spark, 0, 2 * MANY)), cluster.url)
        killer.join()
        assert rows_and_sum(connection) == of_range(2 * MANY)
        # The catalog that this process knows may be a second old.
        cluster.wait_until(lambda: staging_tables(connection) == [], "the staging table is dropped")


def slow(frame: DataFrame) -> DataFrame:
    """The same rows, the last of them some seconds after the first."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        for batch in batches:
            time.sleep(0.25)
            yield batch

    return frame.mapInArrow(wait, frame.schema)
