"""Histories of transactions on a real cluster whose servers are killed and paused, and the checker of such histories.

Each transaction reads some lists at its snapshot, and appends an element of its own to some of them; a list is a row,
and the lists are in four tablets. A transaction may read a tablet that it does not write to.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator

import nyala
import pyarrow as pa
import pytest
from append_histories import Anomaly, Transaction, check
from nyala.cluster.client.client import Client
from nyala.cluster.client.options import ClientOptions
from nyala.driver.stores.cluster_url import servers
from nyala.errors import ClusterError, SerializationFailure
from nyala.model.predicates import Range
from nyala.model.schema import Table
from nyala.model.store import Op, ScanSpec, TableWrite, Timestamp, TransactionChanges, WriteBatch
from nyala.model.transactions import TableRead
from nyala.testing import MiniCluster

LISTS = 12
SECONDS = 7.0


# ---- the checker ---------------------------------------------------------------------------------------------------

T = Transaction
LAST = T(99, {1: (1,), 2: (2,)})
WRITE_SKEW = [T(0, {2: ()}, {1: 1}), T(1, {1: ()}, {2: 2}), LAST]
LONG_FORK = [T(0, {}, {1: 1}), T(1, {}, {2: 2}), T(2, {1: (1,), 2: ()}), T(3, {1: (), 2: (2,)}), LAST]


@pytest.mark.parametrize(
    ("history", "is_snapshot"),
    [
        (WRITE_SKEW, True),
        (LONG_FORK, False),
        # G-single: half of a transaction is read.
        ([T(0, {}, {1: 1, 2: 2}), T(1, {1: (1,), 2: ()}), LAST], False),
        # G0: two transactions write two lists in different orders.
        ([T(0, {}, {1: 1, 2: 3}), T(1, {}, {1: 2, 2: 4}), T(2, {1: (1, 2), 2: (4, 3)})], False),
        # G1a.
        ([T(0, {}, {1: 1}, None), T(1, {}, {2: 2}, False), LAST], False),
        # G1c: each has read what the other has written.
        ([T(0, {2: (2,)}, {1: 1}), T(1, {1: (1,)}, {2: 2}), LAST], False),
        # A lost update: both have appended to the empty list.
        ([T(0, {1: ()}, {1: 1}), T(1, {1: ()}, {1: 5}), T(0, {2: ()}, {2: 2}), LAST], False),
        ([T(0, {1: ()}, {1: 1}), T(1, {1: (5,)}), T(2, {1: ()}, {1: 5}), T(0, {2: ()}, {2: 2}), LAST], False),
        # A client does not see its own earlier transaction.
        ([T(0, {}, {1: 1}), T(0, {1: ()}), T(1, {}, {2: 2}), LAST], False),
    ],
)
def test_the_checker_finds_anomalies(history: list[Transaction], is_snapshot: bool) -> None:
    with pytest.raises(Anomaly):
        check(history, "serializable")
    if is_snapshot:
        check(history, "snapshot")
    else:
        with pytest.raises(Anomaly):
            check(history, "snapshot")


def test_the_checker_accepts_what_is_serial() -> None:
    serial = [
        T(0, {1: ()}, {1: 1}),
        T(1, {1: (1,), 2: ()}, {2: 2}),
        T(0, {}, {3: 9}, None),
        T(2, {}, {3: 8}, False),
        LAST,
    ]
    check(serial, "serializable")
    check(serial, "snapshot")


# ---- on a cluster --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=3) as found:
        yield found


class Recorder:
    """Clients that work at the same time, and what they have seen."""

    def __init__(self, url: str, name: str, is_serializable: bool):
        self.url, self.name, self.is_serializable = url, name, is_serializable
        self.stop = threading.Event()
        self.histories: list[list[Transaction]] = []
        self.errors: list[BaseException] = []
        self.elements = itertools.count(1)
        self.latest: list[Timestamp] = []
        """The greatest timestamp that each client has seen: what another client must read at to see all of it. A new
        leader's clock may be a second ahead of this machine's."""

    def work(self, number: int) -> None:
        try:
            with Client(servers(self.url), ClientOptions(deadline=30.0)) as client:
                self._work(client, number, random.Random(number))
                self.latest.append(client.last_observed)
        except BaseException as error:
            self.errors.append(error)
            self.stop.set()

    def _work(self, client: Client, number: int, chosen: random.Random) -> None:
        table = client.table(self.name)
        history: list[Transaction] = []
        self.histories.append(history)
        while not self.stop.is_set():
            keys = chosen.sample(range(LISTS), chosen.randint(2, 3))
            since = client.now()
            transaction = Transaction(number)
            try:
                if chosen.random() < 0.15:
                    transaction.reads = all_lists(client, table, since)
                else:
                    transaction.reads = {key: read(client, table, key, since) for key in keys}
                    written = keys[: chosen.choice([0, 1, 1, 2])]
                    transaction.appends = {key: next(self.elements) for key in written}
            except ClusterError:
                continue  # nothing was read
            if transaction.appends:
                transaction.is_committed = self.commit(client, table, since, transaction)
            history.append(transaction)

    def commit(self, client: Client, table: Table, since: Timestamp, transaction: Transaction) -> bool | None:
        lists = {key: (*transaction.reads[key], element) for key, element in transaction.appends.items()}
        (rows,) = as_table(lists).to_batches()
        reads: tuple[TableRead, ...] = ()
        if self.is_serializable:
            reads = tuple(TableRead(table, (Range.equal("k", key),)) for key in transaction.reads)
        write = TableWrite(table, WriteBatch(rows, Op.UPDATE, all_or_none=True))
        try:
            client.commit_transaction(TransactionChanges(since, (write,), reads))
        except SerializationFailure:
            return False
        except ClusterError:
            return None
        return True


def as_table(lists: dict[int, tuple[int, ...]]) -> pa.Table:
    texts = [" ".join(map(str, elements)) for elements in lists.values()]
    return pa.table({"k": pa.array(list(lists), pa.int32()), "v": pa.array(texts, pa.string())})


def elements(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


def read(client: Client, table: Table, key: int, since: Timestamp) -> tuple[int, ...]:
    row = client.read_row(table, (key,), ("v",), since)
    assert row is not None
    return elements(row[0])


def all_lists(client: Client, table: Table, since: Timestamp) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for token in client.scan_tokens(table, ScanSpec(("k", "v"), snapshot=since)):
        for part in client.scan(token):
            keys, texts = (column.to_arrow().to_pylist() for column in part.columns())
            found.update(zip(keys, map(elements, texts), strict=True))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("is_serializable", [True, False])
def test_histories_of_a_cluster_have_no_anomaly(cluster: MiniCluster, is_serializable: bool) -> None:
    name = "serial" if is_serializable else "snapshot"
    with nyala.connect(cluster.url) as connection:
        connection.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, v TEXT) DISTRIBUTE BY HASH(k) INTO 4 BUCKETS")
        connection.load(name, as_table(dict.fromkeys(range(LISTS), ())))
    recorder = Recorder(cluster.url, name, is_serializable)
    threads = [threading.Thread(target=recorder.work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    chosen, end = random.Random(3), time.monotonic() + SECONDS
    while time.monotonic() < end and not recorder.stop.is_set():
        recorder.stop.wait(2.0)
        victim = chosen.choice(cluster.tservers)
        if chosen.random() < 0.5:
            cluster.kill(victim)
            recorder.stop.wait(0.5)
            cluster.start(victim)
        else:
            cluster.pause(victim)
            recorder.stop.wait(1.0)
            cluster.resume(victim)
    recorder.stop.set()
    for thread in threads:
        thread.join(90)
        assert not thread.is_alive()
    assert not recorder.errors, recorder.errors
    with Client(servers(cluster.url), ClientOptions(deadline=60.0)) as client:
        client.update(max(recorder.latest))
        last = Transaction(99, all_lists(client, client.table(name), client.now()))
    history = [transaction for each in recorder.histories for transaction in each]
    assert sum(1 for t in history if t.is_committed and len(t.appends) > 1) > 5
    check([*history, last], "serializable" if is_serializable else "snapshot")
