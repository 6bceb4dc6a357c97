"""The client with real servers: servers that are killed during reads, and its options."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import nyala
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from nyala.cluster.client.client import Client
from nyala.cluster.client.scans.token_scan import TokenScan
from nyala.driver.stores.cluster_url import servers
from nyala.model.store import Op, ScanCounters, ScanSpec
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow

ROWS = 300_000
PAD = "." * 120
"""Larger than the network's buffers."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=3) as found:
        with nyala.connect(found.url) as connection:
            connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING, d DECIMAL(30, 2))")
            keys = np.random.default_rng(1).permutation(ROWS)
            values = pc.binary_join_element_wise(pa.array(keys, pa.int32()).cast(pa.string()), PAD, "")
            connection.load("t", pa.table({"k": pa.array(keys, pa.int32()), "v": values}))
        yield found


def test_an_ordered_scan_outlives_its_server(cluster: MiniCluster) -> None:
    with Client(servers(cluster.url)) as client:
        (token,) = client.scan_tokens(client.table("t"), ScanSpec(("v",), ordered=True))
        counters = ScanCounters()
        scan = TokenScan(client._shared, client._catalog, client._calls, client._watch, token, counters, held_bytes=0)
        batches = scan.batches()
        found = next(batches).column(0).to_arrow().to_pylist()
        address = scan._route.address
        victim = next(name for name in cluster.tservers if cluster.local.addresses[name] == address)
        cluster.kill(victim)
        try:
            for batch in batches:
                found += batch.column(0).to_arrow().to_pylist()
        finally:
            cluster.start(victim)
        assert scan._route.address != address
        assert found == [f"{k}{PAD}" for k in range(ROWS)]


def test_a_paused_server_does_not_stop_its_readers_and_writers(cluster: MiniCluster) -> None:
    with nyala.connect(cluster.url) as connection:
        table = connection.store.table("t")
        tablet_id = connection.store.scan_tokens(table, ScanSpec(()))[0].tablet_id
        locations = connection.store._locations  # type: ignore[attr-defined]
        # A tablet may be between two leaders, if the servers were slow.
        while not (leader := locations.get(tablet_id, table.id).leader):
            locations.invalidate(tablet_id)
            time.sleep(0.1)
        name = next(name for name in cluster.tservers if cluster.local.addresses[name] == leader)
        cluster.pause(name)
        try:
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (ROWS,)
            connection.execute("UPSERT INTO t (k, d) VALUES (7, 7.5)")
            assert connection.execute("SELECT d FROM t WHERE k = 7").fetchone() == (Decimal("7.50"),)
        finally:
            cluster.resume(name)
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (ROWS,)


def test_a_load_lies_on_the_disk_and_is_counted_exactly(cluster: MiniCluster) -> None:
    with nyala.connect(cluster.url) as connection:
        handle = connection.table("t")
        assert handle.num_rows == ROWS
        statistics = handle.statistics.columns
        assert (statistics["k"].low, statistics["k"].high) == (0, ROWS - 1)
        assert statistics["k"].distinct_count == pytest.approx(ROWS, rel=0.05)
        assert sum(tablet.bytes for tablet in handle.tablets) > ROWS


@pytest.mark.parametrize(
    "options",
    [
        {"read_mode": "READ_LATEST"},
        {"replica_selection": "any"},
        {"replica_selection": "closest", "read_mode": "READ_AT_SNAPSHOT"},
        {"commit_wait": True, "deadline": 20},
    ],
    ids=str,
)
def test_options(cluster: MiniCluster, options: dict[str, object]) -> None:
    with nyala.connect(cluster.url, **options) as connection:
        connection.execute("CREATE TABLE o (k INT PRIMARY KEY, v INT) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS")
        for k in range(5):
            connection.execute("INSERT INTO o VALUES (?, ?)", (k, k * k))
            assert connection.execute("SELECT count(*), max(v) FROM o").fetchall() == [(k + 1, k * k)]
        assert connection.execute("SELECT v FROM o WHERE k = 3").fetchone() == (9,)
        connection.execute("DROP TABLE o")


def test_the_client_is_shared_and_options_must_agree(cluster: MiniCluster) -> None:
    with nyala.connect(cluster.url) as one, nyala.connect(cluster.url) as other:
        assert one.store is other.store
        with pytest.raises(nyala.InterfaceError, match="is open in this process with default options"):
            nyala.connect(cluster.url, deadline=1.0)


def test_another_process_time_is_read_at(cluster: MiniCluster) -> None:
    with Client(servers(cluster.url)) as one, Client(servers(cluster.url)) as other:
        table = one.table("t")
        before = one.now()
        one.write_row(table, Op.UPDATE, {"k": 1, "d": Decimal(5)})
        other.observe(one.last_observed)
        assert other.read_row(table, (1,), ("d",), other.now()) == (Decimal(5),)
        assert other.read_row(table, (1,), ("d",), before) == (None,)


ADD = """
import sys, nyala
with nyala.connect(sys.argv[1]) as connection:
    for _ in range(25):
        connection.execute("UPDATE counters SET n = n + 1 WHERE k <= 3")
"""


def test_no_increment_of_several_processes_is_lost(cluster: MiniCluster) -> None:
    with nyala.connect(cluster.url) as connection:
        connection.execute("CREATE TABLE counters (k INT PRIMARY KEY, n INT)")
        connection.execute("INSERT INTO counters VALUES (1, 0), (2, 0), (3, 0)")

        def add() -> None:
            for _ in range(25):
                connection.execute(
                    "INSERT INTO counters VALUES (2, 0) ON CONFLICT (k) DO UPDATE SET n = counters.n + 1"
                )

        others = [subprocess.Popen([sys.executable, "-c", ADD, cluster.url]) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(add) for _ in range(2)]:
                done.result()
        assert [other.wait(120) for other in others] == [0, 0]
        assert connection.execute("SELECT k, n FROM counters ORDER BY k").fetchall() == [(1, 50), (2, 100), (3, 50)]
