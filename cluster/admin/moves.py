"""Moving one replica: a new one is added and catches up, then the old one goes (Kudu paper, section 3.3, one server at
a time). At every moment a majority of the voters has everything."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ...errors import ClusterError, ConfigurationRefused, DeadlineExceeded, InterfaceError, NotTheLeader, did_you_mean
from ..raft.messages import Configuration, Peer, PeerRole
from ..wire.methods import ChangeReplicas, ListServers, LocateTablets, NamedServer, StepDown, TabletLocation
from ..wire.rpc import Channels
from .masters import ask_master

_PAUSE_SECONDS = 0.1


class ReplicaMover:
    """Moves replicas, and leaders, of a cluster with these masters."""

    def __init__(self, channels: Channels, masters: Sequence[str]):
        self._channels = channels
        self._masters = masters

    def move(self, tablet_id: str, source: str, target: str, seconds: float = 600.0) -> None:
        """Move the replica on one server (id or address) to another that has none; returns when that is done.

        Raises `InterfaceError` where the servers are not as said, `DeadlineExceeded` where it takes too long: it may
        still go on then.
        """
        end = time.monotonic() + seconds
        location = self._locate(tablet_id, end)
        old = self._replica(location, source)
        new = self._server(target, end)
        if any(peer.id == new.id for peer in location.replicas):
            raise InterfaceError(f"{new.address} has a replica of tablet {tablet_id} already")
        self._change(tablet_id, "add", Peer(new.id, new.address, PeerRole.PRE_VOTER), end)
        self._wait_voter(tablet_id, new.id, end)
        self.remove(tablet_id, old, end)

    def remove(self, tablet_id: str, peer: Peer, end: float) -> None:
        """Take a replica out of the configuration; where it leads, another one leads first."""
        while self._locate(tablet_id, end).leader == peer.id:
            self.step_down(tablet_id, None, max(1.0, end - time.monotonic()))
            time.sleep(_PAUSE_SECONDS)
        self._change(tablet_id, "remove", peer, end)

    def step_down(self, tablet_id: str, target: str | None = None, seconds: float = 30.0) -> None:
        """Have another replica lead: the one on `target` (id or address), or whichever is furthest. Returns when the
        leader has changed."""
        end = time.monotonic() + seconds
        before = self._locate(tablet_id, end)
        wanted = None if target is None else self._replica(before, target)
        if wanted is not None and wanted.id == before.leader:
            return
        while True:
            now = self._locate(tablet_id, end)
            if now.leader and now.leader != before.leader and (wanted is None or now.leader == wanted.id):
                return
            if now.leader:
                address = next(peer.address for peer in now.replicas if peer.id == now.leader)
                self._try(address, StepDown(tablet_id=tablet_id, target=None if wanted is None else wanted.id), end)
            self._check(end, f"leadership of tablet {tablet_id} moves")
            time.sleep(_PAUSE_SECONDS)

    # ---- parts -----------------------------------------------------------------------------------------------------

    def _change(self, tablet_id: str, kind: str, peer: Peer, end: float) -> None:
        while True:
            location = self._locate(tablet_id, end)
            known = any(other.id == peer.id for other in location.replicas)
            if known is (kind == "add"):
                return
            leader = next((p.address for p in location.replicas if p.id == location.leader), "")
            if leader:
                self._try(leader, ChangeReplicas(tablet_id=tablet_id, kind=kind, peer=peer), end)
            self._check(end, f"tablet {tablet_id} takes to {kind} the replica at {peer.address}")
            time.sleep(_PAUSE_SECONDS)

    def _try(self, address: str, request: ChangeReplicas | StepDown, end: float) -> Configuration | None:
        try:
            self._channels.get(address).call(request, timeout=max(0.1, min(10.0, end - time.monotonic())))
        except (NotTheLeader, ConfigurationRefused):
            pass  # another change is on its way: asked again until the end
        except ClusterError as error:
            if not error.retryable:
                raise
        return None

    def _wait_voter(self, tablet_id: str, server: str, end: float) -> None:
        while True:
            peer = next((p for p in self._locate(tablet_id, end).replicas if p.id == server), None)
            if peer is not None and peer.role is PeerRole.VOTER:
                return
            self._check(end, f"the new replica of tablet {tablet_id} has caught up")
            time.sleep(_PAUSE_SECONDS)

    def _check(self, end: float, what: str) -> None:
        if time.monotonic() > end:
            raise DeadlineExceeded(f"it is not so, in the time given, that {what}")

    def _locate(self, tablet_id: str, end: float) -> TabletLocation:
        request = LocateTablets(tablet_ids=(tablet_id,))
        found = ask_master(self._channels, self._masters, request, max(1.0, end - time.monotonic())).tablets
        if not found:
            raise InterfaceError(f"the cluster has no tablet {tablet_id}; `nyala tablet list` shows them")
        location: TabletLocation = found[0]
        return location

    def _replica(self, location: TabletLocation, server: str) -> Peer:
        for peer in location.replicas:
            if server in (peer.id, peer.address):
                return peer
        there = did_you_mean(server, [peer.address for peer in location.replicas])
        raise InterfaceError(f"tablet {location.tablet_id} has no replica at {server}{there}")

    def _server(self, server: str, end: float) -> NamedServer:
        known = ask_master(self._channels, self._masters, ListServers(), max(1.0, end - time.monotonic())).tservers
        for one in known:
            if server in (one.id, one.address):
                found: NamedServer = one
                return found
        raise InterfaceError(
            f"the cluster has no tablet server {server}{did_you_mean(server, [s.address for s in known])}"
        )
