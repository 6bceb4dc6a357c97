"""The stream sink: whatever fails between a batch and its checkpoint, its rows are there once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nyala
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nyala.driver.connection import Connection
from nyala.spark.writing import stream
from nyala.spark.writing.jobs import JobRecord, Jobs, State
from nyala.spark.writing.operations import Operation
from spark_writing_support import staging_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with nyala.connect(tmp_path / "store") as connection:
        connection.serve()
        connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v STRING) DISTRIBUTE BY HASH (k) INTO 3 BUCKETS")
        yield connection


def faulty_source(folder: Path) -> Any:
    """A data source whose sink fails once before it publishes a batch, and once after it has published the next."""
    from nyala.spark.source.data_source import NyalaDataSource
    from nyala.spark.writing.stream import StreamSink

    before, after = str(folder / "before"), str(folder / "after")

    # Made here, so that Spark's processes get the classes themselves and need not find this file.
    class FaultySink(StreamSink):
        def commit(self, messages: Any, batchId: int) -> None:
            from pathlib import Path

            if batchId == 1 and not Path(before).exists():
                Path(before).touch()
                raise RuntimeError("before it publishes")
            super().commit(messages, batchId)
            if batchId == 2 and not Path(after).exists():
                Path(after).touch()
                raise RuntimeError("after it has published")

    class FaultySource(NyalaDataSource):
        @classmethod
        def name(cls) -> str:
            return "faulty_nyala"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return FaultySink(self.options, schema, overwrite)

    return FaultySource


def test_a_query_that_starts_again_leaves_one_copy(spark: SparkSession, connection: Connection, tmp_path: Path) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    # The second batch is too large for a commit message.
    bounds = [0, 1_000, 101_000, 101_500, 102_000]
    for place, (start, end) in enumerate(pairwise(bounds)):
        rows = {"k": pa.array(range(start, end)), "v": [f"batch {place}"] * (end - start)}
        pq.write_table(pa.table(rows), inputs / f"{place}.parquet")
    spark.dataSource.register(faulty_source(tmp_path))

    def run() -> None:
        query = (
            spark.readStream.schema("k long, v string")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(inputs))
            .writeStream.format("faulty_nyala")
            .options(url=str(tmp_path / "store"), dbtable="t", checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    for failure in ("before it publishes", "after it has published"):
        with pytest.raises(Exception, match=failure):
            run()
    run()
    # The operation is insert: a row that came twice would have been an error.
    assert connection.execute("SELECT count(*), sum(k) FROM t").fetchone() == (102_000, sum(range(102_000)))
    assert staging_tables(connection) == []
    records = Jobs(connection).all("stream ")
    assert [(record.state, record.rows) for record in records] == [
        (State.PUBLISHED, rows) for rows in (1_000, 100_000, 500, 500)
    ]


def test_a_named_query_that_a_clock_triggers_follows_its_table(
    spark: SparkSession, connection: Connection, tmp_path: Path
) -> None:
    connection.execute("CREATE TABLE u (k BIGINT PRIMARY KEY, v STRING); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    options = {"url": str(tmp_path / "store"), "checkpointLocation": str(tmp_path / "checkpoint")}
    changes = spark.readStream.format("nyala").options(**options, dbtable="t", startingTimestamp="earliest").load()
    sink = (
        changes.select("k", "v")
        .writeStream.format("nyala")
        .queryName("copy")
        .trigger(processingTime="200 milliseconds")
    )
    query = sink.options(**options, dbtable="u", operation="upsert").start()
    try:
        for statement, expected in (
            ("SELECT 1", [(1, "a"), (2, "b")]),
            ("UPDATE t SET v = 'z' WHERE k = 1", [(1, "z"), (2, "b")]),
        ):
            connection.execute(statement)
            end = time.monotonic() + 120
            while connection.execute("SELECT * FROM u ORDER BY k").fetchall() != expected:
                assert query.isActive and time.monotonic() < end, query.exception()
                time.sleep(0.05)
    finally:
        query.stop()


def test_records_of_batches_that_cannot_come_again_are_forgotten() -> None:
    with nyala.connect() as connection:
        jobs = Jobs(connection)
        states = {3: State.PUBLISHED, 4: State.PUBLISHING, 20: State.PUBLISHED}
        for query in ("one", "other"):
            for batch, state in states.items():
                jobs.change(None, JobRecord(stream.batch_job(query, batch), "t", Operation.INSERT, state, "me"))
        stream._forget(jobs, "one", 20)
        assert {record.job for record in jobs.all()} == {
            "stream one 20",
            "stream one 4",
            *(stream.batch_job("other", batch) for batch in states),
        }
