"""`nyala bench`: the benchmarks of a checkout, or advice on getting them.

The package that pip installs from a wheel has none: they compare nyala with a dozen other stores, and their figures
are meaningful only with the code that they measured.
"""

from __future__ import annotations

import argparse
import importlib.util

from ...command_line import Command, argument
from ...errors import NotSupportedError

ADVICE = (
    "benchmarks are not part of the installed package: in a checkout of nyala's repository, run "
    '`pip install -e ".[bench,tpch]"`, then `nyala bench --help`'
)
_ADVISE = Command(
    "bench",
    "benchmarks against other stores (in a checkout)",
    ADVICE,
    handler="cli.commands.bench:refuse",
    arguments=(argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND", help="as in a checkout"),),
)


def bench_command() -> Command:
    """`nyala bench`, with all of its commands in a checkout."""
    if importlib.util.find_spec("...bench", __package__) is None:
        return _ADVISE
    from ...bench.arguments import BENCH

    return BENCH


def refuse(arguments: argparse.Namespace) -> int:
    """Raise an error that says where the benchmarks are."""
    raise NotSupportedError(ADVICE)
