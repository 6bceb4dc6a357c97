"""COMMITs of an embedded server's clients: over several tables, all or nothing, once, of any size."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from embedded_server_support import ServedStore
from nyala import errors
from nyala.cluster.client.writes import routing
from nyala.cluster.wire.messages.joint_methods import CommitTransaction, ValidatedRead
from nyala.cluster.wire.messages.methods import Call
from nyala.model.alterations import AddColumn, DropColumn
from nyala.model.predicates import Range
from nyala.model.schema import ColumnSchema
from nyala.model.store import Op, TableWrite, Timestamp, TransactionChanges, WriteBatch
from nyala.model.transactions import TableRead
from nyala.model.types import INT
from nyala.storage.database import Database
from nyala.storage.files.memory_filesystem import CrashableFileSystem, FaultyFileSystem
from tablet_support import HASHED, batch, definition, insert, keys_of, read

STEPS = [("write", "*/wal/*"), ("sync", "*/wal/*"), ("write", "*/commits/*"), ("sync", "*/commits/*")]
TABLES = ("t", "u")
BEFORE = {"t": {k: f"v{k}" for k in range(30)}, "u": {}}
AFTER = {"t": {**{k: f"new{k}" for k in range(20)}, **{k: f"v{k}" for k in range(25, 30)}},
         "u": {k: f"v{k}" for k in range(40)}}  # fmt: skip


def state(store: Any, snapshot: Timestamp | None = None) -> dict[str, dict[int, str]]:
    return {name: dict(read(store, store.table(name), snapshot=snapshot)) for name in TABLES}


def made(store: Any) -> None:
    for name in TABLES:
        store.create_table(definition(name, HASHED))
    insert(store, store.table("t"), range(30))


def write(store: Any, name: str, keys, text: str, op: Op) -> TableWrite:
    rows = batch(keys, text)
    return TableWrite(
        store.table(name), WriteBatch(rows.select(["k"]) if op is Op.DELETE else rows, op, all_or_none=True)
    )


def changes(store: Any, reads: tuple[TableRead, ...] = ()) -> TransactionChanges:
    writes = (
        write(store, "u", range(40), "v", Op.INSERT),
        write(store, "t", range(20), "new", Op.UPDATE),
        write(store, "t", range(20, 25), "", Op.DELETE),
    )
    return TransactionChanges(store.now(), writes, reads)


@pytest.fixture(params=["one message", "staged"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "staged":
        monkeypatch.setattr(routing, "PIECE_ROWS", 7)
    return request.param


@pytest.mark.parametrize(("operation", "pattern"), STEPS)
def test_a_commit_is_whole_or_not_at_all(size, operation, pattern):
    """One log fails for as long as the client retries; then for one attempt only, and the next one commits."""
    disk = CrashableFileSystem()
    fs = FaultyFileSystem(disk)
    with ServedStore(fs=fs, background=False) as served_store:
        client, hasty = served_store.client(), served_store.client(deadline=1.0)
        made(client)
        before = client.now()
        fs.fail(operation, pattern, nth=2 if "wal" in pattern else 1)
        with pytest.raises(errors.DeadlineExceeded, match="nothing was written to any of the 6 tablets"):
            hasty.commit_transaction(changes(hasty))
        assert state(client) == BEFORE
        fs.heal()
        fs.fail(operation, pattern, nth=1, times=1)
        timestamp = client.commit_transaction(changes(client))
        assert state(client) == state(client, timestamp) == state(served_store.database) == AFTER
        assert state(client, Timestamp(timestamp - 1)) == state(client, before) == BEFORE
        for keep in (0.0, 0.5, 1.0):
            with Database("db", fs=disk.crash(keep, random.Random(3))) as db:
                assert state(db) == AFTER
                db.check()
        assert served_store.server._writes.count == 0


def test_a_commit_whose_reply_is_lost_is_executed_once(size, served_store, monkeypatch):
    client = served_store.client()
    made(client)
    channel = client._shared.channels.get(served_store.server.address)
    call, sent = channel.call, []

    def losing(message: Any, *args: Any, **more: Any) -> Any:
        reply = call(message, *args, **more)
        if isinstance(message, CommitTransaction):
            sent.append(message)
            if len(sent) < 3:
                raise errors.ServerUnavailable("the connection broke")
        return reply

    monkeypatch.setattr(channel, "call", losing)
    timestamp = client.commit_transaction(changes(client))
    assert len(sent) == 3 and (sum(part.staged for part in sent[0].writes) > 3) is (size == "staged")
    assert state(client) == AFTER and state(client, Timestamp(timestamp - 1)) == BEFORE


def test_conflicts_are_raised_at_once_and_leave_nothing(size, served_store):
    client, other = served_store.client(), served_store.client()
    made(client)
    mine = changes(client)
    insert(other, other.table("t"), [7], "other", Op.UPSERT)
    with pytest.raises(errors.SerializationFailure, match=r"row with key \(k = 7\) of table t was changed") as raised:
        client.commit_transaction(mine)
    assert raised.value.sqlstate == "40001" and raised.value.retryable
    assert state(client) == {"t": {**BEFORE["t"], 7: "other7"}, "u": {}}
    t, u = client.table("t"), client.table("u")
    reads = {
        "predicate": TableRead(t, (Range("v", "other", "othes"),)),
        "key": TableRead(t, (), pa.record_batch({"k": pa.array([7], pa.int64())})),
        "table": TableRead(t),
    }
    insertion = (write(client, "u", [1], "v", Op.INSERT),)
    for table_read in reads.values():
        with pytest.raises(errors.SerializationFailure):
            client.commit_transaction(TransactionChanges(mine.snapshot, insertion, (table_read,)))
    untouched = (TableRead(t, (Range("k", 8, None),)), TableRead(u, (), pa.record_batch({"k": pa.array([1])})))
    client.commit_transaction(TransactionChanges(mine.snapshot, insertion, untouched))
    assert keys_of(client, u) == [1]
    assert client.commit_transaction(TransactionChanges(client.now(), (), (TableRead(t),))) > 0


def test_tables_altered_by_others_are_found(size, served_store):
    client, other = served_store.client(), served_store.client()
    made(client)
    mine = changes(client, (TableRead(client.table("t"), (Range("v", "a", "b"),)),))
    other.alter_table("u", [AddColumn(ColumnSchema("n", INT, default=3))])
    client.commit_transaction(mine)
    assert state(client) == AFTER
    mine = TransactionChanges(client.now(), (write(client, "u", [100], "v", Op.INSERT),))
    other.alter_table("u", [DropColumn("v")])
    with pytest.raises((errors.SchemaChanged, errors.UnknownColumn)):
        client.commit_transaction(mine)
    mine = TransactionChanges(client.now(), (write(client, "t", [100], "v", Op.INSERT),))
    other.drop_table("t")
    with pytest.raises(errors.UnknownTable):
        client.commit_transaction(mine)
    assert keys_of(client, client.table("u")) == list(range(40))


def test_a_row_that_is_refused_refuses_everything(served_store):
    client = served_store.client()
    made(client)
    null = pa.record_batch({"k": pa.array([None], pa.int64()), "v": ["x"]})
    bad = TableWrite(client.table("u"), WriteBatch(null, Op.UPSERT, all_or_none=True))
    mine = changes(client)
    with pytest.raises(errors.NotNullViolation):
        client.commit_transaction(TransactionChanges(mine.snapshot, (*mine.writes, bad)))
    present = write(client, "t", [1], "v", Op.INSERT)
    with pytest.raises(errors.AlreadyPresent):
        client.commit_transaction(TransactionChanges(mine.snapshot, (mine.writes[0], present)))
    assert state(client) == BEFORE


def test_bad_requests_are_refused(served_store):
    client = served_store.client()
    made(client)
    table = client.table("t")
    call = Call("a" * 32, 1, 1)
    future = CommitTransaction(snapshot=client.now() + (1 << 40), writes=(), reads=(), call=call)
    with pytest.raises(errors.ProtocolError, match="in the future"):
        served_store.call(future)
    for predicates in ({}, {"all": [{"kind": "nothing"}]}, {"all": 7}):
        request = ValidatedRead(table.id, table.version, predicates)
        with pytest.raises(errors.ProtocolError):
            served_store.call(CommitTransaction(snapshot=1, writes=(), reads=(request,), call=call))
    request = ValidatedRead(table.id, table.version, {"all": []}, b"no rows")
    with pytest.raises(errors.ProtocolError, match="malformed"):
        served_store.call(CommitTransaction(snapshot=1, writes=(), reads=(request,), call=call))
