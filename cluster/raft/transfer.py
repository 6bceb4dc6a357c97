"""Leadership transfer: the leader waits until the target has every entry, then requests that it campaigns at once.

Source: Ongaro's thesis, section 3.10. From the beginning of a transfer the leader accepts no proposals, and has no
lease for the rest of its term (section 6.4.1): the target's election does not wait for promises. If no other leader
appears within an election timeout, it steps down.

A server quiesces before it is stopped (Kudu: `tserver quiesce`): its leaders transfer leadership to a voter that has
caught up, as soon as there is one, and its followers wait `core.QUIET_FACTOR` times as long before they campaign. So it
leads only where no other peer can: a tablet whose other voters are dead, behind or quiescing keeps its leader. A
quiescing peer still votes, and campaigns if the leader requests that, which then did not know.
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
        if self._progress[target].is_quiescing and not self.has_begun:
            raise ConfigurationRefused(f"{target} is quiescing, and does not become the leader")
        if self.has_begun and self.target != target:
            raise ConfigurationRefused(f"leadership is already being transferred to {self.target}")
        if not self.has_begun:
            self.target, self.deadline = target, core.now + core.options.election_timeout
        self.proceed()

    def _fitness(self, id: str) -> tuple[bool, bool, int, float]:
        progress = self._progress[id]
        return self._answers(progress), not progress.is_quiescing, progress.match_index, progress.heard_at

    def _answers(self, progress: PeerProgress) -> bool:
        return self._core.now - progress.heard_at < self._core.options.election_timeout

    def begin_if_quiescing(self) -> None:
        """If this peer is quiescing, begins a transfer to a voter that can lead at once, if there is one; to be called
        when a peer has responded, and in each round."""
        core = self._core
        if not core.is_quiescing or self.has_begun:
            return
        heirs = [id for id in core.members.voters if id != core.id and self._is_heir(self._progress[id])]
        if heirs:
            self.begin(max(heirs, key=self._fitness))

    def _is_heir(self, progress: PeerProgress) -> bool:
        """True if the transfer to a voter would take a moment: it lacks at most entries that are in transit."""
        has_caught_up = progress.match_index >= self._core.commit_index and not progress.needs_copy
        return has_caught_up and self._answers(progress) and not progress.is_quiescing

    def proceed(self) -> None:
        """Lets the target campaign if it has every entry; repeated in every round, since a message may be lost."""
        if not self.has_begun:
            return
        core = self._core
        progress = self._progress.get(self.target)
        if progress is not None and progress.match_index == core.log.last_index:
            core.send(progress.peer, TransferRequest(core.id, core.term))
