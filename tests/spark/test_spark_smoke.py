"""Each road between Spark and a store, once: what any PySpark that pyproject.toml allows has to do.

CI runs this module with the oldest of them and with the newest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import nyala
import nyala.spark
import pytest
from nyala.spark.pipelines.export import export
from nyala.spark.pipelines.ingest import ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# PySpark 4.1 leaves sockets to the collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.slow,
]


def test_tables_queries_streams_and_pipelines(spark: SparkSession, tmp_path: Path) -> None:
    with nyala.connect(tmp_path / "store") as connection:
        url = connection.serve()
        options = {"url": url, "dbtable": "t"}
        connection.execute(
            "CREATE TABLE t (k INT PRIMARY KEY, d DECIMAL(9,2), at TIMESTAMP, s STRING) "
            "DISTRIBUTE BY HASH (k) INTO 2 BUCKETS"
        )
        connection.execute("INSERT INTO t SELECT n, n, TIMESTAMP '2020-01-01', 'x' FROM generate_series(1, 9) AS g(n)")
        read = spark.read.format("nyala").options(**options)
        assert read.load().count() == read.option("preferTimestampNTZ", "false").load().count() == 9
        assert nyala.spark.table(spark, "t", url, ["k"], "k > 5").count() == 4
        assert nyala.spark.sql(spark, "SELECT s, sum(d) AS d FROM t GROUP BY s", url).collect()[0].d == 45

        rows = spark.range(10, 12).selectExpr("CAST(id AS INT) AS k", "'y' AS s")
        rows.write.format("nyala").mode("append").options(**options, operation="upsert").save()
        (tmp_path / "in.csv").write_text('k,s\n20,"a\nb"\n')
        ingest(spark, tmp_path / "in.csv", tmp_path / "store", "t")
        assert connection.execute("SELECT s FROM t WHERE k >= 10 ORDER BY k").fetchall() == [("y",), ("y",), ("a\nb",)]
        assert export(spark, tmp_path / "store", "t", tmp_path / "out.parquet").rows == 12

        connection.execute("CREATE TABLE u (k INT PRIMARY KEY, s STRING)")
        changes = spark.readStream.format("nyala").options(**options, startingTimestamp="earliest").load()
        for expected in (12, 13):
            sink = changes.select("k", "s").writeStream.format("nyala").queryName("copy").trigger(availableNow=True)
            sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint"))
            sink.options(url=url, dbtable="u", operation="upsert").start().awaitTermination()
            assert connection.execute("SELECT count(*) FROM u").fetchone() == (expected,)
            connection.execute("INSERT INTO t (k) VALUES (30)") if expected == 12 else None
