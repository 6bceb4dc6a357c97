"""Tokens between processes: a client that has observed a timestamp of another one reads what that one has written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import nyala
import pytest
from cluster_support_client import FakeCluster
from nyala import errors
from nyala.cluster.client.client import Client
from nyala.driver.aio import AsyncConnection
from nyala.driver.async_calls import Threads
from nyala.driver.connection import Connection
from nyala.driver.session.session import Session
from nyala.driver.stores.open_stores import SharedStore
from nyala.model.clock import LOGICAL_BITS, make_timestamp, timestamp_to_datetime, wall_microseconds

AHEAD = 3_000_000
"""Microseconds."""


def connect(client: Client) -> Connection:
    return Connection(SharedStore(client, None, {}), Session(client, threads=2))


def test_a_client_that_has_observed_a_token_reads_the_rows(
    make_client: Callable[..., Client], cluster: FakeCluster
) -> None:
    writer, reader = connect(make_client()), connect(make_client())
    writer.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    reader.store.refresh_catalog()  # type: ignore[attr-defined]
    # As after a change of leaders: the servers assign timestamps ahead of the wall clock.
    cluster.database.clock.update(make_timestamp(wall_microseconds() + AHEAD))
    writer.execute("INSERT INTO t VALUES (1)")
    token = writer.last_timestamp
    assert token is not None and token < writer.now()
    assert reader.now() < token, "it has not received anything from a server since"
    reader.observe(token)
    assert reader.now() > token
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (1,)
    reader.observe(token)  # an older one has no effect
    reader.close()
    writer.close()


def test_an_open_transaction_keeps_its_snapshot(make_client: Callable[..., Client]) -> None:
    writer, reader = connect(make_client()), connect(make_client())
    writer.execute("CREATE TABLE t (k INT PRIMARY KEY)")
    reader.store.refresh_catalog()  # type: ignore[attr-defined]
    reader.begin()
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)
    writer.execute("INSERT INTO t VALUES (1)")
    reader.observe(writer.now())
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)
    reader.commit()
    assert reader.execute("SELECT count(*) FROM t").fetchone() == (1,)
    reader.close()
    writer.close()


def test_tokens_that_are_refused(client: Client, connection: Connection) -> None:
    with pytest.raises(errors.ClockTooFarAhead, match="3600 s ahead of this machine's"):
        connection.observe(make_timestamp(wall_microseconds() + 3600 * 10**6))
    now = connection.now()
    for token in (-1, 1 << 64, True, "1", 1.5, timestamp_to_datetime(now) - timedelta(days=1)):
        with pytest.raises(nyala.InterfaceError, match="is no token"):
            connection.observe(token)  # type: ignore[arg-type]
    assert connection.now() >> LOGICAL_BITS < wall_microseconds() + AHEAD, "it has not moved the clock"
    connection.close()
    with pytest.raises(nyala.InterfaceError, match="closed"):
        connection.observe(now)


def test_a_store_of_this_process_has_observed_its_timestamps() -> None:
    with nyala.connect(":memory:") as connection, nyala.connect(":memory:", observed=connection.now()) as other:
        connection.observe(connection.now())
        other.observe(0)
        with pytest.raises(nyala.DataError, match="another store's"):
            connection.observe(make_timestamp(wall_microseconds() + AHEAD))
    with pytest.raises(nyala.InterfaceError, match="is no token"):
        nyala.connect(":memory:", observed=-1)


def test_asyncio(connection: Connection) -> None:
    async def main() -> None:
        awaiting = AsyncConnection(connection, Threads(1))
        token = make_timestamp(wall_microseconds() + AHEAD)
        awaiting.observe(token)
        assert awaiting.now() > token

    asyncio.run(main())
