"""The embedded server's replies, request by request: what a client relies on, and what must be refused."""

from __future__ import annotations

import threading
import uuid

import pyarrow as pa
import pytest
from nyala import errors
from nyala.cluster.wire.messages import methods
from nyala.cluster.wire.messages.methods import Call
from nyala.cluster.wire.messages.plain import definition_to_plain, table_from_plain
from nyala.cluster.wire.rows.write_rows import write_to_request
from nyala.model.schema import ColumnSchema, Schema, Table, TableDefinition
from nyala.model.store import Op, WriteBatch
from nyala.model.types import INT
from nyala.storage.database import Database
from owner_support import Owned

DEFINITION = TableDefinition("t", Schema((ColumnSchema("k", INT, False), ColumnSchema("v", INT, True)), 1))


@pytest.fixture
def table(owned: Owned) -> Table:
    return owned.database.create_table(DEFINITION)


def write(table: Table, keys: list[int], call: Call | None, op: Op = Op.INSERT, check_only: bool = False):
    rows = pa.record_batch({"k": pa.array(keys, pa.int32())})
    return write_to_request(
        WriteBatch(rows, op), tablet_id="t000001-p0000", schema_version=table.version, call=call, check_only=check_only
    )


def keys_of(database: Database, table: Table) -> list[int]:
    return [k for k in range(20) if database.read_row(table, [k], ["k"]) is not None]


def test_a_call_that_comes_again_is_answered_and_not_done_again(owned, table):
    call = Call(uuid.uuid4().hex, 1, 1, owned.server.id)
    first = owned.call(write(table, [1, 2], call))
    assert first.applied == 2
    assert owned.call(write(table, [1, 2], call)) == first
    again = owned.call(write(table, [1, 2], Call(call.client, 2, 1)))
    assert again.applied == 0 and [e.error for e in again.errors] == ["AlreadyPresent"] * 2
    row = methods.WriteRow(
        tablet_id="t000001-p0000",
        schema_version=table.version,
        op=Op.INSERT,
        row={"k": 3},
        call=Call(call.client, 3, 3),
    )
    assert owned.call(row) == owned.call(row) and owned.call(row).applied == 1
    with pytest.raises(errors.ProtocolError, match="was answered"):
        owned.call(write(table, [5], Call(call.client, 2, 1)))


def test_the_same_call_twice_at_once_is_done_once(owned, table):
    call = Call(uuid.uuid4().hex, 1, 1)
    held = table.id and owned.database.open_table(table).tablets[0].write_lock
    replies = []
    with held:
        threads = [
            threading.Thread(target=lambda: replies.append(owned.call(write(table, [7], call)))) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    assert [(reply.applied, reply.errors) for reply in replies] == [(1, ())] * 3


def test_a_definition_that_is_sent_twice_is_one_table(owned):
    call = Call(uuid.uuid4().hex, 1, 1)
    request = methods.CreateTable(definition=definition_to_plain(DEFINITION), replicas=3, call=call)
    first, second = owned.call(request), owned.call(request)
    assert first == second and table_from_plain(first.table).name == "t"
    drop = methods.DropTable(name="t", views=(), call=Call(call.client, 2, 2))
    owned.call(drop)
    owned.database.create_table(DEFINITION)
    owned.call(drop)
    assert [table.name for table in owned.database.tables()] == ["t"], "the table made since is another one"


def test_a_call_that_failed_may_be_sent_again(owned):
    call = Call(uuid.uuid4().hex, 1, 1)
    drop = methods.DropTable(name="t", views=(), call=call)
    with pytest.raises(errors.UnknownTable):
        owned.call(drop)
    owned.database.create_table(DEFINITION)
    owned.call(drop)
    assert not owned.database.tables()


def test_a_call_to_an_owner_before_is_refused(owned, table):
    """Its outcome at that server is unknown."""
    with pytest.raises(errors.ClusterError, match="not known whether the previous one executed this call") as caught:
        owned.call(write(table, [1], Call(uuid.uuid4().hex, 5, 5, "another")))
    assert not caught.value.retryable and keys_of(owned.database, table) == []


def test_a_check_changes_nothing_and_tells_what_a_write_would(owned, table):
    owned.database.write_row(table, Op.INSERT, {"k": 1})
    checked = owned.call(write(table, [1, 2, 2], None, check_only=True))
    assert keys_of(owned.database, table) == [1] and checked.applied == 0
    done = owned.call(write(table, [1, 2, 2], Call(uuid.uuid4().hex, 1, 1)))
    assert checked.errors == done.errors and done.applied == 1


def test_another_version_of_the_table_and_tablets_that_are_not_there_are_refused(owned, table):
    with pytest.raises(errors.StaleSchema, match="the caller has version 7"):
        owned.call(methods.ReadRow(tablet_id="t000001-p0000", schema_version=7, key=(1,), columns=("v",)))
    with pytest.raises(errors.ReplicaUnavailable, match="t000009-p0000"):
        owned.call(methods.ReadRow(tablet_id="t000009-p0000", schema_version=0, key=(1,), columns=("v",)))
    assert owned.call(methods.DescribeTablets(tablet_ids=("t000009-p0000",))).tablets == ()
    with pytest.raises(errors.UnknownTable):
        owned.call(methods.LocateTablets(table_id="t000009"))


def test_the_owner_is_one_master_and_one_server_that_leads_everything(owned, table):
    status = owned.call(methods.GetStatus())
    assert (status.kind, status.id, status.tablets) == ("owner", owned.server.id, 1)
    servers = owned.call(methods.ListServers())
    assert servers.masters == ((owned.server.address, True),) and servers.tservers[0].leaders == 1
    (location,) = owned.call(methods.LocateTablets(table_id=table.id)).tablets
    assert location.leader == owned.server.id and location.replicas[0].address == owned.server.address
    (report,) = owned.call(methods.ReportTablets()).tablets
    assert report.is_serving and report.tablet_id == location.tablet_id
    owned.database.write_row(table, Op.INSERT, {"k": 1, "v": None})
    sums = {
        owned.call(methods.ChecksumTablet(tablet_id=location.tablet_id, snapshot=owned.database.now())).checksum
        for _ in range(2)
    }
    assert len(sums) == 1


def test_one_tablet_is_analyzed_and_what_is_known_of_others_stays(owned):
    connection = owned.connection()
    connection.execute("CREATE TABLE h (k INT PRIMARY KEY, v INT) PARTITION BY HASH (k) INTO 3 BUCKETS")
    connection.table("h").insert([(k, 0) for k in range(100)])
    connection.execute("ANALYZE h")
    connection.execute("UPDATE h SET v = k")
    store = owned.database.open_table(owned.database.table("h"))
    for tablet in store.tablets:
        owned.call(methods.WorkOnTablet(tablet_id=tablet.id, work="analyze"))
    assert set(store.statistics_cache.analysis.sketches) == {tablet.id for tablet in store.tablets}
    assert 90 <= owned.client().statistics(owned.client().table("h")).columns["v"].distinct_count <= 110
    with pytest.raises(errors.ProtocolError, match="unknown work 'polish'"):
        owned.call(methods.WorkOnTablet(tablet_id=store.tablets[0].id, work="polish"))
