"""How a client behaves: what `connect("nyala://...")` takes besides the servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ...errors import InterfaceError, did_you_mean
from ..wire.security.tls_files import OPTIONS, TlsFiles, tls_files

READ_MODES: Final = ("READ_YOUR_WRITES", "READ_LATEST", "READ_AT_SNAPSHOT")
REPLICA_SELECTIONS: Final = ("auto", "leader", "closest", "any")


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """What a client does differently on request.

    Parameters
    ----------
    deadline : float
        Seconds that a statement may wait for servers that do not answer, do not lead or have no room, all of its
        requests together; then comes a `DeadlineExceeded`. While servers work for it, the time does not run.
    read_mode : {"READ_YOUR_WRITES", "READ_LATEST", "READ_AT_SNAPSHOT"}
        At which time a statement reads that names none. READ_YOUR_WRITES: one time for all its tables, above everything
        that this client has written or read. READ_LATEST: each tablet's leader as it is when it is asked, which waits
        for nobody and gives no common time. READ_AT_SNAPSHOT: a time is always named (`Connection.at`); where it is
        not, as READ_YOUR_WRITES.
    replica_selection : {"auto", "leader", "closest", "any"}
        Whom scans ask first. "auto": the leader for what is of the last seconds, since a follower would have to wait
        for it, and the closest replica for the past.
    commit_wait : bool
        A write returns only when its time has passed by this machine's clock, so that whoever starts later, anywhere,
        reads at a later time (as far as the clocks agree).
    connect_deadline : float
        Seconds until the first answer of a master; half of it where nobody listens at any of their addresses, since
        one may be restarting.
    tls : TlsFiles, optional
        With what the cluster's servers and this client convince each other; None: nothing is encrypted.
    """

    deadline: float = 30.0
    read_mode: str = "READ_YOUR_WRITES"
    replica_selection: str = "auto"
    commit_wait: bool = False
    connect_deadline: float = 10.0
    tls: TlsFiles | None = None


def client_options(**given: Any) -> ClientOptions:
    """The options, checked, `tls` as the files `tls_ca`, `tls_cert` and `tls_key`; `InterfaceError` where one cannot
    be."""
    for name, choices in {"read_mode": READ_MODES, "replica_selection": REPLICA_SELECTIONS}.items():
        value = given.get(name, choices[0])
        if value not in choices:
            raise InterfaceError(f"{name}={value!r}{did_you_mean(str(value), choices)}")
    for name in ("deadline", "connect_deadline"):
        seconds = given.get(name, 1.0)
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds > 0:
            raise InterfaceError(f"{name}={seconds!r}: a number of seconds above 0 is needed")
    if not isinstance(given.get("commit_wait", False), bool):
        raise InterfaceError(f"commit_wait={given['commit_wait']!r}: it is True or False")
    tls = tls_files(given)
    return ClientOptions(**{name: value for name, value in given.items() if name not in OPTIONS}, tls=tls)
