"""A nyala cluster on this machine: one master and three tablet servers in separate processes with their default
options, each with every row.

A write is acknowledged when a majority of the replicas has it in its log, as durable as `durability` defines. The
clients of a process share one connection, and use tables without SQL as `nyala` does; reads are of the latest committed
state, from the leader of the row's tablet.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

from ....cluster.admin.minicluster import MiniCluster
from ....driver.connection import Connection, connect
from ...servers import SERVERS, started_cluster
from ..model import KEY, TABLE, Durability
from .nyala import CREATE, TableClient, nyala_version

BUCKETS = 3


class ClusterBinding:
    """Three replicas; see the module docstring. A copy of it, in another process, connects to the same servers."""

    name: ClassVar[str] = "cluster"
    spreads: ClassVar[bool] = True

    def __init__(self, home: Path, durability: Durability) -> None:
        self._home = home
        self._durability = durability
        self._url = ""
        self._cluster: MiniCluster | None = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_home": self._home, "_durability": self._durability, "_url": self._url}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_home"], state["_durability"])  # type: ignore[misc]
        self._url = state["_url"]

    @classmethod
    def connected(cls, url: str) -> ClusterBinding:
        """Clients of a cluster that runs already and has the table; `start` is not called."""
        binding = cls(Path(), "fsync")
        binding._url = url
        return binding

    def start(self) -> None:
        """Starts the servers, creates the table."""
        self._cluster = started_cluster(self._home, self._durability)
        self._url = self._cluster.url
        self._connected().execute(f"{CREATE} DISTRIBUTE BY HASH ({KEY}) INTO {BUCKETS} BUCKETS REPLICAS {SERVERS}")

    def client(self) -> TableClient:
        """A client on this process's connection."""
        return TableClient(self._connected().table(TABLE))

    def settle(self) -> None:
        """COMPACT TABLE."""
        self._connected().execute(f"COMPACT TABLE {TABLE}")

    def stop(self) -> None:
        """Closes the connection; stops the servers, if this process started them."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def version(self) -> str:
        """nyala's version, and the number of servers."""
        return f"{nyala_version()}, {SERVERS} tablet servers"

    def _connected(self) -> Connection:
        with self._lock:
            if self._connection is None:
                self._connection = connect(self._url)
            return self._connection
