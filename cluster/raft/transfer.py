"""Handing leadership over: the leader waits until the target has everything, and tells it to campaign at once.

Source: Ongaro's thesis, section 3.10. From the beginning of a transfer the leader takes no proposals, and has no lease
for the rest of its term (section 6.4.1): the target's election does not wait for promises. If no other leader appears
within an election timeout, it steps down.
"""

from __future__ import annotations

from ...errors import ConfigurationRefused
from .core import FOREVER, Core
from .messages import TransferRequest
from .progress import PeerProgress


class Transferring:
    """A leader's transfer, of which a term sees at most one; `target` "" before that."""

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
        """Hand leadership to a voter; None: to the one that is furthest, of those that answer."""
        core = self._core
        others = [id for id in core.members.voters if id != core.id]
        if target is None and others:
            target = max(others, key=self._fitness)
        if target is None or target not in others:
            raise ConfigurationRefused(
                f"leadership can be handed to another voter only ({', '.join(others) or 'there is none'}), "
                f"not to {target or 'anybody'}"
            )
        if self.has_begun and self.target != target:
            raise ConfigurationRefused(f"leadership is already being handed to {self.target}")
        if not self.has_begun:
            self.target, self.deadline = target, core.now + core.options.election_timeout
        self.go_on()

    def _fitness(self, id: str) -> tuple[bool, int, float]:
        progress, core = self._progress[id], self._core
        answers = core.now - progress.heard_at < core.options.election_timeout
        return answers, progress.match_index, progress.heard_at

    def go_on(self) -> None:
        """Let the target campaign if it has everything; again in every round, since a message may be lost."""
        if not self.has_begun:
            return
        core = self._core
        progress = self._progress.get(self.target)
        if progress is not None and progress.match_index == core.log.last_index:
            core.send(progress.peer, TransferRequest(core.id, core.term))
