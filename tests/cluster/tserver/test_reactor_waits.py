"""The thread that reads all connections of a server waits for nothing that another thread holds."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from nyala.cluster.wire.messages import methods
from nyala.model.store import Op
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
