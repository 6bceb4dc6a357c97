"""The thread that reads all connections of a server waits for nothing that another thread holds."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nyala.cluster.wire.messages import methods
from nyala.cluster.wire.rows.write_rows import write_to_request
from nyala.model.store import Op, ScanSpec, WriteBatch
from nyala.storage.maintenance.memory import Memory
from tserver_support import Servers, rows, tablet, wait_for


def write_row(id: str, key: int) -> methods.WriteRow:
    call = methods.Call(uuid.uuid4().hex, 1, 1)
    return methods.WriteRow(tablet_id=id, schema_version=0, op=Op.UPSERT, row={"k": key, "v": "new"}, call=call)


def read_row(id: str, key: int) -> methods.ReadRow:
    return methods.ReadRow(tablet_id=id, schema_version=0, key=(key,), columns=("v",))


def test_a_locked_tablet_holds_up_no_other(tmp_path: Path) -> None:
    with Servers(tmp_path, 3) as servers, ThreadPoolExecutor(4) as threads:
        locked, other = servers.create(tablet("t1-p0")), servers.create(tablet("t1-p1"))
        for id in (locked, other):
            servers.write(id, rows(range(10)))
        leader = servers.leader(locked)
        replica = servers.running[leader].tablets.get(locked)
        with replica.tablet.write_lock:
            writes = [threads.submit(servers.call, leader, write_row(locked, key)) for key in range(4)]
            wait_for(lambda: servers.running[leader]._rpc.under_way["calls"] == 4)
            # Look-ups of both tablets and writes of the other go on.
            assert servers.call(leader, read_row(locked, 5)).row is not None
            servers.call_leader(other, write_row(other, 5))
            assert servers.call_leader(other, read_row(other, 5)).row == ("new",)
            assert not any(write.done() for write in writes)
        assert [write.result().applied for write in writes] == [1] * 4
        assert servers.call_leader(locked, read_row(locked, 3)).row == ("new",)


def test_a_write_that_memory_delays_holds_up_no_look_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Servers(tmp_path, 1) as servers:
        id = servers.create()
        servers.write(id, rows(range(10)))
        monkeypatch.setattr(Memory, "admit_at_once", lambda self, size: False)
        assert servers.call(0, write_row(id, 3)).applied == 1
        assert servers.call(0, read_row(id, 3)).row == ("new",)


def in_threads(servers: Servers, number: int) -> int:
    """Calls that a server has processed in threads of its pools, without the one that reads this."""
    details = servers.call(number, methods.GetStatus()).details
    return details["calls_in_threads"] - 1


def write(servers: Servers, number: int, id: str, batch: pa.RecordBatch, op: Op, call: methods.Call | None) -> Any:
    request = write_to_request(WriteBatch(batch, op), tablet_id=id, schema_version=0, call=call)
    return servers.call(number, request)


def test_small_batches_have_no_thread_and_large_or_refused_ones_the_same_results(tmp_path: Path) -> None:
    with Servers(tmp_path, 3) as servers:
        id = servers.create()
        leader = servers.leader(id)
        client = uuid.uuid4().hex
        before = in_threads(servers, leader)
        for number, (count, text) in enumerate([(1, "a"), (20, "b"), (10, "c")], 1):
            call = methods.Call(client, number, number)
            reply = write(servers, leader, id, rows(range(count), text), Op.UPSERT, call)
            assert (reply.applied, reply.errors) == (count, ())
            assert write(servers, leader, id, rows([99]), Op.UPSERT, call) == reply  # a repeated call
        assert write(servers, leader, id, rows([3, 15]).select(["k"]), Op.DELETE, None).applied == 2
        # Repeated calls have waited for the first ones in threads, and there were two counts.
        assert in_threads(servers, leader) - before == 3 + 1
        refused = write(servers, leader, id, rows([3, 4, 15]), Op.INSERT, None)
        assert refused.applied == 2 and [(e.row, e.error) for e in refused.errors] == [(1, "AlreadyPresent")]
        assert write(servers, leader, id, rows([3, 15]), Op.INSERT_IGNORE, None).applied == 0
        assert write(servers, leader, id, rows(range(100, 600)), Op.INSERT, None).applied == 500
        assert in_threads(servers, leader) - before == 3 + 1 + 1 + 3
        expected = {k: f"b{k}" for k in range(20)} | {k: f"c{k}" for k in range(10)} | {3: "v3", 15: "v15"}
        expected |= {k: f"v{k}" for k in range(100, 600)}
        now = servers.clock.now()
        for number in range(3):
            assert dict(servers.read(number, id, ScanSpec(("k", "v"), snapshot=now))) == expected
