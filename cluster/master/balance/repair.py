"""Repair: a pure function from a `ClusterView` to the orders that bring the cluster to the state of the catalog.

A replica is *bad* if its server is dead, or it has FAILED itself, and *unwanted* if its server is leaving. The absence
of a server in maintenance makes no replica bad; it does not count as healthy either where one is removed. A tablet is
brought back to its number of replicas one change at a time, and by adding first (Kudu's 3-4-3 scheme):

    A B C†          C is dead
    A B C† d        d is added as PRE_VOTER, and copies the data          (majority 2 of 3, two healthy)
    A B C† D        the leader has made it a VOTER                        (majority 3 of 4, three healthy)
    A B D           C is removed

    A B C†          C has FAILED and no other server is free: C is removed, its files are deleted,
    A B             and the same server may take a new copy               (majority 2 of 2, two healthy)
    A B c

No change leaves fewer voters than a majority of the replicas that the table needs, fewer voting ones than a majority of
the resulting configuration, or no undamaged one. (A replica with damaged data still votes.) A leader transfers
leadership before its replica is removed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from ....model.lazy_dataclass import dataclass
from ...locations import most_per_location, well_placed
from ...raft.messages import Peer, PeerRole
from .cluster_view import (
    FAILED,
    RUNNING,
    TOMBSTONED,
    ClusterView,
    ServerView,
    TabletView,
    healthy_voters,
    voting_voters,
)
from .orders import (
    AddReplica,
    AlterReplicas,
    AskReport,
    CreateReplica,
    DeleteReplica,
    MoveLeader,
    Order,
    RemoveReplica,
)
from .placement import Loads, Spread, choose_server, least_leading


@dataclass(frozen=True, slots=True)
class Limits:
    """Most concurrent copies, in all and by one server."""

    copies: int = 10
    copies_per_server: int = 2
    bad: int = 10
    bad_share: float = 0.5
    """No replica is replaced while more than `bad` replicas are bad, and more than this share of all. The cause is then
    common to the cluster: its network, its power, a bug."""


def decide(view: ClusterView, limits: Limits, rng: random.Random) -> list[Order]:
    """Returns all orders that are due, those of the most urgent tablets first; repeated until `view` shows their
    effect."""
    orders: list[Order] = [AskReport(at.tablet_id, at.server) for at in view.unsettled]
    orders += [DeleteReplica(at.tablet_id, at.server) for at in view.dropped]
    for tablet in view.tablets.values():
        orders += _bring_up(tablet, view)
        orders += _delete_outsiders(tablet, view)
    repairs = _Repairs(view, limits, rng)
    if is_braked(view, limits):
        return orders
    for tablet in sorted(view.tablets.values(), key=lambda t: len(healthy_voters(t, view.servers)) - t.replicas):
        order = repairs.of(tablet)
        if order is not None:
            orders.append(order)
    return orders


def is_braked(view: ClusterView, limits: Limits) -> bool:
    """True if so large a share of replicas is bad at once that none must be replaced."""
    peers = [(tablet, peer) for tablet in view.tablets.values() for peer in tablet.configuration.voters]
    bad = sum(is_bad(tablet, peer, view) for tablet, peer in peers)
    return bad > limits.bad and bad > limits.bad_share * len(peers)


def is_bad(tablet: TabletView, peer: Peer, view: ClusterView) -> bool:
    """True if a replica is bad: its server is dead, or it has failed itself."""
    server, report = view.servers.get(peer.id), tablet.report(peer.id)
    return server is None or server.is_lost or (report is not None and report.state == FAILED)


def _bring_up(tablet: TabletView, view: ClusterView) -> Iterator[Order]:
    """Returns the orders for a tablet that is new, or has an old version."""
    if not tablet.is_created:
        yield from _create(tablet, view)
    elif tablet.observed.is_serving and tablet.observed.schema_version < tablet.schema_version:
        yield AlterReplicas(tablet.id, tablet.observed.leader, tablet.schema_version)
    yield from _leave_full_disk(tablet, view)


def _leave_full_disk(tablet: TabletView, view: ClusterView) -> Iterator[Order]:
    """Transfers leadership from a leader with a full disk, which accepts no writes, to a voter with space."""
    leader = tablet.observed.leader
    report = tablet.report(leader)
    if report is None or not report.disk_full or not tablet.observed.is_serving:
        return
    heirs = [
        server
        for server in healthy_voters(tablet, view.servers)
        if _may_lead(view.servers[server]) and not _is_full(tablet, server)
    ]
    if heirs:
        yield MoveLeader(tablet.id, leader, least_leading(heirs, tablet.table_id, view.loads()))


def _may_lead(server: ServerView) -> bool:
    return not server.is_leaving and not server.is_quiescing


def _is_full(tablet: TabletView, server: str) -> bool:
    report = tablet.report(server)
    return report is not None and bool(report.disk_full)


def _create(tablet: TabletView, view: ClusterView) -> Iterator[Order]:
    """Creates replicas of a new tablet. The first peer starts an election as soon as it exists. It is therefore created
    when enough others exist to elect it, or no other can be created."""
    first, *others = tablet.configuration.peers
    lacking = [peer.id for peer in others if tablet.report(peer.id) is None and _can_create(view, peer)]
    for server in lacking:
        yield CreateReplica(tablet.id, server, tablet.configuration)
    there = sum(tablet.report(peer.id) is not None for peer in others)
    has_electors = there + 1 >= tablet.configuration.majority
    if (has_electors or not lacking) and tablet.report(first.id) is None and _can_create(view, first):
        yield CreateReplica(tablet.id, first.id, tablet.configuration)


def _can_create(view: ClusterView, peer: Peer) -> bool:
    server = view.servers.get(peer.id)
    return server is not None and server.is_alive and server.has_reported


def _delete_outsiders(tablet: TabletView, view: ClusterView) -> Iterator[Order]:
    """Deletes replicas that the configuration does not name (any more)."""
    configuration = tablet.configuration
    for server, report in tablet.observed.reports.items():
        is_newer = report.configuration.index > configuration.index
        if report.state != TOMBSTONED and not is_newer and configuration.peer(server) is None:
            if server in view.servers and view.servers[server].is_alive:
                yield DeleteReplica(tablet.id, server, configuration.index)


class _Repairs:
    """Decides for one tablet after the other, and counts the resulting copies."""

    def __init__(self, view: ClusterView, limits: Limits, rng: random.Random):
        self._view = view
        self._limits = limits
        self._rng = rng
        full = {s for t in view.tablets.values() for s, report in t.observed.reports.items() if report.disk_full}
        self._takers = {server: address for server, address in view.takers().items() if server not in full}
        self._loads: Loads | None = None
        self._locations = view.locations()
        self._copies = Counter(
            peer.id
            for tablet in view.tablets.values()
            for peer in tablet.configuration.peers
            if peer.role is PeerRole.PRE_VOTER
        )

    def of(self, tablet: TabletView) -> Order | None:
        """Returns the next change of a tablet's replicas; None if none is due or possible."""
        if not self._can_change(tablet):
            return None
        peers = tablet.configuration.peers
        lost = [p for p in peers if p.role is PeerRole.PRE_VOTER and (self._is_bad(tablet, p) or self._is_unwanted(p))]
        if lost:
            return self._remove(tablet, lost[0])
        good = [p for p in peers if not self._is_bad(tablet, p) and not self._is_unwanted(p)]
        good_voters = [p for p in good if p.role is PeerRole.VOTER]
        if len(good) < tablet.replicas:
            return self._add(tablet) or self._make_room(tablet)
        if len(good_voters) >= tablet.replicas and len(peers) > tablet.replicas:
            return self._shrink(tablet, good_voters)
        return None

    def _can_change(self, tablet: TabletView) -> bool:
        observed = tablet.observed
        leader = self._view.servers.get(observed.leader)
        if leader is None or not leader.is_alive or not observed.is_serving:
            return False
        # A leader with a newer configuration, not known to be committed, refuses another change until it is.
        return observed.reports[observed.leader].configuration.index == tablet.configuration.index

    def _is_bad(self, tablet: TabletView, peer: Peer) -> bool:
        return is_bad(tablet, peer, self._view)

    def _is_unwanted(self, peer: Peer) -> bool:
        server = self._view.servers.get(peer.id)
        return server is not None and server.is_leaving

    # ---- adding ----------------------------------------------------------------------------------------------------

    def _add(self, tablet: TabletView) -> Order | None:
        """Adds a replica, unless a server that would be placed better can take it only later."""
        if self._copies.total() >= self._limits.copies:
            return None
        loads = self._loads = self._loads or self._view.loads()
        kept = [
            peer.id
            for peer in tablet.configuration.peers
            if not (self._is_bad(tablet, peer) or self._is_unwanted(peer))
        ]
        possible = [server for server in self._takers if self._can_take(tablet, server)]
        best = well_placed(possible, kept, tablet.replicas, self._locations)
        candidates = [server for server in best if self._is_free(tablet, server)]
        spread = Spread(kept, tablet.replicas, self._locations)
        chosen = choose_server(candidates, tablet.table_id, loads, self._rng, spread)
        if chosen is None:
            return None
        self._copies[chosen] += 1
        loads.add(tablet.table_id, chosen)
        peer = Peer(chosen, self._takers[chosen], PeerRole.PRE_VOTER)
        return AddReplica(tablet.id, tablet.observed.leader, peer, tablet.configuration.index)

    def _can_take(self, tablet: TabletView, server: str) -> bool:
        """True if a server can take a replica, now or when others have been copied and its former one is deleted."""
        report = tablet.report(server)
        is_clear = report is None or report.state == TOMBSTONED or self._is_outsider(tablet, server)
        return is_clear and tablet.configuration.peer(server) is None

    def _is_outsider(self, tablet: TabletView, server: str) -> bool:
        """True if a server's replica is being deleted. One that has FAILED may be for long."""
        report = tablet.report(server)
        return (
            report is not None
            and report.state == RUNNING
            and report.configuration.index <= tablet.configuration.index
            and tablet.configuration.peer(server) is None
        )

    def _is_free(self, tablet: TabletView, server: str) -> bool:
        """True if a server that can take a replica can do so now."""
        return self._copies[server] < self._limits.copies_per_server and not self._is_outsider(tablet, server)

    def _make_room(self, tablet: TabletView) -> Order | None:
        """Removes a replica that has FAILED if only its own server could take another."""
        outside = [server for server in self._takers if tablet.configuration.peer(server) is None]
        if outside:
            return None
        for peer in tablet.configuration.voters:
            report = tablet.report(peer.id)
            if peer.id in self._takers and report is not None and report.state == FAILED:
                return self._remove(tablet, peer)
        return None

    # ---- removing --------------------------------------------------------------------------------------------------

    def _shrink(self, tablet: TabletView, good_voters: Sequence[Peer]) -> Order | None:
        """Removes one of too many replicas: bad ones first, then unwanted ones, then one on a server that is away for
        maintenance, then one of a location that has too many, then the one on the most loaded server."""
        voters = tablet.configuration.voters
        for choice in (
            [peer for peer in voters if self._is_bad(tablet, peer)],
            [peer for peer in voters if self._is_unwanted(peer)],
        ):
            if choice:
                return self._remove(tablet, choice[0])
        if len(good_voters) <= tablet.replicas or not tablet.may_shrink:
            return None
        loads = self._loads = self._loads or self._view.loads()
        leader = tablet.observed.leader
        where = Counter(self._locations[peer.id] for peer in good_voters)
        limit = most_per_location(tablet.replicas)
        fullest = max(
            good_voters,
            key=lambda p: (
                not self._view.servers[p.id].is_alive,
                max(0, where[self._locations[p.id]] - limit),
                loads.of_table[tablet.table_id, p.id],
                loads.replicas[p.id],
                p.id != leader,
                p.id,
            ),
        )
        loads.add(tablet.table_id, fullest.id, -1)
        return self._remove(tablet, fullest)

    def _remove(self, tablet: TabletView, peer: Peer) -> Order | None:
        healthy = healthy_voters(tablet, self._view.servers)
        if peer.role is PeerRole.VOTER:
            left = len(tablet.configuration.voters) - 1
            voting = voting_voters(tablet, self._view.servers)
            if sum(server != peer.id for server in voting) < left // 2 + 1 or not set(healthy) - {peer.id}:
                return None
            if left < tablet.replicas // 2 + 1:
                return None
        leader = tablet.observed.leader
        if peer.id != leader:
            return RemoveReplica(tablet.id, leader, peer, tablet.configuration.index)
        others = [server for server in healthy if server != leader]
        heirs = [server for server in others if _may_lead(self._view.servers[server])] or others
        loads = self._loads = self._loads or self._view.loads()
        return MoveLeader(tablet.id, leader, least_leading(heirs, tablet.table_id, loads)) if heirs else None
