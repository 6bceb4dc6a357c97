"""The embedded server's replies, request by request: what a client relies on, and what must be refused."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from embedded_server_support import ServedStore
from net_support import until
from nyala import errors
from nyala.cluster.wire.messages import methods
from nyala.cluster.wire.messages.methods import Call
from nyala.cluster.wire.messages.plain import definition_to_plain, table_from_plain
from nyala.cluster.wire.rows.write_rows import write_to_request
from nyala.model.schema import ColumnSchema, Schema, Table, TableDefinition
from nyala.model.store import Op, WriteBatch
from nyala.model.types import INT
from nyala.storage.database import Database
from nyala.storage.log.wal import WriteAheadLog

DEFINITION = TableDefinition("t", Schema((ColumnSchema("k", INT, False), ColumnSchema("v", INT, True)), 1))


@pytest.fixture
def table(served_store: ServedStore) -> Table:
    return served_store.database.create_table(DEFINITION)


def write(table: Table, keys: list[int], call: Call | None, op: Op = Op.INSERT, check_only: bool = False):
    rows = pa.record_batch({"k": pa.array(keys, pa.int32())})
    return write_to_request(
        WriteBatch(rows, op), tablet_id="t000001-p0000", schema_version=table.version, call=call, check_only=check_only
    )


def keys_of(database: Database, table: Table) -> list[int]:
    return [k for k in range(20) if database.read_row(table, [k], ["k"]) is not None]


def test_a_call_that_comes_again_is_answered_and_not_done_again(served_store, table):
    call = Call(uuid.uuid4().hex, 1, 1, served_store.server.id)
    first = served_store.call(write(table, [1, 2], call))
    assert first.applied == 2
    assert served_store.call(write(table, [1, 2], call)) == first
    again = served_store.call(write(table, [1, 2], Call(call.client, 2, 1)))
    assert again.applied == 0 and [e.error for e in again.errors] == ["AlreadyPresent"] * 2
    row = methods.WriteRow(
        tablet_id="t000001-p0000",
        schema_version=table.version,
        op=Op.INSERT,
        row={"k": 3},
        call=Call(call.client, 3, 3),
    )
    assert served_store.call(row) == served_store.call(row) and served_store.call(row).applied == 1
    with pytest.raises(errors.ProtocolError, match="was answered"):
        served_store.call(write(table, [5], Call(call.client, 2, 1)))


def test_rows_are_written_without_threads_and_once_whatever_they_meet(served_store, table):
    client = uuid.uuid4().hex

    def row(sequence: int, op: Op, key: int, first: int = 1) -> methods.WriteRow:
        return methods.WriteRow(
            tablet_id="t000001-p0000",
            schema_version=table.version,
            op=op,
            row={"k": key, "v": sequence} if op is not Op.DELETE else {"k": key},
            call=Call(client, sequence, first, served_store.server.id),
        )

    def in_threads() -> int:
        return served_store.call(methods.GetStatus()).details["calls_in_threads"]

    served_store.call(row(1, Op.INSERT, 0))  # begins the log
    before = in_threads()
    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(lambda n: served_store.call(row(n, Op.UPSERT, n % 10)), range(2, 42)))
    assert [reply.applied for reply in replies] == [1] * 40
    assert in_threads() - before == 1  # this look itself
    assert len({reply.timestamp for reply in replies}) == 40
    assert served_store.call(row(2, Op.UPSERT, 2)) == replies[0]
    refused = served_store.call(row(50, Op.INSERT, 3))
    assert (refused.applied, refused.errors[0].error) == (0, "AlreadyPresent")
    assert served_store.call(row(51, Op.DELETE, 3)).applied == 1
    assert served_store.call(row(51, Op.DELETE, 3)).applied == 1
    assert keys_of(served_store.database, table) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_rows_that_the_log_has_not_synced_are_not_read_and_a_failed_one_is_undone(monkeypatch, served_store, table):
    def row(key: int) -> methods.WriteRow:
        ids = {"tablet_id": "t000001-p0000", "schema_version": table.version}
        return methods.WriteRow(**ids, op=Op.UPSERT, row={"k": key}, call=None)

    served_store.call(row(0))
    log = served_store.database.open_table(table).tablets[0].log
    goes_on = threading.Event()
    sync = WriteAheadLog.sync
    monkeypatch.setattr(WriteAheadLog, "sync", lambda self, ticket, context=None: (goes_on.wait(30), sync(log, ticket)))
    with ThreadPoolExecutor(2) as threads:
        writing = threads.submit(served_store.call, row(1))
        until(lambda: log.last_index == 2)
        assert keys_of(served_store.database, table) == [0]
        monkeypatch.setattr(log._newest.file, "sync", lambda: (_ for _ in ()).throw(errors.DiskError("no disk")))
        goes_on.set()
        with pytest.raises(errors.DiskError, match="no disk"):
            writing.result()
    monkeypatch.undo()
    assert keys_of(served_store.database, table) == [0]
    assert served_store.call(row(2)).applied == 1
    assert keys_of(served_store.database, table) == [0, 2]


def test_the_same_call_twice_at_once_is_done_once(served_store, table):
    call = Call(uuid.uuid4().hex, 1, 1)
    held = table.id and served_store.database.open_table(table).tablets[0].write_lock
    replies = []
    with held:
        threads = [
            threading.Thread(target=lambda: replies.append(served_store.call(write(table, [7], call))))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    assert [(reply.applied, reply.errors) for reply in replies] == [(1, ())] * 3


def test_a_definition_that_is_sent_twice_is_one_table(served_store):
    call = Call(uuid.uuid4().hex, 1, 1)
    request = methods.CreateTable(definition=definition_to_plain(DEFINITION), replicas=3, call=call)
    first, second = served_store.call(request), served_store.call(request)
    assert first == second and table_from_plain(first.table).name == "t"
    drop = methods.DropTable(name="t", views=(), call=Call(call.client, 2, 2))
    served_store.call(drop)
    served_store.database.create_table(DEFINITION)
    served_store.call(drop)
    assert [table.name for table in served_store.database.tables()] == ["t"], "the table made since is another one"


def test_a_call_that_failed_may_be_sent_again(served_store):
    call = Call(uuid.uuid4().hex, 1, 1)
    drop = methods.DropTable(name="t", views=(), call=call)
    with pytest.raises(errors.UnknownTable):
        served_store.call(drop)
    served_store.database.create_table(DEFINITION)
    served_store.call(drop)
    assert not served_store.database.tables()


def test_a_call_to_an_owner_before_is_refused(served_store, table):
    """Its outcome at that server is unknown."""
    with pytest.raises(errors.ClusterError, match="not known whether the previous one executed this call") as caught:
        served_store.call(write(table, [1], Call(uuid.uuid4().hex, 5, 5, "another")))
    assert not caught.value.retryable and keys_of(served_store.database, table) == []


def test_a_check_changes_nothing_and_tells_what_a_write_would(served_store, table):
    served_store.database.write_row(table, Op.INSERT, {"k": 1})
    checked = served_store.call(write(table, [1, 2, 2], None, check_only=True))
    assert keys_of(served_store.database, table) == [1] and checked.applied == 0
    done = served_store.call(write(table, [1, 2, 2], Call(uuid.uuid4().hex, 1, 1)))
    assert checked.errors == done.errors and done.applied == 1


def test_another_version_of_the_table_and_tablets_that_are_not_there_are_refused(served_store, table):
    with pytest.raises(errors.StaleSchema, match="the caller has version 7"):
        served_store.call(methods.ReadRow(tablet_id="t000001-p0000", schema_version=7, key=(1,), columns=("v",)))
    with pytest.raises(errors.ReplicaUnavailable, match="t000009-p0000"):
        served_store.call(methods.ReadRow(tablet_id="t000009-p0000", schema_version=0, key=(1,), columns=("v",)))
    assert served_store.call(methods.DescribeTablets(tablet_ids=("t000009-p0000",))).tablets == ()
    with pytest.raises(errors.UnknownTable):
        served_store.call(methods.LocateTablets(table_id="t000009"))


def test_the_owner_is_one_master_and_one_server_that_leads_everything(served_store, table):
    status = served_store.call(methods.GetStatus())
    assert (status.kind, status.id, status.tablets) == ("owner", served_store.server.id, 1)
    servers = served_store.call(methods.ListServers())
    assert servers.masters == ((served_store.server.address, True),) and servers.tservers[0].leaders == 1
    (location,) = served_store.call(methods.LocateTablets(table_id=table.id)).tablets
    assert location.leader == served_store.server.id and location.replicas[0].address == served_store.server.address
    (report,) = served_store.call(methods.ReportTablets()).tablets
    assert report.is_serving and report.tablet_id == location.tablet_id
    served_store.database.write_row(table, Op.INSERT, {"k": 1, "v": None})
    sums = {
        served_store.call(
            methods.ChecksumTablet(tablet_id=location.tablet_id, snapshot=served_store.database.now())
        ).checksum
        for _ in range(2)
    }
    assert len(sums) == 1


def test_one_tablet_is_analyzed_and_what_is_known_of_others_stays(served_store):
    connection = served_store.connection()
    connection.execute("CREATE TABLE h (k INT PRIMARY KEY, v INT) PARTITION BY HASH (k) INTO 3 BUCKETS")
    connection.table("h").insert([(k, 0) for k in range(100)])
    connection.execute("ANALYZE h")
    connection.execute("UPDATE h SET v = k")
    store = served_store.database.open_table(served_store.database.table("h"))
    for tablet in store.tablets:
        served_store.call(methods.WorkOnTablet(tablet_id=tablet.id, work="analyze"))
    assert set(store.statistics_cache.analysis.sketches) == {tablet.id for tablet in store.tablets}
    assert 90 <= served_store.client().statistics(served_store.client().table("h")).columns["v"].distinct_count <= 110
    with pytest.raises(errors.ProtocolError, match="unknown work 'polish'"):
        served_store.call(methods.WorkOnTablet(tablet_id=store.tablets[0].id, work="polish"))
