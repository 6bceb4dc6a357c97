"""Planned absences of tablet servers: maintenance at the masters, quiescing at the server itself."""

from __future__ import annotations

from .methods import Done, Reply, Request


class LeaveCluster(Request, frozen=True, tag="leave_cluster"):
    """Moves all replicas away from a server (`leaving`), or stops doing so."""

    reply = Done
    server: str
    leaving: bool = True


class MaintainServer(Request, frozen=True, tag="maintain_server"):
    """To the leading master: the absence of a tablet server is expected (`in_maintenance`), so its replicas are not
    copied to others, and it gets no new ones; or no longer."""

    reply = Done
    server: str
    in_maintenance: bool = True


class QuiesceStatus(Reply, frozen=True):
    """The state of a tablet server. `leaders`: tablets that it leads, and that another voter could lead; `scans`: those
    that have not ended; `alone`: tablets of which it has the only voter, which it continues to serve."""

    is_quiescing: bool
    leaders: int
    scans: int
    alone: int = 0


class QuiesceServer(Request, frozen=True, tag="quiesce_server"):
    """To a tablet server: "begin" to transfer leaderships and to refuse new scans, "end" that, or return the "status".
    It ends with the process, too."""

    reply = QuiesceStatus
    action: str
