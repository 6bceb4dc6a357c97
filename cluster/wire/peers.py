"""Messages between servers, for many tablets in one."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from ..raft.messages import Message, Peer


class PeerBatch(Struct, frozen=True, array_like=True):
    """A message from one server to another for any number of tablets: (tablet id, message) each. `clock` is the
    sender's hybrid time."""

    sender: Peer
    clock: int
    messages: tuple[tuple[str, Message], ...]


class Transport(Protocol):
    """Carries messages between servers; may lose, delay and reorder them, but not change their content."""

    def send(self, peer: Peer, tablet_id: str, message: Message) -> None:
        """Sends a message; returns at once. Waiting messages for one server are batched."""
