"""Health of a replica: the classification of its errors, and the consequences of damage.

A replica that failed because its files are damaged serves nothing, but still takes part in the consensus: its log is
intact, and a majority may need its vote until it is replaced. A damaged replica with the only vote stays RUNNING, with
an error.

    | state | event | next state |
    |---|---|---|
    | RUNNING | a file proves to be damaged, and others have votes | FAILED |
    | RUNNING | a file proves to be damaged, and no other has a vote | DAMAGED |
    | RUNNING | the disk or the consensus fails | FAILED |
    | DAMAGED | damage is found again, and no other has a vote | DAMAGED |
    | DAMAGED | damage is found again, and others have votes by now | FAILED |
    | DAMAGED | the disk or the consensus fails | FAILED |
    | FAILED | its leadership is transferred | STEPPED_DOWN |
    | STEPPED_DOWN | it leads again, and its leadership is transferred | STEPPED_DOWN |

Reports call the first two RUNNING and the others FAILED.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any, Final

from ...errors import OperationalError, ReplicaUnavailable
from ...model.lazy_dataclass import dataclass
from ...model.state_table import StateTable
from ...storage.tablet.tablet import Tablet
from ..consensus.consensus import Consensus
from ..disk_errors import is_damage, is_full
from ..raft.messages import Peer
from .damage import Watched, damage_of


class Health(Enum):
    """Health of a replica; the table is on the module's page."""

    RUNNING = "running"
    DAMAGED = "damaged"
    FAILED = "failed"
    STEPPED_DOWN = "stepped down"


_H = Health
STATES = StateTable(
    _H.RUNNING,
    {
        (_H.RUNNING, "a file proves to be damaged, and others have votes"): _H.FAILED,
        (_H.RUNNING, "a file proves to be damaged, and no other has a vote"): _H.DAMAGED,
        (_H.RUNNING, "the disk or the consensus fails"): _H.FAILED,
        (_H.DAMAGED, "damage is found again, and no other has a vote"): _H.DAMAGED,
        (_H.DAMAGED, "damage is found again, and others have votes by now"): _H.FAILED,
        (_H.DAMAGED, "the disk or the consensus fails"): _H.FAILED,
        (_H.FAILED, "its leadership is transferred"): _H.STEPPED_DOWN,
        (_H.STEPPED_DOWN, "it leads again, and its leadership is transferred"): _H.STEPPED_DOWN,
    },
)
_RUNNING: Final = (_H.RUNNING, _H.DAMAGED)


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
    error : str
        Reason of the damage or failure; "" without one.
    disk_full : str
        Names the full disk of the replica's files; "" while it has space.
    watched : Watched
        Context manager whose body's errors are judged by `met`.
    """

    tablet: Tablet
    consensus: Consensus

    def __init__(self, directory: str, listener: ReplicaListener):
        self.directory = directory
        self._listener = listener
        self._health = STATES.first
        self._health_lock = threading.Lock()
        """Guards `_health` and `error`: several threads may find damage."""
        self.error = ""
        self.disk_full = ""
        self.watched = Watched(self.met)

    def _to_health(self, health: Health) -> None:
        """Changes the health. Needs `_health_lock`."""
        self._health = STATES.checked(self._health, health)

    @property
    def state(self) -> str:
        """ "RUNNING" or "FAILED", as in reports."""
        return "RUNNING" if self._health in _RUNNING else "FAILED"

    @property
    def tablet_id(self) -> str:
        """The tablet's id."""
        raise NotImplementedError

    def _check_running(self) -> None:
        if self._health not in _RUNNING:
            raise ReplicaUnavailable(f"the replica of tablet {self.tablet_id} has failed: {self.error}")

    def met(self, error: Exception) -> Exception:
        """Judges an error of work on this replica, and returns the one to raise.

        For a lack of space the returned error names the place. If a file of the replica proves to be damaged, the
        replica fails, and the returned error is a `ReplicaUnavailable`, after which clients use another replica. Any
        other error is returned unchanged.
        """
        if is_full(error):
            return self._listener.on_full(self, error)
        if not is_damage(error, self.directory):
            return error
        if self.state == "RUNNING":
            if self._health is Health.RUNNING and not damage_of(self.tablet, str(error)):
                return error
            self._damaged(self.error or f"{type(error).__name__}: {error}")
        if self.state == "RUNNING":
            return error
        return ReplicaUnavailable(f"the replica of tablet {self.tablet_id} has failed: {self.error}")

    def _damaged(self, why: str) -> None:
        others_vote = len(self.consensus.committed_configuration.voters) > 1
        self._note_failure(why, Health.FAILED if others_vote else Health.DAMAGED)
        self._listener.on_change(self)
        self.step_down_if_damaged()

    def _note_failure(self, why: str, health: Health = Health.FAILED) -> None:
        with self._health_lock:
            self.error = why
            if self.state == "RUNNING":
                self._to_health(health)

    def step_down_if_damaged(self) -> None:
        """Transfers leadership away from a damaged replica; to be called again while this one leads."""
        if self.state != "FAILED":
            return
        status = self.consensus.status()
        if status.role == "LEADER":
            others = [peer.id for peer in status.configuration.voters if peer.id != status.leader]
            # First the most up-to-date one; if that did not help (it may be damaged as well), a random one.
            with self._health_lock:
                target = random.choice(others) if others and self._health is Health.STEPPED_DOWN else None
                self._to_health(Health.STEPPED_DOWN)
            with suppress(OperationalError):
                self.consensus.transfer(target)
