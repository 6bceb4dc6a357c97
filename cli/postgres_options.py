"""The options of the PostgreSQL protocol, of `nyala serve` and `nyala gateway`."""

from __future__ import annotations

import argparse

from ..doors.authentication import read_secret
from ..doors.postgres.server.options import PostgresOptions
from ..errors import InterfaceError


def postgres_options(arguments: argparse.Namespace) -> PostgresOptions | None:
    """The options; None without --postgres. Raises `InterfaceError` if they are invalid."""
    named = {
        "--postgres-password-file": arguments.postgres_password_file,
        "--postgres-tls-cert": arguments.postgres_tls_cert,
        "--postgres-tls-key": arguments.postgres_tls_key,
    }
    if arguments.postgres is None:
        for name, value in named.items():
            if value is not None:
                raise InterfaceError(f"{name} is for clients of PostgreSQL, and needs --postgres HOST:PORT")
        return None
    if arguments.postgres_connections < 1:
        raise InterfaceError(f"--postgres-connections {arguments.postgres_connections}: a number from 1 is needed")
    password_file, certificate, key = named.values()
    options = PostgresOptions(
        address=arguments.postgres,
        password=None if password_file is None else read_secret(password_file),
        tls_cert=None if certificate is None else str(certificate),
        tls_key=None if key is None else str(key),
        connections=arguments.postgres_connections,
    )
    options.endpoint(has_users=None)
    return options
