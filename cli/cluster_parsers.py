"""The command line of clusters: `nyala master`, `tserver`, `cluster`, `tablet`; and `nyala serve`. Their handlers are
imported when they run, so that `nyala --help` answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[Any]"

_TLS_HELP = (
    ("ca", "the PEM file with the certificate of the cluster's CA"),
    ("cert", "the PEM file with {whose} certificate, which that CA has signed"),
    ("key", "the PEM file with the key of that certificate"),
)
_CLUSTER_HELP = "the directory of a local cluster, or nyala://HOST:PORT of its masters"
_SERVER_HELP = "its address, its id, or its name in a local cluster (tserver-2)"
_TABLET_HELP = "its id, or the beginning of it that no other has"


def add_cluster_commands(commands: Commands) -> None:
    """Add all of them."""
    _add_serve(commands)
    _add_master(commands)
    _add_tserver(commands)
    _add_cluster(commands)
    _add_tablet(commands)


# ---- servers ---------------------------------------------------------------------------------------------------------


def _add_serve(commands: Commands) -> None:
    parser = commands.add_parser(
        "serve",
        help="serve a store's directory to other processes",
        description="Open a store and serve it to other processes of this machine, which reach it by its directory, or "
        "by the URL that is printed. There is no authentication. SIGTERM ends it in good order.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the store's directory; made if it is not there")
    parser.add_argument(
        "--idle-exit", type=float, metavar="SECONDS", help="end when nobody has called for so long (default: never)"
    )
    parser.add_argument(
        "--bind", default="127.0.0.1:0", metavar="HOST:PORT", help="where to listen (default: a free port of 127.0.0.1)"
    )
    parser.add_argument(
        "--durability",
        choices=("fsync", "os"),
        default="fsync",
        help="whether a write is on the disk, or with the system, when it is acknowledged (default fsync)",
    )
    parser.add_argument(
        "--history-seconds",
        type=int,
        metavar="N",
        help="how long the past can be read; kept with the store (default: what was set last, 7 days at first)",
    )
    parser.add_argument(
        "--store-memory",
        metavar="SIZE",
        help="what the store may keep in memory, such as 2GB (default: a part of this machine's memory)",
    )
    parser.examples = ("nyala serve weather", "nyala serve weather --idle-exit 600")
    parser.set_defaults(run=_serve)


def _add_master(commands: Commands) -> None:
    parser = commands.add_parser(
        "master",
        help="run a master",
        description="Run a master of a cluster: it knows tables and tablet servers. One, or three for a cluster that "
        "outlives the loss of a master. SIGTERM ends it in good order.",
    )
    _add_server(parser, "127.0.0.1:7051")
    parser.add_argument(
        "--dead-after",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="silence after which a tablet server's replicas are made anew elsewhere (default 60)",
    )
    parser.add_argument(
        "--replicas", type=int, default=3, metavar="N", help="replicas of a table that does not say (default 3)"
    )
    parser.examples = (
        "nyala master --dir m1",
        "nyala master --dir m1 --bind 10.0.0.1:7051 --masters 10.0.0.1:7051,10.0.0.2:7051,10.0.0.3:7051",
    )
    parser.set_defaults(run=_master)


def _add_tserver(commands: Commands) -> None:
    parser = commands.add_parser(
        "tserver",
        help="run a tablet server",
        description="Run a tablet server: it holds replicas of tablets. SIGTERM ends it in good order.",
    )
    _add_server(parser, "127.0.0.1:7050")
    parser.add_argument(
        "--data-dir",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help="a further directory for tablets, best on another disk (may be repeated)",
    )
    parser.add_argument(
        "--memory-limit", metavar="SIZE", help="for rows in memory and pages, such as 4GB (default: half the machine's)"
    )
    for name, default, text in (
        ("memrowset-bytes", 128 << 20, "rows of a tablet in memory that are flushed"),
        ("cache-bytes", 512 << 20, "memory for decoded pages"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{text} (default {default})")
    parser.add_argument(
        "--history-seconds",
        type=int,
        default=7 * 24 * 3600,
        metavar="N",
        help="how long the past stays readable (default: a week)",
    )
    parser.examples = (
        "nyala tserver --dir t1 --masters 127.0.0.1:7051",
        "nyala tserver --dir /disk1/t --data-dir /disk2/t --bind 10.0.0.4:7050 --masters 10.0.0.1:7051",
    )
    parser.set_defaults(run=_tserver)


def _add_server(parser: argparse.ArgumentParser, bind: str) -> None:
    parser.add_argument("--dir", type=Path, required=True, metavar="DIR", help="the server's directory")
    parser.add_argument("--bind", default=bind, metavar="HOST:PORT", help=f"where to listen (default {bind})")
    parser.add_argument(
        "--advertise", default="", metavar="HOST:PORT", help="where others reach it (default: where it listens)"
    )
    parser.add_argument(
        "--masters", default="", metavar="HOST:PORT,...", help="all masters of the cluster, this one among them"
    )
    parser.add_argument(
        "--durability",
        choices=("fsync", "os"),
        default="fsync",
        help="whether a replica's log is on the disk, or with the system, when it acknowledges (default fsync)",
    )
    parser.add_argument(
        "--election-timeout",
        type=float,
        default=1.5,
        metavar="SECONDS",
        help="silence of a leader after which another is elected (default 1.5); heartbeats come three times as often",
    )
    parser.add_argument(
        "--address-file", type=Path, metavar="FILE", help="write HOST:PORT here as soon as the server answers"
    )
    _add_tls(parser, "this server's", "TLS: all three, or none for no encryption and no authentication")
    parser.add_argument("--allow-faults", action="store_true", help="let tests make faults; never on a real cluster")


# ---- looking after them ----------------------------------------------------------------------------------------------


def _add_cluster(commands: Commands) -> None:
    cluster = commands.add_parser(
        "cluster",
        help="start, stop, check and balance clusters",
        description="Local clusters of processes, and the health and balance of any cluster.",
    )
    cluster.examples = ("nyala cluster start --tservers 3 --dir demo", "nyala cluster ksck demo --checksum")
    steps = cluster.add_subparsers(title="commands", metavar="COMMAND", required=True)

    start = steps.add_parser(
        "start",
        help="start a cluster on this machine",
        description="Start a cluster of processes on this machine, or those of its servers that do not run. Of a "
        "cluster that is there only the number of tablet servers can be raised.",
    )
    _add_directory(start)
    start.add_argument("--tservers", type=int, metavar="N", help="tablet servers (default 3, or as many as there are)")
    start.add_argument("--masters", type=int, choices=(1, 3), metavar="N", help="1 (default) or 3")
    start.add_argument(
        "--durability",
        choices=("fsync", "os"),
        help="whether a write is on the disk, or with the system, when it is acknowledged (default fsync)",
    )
    start.add_argument(
        "--tls", action="store_true", help="a new cluster with TLS alone, by certificates that are made in DIR"
    )
    start.examples = ("nyala cluster start --tservers 3 --dir demo", "nyala cluster start --dir demo --tls")
    start.set_defaults(run=_start)

    stop = steps.add_parser("stop", help="stop it", description="Stop a local cluster in good order.")
    _add_directory(stop)
    stop.examples = ("nyala cluster stop --dir demo",)
    stop.set_defaults(run=_stop)

    status = steps.add_parser(
        "status",
        help="its servers",
        description="The servers of a local cluster. Exit code 1 where one does not answer.",
    )
    _add_directory(status)
    status.add_argument("--json", action="store_true", help="print as JSON")
    status.examples = ("nyala cluster status --dir demo --json",)
    status.set_defaults(run=_status)

    ksck = steps.add_parser(
        "ksck",
        help="check that it is whole",
        description="Check that every tablet has its replicas and a leader. Exit code 1 where anything is wrong.",
    )
    _add_target(ksck)
    ksck.add_argument("--checksum", action="store_true", help="read all replicas at one time, and compare their sums")
    _add_timeout(ksck, 30.0, "for the masters' answers")
    ksck.add_argument("--json", action="store_true", help="print as JSON")
    ksck.examples = ("nyala cluster ksck demo --checksum", "nyala cluster ksck nyala://10.0.0.1:7051")
    ksck.set_defaults(run=_ksck)

    _add_certificates(steps)

    rebalance = steps.add_parser(
        "rebalance",
        help="spread its replicas and leaders evenly",
        description="Move replicas until all servers carry alike, of each table and in all; then hand leaderships over "
        "until they lead alike.",
    )
    _add_target(rebalance)
    rebalance.add_argument("--dry-run", action="store_true", help="show the moves, and make none")
    _add_timeout(rebalance, 600.0, "for each move")
    rebalance.examples = ("nyala cluster rebalance demo --dry-run",)
    rebalance.set_defaults(run=_rebalance)

    leave = steps.add_parser(
        "leave",
        help="empty a tablet server",
        description="Have the master move all replicas of a tablet server elsewhere, so that it can be stopped. "
        "Refused where the servers that remain are too few for some table's replicas.",
    )
    _add_target(leave)
    leave.add_argument("server", metavar="SERVER", help=_SERVER_HELP)
    leave.add_argument("--undo", action="store_true", help="let it stay after all")
    leave.add_argument("--wait", action="store_true", help="return when it is empty, and say what is left meanwhile")
    _add_timeout(leave, None, "with --wait: give up after so long (default: never); it goes on being emptied")
    leave.examples = (
        "nyala cluster leave demo tserver-2 --wait",
        "nyala cluster leave nyala://10.0.0.1:7051 10.0.0.4:7050 --wait --timeout 600",
    )
    leave.set_defaults(run=_leave)


def _add_certificates(steps: Commands) -> None:
    parser = steps.add_parser(
        "certificates",
        help="make certificates for TLS",
        description="Make a CA, a certificate for each server, and one each for clients and administrators, as PEM "
        "files. A CA that is in the directory is used, and never replaced; certificates that are there stay, unless "
        "--renew is given. Keep ca.key away from the servers: whoever has it can make itself one.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="where the files are, or are made")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME_OR_IP[,...]",
        help="a server, by all names and addresses that others reach it by (may be repeated)",
    )
    parser.add_argument("--days", type=int, metavar="N", help="for which they are valid (default: two years)")
    parser.add_argument("--renew", action="store_true", help="make those anew that are there")
    parser.examples = (
        "nyala cluster certificates certs --host 10.0.0.1 --host 10.0.0.4,tserver1.example.com",
        "nyala cluster certificates certs --host 10.0.0.1 --renew",
    )
    parser.set_defaults(run=_certificates)


def _add_tablet(commands: Commands) -> None:
    tablet = commands.add_parser(
        "tablet",
        help="look at tablets and move them",
        description="The tablets of a cluster: where they are, and moves.",
    )
    tablet.examples = ("nyala tablet list demo", "nyala tablet leader-step-down demo t000001-p0000")
    steps = tablet.add_subparsers(title="commands", metavar="COMMAND", required=True)

    listing = steps.add_parser("list", help="where they are", description="All tablets, their leaders and followers.")
    _add_target(listing)
    listing.add_argument("table", nargs="?", metavar="TABLE", help="of this table alone")
    listing.add_argument("--json", action="store_true", help="print as JSON")
    listing.examples = ("nyala tablet list demo readings",)
    listing.set_defaults(run=_tablets)

    move = steps.add_parser(
        "move", help="move a replica", description="Move one replica: a new one catches up, then the old one goes."
    )
    _add_target(move)
    move.add_argument("tablet", metavar="TABLET", help=_TABLET_HELP)
    move.add_argument("--from", dest="source", required=True, metavar="SERVER", help=_SERVER_HELP)
    move.add_argument("--to", dest="target", required=True, metavar="SERVER", help="likewise")
    _add_timeout(move, 600.0, "for all of it")
    move.examples = (
        "nyala tablet move demo t000001-p0000 --from tserver-1 --to tserver-4",
        "nyala tablet move nyala://10.0.0.1:7051 t000001-p0000 --from 10.0.0.4:7050 --to 10.0.0.5:7050",
    )
    move.set_defaults(run=_move)

    down = steps.add_parser(
        "leader-step-down",
        help="have another replica lead",
        description="Hand a tablet's leadership to another replica.",
    )
    _add_target(down)
    down.add_argument("tablet", metavar="TABLET", help=_TABLET_HELP)
    down.add_argument("--to", metavar="SERVER", help="to this one (default: the one that is furthest)")
    _add_timeout(down, 30.0, "until another one leads")
    down.examples = ("nyala tablet leader-step-down demo t000001-p0000",)
    down.set_defaults(run=_step_down)

    unsafe = steps.add_parser(
        "unsafe-change-config",
        help="give up the lost majority of a tablet",
        description="The last resort for a tablet most of whose replicas are lost for good: one that is left goes on "
        "alone, with what it has. Writes that the others had acknowledged without it are lost. The lost servers must "
        "never run again with their old directories. Further replicas are made from it where there are servers.",
    )
    _add_target(unsafe)
    unsafe.add_argument("tablet", metavar="TABLET", help=_TABLET_HELP)
    unsafe.add_argument("--survivor", required=True, metavar="SERVER", help="with the replica that goes on")
    unsafe.add_argument(
        "--accept-data-loss", action="store_true", help="do it; without this, only what would happen is printed"
    )
    _add_timeout(unsafe, 60.0, "until the tablet has a leader")
    unsafe.examples = ("nyala tablet unsafe-change-config demo t000001-p0000 --survivor tserver-3 --accept-data-loss",)
    unsafe.set_defaults(run=_unsafe_change_config)


def add_client_tls(parser: argparse.ArgumentParser) -> None:
    """Add the options of whoever calls a cluster with TLS."""
    about = "TLS: all three, of a cluster that has it; by default those that the environment names: "
    _add_tls(parser, "the caller's", about + ", ".join(f"NYALA_TLS_{name.upper()}" for name, _ in _TLS_HELP))


def _add_tls(parser: argparse.ArgumentParser, whose: str, about: str) -> None:
    group = parser.add_argument_group("TLS", about.removeprefix("TLS: "))
    for name, text in _TLS_HELP:
        group.add_argument(f"--tls-{name}", metavar="FILE", help=text.format(whose=whose))


def _add_directory(parser: Any) -> None:
    _add_first(parser, "directory", "DIR", Path, "the cluster's directory")


def _add_target(parser: Any) -> None:
    _add_first(parser, "cluster", "CLUSTER", str, _CLUSTER_HELP)
    add_client_tls(parser)


def _add_first(parser: Any, name: str, metavar: str, kind: Callable[[str], object], text: str) -> None:
    """A first argument that may be given as `--dir` as well (`directory_first`)."""
    parser.add_argument(name, type=kind, metavar=metavar, help=f"{text}; --dir {metavar} says the same")
    parser.takes_directory = True


def directory_first(words: Sequence[str]) -> list[str]:
    """A command's arguments with what `--dir` says in front.

    >>> directory_first(["tserver-2", "--dir", "demo", "--wait"])
    ['demo', 'tserver-2', '--wait']
    """
    words = list(words)
    for place, word in enumerate(words):
        if word == "--":
            break
        if word.startswith("--dir="):
            return [word.partition("=")[2], *words[:place], *words[place + 1 :]]
        if word == "--dir" and place + 1 < len(words):
            return [words[place + 1], *words[:place], *words[place + 2 :]]
    return words


def _add_timeout(parser: argparse.ArgumentParser, default: float | None, text: str) -> None:
    shown = "" if default is None else f" (default {default:g})"
    parser.add_argument("--timeout", type=_seconds, default=default, metavar="SECONDS", help=text + shown)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds above 0")
    return seconds


# ---- handlers --------------------------------------------------------------------------------------------------------


def _serve(arguments: argparse.Namespace) -> int:
    from .serve_command import serve_command

    return serve_command(arguments)


def _master(arguments: argparse.Namespace) -> int:
    from .server_command import master_command

    return master_command(arguments)


def _tserver(arguments: argparse.Namespace) -> int:
    from .server_command import tserver_command

    return tserver_command(arguments)


def _start(arguments: argparse.Namespace) -> int:
    from .cluster_command import start_command

    return start_command(arguments)


def _stop(arguments: argparse.Namespace) -> int:
    from .cluster_command import stop_command

    return stop_command(arguments)


def _status(arguments: argparse.Namespace) -> int:
    from .cluster_command import status_command

    return status_command(arguments)


def _certificates(arguments: argparse.Namespace) -> int:
    from .certificates_command import certificates_command

    return certificates_command(arguments)


def _ksck(arguments: argparse.Namespace) -> int:
    from .cluster_command import ksck_command

    return ksck_command(arguments)


def _rebalance(arguments: argparse.Namespace) -> int:
    from .cluster_command import rebalance_command

    return rebalance_command(arguments)


def _leave(arguments: argparse.Namespace) -> int:
    from .cluster_command import leave_command

    return leave_command(arguments)


def _tablets(arguments: argparse.Namespace) -> int:
    from .cluster_command import tablets_command

    return tablets_command(arguments)


def _move(arguments: argparse.Namespace) -> int:
    from .cluster_command import move_command

    return move_command(arguments)


def _step_down(arguments: argparse.Namespace) -> int:
    from .cluster_command import step_down_command

    return step_down_command(arguments)


def _unsafe_change_config(arguments: argparse.Namespace) -> int:
    from .cluster_command import unsafe_change_config_command

    return unsafe_change_config_command(arguments)
