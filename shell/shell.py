"""Dispatches what the reader returns: statements to the console, lines with a backslash to the commands."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

from ..errors import Error, InterfaceError
from .commands import commands
from .commands.rerun import AlreadyTold, edit
from .console import Console
from .reader import Statement, StatementReader

_DEEPEST: Final = 16
r"""Limit of nested `\i`: deeper files run themselves."""


class Shell(Console):
    """One session at the shell: a console that also runs backslash commands.

    The parameters are those of `Console`.
    """

    _depth = 0
    r"""Number of nested calls of `run_lines`: above 1 inside `\i`."""

    def run(self, item: Statement | str) -> bool:
        r"""Run a statement or a backslash command; False after an error, which is printed.

        Raises `EOFError` for `\q`, and `KeyboardInterrupt` after Ctrl-C (the statement is then cancelled already).
        """
        try:
            if isinstance(item, str):
                commands.run(self, item)
            else:
                self.execute(item)
        except AlreadyTold:
            return False
        except Error as error:
            self.tell(error)
            return False
        finally:
            self.out.flush()
        return True

    def run_lines(self, lines: Iterable[str]) -> bool:
        """Run statements as they become complete; False if one failed, in which case the rest is run only with
        `keep_going`."""
        reader = StatementReader()
        succeeded = True
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise InterfaceError(f"files run one another {_DEEPEST} deep: one of them seems to run itself")
            for item in itertools.chain.from_iterable(itertools.chain(map(reader.feed, lines), [reader.finish()])):
                if not self.run(item):
                    succeeded = False
                    if not self.keep_going:
                        break
        finally:
            self._depth -= 1
        return succeeded

    def edit(self, text: str) -> None:
        """Send a text to the editor, and its result to the next prompt."""
        try:
            edit(self, text)
        except Error as error:
            self.draft = text
            self.tell(error)
