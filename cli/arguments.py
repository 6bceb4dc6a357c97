"""Arguments that several commands share."""

from __future__ import annotations

import argparse

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
