"""The command `nyala diagnose`."""

from __future__ import annotations

from pathlib import Path

from ...command_line import Command, argument
from .common import CLIENT_TLS, STORE

DIAGNOSE = Command(
    "diagnose",
    "write an archive for a report about a problem",
    "Write one zip archive with versions, settings, metrics, statements and plans without literals, definitions, "
    "states of tablets, sizes of files and ends of logs. It has no values of rows and no passwords. Changes nothing; "
    "the store may be open, closed or damaged.",
    handler="cli.diagnose_command:diagnose_command",
    arguments=(
        argument("target", metavar="STORE", help=STORE),
        argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the archive to write: NAME.zip"),
        *CLIENT_TLS,
    ),
    examples=("nyala diagnose weather -o weather.zip", "nyala diagnose nyala://db1:7050 -o cluster.zip"),
)
