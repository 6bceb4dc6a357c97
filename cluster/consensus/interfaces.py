"""Interfaces between consensus and the replica above it; the network below it is `wire.peers.Transport`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..raft.messages import Entry, Peer


class ReplicatedState(Protocol):
    """The replica of a tablet, notified by its consensus of decisions. Calls for one tablet never overlap (except
    `safe_timestamp`), and come from pool threads without any lock of the consensus held."""

    def apply(self, entries: Sequence[Entry]) -> None:
        """Applies committed entries, in order. The sequence has no gaps except entries that this replica proposed
        itself and already has in memory (`ReplicatedLog.append`). It includes NO_OP and CONFIGURATION entries, and
        those of `Consensus.propose`. An error stops the replica (it is FAILED).

        A leader serves (`ConsensusStatus.is_serving`) after this has returned for the NO_OP of its term: only then is
        everything before it in memory. Until then `ReplicatedLog.append` refuses (`NotTheLeader`), in the same step in
        which it proposes. So a writer's lookups under the tablet's `write_lock`, which this call also acquires, still
        hold. Tickets of entries at or below one passed here are decided before it is passed.
        """

    def entries_failed(self) -> None:
        """Reports entries that this replica proposed and that were decided without a waiting writer.

        Either they are void (`LogTicket.error` is set) and their effects must be undone, or they were committed after
        their writers had timed out. `Tablet.settle` under the `write_lock` handles both.
        """

    def leadership_changed(self) -> None:
        """Reports a change of role, leader or term; as leader also of its ability to serve."""

    def needs_bootstrap(self, peer: Peer) -> None:
        """As leader: this peer must copy the data."""

    def safe_timestamp(self) -> int:
        """As leader, returns the greatest hybrid time T such that every write at or below T has been appended to the
        log, and no future write gets a timestamp at or below T. Called by any thread, often; acquires at most
        `MvccManager`'s lock, never the `write_lock`."""

    def failed(self, error: Exception) -> None:
        """Reports that the consensus has stopped for good: the disk failed, its files are damaged, or `apply` raised
        this."""
