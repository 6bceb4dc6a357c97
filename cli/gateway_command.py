"""`nyala gateway`: clients of PostgreSQL in front of a cluster, until SIGTERM."""

from __future__ import annotations

import argparse

from ..cluster.wire.process.server_process import run_server
from ..doors.postgres.server.options import PostgresOptions
from ..doors.postgres.server.server import PostgresServer
from ..driver.connection import Connection, connect
from ..errors import InterfaceError
from .postgres_options import postgres_options


class _Gateway:
    """A connection to the cluster, and the server in front of it (`server_process.Server`)."""

    def __init__(self, connection: Connection, options: PostgresOptions):
        self._connection = connection
        self._server = PostgresServer(connection, options)

    @property
    def address(self) -> str:
        """ "host:port" at which it listens."""
        return self._server.address

    def start(self) -> None:
        """Accepts clients."""
        self._server.start()

    def drain(self) -> None:
        """Lets running statements end."""
        self._server.drain()

    def stop(self) -> None:
        """Ends all clients."""
        try:
            self._server.close()
        finally:
            self._connection.close()


def gateway_command(arguments: argparse.Namespace) -> int:
    """`nyala gateway`: prints its URL."""
    options = postgres_options(arguments)
    if options is None:
        raise InterfaceError("a gateway needs an address for its clients: --postgres HOST:PORT")
    tls = {name: getattr(arguments, name) for name in ("tls_ca", "tls_cert", "tls_key")}
    given = {name: value for name, value in tls.items() if value is not None}
    return run_server(
        lambda: _Gateway(connect(arguments.target, **given), options),
        name="gateway",
        ready=lambda address: print(f"postgresql://{address}/", flush=True),
    )
