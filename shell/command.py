"""`nyala shell`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from ..driver.connection import connect
from ..errors import OperationalError
from .reader import StatementReader
from .runner import Shell


def main(arguments: argparse.Namespace) -> int:
    """Run `-c`, `-f`, a pipe, or a session at the terminal; the exit code."""
    target = arguments.directory or ":memory:"
    options = {} if arguments.threads is None else {"threads": arguments.threads}
    sources = _sources(arguments)
    with connect(target, **options) as connection:
        shell = Shell(connection, format=arguments.format, timing=arguments.timing)
        if sources is not None:
            return _run_texts(shell, sources)
        if not sys.stdin.isatty():
            return _run_lines(shell, sys.stdin)
        # The terminal's libraries are loaded for a terminal only.
        from .repl import interact

        shell.timing = True
        return interact(shell, "in memory" if target == ":memory:" else str(target))


def _sources(arguments: argparse.Namespace) -> list[str] | None:
    """The texts of `-f` and `-c`, files first; None where neither is given."""
    texts = []
    for path in arguments.file or ():
        try:
            texts.append(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise OperationalError(f"cannot read {path}: {error}") from error
    texts += arguments.command or ()
    return texts or None


def _run_texts(shell: Shell, texts: Iterable[str]) -> int:
    return next((1 for text in texts if _run_lines(shell, [text])), 0)


def _run_lines(shell: Shell, lines: Iterable[str]) -> int:
    """Run statements as they become complete; 1 at the first error, with the rest not run."""
    reader = StatementReader()
    try:
        for line in lines:
            for item in reader.feed(line):
                if not shell.run(item):
                    return 1
        for item in reader.finish():
            if not shell.run(item):
                return 1
    except EOFError:
        pass
    return 0
