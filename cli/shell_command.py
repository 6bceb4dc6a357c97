"""`nyala shell`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from ..driver.connection import connect
from ..shell.commands.rerun import read_file
from ..shell.output import OutputFile
from ..shell.serving import is_directory, note_new
from ..shell.shell import Shell
from .arguments import given_tls


def main(arguments: argparse.Namespace) -> int:
    """Run `-c`, `-f`, a pipe, or a session at the terminal; the exit code."""
    target = ":memory:" if arguments.target is None else arguments.target
    given = {"threads": arguments.threads, "engine": arguments.engine, **given_tls(arguments)}
    options = {name: value for name, value in given.items() if value is not None}
    sources = _sources(arguments)
    file = None if arguments.output is None else OutputFile(arguments.output, arguments.format)
    note_new(target)
    with connect(target, **options) as connection:
        shell = Shell(
            connection,
            format=arguments.format or "table",
            timing=arguments.timing,
            keep_going=arguments.keep_going,
            screen=sys.stdout.isatty(),
            target=target,
        )
        try:
            shell.file = file
            if sources is None and sys.stdin.isatty():
                return _interact(shell, rc=not arguments.no_rc, serve=not arguments.no_serve)
            return _run(shell, [sys.stdin] if sources is None else ([text] for text in sources))
        finally:
            shell.close()


def _sources(arguments: argparse.Namespace) -> list[str] | None:
    """The texts of `-f` and `-c`, files first; None where neither is given."""
    texts = [read_file(path) for path in arguments.file or ()]
    texts += arguments.command or ()
    return texts or None


def _run(shell: Shell, sources: Iterable[Iterable[str]]) -> int:
    """Run texts; 1 where something failed, with the rest not run unless the shell keeps going."""
    code = 0
    try:
        for lines in sources:
            if not shell.run_lines(lines):
                code = 1
                if not shell.keep_going:
                    break
    except EOFError:
        pass
    return code


def _interact(shell: Shell, *, rc: bool, serve: bool) -> int:
    # The terminal's libraries are loaded for a terminal only.
    from ..shell.repl import interact

    shell.timing = True
    shell.paging = shell.screen
    is_served = serve and is_directory(shell.target)
    if is_served:
        shell.serving.start()
    path = Path(os.environ.get("NYALA_RC") or Path.home() / ".nyalarc")
    return interact(shell, path if rc and path.is_file() else None, is_served=is_served)
