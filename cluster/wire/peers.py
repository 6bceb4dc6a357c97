"""Messages between servers: many tablets' in one."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from ..raft.messages import Message, Peer


class PeerBatch(Struct, frozen=True, array_like=True):
    """What one server tells another in one message: for any number of tablets, (tablet id, message) each. `clock` is
    the sender's hybrid time, `read` how many bytes of messages it has read so far on the exchange that this goes by."""

    sender: Peer
    clock: int
    messages: tuple[tuple[str, Message], ...]
    read: int = 0


class Transport(Protocol):
    """Carries messages between servers; may lose them, delay them and change their order, but not their content."""

    def send(self, peer: Peer, tablet_id: str, message: Message) -> None:
        """Returns at once. Messages for one server that wait together travel together."""
