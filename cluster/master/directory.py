"""The tablet directory: reports of tablet servers about themselves and their replicas. It is in memory only; a master
that begins to lead requests a full report from every server.

Tablet servers are authoritative about replicas, the master observes (Kudu paper, section 3.4). Reports of one tablet by
several servers are ordered by Raft's own numbers:

    configuration    the one with the highest log index wins; only committed ones count, since another one may yet be
                     truncated, and the master deletes replicas by it
    leader           from the report with the highest term

A server's reports are numbered. A full one begins anew, incremental ones add to it. Each incremental report has
everything that changed since the last one that was answered, so that gaps do no harm. A late one of the same process is
ignored.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import field, replace

from ...model.lazy_dataclass import dataclass
from ..raft.events import RaftRole
from ..raft.messages import Configuration, Peer
from ..wire.messages.methods import Heartbeat, TabletReport
from .catalog.records import TabletRecord

_NEVER = float("-inf")


@dataclass(slots=True)
class Server:
    """A tablet server.

    `last_heard` is by the monotonic clock. Before the first heartbeat it is when the master began to lead, so that no
    server counts as dead before it had time to report. `session` and `sequence` are those of the newest report.
    `has_reported`: a full report of this process has arrived. `is_quiescing`: it leaves leaderships to others.
    `location`: as in `cluster.locations`. `checks_rights`: its version checks the rights of users.
    """

    id: str
    address: str
    last_heard: float
    session: str = ""
    sequence: int = 0
    has_reported: bool = False
    is_quiescing: bool = False
    location: str = ""
    checks_rights: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the tablets that it leads, by id, of tables with a quota, by its last heartbeat."""
    reports: dict[str, TabletReport] = field(default_factory=dict)
    """Of all its replicas, by tablet id."""

    @property
    def is_replaced(self) -> bool:
        """Another server runs at its address: its directory was lost, and it does not return there."""
        return self.last_heard == _NEVER


@dataclass(frozen=True, slots=True)
class Observed:
    """A tablet as its replicas report it. Replaced as a whole, so that a reader may keep it.

    Attributes
    ----------
    configuration : Configuration
        The newest that is known to be committed.
    leader : str
        The id of its server in `term`; "" if it is not known.
    reports : mapping of str to TabletReport
        The newest of each server, by its id.
    """

    configuration: Configuration
    leader: str = ""
    term: int = 0
    reports: Mapping[str, TabletReport] = field(default_factory=dict)

    @property
    def is_serving(self) -> bool:
        """True if it has a leader that serves."""
        report = self.reports.get(self.leader)
        return report is not None and report.term == self.term and is_leader(report) and report.is_serving

    @property
    def schema_version(self) -> int:
        """The version of its table at its leader; -1 without a leader."""
        report = self.reports.get(self.leader)
        return report.schema_version if report is not None and is_leader(report) else -1

    def reported(self, server: str, report: TabletReport) -> Observed:
        """Returns a copy with one more report."""
        reports = {**self.reports, server: report}
        leader, term = self._leader(server, report)
        configuration = self.configuration
        if report.configuration.index > configuration.index and is_committed(report):
            configuration = report.configuration
        return Observed(configuration, leader, term, reports)

    def _leader(self, server: str, report: TabletReport) -> tuple[str, int]:
        named = server if is_leader(report) else report.leader
        if report.term > self.term or (report.term == self.term and named and not self.leader):
            return named, report.term
        if report.term == self.term and server == self.leader and not is_leader(report):
            return report.leader if report.leader != server else "", self.term
        return self.leader, self.term

    def removed(self, server: str) -> Observed:
        """Returns a copy without a server's replica."""
        reports = {other: report for other, report in self.reports.items() if other != server}
        return replace(self, reports=reports, leader="" if self.leader == server else self.leader)


def is_leader(report: TabletReport) -> bool:
    """True if the replica reports that it leads."""
    return report.role == RaftRole.LEADER


def is_committed(report: TabletReport) -> bool:
    """True if the configuration in a report is certain to stay."""
    return bool(report.configuration.peers) and report.commit_index >= report.configuration.index


class TabletDirectory:
    """All servers and tablets. Not thread-safe: the catalog manager's lock guards it.

    Parameters
    ----------
    tablets : iterable of TabletRecord
        The catalog's tablets with their configurations.
    now : float
        Seconds by the monotonic clock, as in all its methods.
    """

    def __init__(self, tablets: Iterable[TabletRecord], now: float):
        self.servers: dict[str, Server] = {}
        self.tablets: dict[str, Observed] = {}
        self.version = 0
        """Counts changes of the observed state; a heartbeat without news does not count."""
        self._began = now
        for tablet in tablets:
            self.add(tablet, now)

    def add(self, tablet: TabletRecord, now: float) -> None:
        """Adds a tablet of the catalog."""
        self.version += 1
        for peer in tablet.configuration.peers:
            if peer.id not in self.servers:
                self.servers[peer.id] = Server(peer.id, peer.address, now)
        observed = Observed(tablet.configuration)
        for server in self.servers.values():
            report = server.reports.get(tablet.id)
            if report is not None:
                observed = observed.reported(server.id, report)
        self.tablets[tablet.id] = observed

    def drop(self, tablet_id: str) -> None:
        """Removes a tablet that is no longer in the catalog; reports of replicas stay with their servers."""
        self.version += 1
        self.tablets.pop(tablet_id, None)

    def note_configuration(self, tablet_id: str, configuration: Configuration) -> None:
        """Records a configuration that a tablet's leader has committed."""
        observed = self.tablets.get(tablet_id)
        if observed is not None and configuration.index > observed.configuration.index:
            self.version += 1
            self.tablets[tablet_id] = replace(observed, configuration=configuration)

    # ---- heartbeats ------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: Heartbeat, now: float) -> bool:
        """Processes a heartbeat; False if a full report is needed instead of its content."""
        server = self._server(beat.server, now)
        server.checks_rights = beat.rights_version >= 0
        if (server.is_quiescing, server.location) != (beat.is_quiescing, beat.location):
            server.is_quiescing, server.location = beat.is_quiescing, beat.location
            self.version += 1
        is_known = server.has_reported and beat.session == server.session
        if beat.is_full and is_known and beat.session and beat.sequence < server.sequence:
            return True  # its sender has abandoned it, and sent a newer one
        if not beat.is_full and (not is_known or beat.sequence < server.sequence):
            return False
        is_repeated = not beat.is_full and beat.sequence == server.sequence
        server.session, server.sequence, server.sizes = beat.session, beat.sequence, beat.sizes
        if is_repeated:
            return True
        removed = set(beat.removed)
        if beat.is_full:
            server.has_reported = True
            removed |= server.reports.keys() - {report.tablet_id for report in beat.reports}
            self.version += 1
        for tablet_id in removed:
            self._remove(server, tablet_id)
        self.add_reports(server.id, beat.reports)
        return True

    def add_reports(self, server_id: str, reports: Iterable[TabletReport]) -> None:
        """Adds the reports of a known server's replicas."""
        server = self.servers[server_id]
        for report in reports:
            is_news = server.reports.get(report.tablet_id) != report
            server.reports[report.tablet_id] = report
            if not is_news:
                continue
            self.version += 1
            observed = self.tablets.get(report.tablet_id)
            if observed is not None:
                self.tablets[report.tablet_id] = observed.reported(server.id, report)

    def known(self, server_id: str, tablet_id: str) -> TabletReport | None:
        """Returns the newest report of a replica; None if there is none."""
        server = self.servers.get(server_id)
        return None if server is None else server.reports.get(tablet_id)

    def add_requested_report(self, server_id: str, before: TabletReport | None, report: TabletReport) -> None:
        """Adds a report that was requested while `before` was the newest (`known`).

        If a heartbeat has brought another one since, their order is unknown, and the heartbeat's stays: the next
        heartbeat brings any later change.
        """
        if server_id in self.servers and self.known(server_id, report.tablet_id) is before:
            self.add_reports(server_id, [report])

    def discount_pause(self, seconds: float) -> None:
        """Discounts a pause of this process of this many seconds: it is no server's silence."""
        for server in self.servers.values():
            server.last_heard += seconds

    def _server(self, peer: Peer, now: float) -> Server:
        server = self.servers.get(peer.id)
        if server is None:
            server = self.servers[peer.id] = Server(peer.id, peer.address, now)
            self.version += 1
        if server.address != peer.address or not server.has_reported:
            self._take_address(server, peer.address)
        server.last_heard = now
        return server

    def _take_address(self, server: Server, address: str) -> None:
        server.address = address
        for other in self.servers.values():
            if other is not server and other.address == address:
                # The previous server of the address does not listen there any more: messages to it would reach another
                # one.
                other.last_heard = _NEVER
                other.has_reported = False
                self.version += 1

    def _remove(self, server: Server, tablet_id: str) -> None:
        if server.reports.pop(tablet_id, None) is not None:
            self.version += 1
            observed = self.tablets.get(tablet_id)
            if observed is not None:
                self.tablets[tablet_id] = observed.removed(server.id)

    def forget_gone(self, leaving: Container[str], now: float, dead_after: float) -> list[Server]:
        """Drops the servers that will not return, once no tablet's configuration names them, and returns them. Their
        address belongs to another server, or they are dead and leaving."""
        named = {peer.id for observed in self.tablets.values() for peer in observed.configuration.peers}
        gone = [
            server
            for server in self.servers.values()
            if server.id not in named
            and (server.is_replaced or (server.id in leaving and now - server.last_heard >= dead_after))
        ]
        for server in gone:
            for tablet_id in list(server.reports):
                self._remove(server, tablet_id)
            del self.servers[server.id]
            self.version += 1
        return gone

    # ---- questions -------------------------------------------------------------------------------------------------

    def live(self, now: float, dead_after: float) -> list[Server]:
        """Returns servers that have reported, and were heard from within `dead_after` seconds."""
        return [s for s in self.servers.values() if s.has_reported and now - s.last_heard < dead_after]

    def silent(self, now: float, dead_after: float) -> list[Server]:
        """Returns the others: dead, or without a report yet. Servers whose address another one has are left out: they
        will not return."""
        return [
            s
            for s in self.servers.values()
            if s.last_heard != _NEVER and not (s.has_reported and now - s.last_heard < dead_after)
        ]

    def late(self, now: float, dead_after: float) -> list[Server]:
        """Returns those of the silent servers that may yet report: they have not been silent for long enough to be
        dead."""
        return [s for s in self.servers.values() if not s.has_reported and now - s.last_heard < dead_after]

    def is_warm(self, now: float, seconds: float) -> bool:
        """True if every server had time to report: all known ones have, and `seconds` have passed so that others could,
        or three times as many have passed."""
        waited = now - self._began
        return waited >= 3 * seconds or (waited >= seconds and all(s.has_reported for s in self.servers.values()))
