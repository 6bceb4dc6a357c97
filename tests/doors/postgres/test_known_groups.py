"""Statements on single rows in one step have the responses of those that go message by message."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import nyala
import pytest
from nyala.doors.postgres.server.server import PostgresServer
from postgres_support import SYNC, Wire, bind, describe, execute, message, parse, query, served, startup, until

COLUMNS = {
    "tiny": ("TINYINT", -7), "small": ("SMALLINT", 300), "big": ("BIGINT", 1 << 40), "real": ("FLOAT", 1.5),
    "double": ("DOUBLE", 0.1), "price": ("DECIMAL(12, 3)", Decimal("-12345.678")),
    "day": ("DATE", datetime.date(2024, 2, 29)),
    "seen": ("TIMESTAMP", datetime.datetime(1999, 12, 31, 23, 59, 59, 123456)), "name": ("STRING", "Zoë\t"),
    "raw": ("BINARY", b"\x00\xff"), "is_on": ("BOOLEAN", True),
}  # fmt: skip


@pytest.fixture
def store() -> Iterator[nyala.driver.connection.Connection]:
    with nyala.connect(":memory:") as connection:
        columns = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
        connection.execute(f"CREATE TABLE v (k INT PRIMARY KEY, {columns})")
        values = [value for _, value in COLUMNS.values()]
        connection.execute(f"INSERT INTO v VALUES (?, {', '.join('?' * len(values))})", [1, *values])
        connection.execute("INSERT INTO v (k) VALUES (2)")
        yield connection


@pytest.fixture
def server(store: nyala.driver.connection.Connection) -> Iterator[PostgresServer]:
    with served(store) as found:
        yield found


class Asking:
    """A client that sends groups of messages as a whole, or in two pieces, which no group in one step can be."""

    def __init__(self, server: PostgresServer):
        self.server = server
        self.wire = Wire(server, startup())
        self.wire.until("Z")

    def whole(self, group: bytes) -> list[tuple[str, bytes]]:
        # A thread that has sent a response works for the client a moment longer.
        until(lambda: not any(client.is_working for client in self.server._known()))
        self.wire.send(group)
        return self.wire.until("Z")

    def learn(self, group: bytes) -> None:
        """Runs a look-up until its bytes are known: its plan is kept after the first run."""
        self.whole(group)
        self.whole(group)

    def pieces(self, group: bytes) -> list[tuple[str, bytes]]:
        # The response to the query shows that the first piece has been read by itself.
        self.wire.send(query("SELECT 1") + group[:3])
        self.wire.until("Z")
        self.wire.send(group[3:])
        return self.wire.until("Z")

    def same(self, group: bytes, steps: int | None) -> list[tuple[str, bytes]]:
        """The response, which is the same each way; `steps`: how often it comes in one step, of three times, if
        that is known."""
        expected = self.pieces(group)
        before = self.server.lookups + self.server.writes
        for _ in range(3):
            assert self.whole(group) == expected
        assert steps is None or self.server.lookups + self.server.writes - before == steps
        return expected

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *exc: object) -> None:
        self.wire.close()


def number(key: int) -> bytes:
    return struct.pack("!i", key)


@pytest.mark.parametrize("result", [0, 1])
@pytest.mark.parametrize("described", [True, False])
def test_all_types_and_formats(server: PostgresServer, result: int, described: bool) -> None:
    with Asking(server) as client:
        for name in COLUMNS:
            client.whole(parse(f"SELECT {name}, k FROM v WHERE k = $1", name, 23) + SYNC)
            end = (describe("P") if described else b"") + execute() + SYNC
            client.learn(bind(number(1), name=name, formats=(1,), results=(result,)) + end)
            for key, rows in ((1, 1), (2, 1), (3, 0)):
                group = bind(number(key), name=name, formats=(1,), results=(result,)) + end
                found = client.same(group, 3)
                assert [kind for kind, _ in found].count("D") == rows


def test_keys_as_texts_and_of_several_columns(
    server: PostgresServer, store: nyala.driver.connection.Connection
) -> None:
    store.execute("CREATE TABLE two (a STRING, b INT, c INT, PRIMARY KEY (a, b))")
    store.execute("INSERT INTO two VALUES ('x', 1, 5), ('', 2, 6)")
    with Asking(server) as client:
        client.whole(parse("SELECT c FROM two WHERE a = $1 AND b = $2 AND c < $3") + SYNC)
        end = describe("P") + execute() + SYNC
        client.learn(bind(b"x", b"1", b"9") + end)
        assert [kind for kind, _ in client.same(bind(b"x", b"1", b"9") + end, 3)].count("D") == 1
        assert [kind for kind, _ in client.same(bind(b"", b"2", b"9") + end, 3)].count("D") == 1
        assert [kind for kind, _ in client.same(bind(b"", b"2", b"2") + end, 3)].count("D") == 0
        client.same(bind(b"", None, b"9") + end, None)
        client.learn(bind(b"x", b"1", b"9") + end)
        client.same(bind(b"", b"two", b"9") + end, 0)
        client.same(bind(b"", b"99999999999", b"9") + end, 0)
        client.same(bind(b"\xff", b"1", b"9") + end, 0)


def test_a_statement_may_change_its_meaning(server: PostgresServer, store: nyala.driver.connection.Connection) -> None:
    group = bind(number(1), name="s", formats=(1,)) + describe("P") + execute() + SYNC
    with Asking(server) as client:
        client.whole(parse("SELECT big FROM v WHERE k = $1", "s", 23) + SYNC)
        client.learn(group)
        client.same(group, 3)
        store.execute("UPDATE v SET big = 5 WHERE k = 1")
        assert ("D", b"\0\1\0\0\0\x015") in client.same(group, 3)
        store.execute("ALTER TABLE v ADD COLUMN more INT")
        client.same(group, 2)  # learnt anew
        client.whole(message("C", b"Ss\0") + parse("SELECT name FROM v WHERE k = $1", "s", 23) + SYNC)
        client.learn(group)
        assert [kind for kind, _ in client.same(group, 3)].count("D") == 1
        store.execute("ALTER TABLE v DROP COLUMN name")
        assert client.same(group, 0)[1][0] == "E"
        store.execute("DROP TABLE v")
        client.same(group, 0)


def test_transactions_and_other_messages_go_one_by_one(server: PostgresServer) -> None:
    group = bind(number(1), name="s", formats=(1,)) + describe("P") + execute() + SYNC
    with Asking(server) as client:
        client.whole(parse("SELECT big FROM v WHERE k = $1", "s", 23) + SYNC)
        client.learn(group)
        client.same(group, 3)
        client.whole(query("BEGIN"))
        client.whole(query("UPDATE v SET big = 6 WHERE k = 1"))
        assert ("D", b"\0\1\0\0\0\x016") in client.same(group, 0)
        client.whole(query("SELECT nope"))
        assert client.same(group, 0)[0][0] == "E"
        client.whole(query("ROLLBACK"))
        client.same(group, 3)
        client.whole(query("SET statement_timeout = '1min'"))
        client.same(group, 3)
        client.same(group[: -len(SYNC)] + message("H") + SYNC, 3)
        client.same(bind(number(1), name="s", formats=(1,)) + describe("P") + execute(1) + SYNC, 0)
        two = bind(number(1), name="s", formats=(1,)) + execute() + group
        client.same(two, 0)


@pytest.mark.parametrize("size", [-2, 3, 5, 1 << 30])
def test_lengths_that_are_wrong_are_errors(server: PostgresServer, size: int) -> None:
    group = bind(number(1), name="s", formats=(1,)) + describe("P") + execute() + SYNC
    with Asking(server) as client:
        client.whole(parse("SELECT big FROM v WHERE k = $1", "s", 23) + SYNC)
        client.learn(group)
        client.same(group, 3)
        place = group.index(number(4) + number(1))
        client.wire.send(group[:place] + number(size) + group[place + 4 :])
        found: Any = client.wire.until("E")
        assert found[-1][0] == "E"


def test_writes(server: PostgresServer, store: nyala.driver.connection.Connection) -> None:
    texts = {
        "insert": ("INSERT INTO v (k, big) VALUES ($1, $2)", lambda key: (number(key), number(7))),
        "upsert": ("UPSERT INTO v (k, big) VALUES ($1, $2)", lambda key: (number(key), number(8))),
        "update": ("UPDATE v SET big = big + $2 WHERE k = $1", lambda key: (number(key), number(1))),
        "delete": ("DELETE FROM v WHERE k = $1", lambda key: (number(key),)),
    }
    end = describe("P") + execute() + SYNC
    with Asking(server) as client:

        def run(name: str, key: int) -> list[tuple[str, bytes]]:
            return client.whole(bind(*texts[name][1](key), name=name, formats=(1,)) + end)

        for name, (text, _) in texts.items():
            client.whole(parse(text, name, 23, 23) + SYNC)
            slow = [run(name, key) for key in (100, 101)]
            before = server.writes
            assert [run(name, key) for key in (102, 103)] == slow
            assert server.writes - before == 2, name
            tag = "INSERT 0 1" if name in ("insert", "upsert") else f"{name.upper()} 1"
            assert slow[0][2] == ("C", tag.encode() + b"\0")
            found = store.execute("SELECT big FROM v WHERE k BETWEEN 100 AND 103").fetchall()
            assert found == {"insert": [(7,)] * 4, "upsert": [(8,)] * 4, "update": [(9,)] * 4, "delete": []}[name]
        assert run("update", 104)[2] == ("C", b"UPDATE 0\0")
        before = server.writes
        failed = run("insert", 1)
        assert server.writes - before == 1
        assert [kind for kind, _ in failed] == ["2", "n", "E", "Z"]
        assert failed == client.pieces(bind(*texts["insert"][1](1), name="insert", formats=(1,)) + end)
        assert run("insert", 200)[2] == ("C", b"INSERT 0 1\0")
        client.whole(query("BEGIN"))
        run("insert", 201)
        client.whole(query("ROLLBACK"))
        assert store.execute("SELECT k FROM v WHERE k >= 200").fetchall() == [(200,)]
