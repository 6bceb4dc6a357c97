"""Transactions over several tablets of a real cluster: atomic and isolated, whatever dies."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress

import nyala
import pyarrow as pa
import pytest
from nyala.cluster.client.client import Client
from nyala.cluster.client.options import ClientOptions
from nyala.cluster.client.writes import routing
from nyala.cluster.wire.messages.transaction_methods import Decide, DecideReply
from nyala.driver.stores.cluster_url import servers
from nyala.errors import ClusterError, NotSupportedError, SerializationFailure
from nyala.model.predicates import Range
from nyala.model.schema import Table
from nyala.model.store import Op, ScanSpec, TableWrite, Timestamp, TransactionChanges, WriteBatch
from nyala.model.transactions import TableRead
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow

ACCOUNTS = 40
BALANCE = 100
PAUSE_SECONDS = 0.03
"""Between two statements of a client: a fault lasts for seconds, and meets dozens of them."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=3) as found:
        yield found


@pytest.fixture
def name(cluster: MiniCluster) -> Iterator[str]:
    """A table of accounts in four tablets."""
    found = f"t{uuid.uuid4().hex[:8]}"
    with nyala.connect(cluster.url) as connection:
        connection.execute(f"CREATE TABLE {found} (k INT PRIMARY KEY, n BIGINT) DISTRIBUTE BY HASH(k) INTO 4 BUCKETS")
        connection.load(found, accounts(range(ACCOUNTS), [BALANCE] * ACCOUNTS))
    yield found
    with nyala.connect(cluster.url) as connection:
        connection.execute(f"DROP TABLE {found}")


@pytest.fixture
def client(cluster: MiniCluster) -> Iterator[Client]:
    with Client(servers(cluster.url), ClientOptions(deadline=30.0)) as found:
        yield found


def accounts(keys: object, balances: object) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "n": pa.array(balances, pa.int64())})


def write(table: Table, rows: dict[int, int], op: Op = Op.UPDATE) -> TableWrite:
    (batch,) = accounts(list(rows), list(rows.values())).to_batches()
    return TableWrite(table, WriteBatch(batch, op, all_or_none=True))


def balances(client: Client, table: Table, snapshot: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for token in client.scan_tokens(table, ScanSpec(("k", "n"), snapshot=Timestamp(snapshot))):
        for part in client.scan(token):
            found.update(zip(*(column.to_arrow().to_pylist() for column in part.columns()), strict=True))
    return found


def transfer(client: Client, table: Table, source: int, target: int, amount: int) -> Timestamp:
    since = client.now()
    values = [client.read_row(table, (key,), ("n",), since) for key in (source, target)]
    assert values[0] is not None and values[1] is not None
    rows = {source: values[0][0] - amount, target: values[1][0] + amount}
    return client.commit_transaction(TransactionChanges(since, (write(table, rows),)))


def all_keys(client: Client, table: Table) -> dict[str, list[int]]:
    """The accounts by tablet."""
    return {
        token.tablet_id: [key for part in client.scan(token) for key in part.column(0).to_arrow().to_pylist()]
        for token in client.scan_tokens(table, ScanSpec(("k",), snapshot=client.now()))
    }


def test_a_commit_is_seen_as_a_whole_from_its_timestamp(client: Client, name: str) -> None:
    table = client.table(name)
    since = client.now()
    rows = {key: -key for key in range(0, ACCOUNTS, 3)}
    new = dict.fromkeys(range(ACCOUNTS, ACCOUNTS + 9), 1)
    timestamp = client.commit_transaction(TransactionChanges(since, (write(table, rows), write(table, new, Op.INSERT))))
    before = dict.fromkeys(range(ACCOUNTS), BALANCE)
    assert balances(client, table, timestamp - 1) == before
    assert balances(client, table, timestamp) == {**before, **rows, **new}
    with pytest.raises(SerializationFailure, match=f"table {name}"):
        client.commit_transaction(TransactionChanges(since, (write(table, {3: 7, 4: 7, 5: 7}),)))
    assert balances(client, table, client.now()) == {**before, **rows, **new}


def test_reads_are_validated_at_leaders_whatever_replica_is_preferred(cluster: MiniCluster, name: str) -> None:
    """A follower holds the timestamp of a PREPARE entry, and a read above it would wait for its own transaction."""
    with Client(servers(cluster.url), ClientOptions(deadline=30.0, replica_selection="any")) as client:
        table = client.table(name)
        for number in range(8):
            since = client.now()
            rows = {number: number, ACCOUNTS - 1 - number: number}
            changes = TransactionChanges(since, (write(table, rows),), (TableRead(table),))
            at = client.commit_transaction(changes)
            assert balances(client, table, at).items() >= rows.items()


def test_write_skew_is_possible_under_snapshot_and_refused_under_serializable(client: Client, name: str) -> None:
    table = client.table(name)
    (first, *_), (second, *_) = list(all_keys(client, table).values())[:2]
    for is_serializable in (False, True):
        since = client.now()

        def commit(key: int, other: int, since: Timestamp = since, reads: bool = is_serializable) -> None:
            read = TableRead(table, (Range.equal("k", other),))
            changes = TransactionChanges(since, (write(table, {key: 0}),), (read,) if reads else ())
            client.commit_transaction(changes)

        commit(first, second)
        if is_serializable:
            with pytest.raises(SerializationFailure, match="was changed by another transaction"):
                commit(second, first)
        else:
            commit(second, first)


def test_a_phantom_is_found_by_its_predicate(client: Client, name: str) -> None:
    table = client.table(name)
    for predicate, is_refused in ((Range("n", lower=500), True), (Range("n", upper=-500), False)):
        since = client.now()
        with nyala.connect(client.name) as other:
            other.execute(
                f"UPDATE {name} SET n = 501 WHERE k = 7" if is_refused else f"UPDATE {name} SET n = 1 WHERE k = 7"
            )
        changes = TransactionChanges(since, (write(table, {1: 5, 2: 5, 3: 5}),), (TableRead(table, (predicate,)),))
        if is_refused:
            with pytest.raises(SerializationFailure):
                client.commit_transaction(changes)
        else:
            client.commit_transaction(changes)


def prepare(client: Client, table: Table, rows: dict[int, int]) -> tuple[str, str, Timestamp]:
    """Prepare as a client that dies before it has decided: (transaction, the tablet that decides, timestamp)."""
    writer = client._transactions
    parts = writer._parts(write(table, rows, Op.UPSERT))
    transaction = uuid.uuid4().hex
    attempts = client._shared.attempts("a test")
    prepared = writer._prepare(transaction, client.now(), parts, attempts)
    return transaction, parts[0].tablet_id, max(prepared)


@pytest.mark.parametrize("is_decided", [True, False])
def test_what_a_dead_client_has_prepared_is_ended_by_the_tablets(
    cluster: MiniCluster, client: Client, name: str, is_decided: bool
) -> None:
    table = client.table(name)
    rows = dict.fromkeys(range(10), -1)
    transaction, decider, timestamp = prepare(client, table, rows)
    if is_decided:
        request = Decide(tablet_id=decider, transaction=transaction, timestamp=timestamp)
        known = client._catalog.known(table)
        reply = client._calls.leader(request, DecideReply, known, decider, client._shared.attempts("a test"))
        assert reply.timestamp == timestamp
    with Client(servers(cluster.url), ClientOptions(deadline=30.0)) as other:
        found = balances(other, table, max(other.now(), timestamp))
        assert found == {**dict.fromkeys(range(ACCOUNTS), BALANCE), **(rows if is_decided else {})}
        transfer(other, table, 1, 2, 5)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of some hundred rows take many messages."""
    monkeypatch.setattr(routing, "PIECE_ROWS", 50)


@pytest.mark.parametrize("distribution", ["", "DISTRIBUTE BY HASH(k) INTO 3 BUCKETS"])
def test_a_transaction_of_many_rows_commits_as_a_whole(
    cluster: MiniCluster, client: Client, small_pieces: None, distribution: str
) -> None:
    found = f"t{uuid.uuid4().hex[:8]}"
    with nyala.connect(cluster.url) as connection, nyala.connect(cluster.url) as other:
        connection.execute(f"CREATE TABLE {found} (k INT PRIMARY KEY, n BIGINT) {distribution}")
        with connection.transaction():
            connection.load(found, accounts(range(2000), [1] * 2000))
            connection.execute(f"UPDATE {found} SET n = 2 WHERE k < 500")
            connection.execute(f"DELETE FROM {found} WHERE k >= 1900")
            assert other.execute(f"SELECT count(*) FROM {found}").fetchone() == (0,)
        before = client.now()
        query = f"SELECT count(*), sum(n) FROM {found}"
        assert other.execute(query).fetchone() == (1900, 2400)
        connection.begin("SERIALIZABLE")
        connection.execute(f"UPDATE {found} SET n = n + 1")
        connection.execute(f"DELETE FROM {found} WHERE k < 100")
        if distribution:
            other.execute(f"UPDATE {found} SET n = 0 WHERE k = 1234")
            with pytest.raises(SerializationFailure):
                connection.commit()
            assert other.execute(query).fetchone() == (1900, 2399)
        else:
            connection.commit()
            assert other.execute(query).fetchone() == (1800, 4000)
        table = client.table(found)
        assert sum(balances(client, table, before).values()) == 2400
        connection.execute(f"DROP TABLE {found}")


@pytest.mark.parametrize("seed", range(2))
def test_large_transactions_are_whole_although_servers_die(
    cluster: MiniCluster, name: str, small_pieces: None, seed: int
) -> None:
    """Each adds one to all rows; servers are killed while pieces are sent, prepared and decided."""
    chosen = random.Random(seed)
    stop = threading.Event()
    rows = 1500
    errors: list[BaseException] = []

    def kill() -> None:
        while not stop.is_set():
            victim = chosen.choice(cluster.tservers)
            stop.wait(chosen.random())
            cluster.kill(victim)
            stop.wait(chosen.random())
            cluster.start(victim)
            stop.wait(3.0)

    def watch() -> None:
        with Client(servers(cluster.url), ClientOptions(deadline=60.0)) as client:
            table = client.table(name)
            while not stop.wait(PAUSE_SECONDS):
                with suppress(ClusterError):
                    found = balances(client, table, client.now())
                    assert len(set(found.values())) == 1 and len(found) == rows

    def guarded(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    done = unknown = 0
    with Client(servers(cluster.url), ClientOptions(deadline=60.0)) as client:
        table = client.table(name)
        first = write(table, dict.fromkeys(range(rows), 0), Op.UPSERT)
        client.commit_transaction(TransactionChanges(client.now(), (first,)))
        threads = [threading.Thread(target=guarded, args=(act,)) for act in (kill, watch)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 15
        while time.monotonic() < end and not errors:
            stop.wait(PAUSE_SECONDS)
            since = client.now()
            found = balances(client, table, since)
            changed = write(table, {key: n + 1 for key, n in found.items()})
            try:
                client.commit_transaction(TransactionChanges(since, (changed,)))
                done += 1
            except SerializationFailure:
                pass
            except ClusterError:
                unknown += 1
        stop.set()
        for thread in threads:
            thread.join(90)
            assert not thread.is_alive()
        assert not errors, errors
        counts = set(balances(client, table, client.now()).values())
    assert len(counts) == 1
    assert done <= counts.pop() <= done + unknown
    assert done > 1


def test_money_is_neither_made_nor_lost_while_servers_die(cluster: MiniCluster, name: str) -> None:
    """Transfers by several clients, each with a mark of its own in an account of its own: an acknowledged transfer is
    there, one that failed is not, and every snapshot has the same sum."""
    stop = threading.Event()
    outcomes: dict[int, list[str]] = {number: [] for number in range(3)}
    observed: list[Timestamp] = []
    errors: list[BaseException] = []

    def work(number: int) -> None:
        chosen = random.Random(number)
        with Client(servers(cluster.url), ClientOptions(deadline=30.0)) as client:
            table, mark = client.table(name), 1000 + number
            client.commit_transaction(TransactionChanges(client.now(), (write(table, {mark: 0}, Op.INSERT),)))
            while not stop.wait(PAUSE_SECONDS):
                source, target = chosen.sample(range(ACCOUNTS), 2)
                since = client.now()
                try:
                    values = [client.read_row(table, (key,), ("n",), since) for key in (source, target, mark)]
                    amount = chosen.randrange(1, 9)
                    rows = {source: values[0][0] - amount, target: values[1][0] + amount, mark: values[2][0] + 1}
                    client.commit_transaction(TransactionChanges(since, (write(table, rows),)))
                    outcomes[number].append("done")
                except SerializationFailure:
                    outcomes[number].append("refused")
                except ClusterError:
                    outcomes[number].append("unknown")
            observed.append(client.last_observed)

    def watch() -> None:
        with Client(servers(cluster.url), ClientOptions(deadline=30.0)) as client:
            table = client.table(name)
            while not stop.wait(PAUSE_SECONDS):
                with suppress(ClusterError):
                    found = balances(client, table, client.now())
                    total = sum(n for k, n in found.items() if k < ACCOUNTS)
                    assert total == ACCOUNTS * BALANCE

    def guarded(act: object, *args: object) -> None:
        try:
            act(*args)  # type: ignore[operator]
        except BaseException as error:
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=(work, number)) for number in outcomes]
    threads.append(threading.Thread(target=guarded, args=(watch,)))
    for thread in threads:
        thread.start()
    chosen = random.Random(7)
    end = time.monotonic() + 25
    while time.monotonic() < end and not stop.is_set():
        victim = chosen.choice(cluster.tservers)
        if chosen.random() < 0.5:
            cluster.kill(victim)
            stop.wait(1.0)
            cluster.start(victim)
        else:
            cluster.pause(victim)
            stop.wait(2.0)
            cluster.resume(victim)
        stop.wait(2.0)
    stop.set()
    for thread in threads:
        thread.join(90)
        assert not thread.is_alive()
    assert not errors, errors
    with Client(servers(cluster.url), ClientOptions(deadline=60.0)) as client:
        client.observe(max(observed))
        table = client.table(name)
        found = balances(client, table, client.now())
    assert sum(n for k, n in found.items() if k < ACCOUNTS) == ACCOUNTS * BALANCE
    for number, each in outcomes.items():
        done, unknown = each.count("done"), each.count("unknown")
        assert done <= found[1000 + number] <= done + unknown, (number, done, unknown, found[1000 + number])
        assert done > 5


def test_changes_of_the_catalog_are_refused_and_leave_the_transaction_open(cluster: MiniCluster, name: str) -> None:
    with nyala.connect(cluster.url) as connection:
        assert not connection.transactional_ddl
        connection.begin()
        connection.execute(f"UPDATE {name} SET n = 7 WHERE k = 1")
        for text in (f"CREATE TABLE {name}x (k INT PRIMARY KEY)", f"ALTER TABLE {name} ADD COLUMN v INT"):
            with pytest.raises(NotSupportedError, match="COMMIT or ROLLBACK first"):
                connection.execute(text)
        connection.commit()
        assert connection.execute(f"SELECT n FROM {name} WHERE k = 1").fetchall() == [(7,)]
        assert f"{name}x" not in [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
