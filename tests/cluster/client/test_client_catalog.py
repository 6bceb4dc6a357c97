"""Cached tables and views of a client; connecting; processes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from cluster_support_client import FakeCluster, once
from fork_support import in_child, raised_by
from nyala import errors
from nyala.cluster.client.catalog import catalog_cache
from nyala.cluster.client.retry import Attempts
from nyala.cluster.client.writes.call_ids import CallIds
from nyala.cluster.wire.messages import methods
from nyala.cluster.wire.messages.view_methods import RenameView
from nyala.driver.connection import Connection
from nyala.model.alterations import AddColumn
from nyala.model.schema import ColumnSchema, Schema, TableDefinition, View
from nyala.model.types import INT

SCHEMA = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", INT, True)), 1)
DEFINITION = TableDefinition("t", SCHEMA)


def wait_until(holds) -> None:
    end = time.monotonic() + 90
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_names_that_are_not_known_are_asked_for(client, make_client):
    other = make_client()
    other.create_table(DEFINITION)
    assert client.table("t").schema.names == ["k", "v"]
    with pytest.raises(errors.UnknownTable, match=r"table s does not exist; there is only t"):
        client.table("s")


def test_what_others_do_is_seen_in_the_background(client, make_client, monkeypatch):
    monkeypatch.setattr(catalog_cache, "REFRESH_SECONDS", 0.02)
    other = make_client()
    before = client.catalog_version
    other.create_table(DEFINITION)
    other.create_view(View("w", "SELECT 1 AS one", ("one",)))
    wait_until(lambda: client.view("w") is not None and client.tables())
    assert client.catalog_version > before
    other.drop_table("t", ["w"])
    wait_until(lambda: not client.views() and not client.tables())


def test_grants_are_those_of_the_last_second_after_an_idle_time(client, monkeypatch):
    catalog, asked = client._catalog, []
    catalog.stop()  # an idle client does not refresh in the background
    monkeypatch.setattr(catalog, "refresh", lambda **given: asked.append(given))
    assert client.access is catalog.current.access and not asked
    catalog._asked -= catalog_cache.REFRESH_SECONDS
    assert client.access is catalog.current.access and len(asked) == 1


def test_while_no_master_responds_a_client_goes_on_with_the_grants_that_it_knows(client, monkeypatch):
    catalog, asked = client._catalog, []

    def refuse(**given: float) -> None:
        asked.append(given)
        raise errors.DeadlineExceeded("no master responds")

    catalog.stop()
    monkeypatch.setattr(catalog, "refresh", refuse)
    monkeypatch.setattr(catalog_cache, "REFRESH_SECONDS", 1000.0)
    catalog._asked = catalog._failed = time.monotonic() - 1001
    assert client.access is client.access is catalog.current.access
    assert len(asked) == 1  # not for each statement


def test_a_client_that_is_closed_just_when_it_would_look_again_ends(make_client, monkeypatch):
    monkeypatch.setattr(catalog_cache, "REFRESH_SECONDS", 0.01)
    catalog = make_client()._catalog
    clears = threading.Event()

    class Used(threading.Event):
        def clear(self) -> None:
            if not clears.is_set():
                catalog._stop.set()  # as `stop` does, in another thread
                self.set()
                clears.set()
            super().clear()

    before, catalog._used = catalog._used, Used()
    catalog.use()
    before.set()
    assert clears.wait(90)
    catalog._thread.join(90)
    assert not catalog._thread.is_alive()


def test_a_client_at_rest_asks_nothing(client, cluster, monkeypatch):
    monkeypatch.setattr(catalog_cache, "REFRESH_SECONDS", 0.01)
    client.tables()
    wait_until(lambda: len(cluster.requests(methods.GetCatalog)) >= 2)
    wait_until(lambda: not client._catalog._used.is_set())
    count = len(cluster.requests(methods.GetCatalog))
    assert client._catalog._thread is not None and client._catalog._thread.is_alive()
    time.sleep(0.1)
    assert len(cluster.requests(methods.GetCatalog)) <= count + 1


def test_tables_that_did_not_change_stay_the_same_objects(client):
    table = client.create_table(DEFINITION)
    assert client.table("t") is table
    client.create_table(TableDefinition("other", SCHEMA))
    assert client.table("t") is table
    altered = client.alter_table("t", [AddColumn(ColumnSchema("w", INT, True))])
    assert client.table("t") is altered is not table


def test_ddl_is_done_once_though_answers_are_lost(client, cluster):
    lost = errors.ServerUnavailable("broke off")
    tables = methods.CreateTable, methods.AlterTable, methods.DropTable
    for kind in (*tables, methods.CreateView, RenameView, methods.DropViews):
        cluster.faults.append(once(kind, lost, "after"))
    client.create_table(DEFINITION)
    client.alter_table("t", [AddColumn(ColumnSchema("w", INT, True))])
    client.create_view(View("v", "SELECT 1 AS one", ("one",)))
    client.rename_view("v", "w", "public")
    assert client.view("v") is None and client.view("w") == View("w", "SELECT 1 AS one", ("one",))
    client.drop_views(["w"])
    client.drop_table("t")
    assert len(cluster.applied) == len(set(cluster.applied)) == 6
    assert len(cluster.requests(methods.CreateTable)) >= 2


def test_errors_of_ddl_are_the_masters(client):
    client.create_table(DEFINITION)
    with pytest.raises(errors.DuplicateTable, match="table t exists already"):
        client.create_table(DEFINITION)
    with pytest.raises(errors.UnknownTable, match="view w does not exist"):
        client.drop_views(["w"])
    with pytest.raises(errors.UnknownTable, match="view w does not exist"):
        client.rename_view("w", "x", "public")
    with pytest.raises(errors.InvalidTableDefinition):
        client.alter_table("t", [AddColumn(ColumnSchema("v", INT, True))])


def test_masters_of_an_earlier_version_rename_no_views(client, monkeypatch):
    def refuse(*arguments, **named):
        raise errors.ProtocolError("a malformed request: Invalid value 'rename_view'")

    monkeypatch.setattr(client, "_change", refuse)
    with pytest.raises(
        errors.NotSupportedError, match=r"earlier version of nyala, which renames no views: .*drop view v"
    ):
        client.rename_view("v", "w", "public")


def test_calls_are_numbered_without_gaps_under_many_threads():
    numbers = CallIds()
    seen: list[int] = []

    def work() -> None:
        for _ in range(300):
            with numbers.numbered() as call:
                assert call.first_incomplete <= call.sequence
                seen.append(call.sequence)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(1, 1801))
    last = numbers.start()
    assert last.first_incomplete == last.sequence


def test_no_master_is_an_error_that_names_the_reason(cluster):
    cluster.dead.update(cluster.masters)
    asked = r"^connecting to nyala://master0:1,.* \(from master0:1, master1:1, master2:1\)"
    with pytest.raises(errors.DeadlineExceeded, match=asked + r" was not done within 0.2 seconds; .*cannot be reached"):
        cluster.client(connect_deadline=0.2)


def test_nobody_there_is_known_before_the_deadline():
    attempts = Attempts("a look", 3600.0, patience=0.0)
    for address in "ab":
        attempts.failed(errors.ConnectionRefused(f"{address} cannot be reached"))
    with pytest.raises(
        errors.DeadlineExceeded, match=r"^a look was abandoned after 0 seconds: .* b cannot be reached$"
    ):
        attempts.pause()
    attempts = Attempts("a look", 3600.0, patience=0.0)
    attempts.failed(errors.ConnectionRefused("a cannot be reached"))
    attempts.failed(errors.NotTheLeader("none yet"))
    attempts.pause()


def test_ddl_without_a_master_names_itself_and_whom_it_asked(cluster):
    with cluster.client(deadline=0.2) as client:
        cluster.dead.update(cluster.masters)
        for change, what in (
            (lambda: client.create_table(replace(DEFINITION, name="u")), "CREATE TABLE u"),
            (lambda: client.drop_table("t"), "DROP TABLE t"),
        ):
            with pytest.raises(errors.DeadlineExceeded, match=rf"^{what} .from master0:1, .* within 0.2 seconds; "):
                change()


def test_ddl_that_was_done_says_so_where_the_catalog_cannot_be_looked_at(cluster):
    def fault(address, request, when):
        if isinstance(request, methods.GetCatalog):
            raise errors.ServerUnavailable("broke off")

    with cluster.client(deadline=0.2) as client:
        cluster.faults.append(fault)
        with pytest.raises(errors.DeadlineExceeded, match=r"^CREATE TABLE u was done; a refresh of the catalog "):
            client.create_table(replace(DEFINITION, name="u"))


def test_another_cluster_at_the_same_addresses_is_looked_at_anew(client, cluster):
    client.create_table(DEFINITION)
    before, version = client.table("t"), client.catalog_version
    cluster.cluster_id = "other"
    client.refresh_catalog()
    assert [table.name for table in client.tables()] == ["t"]
    assert client.table("t") is not before
    assert client.catalog_version > version, "plans of the other cluster's tables do not fit"
    version = client.catalog_version
    client.create_table(replace(DEFINITION, name="u"))
    assert client.catalog_version == version + 1


def test_settings_of_a_directory_are_none_of_a_cluster(connection):
    assert {"durability", "history_seconds", "store_memory"}.isdisjoint(
        name for name, *_ in connection.execute("SHOW ALL").fetchall()
    )
    with pytest.raises(
        errors.StatementError, match="history_seconds is not a setting of a cluster, but an option of its servers"
    ):
        connection.execute("SHOW history_seconds")
    with pytest.raises(errors.StatementError, match="a cluster's servers are started with it"):
        connection.execute("SET history_seconds = 1")


def test_a_forked_process_is_told(client):
    calls = [lambda: client.tables(), lambda: client.close(), lambda: FakeCluster().client()]
    told = in_child(lambda: [raised_by(call) for call in calls])
    assert told[0].startswith("InterfaceError: this Client belongs to process")
    assert told[1].startswith("InterfaceError: this Client belongs to process")
    assert told[2].startswith("InterfaceError") and "gRPC does not survive that" in told[2]


FORK = """
import os, sys
sys.path.insert(0, {tests!r})
from cluster_support_client import FakeCluster
from nyala import errors
from nyala.driver.stores import open_stores as stores
client = FakeCluster().client()
stores._open["nyala://x:1"] = stores.SharedStore(client, "nyala://x:1", {{}})
if os.fork() == 0:
    assert not stores._open
    try:
        client.tables()
    except errors.InterfaceError:
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_child_does_not_hang_on_its_parents_client():
    script = FORK.format(tests=str(Path(sys.modules[FakeCluster.__module__].__file__ or "").parent))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "7", done.stderr


def test_replicas_are_asked_for(connection: Connection, cluster):
    connection.execute("CREATE TABLE r (k INT PRIMARY KEY) REPLICAS 5")
    connection.execute("CREATE TABLE s (k INT PRIMARY KEY)")
    asked = {r.definition["name"]: r.replicas for _, r in cluster.requests(methods.CreateTable)}
    assert asked == {"r": 5, "s": None}
