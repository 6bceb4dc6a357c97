"""A tablet's configurations, by the log index of the entries that made them.

A configuration is in force once its entry is in the log, committed or not; truncating the entry restores the previous
configuration (Ongaro's thesis, section 4.1). Successive configurations differ in one peer, so any majority of one
overlaps any majority of the next, and two configurations cannot elect different leaders. The leader keeps two more
rules for that: at most one configuration is uncommitted, and the first one of a term waits until an entry of the term
is committed (the author's correction of 2015).

    index           0         12         40
    configuration   A B C     A B C d    A B C D        d: PRE_VOTER, D: VOTER
                              committed  in force
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...errors import ConfigurationRefused
from ...storage.log.wal_format import EntryKind
from ..decoders import msgpack_decoder
from .messages import Configuration, Peer, PeerRole

CONFIGURATION = int(EntryKind.CONFIGURATION)
_DECODER = msgpack_decoder(Configuration)


def encode_configuration(configuration: Configuration) -> bytes:
    """Returns the body of a CONFIGURATION entry."""
    return msgspec.msgpack.encode(configuration)


def decode_configuration(body: bytes, index: int) -> Configuration:
    """Returns the configuration of entry `index`; raises `msgspec.DecodeError` for an invalid body."""
    return Configuration(_DECODER.decode(body).peers, index)


class Membership:
    """The configuration in force and the earlier ones that a truncation may restore.

    Attributes
    ----------
    current, committed : Configuration
        The log's newest, and the newest that is known to be committed (the oldest known one while none is).
    voters : tuple of str
        Ids of the voters in force; `majority` of them decide.
    """

    __slots__ = ("_by_id", "_history", "current", "majority", "voters")

    def __init__(self, configurations: Sequence[Configuration]):
        self._history = sorted(configurations, key=lambda configuration: configuration.index)
        self._take_newest()

    def _take_newest(self) -> None:
        self.current = self._history[-1]
        self._by_id = {peer.id: peer for peer in self.current.peers}
        self.voters = tuple(peer.id for peer in self.current.voters)
        self.majority = self.current.majority

    @property
    def committed(self) -> Configuration:
        return self._history[0]

    def peer(self, id: str) -> Peer | None:
        """Returns a peer of the configuration in force, or of one that is still kept."""
        if (known := self._by_id.get(id)) is not None:
            return known
        for configuration in reversed(self._history[:-1]):
            if (peer := configuration.peer(id)) is not None:
                return peer
        return None

    def is_only_voter(self, id: str) -> bool:
        return self.voters == (id,)

    def add(self, configuration: Configuration) -> None:
        """Adds a configuration that was appended to the log."""
        self._history.append(configuration)
        self._take_newest()

    def truncate(self, last_index: int) -> bool:
        """Forgets configurations after `last_index`; True if that restores an earlier one."""
        kept = [configuration for configuration in self._history[1:] if configuration.index <= last_index]
        if len(kept) == len(self._history) - 1:
            return False
        self._history = [self._history[0], *kept]
        self._take_newest()
        return True

    def commit(self, commit_index: int) -> None:
        """Drops the configurations before the committed one: entries up to `commit_index` are never truncated."""
        while len(self._history) > 1 and self._history[1].index <= commit_index:
            del self._history[0]


def check_change(current: Configuration, peers: Sequence[Peer], leader: str) -> None:
    """Raises `ConfigurationRefused` unless `peers` differs from the configuration in exactly one peer, in an allowed
    way: added, promoted to VOTER, at another address, or removed without being the leader itself."""
    before, after = {peer.id: peer for peer in current.peers}, {peer.id: peer for peer in peers}
    if len(after) != len(peers):
        raise ConfigurationRefused(
            "a server can hold only one replica of a tablet; the new peers name one server twice"
        )
    changed = [id for id in {**before, **after} if before.get(id) != after.get(id)]
    if len(changed) != 1:
        raise ConfigurationRefused(f"one peer at a time: {len(changed)} would change ({', '.join(changed) or 'none'})")
    old, new = before.get(changed[0]), after.get(changed[0])
    if new is None and changed[0] == leader:
        raise ConfigurationRefused(f"{leader} leads the tablet and cannot remove itself; transfer leadership first")
    if old is not None and new is not None and old.role is PeerRole.VOTER and new.role is not PeerRole.VOTER:
        raise ConfigurationRefused(f"{old.id} is a VOTER; it can be removed, but not made a {new.role.name}")
