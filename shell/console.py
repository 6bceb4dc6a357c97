"""Executes statements and prints their results; the part of the shell that backslash commands use.

Statement ─► Cursor ─ batches ─┬─ OutputFile      after \\o or with --output
                               ├─ Pages           at a terminal: the first rows, through a pager
                               └─ out             else: everything, as it comes
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TextIO, TypeAlias

import pyarrow as pa

from ..driver.connection import Connection
from ..driver.tables.timestamps import Moment, hybrid_time
from ..errors import Error
from ..model.clock import format_timestamp
from ..model.types import DataType
from . import formats, output, pager
from .progress_bar import ProgressBar
from .reader import Statement
from .serving import Serving

Columns: TypeAlias = Sequence[tuple[str, DataType]]
MOST_ROWS: Final = 10_000
r"""Limit of rows printed at a terminal, unless `\rows` sets another."""
_SETTING: Final = re.compile(r"(re)?set\b", re.IGNORECASE)
_FOR_READING: Final = ("table", "vertical", "markdown")
"""Formats that a terminal gets only the first rows of."""


class Console(ABC):
    """The connection, settings and output of a session at the shell.

    Parameters
    ----------
    connection : Connection
    format : str
        One of `formats.NAMES`.
    out, err : text streams
        Results go to `out`, errors to `err`, so that a pipe gets nothing but results.
    timing : bool
        Print how long each statement took.
    footer : bool
        Print row counts below tables.
    keep_going : bool
        Continue after an error.
    screen : bool
        True if `out` is a terminal: then there are progress bars, and large tables are cut.
    paging : bool
        Show output larger than the screen through a pager; with `screen` only.
    target : str
        Target of the connection.

    Attributes
    ----------
    expanded : str
        "on": tables are written as `vertical`; "auto": those wider than the screen; else "off".
    file : OutputFile, optional
        File of results, instead of `out`.
    last : Statement, optional
        The statement that was run last.
    seconds : float, optional
        How long it took.
    moment : str
        Tables are read as of this time, in UTC; empty: the latest state.
    draft : str
        A text that the next prompt begins with.
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
        keep_going: bool = False,
        screen: bool = False,
        paging: bool = False,
        target: str = ":memory:",
    ):
        self.connection = connection
        self.format = format
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.timing = timing
        self.footer = footer
        self.keep_going = keep_going
        self.screen = screen
        self.paging = paging
        self.target = target
        self.serving = Serving(connection)
        self.expanded = "off"
        self.most_rows: int | None = MOST_ROWS
        self.file: output.OutputFile | None = None
        self.last: Statement | None = None
        self.seconds: float | None = None
        self.draft = ""
        self.moment = ""
        self._past: Connection | None = None
        self._moment: Moment | None = None
        self._waited = 0.0

    # ---- running ------------------------------------------------------------------------------------------------

    @abstractmethod
    def run_lines(self, lines: Iterable[str]) -> bool:
        r"""Run statements and backslash commands as they become complete; False if one failed.

        Implemented by `Shell`, because the list of commands is above this class; `\i` calls it.
        """

    def execute(self, statement: Statement) -> None:
        """Run a statement and write its result."""
        self.last = statement
        started = time.perf_counter()
        self._waited = 0.0
        try:
            # SET also applies after `\asof off`.
            connection = self.connection if _SETTING.match(statement.text) else self.reading
            with self.observed() as bar, connection.cursor() as cursor:
                cursor.execute(statement.placed)
                if cursor.description is None:
                    bar.stop()
                    if self._is_for_people:
                        self._note(_done(cursor.rowcount))
                else:
                    columns = [(column[0], column[1]) for column in cursor.description]
                    self._write(columns, cursor.record_batches(), bar)
            if connection is not self.reading:
                self.read_at(self._moment)
        finally:
            self.seconds = time.perf_counter() - started - self._waited
        if self.timing:
            print(f"Time: {1000 * self.seconds:,.1f} ms", file=self.out if self._is_for_people else self.err)

    @contextmanager
    def observed(self) -> Iterator[ProgressBar]:
        """Show a progress bar for statements inside this context, at a terminal."""
        bar = ProgressBar(self.err)
        connection = self.reading
        if not self.screen or not self.err.isatty():
            yield bar
            return
        with bar:
            connection.set_progress_handler(bar)
            try:
                yield bar
            finally:
                connection.set_progress_handler(None)

    # ---- the past -----------------------------------------------------------------------------------------------

    @property
    def reading(self) -> Connection:
        """The connection that statements use: that of the past after `read_at`."""
        return self._past or self.connection

    def read_at(self, moment: Moment | None) -> None:
        """Read all tables as of this timestamp from now on; None: the latest state."""
        if moment is None:
            past, exact, text = None, None, ""
        else:
            exact = hybrid_time(moment, self.connection.store.now())
            past = self.connection.at(exact)
            past.session.write_advice = "runs after \\asof off"
            text = format_timestamp(exact).partition(" UTC")[0]
        if self._past is not None:
            self._past.close()
        self._past, self._moment, self.moment = past, exact, text

    # ---- writing ------------------------------------------------------------------------------------------------

    def _write(self, columns: Columns, batches: Iterator[pa.RecordBatch], bar: ProgressBar) -> None:
        if self.file is not None:
            count = self.file.write(self._chosen(), columns, batches)
            bar.stop()
            if self.screen:
                self._note(f"({_rows(count)}, written to {self.file.path})")
        elif self.screen and self.format != output.PARQUET:
            self._show(columns, _stopping(batches, bar))
        else:
            format = self._chosen()
            count = output.write(format, columns, _stopping(batches, bar), self.out)
            if format in ("table", "vertical"):
                self._note(f"({_rows(count)})")

    @property
    def _is_for_people(self) -> bool:
        """True if lines other than results may go to `out`; False if a program reads it as CSV, JSON or Parquet."""
        return self.screen or self.format in _FOR_READING

    def _chosen(self) -> str:
        return "vertical" if self.expanded == "on" and self.format == "table" else self.format

    def _show(self, columns: Columns, batches: Iterator[pa.RecordBatch]) -> None:
        """A result for a reader at a terminal: the first rows, through a pager."""
        format = self._chosen()
        most = self.most_rows if format in _FOR_READING else None
        limited = _Limited(batches, most)
        if format == "table" and self.expanded == "auto":
            first = next(limited, None)
            batches = iter([]) if first is None else itertools.chain([first], limited)
            if first is not None and formats.table_width(columns, first) > shutil.get_terminal_size().columns:
                format = "vertical"
        else:
            batches = limited
        left = False
        with pager.Pages(self.out, pager.pager_command() if self.paging else None) as pages:
            try:
                formats.write(format, columns, batches, pages)
            except BrokenPipeError:
                left = True
        self.out.flush()
        self._waited += pages.waited
        if left:
            self._note("(left before the end)")
        elif limited.cut:
            self._note(f"(the first {_rows(limited.count)}; \\o FILE or --output writes them all, \\rows shows more)")
        elif format in ("table", "vertical"):
            self._note(f"({_rows(limited.count)})")
        if pages.cut:
            hint = ": \\x shows a line per value" if format == "table" else ""
            self._note(f"(wider than the screen{hint})")

    def show(self, columns: Columns, rows: pa.RecordBatch) -> None:
        """Print a small table of the shell's own."""
        formats.write("table", columns, iter([rows]), self.text)

    @property
    def text(self) -> TextIO:
        """Stream of the shell's own tables."""
        return self.out if self.file is None else self.file.text

    def _note(self, text: str) -> None:
        if self.footer:
            print(text, file=self.out)

    def tell(self, error: Error, hidden: str = "") -> None:
        """Print an error; `hidden` is the text that the shell put before the user's."""
        self.out.flush()
        text = describe(error, hidden)
        if self.err.isatty() and "NO_COLOR" not in os.environ:
            text = text.replace("error:", "\x1b[1;31merror:\x1b[0m", 1)
        print(text, file=self.err, flush=True)

    def close(self) -> None:
        """Close the output file and the connection of `\asof`, and roll an open transaction back, as psql does."""
        self.serving.wait()
        self.read_at(None)
        if self.connection.in_transaction:
            self.connection.rollback()
            print("the transaction in progress was rolled back: it had no COMMIT", file=self.err)
        if self.file is not None:
            self.file.close()
            self.file = None


class _Limited:
    """The first rows of a result. `count` is the number of rows so far, and `cut` is True if there are more."""

    def __init__(self, batches: Iterator[pa.RecordBatch], most: int | None):
        self._batches = batches
        self._most = most
        self.count = 0
        self.cut = False

    def __iter__(self) -> _Limited:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self.cut:
            raise StopIteration
        batch = next(self._batches)
        room = batch.num_rows if self._most is None else self._most - self.count
        self.cut = batch.num_rows > room
        if self.cut and not room:
            raise StopIteration
        self.count += min(room, batch.num_rows)
        return batch.slice(0, room)


def _stopping(batches: Iterator[pa.RecordBatch], bar: ProgressBar) -> Iterator[pa.RecordBatch]:
    """Yields the batches, after removing the bar before the first one."""
    for batch in batches:
        bar.stop()
        yield batch
    bar.stop()


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _done(rowcount: int) -> str:
    return "OK" if rowcount < 0 else f"OK, {_rows(rowcount)}"


def describe(error: Error, hidden: str = "") -> str:
    """Text of an error as the shell prints it: the message and, if known, the position in the statement."""
    text = f"error: {error}"
    if hidden:
        shown = rf"^(LINE \d+: ){re.escape(hidden)}(.*\n) {{{len(hidden)}}}( *\^)"
        text = re.sub(shown, r"\1\2\3", text, count=1, flags=re.MULTILINE)
    return text
