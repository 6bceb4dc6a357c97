"""`nyala serve`: a directory's store for other processes, until SIGTERM or until nobody needs it."""

from __future__ import annotations

import argparse

from ..cluster.owner.process import OwnerOptions, run
from ..errors import InterfaceError
from ..executor.fragments.evaluate import table_evaluator


def serve_command(arguments: argparse.Namespace) -> int:
    """`nyala serve`; its URL is what it prints."""
    if arguments.idle_exit is not None and arguments.idle_exit <= 0:
        raise InterfaceError(f"--idle-exit {arguments.idle_exit:g}: a number of seconds above 0 is needed")
    options = OwnerOptions(
        directory=str(arguments.directory),
        bind=arguments.bind,
        idle_exit=arguments.idle_exit,
        durability=arguments.durability,
    )
    return run(options, fragments=table_evaluator, ready=lambda address: print(f"nyala://{address}", flush=True))
