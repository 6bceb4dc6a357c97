"""What consensus needs of the replica above it; of the network below it, it needs `wire.peers.Transport`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..raft.messages import Entry, Peer


class ReplicatedState(Protocol):
    """The replica of a tablet, told by its consensus what has been decided. Calls for one tablet never overlap (but for
    `safe_timestamp`), and come from pool threads without any lock of the consensus held."""

    def apply(self, entries: Sequence[Entry]) -> None:
        """These entries are committed, in order and without gaps but for those that this replica proposed itself and
        has in memory already (`ReplicatedLog.append`); NO_OP and CONFIGURATION entries are among them, and so are those
        of `Consensus.propose`. An error stops the replica (it is FAILED).

        A leader serves (`ConsensusStatus.is_serving`) from when this has returned for the NO_OP of its term: only then
        is everything before it in memory. `ReplicatedLog.append` refuses before that (`NotTheLeader`), in the same step
        in which it proposes: so what a writer has looked up under the tablet's `write_lock`, which this call takes,
        too, still holds. Tickets of entries at or below one given here are decided before it is given."""

    def entries_failed(self) -> None:
        """Entries that this replica proposed have been decided, and nobody waits for them: they are void
        (`LogTicket.error` is set) and what they did is to be taken back, or they are committed after their writers have
        given up waiting. `Tablet.settle` under the `write_lock` does both."""

    def leadership_changed(self) -> None:
        """Role, leader or term are others; as leader: whether it serves."""

    def needs_bootstrap(self, peer: Peer) -> None:
        """As leader: this peer must copy the data."""

    def safe_timestamp(self) -> int:
        """As leader: the greatest hybrid time T such that every write with a timestamp at or below T has been appended
        to the log, and none will get one any more. Called by any thread, often; takes `MvccManager`'s lock at most,
        never the `write_lock`."""

    def failed(self, error: Exception) -> None:
        """The consensus has stopped for good: the disk failed, its files are damaged, or `apply` raised this."""
