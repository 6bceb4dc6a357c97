"""Options of a tablet server."""

from __future__ import annotations

import os
from dataclasses import field

from ...errors import InterfaceError
from ...model.lazy_dataclass import dataclass
from ...storage.tablet.tablet import StoreOptions
from ..locations import check_location
from ..raft.node import RaftOptions
from ..wire.security.tls_files import TlsFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class TabletServerOptions:
    """The options of `TabletServer`.

    Parameters
    ----------
    directory : str
        The server's own: its id, and tablets. Created if it does not exist.
    data_directories : tuple of str
        Further ones for tablets, best on other disks: `directories`.
    bind : str
        "host:port" to listen at; port 0 takes any free one.
    advertise : str
        "host:port" under which others reach the server; empty: the bound address.
    flight_port : int
        Port for scans, at the same host as `bind`; 0 takes any free one. Clients learn it from the server.
    masters : tuple of str
        Addresses of all masters; none: the server sends no reports.
    location : str
        Its place, such as /dc1/rack2: replicas of a tablet are spread over locations (`cluster.locations`).
    durability : {"fsync", "os"}
        As in `Database`; "os" assumes that the servers of a tablet do not all lose their power at once.
    memory_limit_bytes : int, optional
        For unflushed rows and pages; half of the machine's memory by default.
    maintenance_io_limit : int, optional
        Bytes per second that background work and copies of replicas may read and write; None: no limit.
    memrowset_bytes, segment_bytes, rowset_bytes, history_seconds : int
        As in `StoreOptions`.
    cache_bytes : int
        Memory for decoded pages.
    heartbeat_interval : float
        Seconds between two reports to the masters.
    scanner_ttl : float
        Seconds for which an unread scan is kept.
    scan_threads : int
        Threads that read ahead of scans; each scan's own call reads too.
    scanner_bytes : int
        Memory for batches of all scans that are read ahead, or kept for a stream that may break.
    drain_seconds : float
        Seconds for which a stopping server lets running calls and scans continue.
    reserve_bytes : int
        Space in each directory for essential writes when its disk is full.
    full_check_seconds : float
        Seconds between two checks of a directory whose disk is full.
    allow_faults : bool
        Let clients inject faults (`SetFaults`); for tests.
    background : bool
        False: no thread flushes or compacts; for tests.
    tls : TlsFiles, optional
        The server's certificate, its key and its CA; None: no encryption, and no authentication.
    """

    directory: str
    data_directories: tuple[str, ...] = ()
    bind: str = "127.0.0.1:7050"
    advertise: str = ""
    flight_port: int = 0
    masters: tuple[str, ...] = ()
    location: str = ""
    durability: str = "fsync"
    memory_limit_bytes: int | None = None
    maintenance_io_limit: int | None = None
    memrowset_bytes: int = 128 << 20
    segment_bytes: int = 8 << 20
    rowset_bytes: int = 64 << 20
    history_seconds: int = 7 * 24 * 3600
    cache_bytes: int = 512 << 20
    heartbeat_interval: float = 1.0
    scanner_ttl: float = 60.0
    scan_threads: int = field(default_factory=lambda: max(2, min(4, os.cpu_count() or 2)))
    scanner_bytes: int = 256 << 20
    drain_seconds: float = 10.0
    reserve_bytes: int = 8 << 20
    full_check_seconds: float = 2.0
    raft: RaftOptions = field(default_factory=RaftOptions)
    allow_faults: bool = False
    background: bool = True
    tls: TlsFiles | None = None

    def __post_init__(self) -> None:
        if self.durability not in ("fsync", "os"):
            raise InterfaceError(f"durability={self.durability!r}: expected 'fsync' or 'os'")
        check_location(self.location)
        if self.scan_threads < 1:
            raise InterfaceError(f"scan_threads={self.scan_threads}: at least one is needed")

    @property
    def store(self) -> StoreOptions:
        """Returns the options that all tablets share."""
        return StoreOptions(
            self.durability,
            self.memrowset_bytes,
            self.segment_bytes,
            self.rowset_bytes,
            history_seconds=self.history_seconds,
        )
