"""Bulk loads into a cluster: all or nothing, as far as one client can ensure it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from cluster_support_client import once
from nyala import errors
from nyala.cluster.client.loads import cluster_loads as loads
from nyala.cluster.client.loads import load_runs
from nyala.cluster.client.writes import routing
from nyala.cluster.wire.messages import methods
from nyala.driver.connection import Connection
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, TableDefinition, non_unique_key
from nyala.model.store import Op, WriteBatch
from nyala.model.types import INT, STRING

SCHEMA = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", STRING, True)), 1)
PARTITIONS = PartitionSchema((HashRule(("k",), 3),))


@pytest.fixture
def table(client):
    return client.create_table(TableDefinition("t", SCHEMA, PARTITIONS))


@pytest.fixture(params=["in memory", "spilled"])
def small_pieces(request, monkeypatch):
    """Few rows in a piece; runs in memory or in a file."""
    monkeypatch.setattr(routing, "PIECE_ROWS", 10)
    if request.param == "spilled":
        monkeypatch.setattr(loads.ClusterLoader.__init__, "__defaults__", (512,))


def some(keys: Any) -> pa.RecordBatch:
    keys = list(keys)
    return pa.record_batch({"k": pa.array(keys, pa.int32()), "v": [f"v{k}" for k in keys]})


def test_all_rows_are_there_once(client, table, cluster, small_pieces):
    with client.bulk_loader(table) as loader:
        for start in range(0, 300, 60):
            loader.append(some(range(start + 59, start - 1, -1)))
        assert not cluster.requests(methods.Write), "nothing is written before the end"
        assert loader.finish() == 300
    assert client.statistics(table).row_count == 300
    assert client.read_row(table, (299,), ("v",)) == ("v299",)
    assert not any(request.check_only for _, request in cluster.requests(methods.Write)), "the tablets were empty"
    with pytest.raises(errors.InterfaceError, match="has ended"):
        loader.append(some([1]))


def test_keys_that_are_there_refuse_the_load(client, table, cluster, small_pieces):
    client.write(table, WriteBatch(some([77])))
    with client.bulk_loader(table) as loader:
        loader.append(some(range(300)))
        with pytest.raises(errors.AlreadyPresent, match=r"key \(k = 77\) is in table t already"):
            loader.finish()
    assert client.statistics(table).row_count == 1


def test_keys_that_come_twice_refuse_the_load(client, table, cluster, small_pieces):
    for twice in ([*range(50), 7], [*range(50), *range(49, 0, -1)]):
        loader = client.bulk_loader(table)
        with pytest.raises(errors.AlreadyPresent, match=r"is in this load of table t twice"), loader:
            for start in range(0, len(twice), 20):
                loader.append(some(twice[start : start + 20]))
            loader.finish()
    assert not cluster.requests(methods.Write)


def test_what_was_written_is_deleted_where_a_piece_is_refused(client, table, cluster, small_pieces):
    def race(address: str, request: Any, when: str) -> None:
        if isinstance(request, methods.Write) and not request.check_only and when == "before":
            if not any(asked.op == Op.INSERT for _, asked in cluster.requests(methods.WriteRow)):
                cluster.faults.remove(race)
                cluster.database.write_row(cluster.database.table("t"), Op.INSERT, {"k": 250, "v": "mine"})

    cluster.faults.append(race)
    with client.bulk_loader(table) as loader:
        loader.append(some(range(300)))
        with pytest.raises(errors.AlreadyPresent, match=r"k = 250"):
            loader.finish()
    assert client.statistics(table).row_count == 1
    assert client.read_row(table, (250,), ("v",)) == ("mine",)


def test_rows_of_others_stay_where_nobody_knows_what_became_of_a_piece(
    client, table, cluster, small_pieces, monkeypatch
):
    write = loads.ClusterLoader._write_piece

    def write_piece(loader: loads.ClusterLoader, stored: load_runs.StoredPiece) -> None:
        keys = loader._runs.read(stored).column("k").to_pylist()
        if 77 in keys:  # it is not written, and another client comes first
            cluster.database.write_row(cluster.database.table("t"), Op.INSERT, {"k": 77, "v": "mine"})
            raise errors.DeadlineExceeded("no leader")
        write(loader, stored)

    monkeypatch.setattr(loads.ClusterLoader, "_write_piece", write_piece)
    with client.bulk_loader(table) as loader:
        loader.append(some(range(300)))
        with pytest.raises(errors.DeadlineExceeded) as failure:
            loader.finish()
    assert any("their outcome is unknown" in note for note in failure.value.__notes__)
    assert client.read_row(table, (77,), ("v",)) == ("mine",)
    assert client.statistics(table).row_count == 1


def test_a_lost_answer_loads_nothing_twice(client, table, cluster, small_pieces):
    cluster.faults.append(once(methods.Write, errors.ServerUnavailable("broke off"), "after", times=5))
    with client.bulk_loader(table) as loader:
        loader.append(some(range(300)))
        assert loader.finish() == 300
    assert client.statistics(table).row_count == 300


def test_rows_that_cannot_be_are_refused_at_once(client, table):
    loader = client.bulk_loader(table)
    with pytest.raises(errors.NotNullViolation):
        loader.append(pa.record_batch({"k": pa.array([None], pa.int32())}))
    with pytest.raises(errors.InterfaceError):
        loader.finish()


def test_keys_that_are_not_unique_get_numbers(client, cluster, small_pieces):
    schema = non_unique_key([ColumnSchema("k", INT, False), ColumnSchema("v", STRING, True)], 1)
    table = client.create_table(TableDefinition("n", schema, PARTITIONS))
    with client.bulk_loader(table) as loader:
        loader.append(some([1, 2, 1, 2, 3] * 20))
        loader.append(some([1, 2, 1, 2, 3] * 20))
        assert loader.finish() == 200
    assert client.statistics(table).row_count == 200


def test_runs_come_back_from_the_file(table):
    runs = load_runs.LoadRuns(table)
    runs.add("one", [some([3, 1]), some([2])], spill=True)
    runs.add("one", [some([9, 8])], spill=True)
    runs.add("two", [some([5])], spill=False)
    assert [runs.read(piece).column("k").to_pylist() for piece in runs.in_turn()] == [[1, 2, 3], [5], [8, 9]]
    runs.check_unique()
    runs.add("one", [some([2, 20])], spill=True)
    with pytest.raises(errors.AlreadyPresent):
        runs.check_unique()
    runs.close()


def test_sql_loads_through_it(connection: Connection, small_pieces):
    connection.execute("CREATE TABLE s (k INT PRIMARY KEY, d DECIMAL(30, 2)) DISTRIBUTE BY HASH (k) INTO 3 BUCKETS")
    rows = [(k, Decimal(k) / 4) for k in range(100)]
    connection.load(
        "s", pa.table({"k": [k for k, _ in rows], "d": pa.array([d for _, d in rows], pa.decimal128(30, 2))})
    )
    connection.execute("CREATE TABLE copy PRIMARY KEY (k) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS AS SELECT k, d FROM s")
    assert connection.execute("SELECT * FROM copy ORDER BY k").fetchall() == rows
    with pytest.raises(errors.AlreadyPresent):
        connection.load("s", pa.table({"k": [100, 5]}))
    assert connection.execute("SELECT count(*) FROM s").fetchall() == [(100,)]
