"""`nyala gateway`: clients of PostgreSQL and Flight SQL in front of a cluster, until SIGTERM."""

from __future__ import annotations

import argparse

from ..cluster.wire.process.server_process import run_server
from ..driver.connection import connect
from ..errors import InterfaceError
from .doors import Doors, door_options


def gateway_command(arguments: argparse.Namespace) -> int:
    """`nyala gateway`: prints its URLs."""
    options = door_options(arguments)
    if not options:
        raise InterfaceError(
            "a gateway needs an address for its clients: --postgres HOST:PORT, --flight-sql HOST:PORT, or both"
        )
    tls = {name: getattr(arguments, name) for name in ("tls_ca", "tls_cert", "tls_key")}
    given = {name: value for name, value in tls.items() if value is not None}
    made: list[Doors] = []

    def make() -> Doors:
        made.append(Doors(connect(arguments.target, **given), options))
        return made[0]

    return run_server(make, name="gateway", ready=lambda address: print(*made[0].urls, sep="\n", flush=True))
