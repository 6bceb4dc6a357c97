"""A leader's state of each follower.

    entries   1 ........... match_index ........... next_index ........... last_index
              durable there │ sent, not answered   │ not sent yet

Messages are sent without waiting for the responses to earlier ones, at most `RaftOptions.window` of them. A lost
message leaves a gap. The peer refuses the next message, at the latest the next heartbeat, since that too names the
entry before `next_index`. The leader then goes back to the last entry that both are known to have (Kudu paper, section
3.2: "jump back to the last committed operation").
"""

from __future__ import annotations

from collections import deque

from .messages import Peer

NEVER = float("-inf")


class PeerProgress:
    """The progress of one peer.

    Attributes
    ----------
    match_index : int
        The peer has this entry and all before it durable.
    next_index : int
        The first entry that was not sent yet.
    in_flight : deque of int
        Last indexes of the messages with entries that were sent and not answered.
    round : int
        The leader's greatest round that the peer has heard.
    rewound_round : int
        Refusals of earlier rounds concern messages from before `next_index` went back, and are ignored.
    heard_at : float
        When the peer last responded in this term.
    is_quiescing : bool
        The peer's last response said that its server is quiescing.
    needs_copy : bool
        The log no longer has the entries that the peer seems to lack. Only heartbeats are sent, from the log's base,
        until the peer accepts one, at the latest when it has a copy of the data.
    """

    __slots__ = (
        "_copy_asked_at",
        "_target_index",
        "_target_set_at",
        "heard_at",
        "in_flight",
        "is_quiescing",
        "is_silent",
        "match_index",
        "needs_copy",
        "next_index",
        "peer",
        "rewound_round",
        "round",
    )

    def __init__(self, peer: Peer, next_index: int, now: float, target_index: int):
        self.peer = peer
        self.match_index = 0
        self.next_index = next_index
        self.in_flight: deque[int] = deque()
        self.round = 0
        self.rewound_round = 0
        self.heard_at = now
        self.is_silent = False
        self.is_quiescing = False
        self.needs_copy = False
        self._copy_asked_at = NEVER
        self._target_index = target_index
        self._target_set_at = now

    def sent(self, last_index: int) -> None:
        """Records that entries up to `last_index` were sent."""
        self.in_flight.append(last_index)
        self.next_index = last_index + 1

    def matched(self, index: int) -> None:
        """Records that the peer has everything up to `index` durable."""
        self.match_index = index
        self.next_index = max(self.next_index, index + 1)
        in_flight = self.in_flight
        while in_flight and in_flight[0] <= index:
            in_flight.popleft()

    def rewind(self, index: int, round: int) -> None:
        """Resumes sending after entry `index`, in a new round."""
        self.next_index = index + 1
        self.rewound_round = round
        self.in_flight.clear()

    def lost_everything(self) -> None:
        """Resets the progress of a server that has no data of the tablet: its earlier responses no longer hold."""
        self.match_index = 0
        self.next_index = 1
        self.in_flight.clear()
        self.needs_copy = True

    def is_copy_due(self, now: float, every: float) -> bool:
        """True if the peer should be requested (again) to copy the data; at most once in `every` seconds."""
        if now < self._copy_asked_at + every:
            return False
        self._copy_asked_at = now
        return True

    def has_caught_up(self, now: float, last_index: int, within: float) -> bool:
        """True if the peer is close enough to vote: it received the target entries within `within` seconds of their
        arrival. Otherwise the current end of the log becomes the new target (thesis, section 4.2.1)."""
        if self.match_index < self._target_index:
            return False
        if now - self._target_set_at <= within:
            return True
        self._target_index, self._target_set_at = last_index, now
        return False
