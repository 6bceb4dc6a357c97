"""A pytest plugin (`-p owner_store`): stores ":memory:" are reached through an owner, by the cluster's protocol.

So tests that were written for an embedded store show that SQL does the same for the clients of one that is served. A
test that has a second store open at the same time, or needs options that only an embedded store takes, gets an
embedded one for it.
"""

from __future__ import annotations

from typing import Any

import pytest
from examples import limit_examples
from nyala.cluster.client.client import Client
from nyala.cluster.embedded_server.server import EmbeddedServer
from nyala.driver.stores import open_stores as stores
from nyala.driver.stores.cluster_url import servers
from nyala.executor.fragments.evaluate import table_evaluator
from nyala.storage.database import MEMORY, Database

_is_used = False
EXAMPLES = 10
"""Of a property, at most: the embedded store is tried with more of them."""
count = 0
"""Stores that were given out."""


class OwnedStore(Client):
    """A store in memory, behind an owner in this process."""

    def __init__(self, **options: Any) -> None:
        self._database = Database(MEMORY, **options)
        self._server = EmbeddedServer(self._database, directory=None, fragments=table_evaluator)
        self._server.start()
        super().__init__(servers(self._server.url))

    def close(self) -> None:
        """The store goes with its client."""
        global _is_used
        super().close()
        self._server.close(0.0)
        self._database.close()
        _is_used = False


def _open(path: Any = MEMORY, **options: Any) -> Any:
    global _is_used, count
    if path != MEMORY or _is_used or options.keys() - {"threads"}:
        return Database(path, **options)
    _is_used = True
    count += 1
    return OwnedStore(**options)


def pytest_sessionstart(session: pytest.Session) -> None:
    stores.Database = _open  # type: ignore[misc, assignment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    limit_examples(items, EXAMPLES)


def pytest_sessionfinish(session: pytest.Session) -> None:
    stores.Database = Database  # type: ignore[misc]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"{count} stores behind an owner")
