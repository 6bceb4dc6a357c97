"""A cluster in one process, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster_support_client import FakeCluster
from nyala.cluster.client.client import Client
from nyala.driver.connection import Connection
from nyala.driver.session.session import Session
from nyala.driver.stores.open_stores import SharedStore


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    found = FakeCluster()
    yield found
    found.close()


@pytest.fixture
def make_client(cluster: FakeCluster) -> Iterator[Callable[..., Client]]:
    """Makes clients with these options."""
    made: list[Client] = []

    def make(**options: Any) -> Client:
        made.append(cluster.client(**{"deadline": 20.0, **options}))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(make_client: Callable[..., Client]) -> Client:
    return make_client()


@pytest.fixture
def connection(client: Client) -> Iterator[Connection]:
    """SQL over the client."""
    found = Connection(SharedStore(client, None, {}), Session(client, threads=2))
    yield found
    found.close()
