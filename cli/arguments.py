"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from ..cluster.wire.process.log_files import Retention
from ..cluster.wire.security.tls_files import OPTIONS, TlsFiles, tls_files

SPELLED = {name: f"--{name.replace('_', '-')}" for name in OPTIONS}
"""The options of TLS as command lines have them."""


def given_tls(arguments: argparse.Namespace) -> dict[str, str]:
    """The TLS files of a command line, as `connect` takes them; `InterfaceError` where some are missing."""
    files = tls_of(arguments)
    return {} if files is None else files.options()


def tls_of(arguments: argparse.Namespace) -> TlsFiles | None:
    """The TLS files of a command line; `InterfaceError` where some are missing."""
    return tls_files(vars(arguments), SPELLED)


def io_limit(text: str | None, name: str = "maintenance-io-limit") -> int | None:
    """Bytes per second of a ceiling of I/O, None if it is not given; `InterfaceError` where they are too few."""
    if text is None:
        return None
    from ..sql.settings import parse_rate  # a master, which has no such option, needs nothing of SQL

    return parse_rate(text, name)


def log_retention(arguments: argparse.Namespace) -> Retention:
    """The part of a server's logs that is kept; `InterfaceError` for invalid values."""
    size = Retention().bytes
    if arguments.log_size is not None:
        from ..sql.settings import parse_bytes  # as above

        size = 0 if arguments.log_size.strip() == "0" else parse_bytes(arguments.log_size, "log-size")
    return Retention(size, arguments.log_files, arguments.log_days)


def log_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The log of a server, as the functions that run one take it."""
    path = None if arguments.log is None else str(arguments.log)
    return {"log_file": path, "retention": log_retention(arguments)}


def accepts_data_loss(arguments: argparse.Namespace, warning: Iterable[str]) -> bool:
    """Prints the warning of a last resort; True if the command line accepts what it says."""
    for line in warning:
        print(line, file=sys.stderr, flush=True)
    if not arguments.accept_data_loss:
        print("nothing was changed; to go on, say --accept-data-loss", file=sys.stderr)
    return bool(arguments.accept_data_loss)


def names(text: str) -> list[str]:
    """Names with commas between them.

    >>> names("a, b")
    ['a', 'b']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def moment(text: str | None) -> str | int | None:
    """A hybrid timestamp (digits), or what spells a point in time."""
    if text is None:
        return None
    plain = text.strip().removesuffix(" UTC")
    return int(plain) if plain.isdigit() else plain
