"""Ends transactions whose client has gone: the leader of a tablet with a prepared write requests the outcome.

    prepared for 3 s ──► masters: where is the tablet that decides? ──► its leader: Decide(ABORT) ──► the first outcome
                                                                                                          │
    this tablet: RESOLVE ◄────────────────────────────────────────────────────────────────────────────────┘

A client that is slow but alive is aborted so; it gets `SerializationFailure`. If the tablet that decides cannot be
reached, the write stays prepared, and the next round tries again. If it was dropped, the transaction is aborted here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ...errors import Error, NotTheLeader
from ...storage.maintenance.background import Rounds
from ..consensus.log.transaction_entries import PreparedNote, StagedNote
from ..raft.messages import Peer
from ..tablets.replica import Replica
from ..wire.calls.rpc import Channels
from ..wire.messages.methods import LocateTablets
from ..wire.messages.transaction_methods import Decide

PATIENCE: Final = 3.0
"""Seconds for which a write may stay prepared: long for a client that is alive. Parts of many rows may stay longer, as
their notes say."""
CALL_SECONDS: Final = 2.0
_log = logging.getLogger("nyala.cluster.tserver")


class AbandonedTransactions:
    """Looks for them once a second, in a thread of its own.

    Parameters
    ----------
    replicas : callable
        Returns the current replicas.
    channels : Channels
    masters : callable
        Returns the addresses of the masters, the leading one first.
    starts : bool
        False: no thread is started.
    """

    def __init__(
        self,
        replicas: Callable[[], Iterable[Replica]],
        channels: Channels,
        masters: Callable[[], Sequence[str]],
        starts: bool = True,
    ):
        self._replicas = replicas
        self._channels = channels
        self._masters = masters
        self._rounds = Rounds("nyala-transactions", self.end_all, starts)

    def stop(self) -> None:
        """Ends the thread; returns when its round is over."""
        self._rounds.stop()

    def end_all(self) -> None:
        """Ends every abandoned transaction whose outcome can be found now."""
        unreachable: set[str] = set()
        for replica in list(self._replicas()):
            for note in _abandoned(replica):
                if note.tablet_id in unreachable:
                    continue  # a round must not take the time of a call for each of its transactions
                fields = {"transaction": note.transaction, "tablet": replica.tablet_id}
                try:
                    timestamp = self._outcome(replica, note)
                    replica.transactions.resolve(note.transaction, timestamp, time.monotonic() + CALL_SECONDS)
                except Error as error:
                    fields["error"] = str(error)
                    unreachable.add(note.tablet_id)
                    _log.warning("an abandoned transaction cannot be ended yet", extra={"fields": fields})
                else:
                    outcome = "committed" if timestamp else "aborted"
                    _log.info("an abandoned transaction was %s", outcome, extra={"fields": fields})

    def _outcome(self, replica: Replica, note: PreparedNote | StagedNote) -> int:
        """Returns the commit timestamp, 0 if the transaction is aborted."""
        if note.tablet_id == replica.tablet_id:
            return replica.transactions.decide(note.transaction, 0, time.monotonic() + CALL_SECONDS)
        servers = self._locate(note)
        if not servers:
            return 0
        request = Decide(tablet_id=note.tablet_id, transaction=note.transaction, timestamp=0)
        tried: set[str] = set()
        while True:
            address = next(address for address in servers if address not in tried)
            tried.add(address)
            try:
                return int(self._channels.get(address).call(request, CALL_SECONDS).timestamp)
            except Error as error:
                if isinstance(error, NotTheLeader) and error.leader and error.leader not in tried:
                    servers.insert(0, error.leader)
                if not set(servers) - tried:
                    raise

    def _locate(self, note: PreparedNote | StagedNote) -> list[str]:
        """Returns the addresses of the replicas of the tablet that decides, the leader's first; none if it was
        dropped."""
        request = LocateTablets(tablet_ids=(note.tablet_id,))
        masters = self._masters()
        for number, master in enumerate(masters, 1):
            try:
                reply = self._channels.get(master).call(request, CALL_SECONDS)
            except Error:
                if number == len(masters):
                    raise
                continue
            for location in reply.tablets:
                return _leader_first(location.replicas, location.leader)
            return []
        return []


def _abandoned(replica: Replica) -> list[PreparedNote | StagedNote]:
    try:
        return replica.transactions.abandoned(PATIENCE)
    except Error:  # it is not running any more, or not yet
        return []


def _leader_first(replicas: Sequence[Peer], leader: str) -> list[str]:
    return [peer.address for peer in sorted(replicas, key=lambda peer: peer.id != leader)]
