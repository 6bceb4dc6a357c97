"""Moving one replica: a new one is added and catches up, then the old one is removed (Kudu paper, section 3.3, one
server at a time). At every moment a majority of the voters has everything."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ...errors import ClusterError, ConfigurationRefused, DeadlineExceeded, InterfaceError, NotTheLeader
from ..raft.messages import Peer, PeerRole
from ..wire.calls.rpc import Channels
from ..wire.messages.methods import ChangeReplicas, StepDown, TabletLocation
from .names import Names

_PAUSE_SECONDS = 0.1
MOVE_SECONDS = 600.0
STEP_DOWN_SECONDS = 30.0


class ReplicaMover:
    """Moves replicas, and leaders, of a cluster with these masters.

    Parameters
    ----------
    local : mapping of str to str
        As for `Names`, which defines the names of servers and tablets.
    """

    def __init__(self, channels: Channels, masters: Sequence[str], local: Mapping[str, str] | None = None):
        self._channels = channels
        self._names = Names(channels, masters, local)

    def move(self, tablet: str, source: str, target: str, seconds: float = MOVE_SECONDS) -> tuple[str, Peer, Peer]:
        """Moves the replica on one server to another that has none; returns, when that is done, the tablet's id and
        both servers.

        Raises `InterfaceError` for invalid servers, `DeadlineExceeded` if it takes too long: it may still continue
        then.
        """
        end = time.monotonic() + seconds
        location = self._locate(tablet, end)
        tablet_id = location.tablet_id
        old = self._replica(location, source)
        server = self._names.server(target, _left(end))
        new = Peer(server.id, server.address, PeerRole.PRE_VOTER)
        if any(peer.id == new.id for peer in location.replicas):
            raise InterfaceError(f"{self._names.of(new.address)} has a replica of tablet {tablet_id} already")
        self._change(tablet_id, "add", new, end)
        self._wait_voter(tablet_id, new.id, end)
        self.remove(tablet_id, old, end)
        return tablet_id, old, new

    def remove(self, tablet_id: str, peer: Peer, end: float) -> None:
        """Removes a replica from the configuration; if it leads, leadership is transferred first."""
        while self._locate(tablet_id, end).leader == peer.id:
            self.step_down(tablet_id, None, _left(end))
            time.sleep(_PAUSE_SECONDS)
        self._change(tablet_id, "remove", peer, end)

    def step_down(self, tablet: str, target: str | None = None, seconds: float = STEP_DOWN_SECONDS) -> tuple[str, Peer]:
        """Transfers leadership to another replica: the one on `target`, or the most up-to-date one. Returns, when the
        leader has changed, the tablet's id and the new leader.

        Raises `InterfaceError` if no other replica can ever lead, `DeadlineExceeded` with the last refusal if none does
        in time.
        """
        end = time.monotonic() + seconds
        before = self._locate(tablet, end)
        tablet_id = before.tablet_id
        wanted = None if target is None else self._replica(before, target)
        if wanted is not None and wanted.id == before.leader:
            return tablet_id, wanted
        self._check_heirs(before, wanted)
        heir = "another replica" if wanted is None else f"the replica at {self._names.of(wanted.address)}"
        why = ""
        while True:
            now = self._locate(tablet_id, end)
            leader = next((peer for peer in now.replicas if peer.id == now.leader), None)
            if leader is None:
                why = "no replica leads"
            elif leader.id != before.leader and (wanted is None or leader.id == wanted.id):
                return tablet_id, leader
            else:
                request = StepDown(tablet_id=tablet_id, target=None if wanted is None else wanted.id)
                why = self._try(now, leader, request, end) or why
            self._check(end, f"{heir} leads tablet {tablet_id}", why)
            time.sleep(_PAUSE_SECONDS)

    # ---- parts -----------------------------------------------------------------------------------------------------

    def _check_heirs(self, location: TabletLocation, wanted: Peer | None) -> None:
        """Raises if no other replica could lead."""
        voters = [peer for peer in location.replicas if peer.role is PeerRole.VOTER]
        if len(voters) == 1:
            at = self._names.of(voters[0].address)
            raise InterfaceError(f"tablet {location.tablet_id} has one voter, {at}: no other replica can lead it")
        if wanted is not None and wanted.role is not PeerRole.VOTER:
            at = self._names.of(wanted.address)
            raise InterfaceError(f"the replica of tablet {location.tablet_id} at {at} has no vote yet, and cannot lead")

    def _change(self, tablet_id: str, kind: str, peer: Peer, end: float) -> None:
        why = ""
        while True:
            location = self._locate(tablet_id, end)
            known = any(other.id == peer.id for other in location.replicas)
            if known is (kind == "add"):
                return
            leader = next((p for p in location.replicas if p.id == location.leader), None)
            if leader is None:
                why = "no replica leads"
            else:
                why = self._try(location, leader, ChangeReplicas(tablet_id=tablet_id, kind=kind, peer=peer), end) or why
            self._check(
                end,
                f"the leader of tablet {tablet_id} accepts to {kind} the replica at {self._names.of(peer.address)}",
                why,
            )
            time.sleep(_PAUSE_SECONDS)

    def _try(self, location: TabletLocation, leader: Peer, request: ChangeReplicas | StepDown, end: float) -> str:
        """Calls a tablet's leader; returns the reason of its refusal, "" if it did not refuse. Another change may be in
        progress, so the call is repeated until the end."""
        try:
            self._channels.get(leader.address).call(request, timeout=max(0.1, min(10.0, end - time.monotonic())))
        except ClusterError as error:
            if not error.retryable and not isinstance(error, NotTheLeader | ConfigurationRefused):
                raise
            message = str(error)
            for peer in location.replicas:
                message = message.replace(peer.id, self._names.of(peer.address))
            return message
        return ""

    def _wait_voter(self, tablet_id: str, server: str, end: float) -> None:
        while True:
            peer = next((p for p in self._locate(tablet_id, end).replicas if p.id == server), None)
            if peer is not None and peer.role is PeerRole.VOTER:
                return
            self._check(end, f"the new replica of tablet {tablet_id} has caught up")
            time.sleep(_PAUSE_SECONDS)

    def _check(self, end: float, what: str, why: str = "") -> None:
        if time.monotonic() > end:
            suffix = f"; the last error: {why}" if why else ""
            raise DeadlineExceeded(f"timed out waiting until {what}{suffix}")

    def _locate(self, tablet: str, end: float) -> TabletLocation:
        return self._names.tablet(tablet, _left(end))

    def _replica(self, location: TabletLocation, server: str) -> Peer:
        replica = self._names.find(server, location.replicas)
        if replica is None:
            there = self._names.there_are(server, location.replicas)
            raise InterfaceError(f"tablet {location.tablet_id} has no replica at {server}{there}")
        return replica


def _left(end: float) -> float:
    return max(1.0, end - time.monotonic())
