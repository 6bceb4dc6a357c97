"""Retention of a replicated log: entries that are not in the tablet's files, anchored ones, and those that peers lack.

            anchors   replay_index of the tablet (index)   applied
               │                 │                            │
    ───────────┼─────────────────┼────────────────────────────┼────
    removable  │  up to `BACKLOG_BYTES` for peers that lack them, or may

A peer that lacks more than the log has must copy the data, so a leader keeps segments for slow peers, within bounds. A
follower does not know the other peers' progress, and may lead next: it keeps the newest two segments' worth.

A peer that has just copied the data lacks everything written meanwhile, which may be far more than the backlog. The log
is held for it until it has everything that the tablet's files have. If the log were removed before, the peer would have
to copy again, and so on for as long as rows arrive.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping

from ....model.lazy_dataclass import dataclass
from ...raft.progress import PeerProgress
from ..peer_driver import PeerDriver
from .raft_log import SEGMENT_BYTES

BACKLOG_BYTES = 64 << 20
"""Most bytes of segments that a leader keeps for its peers alone."""
FOLLOWER_BACKLOG_BYTES = 2 * SEGMENT_BYTES
HOLD_SECONDS = 60.0
"""Seconds for which the log is held for a peer that has copied the data and makes no progress."""
HELD_BYTES = 8 << 30
"""Most bytes of segments that are kept for such peers."""


class Anchor:
    """Keeps the log from an entry on, until closed or garbage-collected."""

    def __init__(self, index: int):
        self.index = index
        self._is_closed = False

    @property
    def is_held(self) -> bool:
        return not self._is_closed

    def close(self) -> None:
        """Releases the log."""
        self._is_closed = True


@dataclass(slots=True)
class _Hold:
    """For a peer that has everything up to `index`; ends at a time of `Services.now`, which its progress extends."""

    index: int
    until: float


class LogRetention:
    """Retention of one tablet's log. The lock of the consensus guards `_anchors` and `_holds`."""

    def __init__(self, driver: PeerDriver):
        self._driver = driver
        self._anchors: weakref.WeakSet[Anchor] = weakref.WeakSet()
        self._holds: dict[str, _Hold] = {}
        """By the peer's id."""

    def anchor(self, index: int) -> Anchor:
        """Keeps the log from entry `index` on; raises `IndexError` if the log no longer has that entry."""
        driver = self._driver
        with driver.lock:
            if index <= driver.log.base_index:
                raise IndexError(f"the log of tablet {driver.tablet_id} begins after entry {driver.log.base_index}")
            anchor = Anchor(index)
            self._anchors.add(anchor)
            return anchor

    def hold_for(self, receiver: str, index: int) -> None:
        """Keeps the log for a peer that has a copy of the data up to entry `index`, until it has the entries written
        since; it may not be in the configuration yet."""
        driver = self._driver
        with driver.lock:
            self._holds[receiver] = _Hold(index, driver.services.now() + HOLD_SECONDS)

    def floor(self, index: int) -> int:
        """Returns the entry up to which the log may be removed, if the tablet's files have everything up to `index`."""
        driver = self._driver
        log = driver.log
        with driver.lock:
            anchored = [anchor.index - 1 for anchor in self._anchors if anchor.is_held]
            index = min(index, driver.applier.applied_index, driver.node.commit_index, *anchored)
            progress = driver.node.peer_progress()
            is_leader = driver.node.leader == driver.node.id
            reached = min((peer.match_index for peer in progress.values()), default=index) if is_leader else 0
            held = self._held(index, progress)
        if held < index:
            index = max(held, log.index_before(index, HELD_BYTES))
        if reached >= index:
            return index
        backlog = BACKLOG_BYTES if is_leader else FOLLOWER_BACKLOG_BYTES
        return max(min(reached, index), log.index_before(index, backlog))

    def _held(self, index: int, progress: Mapping[str, PeerProgress]) -> int:
        """Returns the last entry that all peers have for which the log is held; `index` if there are none or all have
        it. Peers that have it, or make no progress, are dropped."""
        now = self._driver.services.now()
        for receiver, hold in list(self._holds.items()):
            matched = progress[receiver].match_index if receiver in progress else 0
            if matched > hold.index:
                hold.index, hold.until = matched, now + HOLD_SECONDS
            if now >= hold.until or (receiver in progress and hold.index >= index):
                del self._holds[receiver]
        return min((hold.index for hold in self._holds.values()), default=index)

    def remove_through(self, index: int) -> None:
        """Removes the segments that are not needed, if the tablet's files have everything up to `index`."""
        driver = self._driver
        base = driver.log.new_base(self.floor(index))
        if base is None:
            return
        with driver.lock:
            driver.check_running()
            configuration = driver.node.committed_configuration
        driver.file.update(base_index=base[0], base_term=base[1], configuration=configuration)
        with driver.lock:
            # A step reads the log more than once, and must see the same entries each time.
            driver.log.forget(base[0])
        driver.log.remove_files()
