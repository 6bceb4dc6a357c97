"""Golden scripts: text files of commands and their approved output.

    # Lines with a hash are comments.
    a command, on one line or several
    ---
    what it prints

An empty line ends a block's output, so output never holds one; blank lines are left out of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

BLOCK = re.compile(r"(?P<command>(?:^(?!---$|#).+\n)+)^---\n(?:^.+\n)*", re.MULTILINE)


def rewrite(script: str, run: Callable[[str], str]) -> str:
    """The script with each block's output replaced by what `run` prints now; an error is an output too.

    Parameters
    ----------
    script : str
    run : callable
        Takes a block's command, returns its output.
    """

    def block(match: re.Match[str]) -> str:
        try:
            output = run(match["command"].rstrip())
        except Exception as error:
            output = f"{type(error).__name__}: {error}"
        lines = [line.rstrip() for line in output.splitlines() if line.strip()]
        return "\n".join([f"{match['command']}---", *lines, ""])

    return BLOCK.sub(block, script)
