"""The options of Flight SQL, of `nyala serve` and `nyala gateway`."""

from __future__ import annotations

import argparse

from ..doors.authentication import read_secret
from ..doors.flight_sql.server.options import FlightSqlOptions
from ..doors.flight_sql.session.client_session import SessionLimits
from ..doors.flight_sql.session.parts import PartLimits
from ..errors import InterfaceError


def flight_sql_options(arguments: argparse.Namespace) -> FlightSqlOptions | None:
    """The options; None without --flight-sql. Raises `InterfaceError` if they are invalid."""
    named = {
        "--flight-sql-password-file": arguments.flight_sql_password_file,
        "--flight-sql-tls-cert": arguments.flight_sql_tls_cert,
        "--flight-sql-tls-key": arguments.flight_sql_tls_key,
        "--flight-sql-locations": arguments.flight_sql_locations,
        "--flight-sql-ticket-key-file": arguments.flight_sql_ticket_key_file,
    }
    if arguments.flight_sql is None:
        for name, value in named.items():
            if value is not None:
                raise InterfaceError(f"{name} is for clients of Flight SQL, and needs --flight-sql HOST:PORT")
        return None
    if arguments.flight_sql_sessions < 1:
        raise InterfaceError(f"--flight-sql-sessions {arguments.flight_sql_sessions}: a number from 1 is needed")
    rows = arguments.flight_sql_endpoint_rows
    if rows < 0:
        raise InterfaceError(f"--flight-sql-endpoint-rows {rows}: a number from 0 is needed")
    password_file, certificate, key, locations, ticket_key_file = named.values()
    options = FlightSqlOptions(
        address=arguments.flight_sql,
        password=None if password_file is None else read_secret(password_file),
        tls_cert=None if certificate is None else str(certificate),
        tls_key=None if key is None else str(key),
        sessions=arguments.flight_sql_sessions,
        limits=SessionLimits(parts=PartLimits(rows=rows)),
        ticket_key=None if ticket_key_file is None else read_secret(ticket_key_file, "key").encode(),
        locations=tuple(filter(None, (locations or "").split(","))),
    )
    options.endpoint(has_users=None)
    return options
