"""Reads while things fail: a tablet server, a task. And of a directory, and how scan tokens are shared out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import nyala
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.spark import table, url
from nyala.spark.source import scanning
from nyala.spark.source.partitions import shared_out
from nyala.testing import MiniCluster
from pyspark.errors import AnalysisException

ROWS, WIDTH = 12_000, 1_000


@pytest.fixture(scope="module")
def cluster():
    with MiniCluster(tservers=3) as made, nyala.connect(made.url) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, s STRING) DISTRIBUTE BY HASH (k) INTO 6 BUCKETS")
        texts = [f"{k:04}" * (WIDTH // 4) for k in range(ROWS)]
        connection.load("t", pa.table({"k": pa.array(range(ROWS), pa.int32()), "s": texts}))
        yield made


def _frames(spark, url, where="true"):
    """The table by both roads, in two tasks of three tablets and in six of one; batches of few rows."""
    options = {"url": url, "dbtable": "t", "where": where, "numPartitions": "2", "fetchsize": "500"}
    return spark.read.format("nyala").options(**options).load(), table(spark, "t", url, where=where)


def _check(rows):
    found = sorted((row.k, row.s) for row in rows)
    assert found == [(k, f"{k:04}" * (WIDTH // 4)) for k in range(ROWS)]


def test_a_server_that_dies_in_the_middle_of_a_read_changes_no_row(spark, cluster, tmp_path):
    """Each task says that it has rows, and goes on when the server is dead: its other tablets come from others."""
    folder = str(tmp_path)

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 0:
                (Path(folder) / "reading").touch()
                until = time.monotonic() + 60
                while not (Path(folder) / "killed").exists() and time.monotonic() < until:
                    time.sleep(0.05)
            yield batch

    def kill():
        while not (tmp_path / "reading").exists():
            time.sleep(0.05)
        cluster.kill("tserver-2")
        (tmp_path / "killed").touch()

    killer = threading.Thread(target=kill, name="nyala-test-killer", daemon=True)
    killer.start()
    first, second = _frames(spark, cluster.url)
    _check(first.mapInArrow(wait, first.schema).collect())
    killer.join()
    assert second.count() == ROWS  # planned while one server is dead
    cluster.start("tserver-2")


def test_a_task_that_fails_once_is_run_again(spark, cluster):
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        for batch in batches:
            yield batch
            if TaskContext.get().attemptNumber() == 0:
                raise ValueError("on purpose")

    for frame in _frames(spark, cluster.url):
        _check(frame.mapInArrow(fail, frame.schema).collect())


def test_a_directory_is_read_through_the_process_that_has_it_open(spark, tmp_path):
    with nyala.connect(tmp_path / "store") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        connection.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
        read = spark.read.format("nyala").option("dbtable", "t")
        with pytest.raises(AnalysisException, match="StoreLocked"):  # another process cannot open it
            read.load(str(tmp_path / "store"))
        assert table(spark, "t", tmp_path / "store", ["v"], "k = 2").collect() == [("b",)]
        for place in (url(tmp_path / "store"), str(tmp_path / "store")):  # it is served by now
            assert sorted(read.load(place).collect()) == [(1, "a"), (2, "b"), (3, None)]


# ---- without Spark ---------------------------------------------------------------------------------------------------


class Token:
    def __init__(self, rows):
        self.estimated_rows = rows


@given(st.lists(st.integers(0, 1000), max_size=30), st.integers(1, 8))
def test_tokens_are_shared_out_evenly(rows, most):
    tokens = [Token(count) for count in rows]
    shares = shared_out(tokens, most)
    assert sorted(map(id, (token for share in shares for token in share))) == sorted(map(id, tokens))
    assert len(shares) == min(most, len(tokens)) and all(shares)
    weights = [sum(token.estimated_rows for token in share) for share in shares]
    assert max(weights, default=0) <= min(weights, default=0) + max(rows, default=0) + len(rows)


@settings(max_examples=examples(40))
@given(st.lists(st.integers(0, 20_000), max_size=6), st.integers(500, 30_000))
def test_batches_are_neither_tiny_nor_larger_than_asked_for(sizes, most):
    total = sum(sizes)
    whole = pa.record_batch([pa.array(range(total), pa.int64())], ["x"])
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    pieces = (whole.slice(start, size) for start, size in zip(starts, sizes))
    found = list(scanning.rebatched(pieces, most))
    assert pa.Table.from_batches(found, whole.schema) == pa.Table.from_batches([whole])
    assert all(0 < batch.num_rows <= most for batch in found)
    least = min(scanning.FEW_ROWS, most)
    for one, other in pairwise(found):  # two small ones in a row could have been one
        assert one.num_rows >= least or one.num_rows + other.num_rows > most
