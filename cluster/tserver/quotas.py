"""Quotas of tables at a tablet server: sizes go to the master with each heartbeat, and it returns the tables above.

    leaders here ── sizes of their tablets ──► Heartbeat ──► master: sums by table
    writes       ◄── tables above their quota ◄── HeartbeatReply

A table's tablets are at many servers, so no server knows its size. The state is at most about two heartbeats old: a
table exceeds its quota by what is written in that time, and accepts writes as late after it has become smaller. A
larger quota holds as soon as the tablet has the altered table. Without a leading master the last state stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ...model.store import Op
from ...model.vectors.vector import Array
from ...storage.tables.quotas import is_deletion, quota_exceeded, table_bytes
from ..tablets.replica import Replica


class Quotas:
    """Holds the writes to this server's tablets against the quotas of their tables. Thread-safe.

    Parameters
    ----------
    replicas : callable
        Returns the current replicas.
    interval : float
        Seconds between two heartbeats, for the error.
    """

    def __init__(self, replicas: Callable[[], Iterable[Replica]], interval: float):
        self._replicas = replicas
        self._interval = interval
        self._above: Mapping[str, int] = {}
        """Bytes of the tables above their quota, by id; replaced as a whole."""

    def sizes(self) -> dict[str, int]:
        """Returns the bytes of tablets that lead here, by id, of tables with a quota: those of files, and of rows and
        changes in memory."""
        return {
            replica.tablet_id: table_bytes([replica.tablet])
            for replica in self._replicas()
            if replica.state == "RUNNING" and replica.table.quota_bytes is not None and replica.consensus.is_serving
        }

    def update(self, above: Mapping[str, int]) -> None:
        """Replaces the tables above their quota: the bytes of each, by id, as the leading master has summed them."""
        self._above = dict(above)

    def check(self, replica: Replica, ops: Op | Array) -> None:
        """Raises `QuotaExceeded` if the replica's table is above its quota and the ops are not deletions alone."""
        table = replica.table
        if table.quota_bytes is None:
            return
        size = self._above.get(table.id, 0)
        if size < table.quota_bytes or is_deletion(ops):
            return
        raise quota_exceeded(
            table.name,
            size,
            table.quota_bytes,
            ", by the last reports of all tablet servers",
            f". Writes are accepted again when the servers have reported the smaller size, every {self._interval:g} s",
        )
