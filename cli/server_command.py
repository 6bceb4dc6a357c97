"""`nyala master` and `nyala tserver`: one server in this process, until SIGTERM."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..cluster.master.options import MasterOptions
from ..cluster.master.server import run as run_master
from ..cluster.raft.options import RaftOptions
from ..cluster.tserver.options import TabletServerOptions
from ..cluster.tserver.server import run as run_tserver
from ..cluster.wire.process.server_process import Around, itself
from ..errors import InterfaceError
from ..model.access.tokens import TOKEN_SECONDS
from .arguments import given_tls, io_limit, log_options, tls_of
from .http_options import cluster_look, http_options, shown_options

_LEASE = 0.9
"""Of the election timeout: the rest is for clocks that run apart."""


def master_command(arguments: argparse.Namespace) -> int:
    """`nyala master`."""
    if not 0 < arguments.login_seconds <= TOKEN_SECONDS:
        raise InterfaceError(f"--login-seconds {arguments.login_seconds:g}: up to {TOKEN_SECONDS} are possible")
    options = MasterOptions(
        **_server_options(arguments),
        dead_after=arguments.dead_after,
        login_seconds=arguments.login_seconds,
        default_replicas=arguments.replicas,
    )
    return run_master(
        options,
        address_file=_optional(arguments.address_file),
        around=_around("master", arguments),
        **log_options(arguments),
    )


def tserver_command(arguments: argparse.Namespace) -> int:
    """`nyala tserver`."""
    # A master does without the modules of SQL, a third of those that a tablet server has.
    from ..executor.fragments.evaluate import table_evaluator
    from ..sql.settings import parse_bytes

    limit = arguments.memory_limit
    options = TabletServerOptions(
        **_server_options(arguments),
        flight_port=arguments.flight_port,
        location=arguments.location,
        data_directories=tuple(map(str, arguments.data_dir)),
        memory_limit_bytes=None if limit is None else parse_bytes(limit, "memory-limit"),
        maintenance_io_limit=io_limit(arguments.maintenance_io_limit),
        memrowset_bytes=arguments.memrowset_bytes,
        cache_bytes=arguments.cache_bytes,
        history_seconds=arguments.history_seconds,
    )
    return run_tserver(
        options,
        fragments=table_evaluator,
        address_file=_optional(arguments.address_file),
        around=_around("tserver", arguments),
        **log_options(arguments),
    )


def _around(kind: str, arguments: argparse.Namespace) -> Around:
    """Pages beside a server, with --http; they reach the cluster as a client."""
    http = http_options(arguments)
    if arguments.slow_log is not None or arguments.slow_seconds is not None:
        _log_slow(arguments, http is not None)
    if arguments.trace is not None:
        from ..driver.telemetry import trace_to  # OpenTelemetry takes long to import

        trace_to(arguments.trace, f"nyala-{kind}", arguments.advertise or arguments.bind)
    if http is None:
        return itself
    from ..doors.http.beside import with_pages
    from ..doors.http.subject import Subject
    from ..driver.connection import connect

    files = tls_of(arguments)
    masters = _addresses(arguments.masters) or (arguments.advertise or arguments.bind,)
    given: dict[str, Any] = {**given_tls(arguments)}
    subject = Subject(
        kind,
        str(arguments.dir),
        lambda server: connect("nyala://" + ",".join(dict.fromkeys((*server.masters(), *masters))), **given),
        look=cluster_look(masters, files),
        options=shown_options(arguments),
    )
    return lambda make: with_pages(make, subject, http)


def _log_slow(arguments: argparse.Namespace, has_console: bool) -> None:
    """The log of slow statements of the console."""
    from ..doors.json_lines import reopen_on_hangup
    from .slow_log_options import slow_log  # with the modules of SQL, which a master without pages does without

    slow = slow_log(arguments, has_console, "the console of its pages", "--http HOST:PORT")
    if slow is not None:
        reopen_on_hangup([slow])


def _server_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of a master and of a tablet server alike."""
    return {
        "directory": str(arguments.dir),
        "bind": arguments.bind,
        "advertise": arguments.advertise,
        "masters": _addresses(arguments.masters),
        "durability": arguments.durability,
        "raft": _raft(arguments),
        "allow_faults": arguments.allow_faults,
        "tls": tls_of(arguments),
    }


def _addresses(text: str) -> tuple[str, ...]:
    return tuple(address.strip() for address in text.split(",") if address.strip())


def _optional(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _raft(arguments: argparse.Namespace) -> RaftOptions:
    timeout = arguments.election_timeout
    if not 0.05 <= timeout <= 60:
        raise InterfaceError(f"--election-timeout {timeout}: seconds, from 0.05 to 60")
    return RaftOptions(heartbeat=timeout / 3, election_timeout=timeout, lease=timeout * _LEASE)
