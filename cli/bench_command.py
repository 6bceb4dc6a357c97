"""`nyala bench`: the benchmarks of a checkout, or where to get them.

The package that pip installs from a wheel has none: they compare nyala with a dozen other stores, and their figures
mean something only beside the code that they measured.
"""

from __future__ import annotations

import argparse
import importlib.util
from typing import Any

from ..errors import NotSupportedError

ADVICE = (
    "benchmarks are not part of the installed package: in a checkout of nyala's repository, run "
    '`pip install -e ".[bench,tpch]"`, then `nyala bench --help`'
)


def add_bench(commands: Any) -> None:
    """Add `nyala bench`, with all of its commands where this is a checkout."""
    if importlib.util.find_spec("..bench", __package__) is not None:
        from ..bench.arguments import add_bench_commands

        add_bench_commands(commands)
        return
    parser = commands.add_parser("bench", help="benchmarks beside other stores (in a checkout)", description=ADVICE)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="COMMAND", help="as in a checkout")
    parser.set_defaults(run=_refuse)


def _refuse(arguments: argparse.Namespace) -> int:
    raise NotSupportedError(ADVICE)
