"""Operations of clients: their kinds and keys, and that several clients can do them together."""

import itertools
import threading
from collections import Counter
from dataclasses import replace

import pytest
from nyala.bench.ycsb.generators import key_texts
from nyala.bench.ycsb.model import FIELD_BYTES, FIELDS, Kind, Setting
from nyala.bench.ycsb.operations import load_batches, plan
from nyala.bench.ycsb.workloads import WORKLOADS, with_distribution
from nyala.errors import InterfaceError

SETTING = Setting(records=500, operations=6_000, threads=4, batch_rows=64)
LOADED = key_texts(0, SETTING.records)


class Table:
    """Rows in a dictionary, which several clients may share; it complains about every key that should not be."""

    def __init__(self, setting=SETTING):
        self.rows = {}
        self.calls = []
        for keys, rows in load_batches(setting):
            self.load(keys, rows)

    def load(self, keys, rows):
        for key, row in zip(keys, rows, strict=True):
            self.insert(key, row)
        self.calls.clear()

    def read(self, key):
        self.calls.append(("read", key))
        return self.rows[key]

    def update(self, key, field, value):
        self.calls.append(("update", key, field, value))
        assert len(value) == FIELD_BYTES
        assert self.rows[key][field] != value
        self.rows[key][field] = value

    def insert(self, key, fields):
        self.calls.append(("insert", key, fields))
        assert len(fields) == FIELDS
        assert all(len(value) == FIELD_BYTES for value in fields)
        assert key not in self.rows
        self.rows[key] = list(fields)

    def scan(self, first, count):
        self.calls.append(("scan", first, count))
        return [self.rows[first]]


def in_turns(clients, table):
    """One operation of each client after the other."""
    for index in range(max(map(len, clients))):
        for client in clients:
            if index < len(client):
                client.execute(index, table)


def inserted(clients):
    """The keys that clients insert, in the order in which each does."""
    table = Table()
    for client in clients:
        for index, kind in enumerate(client.kinds):
            if kind is Kind.INSERT:
                client.execute(index, table)
    return [call[1] for call in table.calls]


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("distribution", ["zipfian", "uniform"])
def test_clients_of_two_processes_replay_without_error(name, distribution):
    workload = with_distribution(WORKLOADS[name], distribution)
    table = Table()
    clients = [*plan(workload, SETTING, 0, 3), *plan(workload, SETTING, 3, 1)]
    assert sum(map(len, clients)) == SETTING.operations
    in_turns(clients, table)
    kinds = Counter(kind for client in clients for kind in client.kinds)
    assert set(kinds) == set(workload.shares)
    for kind, share in workload.shares.items():
        assert kinds[kind] / SETTING.operations == pytest.approx(share, abs=0.02)
    assert len(table.rows) == SETTING.records + kinds[Kind.INSERT]


def test_each_kind_calls_what_it_should():
    operations = [client for name in "AEF" for client in plan(WORKLOADS[name], SETTING)]
    table = Table()
    expected = {kind: [kind.value] for kind in Kind} | {Kind.READ_MODIFY_WRITE: ["read", "update"]}
    for client in operations:
        for index, kind in enumerate(client.kinds):
            assert client.execute(index, table) is kind
            assert [call[0] for call in table.calls] == expected[kind]
            assert len({call[1] for call in table.calls}) == 1
            table.calls.clear()


def test_fields_and_lengths_of_scans_are_drawn_evenly():
    table = Table()
    in_turns([*plan(WORKLOADS["A"], SETTING), *plan(WORKLOADS["E"], SETTING)], table)
    fields = Counter(call[2] for call in table.calls if call[0] == "update")
    assert sorted(fields) == list(range(FIELDS))
    assert max(fields.values()) < 1.3 * min(fields.values())
    lengths = [call[2] for call in table.calls if call[0] == "scan"]
    assert set(lengths) == set(range(1, 101))
    assert sum(lengths) / len(lengths) == pytest.approx(50.5, abs=2)


def test_zipfian_asks_for_few_keys_often_and_uniform_for_all_alike():
    most = {}
    for distribution in ("zipfian", "uniform"):
        table = Table()
        in_turns(plan(with_distribution(WORKLOADS["C"], distribution), SETTING), table)
        counts = Counter(call[1] for call in table.calls)
        assert set(counts) <= set(LOADED)
        most[distribution] = counts.most_common(1)[0][1] / SETTING.operations
    assert most["zipfian"] > 0.03
    assert most["uniform"] < 0.01


def test_latest_asks_mostly_for_what_was_acknowledged_last():
    (client,) = plan(WORKLOADS["D"], replace(SETTING, threads=1))
    table = Table()
    known = list(LOADED)
    distances = []
    for index, kind in enumerate(client.kinds):
        client.execute(index, table)
        key = table.calls[-1][1]
        if kind is Kind.INSERT:
            known.append(key)
        else:
            distances.append(len(known) - 1 - known.index(key))
    exact = 1 / sum(place**-0.99 for place in range(1, SETTING.records + 1))
    assert distances.count(0) / len(distances) == pytest.approx(exact, rel=0.1)
    assert sum(distance < 10 for distance in distances) > 0.4 * len(distances)
    assert max(distances) > SETTING.records / 2


@pytest.mark.parametrize("name", ["D", "E"])
def test_an_insert_that_fails_is_never_asked_for(name):
    class Refusing(Table):
        def insert(self, key, fields):
            if len(self.rows) >= SETTING.records and fields[0] < "@":
                raise OSError("the disk is full")
            super().insert(key, fields)

    clients = plan(WORKLOADS[name], SETTING)
    table = Refusing()
    failed = 0
    for index in range(len(clients[0])):
        for client in clients:
            try:
                client.execute(index, table)
            except OSError:
                failed += 1
    assert failed > 50
    assert len(table.rows) > SETTING.records + 50


def test_scans_start_at_inserted_rows_too():
    clients = plan(WORKLOADS["E"], SETTING)
    table = Table()
    in_turns(clients, table)
    starts = [call[1] for call in table.calls if call[0] == "scan"]
    share = 1 - sum(map(set(LOADED).__contains__, starts)) / len(starts)
    # At the end, 300 of the 800 rows are inserted ones.
    assert 0.05 < share < 0.375


def test_no_two_clients_insert_the_same_key():
    several = [plan(WORKLOADS["D"], SETTING, first, count) for first, count in ((0, 1), (1, 2), (3, 1))]
    keys = [inserted(clients) for clients in several]
    flat = list(itertools.chain(*keys))
    assert all(keys)
    assert len(set(flat)) == len(flat)
    assert not set(flat) & set(LOADED)


def test_operations_follow_from_the_seed_and_the_client_alone():
    def calls(setting, *clients):
        table = Table()
        for client in plan(WORKLOADS["A"], setting, *clients):
            in_turns([client], table)
        return table.calls

    assert calls(SETTING) == calls(SETTING)
    assert calls(SETTING) == [call for first in (0, 2) for call in calls(SETTING, first, 2)]
    assert calls(SETTING, 0, 1) != calls(SETTING, 1, 1)
    assert calls(SETTING, 0, 1) != calls(replace(SETTING, seed=2), 0, 1)


def test_operations_are_spread_over_clients():
    setting = replace(SETTING, operations=10)
    assert [len(client) for client in plan(WORKLOADS["C"], setting)] == [3, 3, 2, 2]
    assert [len(client) for client in plan(WORKLOADS["C"], replace(SETTING, operations=2))] == [1, 1, 0, 0]
    assert [len(client) for client in plan(WORKLOADS["C"], setting, first_client=2)] == [2, 2]


def test_clients_and_records_that_are_not_there():
    with pytest.raises(InterfaceError, match="there are 4 clients"):
        plan(WORKLOADS["A"], SETTING, 2, 3)
    with pytest.raises(InterfaceError, match="at least one loaded record"):
        plan(WORKLOADS["A"], replace(SETTING, records=0))


def test_threads_share_the_latest_keys():
    clients = plan(WORKLOADS["D"], SETTING)
    table = Table()
    errors = []

    def run(client):
        try:
            for index in range(len(client)):
                client.execute(index, table)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    inserts = sum(client.kinds.count(Kind.INSERT) for client in clients)
    assert len(table.rows) == SETTING.records + inserts


def test_batches_of_a_load_hold_every_row_once():
    batches = list(load_batches(SETTING))
    assert [len(keys) for keys, _ in batches] == [64] * 7 + [52]
    assert [key for keys, _ in batches for key in keys] == LOADED
    assert len({value for _, rows in batches for row in rows for value in row}) == SETTING.records * FIELDS
    assert {len(row) for _, rows in batches for row in rows} == {FIELDS}


def test_batches_are_the_same_whoever_takes_them():
    whole = {keys[0]: rows for keys, rows in load_batches(SETTING)}
    parts = [batch for part in range(3) for batch in load_batches(SETTING, part, 3)]
    assert len(parts) == len(whole)
    assert all(whole[keys[0]] == rows for keys, rows in parts)
    assert next(load_batches(replace(SETTING, seed=2)))[1] != next(load_batches(SETTING))[1]


def test_threads_share_the_batches():
    shared = load_batches(replace(SETTING, batch_rows=1))
    taken = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda mine=mine: mine.extend(shared)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(keys[0] for mine in taken for keys, _ in mine) == sorted(LOADED)
