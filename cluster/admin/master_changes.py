"""`nyala cluster add-master`, `remove-master`, `replace-master`: changes of the set of masters.

Each can be repeated after an interruption at any point: what is done already is not done again.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...errors import ClusterError, DeadlineExceeded, InterfaceError
from ..client.catalog.master_states import MasterState, master_states
from ..raft.messages import Peer, PeerRole
from ..wire.calls.rpc import Channels
from ..wire.messages.membership_methods import (
    AddMaster,
    ListMasters,
    MastersReply,
    RemoveMaster,
    UnsafeChangeMasters,
    nobody_waits,
)
from ..wire.messages.methods import GetStatus, ReportTablets, ServerStatus, TabletReport
from .masters import ask_master
from .view import call, server_view

_POLL_SECONDS = 0.1
_CALL_SECONDS = 5.0
_CAN_JOIN = ("WAITING", "REMOVED")
TELL_SECONDS = 5.0
"""Seconds between two reports of a master that catches up."""
Say = Callable[[str], None]


class MasterChanges:
    """Changes of the masters of one cluster. Masters are named by their addresses, as "host:port".

    Parameters
    ----------
    masters : sequence of str
        Addresses of masters, of which one at least still is one.
    say : callable
        Called with each step for people.
    seconds : float
        Time limit of a whole change; it continues at the masters where that is exceeded.
    """

    def __init__(self, channels: Channels, masters: Sequence[str], say: Say, seconds: float):
        self._channels = channels
        self._masters = masters
        self._say = say
        self._end = time.monotonic() + seconds

    def list(self) -> MastersReply:
        """Returns the masters."""
        reply: MastersReply = ask_master(self._channels, self._masters, ListMasters(), self._left())
        return reply

    def states(self) -> builtins.list[MasterState]:
        """Returns the masters with the state of each, also of those that do not respond."""
        reply = self.list()
        answers = [(peer, server_view(self._channels, peer.address)) for peer in reply.configuration.peers]
        roles = {peer.address: peer.role.name for peer, _ in answers}
        found = master_states([(peer.address, view.status, view.error) for peer, view in answers], roles)
        return [replace(state, id=peer.id) for state, (peer, _) in zip(found, answers, strict=True)]

    def add(self, address: str) -> None:
        """Adds a master, which must be waiting at the address, and returns when it has a vote."""
        known = self._at(address)
        if known is None:
            ask_master(self._channels, self._masters, AddMaster(address=address), self._left())
            self._say(f"{address} is added, and copies the catalog")
        elif known.role is PeerRole.VOTER:
            self._say(f"{address} is a master already")
            return
        self._wait_voter(address)
        self._say(f"{address} is a master")

    def remove(self, address: str) -> None:
        """Removes a master, dead or alive; a leading one transfers its leadership before."""
        if self._at(address) is None:
            self._say(f"{address} is not a master, or not any more")
            return
        ask_master(self._channels, self._masters, RemoveMaster(address=address), self._left())
        self._say(f"{address} is removed")

    def replace(self, old: str, new: str) -> None:
        """Replaces a master by one that is waiting at another address.

        A dead master is removed first: while it counted, the death of the new one would leave no majority. One that is
        alive is removed last, so that there are never fewer than before.
        """
        if old == new:
            raise InterfaceError(f"a master cannot be replaced by itself ({old}); start it with its directory instead")
        if self._at(new) is None:
            self._check_waiting(new)
        present = self._at(old)
        is_alive = present is not None and self._is_alive(present)
        if not is_alive:
            self.remove(old)
        self.add(new)
        if is_alive:
            self.remove(old)

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _at(self, address: str) -> Peer | None:
        peers = self.list().configuration.peers
        return next((peer for peer in peers if peer.address == address), None)

    def _check_waiting(self, address: str) -> None:
        """Raises `InterfaceError` unless a master process waits at the address: before anything is changed."""
        try:
            status: ServerStatus = call(self._channels, address, GetStatus(), _CALL_SECONDS)
        except ClusterError as error:
            raise InterfaceError(nobody_waits(address, self._masters, error)) from error
        state = status.details.get("membership")
        if status.kind != "master" or state not in _CAN_JOIN:
            raise InterfaceError(
                f"the {status.kind} at {address} does not wait to be added: it {'is' if state else 'has no state,'} "
                f"{state or 'as of a former version'}; start a master with an empty directory there"
            )

    def _is_alive(self, peer: Peer) -> bool:
        try:
            status: ServerStatus = call(self._channels, peer.address, GetStatus(), _CALL_SECONDS)
        except ClusterError:
            return False
        return status.id == peer.id and status.details.get("membership") not in _CAN_JOIN

    def _wait_voter(self, address: str) -> None:
        reported = time.monotonic()
        while (peer := self._at(address)) is None or peer.role is not PeerRole.VOTER:
            if peer is None:
                raise InterfaceError(f"{address} was removed by another command while it was being added")
            now = time.monotonic()
            if now >= self._end:
                raise DeadlineExceeded(
                    f"{address} has not caught up yet, and has no vote; it continues, as long as it runs. "
                    "The command may be repeated"
                )
            if now - reported >= TELL_SECONDS:
                reported = now
                self._say(f"waiting for {address}: it copies the catalog, or catches up")
            time.sleep(_POLL_SECONDS)

    def _left(self) -> float:
        return max(1.0, self._end - time.monotonic())


class ForcedMasters:
    """The last resort when a majority of the masters is permanently lost: its warning, and its execution.

    Parameters
    ----------
    survivors : sequence of str
        Addresses of masters: the first one's catalog counts, and the others follow it.
    """

    def __init__(self, channels: Channels, survivors: Sequence[str]):
        self._channels = channels
        self._survivors = tuple(dict.fromkeys(survivors))

    def warning(self) -> Iterator[str]:
        """Returns a prominent warning of the consequences."""
        first, *further = [(address, *self._facts(address)) for address in self._survivors]
        address, masters, report = first
        yield f"DANGER: the cluster continues with only the catalog of the master at {address} ({_described(report)})."
        for other, _, theirs in further:
            yield f"The master at {other} ({_described(theirs)}) FOLLOWS it, and LOSES entries that it lacks."
            if (theirs.term, theirs.last_index) > (report.term, report.last_index):
                yield f"It has MORE than the first one: name {other} first."
        lost = ", ".join(one for one in masters if one not in self._survivors) or "others"
        yield (
            f"Tables that were created, altered or dropped at {lost} without it: these changes ARE PERMANENTLY LOST, "
            "and changes that were never acknowledged may appear. Tablets of forgotten tables stay, unused."
        )
        yield f"{lost} must NEVER run again with the directories that they had: there would be two leading masters."
        yield "If a majority of the masters can be recovered, start them instead."

    def force(self, seconds: float) -> str:
        """Forces the set of masters; returns a description of the result when one leads. Raises `ConfigurationRefused`
        while another leads."""
        end = time.monotonic() + seconds
        address = self._survivors[0]
        call(self._channels, address, UnsafeChangeMasters(survivors=self._survivors), max(_CALL_SECONDS, seconds))
        left = max(1.0, end - time.monotonic())
        reply: MastersReply = ask_master(self._channels, self._survivors, ListMasters(), left)
        count = len(reply.configuration.peers)
        return (
            f"{address} is {'the only master' if count == 1 else f'one of {count} masters'}, and a master leads; "
            "add others with `nyala cluster add-master`"
        )

    def _facts(self, address: str) -> tuple[Sequence[str], TabletReport]:
        status: ServerStatus = call(self._channels, address, GetStatus(), _CALL_SECONDS)
        for report in call(self._channels, address, ReportTablets(), _CALL_SECONDS).tablets:
            if status.kind == "master":
                return status.details.get("masters", ()), report
        raise InterfaceError(f"the {status.kind} at {address} has no catalog of masters")


def _described(report: TabletReport) -> str:
    return f"{report.rows} records, {report.state}, log entry {report.last_index} of term {report.term}"
