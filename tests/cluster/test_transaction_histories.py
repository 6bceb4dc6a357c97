"""Histories of transactions on a real cluster with faults of all kinds (`history_faults`), and the checker of such
histories.

Each transaction reads some lists at its snapshot, and appends an element of its own to some of them; a list is a row,
and the lists are in four tablets. A transaction may read a tablet that it does not write to. Beside them, a bank
transfers money by SQL statements: the total is the same at every snapshot.

NYALA_HISTORY_SECONDS=120 records longer ones, NYALA_SEED=7 others.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import nyala
import pyarrow as pa
import pytest
from append_histories import Anomaly, Transaction, check
from history_faults import Faults
from nyala.cluster.client.client import Client
from nyala.cluster.client.options import ClientOptions
from nyala.driver.stores.cluster_url import servers
from nyala.errors import ClusterError, SerializationFailure
from nyala.model.clock import make_timestamp, wall_microseconds
from nyala.model.predicates import Range
from nyala.model.schema import Table
from nyala.model.store import Op, ScanSpec, TableWrite, Timestamp, TransactionChanges, WriteBatch
from nyala.model.transactions import TableRead
from nyala.testing import MiniCluster

LISTS = 12
SECONDS = float(os.environ.get("NYALA_HISTORY_SECONDS", "7"))
SEED = int(os.environ.get("NYALA_SEED", "1"))
ACCOUNTS, MONEY = 8, 100


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
    with MiniCluster(tservers=4) as found:
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


def wait_until_past(connection: nyala.Connection) -> None:
    """Blocks until the wall clock is past this connection's latest write: a new leader may assign timestamps that are
    seconds ahead of it, and the snapshots of other clients begin at the wall clock."""
    while connection.last_timestamp > make_timestamp(wall_microseconds()):
        time.sleep(0.05)


class Bank:
    """Transfers between accounts, some of which are closed and opened meanwhile; and the total at any time."""

    def __init__(self, url: str, stop: threading.Event):
        self.url, self.stop = url, stop
        self.errors: list[BaseException] = []
        self.times: list[Timestamp] = []
        self.transfers = self.totals = 0

    def create(self) -> None:
        with nyala.connect(self.url) as connection:
            connection.execute(
                "CREATE TABLE accounts (id INT PRIMARY KEY, balance INT) DISTRIBUTE BY HASH(id) INTO 3 BUCKETS"
            )
            rows = {"id": list(range(ACCOUNTS)), "balance": [MONEY] * ACCOUNTS}
            connection.load("accounts", pa.table(rows, pa.schema({"id": pa.int32(), "balance": pa.int32()})))
            wait_until_past(connection)
            self.times.append(connection.last_timestamp)

    def work(self, number: int) -> None:
        chosen = random.Random(number)
        try:
            with nyala.connect(self.url) as connection:
                while not self.stop.is_set():
                    with suppress(ClusterError, SerializationFailure):
                        self._total(connection, chosen) if chosen.random() < 0.5 else self._transfer(connection, chosen)
        except BaseException as error:
            self.errors.append(error)
            self.stop.set()

    def _transfer(self, connection: nyala.Connection, chosen: random.Random) -> None:
        source, target = chosen.sample(range(ACCOUNTS), 2)
        closes, amount = chosen.random() < 0.3, chosen.randint(1, 20)
        with connection.transaction():
            found = connection.execute("SELECT balance FROM accounts WHERE id = ?", [source]).fetchone()
            if found is None:
                return
            if closes:
                amount = found[0]
                connection.execute("DELETE FROM accounts WHERE id = ?", [source])
            else:
                connection.execute("UPDATE accounts SET balance = balance - ? WHERE id = ?", [amount, source])
            added = "ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + excluded.balance"
            connection.execute(f"INSERT INTO accounts VALUES (?, ?) {added}", [target, amount])
        self.transfers += 1
        self.times.append(connection.last_timestamp)

    def _total(self, connection: nyala.Connection, chosen: random.Random) -> None:
        """Now, or at the timestamp of a COMMIT, or just before it."""
        moment = Timestamp(chosen.choice(self.times[-20:]) - chosen.randint(0, 1))
        if chosen.random() < 0.4:
            (total,) = connection.execute("SELECT sum(balance) FROM accounts").fetchone()
        elif moment < self.times[0]:
            return
        else:
            with connection.at(moment) as then:
                (total,) = then.execute("SELECT sum(balance) FROM accounts").fetchone()
        assert total == ACCOUNTS * MONEY, f"the total is {total} at {moment}"
        self.totals += 1


@pytest.mark.slow
@pytest.mark.parametrize("is_serializable", [True, False])
def test_histories_of_a_cluster_have_no_anomaly(cluster: MiniCluster, is_serializable: bool) -> None:
    name = "serial" if is_serializable else "snapshot"
    with nyala.connect(cluster.url) as connection:
        connection.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, v TEXT) DISTRIBUTE BY HASH(k) INTO 4 BUCKETS")
        connection.load(name, as_table(dict.fromkeys(range(LISTS), ())))
        wait_until_past(connection)
    recorder = Recorder(cluster.url, name, is_serializable)
    threads = [threading.Thread(target=recorder.work, args=(number,)) for number in range(4)]
    bank = Bank(cluster.url, recorder.stop)
    if not is_serializable:
        bank.create()
        threads += [threading.Thread(target=bank.work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    faults = Faults(cluster, name, recorder.stop, SEED + is_serializable)
    try:
        faults.run(SECONDS)
    finally:
        recorder.stop.set()
        for thread in threads:
            thread.join(90)
    assert not any(thread.is_alive() for thread in threads)
    assert not recorder.errors + bank.errors, (faults.happened, recorder.errors, bank.errors)
    with Client(servers(cluster.url), ClientOptions(deadline=60.0)) as client:
        client.observe(max(recorder.latest))
        last = Transaction(99, all_lists(client, client.table(name), client.now()))
    history = [transaction for each in recorder.histories for transaction in each]
    assert sum(1 for t in history if t.is_committed and len(t.appends) > 1) > 5
    assert is_serializable or (bank.transfers > 1 and bank.totals > 1)
    check([*history, last], "serializable" if is_serializable else "snapshot")
