"""Options of a master."""

from __future__ import annotations

from dataclasses import field

from ...model.access.tokens import TOKEN_SECONDS
from ...model.lazy_dataclass import dataclass
from ..raft.node import RaftOptions
from ..wire.security.tls_files import TlsFiles


@dataclass(frozen=True, slots=True)
class MasterOptions:
    """The options of a master.

    Parameters
    ----------
    directory : str
        Of its files; created if it does not exist.
    bind : str
        "host:port" to listen at; port 0 takes a free one.
    advertise : str
        The address under which others reach it; "" for the bound one.
    masters : tuple of str
        The addresses of all masters, this one's among them; none: it is the only one.
    dead_after : float
        Seconds of silence after which a tablet server counts as dead, and its replicas are created elsewhere.
    login_seconds : float
        Life of the token of a login; clients log in again before.
    default_replicas : int
        Of tables that do not specify a number of replicas.
    creation_timeout : float
        Seconds after which a new tablet that no server serves is placed elsewhere.
    surplus_grace : float
        Seconds for which a surplus replica stays, so that the mover of a replica can choose which one to remove.
    warm_up : float
        Seconds that servers have to report after a master begins to lead, before new tables are placed.
    durability : str
        "fsync" or "os".
    raft : RaftOptions
    allow_faults : bool
        Obey `SetFaults`: for tests.
    tls : TlsFiles, optional
        The master's certificate, its key and its CA; None: no encryption, and no authentication.
    """

    directory: str
    bind: str = "127.0.0.1:7051"
    advertise: str = ""
    masters: tuple[str, ...] = ()
    dead_after: float = 60.0
    login_seconds: float = TOKEN_SECONDS
    default_replicas: int = 3
    creation_timeout: float = 30.0
    surplus_grace: float = 15.0
    warm_up: float = 1.0
    durability: str = "fsync"
    raft: RaftOptions = field(default_factory=RaftOptions)
    allow_faults: bool = False
    tls: TlsFiles | None = None
