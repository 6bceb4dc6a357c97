"""Single rows without steps: the usual case is one message, and an attempt that fails is the first one of the steps."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import pytest
from cluster_support_client import FakeCluster, once
from nyala import errors
from nyala.cluster.client import steps
from nyala.cluster.client.client import Client
from nyala.cluster.client.direct_rows import Rest
from nyala.cluster.client.steps import perform
from nyala.cluster.wire.messages import methods
from nyala.model.alterations import AddColumn
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, Table, TableDefinition
from nyala.model.store import Op
from nyala.model.types import BIGINT, BINARY, BOOLEAN, DATE, DECIMAL, DOUBLE, FLOAT, INT, STRING, TIMESTAMP
from nyala.model.waiting_time import WaitingTime, within

TYPES = {
    "big": (BIGINT, -(2**63)),
    "text": (STRING, "é\0"),
    "data": (BINARY, b"\xff"),
    "real": (DOUBLE, 0.1),
    "single": (FLOAT, 0.5),
    "is_it": (BOOLEAN, True),
    "price": (DECIMAL(15, 2), decimal.Decimal("1.50")),
    "wide": (DECIMAL(38, 0), decimal.Decimal(10**37)),
    "day": (DATE, datetime.date(1969, 12, 31)),
    "moment": (TIMESTAMP, datetime.datetime(2026, 1, 2, 3, 4, 5, 6)),
}
COLUMNS = tuple(ColumnSchema(name, type_, True) for name, (type_, _) in TYPES.items())
SCHEMA = Schema((ColumnSchema("k", INT, False), *COLUMNS), 1)
DEFINITION = TableDefinition("t", SCHEMA, PartitionSchema((HashRule(("k",), 3),)))


@pytest.fixture
def table(client: Client) -> Table:
    made = client.create_table(DEFINITION)
    assert client.write_row(made, Op.INSERT, {"k": 0}).applied == 1  # from now on the leaders are known
    return made


def test_values_of_all_types_are_those_of_the_steps_and_of_the_store(
    client: Client, table: Table, cluster: FakeCluster
) -> None:
    full = {"k": 1, **{name: value for name, (_, value) in TYPES.items()}}
    empty = {"k": 2, **dict.fromkeys(TYPES)}
    for row in (full, empty):
        assert client.write_row(table, Op.INSERT, row).applied == 1
        names = tuple(reversed(row))
        read = client._direct.read(table, (row["k"],), names, None)
        assert read == tuple(row[name] for name in names)
        assert list(map(type, read or ())) == [type(row[name]) for name in names]
        assert read == perform(client._rows.reading(table, (row["k"],), names, None), client._shared.channels)
        assert read == cluster.database.read_row(table, (row["k"],), names)
    assert client._direct.read(table, (3,), ("text",), None) is None


def test_a_known_row_is_one_message_without_steps(client: Client, table: Table, cluster: FakeCluster) -> None:
    cluster.log.clear()
    assert not isinstance(client._direct.write(table, Op.UPSERT, {"k": 1, "big": 5}, None), Rest)
    assert client._direct.read(table, (1,), ("big",), None) == (5,)
    assert [type(request) for _, request in cluster.log] == [methods.WriteRow, methods.ReadRow]
    assert not client._shared.numbers._open


@pytest.mark.parametrize("error", [errors.ServerUnavailable("away"), errors.DeadlineExceeded("late")])
def test_a_leader_that_does_not_respond_is_called_once(
    client: Client, table: Table, cluster: FakeCluster, error: errors.Error
) -> None:
    client.write_row(table, Op.INSERT, {"k": 1, "big": 5})
    (leader, _) = cluster.requests(methods.WriteRow)[-1]
    cluster.log.clear()
    cluster.faults.append(_at(leader, error))
    new = next(address for address in cluster.addresses if address != leader)
    cluster.leaders = dict.fromkeys(cluster.leaders, new)
    assert client.read_row(table, (1,), ("big",)) == (5,)
    called = [address for address, _ in cluster.requests(methods.ReadRow)]
    assert called.count(leader) == 1 and called[0] == leader and called[-1] == new


def _at(leader: str, error: errors.Error) -> Any:
    def fault(address: str, request: Any, moment: str) -> None:
        if address == leader and moment == "before":
            raise error

    return fault


def test_an_error_that_no_retry_mends_is_raised_after_one_call(
    client: Client, table: Table, cluster: FakeCluster
) -> None:
    cluster.log.clear()
    for kind in (methods.ReadRow, methods.WriteRow):
        cluster.faults.append(once(kind, errors.AccessDenied("no"), times=1 << 30))
    with pytest.raises(errors.AccessDenied):
        client.read_row(table, (1,), ("big",))
    with pytest.raises(errors.AccessDenied):
        client.write_row(table, Op.UPSERT, {"k": 1})
    assert [type(request) for _, request in cluster.log] == [methods.ReadRow, methods.WriteRow]
    assert not client._shared.numbers._open


def test_a_busy_server_is_called_again_after_a_pause(
    client: Client, table: Table, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    monkeypatch.setattr(steps.time, "sleep", lambda seconds: events.append("pause"))

    def busy(address: str, request: Any, moment: str) -> None:
        if isinstance(request, methods.ReadRow) and moment == "before":
            events.append("call")
            if events.count("call") < 3:
                raise errors.ServerOverloaded("busy")

    cluster.faults.append(busy)
    assert client.read_row(table, (0,), ("k",)) == (0,)
    assert events == ["call", "pause", "call", "pause", "call"]


def test_a_write_whose_reply_is_lost_is_repeated_by_its_number_in_the_altered_table(
    client: Client, make_client: Callable[..., Client], table: Table, cluster: FakeCluster
) -> None:
    other = make_client()
    is_lost = False

    def lose(address: str, request: Any, moment: str) -> None:
        nonlocal is_lost
        if isinstance(request, methods.WriteRow) and moment == "after" and not is_lost:
            is_lost = True
            added = ColumnSchema("more", STRING, True)
            other.alter_table("t", [AddColumn(added)])
            raise errors.ServerUnavailable("lost")

    cluster.faults.append(lose)
    cluster.applied.clear()
    assert client.write_row(table, Op.INSERT, {"k": 1, "big": 5}).applied == 1
    sent = [request for _, request in cluster.requests(methods.WriteRow)][1:]
    assert len(sent) >= 2 and len({request.call.sequence for request in sent}) == 1
    assert len([call for call in cluster.applied if call[1] == sent[0].call.sequence]) == 1
    assert not client._shared.numbers._open


def test_a_statement_that_has_waited_before_leaves_its_time_to_the_steps(client: Client, table: Table) -> None:
    waiting = WaitingTime()
    with within(waiting):
        assert client._direct.read(table, (0,), ("k",), None) == (0,)
        waiting.add(1.0, 2.0)
        assert isinstance(client._direct.read(table, (0,), ("k",), None), Rest)
        assert client.read_row(table, (0,), ("k",)) == (0,)


def test_the_time_of_the_first_attempt_counts(make_client: Callable[..., Client], cluster: FakeCluster) -> None:
    client = make_client(deadline=0.2)
    table = client.create_table(DEFINITION)
    client.write_row(table, Op.INSERT, {"k": 0})
    waiting = WaitingTime()
    cluster.faults.append(once(methods.ReadRow, errors.ServerUnavailable("away"), times=1 << 30))
    with within(waiting), pytest.raises(errors.DeadlineExceeded, match="away"):
        client.read_row(table, (0,), ("k",))
    assert waiting.seconds > 0.0
    with pytest.raises(errors.UnknownColumn, match="nothing"):
        client.read_row(table, (0,), ("nothing",))
