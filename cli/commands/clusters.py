"""The commands for clusters: `nyala cluster` and `nyala tablet`."""

from __future__ import annotations

from pathlib import Path

from ...command_line import Command, argument
from .common import ACCEPT_DATA_LOSS, CLUSTER_ARGUMENTS, timeout
from .masters import MASTER_CHANGES

_DIRECTORY = argument("directory", type=Path, metavar="DIR", help="the cluster's directory; or as --dir DIR")
_SERVER_HELP = "its address, its id, or its name in a local cluster (tserver-2)"
_TABLET_HELP = "its id, or a unique prefix of it"


_CERTIFICATES = Command(
    "certificates",
    "make certificates for TLS",
    "Make a CA, a certificate for each server, and one each for clients and administrators, as PEM "
    "files. An existing CA in the directory is used, and never replaced; existing certificates stay, unless "
    "--renew is given. Keep ca.key away from the servers: with it, certificates can be made.",
    handler="cli.certificates_command:certificates_command",
    arguments=(
        argument("directory", type=Path, metavar="DIR", help="directory of the files"),
        argument(
            "--host",
            action="append",
            default=[],
            metavar="NAME_OR_IP[,...]",
            help="all names and addresses of a server that others connect to (may be repeated)",
        ),
        argument("--days", type=int, metavar="N", help="days of validity (default: two years)"),
        argument("--renew", action="store_true", help="replace existing certificates"),
    ),
    examples=(
        "nyala cluster certificates certs --host 10.0.0.1 --host 10.0.0.4,tserver1.example.com",
        "nyala cluster certificates certs --host 10.0.0.1 --renew",
    ),
)

_MAINTAIN = Command(
    "maintain",
    "expect a tablet server to be away",
    "Begin the maintenance of a tablet server: while it is away, the master does not copy its replicas to other "
    "servers, and it gets no new ones. The masters store that until --end.",
    handler="cli.absence_command:maintain_command",
    first_is_dir=True,
    arguments=(
        *CLUSTER_ARGUMENTS,
        argument("server", metavar="SERVER", help=_SERVER_HELP),
        argument("--end", action="store_true", help="end the maintenance"),
    ),
    examples=("nyala cluster maintain demo tserver-2", "nyala cluster maintain demo tserver-2 --end"),
)

_QUIESCE = Command(
    "quiesce",
    "prepare a tablet server for a stop",
    "Have a tablet server transfer its leaderships, get no new ones, and refuse new scans, which go to other servers; "
    "running scans continue. It ends with --end, or when the server is restarted.",
    handler="cli.absence_command:quiesce_command",
    first_is_dir=True,
    arguments=(
        *CLUSTER_ARGUMENTS,
        argument("server", metavar="SERVER", help=_SERVER_HELP),
        argument("--end", action="store_true", help="lead tablets and accept scans again"),
        argument("--status", action="store_true", help="only print the leaderships and scans that are left"),
        argument("--wait", action="store_true", help="return when no leadership and no scan is left"),
        timeout(60.0, "with --wait: stop waiting after this time"),
    ),
    examples=(
        "nyala cluster quiesce demo tserver-2 --wait",
        "nyala cluster quiesce demo tserver-2 --status",
        "nyala cluster quiesce demo tserver-2 --end",
    ),
)

CLUSTER = Command(
    "cluster",
    "start, stop, check and balance clusters",
    "Manage clusters on this machine; check and balance any cluster.",
    examples=("nyala cluster start --tservers 3 --dir demo", "nyala cluster ksck demo --checksum"),
    commands=(
        Command(
            "start",
            "start a cluster on this machine",
            "Start a cluster of processes on this machine, or those of its servers that do not run. For an "
            "existing cluster, only the number of tablet servers can be raised.",
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
                    help="acknowledge a write when it is on the disk, or passed to the system (default fsync)",
                ),
                argument(
                    "--tls",
                    action="store_true",
                    help="a new cluster that requires TLS, with certificates made in DIR",
                ),
            ),
            examples=("nyala cluster start --tservers 3 --dir demo", "nyala cluster start --dir demo --tls"),
        ),
        Command(
            "stop",
            "stop a cluster on this machine",
            "Stop a local cluster cleanly.",
            handler="cli.cluster_command:stop_command",
            first_is_dir=True,
            arguments=(_DIRECTORY,),
            examples=("nyala cluster stop --dir demo",),
        ),
        Command(
            "status",
            "list the servers of a cluster on this machine",
            "List the servers of a local cluster. Exit code 1 if one does not respond.",
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
            "check the health of a cluster",
            "Check that every tablet has its replicas and a leader. Exit code 1 if there are errors.",
            handler="cli.cluster_command:ksck_command",
            first_is_dir=True,
            arguments=(
                *CLUSTER_ARGUMENTS,
                argument(
                    "--checksum",
                    action="store_true",
                    help="read all replicas at one snapshot, and compare their checksums",
                ),
                timeout(30.0, "time limit for responses of the masters"),
                argument("--json", action="store_true", help="print as JSON"),
            ),
            examples=("nyala cluster ksck demo --checksum", "nyala cluster ksck nyala://10.0.0.1:7051"),
        ),
        _CERTIFICATES,
        Command(
            "rebalance",
            "distribute replicas and leaders evenly",
            "Move replicas until all servers have equal numbers, for each table and in total; then transfer "
            "leaderships until these are equal, too.",
            handler="cli.cluster_command:rebalance_command",
            first_is_dir=True,
            arguments=(
                *CLUSTER_ARGUMENTS,
                argument("--dry-run", action="store_true", help="print the moves without making them"),
                timeout(600.0, "time limit for each move"),
            ),
            examples=("nyala cluster rebalance demo --dry-run",),
        ),
        Command(
            "leave",
            "empty a tablet server",
            "Have the master move all replicas of a tablet server to others, so that it can be stopped. "
            "Refused if the remaining servers are too few for a table's replicas.",
            handler="cli.cluster_command:leave_command",
            first_is_dir=True,
            arguments=(
                *CLUSTER_ARGUMENTS,
                argument("server", metavar="SERVER", help=_SERVER_HELP),
                argument("--undo", action="store_true", help="cancel the leave"),
                argument(
                    "--wait", action="store_true", help="return when it is empty, and print the remaining replicas"
                ),
                timeout(None, "with --wait: stop waiting after this time (default: never); the moves continue"),
            ),
            examples=(
                "nyala cluster leave demo tserver-2 --wait",
                "nyala cluster leave nyala://10.0.0.1:7051 10.0.0.4:7050 --wait --timeout 600",
            ),
        ),
        _MAINTAIN,
        _QUIESCE,
        *MASTER_CHANGES,
    ),
)

TABLET = Command(
    "tablet",
    "list tablets and move them",
    "List and move the tablets of a cluster.",
    examples=("nyala tablet list demo", "nyala tablet leader-step-down demo t000001-p0000"),
    commands=(
        Command(
            "list",
            "list tablets and their replicas",
            "List all tablets with their leaders and followers.",
            handler="cli.cluster_command:tablets_command",
            first_is_dir=True,
            arguments=(
                *CLUSTER_ARGUMENTS,
                argument("table", nargs="?", metavar="TABLE", help="only this table"),
                argument("--json", action="store_true", help="print as JSON"),
            ),
            examples=("nyala tablet list demo readings",),
        ),
        Command(
            "move",
            "move a replica",
            "Move one replica: a new one catches up, then the old one is removed.",
            handler="cli.cluster_command:move_command",
            first_is_dir=True,
            arguments=(
                *CLUSTER_ARGUMENTS,
                argument("tablet", metavar="TABLET", help=_TABLET_HELP),
                argument("--from", dest="source", required=True, metavar="SERVER", help=_SERVER_HELP),
                argument(
                    "--to",
                    dest="target",
                    required=True,
                    metavar="SERVER",
                    help="the target server, named in the same way",
                ),
                timeout(600.0, "time limit for the whole move"),
            ),
            examples=(
                "nyala tablet move demo t000001-p0000 --from tserver-1 --to tserver-4",
                "nyala tablet move nyala://10.0.0.1:7051 t000001-p0000 --from 10.0.0.4:7050 --to 10.0.0.5:7050",
            ),
        ),
        Command(
            "leader-step-down",
            "transfer leadership",
            "Transfer a tablet's leadership to another replica.",
            handler="cli.cluster_command:step_down_command",
            first_is_dir=True,
            arguments=(
                *CLUSTER_ARGUMENTS,
                argument("tablet", metavar="TABLET", help=_TABLET_HELP),
                argument("--to", metavar="SERVER", help="the new leader (default: the replica with the longest log)"),
                timeout(30.0, "until another replica leads"),
            ),
            examples=("nyala tablet leader-step-down demo t000001-p0000",),
        ),
        Command(
            "unsafe-change-config",
            "abandon the lost majority of a tablet",
            "The last resort for a tablet with a permanently lost majority: one surviving replica continues "
            "with its data, and others follow it if they are named, too. Writes that the lost ones acknowledged "
            "without it are lost. The lost servers must never run again with their old directories. Further replicas "
            "are copied from it if there are servers.",
            handler="cli.cluster_command:unsafe_change_config_command",
            first_is_dir=True,
            arguments=(
                *CLUSTER_ARGUMENTS,
                argument("tablet", metavar="TABLET", help=_TABLET_HELP),
                argument(
                    "--survivor",
                    required=True,
                    action="append",
                    metavar="SERVER",
                    help="server of the surviving replica whose data count; repeated: of another survivor",
                ),
                ACCEPT_DATA_LOSS,
                timeout(60.0, "until the tablet has a leader"),
            ),
            examples=("nyala tablet unsafe-change-config demo t000001-p0000 --survivor tserver-3 --accept-data-loss",),
        ),
    ),
)
