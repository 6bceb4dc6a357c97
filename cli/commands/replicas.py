"""`nyala replica`: commands for the files of a tablet server that does not run."""

from __future__ import annotations

from pathlib import Path

from ...command_line import Command, argument

_SERVER = argument("directory", type=Path, metavar="DIR", help="the --dir of a tablet server that does not run")
_TABLET = argument("tablet", metavar="TABLET", help="its id")

REPLICA = Command(
    "replica",
    "list and delete replicas of a stopped server",
    "Work on the replicas in the directories of a tablet server that does not run. For those of a running one, use "
    "`nyala tablet`.",
    examples=("nyala replica list demo/tserver-2",),
    commands=(
        Command(
            "list",
            "list the replicas of a stopped server",
            "List the replicas with the states of their files. Exit code 1 if one cannot be read.",
            handler="cli.replica_command:list_command",
            arguments=(_SERVER, argument("--json", action="store_true", help="print as JSON")),
            examples=("nyala replica list demo/tserver-2 --json",),
        ),
        Command(
            "delete",
            "delete the data of a replica",
            "Delete the data of a replica that keeps its server from starting, or takes space that is needed at once. "
            "A tombstone with its term and vote stays. If the server is still a peer of the tablet, the leader sends a "
            "copy when the server has started.",
            handler="cli.replica_command:delete_command",
            arguments=(
                _SERVER,
                _TABLET,
                argument(
                    "--accept-data-loss",
                    action="store_true",
                    help="delete it; without this, only print the effects",
                ),
            ),
            examples=("nyala replica delete demo/tserver-2 t000001-p0000 --accept-data-loss",),
        ),
    ),
)
