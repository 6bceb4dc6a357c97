"""Health of a replica: the classification of its errors, and the consequences of damage.

A replica that failed because its files are damaged serves nothing, but still takes part in the consensus: its log is
intact, and a majority may need its vote until it is replaced. A damaged replica with the only vote stays RUNNING, with
an error.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...errors import OperationalError, ReplicaUnavailable
from ...storage.tablet.tablet import Tablet
from ..consensus.consensus import Consensus
from ..disk_errors import is_damage, is_full
from ..raft.messages import Peer
from .damage import Watched, damage_of


@dataclass(frozen=True, slots=True)
class ReplicaListener:
    """Callbacks of a `Replica`. Called by threads of the consensus, they should return soon.

    Parameters
    ----------
    on_change : callable
        Role, term, leader, configuration, version or state have changed: the next report should include this replica.
    on_bootstrap : callable
        As leader: this peer must copy the data (`StartBootstrap`).
    on_full : callable
        There was no space for this replica's files. Returns the error to raise, which names server and directory.
    """

    on_change: Callable[[Any], None] = lambda replica: None
    on_bootstrap: Callable[[Any, Peer], None] = lambda replica, peer: None
    on_full: Callable[[Any, Exception], Exception] = lambda replica, error: error


class ReplicaHealth:
    """The part of a `Replica` that handles its errors.

    Attributes
    ----------
    state, error : str
        "RUNNING", or "FAILED" and the reason.
    disk_full : str
        Names the full disk of the replica's files; "" while it has space.
    watched : Watched
        Context manager whose body's errors are judged by `met`.
    """

    tablet: Tablet
    consensus: Consensus

    def __init__(self, directory: str):
        self.directory = directory
        self.state = "RUNNING"
        self.error = ""
        self.disk_full = ""
        self.watched = Watched(self.met)
        self._stepped_down = False

    @property
    def tablet_id(self) -> str:
        """The tablet's id."""
        raise NotImplementedError

    def _told(self) -> None:
        """Marks this replica for the next report."""
        raise NotImplementedError

    def _found_full(self, error: Exception) -> Exception:
        """Handles a lack of space; returns the error to raise."""
        raise NotImplementedError

    def _check_running(self) -> None:
        if self.state != "RUNNING":
            raise ReplicaUnavailable(f"the replica of tablet {self.tablet_id} has failed: {self.error}")

    def met(self, error: Exception) -> Exception:
        """Judges an error of work on this replica, and returns the one to raise.

        For a lack of space the returned error names the place. If a file of the replica proves to be damaged, the
        replica fails, and the returned error is a `ReplicaUnavailable`, after which clients use another replica. Any
        other error is returned unchanged.
        """
        if is_full(error):
            return self._found_full(error)
        if not is_damage(error, self.directory):
            return error
        if self.state == "RUNNING":
            if not self.error and not damage_of(self.tablet, str(error)):
                return error
            self._damaged(self.error or f"{type(error).__name__}: {error}")
        if self.state == "RUNNING":
            return error
        return ReplicaUnavailable(f"the replica of tablet {self.tablet_id} has failed: {self.error}")

    def _damaged(self, why: str) -> None:
        self.error = why
        if len(self.consensus.committed_configuration.voters) > 1:
            self.state = "FAILED"
        self._told()
        self.step_down_if_damaged()

    def step_down_if_damaged(self) -> None:
        """Transfers leadership away from a damaged replica; to be called again while this one leads."""
        if self.state != "FAILED":
            return
        status = self.consensus.status()
        if status.role == "LEADER":
            others = [peer.id for peer in status.configuration.voters if peer.id != status.leader]
            # First the most up-to-date one; if that did not help (it may be damaged as well), a random one.
            target = random.choice(others) if others and self._stepped_down else None
            self._stepped_down = True
            with suppress(OperationalError):
                self.consensus.transfer(target)
