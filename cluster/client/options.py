"""Options of a client: the options of `connect("nyala://...")` besides the servers."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from ...errors import InterfaceError, did_you_mean
from ...model.lazy_dataclass import dataclass
from ..locations import check_location
from ..wire.security.tls_files import OPTIONS, TlsFiles, tls_files

READ_MODES: Final = ("READ_YOUR_WRITES", "READ_LATEST", "READ_AT_SNAPSHOT")
REPLICA_SELECTIONS: Final = ("auto", "leader", "closest", "any")
SPECULATIVE_READS: Final = ("off", "snapshots", "recent")
_CHOICES: Final = {
    "read_mode": READ_MODES,
    "replica_selection": REPLICA_SELECTIONS,
    "speculative_reads": SPECULATIVE_READS,
}


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Options of a client.

    Parameters
    ----------
    deadline : float
        Seconds that a statement may wait for servers that do not respond, do not lead or have no room, over all of its
        requests; then it raises `DeadlineExceeded`. Time in which servers work for it does not count.
    read_mode : {"READ_YOUR_WRITES", "READ_LATEST", "READ_AT_SNAPSHOT"}
        Read timestamp of a statement that names none. READ_YOUR_WRITES: one timestamp for all its tables, above
        everything that this client has written or read. READ_LATEST: the latest committed state at each tablet's
        leader, without any wait and without a common timestamp. READ_AT_SNAPSHOT: a timestamp is always given
        (`Connection.at`); if it is not, as READ_YOUR_WRITES.
    replica_selection : {"auto", "leader", "closest", "any"}
        Replica that scans are sent to first. "auto": the leader for data of the last seconds, since a follower would
        have to wait for it, and the closest replica for the past.
    location : str
        This client's place, such as /dc1/rack2 (`cluster.locations`): of two replicas, the one that shares more of it
        is closer.
    commit_wait : bool
        A write returns only when its timestamp has passed by this machine's clock, so that every statement that starts
        later, anywhere, reads at a later timestamp (as far as the clocks agree).
    speculative_reads : {"off", "snapshots", "recent"}
        Look-ups by key that are also sent to a second replica if the first does not reply; see the module of this name.
    connect_deadline : float
        Seconds until the first reply of a master; half of it if no process listens at any of their addresses, since one
        may be restarting.
    tls : TlsFiles, optional
        For mutual authentication of the cluster's servers and this client; None: no encryption.
    user, password : str, optional
        To log in with, where the servers have users (`client.login`). None: without a login.
    token : bytes, optional
        In place of a user and its password: a token for tasks (`Client.task_token`).
    """

    deadline: float = 30.0
    read_mode: str = "READ_YOUR_WRITES"
    replica_selection: str = "auto"
    location: str = ""
    commit_wait: bool = False
    speculative_reads: str = "off"
    connect_deadline: float = 10.0
    tls: TlsFiles | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: bytes | None = field(default=None, repr=False)


def client_options(**given: Any) -> ClientOptions:
    """Returns the options, checked, `tls` as the files `tls_ca`, `tls_cert` and `tls_key`; raises `InterfaceError` for
    an invalid one."""
    for name, choices in _CHOICES.items():
        value = given.get(name, choices[0])
        if value not in choices:
            raise InterfaceError(f"{name}={value!r}{did_you_mean(str(value), choices)}")
    for name in ("deadline", "connect_deadline"):
        seconds = given.get(name, 1.0)
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds > 0:
            raise InterfaceError(f"{name}={seconds!r}: a number of seconds above 0 is needed")
    if not isinstance(given.get("location", ""), str):
        raise InterfaceError(f"location={given['location']!r}: expected a text such as /dc1/rack2")
    check_location(given.get("location", ""))
    if not isinstance(given.get("commit_wait", False), bool):
        raise InterfaceError(f"commit_wait={given['commit_wait']!r}: expected True or False")
    for name in ("user", "password"):
        if not isinstance(given.get(name), str | None):
            raise InterfaceError(f"{name}: expected a text")
    if given.get("password") is not None and not given.get("user"):
        raise InterfaceError("a password was given without a user: give both, or none")
    tls = tls_files(given)
    return ClientOptions(**{name: value for name, value in given.items() if name not in OPTIONS}, tls=tls)
