"""Commands of nyala in processes of their own that start at once, forks of one that has imported nyala.

A process that imports nyala for one short command takes almost a second of processor time, a fork 0.14 s.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile

from forked_processes import start_nyala

SECONDS = 120.0


def nyala(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command with this text as its standard input; its exit code and what it printed."""
    words = list(map(str, arguments))
    with contextlib.ExitStack() as stack:
        given, out, error = (stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        process = start_nyala(words, [given.fileno(), out.fileno(), error.fileno()], kind="commands")
        try:
            code = process.wait(SECONDS)
        finally:
            process.kill()
        out.seek(0)
        error.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), error.read())
