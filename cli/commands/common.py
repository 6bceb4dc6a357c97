"""Options that several commands have in common."""

from __future__ import annotations

from pathlib import Path

from ...command_line import Argument, argument, seconds

STORE = "a store's directory, or nyala://HOST:PORT"
MAINTENANCE_IO_LIMIT = argument(
    "--maintenance-io-limit",
    metavar="SIZE",
    help="bytes per second that flushes, compactions and other background work may read and write, such as 50MB "
    "(default: no limit)",
)
IO_LIMIT = argument(
    "--io-limit", metavar="SIZE", help="bytes per second to read and write, such as 50MB (default: no limit)"
)
LOGS = (
    argument("--log", type=Path, metavar="FILE", help="write the server's log to this file (default: standard error)"),
    argument(
        "--log-size",
        metavar="SIZE",
        help="size at which --log, --audit and --slow-log are renamed to FILE.1 (default 64MB; 0: never)",
    ),
    argument("--log-files", type=int, default=8, metavar="N", help="number of such files that are kept (default 8)"),
    argument("--log-days", type=float, default=90.0, metavar="DAYS", help="age at which they are removed (default 90)"),
)
"""The log of a server, and how much of its logs is kept."""
_TLS_HELP = (
    ("ca", "the PEM file with the certificate of the cluster's CA"),
    ("cert", "the PEM file with {whose} certificate, which that CA has signed"),
    ("key", "the PEM file with the key of that certificate"),
)


def tls_options(whose: str, about: str) -> tuple[Argument, ...]:
    """The options of TLS: `whose` certificate is named, and a sentence about all three."""
    return tuple(
        argument(f"--tls-{name}", group=("TLS", about), metavar="FILE", help=text.format(whose=whose))
        for name, text in _TLS_HELP
    )


CLIENT_TLS = tls_options(
    "the caller's",
    "all three, for a cluster that uses TLS; by default those of the environment variables "
    + ", ".join(f"NYALA_TLS_{name.upper()}" for name, _ in _TLS_HELP),
)
"""The options of a client of a cluster with TLS."""

CLUSTER_ARGUMENTS = (
    argument(
        "cluster",
        type=str,
        metavar="CLUSTER",
        help="the directory of a local cluster, or nyala://HOST:PORT of its masters; or as --dir CLUSTER",
    ),
    *CLIENT_TLS,
)
"""The cluster that a command is about, with the options of its client."""


ACCEPT_DATA_LOSS = argument(
    "--accept-data-loss", action="store_true", help="apply the change; without this, only print its effects"
)
"""Of commands that begin with `arguments.accepts_data_loss`."""


def timeout(default: float | None, text: str) -> Argument:
    """The option --timeout of a command."""
    shown = "" if default is None else f" (default {default:g})"
    return argument("--timeout", type=seconds, default=default, metavar="SECONDS", help=text + shown)
