"""A session of Spark Connect, with a server of its own: the data source works, what needs Spark's JVM says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nyala
import pytest
from spark_session import LEAN

for package in ("grpc", "grpc_status", "google.rpc", "zstandard"):
    pytest.importorskip(package, reason="pyspark[connect]")

SCRIPT = """
import json, os, sys
from pathlib import Path

os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_TESTING="1")  # any port
from pyspark.sql import SparkSession
import nyala.spark
from nyala import NotSupportedError
from nyala.spark import java
from nyala.spark.pipelines.backup import backup
from nyala.spark.pipelines.export import export
from nyala.spark.pipelines.ingest import ingest
from nyala.spark.pipelines.restore import restore

url, place = sys.argv[1], Path(sys.argv[2])
said = {}

def refused(name, call):
    try:
        call()
    except NotSupportedError as error:
        said[name] = str(error)

builder = SparkSession.builder.remote("local[1]").config("spark.driver.memory", "1g")
with java.environment():
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
nyala.spark.register(spark)
options = {"url": url, "dbtable": "t"}
spark.createDataFrame([(3, "c")], "k long, v string").write.format("nyala").mode("append").options(**options).save()
said["rows"] = sorted(row.k for row in spark.read.format("nyala").options(**options).load().collect())
said["table"] = [row.k for row in nyala.spark.table(spark, "t", url, ["k"], "k > 2").collect()]
query = spark.read.format("nyala").options(url=url, query="SELECT count(*) AS n FROM t").load()
said["query"] = query.collect()[0].n
refused("nyala.spark.sql", lambda: nyala.spark.sql(spark, "SELECT 1 AS one", url))
(place / "in.csv").write_text("k,v\\n9,z\\n")
refused("ingest", lambda: ingest(spark, place / "in.csv", url, "t"))
refused("export", lambda: export(spark, url, "t", place / "out.parquet"))
refused("backup", lambda: backup(spark, url, place / "backup"))
refused("restore", lambda: restore(spark, place / "backup", url))
with nyala.connect(url, engine="spark") as connection:
    refused("engine = spark", lambda: connection.execute("SELECT count(*) FROM t").fetchall())
spark.stop()
print(json.dumps(said))
"""


@pytest.mark.slow
def test_the_data_source_works_and_what_needs_the_jvm_says_so(tmp_path: Path) -> None:
    with nyala.connect(tmp_path / "store") as connection:
        connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v STRING)")
        connection.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        command = [sys.executable, "-W", "ignore", "-c", SCRIPT, connection.serve(), str(tmp_path)]
        environment = {**os.environ, "JDK_JAVA_OPTIONS": LEAN["spark.driver.extraJavaOptions"]}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout.splitlines()[-1])
        assert (said.pop("rows"), said.pop("table"), said.pop("query")) == ([1, 2, 3], [3], 3)
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (3,)
    assert set(said) == {"nyala.spark.sql", "ingest", "export", "backup", "restore", "engine = spark"}
    for name, message in said.items():
        assert message.startswith(f"{name} needs a Spark session in this process, and this one is of Spark Connect")
