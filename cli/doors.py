"""The servers for clients of other protocols, of `nyala serve` and `nyala gateway`: several as one.

--postgres ADDRESS    ─┐
--flight-sql ADDRESS  ─┴─► DoorOptions ──► Doors, on one connection to the store
--audit FILE          ───► AuditLog, of both and of the pages
--slow-log FILE       ───► SlowLog, of the statements of this process
--trace URL           ───► their spans, and those of calls, by OpenTelemetry
"""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import replace
from typing import Protocol

from ..doors.audit import AuditLog
from ..doors.flight_sql.server.options import FlightSqlOptions
from ..doors.http.options import HttpOptions
from ..doors.json_lines import reopen_on_hangup
from ..doors.postgres.server.options import PostgresOptions
from ..doors.postgres.server.server import PostgresServer
from ..driver.connection import Connection
from ..errors import InterfaceError
from ..model.lazy_dataclass import dataclass
from .arguments import log_retention
from .flight_sql_options import flight_sql_options
from .http_options import http_options
from .postgres_options import postgres_options
from .slow_log_options import slow_log


@dataclass(frozen=True, slots=True)
class DoorOptions:
    """The options of each protocol; None for one that is not served."""

    postgres: PostgresOptions | None
    flight_sql: FlightSqlOptions | None

    def __bool__(self) -> bool:
        return self.postgres is not None or self.flight_sql is not None


def door_options(arguments: argparse.Namespace) -> tuple[DoorOptions, HttpOptions | None]:
    """The options of all protocols, and of the pages; with --audit, one log is opened for all of them.

    Raises `InterfaceError` if they are invalid, or a log cannot be opened.
    """
    postgres, flight_sql, http = postgres_options(arguments), flight_sql_options(arguments), http_options(arguments)
    has_clients = postgres is not None or flight_sql is not None or http is not None
    audit = _audit(arguments, has_clients)
    if audit is not None:
        postgres = None if postgres is None else replace(postgres, audit=audit)
        flight_sql = None if flight_sql is None else replace(flight_sql, audit=audit)
        http = None if http is None else replace(http, audit=audit)
    clients = "clients of PostgreSQL, Flight SQL and the pages"
    slow = slow_log(arguments, has_clients, clients, "--postgres HOST:PORT, --flight-sql HOST:PORT or --http HOST:PORT")
    if arguments.trace is not None:
        from ..driver.telemetry import trace_to  # OpenTelemetry takes long to import

        trace_to(arguments.trace, "nyala")
    logs = [*([] if audit is None else [audit.lines]), *([] if slow is None else [slow])]
    if logs:
        reopen_on_hangup(logs)
    return DoorOptions(postgres, flight_sql), http


def _audit(arguments: argparse.Namespace, has_clients: bool) -> AuditLog | None:
    if arguments.audit is None:
        return None
    if not has_clients:
        raise InterfaceError(
            "--audit is for clients of PostgreSQL, Flight SQL and the pages, and needs --postgres HOST:PORT, "
            "--flight-sql HOST:PORT or --http HOST:PORT"
        )
    return AuditLog(arguments.audit, log_retention(arguments))


class _Server(Protocol):
    """The server of one protocol."""

    @property
    def url(self) -> str: ...

    @property
    def address(self) -> str: ...

    def start(self) -> None: ...

    def drain(self) -> None: ...

    def close(self) -> None: ...

    def idle_seconds(self) -> float: ...


class Doors:
    """Servers on one connection (`embedded_server.process.Door`, `wire.process.server_process.Server`).

    Parameters
    ----------
    connection : Connection
        Closed with the servers, also if one of them cannot be made.
    options : DoorOptions
    """

    def __init__(self, connection: Connection, options: DoorOptions):
        self._connection = connection
        self._servers: list[_Server] = []
        try:
            if options.postgres is not None:
                self._servers.append(PostgresServer(connection, options.postgres))
            if options.flight_sql is not None:
                from ..doors.flight_sql.server.server import FlightSqlServer  # loads Arrow Flight and protobuf

                self._servers.append(FlightSqlServer(connection, options.flight_sql))
        except BaseException:
            self.close()
            raise

    @property
    def urls(self) -> list[str]:
        """URLs for clients, one for each protocol."""
        return [server.url for server in self._servers]

    @property
    def address(self) -> str:
        """ "host:port" of the first server; "" if there is none."""
        return self._servers[0].address if self._servers else ""

    @property
    def connection(self) -> Connection:
        """The connection to the store."""
        return self._connection

    def masters(self) -> list[str]:
        """Returns the addresses of the store's masters; none of a directory."""
        return list(getattr(self._connection.store, "masters", ()))

    def start(self) -> None:
        """Accepts clients."""
        for server in self._servers:
            server.start()

    def drain(self) -> None:
        """Accepts no new clients, and lets running statements end."""
        for server in self._servers:
            server.drain()

    def close(self) -> None:
        """Ends all clients."""
        with contextlib.ExitStack() as closing:
            closing.callback(self._connection.close)
            for server in self._servers:
                closing.callback(server.close)

    def stop(self) -> None:
        """See `server_process.Server`."""
        self.close()

    def idle_seconds(self) -> float:
        """Seconds since a client last sent something; 0 while one is connected."""
        return min(server.idle_seconds() for server in self._servers)
