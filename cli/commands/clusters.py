"""The commands that look after clusters: `nyala cluster` and `nyala tablet`."""

from __future__ import annotations

from pathlib import Path

from ...command_line import Argument, Command, argument, seconds
from .common import CLIENT_TLS

_DIRECTORY = argument("directory", type=Path, metavar="DIR", help="the cluster's directory; --dir DIR says the same")
_CLUSTER = (
    argument(
        "cluster",
        type=str,
        metavar="CLUSTER",
        help="the directory of a local cluster, or nyala://HOST:PORT of its masters; --dir CLUSTER says the same",
    ),
    *CLIENT_TLS,
)
_SERVER_HELP = "its address, its id, or its name in a local cluster (tserver-2)"
_TABLET_HELP = "its id, or the beginning of it that no other has"


def _timeout(default: float | None, text: str) -> Argument:
    shown = "" if default is None else f" (default {default:g})"
    return argument("--timeout", type=seconds, default=default, metavar="SECONDS", help=text + shown)


_CERTIFICATES = Command(
    "certificates",
    "make certificates for TLS",
    "Make a CA, a certificate for each server, and one each for clients and administrators, as PEM "
    "files. A CA that is in the directory is used, and never replaced; certificates that are there stay, unless "
    "--renew is given. Keep ca.key away from the servers: whoever has it can make itself one.",
    handler="cli.certificates_command:certificates_command",
    arguments=(
        argument("directory", type=Path, metavar="DIR", help="where the files are, or are made"),
        argument(
            "--host",
            action="append",
            default=[],
            metavar="NAME_OR_IP[,...]",
            help="a server, by all names and addresses that others reach it by (may be repeated)",
        ),
        argument("--days", type=int, metavar="N", help="for which they are valid (default: two years)"),
        argument("--renew", action="store_true", help="make those anew that are there"),
    ),
    examples=(
        "nyala cluster certificates certs --host 10.0.0.1 --host 10.0.0.4,tserver1.example.com",
        "nyala cluster certificates certs --host 10.0.0.1 --renew",
    ),
)

CLUSTER = Command(
    "cluster",
    "start, stop, check and balance clusters",
    "Local clusters of processes, and the health and balance of any cluster.",
    examples=("nyala cluster start --tservers 3 --dir demo", "nyala cluster ksck demo --checksum"),
    commands=(
        Command(
            "start",
            "start a cluster on this machine",
            "Start a cluster of processes on this machine, or those of its servers that do not run. Of a "
            "cluster that is there only the number of tablet servers can be raised.",
            handler="cli.cluster_command:start_command",
            first_is_dir=True,
            arguments=(
                _DIRECTORY,
                argument(
                    "--tservers", type=int, metavar="N", help="tablet servers (default 3, or as many as there are)"
                ),
                argument("--masters", type=int, choices=(1, 3), metavar="N", help="1 (default) or 3"),
                argument(
                    "--durability",
                    choices=("fsync", "os"),
                    help="whether a write is on the disk, or with the system, when it is acknowledged (default fsync)",
                ),
                argument(
                    "--tls",
                    action="store_true",
                    help="a new cluster with TLS alone, by certificates that are made in DIR",
                ),
            ),
            examples=("nyala cluster start --tservers 3 --dir demo", "nyala cluster start --dir demo --tls"),
        ),
        Command(
            "stop",
            "stop it",
            "Stop a local cluster in good order.",
            handler="cli.cluster_command:stop_command",
            first_is_dir=True,
            arguments=(_DIRECTORY,),
            examples=("nyala cluster stop --dir demo",),
        ),
        Command(
            "status",
            "its servers",
            "The servers of a local cluster. Exit code 1 where one does not answer.",
            handler="cli.cluster_command:status_command",
            first_is_dir=True,
            arguments=(
                _DIRECTORY,
                argument("--json", action="store_true", help="print as JSON"),
            ),
            examples=("nyala cluster status --dir demo --json",),
        ),
        Command(
            "ksck",
            "check that it is whole",
            "Check that every tablet has its replicas and a leader. Exit code 1 where anything is wrong.",
            handler="cli.cluster_command:ksck_command",
            first_is_dir=True,
            arguments=(
                *_CLUSTER,
                argument(
                    "--checksum", action="store_true", help="read all replicas at one time, and compare their sums"
                ),
                _timeout(30.0, "for the masters' answers"),
                argument("--json", action="store_true", help="print as JSON"),
            ),
            examples=("nyala cluster ksck demo --checksum", "nyala cluster ksck nyala://10.0.0.1:7051"),
        ),
        _CERTIFICATES,
        Command(
            "rebalance",
            "spread its replicas and leaders evenly",
            "Move replicas until all servers carry alike, of each table and in all; then hand leaderships over "
            "until they lead alike.",
            handler="cli.cluster_command:rebalance_command",
            first_is_dir=True,
            arguments=(
                *_CLUSTER,
                argument("--dry-run", action="store_true", help="show the moves, and make none"),
                _timeout(600.0, "for each move"),
            ),
            examples=("nyala cluster rebalance demo --dry-run",),
        ),
        Command(
            "leave",
            "empty a tablet server",
            "Have the master move all replicas of a tablet server elsewhere, so that it can be stopped. "
            "Refused where the servers that remain are too few for some table's replicas.",
            handler="cli.cluster_command:leave_command",
            first_is_dir=True,
            arguments=(
                *_CLUSTER,
                argument("server", metavar="SERVER", help=_SERVER_HELP),
                argument("--undo", action="store_true", help="let it stay after all"),
                argument("--wait", action="store_true", help="return when it is empty, and say what is left meanwhile"),
                _timeout(None, "with --wait: give up after so long (default: never); it goes on being emptied"),
            ),
            examples=(
                "nyala cluster leave demo tserver-2 --wait",
                "nyala cluster leave nyala://10.0.0.1:7051 10.0.0.4:7050 --wait --timeout 600",
            ),
        ),
    ),
)

TABLET = Command(
    "tablet",
    "look at tablets and move them",
    "The tablets of a cluster: where they are, and moves.",
    examples=("nyala tablet list demo", "nyala tablet leader-step-down demo t000001-p0000"),
    commands=(
        Command(
            "list",
            "where they are",
            "All tablets, their leaders and followers.",
            handler="cli.cluster_command:tablets_command",
            first_is_dir=True,
            arguments=(
                *_CLUSTER,
                argument("table", nargs="?", metavar="TABLE", help="of this table alone"),
                argument("--json", action="store_true", help="print as JSON"),
            ),
            examples=("nyala tablet list demo readings",),
        ),
        Command(
            "move",
            "move a replica",
            "Move one replica: a new one catches up, then the old one goes.",
            handler="cli.cluster_command:move_command",
            first_is_dir=True,
            arguments=(
                *_CLUSTER,
                argument("tablet", metavar="TABLET", help=_TABLET_HELP),
                argument("--from", dest="source", required=True, metavar="SERVER", help=_SERVER_HELP),
                argument("--to", dest="target", required=True, metavar="SERVER", help="likewise"),
                _timeout(600.0, "for all of it"),
            ),
            examples=(
                "nyala tablet move demo t000001-p0000 --from tserver-1 --to tserver-4",
                "nyala tablet move nyala://10.0.0.1:7051 t000001-p0000 --from 10.0.0.4:7050 --to 10.0.0.5:7050",
            ),
        ),
        Command(
            "leader-step-down",
            "have another replica lead",
            "Hand a tablet's leadership to another replica.",
            handler="cli.cluster_command:step_down_command",
            first_is_dir=True,
            arguments=(
                *_CLUSTER,
                argument("tablet", metavar="TABLET", help=_TABLET_HELP),
                argument("--to", metavar="SERVER", help="to this one (default: the one that is furthest)"),
                _timeout(30.0, "until another one leads"),
            ),
            examples=("nyala tablet leader-step-down demo t000001-p0000",),
        ),
        Command(
            "unsafe-change-config",
            "give up the lost majority of a tablet",
            "The last resort for a tablet most of whose replicas are lost for good: one that is left goes on "
            "alone, with what it has. Writes that the others had acknowledged without it are lost. The lost "
            "servers must "
            "never run again with their old directories. Further replicas are made from it where there are servers.",
            handler="cli.cluster_command:unsafe_change_config_command",
            first_is_dir=True,
            arguments=(
                *_CLUSTER,
                argument("tablet", metavar="TABLET", help=_TABLET_HELP),
                argument("--survivor", required=True, metavar="SERVER", help="with the replica that goes on"),
                argument(
                    "--accept-data-loss",
                    action="store_true",
                    help="do it; without this, only what would happen is printed",
                ),
                _timeout(60.0, "until the tablet has a leader"),
            ),
            examples=("nyala tablet unsafe-change-config demo t000001-p0000 --survivor tserver-3 --accept-data-loss",),
        ),
    ),
)
