"""A pytest plugin (`-p cluster_store`): stores ":memory:" are tables of a cluster with three replicas on three servers.

So tests that were written for an embedded store show that SQL does the same on a cluster. A test that has a second
store open at the same time, or needs options that only an embedded store takes, gets an embedded one for it. At the
end, modules are reported whose tests had none but those.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from examples import limit_examples
from nyala.cluster.client.client import Client
from nyala.driver.stores import open_stores as stores
from nyala.driver.stores.cluster_url import servers
from nyala.errors import Error
from nyala.storage.database import MEMORY, Database
from nyala.testing import MiniCluster

_cluster: MiniCluster | None = None
_is_used = False
count = 0
"""Stores that were given out."""
EXAMPLES = 10
"""Of a property, at most: the embedded store is tried with more of them, in a tenth of the time."""
_running = ""
"""The module of the test that runs."""
_idle: set[str] = set()
"""Modules that have had none of the stores so far."""


class ClusterStore(Client):
    """All tables of the cluster; none when it is opened."""

    def close(self) -> None:
        """Drops everything and closes."""
        global _is_used
        if _is_used:
            with contextlib.suppress(Error):
                self._drop_all()
            _is_used = False
        super().close()

    def _drop_all(self) -> None:
        self.drop_views([view.name for view in self.views()])
        for table in self.tables():
            self.drop_table(table.name)


def _open(path: Any = MEMORY, **options: Any) -> Any:
    global _is_used, count
    if path != MEMORY or _is_used or options.keys() - {"threads"}:
        return Database(path, **options)
    assert _cluster is not None
    store = ClusterStore(servers(_cluster.url))
    _is_used = True
    _idle.discard(_running)
    count += 1
    store._drop_all()
    return store


def pytest_sessionstart(session: pytest.Session) -> None:
    global _cluster
    _cluster = MiniCluster(tservers=3, options={"durability": "os"})
    stores.Database = _open  # type: ignore[misc, assignment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        _idle.add(item.path.name)
    limit_examples(items, EXAMPLES)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    global _running
    _running = item.path.name


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _cluster is not None:
        _cluster.close()
    stores.Database = Database  # type: ignore[misc]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"{count} stores on the cluster, none for {', '.join(sorted(_idle)) or 'nobody'}")
