"""Quiescing: a server that is to be stopped leaves leaderships and new scans to others (Kudu: `tserver quiesce`).

    begin ─► every tablet's leadership goes to a voter that has caught up    (`raft.transfer`)
             its followers do not campaign, unless no other peer leads for long
             new scans are refused, and their clients read another replica
             running scans, and look-ups and writes of tablets that it still leads, continue

A tablet without another voter is served as before: no other server could. The state is in memory only, so a server that
was restarted takes part again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...errors import InterfaceError, ReplicaUnavailable
from ..consensus.consensus import ConsensusStatus
from ..consensus.host import ConsensusHost
from ..raft.events import RaftRole
from ..tablets.replica import Replica
from ..wire.call_context import CallContext
from ..wire.messages.maintenance_methods import QuiesceServer, QuiesceStatus
from .tablet_manager import TabletManager

_log = logging.getLogger("nyala.cluster.tserver")


class Quiescing:
    """The quiescing of one server. Thread-safe.

    Parameters
    ----------
    address : str
        The server's, for errors.
    scans : callable
        Returns the number of scans that have not ended.
    """

    def __init__(self, host: ConsensusHost, tablets: TabletManager, address: str, scans: Callable[[], int]):
        self._host = host
        self._tablets = tablets
        self._address = address
        self._scans = scans

    @property
    def is_quiescing(self) -> bool:
        """True from `begin` to `end`."""
        return self._host.is_quiescing

    def begin(self) -> None:
        """Begins to leave leaderships and new scans to others; returns at once. Idempotent."""
        self._set(True)

    def end(self) -> None:
        """Takes part in elections, and accepts scans, again. Idempotent."""
        self._set(False)

    def _set(self, is_quiescing: bool) -> None:
        if self._host.is_quiescing != is_quiescing:
            self._host.quiesce(is_quiescing)
            _log.info("quiesces" if is_quiescing else "quiesces no more", extra={"fields": {"address": self._address}})

    def status(self) -> QuiesceStatus:
        """Returns the state, and what is left."""
        statuses = [replica.consensus.status() for replica in self._tablets.replicas()]
        return QuiesceStatus(
            is_quiescing=self.is_quiescing,
            leaders=sum(status.role == RaftRole.LEADER and _has_others(status) for status in statuses),
            scans=self._scans(),
            alone=sum(status.role == RaftRole.LEADER and not _has_others(status) for status in statuses),
        )

    def handle(self, request: QuiesceServer, context: CallContext) -> QuiesceStatus:
        """Handles `QuiesceServer`."""
        match request.action:
            case "begin":
                self.begin()
            case "end":
                self.end()
            case "status":
                pass
            case other:
                raise InterfaceError(f'a server can "begin" or "end" to quiesce, or return its "status", not "{other}"')
        return self.status()

    def replica_for_scan(self, tablet_id: str) -> Replica:
        """Returns the replica for a new scan; raises `ReplicaUnavailable` if another server can have it, too."""
        replica = self._tablets.get(tablet_id)
        if self.is_quiescing and _has_others(replica.consensus.status()):
            raise ReplicaUnavailable(f"{self._address} is quiescing, and accepts no new scans of tablet {tablet_id}")
        return replica


def _has_others(status: ConsensusStatus) -> bool:
    return len(status.configuration.voters) > 1
