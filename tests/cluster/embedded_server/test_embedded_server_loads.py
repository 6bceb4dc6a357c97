"""Bulk loads by clients of an embedded server: all rows at once or none, repeated messages, absent clients and
servers."""

from __future__ import annotations

import uuid

import nyala
import pyarrow as pa
import pytest
from embedded_server_support import ServedStore, ServeProcess
from nyala import errors
from nyala.cluster.client.loads.served_loads import ServedLoader
from nyala.cluster.client.writes import routing
from nyala.cluster.embedded_server import loads
from nyala.cluster.wire.messages.load_methods import AbandonLoad, FinishLoad, LoadRows, StartLoad
from nyala.cluster.wire.messages.methods import Call
from nyala.cluster.wire.rows.write_rows import rows_to_bytes
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, TableDefinition, non_unique_key
from nyala.model.types import INT, STRING

SCHEMA = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", STRING, True)), 1)
DEFINITION = TableDefinition("t", SCHEMA, PartitionSchema((HashRule(("k",), 3),)))


def some(*keys: int) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(keys, pa.int32()), "v": [f"v{k}" for k in keys]})


def keys_of(served_store: ServedStore) -> list[int]:
    return [k for (k,) in served_store.embedded().execute("SELECT k FROM t ORDER BY k").fetchall()]


def test_rows_are_there_all_at_once_and_what_the_client_reads_next_has_them(served_store, monkeypatch):
    monkeypatch.setattr(routing, "PIECE_ROWS", 10)
    client = served_store.client()
    table = client.create_table(DEFINITION)
    with client.bulk_loader(table) as loader:
        assert isinstance(loader, ServedLoader)
        for start in range(0, 300, 60):
            loader.append(some(*range(start + 59, start - 1, -1)))
            assert keys_of(served_store) == []
        assert served_store.server.status().details["loads"] == 1 and served_store.server.idle_seconds() < 0.1
        assert loader.finish() == 300
    assert client.read_row(table, (299,), ("v",)) == ("v299",)
    assert keys_of(served_store) == list(range(300))
    assert served_store.server.status().details["loads"] == 0
    with pytest.raises(errors.InterfaceError, match="has ended"):
        loader.append(some(1))


@pytest.mark.parametrize("there", [True, False])
def test_a_load_that_is_refused_leaves_nothing(served_store, there):
    client = served_store.client()
    table = client.create_table(DEFINITION)
    with client.bulk_loader(table) as loader:
        loader.append(some(7, 8))
        loader.finish()
    with client.bulk_loader(table) as loader:
        loader.append(some(*range(10, 200)))
        loader.append(some(1, 7) if there else some(1, 150))
        with pytest.raises(errors.AlreadyPresent, match=r"key \(k = (7|150)\)"):
            loader.finish()
    assert keys_of(served_store) == [7, 8]
    assert served_store.server.status().details["loads"] == 0


def test_a_bad_row_is_said_when_it_comes_and_ends_the_load(served_store):
    client = served_store.client()
    table = client.create_table(DEFINITION)
    with client.bulk_loader(table) as loader:
        loader.append(some(1))
        with pytest.raises(errors.NotNullViolation, match="column k"):
            loader.append(pa.record_batch({"k": pa.array([None], pa.int32())}))
        with pytest.raises(errors.InterfaceError, match="has ended"):
            loader.finish()
    with client.bulk_loader(table) as loader, pytest.raises(errors.UnknownColumn):
        loader.append(pa.record_batch({"k": pa.array([1], pa.int32()), "w": [1]}))
    assert keys_of(served_store) == [] and served_store.server.status().details["loads"] == 0


def test_rows_without_a_unique_key_are_numbered_by_the_owner(served_store):
    client = served_store.client()
    table = client.create_table(TableDefinition("t", non_unique_key(SCHEMA.columns, 1)))
    for _ in range(2):
        with client.bulk_loader(table) as loader:
            loader.append(pa.Table.from_batches([some(1, 1), some(2)]))
            assert loader.finish() == 3
    assert keys_of(served_store) == [1, 1, 1, 1, 2, 2]


def test_messages_that_come_twice_are_done_once(served_store):
    table = served_store.database.create_table(DEFINITION)
    start = StartLoad(load_id="x", table_id=table.id)
    first = LoadRows(load_id="x", number=1, rows=rows_to_bytes(some(1, 2)))
    second = LoadRows(load_id="x", number=2, rows=rows_to_bytes(some(3)))
    for request in (start, start, first, first, start, second, first):
        served_store.call(request)
    with pytest.raises(errors.ProtocolError, match="rows 3 of load x are missing"):
        served_store.call(LoadRows(load_id="x", number=4, rows=rows_to_bytes(some(5))))
    finish = FinishLoad(load_id="x", messages=2, call=Call(uuid.uuid4().hex, 1, 1, served_store.server.id))
    reply = served_store.call(finish)
    assert reply.applied == 3 and served_store.call(finish) == reply
    assert keys_of(served_store) == [1, 2, 3]
    served_store.call(AbandonLoad(load_id="x"))
    with pytest.raises(errors.OperationalError, match="there is no bulk load x"):
        served_store.call(second)


def test_a_load_lacks_no_message(served_store):
    table = served_store.database.create_table(DEFINITION)
    served_store.call(StartLoad(load_id="x", table_id=table.id))
    served_store.call(LoadRows(load_id="x", number=1, rows=rows_to_bytes(some(1))))
    with pytest.raises(errors.ProtocolError, match="has 1 of 2 messages"):
        served_store.call(FinishLoad(load_id="x", messages=2, call=Call(uuid.uuid4().hex, 1, 1)))


def test_loads_of_clients_that_are_gone_are_given_up(served_store, monkeypatch):
    client = served_store.client()
    table = client.create_table(DEFINITION)
    with client.bulk_loader(table) as loader:
        loader.append(some(1))
        served_store.server._loads.expire()
        loader.append(some(2))
        monkeypatch.setattr(loads, "IDLE_SECONDS", -1.0)
        served_store.server._loads.expire()
        with pytest.raises(errors.OperationalError, match="nothing of it was written"):
            loader.append(some(3))
    with client.bulk_loader(table):
        client.drop_table("t")
    with pytest.raises(errors.UnknownTable):
        client.bulk_loader(table)


@pytest.mark.slow
def test_an_owner_that_is_killed_takes_a_load_with_it(tmp_path):
    with ServeProcess(tmp_path / "store") as server, nyala.connect(server.url, deadline=1.0) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        with connection.store.bulk_loader(connection.store.table("t")) as loader:
            loader.append(some(*range(1000)))
            server.kill()
            with pytest.raises(errors.DeadlineExceeded, match="a bulk load into table t"):
                loader.finish()
    with nyala.connect(tmp_path / "store") as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
