"""How much of a replicated log must stay: what is not in the tablet's files, what somebody holds, what peers lack.

            anchors   replay_index of the tablet (index)   applied
               │                 │                            │
    ───────────┼─────────────────┼────────────────────────────┼────
    removable  │  up to `BACKLOG_BYTES` for peers that lack them, or may

A peer that lacks more than the log has must copy the data, so a leader keeps segments for slow ones, within bounds. A
follower does not know who lacks what, and may lead next: it keeps the newest two segments' worth.
"""

from __future__ import annotations

import weakref

from .peer_driver import PeerDriver
from .raft_log import SEGMENT_BYTES

BACKLOG_BYTES = 64 << 20
"""Most bytes of segments that a leader keeps for its peers alone."""
FOLLOWER_BACKLOG_BYTES = 2 * SEGMENT_BYTES


class Anchor:
    """Holds the log from an entry on, until it is closed or nobody refers to it any more."""

    def __init__(self, index: int):
        self.index = index
        self._is_closed = False

    @property
    def is_held(self) -> bool:
        return not self._is_closed

    def close(self) -> None:
        """Let go."""
        self._is_closed = True


class LogRetention:
    """What is kept of one tablet's log. `_anchors` is guarded by the lock of the consensus."""

    def __init__(self, driver: PeerDriver):
        self._driver = driver
        self._anchors: weakref.WeakSet[Anchor] = weakref.WeakSet()

    def anchor(self, index: int) -> Anchor:
        """Hold the log from entry `index` on; `IndexError` where that is gone already."""
        driver = self._driver
        with driver.lock:
            if index <= driver.log.base_index:
                raise IndexError(f"the log of tablet {driver.tablet_id} begins behind entry {driver.log.base_index}")
            anchor = Anchor(index)
            self._anchors.add(anchor)
            return anchor

    def floor(self, index: int) -> int:
        """The entry up to which the log may be removed, if up to `index` the tablet's files have it."""
        driver = self._driver
        with driver.lock:
            held = [anchor.index - 1 for anchor in self._anchors if anchor.is_held]
            index = min(index, driver.applier.applied_index, driver.node.commit_index, *held)
            progress = driver.node.peer_progress()
            is_leader = driver.node.leader == driver.node.id
            reached = min((peer.match_index for peer in progress.values()), default=index) if is_leader else 0
        if reached >= index:
            return index
        log = driver.log
        backlog = BACKLOG_BYTES if is_leader else FOLLOWER_BACKLOG_BYTES
        return max(min(reached, index), log.index_before(index, backlog))

    def remove_through(self, index: int) -> None:
        """Remove the segments that are needed by nobody, if the tablet's files have everything up to `index`."""
        driver = self._driver
        base = driver.log.new_base(self.floor(index))
        if base is None:
            return
        with driver.lock:
            driver.check_running()
            configuration = driver.node.committed_configuration
        driver.file.update(base_index=base[0], base_term=base[1], configuration=configuration)
        driver.log.remove_through(base[0])
