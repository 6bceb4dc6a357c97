"""The tablet directory: what tablet servers have told about themselves and their replicas. All of it is in memory only;
a master that begins to lead asks every server for a full report.

Tablet servers are authoritative about replicas, the master observes (Kudu paper, section 3.4). Reports of one tablet by
several servers are put in order by Raft's own numbers:

    configuration    the one with the highest log index wins; only committed ones count, since another one may yet be
                     cut off the log, and the master deletes replicas by it
    leader           told by the report with the highest term

A server's reports are numbered. A full one begins anew, incremental ones add to it. Each incremental report has
everything that changed since the last one that was answered, so that gaps do no harm; an old one of the same process
that comes late is passed over.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..raft.events import RaftRole
from ..raft.messages import Configuration, Peer
from ..wire.messages.methods import Heartbeat, TabletReport
from .catalog.records import TabletRecord

_NEVER = float("-inf")


@dataclass(slots=True)
class Server:
    """A tablet server.

    `last_heard` is by the monotonic clock; before the first heartbeat it is when the master began to lead, so that
    nobody is taken for dead who had no time to report. `session` and `sequence` are those of the newest report.
    `has_reported`: a full report of this process is there.
    """

    id: str
    address: str
    last_heard: float
    session: str = ""
    sequence: int = 0
    has_reported: bool = False
    reports: dict[str, TabletReport] = field(default_factory=dict)
    """Of all its replicas, by tablet id."""

    @property
    def is_replaced(self) -> bool:
        """Another server runs at its address: its directory was lost, and it does not come back there."""
        return self.last_heard == _NEVER


@dataclass(frozen=True, slots=True)
class Observed:
    """A tablet as its replicas tell. Replaced as a whole, so that a reader may keep it.

    Attributes
    ----------
    configuration : Configuration
        The newest that is known to be committed.
    leader : str
        The id of its server in `term`, "" where it is not known.
    reports : mapping of str to TabletReport
        The newest of each server, by its id.
    """

    configuration: Configuration
    leader: str = ""
    term: int = 0
    reports: Mapping[str, TabletReport] = field(default_factory=dict)

    @property
    def is_serving(self) -> bool:
        """Does it have a leader that serves?"""
        report = self.reports.get(self.leader)
        return report is not None and report.term == self.term and is_leader(report) and report.is_serving

    @property
    def schema_version(self) -> int:
        """The version of its table that its leader has; -1 where nobody leads."""
        report = self.reports.get(self.leader)
        return report.schema_version if report is not None and is_leader(report) else -1

    def reported(self, server: str, report: TabletReport) -> Observed:
        """With one more report."""
        reports = {**self.reports, server: report}
        leader, term = self._leader(server, report)
        configuration = self.configuration
        if report.configuration.index > configuration.index and is_committed(report):
            configuration = report.configuration
        return Observed(configuration, leader, term, reports)

    def _leader(self, server: str, report: TabletReport) -> tuple[str, int]:
        told = server if is_leader(report) else report.leader
        if report.term > self.term or (report.term == self.term and told and not self.leader):
            return told, report.term
        if report.term == self.term and server == self.leader and not is_leader(report):
            return report.leader if report.leader != server else "", self.term
        return self.leader, self.term

    def removed(self, server: str) -> Observed:
        """Without a server's replica."""
        reports = {other: report for other, report in self.reports.items() if other != server}
        return replace(self, reports=reports, leader="" if self.leader == server else self.leader)


def is_leader(report: TabletReport) -> bool:
    """Does the replica say that it leads?"""
    return report.role == RaftRole.LEADER


def is_committed(report: TabletReport) -> bool:
    """Is the configuration in a report sure to stay?"""
    return bool(report.configuration.peers) and report.commit_index >= report.configuration.index


class TabletDirectory:
    """All servers and tablets. Not safe for several threads: the catalog manager's lock guards it.

    Parameters
    ----------
    tablets : iterable of TabletRecord
        What the catalog knows of configurations.
    now : float
        Seconds by the monotonic clock, as in all its methods.
    """

    def __init__(self, tablets: Iterable[TabletRecord], now: float):
        self.servers: dict[str, Server] = {}
        self.tablets: dict[str, Observed] = {}
        self.version = 0
        """Counts changes of what is observed; a heartbeat without news is none."""
        self._began = now
        for tablet in tablets:
            self.add(tablet, now)

    def add(self, tablet: TabletRecord, now: float) -> None:
        """A tablet is in the catalog from now on."""
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
        """A tablet is not in the catalog any more; reports of replicas stay with their servers."""
        self.version += 1
        self.tablets.pop(tablet_id, None)

    def note_configuration(self, tablet_id: str, configuration: Configuration) -> None:
        """A tablet's leader has committed this one."""
        observed = self.tablets.get(tablet_id)
        if observed is not None and configuration.index > observed.configuration.index:
            self.version += 1
            self.tablets[tablet_id] = replace(observed, configuration=configuration)

    # ---- heartbeats ------------------------------------------------------------------------------------------------

    def heartbeat(self, beat: Heartbeat, now: float) -> bool:
        """Take a heartbeat; False where a full report is wanted instead of what it brought."""
        server = self._server(beat.server, now)
        is_known = server.has_reported and beat.session == server.session
        if beat.is_full and is_known and beat.session and beat.sequence < server.sequence:
            return True  # its sender has given it up, and sent a newer one
        if not beat.is_full and (not is_known or beat.sequence < server.sequence):
            return False
        is_repeated = not beat.is_full and beat.sequence == server.sequence
        server.session, server.sequence = beat.session, beat.sequence
        if is_repeated:
            return True
        removed = set(beat.removed)
        if beat.is_full:
            server.has_reported = True
            removed |= server.reports.keys() - {report.tablet_id for report in beat.reports}
            self.version += 1
        for tablet_id in removed:
            self._remove(server, tablet_id)
        self.take(server.id, beat.reports)
        return True

    def take(self, server_id: str, reports: Iterable[TabletReport]) -> None:
        """Take the reports of a known server's replicas."""
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
        """The newest report of a replica; None where there is none."""
        server = self.servers.get(server_id)
        return None if server is None else server.reports.get(tablet_id)

    def take_answer(self, server_id: str, before: TabletReport | None, report: TabletReport) -> None:
        """Take a report that was asked for when `before` was the newest (`known`). Where a heartbeat has brought
        another since, nobody knows which is older, and the heartbeat's stays: what changes after it, the next one
        brings."""
        if server_id in self.servers and self.known(server_id, report.tablet_id) is before:
            self.take(server_id, [report])

    def pass_over(self, seconds: float) -> None:
        """So long this process stood still: nobody's silence counts."""
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
                # Who had the address before does not listen there any more: what is sent there would reach another.
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
        """Forget the servers that will not come back, as another one has their address, or they are dead and are to
        leave, once no tablet's configuration names them; which they were."""
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
        """Servers that have reported, and were heard of within `dead_after` seconds."""
        return [s for s in self.servers.values() if s.has_reported and now - s.last_heard < dead_after]

    def silent(self, now: float, dead_after: float) -> list[Server]:
        """The others: dead, or without a report yet. Not those whose address another one has: they will not come
        back."""
        return [
            s
            for s in self.servers.values()
            if s.last_heard != _NEVER and not (s.has_reported and now - s.last_heard < dead_after)
        ]

    def late(self, now: float, dead_after: float) -> list[Server]:
        """Of the silent ones, those that may yet report: they have not been silent for long enough to be dead."""
        return [s for s in self.servers.values() if not s.has_reported and now - s.last_heard < dead_after]

    def is_warm(self, now: float, seconds: float) -> bool:
        """Had every server the time to report? Either all that are known have, and `seconds` have passed so that others
        could, or three times as many have passed."""
        waited = now - self._began
        return waited >= 3 * seconds or (waited >= seconds and all(s.has_reported for s in self.servers.values()))
