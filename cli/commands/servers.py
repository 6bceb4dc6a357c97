"""The commands that run a server in this process: `nyala serve`, `gateway`, `master` and `tserver`."""

from __future__ import annotations

from pathlib import Path

from ...command_line import Argument, Command, argument
from .common import CLIENT_TLS, LOGS, MAINTENANCE_IO_LIMIT, tls_options

FLIGHT_PORT = argument(
    "--flight-port",
    type=int,
    default=0,
    metavar="PORT",
    help="port for scans, besides that of --bind; clients learn it from the server (default: a free one)",
)


HTTP = (
    argument(
        "--http",
        metavar="HOST:PORT",
        help="serve pages, /metrics, /healthz and /readyz at this address; port 0 takes a free one",
    ),
    argument(
        "--http-password-file",
        type=Path,
        metavar="FILE",
        help="a file with the password of their readers; without it, only HOST 127.0.0.1 or ::1 is allowed",
    ),
    argument("--http-tls-cert", type=Path, metavar="FILE", help="the PEM file with the certificate for them"),
    argument("--http-tls-key", type=Path, metavar="FILE", help="the PEM file with the key of that certificate"),
    argument("--http-profiler", action="store_true", help="allow /profile, which samples the stacks of all threads"),
)
"""The options of the HTTP server."""


def _slow(whose: str) -> tuple[Argument, ...]:
    """The options of the log of slow statements, of these clients."""
    return (
        argument(
            "--slow-log",
            type=Path,
            metavar="FILE",
            help=f"add a JSON line for each slow statement of {whose} to a file, without values; SIGHUP opens it again",
        ),
        argument(
            "--slow-seconds",
            type=float,
            metavar="SECONDS",
            help="time from which on a statement is slow, also on the pages (default 1)",
        ),
    )


SLOW = _slow("clients of PostgreSQL, Flight SQL and the console")
"""The log of slow statements."""

TRACE = argument(
    "--trace",
    metavar="URL",
    help="send spans of these statements, and of calls that belong to a statement with a span, to this collector by "
    "OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces (needs nyala[otel])",
)
"""Spans of statements and calls."""


def _server(bind: str) -> tuple[Argument, ...]:
    """The options of every server of a cluster; it listens at `bind` by default."""
    return (
        argument("--dir", type=Path, required=True, metavar="DIR", help="the server's directory"),
        argument("--bind", default=bind, metavar="HOST:PORT", help=f"address to listen at (default {bind})"),
        argument(
            "--advertise",
            default="",
            metavar="HOST:PORT",
            help="address that others connect to (default: that of --bind)",
        ),
        argument(
            "--masters",
            default="",
            metavar="HOST:PORT,...",
            help="all masters of the cluster; a new master that is not among them waits to be added to them",
        ),
        argument(
            "--durability",
            choices=("fsync", "os"),
            default="fsync",
            help="a replica acknowledges when its log is on the disk, or passed to the system (default fsync)",
        ),
        argument(
            "--election-timeout",
            type=float,
            default=1.5,
            metavar="SECONDS",
            help="time without a leader's message after which another is elected (default 1.5); heartbeats are three "
            "times as frequent",
        ),
        argument(
            "--address-file",
            type=Path,
            metavar="FILE",
            help="write HOST:PORT to this file when the server accepts calls",
        ),
        *tls_options("this server's", "all three, or none for no encryption and no authentication"),
        *HTTP,
        *_slow("the console of --http"),
        TRACE,
        *LOGS,
        argument("--allow-faults", action="store_true", help="allow fault injection by tests; never on a real cluster"),
    )


POSTGRES = (
    argument(
        "--postgres",
        metavar="HOST:PORT",
        help="serve clients of PostgreSQL at this address, too (psql, drivers); port 0 takes a free one",
    ),
    argument(
        "--postgres-password-file",
        type=Path,
        metavar="FILE",
        help="a file with the password of these clients; other HOSTs than 127.0.0.1 and ::1 need it, or users in the "
        "store",
    ),
    argument("--postgres-tls-cert", type=Path, metavar="FILE", help="the PEM file with the certificate for them"),
    argument("--postgres-tls-key", type=Path, metavar="FILE", help="the PEM file with the key of that certificate"),
    argument(
        "--postgres-connections", type=int, default=500, metavar="N", help="how many of them may connect (default 500)"
    ),
)
"""The options of the PostgreSQL protocol."""

FLIGHT_SQL = (
    argument(
        "--flight-sql",
        metavar="HOST:PORT",
        help="serve clients of Arrow Flight SQL at this address, too (ADBC, JDBC); port 0 takes a free one",
    ),
    argument(
        "--flight-sql-password-file",
        type=Path,
        metavar="FILE",
        help="a file with the password of these clients; without it, only HOST 127.0.0.1 or ::1 is allowed",
    ),
    argument("--flight-sql-tls-cert", type=Path, metavar="FILE", help="the PEM file with the certificate for them"),
    argument("--flight-sql-tls-key", type=Path, metavar="FILE", help="the PEM file with the key of that certificate"),
    argument("--flight-sql-sessions", type=int, default=500, metavar="N", help="limit of their sessions (default 500)"),
    argument(
        "--flight-sql-endpoint-rows",
        type=int,
        default=1 << 16,
        metavar="N",
        help="queries that scan a table of several tablets get endpoints of at least N rows, which clients read in "
        "parallel (default 65536; 0: an endpoint for each tablet)",
    ),
    argument(
        "--flight-sql-locations",
        metavar="URL,URL",
        help="URLs of all gateways that clients may read these endpoints from, this one included (default: this one)",
    ),
    argument(
        "--flight-sql-ticket-key-file",
        type=Path,
        metavar="FILE",
        help="a file with the secret, of at least 16 bytes, by which these gateways know each other's tickets",
    ),
)
"""The options of Flight SQL."""

AUDIT = argument(
    "--audit",
    type=Path,
    metavar="FILE",
    help="add a JSON line for each login and statement of clients of PostgreSQL, Flight SQL and the console to a file; "
    "SIGHUP opens it again",
)

SERVE = Command(
    "serve",
    "serve a store's directory to other processes",
    "Open a store and serve it to other processes of this machine, which connect by its directory, or "
    "by the printed URL. There is no authentication. SIGTERM stops it cleanly.",
    handler="cli.serve_command:serve_command",
    arguments=(
        argument("directory", type=Path, metavar="DIR", help="the store's directory; created if it does not exist"),
        argument(
            "--idle-exit", type=float, metavar="SECONDS", help="exit after this time without a call (default: never)"
        ),
        argument(
            "--bind",
            default="127.0.0.1:0",
            metavar="HOST:PORT",
            help="address to listen at (default: a free port of 127.0.0.1)",
        ),
        FLIGHT_PORT,
        argument(
            "--durability",
            choices=("fsync", "os"),
            default="fsync",
            help="acknowledge a write when it is on the disk, or passed to the system (default fsync)",
        ),
        argument(
            "--history-seconds",
            type=int,
            metavar="N",
            help="how long history stays readable; stored (default: the stored value, 7 days for a new store)",
        ),
        argument(
            "--store-memory",
            metavar="SIZE",
            help="limit of the store's memory, such as 2GB (default: a part of this machine's memory)",
        ),
        MAINTENANCE_IO_LIMIT,
        *POSTGRES,
        *FLIGHT_SQL,
        *HTTP,
        AUDIT,
        *SLOW,
        TRACE,
        *LOGS,
    ),
    examples=(
        "nyala serve weather",
        "nyala serve weather --idle-exit 600",
        "nyala serve weather --http 127.0.0.1:8050",
        "nyala serve weather --postgres 127.0.0.1:5433 --flight-sql 127.0.0.1:50051",
    ),
)

GATEWAY = Command(
    "gateway",
    "serve clients of PostgreSQL and Flight SQL from a cluster",
    "Serve clients of PostgreSQL and Arrow Flight SQL from a cluster or a served directory. A gateway keeps nothing: "
    "there may be any number of them. SIGTERM stops it cleanly.",
    handler="cli.gateway_command:gateway_command",
    arguments=(
        argument("target", metavar="TARGET", help="nyala://HOST:PORT,... or a directory"),
        *POSTGRES,
        *FLIGHT_SQL,
        *HTTP,
        AUDIT,
        *SLOW,
        TRACE,
        *LOGS,
        *CLIENT_TLS,
    ),
    examples=("nyala gateway nyala://10.0.0.1:7051 --postgres 127.0.0.1:5433 --flight-sql 127.0.0.1:50051",),
)

MASTER = Command(
    "master",
    "run a master",
    "Run a master of a cluster: it manages tables and tablet servers. Run one, or three so that the "
    "cluster survives the loss of a master. SIGTERM stops it cleanly.",
    handler="cli.server_command:master_command",
    arguments=(
        *_server("127.0.0.1:7051"),
        argument(
            "--dead-after",
            type=float,
            default=60.0,
            metavar="SECONDS",
            help="time without heartbeats after which a tablet server's replicas are copied to others (default 60)",
        ),
        argument(
            "--login-seconds",
            type=float,
            default=3600.0,
            metavar="SECONDS",
            help="time for which a login is valid; clients repeat theirs before (default 3600, the most)",
        ),
        argument(
            "--replicas", type=int, default=3, metavar="N", help="replicas of a table without REPLICAS (default 3)"
        ),
    ),
    examples=(
        "nyala master --dir m1",
        "nyala master --dir m1 --bind 10.0.0.1:7051 --masters 10.0.0.1:7051,10.0.0.2:7051,10.0.0.3:7051",
    ),
)

TSERVER = Command(
    "tserver",
    "run a tablet server",
    "Run a tablet server: it holds replicas of tablets. SIGTERM stops it cleanly.",
    handler="cli.server_command:tserver_command",
    arguments=(
        *_server("127.0.0.1:7050"),
        FLIGHT_PORT,
        argument(
            "--data-dir",
            action="append",
            type=Path,
            default=[],
            metavar="DIR",
            help="a further directory for tablets, preferably on another disk (may be repeated)",
        ),
        argument(
            "--location",
            default="",
            metavar="PATH",
            help="its place, such as /dc1/rack2: no location gets a majority of a tablet's replicas if others can",
        ),
        argument(
            "--memory-limit",
            metavar="SIZE",
            help="limit of memory for rows and pages, such as 4GB (default: half the machine's)",
        ),
        MAINTENANCE_IO_LIMIT,
        *(
            argument(f"--{name}", type=int, default=default, metavar="N", help=f"{text} (default {default})")
            for name, default, text in (
                ("memrowset-bytes", 128 << 20, "size at which rows of a tablet in memory are flushed"),
                ("cache-bytes", 512 << 20, "memory for decoded pages"),
            )
        ),
        argument(
            "--history-seconds",
            type=int,
            default=7 * 24 * 3600,
            metavar="N",
            help="how long history stays readable (default: a week)",
        ),
    ),
    examples=(
        "nyala tserver --dir t1 --masters 127.0.0.1:7051",
        "nyala tserver --dir /disk1/t --data-dir /disk2/t --bind 10.0.0.4:7050 --masters 10.0.0.1:7051",
    ),
)
