"""The commands that change the set of masters: `nyala cluster add-master` and others."""

from __future__ import annotations

from ...command_line import Command, argument
from .common import ACCEPT_DATA_LOSS, CLUSTER_ARGUMENTS, timeout

_MASTER = "its address as HOST:PORT, or its name in a local cluster (master-2)"
_STARTED = (
    "a process of `nyala master` that waits there, with an empty directory, and the present masters as its --masters"
)
_LOCAL = "; without it, the process of a local cluster is started"
_SECONDS = 600.0

MASTER_CHANGES = (
    Command(
        "masters",
        "list the masters",
        "List the masters of a cluster. A VOTER counts in majorities; a PRE_VOTER is being added.",
        handler="cli.masters_command:list_command",
        first_is_dir=True,
        arguments=(
            *CLUSTER_ARGUMENTS,
            argument("--json", action="store_true", help="print as JSON"),
            timeout(30.0, "until a master leads"),
        ),
        examples=("nyala cluster masters demo",),
    ),
    Command(
        "add-master",
        "add a master",
        "Add a master to those of a running cluster. It copies the catalog, catches up, and gets a vote then. "
        "May be repeated.",
        handler="cli.masters_command:add_command",
        first_is_dir=True,
        arguments=(
            *CLUSTER_ARGUMENTS,
            argument("address", nargs="?", metavar="HOST:PORT", help=f"address of {_STARTED}{_LOCAL}"),
            timeout(_SECONDS, "until the master has a vote"),
        ),
        examples=("nyala cluster add-master demo", "nyala cluster add-master nyala://10.0.0.1:7051 10.0.0.2:7051"),
    ),
    Command(
        "remove-master",
        "remove a master, dead or alive",
        "Remove a master. Refused unless a majority of the others is running. A leading master transfers its "
        "leadership first. May be repeated.",
        handler="cli.masters_command:remove_command",
        first_is_dir=True,
        arguments=(
            *CLUSTER_ARGUMENTS,
            argument("master", metavar="MASTER", help=_MASTER),
            timeout(60.0, "until it is removed"),
        ),
        examples=(
            "nyala cluster remove-master demo master-2",
            "nyala cluster remove-master nyala://10.0.0.1:7051 10.0.0.2:7051",
        ),
    ),
    Command(
        "replace-master",
        "replace a master by another one",
        "Remove a dead master, then add another one; or add another one, then remove one that is alive. May be "
        "repeated after an interruption at any point.",
        handler="cli.masters_command:replace_command",
        first_is_dir=True,
        arguments=(
            *CLUSTER_ARGUMENTS,
            argument("master", metavar="MASTER", help=f"the master to remove: {_MASTER}"),
            argument("address", nargs="?", metavar="HOST:PORT", help=f"address of {_STARTED}{_LOCAL}"),
            timeout(_SECONDS, "until the new master has a vote, and the other one is removed"),
        ),
        examples=(
            "nyala cluster replace-master demo master-2",
            "nyala cluster replace-master nyala://10.0.0.1:7051,10.0.0.3:7051 10.0.0.2:7051 10.0.0.9:7051",
        ),
    ),
    Command(
        "unsafe-change-masters",
        "abandon the lost majority of the masters",
        "The last resort when a majority of the masters is permanently lost: one surviving master continues with its "
        "catalog, and others follow it if they are named, too. Changes of tables that the lost ones acknowledged "
        "without it are lost. The lost masters must never run again with their old directories.",
        handler="cli.masters_command:unsafe_change_command",
        first_is_dir=True,
        arguments=(
            *CLUSTER_ARGUMENTS,
            argument(
                "--survivor",
                required=True,
                action="append",
                metavar="MASTER",
                help="surviving master whose catalog counts; repeated: another survivor",
            ),
            ACCEPT_DATA_LOSS,
            timeout(60.0, "until a master leads"),
        ),
        examples=("nyala cluster unsafe-change-masters demo --survivor master-3 --accept-data-loss",),
    ),
)
