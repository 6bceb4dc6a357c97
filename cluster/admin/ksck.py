"""`nyala cluster ksck`: checks that the cluster is complete and that replicas agree.

    HEALTHY             every replica runs, and a leader serves
    RECOVERING          a replica is being copied or catching up; nothing to be done
    UNDER_REPLICATED    a replica is missing, failed or damaged; a majority serves
    UNAVAILABLE         no majority: reads of the latest and writes wait
    CONFLICT            replicas that should be equal differ

Without a leading master only the masters can be checked.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from ...errors import ClusterError, Error
from ...model.lazy_dataclass import dataclass
from ..client.catalog.master_states import master_state
from ..raft.messages import Peer, PeerRole
from ..wire.calls.rpc import Channels
from ..wire.messages.methods import ChecksumReply, ChecksumTablet, ServerStatus
from .view import ClusterView, TabletView, call

_CHECKSUM_SECONDS = 600.0
_CHECKSUMS_AT_ONCE = 16
PREPARED_SECONDS = 15.0
"""Seconds after which a transaction without an outcome is reported: the tablets end those of dead clients within 5."""


class Health(enum.StrEnum):
    """Of a tablet, or of the whole; see the module's page. Later is worse."""

    HEALTHY = "HEALTHY"
    RECOVERING = "RECOVERING"
    UNDER_REPLICATED = "UNDER_REPLICATED"
    UNAVAILABLE = "UNAVAILABLE"
    CONFLICT = "CONFLICT"

    @property
    def rank(self) -> int:
        return list(Health).index(self)


@dataclass(frozen=True, slots=True)
class TabletFinding:
    """A tablet, its health, and the reasons for which it is not HEALTHY."""

    tablet: str
    table: str
    health: Health
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedServer:
    """A server of the cluster. `kind`: "master" or "tserver". `state`: of a master LEADER, FOLLOWER, LEARNER (being
    added), WAITING (for a copy of the catalog) or REMOVED; of a tablet server as in the masters' list, MAINTENANCE or
    QUIESCING if it is ALIVE otherwise; SILENT if it does not respond."""

    kind: str
    address: str
    state: str
    replicas: int
    leaders: int
    location: str = ""


@dataclass(frozen=True, slots=True)
class KsckReport:
    """The result of a check. `servers`: faults of servers. `checksums`: (rows, checksum) by table, if computed.
    `listed`: all servers."""

    health: Health
    servers: tuple[str, ...]
    tablets: tuple[TabletFinding, ...]
    checksums: Mapping[str, tuple[int, str]]
    listed: tuple[ListedServer, ...] = ()

    @property
    def is_clean(self) -> bool:
        """True if no server or tablet has a fault."""
        return self.health is Health.HEALTHY and not self.servers

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        return {
            "health": self.health.value,
            "servers": list(self.servers),
            "listed": [asdict(server) for server in self.listed],
            "tablets": [{**asdict(finding), "health": finding.health.value} for finding in self.tablets],
            "checksums": {name: {"rows": rows, "checksum": sum_} for name, (rows, sum_) in self.checksums.items()},
        }


def ksck(view: ClusterView, channels: Channels | None = None) -> KsckReport:
    """Checks a cluster; with `channels`, reads every tablet's replicas as of the view's timestamp and compares their
    checksums."""
    servers = (*_server_findings(view), *_transaction_findings(view), *_quota_findings(view))
    tablets = [_tablet_finding(view, tablet) for tablet in view.tablets]
    checksums: dict[str, tuple[int, str]] = {}
    if channels is not None:
        tablets, checksums = _with_checksums(view, channels, tablets)
    worst = max((finding.health for finding in tablets), key=lambda health: health.rank, default=Health.HEALTHY)
    return KsckReport(worst, servers, tuple(tablets), checksums, tuple(_listed(view)))


def _listed(view: ClusterView) -> Iterator[ListedServer]:
    for master in view.masters:
        yield ListedServer("master", master.address, master_state(master.status), 0, 0)
    for server in view.tservers:
        answer = view.answers.get(server.id)
        state = "SILENT" if server.state == "ALIVE" and (answer is None or answer.status is None) else server.state
        if state == "ALIVE" and (server.in_maintenance or server.is_quiescing):
            state = "MAINTENANCE" if server.in_maintenance else "QUIESCING"
        yield ListedServer("tserver", server.address, state, server.replicas, server.leaders, server.location)


def _server_findings(view: ClusterView) -> list[str]:
    findings = [f"master {m.address} does not answer: {m.error}" for m in view.masters if m.status is None]
    for master in view.masters:
        if master.status is not None and master.status.details.get("full"):
            findings.append(
                f"master {master.address} accepts no changes of the catalog: {master.status.details['full']}"
            )
    for master in view.masters:
        if master_state(master.status) in ("LEARNER", "WAITING"):
            findings.append(
                f"master {master.address} has no vote yet: it waits for a copy of the catalog, or catches up"
            )
    leaders = [m.address for m in view.masters if m.status is not None and m.status.is_leader]
    if len(leaders) != 1:
        several = f"{len(leaders)} masters claim to lead: {', '.join(leaders)}"
        findings.append(several if leaders else "no master leads: tables can be read and written, but not changed")
    if not leaders and not view.tservers:
        findings.append("tablet servers and tablets were not checked: a leading master lists them")
    if any(m.status is not None and m.status.details.get("repair_is_paused") for m in view.masters):
        findings.append("too many replicas are bad: the master replaces none; look for a common cause")
    for server in view.tservers:
        answer = view.answers.get(server.id)
        if server.state == "REPLACED":
            findings.append(
                f"tablet server {server.id} is lost, as another one runs at its address {server.address}: "
                f"{server.replicas} replicas that it had are still to be copied to other servers"
            )
        elif answer is None or answer.status is None:
            why = "" if answer is None else f"; {answer.error}"
            heard = f"the master heard of it {server.seconds_silent:.0f} s ago"
            if server.in_maintenance:
                heard = f"and is in maintenance, so its replicas are not copied to others: {heard}"
            else:
                heard = f"and counts as dead: {heard}" if server.state == "DEAD" else f"although {heard}"
            findings.append(f"tablet server {server.address} does not answer, {heard}{why}")
        elif server.state == "DEAD":
            findings.append(f"tablet server {server.address} answers, but the master has not heard of it")
        if answer is not None and answer.status is not None:
            findings += _directory_findings(server.address, answer.status)
    return findings


def _transaction_findings(view: ClusterView) -> Iterator[str]:
    """Yields tablets with transactions that should have ended long ago."""
    for tablet in view.tablets:
        for report in tablet.reports.values():
            if report.is_serving and report.prepared_seconds > PREPARED_SECONDS:
                yield (
                    f"tablet {tablet.id} of {tablet.table} has rows of {report.prepared} transactions without an "
                    f"outcome, the oldest for {report.prepared_seconds:.0f} s: readers and writers of these rows wait, "
                    "and the tablet is not flushed, until the tablet that decides the transaction has a leader"
                )


def _quota_findings(view: ClusterView) -> Iterator[str]:
    """Yields tables that have reached their quota, with the sizes that their leaders report."""
    sizes = dict.fromkeys(view.quotas, 0)
    tables = {tablet.id: tablet.table for tablet in view.tablets}
    for answer in view.answers.values():
        for tablet, size in ({} if answer.status is None else answer.status.details.get("sizes", {})).items():
            if (name := tables.get(tablet)) in sizes:
                sizes[name] += size
    for name, quota in view.quotas.items():
        if sizes[name] >= quota:
            yield (
                f"table {name} has reached its quota: its data take {sizes[name]:,} of {quota:,} bytes; it accepts "
                "only deletions"
            )


def _directory_findings(address: str, status: ServerStatus) -> list[str]:
    """Returns the faults of a tablet server's disks."""
    findings: list[str] = []
    for directory in status.details.get("directories", ()):
        if directory.get("full"):
            findings.append(f"tablet server {address} accepts no writes: {directory['full']}")
        if directory.get("error"):
            findings.append(f"tablet server {address} does not use {directory['path']}: {directory['error']}")
    return findings


def _tablet_finding(view: ClusterView, tablet: TabletView) -> TabletFinding:
    voters = [peer for peer in tablet.replicas if peer.role is PeerRole.VOTER]
    running, recovering, reasons = 0, 0, []
    for peer in tablet.replicas:
        report = tablet.reports.get(peer.id)
        if report is not None and report.state == "RUNNING":
            if report.error:
                reasons.append(f"the replica at {peer.address} is damaged: {report.error}")
            if report.disk_full:
                reasons.append(f"the replica at {peer.address} cannot be written: {report.disk_full}")
            running += peer.role is PeerRole.VOTER
            recovering += peer.role is PeerRole.PRE_VOTER
            continue
        state = "is missing" if report is None else f"is {report.state}" + (f": {report.error}" if report.error else "")
        reasons.append(f"the replica at {peer.address} {state}")
        recovering += report is not None and report.state in ("COPYING", "BOOTSTRAPPING")
    if len(voters) < tablet.wanted:
        reasons.append(f"it has {len(voters)} replicas with a vote, and its table needs {tablet.wanted}")
    elif len(voters) > tablet.wanted:
        reasons.append(f"it has {len(voters)} replicas with a vote, and its table needs only {tablet.wanted}")
        recovering += 1
    leaders = [id_ for id_, report in tablet.reports.items() if report.is_serving]
    terms = {tablet.reports[id_].term for id_ in leaders}
    configurations = {r.configuration.index for r in tablet.reports.values() if r.state == "RUNNING"}
    if len(leaders) > len(terms):
        reasons.append(f"{len(leaders)} replicas lead in one term")
        return TabletFinding(tablet.id, tablet.table, Health.CONFLICT, tuple(reasons))
    if not leaders:
        reasons.append("no replica leads")
    if not leaders or 2 * running <= len(voters):
        return TabletFinding(tablet.id, tablet.table, Health.UNAVAILABLE, tuple(reasons))
    if reasons and not recovering:
        return TabletFinding(tablet.id, tablet.table, Health.UNDER_REPLICATED, tuple(reasons))
    if reasons or recovering or len(configurations) > 1:
        reasons = reasons or ["a change of its replicas is in progress"]
        return TabletFinding(tablet.id, tablet.table, Health.RECOVERING, tuple(reasons))
    return TabletFinding(tablet.id, tablet.table, Health.HEALTHY)


def _with_checksums(
    view: ClusterView, channels: Channels, findings: Sequence[TabletFinding]
) -> tuple[list[TabletFinding], dict[str, tuple[int, str]]]:
    """Returns the findings with those tablets whose replicas differ, and the checksums of the tables that could be read
    completely."""
    judged: list[TabletFinding] = []
    rows: dict[str, int] = dict.fromkeys(view.tables, 0)
    sums: dict[str, int] = dict.fromkeys(view.tables, 0)
    # Followers wait for a safe time from their leader: many wait at once.
    with ThreadPoolExecutor(_CHECKSUMS_AT_ONCE, "nyala-ksck") as pool:
        pending = [
            {p: pool.submit(_checksum, channels, p.address, tablet.id, view.clock) for p in _running(tablet)}
            for tablet in view.tablets
        ]
        for tablet, finding, answers in zip(view.tablets, findings, pending, strict=True):
            peers, results = list(answers), [answer.result() for answer in answers.values()]
            failures = [f"the replica at {p.address}: {t}" for p, t in zip(peers, results) if isinstance(t, str)]
            distinct = {(t.rows, t.checksum) for t in results if not isinstance(t, str)}
            if len(distinct) > 1:
                shown = "; ".join(
                    f"{p.address}: {t.rows} rows, {t.checksum}"
                    for p, t in zip(peers, results)
                    if not isinstance(t, str)
                )
                reasons = (*finding.reasons, f"replicas differ: {shown}", *failures)
                finding = TabletFinding(tablet.id, tablet.table, Health.CONFLICT, reasons)
            elif failures:
                worse = max(finding.health, Health.UNDER_REPLICATED, key=lambda health: health.rank)
                finding = TabletFinding(tablet.id, tablet.table, worse, (*finding.reasons, *failures))
            for count, sum_ in list(distinct)[:1]:
                rows[tablet.table] += count
                sums[tablet.table] = (sums[tablet.table] + int(sum_, 16)) % (1 << 64)
            judged.append(finding)
    return judged, {name: (rows[name], f"{sums[name]:016x}") for name in view.tables}


def _running(tablet: TabletView) -> list[Peer]:
    """Returns the readable replicas."""
    return [p for p in tablet.replicas if p.id in tablet.reports and tablet.reports[p.id].state == "RUNNING"]


def _checksum(channels: Channels, address: str, tablet_id: str, snapshot: int) -> ChecksumReply | str:
    try:
        reply: ChecksumReply = call(
            channels, address, ChecksumTablet(tablet_id=tablet_id, snapshot=snapshot), _CHECKSUM_SECONDS
        )
        return reply
    # Whatever the fault of one replica, the others are read.
    except Error as error:
        return str(error) if isinstance(error, ClusterError) else f"{type(error).__name__}: {error}"


def describe(report: KsckReport) -> str:
    """Returns a report for people."""
    lines = [
        f"{server.kind:<8} {server.address:<21} {server.state:<11}"
        + ("" if server.kind == "master" else f" {server.replicas} replicas, {server.leaders} lead")
        + (f", at {server.location}" if server.location else "")
        for server in report.listed
    ]
    lines += report.servers
    for found in report.tablets:
        if found.health is not Health.HEALTHY:
            lines.append(f"{found.health.value:<17} {found.tablet} of {found.table}: {'; '.join(found.reasons)}")
    counts = {health: sum(found.health is health for found in report.tablets) for health in Health}
    shown = ", ".join(f"{count} {health.value}" for health, count in counts.items() if count)
    lines += [f"{name}: {rows} rows, checksum {sum_}" for name, (rows, sum_) in report.checksums.items()]
    lines.append(f"{len(report.tablets)} tablets" + (f": {shown}" if shown else ""))
    lines.append("OK" if report.is_clean else "FAILED")
    return "\n".join(lines)
