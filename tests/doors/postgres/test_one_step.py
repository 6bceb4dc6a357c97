"""Statements on single rows in one step, by real clients: pipelines, cancel, slow neighbours, rights, crashes."""

from __future__ import annotations

import itertools
import os
import re
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import nyala
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.doors.postgres.server import client as client_module
from nyala.doors.postgres.server.server import PostgresServer
from nyala.driver.telemetry import trace_statements
from nyala.errors import DiskError
from nyala.model import metrics
from nyala.storage.database import Database
from postgres_support import (
    SYNC,
    Talk,
    Wire,
    bind,
    describe,
    dsn,
    execute,
    parse,
    query,
    replies,
    served,
    startup,
    until,
)

pytestmark = pytest.mark.slow
CREATE = "CREATE TABLE t (k INT PRIMARY KEY, v INT, name STRING)"
LOOK_UP = "SELECT v, name FROM t WHERE k = %s"
INSERT = "INSERT INTO t VALUES (%s, %s, %s)"
NUMBERS = itertools.count()
FIRST = 100_000
"""Keys from here on have rows. psycopg sends smaller numbers as SMALLINT, by another prepared statement."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[nyala.driver.connection.Connection]:
    with nyala.connect(tmp_path_factory.mktemp("store")) as connection:
        connection.execute(CREATE)
        connection.execute("INSERT INTO t SELECT 100000 + n, 10 * n, 'name ' || n FROM generate_series(1, 100) AS g(n)")
        yield connection


@pytest.fixture(scope="module")
def server(store: nyala.driver.connection.Connection) -> Iterator[PostgresServer]:
    with served(store) as found:
        yield found


@pytest.fixture
def client(server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn(server), autocommit=True, prepare_threshold=0) as connection:
        yield connection


def steps(server: PostgresServer) -> int:
    return server.lookups + server.writes


def until_in_one_step(server: PostgresServer, statement: Callable[[int], object]) -> None:
    """Runs a statement, with a new number each time, until it runs in one step."""

    def is_in_one_step() -> bool:
        before = steps(server)
        statement(next(NUMBERS) + 1_000_000)
        return steps(server) > before

    until(is_in_one_step)


# ---- a pipeline ------------------------------------------------------------------------------------------------------


def number(value: int) -> bytes:
    return struct.pack("!i", value)


PREPARED = {
    "read": "SELECT v, name FROM t WHERE k = $1",
    "insert": "INSERT INTO t VALUES ($1, $2, 'new')",
    "update": "UPDATE t SET v = $2 WHERE k = $1",
    "add": "UPDATE t SET v = v + $2 WHERE k = $1",
    "delete": "DELETE FROM t WHERE k = $1",
    "divide": "SELECT 1 / $1 AS found",
}
UNNAMED = {
    "unnamed": "SELECT name FROM t WHERE k = $1",
    "unnamed value": "SELECT v, k FROM t WHERE k = $1",
    "unnamed insert": "INSERT INTO t VALUES ($1, $2, 'unnamed')",
    "unnamed range": "SELECT k FROM t WHERE k BETWEEN $1 AND $1 + 2 ORDER BY k",
}
OPERATIONS = (*PREPARED, *UNNAMED, "without sync", "text", "text insert", "begin", "commit", "nonsense")


def group(operation: str, key: int) -> bytes:
    """The messages of an operation."""
    end = describe() + execute() + SYNC
    if operation in ("insert", "update", "add"):
        return bind(number(key), number(key + 1), name=operation, formats=(1,), results=(1,)) + end
    if operation in PREPARED:
        value = key % 2 if operation == "divide" else key
        return bind(number(value), name=operation, formats=(1,), results=(1,)) + end
    if operation in UNNAMED:
        values = [number(key)] if "$2" not in UNNAMED[operation] else [number(key), number(key + 1)]
        return parse(UNNAMED[operation], "", *[23] * len(values)) + bind(*values, formats=(1,)) + end
    if operation == "without sync":
        return bind(number(key), name="read", formats=(1,), results=(1,)) + describe() + execute()
    texts = {
        "text": f"SELECT name, v FROM t WHERE k = {key};",
        "text insert": f"INSERT INTO t VALUES ({key}, 7, 'it''s')",
        "nonsense": "SELECT nothing FROM t",
    }
    return query(texts.get(operation, operation))


def prepare() -> bytes:
    return b"".join(parse(text, name, 23, *([23] if "$2" in text else [])) for name, text in PREPARED.items()) + SYNC


@given(
    st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 5), st.booleans()), min_size=1, max_size=14),
    st.lists(st.integers(1, 900), max_size=3),
)
@settings(max_examples=40)
def test_a_pipeline_has_the_responses_of_messages_one_by_one(
    server: PostgresServer, pair: Pair, operations: list[tuple[str, int, bool]], cuts: list[int]
) -> None:
    """Some groups are awaited: one that arrives alone is kept for its next run."""
    first = 10_000 + 10 * next(NUMBERS) % 80_000
    data = b""
    for operation, key, is_awaited in operations:
        data += group(operation, first + key)
        if is_awaited:
            pair.compare(data, cuts)
            data = b""
    pair.compare(data + SYNC + query("ROLLBACK"), cuts)


class Pair:
    """A client of a server, and a conversation that handles each message by itself, on a store with the same rows."""

    def __init__(self, wire: Wire, talk: Talk):
        self.wire = wire
        self.talk = talk

    def compare(self, data: bytes, cuts: list[int]) -> None:
        """Sends data in pieces, and compares the responses."""
        expected = replies(self.talk.send(data))
        places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
        for start, end in itertools.pairwise(places):
            self.wire.send(data[start:end])
        found: list[tuple[str, bytes]] = []
        while len(found) < len(expected):
            found.append(self.wire.message())
            assert found[-1][0], "the connection is lost"
        assert found == expected


@pytest.fixture(scope="module")
def pair(server: PostgresServer) -> Iterator[Pair]:
    with nyala.connect(":memory:") as other, Wire(server, startup()) as wire:
        other.execute(CREATE)
        talk = Talk(other)
        with closing(talk):
            wire.until("Z")
            found = Pair(wire, talk)
            groups = [group(operation, key) for key in (1, 2, 3) for operation in OPERATIONS]
            for data in (prepare(), *groups, query("ROLLBACK"), query("DELETE FROM t WHERE k < 4")):
                found.compare(data, [])
            yield found


def test_pipelines_of_psycopg(server: PostgresServer, client: psycopg.Connection[Any]) -> None:
    for _ in range(3):
        client.execute(LOOK_UP, (FIRST + 7,))
    with client.pipeline():
        cursors = [client.execute(LOOK_UP, (FIRST + key,)) for key in range(30, 60)]
    assert [cursor.fetchone() for cursor in cursors] == [(10 * key, f"name {key}") for key in range(30, 60)]
    first, skipped = client.cursor(), client.cursor()
    # psycopg raises the error at Sync, or at a statement before it if the response has come by then.
    with pytest.raises(psycopg.errors.DivisionByZero), client.pipeline() as pipeline:
        first.execute(LOOK_UP, (FIRST + 40,))
        pipeline.sync()
        client.cursor().execute("SELECT 1 / %s", (0,))
        skipped.execute(LOOK_UP, (FIRST + 41,))
        pipeline.sync()
    assert first.fetchone() == (400, "name 40")
    assert skipped.pgresult is None  # nothing between an error and the next Sync has run
    assert client.execute(LOOK_UP, (FIRST + 42,)).fetchone() == (420, "name 42")


# ---- ways of sending a statement -------------------------------------------------------------------------------------


def test_statements_that_are_not_prepared_by_name(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server), autocommit=True, prepare_threshold=None) as client:
        until_in_one_step(server, lambda key: client.execute(LOOK_UP, (key,)))
        until_in_one_step(server, lambda key: client.execute(INSERT, (key, 5, "ü")))
        assert client.execute(LOOK_UP, (FIRST + 50,)).fetchone() == (500, "name 50")


def test_texts_with_literals(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server), autocommit=True) as client:
        until_in_one_step(server, lambda key: client.execute(f"SELECT name, v FROM t WHERE k = {key}"))
        until_in_one_step(
            server, lambda key: client.execute(f"INSERT INTO t VALUES ({key}, 1, 'a;b')".replace(";", ""))
        )
        before = steps(server)
        cursor = client.execute("SELECT name, v FROM t WHERE k = 100050;")
        assert (cursor.fetchone(), cursor.statusmessage) == (("name 50", 500), "SELECT 1")
        assert cursor.description is not None
        assert [column.name for column in cursor.description] == ["name", "v"]
        assert client.execute("SELECT name, v FROM t WHERE k = -5").fetchall() == []
        assert steps(server) == before + 2
        with pytest.raises(psycopg.errors.UniqueViolation):
            client.execute("INSERT INTO t VALUES (100050, 1, 'x')")
        assert client.execute("SELECT name, v FROM t WHERE k = 100050; SELECT 1").fetchone() == ("name 50", 500)
        assert client.execute("SELECT name, v FROM t WHERE k = 100050 -- 51").fetchone() == ("name 50", 500)


def test_the_metric_counts_statements_in_one_step(server: PostgresServer, client: psycopg.Connection[Any]) -> None:
    def count(kind: str) -> float:
        return sum(
            float(sample.value)  # type: ignore[arg-type]
            for sample in metrics.collect()
            if sample.name == "nyala_postgres_single_rows_total" and sample.labels == (kind,)
        )

    until_in_one_step(server, lambda key: client.execute(LOOK_UP, (key,)))
    until_in_one_step(server, lambda key: client.execute(INSERT, (key, 5, "x")))
    before = count("read"), count("write")
    for key in range(3):
        client.execute(LOOK_UP, (FIRST + key,))
    client.execute(INSERT, (next(NUMBERS) + 2_000_000, 5, "x"))
    assert (count("read") - before[0], count("write") - before[1]) == (3, 1)


def test_a_traced_statement_has_a_span(server: PostgresServer, client: psycopg.Connection[Any]) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    until_in_one_step(server, lambda key: client.execute(LOOK_UP, (key,)))
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    before = steps(server)
    trace_statements(provider)
    try:
        assert client.execute(LOOK_UP, (FIRST + 5,)).fetchone() == (50, "name 5")
    finally:
        trace_statements(None)
        provider.shutdown()
    assert steps(server) == before
    assert [span.name for span in exporter.get_finished_spans()].count("SELECT") == 1


# ---- neighbours ------------------------------------------------------------------------------------------------------


def test_a_slow_statement_delays_nothing_and_is_cancelled(
    server: PostgresServer, store: nyala.driver.connection.Connection, client: psycopg.Connection[Any]
) -> None:
    until_in_one_step(server, lambda key: client.execute(LOOK_UP, (key,)))
    until_in_one_step(server, lambda key: client.execute(INSERT, (key, 5, "x")))
    errors: list[BaseException] = []
    with psycopg.connect(dsn(server), autocommit=True) as slow:

        def run() -> None:
            try:
                slow.execute("SELECT count(*) FROM generate_series(1, 1000000000000) AS g(n) WHERE n % 7 = 3")
            except psycopg.Error as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            until(lambda: any(one.is_working for one in server._known()))
            before = steps(server)
            for key in range(20, 40):
                assert client.execute(LOOK_UP, (FIRST + key,)).fetchone() == (10 * key, f"name {key}")
                client.execute(INSERT, (next(NUMBERS) + 2_000_000, 5, "x"))
            assert steps(server) - before == 40
            assert thread.is_alive() and not errors
        finally:
            slow.cancel_safe()
            thread.join()
    assert isinstance(errors[0], psycopg.errors.QueryCanceled)


def test_a_timeout_keeps_statements_in_one_step(server: PostgresServer, client: psycopg.Connection[Any]) -> None:
    client.execute("SET statement_timeout = '10min'")
    until_in_one_step(server, lambda key: client.execute(LOOK_UP, (key,)))
    until_in_one_step(server, lambda key: client.execute(INSERT, (key, 5, "x")))
    timers = len(server._reactor._timers)
    for _ in range(20):
        client.execute("SELECT count(*) FROM t")  # message by message, with a timeout each
    assert len(server._reactor._timers) <= timers + 1
    client.execute("SET statement_timeout = '50ms'")
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
        client.execute("SELECT count(*) FROM generate_series(1, 1000000000000) AS g(n) WHERE n % 7 = 3")
    client.execute("SET statement_timeout = '10min'")
    with pytest.raises(psycopg.errors.DivisionByZero):
        client.execute("SELECT 1 / 0")
    client.execute("SET statement_timeout = '50ms'")
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
        client.execute("SELECT count(*) FROM generate_series(1, 1000000000000) AS g(n) WHERE n % 7 = 3")
    assert client.execute(LOOK_UP, (FIRST + 30,)).fetchone() == (300, "name 30")


def test_a_client_that_leaves_during_its_write(
    server: PostgresServer, store: nyala.driver.connection.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, begun, goes_on = next(NUMBERS) + 2_000_000, threading.Event(), threading.Event()
    finish = Database.finish_row

    def slowly(self: Database, started: Any) -> Any:
        begun.set()
        assert goes_on.wait(60.0)
        return finish(self, started)

    clients = server.client_count
    with Wire(server, startup()) as wire:
        wire.until("Z")
        wire.send(prepare())
        wire.until("Z")

        def insert(key: int) -> bytes:
            return bind(number(key), number(5), name="insert", formats=(1,)) + describe() + execute() + SYNC

        def run(key: int) -> None:
            wire.send(insert(key))
            wire.until("Z")

        until_in_one_step(server, run)
        monkeypatch.setattr(Database, "finish_row", slowly)
        wire.send(insert(key))
        assert begun.wait(60.0)
    until(lambda: server.client_count == clients)
    goes_on.set()
    until(lambda: store.execute("SELECT v FROM t WHERE k = ?", (key,)).fetchall() == [(5,)])


def test_a_write_that_is_not_durable_is_an_error(
    server: PostgresServer,
    store: nyala.driver.connection.Connection,
    client: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    until_in_one_step(server, lambda key: client.execute(INSERT, (key, 5, "x")))
    key = next(NUMBERS) + 2_000_000
    (tablet,) = store.session.store.open_table(store.session.find_table("t")).tablets  # type: ignore[attr-defined]
    file = type(tablet.log._newest.file)

    def refuse(self: Any) -> None:
        raise DiskError("the disk is on fire")

    with monkeypatch.context() as patched:
        patched.setattr(file, "sync", refuse)
        with pytest.raises(psycopg.errors.IoError, match="on fire"):
            client.execute(INSERT, (key, 5, "x"))
    assert client.execute(LOOK_UP, (key,)).fetchone() is None
    client.execute(INSERT, (key, 6, "x"))
    assert client.execute(LOOK_UP, (key,)).fetchone() == (6, "x")


def test_rights_are_those_of_now() -> None:
    users = f"{CREATE}; CREATE USER root SUPERUSER PASSWORD 'a'; CREATE USER ann PASSWORD 'b'"
    with nyala.connect(":memory:") as connection:
        connection.execute(f"{users}; GRANT SELECT, INSERT ON t TO ann")
        with (
            served(connection) as server,
            psycopg.connect(dsn(server, user="ann", password="b"), autocommit=True, prepare_threshold=0) as ann,
            psycopg.connect(dsn(server, user="root", password="a"), autocommit=True) as root,
        ):
            until_in_one_step(server, lambda key: ann.execute(LOOK_UP, (key,)))
            until_in_one_step(server, lambda key: ann.execute(INSERT, (key, 5, "x")))
            root.execute("REVOKE SELECT, INSERT ON t FROM ann")
            for text, values in ((LOOK_UP, (1,)), (INSERT, (1, 2, "x"))):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    ann.execute(text, values)
            root.execute("GRANT SELECT, INSERT ON t TO ann")
            ann.execute(INSERT, (1, 2, "x"))
            assert ann.execute(LOOK_UP, (1,)).fetchone() == (2, "x")


def test_many_look_ups_at_once_leave_the_loop_in_between(
    server: PostgresServer, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MOST_AT_ONCE", 4)
    before = server.lookups
    pair.wire.send(b"".join(group("read", FIRST + key) for key in range(50, 62)))
    found = [body for _ in range(12) for kind, body in pair.wire.until("Z") if kind == "D"]
    assert [struct.unpack_from("!i", body, 6)[0] for body in found] == [10 * key for key in range(50, 62)]
    assert server.lookups - before == 4  # a thread of the pool has run the others


# ---- a crash ---------------------------------------------------------------------------------------------------------


def test_acknowledged_rows_survive_a_kill(tmp_path: Path) -> None:
    with nyala.connect(tmp_path / "store") as connection:
        connection.execute(CREATE)
    command = [sys.executable, "-m", "nyala", "serve", str(tmp_path / "store"), "--postgres", "127.0.0.1:0"]
    acknowledged: list[list[int]] = [[] for _ in range(4)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        port = next(found[1] for line in process.stdout if (found := re.match(r"postgresql://.*:(\d+)/", line)))

        def write(number: int) -> None:
            with psycopg.connect(f"host=127.0.0.1 port={port} user=me", autocommit=True, prepare_threshold=0) as client:
                for key in itertools.count(number, len(acknowledged)):
                    try:
                        client.execute(INSERT, (key, key, "x"))
                    except psycopg.OperationalError:
                        return
                    acknowledged[number].append(key)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(len(acknowledged))]
        for thread in threads:
            thread.start()
        try:
            until(lambda: all(len(keys) > 40 for keys in acknowledged))
        finally:
            os.kill(process.pid, signal.SIGKILL)
            for thread in threads:
                thread.join()
    with nyala.connect(tmp_path / "store") as connection:
        found = {key for (key,) in connection.execute("SELECT k FROM t WHERE v = k").fetchall()}
    assert found >= {key for keys in acknowledged for key in keys}
