"""Operations of YCSB on every binding, compared with a dictionary."""

from __future__ import annotations

import contextlib
import pickle
import random
import signal
import string
import subprocess
import sys
import threading

import pytest
from nyala.bench.postgres import is_installed
from nyala.bench.ycsb.bindings import BINDINGS
from nyala.bench.ycsb.model import FIELDS
from nyala.errors import IntegrityError

pytestmark = pytest.mark.slow

NEEDED = {"duckdb": "duckdb", "rocksdb": "rocksdict", "postgres": "psycopg"}
SPREADING = ("cluster", "postgres", "sqlite")
EMBEDDED = ("duckdb", "rocksdb", "sqlite")
"""Those whose end is the end of this process."""
REOPENED = (*EMBEDDED, "postgres")
"""Those that keep the table that they find."""
TEXTS = string.ascii_letters + string.digits + string.punctuation + " \t\n"


def made(name, home, durability="os"):
    """A binding that is not started; the test is skipped where this machine lacks what it needs."""
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    if name == "postgres" and not is_installed():
        pytest.skip("no PostgreSQL server")
    home.mkdir()
    return BINDINGS[name]()(home, durability)


class Store:
    """A started binding, and the rows that it should have."""

    def __init__(self, binding):
        self.binding = binding
        self.rows = {}

    def check(self):
        """All rows, in order, one by one and by one scan; a scan ends where the rows do."""
        with contextlib.closing(self.binding.client()) as client:
            expected = [row for _, row in sorted(self.rows.items())]
            assert [tuple(row) for row in client.scan("", len(expected) + 10)] == expected
            for key, row in self.rows.items():
                assert tuple(client.read(key)) == row


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Stores by name, started on first use: one of each for all tests, in any order of the tests."""
    stores = {}

    def get(name):
        if name not in stores:
            binding = made(name, tmp_path_factory.mktemp("ycsb") / name)
            binding.start()
            stores[name] = Store(binding)
        return stores[name]

    yield get
    for store in stores.values():
        store.binding.stop()


@pytest.fixture(params=list(BINDINGS))
def store(request, started):
    return started(request.param)


def text(length):
    return "".join(random.choices(TEXTS, k=length))


def row():
    return tuple(text(random.choice((0, 1, 100))) for _ in range(FIELDS))


def new_keys(count):
    return list({text(random.randint(1, 24)) + format(random.getrandbits(40), "x") for _ in range(count)})


def together(*calls):
    """Call each in a thread of its own; the first error, if any, is this one's."""
    errors = []

    def run(call):
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_rows_are_those_of_the_dictionary(store):
    rows = store.rows
    with contextlib.closing(store.binding.client()) as client:
        loaded = {key: row() for key in new_keys(40)}
        client.load(list(loaded), list(loaded.values()))
        rows.update(loaded)
        for _ in range(150):
            key = random.choice(list(rows))
            match random.choice(("read", "update", "insert", "scan")):
                case "read":
                    assert tuple(client.read(key)) == rows[key]
                case "update":
                    field, value = random.randrange(FIELDS), text(50)
                    client.update(key, field, value)
                    rows[key] = (*rows[key][:field], value, *rows[key][field + 1 :])
                case "insert":
                    [key] = new_keys(1)
                    rows[key] = row()
                    client.insert(key, rows[key])
                case "scan":
                    first, count = random.choice((key, text(3))), random.randint(1, 100)
                    expected = [rows[key] for key in sorted(rows) if key >= first][:count]
                    assert [tuple(row) for row in client.scan(first, count)] == expected
    store.check()


def test_a_key_that_is_not_there_is_an_error(store):
    with contextlib.closing(store.binding.client()) as client:
        with pytest.raises(IntegrityError):
            client.read("not there")
        with pytest.raises(IntegrityError):
            client.update("not there", 0, "x")
        assert list(client.scan("\x7f", 10)) == []
    store.check()


def test_clients_load_side_by_side(store):
    def load(batches):
        with contextlib.closing(store.binding.client()) as client:
            for batch in batches:
                client.load(list(batch), list(batch.values()))

    batches = [[{key: row() for key in new_keys(20)} for _ in range(3)] for _ in range(4)]
    together(*(lambda mine=mine: load(mine) for mine in batches))
    for mine in batches:
        for batch in mine:
            store.rows.update(batch)
    store.binding.settle()
    store.check()


def test_updates_of_one_row_by_two_clients_lose_nothing(store):
    [key] = new_keys(1)
    with contextlib.closing(store.binding.client()) as client:
        client.insert(key, ("",) * FIELDS)

    def update(fields):
        with contextlib.closing(store.binding.client()) as client:
            for number in range(30):
                for field in fields:
                    client.update(key, field, f"{number}")
                    assert client.read(key)[field] == f"{number}"

    together(lambda: update((0, 1)), lambda: update((2, 3)))
    store.rows[key] = ("29",) * 4 + ("",) * (FIELDS - 4)
    store.check()


IN_ANOTHER_PROCESS = """
import pickle, sys
binding = pickle.load(sys.stdin.buffer)
client = binding.client()
client.update(sys.argv[1], 9, "by another: " + client.read(sys.argv[1])[0])
client.close()
binding.stop()
"""


@pytest.mark.parametrize("name", SPREADING)
def test_another_process_shares_the_store(name, started):
    store = started(name)
    assert store.binding.spreads
    [key] = new_keys(1)
    with contextlib.closing(store.binding.client()) as client:
        client.insert(key, ("from here",) * FIELDS)
        subprocess.run(
            [sys.executable, "-c", IN_ANOTHER_PROCESS, key], input=pickle.dumps(store.binding), check=True, timeout=60
        )
        store.rows[key] = (*("from here",) * (FIELDS - 1), "by another: from here")
        assert tuple(client.read(key)) == store.rows[key]


@pytest.mark.parametrize("name", sorted(set(BINDINGS) - set(SPREADING)))
def test_others_do_not_spread(name):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    assert not BINDINGS[name]().spreads


@pytest.mark.parametrize("name", REOPENED)
def test_what_was_written_is_there_after_a_restart(name, tmp_path):
    binding = made(name, tmp_path / name, "fsync")
    binding.start()
    try:
        store = Store(binding)
        store.rows = {key: row() for key in new_keys(20)}
        with contextlib.closing(binding.client()) as client:
            client.load(list(store.rows), list(store.rows.values()))
        binding.stop()
        binding.start()
        store.check()
    finally:
        binding.stop()


KILLED = """
import os, pickle, signal, sys
from nyala.bench.ycsb.bindings import BINDINGS
name, home, durability, rows = pickle.load(sys.stdin.buffer)
binding = BINDINGS[name]()(home, durability)
binding.start()
client = binding.client()
for key, row in rows.items():
    client.insert(key, ("",) * len(row))
    for field, value in enumerate(row):
        client.update(key, field, value)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("durability", ["fsync", "os"])
@pytest.mark.parametrize("name", EMBEDDED)
def test_what_was_acknowledged_outlives_the_process(name, durability, tmp_path):
    binding = made(name, tmp_path / name, durability)
    rows = {key: row() for key in new_keys(5)}
    recipe = pickle.dumps((name, tmp_path / name, durability, rows))
    ended = subprocess.run([sys.executable, "-c", KILLED], input=recipe, check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    binding.start()
    try:
        store = Store(binding)
        store.rows = rows
        store.check()
    finally:
        binding.stop()
