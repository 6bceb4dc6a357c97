"""Quotas of tables on a cluster: no server knows the size of a table, and all refuse its writes when it is reached."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import nyala
import pyarrow as pa
import pytest
from forked_command import nyala as nyala_command
from nyala.cluster.wire.messages.methods import GetStatus
from nyala.errors import PartlyWritten, QuotaExceeded
from nyala.model.store import Op, WriteBatch
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow
QUOTA = 300_000


@pytest.fixture(scope="module")
def shared() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=3, options={"tserver.history-seconds": "0"}) as cluster:
        yield cluster


@pytest.fixture
def connection(cluster: MiniCluster) -> Iterator[nyala.Connection]:
    with nyala.connect(cluster.url) as connection:
        connection.execute(
            f"CREATE TABLE t (k BIGINT PRIMARY KEY, v STRING) PARTITION BY HASH (k) PARTITIONS 4 QUOTA {QUOTA}"
        )
        connection.execute("CREATE TABLE other (k BIGINT PRIMARY KEY)")
        yield connection
        connection.execute("DROP TABLE t")
        connection.execute("DROP TABLE other")


def rows(start: int, count: int) -> pa.RecordBatch:
    keys, noise = range(start, start + count), random.Random(start)  # incompressible
    texts = [f"{noise.getrandbits(2000):0500x}" for _ in keys]
    return pa.record_batch({"k": pa.array(keys, pa.int64()), "v": pa.array(texts)})


def until(attempt: Callable[[], object], is_over: Callable[[Exception | None], bool]) -> Exception | None:
    """Repeats an attempt until its outcome, an error or None, is as it should be; returns that."""
    deadline = time.monotonic() + 120
    while True:
        outcome = None
        try:
            attempt()
        except QuotaExceeded as error:
            outcome = error
        if is_over(outcome):
            return outcome
        assert time.monotonic() < deadline, outcome
        time.sleep(0.05)


def fill(connection: nyala.Connection) -> Exception:
    """Writes until the table has reached its quota, and every server has learned that."""
    table = connection.store.table("t")

    def write(key: int) -> None:
        if key < 0:  # until then, servers that know refuse parts of a batch, and others write theirs
            connection.store.write_row(table, Op.UPSERT, {"k": key, "v": "x"})
        else:
            with contextlib.suppress(PartlyWritten):
                connection.store.write(table, WriteBatch(rows(next(numbers), 100), Op.UPSERT))

    numbers = iter(range(0, 1 << 30, 100))
    for key in range(0, -16, -1):  # in all tablets
        error = until(partial(write, key), lambda outcome: outcome is not None)
    assert error is not None
    return error


def sizes(cluster: MiniCluster, table_id: str) -> list[int]:
    """Bytes of the table's tablets, by their leaders' own statuses."""
    found = [cluster.call(name, GetStatus()).details["sizes"] for name in cluster.tservers]
    return [size for sizes in found for tablet, size in sizes.items() if tablet.startswith(table_id)]


def test_every_way_to_write_is_refused_and_deletions_are_not(connection: Any) -> None:
    error = fill(connection)
    assert f"of {QUOTA:,} bytes" in str(error) and "Writes are accepted again when the servers have" in str(error)
    assert error.sqlstate == "53100" and not error.retryable
    count = connection.execute("SELECT count(*) FROM t").fetchone()[0]
    table = connection.store.table("t")
    for statement in (
        "INSERT INTO t VALUES (-1, 'x')",
        "UPDATE t SET v = 'x' WHERE k = 1",
        "UPSERT INTO t SELECT k, 'x' FROM t",
    ):
        with pytest.raises(QuotaExceeded, match="table t has reached its quota"):
            connection.execute(statement)
    with pytest.raises(QuotaExceeded):
        connection.store.write_row(table, Op.UPSERT, {"k": -1, "v": "x"})
    with pytest.raises(QuotaExceeded), connection.transaction():
        connection.execute("INSERT INTO other VALUES (1)")
        connection.execute("INSERT INTO t VALUES (-1, 'x'), (-2, 'x'), (-3, 'x')")
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (count,)
    assert connection.execute("SELECT count(*) FROM other").fetchone() == (0,)
    connection.execute("DELETE FROM t WHERE k < 10")
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (count - 10,)


def test_a_larger_quota_and_a_smaller_table_let_writes_through(connection: Any) -> None:
    fill(connection)
    connection.execute("ALTER TABLE t SET QUOTA '1GB'")
    connection.execute("UPSERT INTO t VALUES (-1, 'x')")  # at once: the tablets have the altered table
    connection.execute(f"ALTER TABLE t SET QUOTA {QUOTA}")
    until(lambda: connection.execute("UPSERT INTO t VALUES (-1, 'x')"), lambda outcome: outcome is not None)
    connection.execute("DELETE FROM t")
    connection.execute("COMPACT TABLE t")
    until(lambda: connection.execute("UPSERT INTO t VALUES (-1, 'x')"), lambda outcome: outcome is None)
    connection.execute("ALTER TABLE t SET QUOTA NONE")
    assert "QUOTA" not in connection.execute("SHOW CREATE TABLE t").fetchone()[0]


def test_a_new_leader_of_a_tablet_and_a_new_master_hold_the_quota(connection: Any, cluster: MiniCluster) -> None:
    fill(connection)
    cluster.restart(next(iter(cluster.masters)))
    cluster.restart(next(iter(cluster.tservers)))
    until(lambda: connection.execute("UPSERT INTO t VALUES (-1, 'x')"), lambda outcome: outcome is not None)


def test_ksck_names_the_table_with_the_size_that_its_leaders_report(connection: Any, cluster: MiniCluster) -> None:
    def ksck() -> str:
        return nyala_command("cluster", "ksck", cluster.url).stdout

    assert "quota" not in ksck()
    fill(connection)
    found = sizes(cluster, connection.store.table("t").id)
    assert len(found) == 4 and sum(found) >= QUOTA
    assert f"table t has reached its quota: its data take {sum(found):,} of {QUOTA:,} bytes" in ksck()
