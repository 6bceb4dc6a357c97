"""`nyala gateway`: clients of PostgreSQL and Flight SQL, and pages, in front of a cluster, until SIGTERM."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ..cluster.admin.view import ClusterView
from ..cluster.wire.process.server_process import run_server
from ..cluster.wire.security.tls_files import tls_files
from ..doors.http.beside import ServerWithPages, with_pages
from ..doors.http.subject import Subject
from ..driver.connection import connect
from ..driver.stores.cluster_url import servers, tls_options, without_password
from ..driver.stores.open_stores import is_cluster
from ..errors import InterfaceError
from ..net.addresses import address_of
from .arguments import log_options
from .doors import Doors, door_options
from .http_options import cluster_look, shown_options


def gateway_command(arguments: argparse.Namespace) -> int:
    """`nyala gateway`: prints its URLs."""
    options, http = door_options(arguments)
    if not options and http is None:
        raise InterfaceError(
            "a gateway needs an address for its clients: --postgres HOST:PORT, --flight-sql HOST:PORT, --http HOST:PORT"
        )
    tls = {name: getattr(arguments, name) for name in ("tls_ca", "tls_cert", "tls_key")}
    given = {name: value for name, value in tls.items() if value is not None}
    subject = Subject(
        "gateway",
        without_password(arguments.target),
        lambda doors: doors.connection.duplicate(),
        look=_look(arguments.target, given),
        options=shown_options(arguments),
    )
    made: list[Doors] = []
    pages: list[ServerWithPages] = []

    def make() -> Doors:
        made.append(Doors(connect(arguments.target, **given), options))
        return made[0]

    def ready(address: str) -> None:
        print(*made[0].urls, *(server.http.url for server in pages), sep="\n", flush=True)

    return run_server(
        with_pages(make, subject, http, pages.append), name="gateway", ready=ready, **log_options(arguments)
    )


def _look(target: str, given: dict[str, Any]) -> Callable[[Any], ClusterView] | None:
    """The view of the cluster that a URL names; None of a directory."""
    if not is_cluster(target):
        return None
    masters = [address_of(host, port) for host, port in servers(target)]
    return cluster_look(masters, tls_files(tls_options(target, given)))
