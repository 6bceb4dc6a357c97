"""The cluster as any of its servers sees it: health as ksck reports it, masters, tablet servers, tablets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ....cluster.admin.ksck import Health, KsckReport, ksck
from ....errors import NotSupportedError
from ..request import Request
from .frame import Page
from .html import Html, duration, element, join, size, table

if TYPE_CHECKING:
    from ....cluster.admin.view import ClusterView
    from ....cluster.client.catalog.master_states import MasterState
    from ....cluster.wire.messages.methods import ServerStatus

_MOST: Final = 500
"""Tablets of a page; those that are not healthy first."""


def cluster(request: Request) -> Page:
    """The page "/cluster"."""
    look = request.subject.look
    if look is None:
        raise NotSupportedError("this store is not a cluster")
    view = look()
    report = ksck(view)
    return "Cluster", join(
        [
            health_line(report),
            table(
                "Masters",
                ("Address", "Part", "Term", "Last entry", "Lag", "Version", "Tables", "Tablets", "Error"),
                [
                    _master(state, master.status)
                    for state, master in zip(view.master_states(), view.masters, strict=True)
                ],
            ),
            table(
                "Tablet servers",
                ("Address", "State", "Heard", "Replicas", "Leads", "Memory", "Version", "Error"),
                [_tserver(view, server) for server in view.tservers],
            ),
            _tablets(report),
        ]
    )


def health_line(report: KsckReport) -> Html:
    """The health of a cluster, with the faults of its servers."""
    if report.is_clean:
        return element("p", "HEALTHY: every replica runs, and every tablet has a leader.", class_="health good")
    kind = "warn" if report.health in (Health.HEALTHY, Health.RECOVERING) else "bad"
    line = element("p", str(report.health), class_=f"health {kind}", role="status")
    return join([line, element("ul", *(element("li", fault) for fault in report.servers))])


def _master(found: MasterState, status: ServerStatus | None) -> tuple[object, ...]:
    details = {} if status is None else status.details
    part = element("span", "silent", class_="bad") if status is None else found.state.lower()
    tables = details.get("tables"), details.get("tablets")
    log = found.term, found.last_index, found.lag_entries
    return found.address, part, *log, found.version or None, *tables, found.error or None


def _tserver(view: ClusterView, server: Any) -> tuple[object, ...]:
    answer = view.answers.get(server.id)
    status = None if answer is None else answer.status
    state = server.state if status is not None else element("span", f"{server.state}, silent", class_="bad")
    heard = f"{duration(server.seconds_silent)} ago"
    if status is None:
        error = "" if answer is None else answer.error
        return server.address, state, heard, server.replicas, server.leaders, None, None, error
    memory = size(status.memory_bytes)
    return server.address, state, heard, server.replicas, server.leaders, memory, status.version, None


def _tablets(report: KsckReport) -> Html:
    ordered = sorted(report.tablets, key=lambda finding: -finding.health.rank)
    rows = [
        (finding.table, finding.tablet, _health(finding.health), "; ".join(finding.reasons) or None)
        for finding in ordered[:_MOST]
    ]
    left = len(ordered) - len(rows)
    more = element("p", f"{left:,} more are left out, all no worse.", class_="quiet") if left else None
    return join([table("Tablets, the worst first", ("Table", "Tablet", "Health", "Why"), rows), more])


def _health(health: Health) -> object:
    return "HEALTHY" if health is Health.HEALTHY else element("span", str(health), class_="bad")
