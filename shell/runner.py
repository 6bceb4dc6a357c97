"""Executes what the reader found and prints what came of it."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

import pyarrow as pa

from ..driver.connection import Connection
from ..errors import Error
from . import commands, formats
from .reader import Statement


class Shell:
    """One session at the shell.

    Parameters
    ----------
    connection : Connection
    format : str
        One of `formats.FORMATS`.
    out, err : text streams
        Results go to `out`, errors and notes to `err`, so that a pipe gets nothing but results.
    timing : bool
        Print how long each statement took.
    footer : bool
        Print row counts below tables.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        format: str = "table",
        out: TextIO | None = None,
        err: TextIO | None = None,
        timing: bool = False,
        footer: bool = True,
    ):
        self.connection = connection
        self.format = format
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.timing = timing
        self.footer = footer

    def run(self, item: Statement | str) -> bool:
        """Run a statement or a backslash command; False after an error, which is printed.

        Raises `EOFError` where the user asks to leave, `KeyboardInterrupt` where they interrupt (the statement is then
        cancelled already).
        """
        try:
            if isinstance(item, str):
                commands.run(self, item)
            else:
                self._execute(item)
        except Error as error:
            self.out.flush()
            print(describe(error), file=self.err, flush=True)
            return False
        finally:
            self.out.flush()
        return True

    def _execute(self, statement: Statement) -> None:
        started = time.perf_counter()
        with self.connection.cursor() as cursor:
            cursor.execute(statement.placed)
            if cursor.description is None:
                self._note(_done(cursor.rowcount))
            else:
                columns = [(column[0], column[1]) for column in cursor.description]
                count = formats.write(self.format, columns, cursor.record_batches(), self.out)
                if self.format == "table":
                    self._note(f"({count:,} row{'' if count == 1 else 's'})")
        if self.timing:
            print(f"Time: {1000 * (time.perf_counter() - started):,.1f} ms", file=self.out)

    def show(self, columns: Any, rows: pa.RecordBatch) -> None:
        """Print a small table of the shell's own."""
        formats.write("table", columns, iter([rows]), self.out)

    def _note(self, text: str) -> None:
        if self.footer:
            print(text, file=self.out)


def _done(rowcount: int) -> str:
    return "OK" if rowcount < 0 else f"OK, {rowcount:,} row{'' if rowcount == 1 else 's'}"


def describe(error: Error) -> str:
    """An error as the shell prints it: what it is and, where it is known, the place in the statement."""
    return f"error: {error}"
