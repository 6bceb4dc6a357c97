"""The connection of a command to the cluster that its command line names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..cluster.admin.local_cluster import LocalCluster
from ..cluster.admin.masters import ask_master
from ..cluster.admin.moves import ReplicaMover
from ..cluster.admin.names import Names
from ..cluster.admin.view import ClusterView, look
from ..cluster.wire.calls.rpc import Channels
from ..cluster.wire.client_clock import ClientClock
from ..cluster.wire.messages.methods import ListServers
from ..cluster.wire.security.tls import read_credentials
from ..cluster.wire.security.tls_files import tls_files
from ..driver.stores.cluster_url import servers, tls_options
from ..driver.stores.open_stores import is_cluster
from ..model.clock import HybridClock
from ..model.lazy_dataclass import dataclass
from ..net.addresses import address_of
from .arguments import given_tls, tls_of

_PATIENCE_SECONDS = 4.0
"""For a master to be there: one may be restarting."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A cluster with a leading master, unless that was not required.

    Attributes
    ----------
    masters : sequence of str
        Their addresses.
    local : mapping of str to str
        Addresses of a local cluster's servers, by name; else empty.
    """

    channels: Channels
    masters: Sequence[str]
    local: Mapping[str, str]
    clock: HybridClock

    def view(self, seconds: float = 30.0, leaderless: bool = False) -> ClusterView:
        """Returns the current state of the cluster; if `leaderless`, of the masters alone if none of them leads."""
        patience = min(seconds, _PATIENCE_SECONDS) if leaderless else None  # else `connected` has reached one
        return look(self.channels, self.masters, self.clock, seconds, patience, leaderless=leaderless)

    def mover(self) -> ReplicaMover:
        """Moves its replicas and leaders."""
        return ReplicaMover(self.channels, self.masters, self.local)

    def names(self) -> Names:
        """Resolves names of its servers and tablets."""
        return Names(self.channels, self.masters, self.local)


@contextmanager
def connected(arguments: argparse.Namespace, leaderless: bool = False) -> Iterator[Reached]:
    """The cluster that the command line names: a directory of `nyala cluster start`, or nyala://.

    A master leads, unless `leaderless`; if none can be reached, the error comes after `_PATIENCE_SECONDS`.
    """
    local: Mapping[str, str] = {}
    if is_cluster(arguments.cluster):
        masters: Sequence[str] = [address_of(host, port) for host, port in servers(arguments.cluster)]
        files = tls_files(tls_options(arguments.cluster, given_tls(arguments)))
    else:
        cluster = LocalCluster.open(Path(arguments.cluster))
        masters, files, local = cluster.masters, tls_of(arguments) or cluster.admin_tls, cluster.addresses
    clock = ClientClock()
    channels = Channels(clock, tls=None if files is None else read_credentials(files))
    try:
        seconds = getattr(arguments, "timeout", None) or 30.0
        if not leaderless:
            ask_master(channels, masters, ListServers(), seconds, min(seconds, _PATIENCE_SECONDS))
        yield Reached(channels, masters, local, clock)
    finally:
        channels.close()
