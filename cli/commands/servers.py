"""The commands that run a server in this process: `nyala serve`, `nyala master` and `nyala tserver`."""

from __future__ import annotations

from pathlib import Path

from ...command_line import Argument, Command, argument
from .common import tls_options


def _server(bind: str) -> tuple[Argument, ...]:
    """The options of every server of a cluster; it listens at `bind` by default."""
    return (
        argument("--dir", type=Path, required=True, metavar="DIR", help="the server's directory"),
        argument("--bind", default=bind, metavar="HOST:PORT", help=f"where to listen (default {bind})"),
        argument(
            "--advertise", default="", metavar="HOST:PORT", help="where others reach it (default: where it listens)"
        ),
        argument(
            "--masters", default="", metavar="HOST:PORT,...", help="all masters of the cluster, this one among them"
        ),
        argument(
            "--durability",
            choices=("fsync", "os"),
            default="fsync",
            help="whether a replica's log is on the disk, or with the system, when it acknowledges (default fsync)",
        ),
        argument(
            "--election-timeout",
            type=float,
            default=1.5,
            metavar="SECONDS",
            help="silence of a leader after which another is elected (default 1.5); heartbeats come three "
            "times as often",
        ),
        argument(
            "--address-file", type=Path, metavar="FILE", help="write HOST:PORT here as soon as the server answers"
        ),
        *tls_options("this server's", "all three, or none for no encryption and no authentication"),
        argument("--allow-faults", action="store_true", help="let tests make faults; never on a real cluster"),
    )


SERVE = Command(
    "serve",
    "serve a store's directory to other processes",
    "Open a store and serve it to other processes of this machine, which reach it by its directory, or "
    "by the URL that is printed. There is no authentication. SIGTERM ends it in good order.",
    handler="cli.serve_command:serve_command",
    arguments=(
        argument("directory", type=Path, metavar="DIR", help="the store's directory; made if it is not there"),
        argument(
            "--idle-exit", type=float, metavar="SECONDS", help="end when nobody has called for so long (default: never)"
        ),
        argument(
            "--bind",
            default="127.0.0.1:0",
            metavar="HOST:PORT",
            help="where to listen (default: a free port of 127.0.0.1)",
        ),
        argument(
            "--durability",
            choices=("fsync", "os"),
            default="fsync",
            help="whether a write is on the disk, or with the system, when it is acknowledged (default fsync)",
        ),
        argument(
            "--history-seconds",
            type=int,
            metavar="N",
            help="how long the past can be read; kept with the store (default: what was set last, 7 days at first)",
        ),
        argument(
            "--store-memory",
            metavar="SIZE",
            help="what the store may keep in memory, such as 2GB (default: a part of this machine's memory)",
        ),
    ),
    examples=("nyala serve weather", "nyala serve weather --idle-exit 600"),
)

MASTER = Command(
    "master",
    "run a master",
    "Run a master of a cluster: it knows tables and tablet servers. One, or three for a cluster that "
    "outlives the loss of a master. SIGTERM ends it in good order.",
    handler="cli.server_command:master_command",
    arguments=(
        *_server("127.0.0.1:7051"),
        argument(
            "--dead-after",
            type=float,
            default=60.0,
            metavar="SECONDS",
            help="silence after which a tablet server's replicas are made anew elsewhere (default 60)",
        ),
        argument(
            "--replicas", type=int, default=3, metavar="N", help="replicas of a table that does not say (default 3)"
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
    "Run a tablet server: it holds replicas of tablets. SIGTERM ends it in good order.",
    handler="cli.server_command:tserver_command",
    arguments=(
        *_server("127.0.0.1:7050"),
        argument(
            "--data-dir",
            action="append",
            type=Path,
            default=[],
            metavar="DIR",
            help="a further directory for tablets, best on another disk (may be repeated)",
        ),
        argument(
            "--memory-limit",
            metavar="SIZE",
            help="for rows in memory and pages, such as 4GB (default: half the machine's)",
        ),
        *(
            argument(f"--{name}", type=int, default=default, metavar="N", help=f"{text} (default {default})")
            for name, default, text in (
                ("memrowset-bytes", 128 << 20, "rows of a tablet in memory that are flushed"),
                ("cache-bytes", 512 << 20, "memory for decoded pages"),
            )
        ),
        argument(
            "--history-seconds",
            type=int,
            default=7 * 24 * 3600,
            metavar="N",
            help="how long the past stays readable (default: a week)",
        ),
    ),
    examples=(
        "nyala tserver --dir t1 --masters 127.0.0.1:7051",
        "nyala tserver --dir /disk1/t --data-dir /disk2/t --bind 10.0.0.4:7050 --masters 10.0.0.1:7051",
    ),
)
