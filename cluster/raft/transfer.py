"""Leadership transfer: the leader waits until the target has every entry, then requests that it campaigns at once.

Source: Ongaro's thesis, section 3.10. From the beginning of a transfer the leader accepts no proposals, and has no
lease for the rest of its term (section 6.4.1): the target's election does not wait for promises. If no other leader
appears within an election timeout, it steps down.
"""

from __future__ import annotations

from ...errors import ConfigurationRefused
from .core import FOREVER, Core
from .messages import TransferRequest
from .progress import PeerProgress


class LeadershipTransfer:
    """A leader's transfer, at most one per term; `target` is "" before it."""

    __slots__ = ("_core", "_progress", "deadline", "target")

    def __init__(self, core: Core, progress: dict[str, PeerProgress]):
        self._core = core
        self._progress = progress
        self.target = ""
        self.deadline = FOREVER

    @property
    def has_begun(self) -> bool:
        return self.target != ""

    def begin(self, target: str | None) -> None:
        """Begins the transfer to a voter; None: to the most up-to-date one of those that respond."""
        core = self._core
        others = [id for id in core.members.voters if id != core.id]
        if target is None and others:
            target = max(others, key=self._fitness)
        if target is None or target not in others:
            raise ConfigurationRefused(
                f"leadership can be transferred only to another voter ({', '.join(others) or 'there is none'}), "
                f"not to {target or 'any other'}"
            )
        if self.has_begun and self.target != target:
            raise ConfigurationRefused(f"leadership is already being transferred to {self.target}")
        if not self.has_begun:
            self.target, self.deadline = target, core.now + core.options.election_timeout
        self.proceed()

    def _fitness(self, id: str) -> tuple[bool, int, float]:
        progress, core = self._progress[id], self._core
        answers = core.now - progress.heard_at < core.options.election_timeout
        return answers, progress.match_index, progress.heard_at

    def proceed(self) -> None:
        """Lets the target campaign if it has every entry; repeated in every round, since a message may be lost."""
        if not self.has_begun:
            return
        core = self._core
        progress = self._progress.get(self.target)
        if progress is not None and progress.match_index == core.log.last_index:
            core.send(progress.peer, TransferRequest(core.id, core.term))
