"""A server within another program, one of whose threads dies, refuses all calls with the reason; the program
continues."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import nyala
import pytest
from nyala import errors
from nyala.cluster.embedded_server.server import EmbeddedServer
from nyala.cluster.wire.calls import deferred_replies
from nyala.cluster.wire.calls.rpc import Channels
from nyala.cluster.wire.messages import methods
from nyala.cluster.wire.rows import scan_streams
from nyala.cluster.wire.server import RpcServer
from nyala.cluster.wire.server_limits import Limits
from nyala.model.clock import HybridClock
from nyala.storage.database import Database

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def fail(*_: object) -> None:
    raise ZeroDivisionError("planted")


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 90.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_served_directory_says_that_its_server_has_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Database(str(tmp_path))
    server = EmbeddedServer(store, directory=None)
    server.start()
    with nyala.connect(server.url, deadline=60.0) as client:
        client.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        monkeypatch.setattr(deferred_replies.DeferredReplies, "sweep", fail)
        until(lambda: "nyala-deferred-replies" not in {thread.name for thread in threading.enumerate()})
        with pytest.raises(
            errors.InternalError, match=r"has stopped: its thread nyala-deferred-replies ended by ZeroDiv"
        ) as told:
            client.execute("INSERT INTO t VALUES (1)")
        assert not told.value.retryable
    monkeypatch.undo()
    server.close()
    assert [table.name for table in store.tables()] == ["t"]  # the store continues
    store.close()


def test_a_dead_expiry_of_scans_stops_the_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scan_streams.ScanMessages, "expire", fail)
    clock = HybridClock()

    def rows(ticket: methods.ScanTablet, context: object):
        threading.Event().wait(0.5)
        yield methods.ScanEnd(batches=0)

    server = RpcServer(
        "127.0.0.1:0",
        clock,
        handlers={methods.KeepAlive: lambda request, context: methods.Done()},
        scan=rows,
        limits=Limits(idle_scan_seconds=0.1),
    )
    server.start()
    channels = Channels(clock)
    try:
        channel = channels.get(server.address)
        assert channel.call(methods.KeepAlive(scanner="s"))
        list(channel.scan(methods.ScanTablet(tablet_id="t", schema_version=0, spec={}, scanner="s")))
        with pytest.raises(errors.InternalError, match="has stopped: its thread nyala-scan-expiry"):
            channel.call(methods.KeepAlive(scanner="s"))
    finally:
        channels.close()
        server.stop()
    assert "has stopped" in caplog.text
    assert "planted" in caplog.text
