"""The options of Flight SQL, of `nyala serve` and `nyala gateway`."""

from __future__ import annotations

import argparse

from ..doors.authentication import read_password_file
from ..doors.flight_sql.server.options import FlightSqlOptions
from ..errors import InterfaceError


def flight_sql_options(arguments: argparse.Namespace) -> FlightSqlOptions | None:
    """The options; None without --flight-sql. Raises `InterfaceError` if they are invalid."""
    named = {
        "--flight-sql-password-file": arguments.flight_sql_password_file,
        "--flight-sql-tls-cert": arguments.flight_sql_tls_cert,
        "--flight-sql-tls-key": arguments.flight_sql_tls_key,
    }
    if arguments.flight_sql is None:
        for name, value in named.items():
            if value is not None:
                raise InterfaceError(f"{name} is for clients of Flight SQL, and needs --flight-sql HOST:PORT")
        return None
    if arguments.flight_sql_sessions < 1:
        raise InterfaceError(f"--flight-sql-sessions {arguments.flight_sql_sessions}: a number from 1 is needed")
    password_file, certificate, key = named.values()
    options = FlightSqlOptions(
        address=arguments.flight_sql,
        password=None if password_file is None else read_password_file(password_file),
        tls_cert=None if certificate is None else str(certificate),
        tls_key=None if key is None else str(key),
        sessions=arguments.flight_sql_sessions,
    )
    options.endpoint(has_users=None)
    return options
