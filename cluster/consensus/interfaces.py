"""What consensus needs of the replica above it; of the network below it, it needs `wire.peers.Transport`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..raft.messages import Entry, Peer


class ReplicatedState(Protocol):
    """The replica of a tablet, told by its consensus what has been decided. Calls for one tablet never overlap, and come
    from pool threads without any lock of the consensus held."""

    def apply(self, entries: Sequence[Entry]) -> None:
        """These entries are committed, in order and without gaps but for those that this replica proposed itself and
        has in memory already; NO_OP and CONFIGURATION entries are among them. An error stops the replica (it is
        FAILED)."""

    def entries_failed(self) -> None:
        """Entries that this replica proposed are void (`LogTicket.error` is set): take back what they did."""

    def leadership_changed(self) -> None:
        """Role, leader or term are others; as leader: whether it serves."""

    def needs_bootstrap(self, peer: Peer) -> None:
        """As leader: this peer must copy the data."""
