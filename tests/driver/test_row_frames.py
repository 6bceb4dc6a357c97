"""The number of calls that rows by key cost a client of a served store: one each, several in progress."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import nyala
import pytest
from embedded_server_support import ServedStore
from nyala.cluster.wire.calls.rpc import Channel
from nyala.cluster.wire.messages.joint_methods import WriteTable
from nyala.cluster.wire.messages.methods import GetCatalog, ReadRow, Request, WriteRow
from nyala.driver.connection import Connection
from nyala.net.call_table import CallTable


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    """The kinds of the calls, without the refreshes of the catalog in the background."""
    found: list[type] = []
    packed = Channel.packed

    def noted(self: Channel, request: Request, timeout: float) -> bytes:
        if not isinstance(request, GetCatalog):
            found.append(type(request))
        return packed(self, request, timeout)

    monkeypatch.setattr(Channel, "packed", noted)
    return found


@pytest.fixture
def store() -> Iterator[ServedStore]:
    with ServedStore() as found:
        found.embedded().execute(
            "CREATE TABLE t (k INT PRIMARY KEY, v STRING, n INT); INSERT INTO t VALUES (1, 'a', 1)"
        )
        yield found


@pytest.fixture
def connection(store: ServedStore) -> Connection:
    return store.connection()


@pytest.mark.parametrize(
    ("statement", "parameters", "expected"),
    [
        ("SELECT v FROM t WHERE k = ?", [1], [ReadRow]),
        ("SELECT v FROM t WHERE k = ? AND n = ?", [1, 1], [ReadRow]),
        ("UPSERT INTO t VALUES (?, ?, ?)", [1, "b", 1], [WriteRow]),
        ("INSERT IGNORE INTO t VALUES (?, ?, ?)", [1, "b", 1], [WriteRow]),
        ("UPDATE t SET v = ? WHERE k = ?", ["c", 1], [WriteRow]),
        ("DELETE FROM t WHERE k = ?", [7], [WriteRow]),
        ("UPDATE t SET n = n + 1 WHERE k = ?", [1], [ReadRow, WriteTable]),
    ],
)
def test_a_prepared_statement(
    connection: Connection, calls: list[type], statement: str, parameters: list[Any], expected: list[type]
) -> None:
    cursor = connection.cursor()
    cursor.execute(statement, parameters)
    calls.clear()
    for _ in range(3):
        cursor.execute(statement, parameters)
    assert calls == expected * 3


def test_a_table_and_its_sessions(connection: Connection, calls: list[type]) -> None:
    table = connection.table("t")
    table.get(1)
    calls.clear()
    table.get(1)
    table.upsert((2, "x", 1))
    assert calls == [ReadRow, WriteRow]
    with connection.new_session() as session:
        session.upsert(table, (3, "x", 1))
        session.delete(table, (3,))
    assert calls == [ReadRow, *[WriteRow] * 3]
    calls.clear()
    with connection.new_session("MANUAL_FLUSH") as session:
        for k in range(1000):
            session.upsert(table, (k, "x", 1))
        session.flush()
    assert calls == [WriteTable]


def test_calls_of_tasks_are_in_progress_together(store: ServedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 0
    begin = CallTable.begin

    def noted(self: CallTable[Any], call: Any, body: bytes) -> int:
        nonlocal most
        number = begin(self, call, body)
        most = max(most, len(self))
        return number

    monkeypatch.setattr(CallTable, "begin", noted)

    async def main() -> None:
        async with nyala.aio.connect(store.server.url, threads=2) as connection:
            table = await connection.table("t")
            await table.get(1)
            await asyncio.gather(*(table.upsert((k, "x", k)) for k in range(50)), *(table.get(1) for _ in range(50)))

    asyncio.run(main())
    assert most == 100
