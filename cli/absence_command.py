"""`nyala cluster maintain` and `nyala cluster quiesce`: planned absences of tablet servers."""

from __future__ import annotations

import argparse
import sys

from ..cluster.admin.planned_absence import PlannedAbsence
from ..errors import InterfaceError
from .cluster_connection import connected


def maintain_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster maintain`."""
    with connected(arguments) as reached:
        absence = PlannedAbsence(reached.channels, reached.masters, arguments.server, reached.local)
        absence.maintain(not arguments.end)
    if arguments.end:
        print(f"{absence.name} is not in maintenance: its replicas are copied to others if it is away for long")
    else:
        print(f"{absence.name} is in maintenance: its replicas are not copied to others, until --end")
    return 0


def quiesce_command(arguments: argparse.Namespace) -> int:
    """`nyala cluster quiesce`."""
    if arguments.end and (arguments.status or arguments.wait):
        raise InterfaceError("--end goes with neither --status nor --wait")
    action = "end" if arguments.end else "status" if arguments.status else "begin"
    with connected(arguments) as reached:
        absence = PlannedAbsence(reached.channels, reached.masters, arguments.server, reached.local)
        status = absence.quiesce(action)
        if arguments.wait:
            status = absence.wait_idle(lambda told: print(told, file=sys.stderr, flush=True), arguments.timeout)
    print(absence.describe(status))
    return 0
