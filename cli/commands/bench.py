"""`nyala bench`: the benchmarks of a checkout, or where to get them.

The package that pip installs from a wheel has none: they compare nyala with a dozen other stores, and their figures
mean something only beside the code that they measured.
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
    "benchmarks beside other stores (in a checkout)",
    ADVICE,
    handler="cli.commands.bench:refuse",
    arguments=(argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND", help="as in a checkout"),),
)


def bench_command() -> Command:
    """`nyala bench`, with all of its commands where this is a checkout."""
    if importlib.util.find_spec("...bench", __package__) is None:
        return _ADVISE
    from ...bench.arguments import BENCH

    return BENCH


def refuse(arguments: argparse.Namespace) -> int:
    """Say where the benchmarks are."""
    raise NotSupportedError(ADVICE)
