"""Batches of an embedded server's clients over several tablets: all or nothing, once, of any size."""

from __future__ import annotations

import random
import threading
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from embedded_server_support import ServedStore
from nyala import errors
from nyala.cluster.client.client import Client
from nyala.cluster.client.writes import routing
from nyala.cluster.embedded_server import joint_writes
from nyala.cluster.wire.messages.joint_methods import DropStaged, StageRows, WriteTable
from nyala.cluster.wire.messages.methods import Call, Write
from nyala.cluster.wire.rows.write_rows import write_to_request
from nyala.errors import DeadlineExceeded
from nyala.model.alterations import AddColumn, AddRangePartition
from nyala.model.schema import ColumnSchema, PartitionSchema, RangePartition, RangeRule, Table
from nyala.model.store import ChangeRange, Op, ScanSpec, WriteBatch
from nyala.model.types import INT
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from tablet_support import HASHED, batch, definition, insert, read, read_tokens

KEYS = range(30)
STEPS = [("write", "*/wal/*"), ("sync", "*/wal/*"), ("write", "*/commits/*"), ("sync", "*/commits/*")]


def state(store: Any) -> dict[int, str]:
    return dict(read(store, store.table("t")))


def reopened(disk: CrashableFileSystem) -> list[dict[int, str]]:
    """The state after a loss of power now, for each fate of unsynced bytes."""
    found = []
    for keep in (0.0, 0.5, 1.0):
        with Database("db", fs=disk.crash(keep, random.Random(3))) as db:
            db.check()
            found.append(state(db))
    return found


@pytest.fixture
def small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "PIECE_ROWS", 7)


# ---- all or nothing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [Op.INSERT, Op.UPDATE, Op.DELETE], ids=lambda op: op.name)
@pytest.mark.parametrize(("operation", "pattern"), STEPS)
@pytest.mark.parametrize("is_staged", [False, True])
def test_a_batch_is_written_as_a_whole_or_not_at_all(monkeypatch, is_staged, operation, pattern, op):
    """One log fails for as long as the client retries; then for one attempt only, and the next one writes."""
    if is_staged:
        monkeypatch.setattr(routing, "PIECE_ROWS", 7)
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    keys = KEYS if op is not Op.INSERT else range(100, 130)
    with ServedStore(fs=fs, background=False) as served_store:
        client, hasty = served_store.client(), served_store.client(deadline=1.0)
        table = client.create_table(definition(partitions=HASHED))
        insert(client, table, KEYS)
        before, moment = state(client), client.now()
        rows = batch(keys, "new")
        change = WriteBatch(rows.select(["k"]) if op is Op.DELETE else rows, op, all_or_none=True)
        fs.fail(operation, pattern, nth=2 if "wal" in pattern else 1)
        with pytest.raises(DeadlineExceeded, match="nothing was written to any of the 3 tablets"):
            hasty.write(table, change)
        assert state(client) == before
        assert reopened(disk) == [before] * 3
        fs.heal()
        fs.fail(operation, pattern, nth=1, times=1)
        assert client.write(table, change).applied == len(keys)
        after = {**before, **{k: f"new{k}" for k in keys}} if op is not Op.DELETE else {}
        assert state(client) == after and state(served_store.database) == after
        assert reopened(disk) == [after] * 3
        assert dict(read(client, table, snapshot=moment)) == before
        changes = ScanSpec(("k", "_changed_at"), changes=ChangeRange(moment))
        changed_at = {at for _, at in read_tokens(client, client.scan_tokens(table, changes))}
        assert len(changed_at) == 1, "one moment, the time of one write"
        served_store.database.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_statements_of_clients_are_whole_whatever_fails(monkeypatch, seed):
    """Random batches, in one message or several; logs that fail once, or for longer than the client waits; lost
    replies; then a loss of power. The rows are those of the acknowledged statements, each of them complete."""
    rng = random.Random(seed)
    monkeypatch.setattr(routing, "PIECE_ROWS", rng.choice([5, 1 << 17]))
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with ServedStore(fs=fs, background=False) as served_store:
        clients = [served_store.client(deadline=0.3), served_store.client(deadline=10.0)]
        clients[0].create_table(definition(partitions=HASHED))
        channel = clients[1]._shared.channels.get(served_store.server.address)
        call = channel.call

        def losing(message: Any, *args: Any, **more: Any) -> Any:
            reply = call(message, *args, **more)
            if isinstance(message, WriteTable) and rng.random() < 0.3:
                raise errors.ServerUnavailable("the connection broke")
            return reply

        monkeypatch.setattr(channel, "call", losing)
        rows: dict[int, str] = {}
        for number in range(10):
            keys = sorted(rng.sample(range(40), rng.choice([1, 4, 25])))
            is_hasty = rng.random() < 0.2
            client = clients[0 if is_hasty else 1]
            if is_hasty or rng.random() < 0.5:
                step = rng.choice(STEPS)
                fs.fail(*step, nth=rng.randrange(1, 4), times=1 << 30 if is_hasty else rng.choice([1, 2]))
            try:
                insert(client, client.table("t"), keys, f"{number}-", Op.UPSERT)
                rows |= {key: f"{number}-{key}" for key in keys}
            except errors.OperationalError:
                assert is_hasty
            fs.heal()
            if rng.random() < 0.2:
                served_store.database.flush()
            assert state(served_store.database) == rows
        assert reopened(disk) == [rows] * 3


def test_a_refused_row_keeps_all_tablets_as_they_were(small_messages, served_store):
    client = served_store.client()
    table = client.create_table(definition(partitions=HASHED))
    insert(client, table, [3, 17, 25])
    refused = client.write(table, WriteBatch(batch(KEYS, "x"), Op.INSERT, all_or_none=True))
    assert refused.applied == 0 and [error.row for error in refused.errors] == [3, 17, 25]
    assert all(isinstance(error.error, errors.AlreadyPresent) for error in refused.errors)
    assert state(client) == {k: f"v{k}" for k in (3, 17, 25)}
    others = client.write(table, WriteBatch(batch(KEYS, "x"), Op.INSERT))
    assert others.applied == 27 and [error.row for error in others.errors] == [3, 17, 25]


def test_rows_changed_by_others_since_they_were_read_are_refused(small_messages, served_store):
    client = served_store.client()
    table = client.create_table(definition(partitions=HASHED))
    insert(client, table, KEYS)
    read_at = client.now()
    served_store.database.write_row(served_store.database.table("t"), Op.UPDATE, {"k": 21, "v": "other"})
    result = client.write(table, WriteBatch(batch(KEYS, "x"), Op.UPDATE, all_or_none=True, unchanged_since=read_at))
    assert result.applied == 0 and [(e.row, type(e.error)) for e in result.errors] == [(21, errors.RowChanged)]
    assert set(state(client).values()) == {"other", *(f"v{k}" for k in KEYS if k != 21)}


def test_readers_never_see_half_of_a_clients_batch(served_store):
    client = served_store.client()
    table = client.create_table(definition(partitions=HASHED))
    same = [
        WriteBatch(pa.record_batch({"k": pa.array(KEYS, pa.int64()), "v": [str(n)] * len(KEYS)}), Op.UPSERT, True)
        for n in range(60)
    ]
    client.write(table, same[0])
    wrong: list[Any] = []
    done = threading.Event()

    def scan(store: Any) -> None:
        while not done.is_set():
            values = {
                value for _, value in read_tokens(store, store.scan_tokens(store.table("t"), ScanSpec(("k", "v"))))
            }
            if len(values) != 1:
                wrong.append(values)

    threads = [threading.Thread(target=scan, args=[store]) for store in (served_store.client(), served_store.database)]
    for thread in threads:
        thread.start()
    for change in same[1:]:
        client.write(table, change)
    done.set()
    for thread in threads:
        thread.join(90)
    assert not wrong


# ---- once ----------------------------------------------------------------------------------------------------------


def request(table: Table, keys: range, call: Call | None, op: Op = Op.INSERT, **more: Any) -> WriteTable:
    return WriteTable(table_id=table.id, piece=piece(table, keys, op, check_only=call is None), call=call, **more)


def piece(table: Table, keys: range, op: Op = Op.INSERT, check_only: bool = False) -> Write:
    change = WriteBatch(batch(keys), op, all_or_none=True)
    return write_to_request(change, tablet_id="", schema_version=table.version, call=None, check_only=check_only)


def test_a_batch_that_comes_again_is_answered_and_not_done_again(served_store):
    table = served_store.database.create_table(definition(partitions=HASHED))
    call = Call(uuid.uuid4().hex, 1, 1, served_store.server.id)
    for number, keys in ((1, range(7)), (1, range(7)), (2, range(7, 14))):
        served_store.call(StageRows(batch_id="b", number=number, piece=piece(table, keys)))
    last = request(table, range(14, 20), call, batch_id="b", staged=2)
    first = served_store.call(last)
    assert first.applied == 20 and served_store.call(last) == first
    assert served_store.call(request(table, range(20), Call(call.client, 2, 1))).refused == 20
    with pytest.raises(errors.ClusterError, match="not known whether the previous one executed this call"):
        served_store.call(request(table, range(50, 60), Call(call.client, 3, 3, "another")))
    assert sorted(state(served_store.database)) == list(range(20))


def test_a_reply_that_is_lost_is_asked_for_again(served_store, monkeypatch):
    """The connection breaks after the server has written: nothing is refused or written twice."""
    client = served_store.client()
    table = client.create_table(definition(partitions=HASHED))
    channel = client._shared.channels.get(served_store.server.address)
    call, lost = channel.call, []

    def losing(message: Any, *args: Any, **more: Any) -> Any:
        reply = call(message, *args, **more)
        if isinstance(message, WriteTable) and len(lost) < 2:
            lost.append(reply)
            raise errors.ServerUnavailable("the connection broke")
        return reply

    monkeypatch.setattr(channel, "call", losing)
    result = insert(client, table, KEYS)
    assert len(lost) == 2 and (result.applied, result.errors) == (30, ())
    assert state(client) == {k: f"v{k}" for k in KEYS}


def test_errors_of_many_rows_come_in_several_replies(served_store, monkeypatch):
    monkeypatch.setattr(joint_writes, "ERROR_BYTES", 500)
    client = served_store.client()
    table = client.create_table(definition(partitions=HASHED))
    insert(client, table, KEYS)
    page = served_store.call(request(table, KEYS, None))
    assert page.refused == 30 and 0 < len(page.errors) < 10
    result = client.write(table, WriteBatch(batch(KEYS), Op.INSERT, all_or_none=True))
    assert [error.row for error in result.errors] == list(KEYS)


# ---- staged pieces -------------------------------------------------------------------------------------------------


def test_pieces_that_are_missing_or_gone_are_said(served_store, monkeypatch):
    table = served_store.database.create_table(definition(partitions=HASHED))
    call = Call(uuid.uuid4().hex, 1, 1)
    with pytest.raises(errors.OperationalError, match="nothing of it was written"):
        served_store.call(StageRows(batch_id="b", number=2, piece=piece(table, range(3))))
    served_store.call(StageRows(batch_id="b", number=1, piece=piece(table, range(3))))
    with pytest.raises(errors.ProtocolError, match="piece 2 of batch b is missing"):
        served_store.call(StageRows(batch_id="b", number=3, piece=piece(table, range(3))))
    with pytest.raises(errors.ProtocolError, match="has 1 of 2 staged pieces"):
        served_store.call(request(table, range(5, 9), call, batch_id="b", staged=2))
    with pytest.raises(errors.ProtocolError, match="different columns"):
        other = WriteBatch(batch(range(5)).select(["k"]), Op.DELETE, all_or_none=True)
        message = write_to_request(other, tablet_id="", schema_version=table.version, call=None)
        served_store.call(WriteTable(table_id=table.id, piece=message, call=call, batch_id="b", staged=1))
    served_store.call(DropStaged(batch_id="b"))
    with pytest.raises(errors.OperationalError, match="nothing of it was written"):
        served_store.call(request(table, range(5, 9), call, batch_id="b", staged=1))
    served_store.call(StageRows(batch_id="idle", number=1, piece=piece(table, range(3))))
    assert served_store.server.idle_seconds() < 1.0 and served_store.server._writes.count == 1
    monkeypatch.setattr(joint_writes, "IDLE_SECONDS", 0.0)
    served_store.server._writes.expire()
    assert served_store.server._writes.count == 0 and not state(served_store.database)


def test_a_batch_larger_than_the_servers_memory_is_refused(served_store, monkeypatch, small_messages):
    monkeypatch.setattr(joint_writes, "STAGED_SHARE", 1e-9)
    client = served_store.client()
    table = client.create_table(definition(partitions=HASHED))
    with pytest.raises(errors.LimitExceeded, match="write fewer rows at a time"):
        insert(client, table, KEYS)
    assert not state(client)


def test_a_large_statement_is_one_write(served_store):
    """More rows, and more bytes, than a message has, with its own mask of columns and op for each row."""
    client = served_store.client(deadline=60.0)
    table = client.create_table(definition(partitions=HASHED))
    count = 150_000
    keys = np.arange(count)
    rows = pa.record_batch({"k": pa.array(keys, pa.int64()), "v": pa.array(["x" * 60] * count)})
    ops = np.where(keys % 2, Op.UPSERT, Op.INSERT).astype(np.uint8)
    result = client.write(table, WriteBatch(rows, ops, True, {"v": keys % 3 > 0}))
    assert result.applied == count and served_store.server._writes.count == 0
    found = read_tokens(client, client.scan_tokens(table, ScanSpec(("k", "v"))))
    assert [k for k, _ in found] == list(range(count))
    assert all((v is None) == (k % 3 == 0) for k, v in found)


# ---- altered meanwhile ---------------------------------------------------------------------------------------------


def test_a_client_that_knows_an_older_table_writes_to_the_one_that_is_there(small_messages, served_store):
    client = served_store.client()
    ranges = RangeRule(("k",), (RangePartition((0,), (20,)),))
    table = client.create_table(definition(partitions=PartitionSchema((), ranges)))
    served_store.database.alter_table("t", [AddColumn(ColumnSchema("more", INT, True))])
    assert insert(client, table, range(15)).applied == 15
    late = WriteBatch(batch(range(15, 30)), Op.INSERT, all_or_none=True)
    assert {type(e.error) for e in client.write(table, late).errors} == {errors.NoPartition}
    served_store.database.alter_table("t", [AddRangePartition(RangePartition((20,), (40,)))])
    assert client.write(table, late).applied == 15
    served_store.database.drop_table("t")
    with pytest.raises(errors.UnknownTable, match="table t has been dropped"):
        insert(client, table, range(30, 35))


def test_a_cluster_writes_tablet_by_tablet(served_store, monkeypatch):
    """Also a server of an older version, which does not announce the methods."""
    client = served_store.client()
    table = client.create_table(definition(partitions=HASHED))
    assert isinstance(client, Client) and client._catalog.has_joint_writes
    monkeypatch.setattr(client._catalog, "has_joint_writes", False)
    assert insert(client, table, KEYS).applied == 30 and len(state(client)) == 30
