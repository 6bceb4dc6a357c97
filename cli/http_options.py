"""The options of the HTTP server, of all commands that run a server."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..cluster.admin.view import ClusterView, look
from ..cluster.wire.calls.rpc import Channels
from ..cluster.wire.client_clock import ClientClock
from ..cluster.wire.security.tls import read_credentials
from ..cluster.wire.security.tls_files import TlsFiles
from ..doors.authentication import read_secret
from ..doors.http.options import HttpOptions
from ..errors import InterfaceError

_LOOK_SECONDS: Final = 5.0
"""For a master to respond to a page."""
_NO_OPTIONS: Final = frozenset({"run", "command", "handler"})


def http_options(arguments: argparse.Namespace) -> HttpOptions | None:
    """The options; None without --http. Raises `InterfaceError` if they are invalid."""
    files = {
        "--http-password-file": arguments.http_password_file,
        "--http-tls-cert": arguments.http_tls_cert,
        "--http-tls-key": arguments.http_tls_key,
    }
    if arguments.http is None:
        for name, value in files.items():
            if value is not None:
                raise InterfaceError(f"{name} is for readers of pages and metrics, and needs --http HOST:PORT")
        return None
    password_file, certificate, key = files.values()
    options = HttpOptions(
        address=arguments.http,
        password=None if password_file is None else read_secret(password_file),
        tls_cert=None if certificate is None else str(certificate),
        tls_key=None if key is None else str(key),
        profiler=arguments.http_profiler,
    )
    options.endpoint()
    return options


def shown_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options of a command line for the page of settings: those with a value, without secrets."""
    return {
        name: str(value)
        for name, value in vars(arguments).items()
        if value not in (None, "", [], False) and name not in _NO_OPTIONS and not callable(value)
    }


def cluster_look(masters: Sequence[str], files: TlsFiles | None) -> Callable[[Any], ClusterView]:
    """A function that returns the view of a cluster; it connects for each call, as pages are rarely read.

    `masters` are those of the command line; a server also has the present ones (`masters()`).
    """

    def looked(server: Any) -> ClusterView:
        present = server.masters() if hasattr(server, "masters") else ()
        clock = ClientClock()
        channels = Channels(clock, tls=None if files is None else read_credentials(files))
        try:
            return look(
                channels,
                list(dict.fromkeys((*present, *masters))),
                clock,
                _LOOK_SECONDS,
                _LOOK_SECONDS,
                leaderless=True,
            )
        finally:
            channels.close()

    return looked
