"""Commands that run statements in other ways: from a file, from an editor, again and again, as a plan, in the past."""

from __future__ import annotations

import datetime
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from ...driver.tables.timestamps import Moment
from ...errors import DataError, Error, InterfaceError, NotSupportedError, OperationalError, ProgrammingError
from ..console import Console
from ..pager import ignoring_interrupts
from ..reader import Statement

_EVERY: Final = 2.0
"""Seconds between two runs of `\\watch`."""
_MILLISECONDS: Final = re.compile(r"([\d,]+(?:\.\d+)?) ms\b")
_EXPLAIN: Final = "EXPLAIN ANALYZE "
_DETAIL: Final = "·"
_BAR: Final = 10
_DIGITS_OF_A_DATE: Final = len("20260101")


class AlreadyTold(Exception):
    """Something failed inside a command, and its error is printed already."""


def include(console: Console, name: str) -> None:
    """Run a file's statements and commands, up to the first error."""
    if not name:
        raise InterfaceError("\\i takes the name of a file")
    path = Path(name).expanduser()
    if not console.run_lines(read_file(path).splitlines(keepends=True)):
        print(f"in {path}", file=console.err)
        raise AlreadyTold


def read_file(path: Path) -> str:
    """A file's text; `OperationalError` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OperationalError(f"cannot read {path}: {error}") from error


def edit(console: Console, text: str) -> None:
    """Put what the user's editor makes of a text, or of the last statement, at the next prompt."""
    if not console.screen or not sys.stdin.isatty():
        raise InterfaceError("\\e needs a terminal")
    if not text and console.last is not None:
        text = console.last.text + ";"
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="nyala-") as folder:
        path = Path(folder) / "statement.sql"
        path.write_text(text + "\n", encoding="utf-8")
        try:
            with ignoring_interrupts():
                code = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
        except OSError as error:
            raise OperationalError(f"cannot start {editor}: {error.strerror} ($EDITOR says which it is)") from error
        if code:
            raise OperationalError(f"{editor} ended with code {code}; nothing is changed")
        console.draft = read_file(path).strip()


def watch(console: Console, interval: str) -> None:
    """Run the last statement again and again, until the user interrupts."""
    try:
        seconds = float(interval or _EVERY)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise InterfaceError(f"{interval}: \\watch takes a number of seconds above 0")
    statement = _last(console, "\\watch")
    paging, console.paging = console.paging, False
    try:
        while True:
            now = datetime.datetime.now().astimezone()
            print(f"{now:%Y-%m-%d %H:%M:%S %Z}, every {seconds:g} s; Ctrl-C ends it", file=console.out, flush=True)
            console.execute(statement)
            console.out.flush()
            time.sleep(seconds)
    except KeyboardInterrupt:
        if not console.screen:
            raise
        print("\nended", file=console.out)
    finally:
        console.paging = paging


def _last(console: Console, command: str) -> Statement:
    if console.last is None:
        raise InterfaceError(f"{command} runs the last statement again, and there is none yet")
    return console.last


def plan(console: Console, text: str) -> None:
    """Run a statement, or the last one, and print its plan with what each operator did and its share of the time."""
    text = text or _last(console, "\\plan").text
    with console.observed() as bar, console.reading.cursor() as cursor:
        try:
            cursor.execute(_EXPLAIN + text)
        except Error as error:
            bar.stop()
            console.tell(error, hidden=_EXPLAIN)
            raise AlreadyTold from None
        lines = [str(row[0]) for row in cursor.fetchall()]
        bar.stop()
    print("\n".join(with_shares(lines)), file=console.text)


def with_shares(lines: list[str]) -> list[str]:
    """The lines of EXPLAIN ANALYZE, each operator's share of the time before it.

    >>> for line in with_shares(["Sort by k  (2 rows, 1.0 ms)", "  TableScan t  (2 rows, 3.0 ms)", "    · reads k"]):
    ...     print(line)
     25 % ##          Sort by k  (2 rows, 1.0 ms)
     75 % #######       TableScan t  (2 rows, 3.0 ms)
                          · reads k
    """
    times = [None if line.lstrip().startswith(_DETAIL) else _time(line) for line in lines]
    total = sum(t for t in times if t is not None) or 1.0
    return [
        (" " * (8 + _BAR) if t is None else f"{100 * t / total:3.0f} % {'#' * int(_BAR * t / total):<{_BAR}}  ") + line
        for line, t in zip(lines, times)
    ]


def _time(line: str) -> float | None:
    times = _MILLISECONDS.findall(line)
    return float(times[-1].replace(",", "")) if times else None


def as_of(console: Console, text: str) -> None:
    """Read all tables as of a time; `off`: as they are."""
    if text.lower() == "off":
        console.read_at(None)
    elif text:
        console.read_at(_moment(console, text))
    if not console.moment:
        print("Tables are read as they are now.", file=console.out)
    else:
        print(f"Tables are read as of {console.moment} UTC; \\asof off ends it.", file=console.out)


def _moment(console: Console, text: str) -> Moment:
    """A time in UTC, a hybrid timestamp, or the value of an SQL expression."""
    if text.isdecimal() and len(text) > _DIGITS_OF_A_DATE:
        return int(text)
    try:
        return datetime.datetime.fromisoformat(text.strip("'")).isoformat(" ")
    except ValueError:
        pass
    try:
        with console.connection.cursor() as cursor:
            cursor.execute(f"SELECT CAST({text} AS TIMESTAMP)")
            moment: datetime.datetime | None = cursor.fetchall()[0][0]
    except (ProgrammingError, DataError, NotSupportedError) as error:
        raise InterfaceError(
            f"\\asof {text}: {str(error).partition(chr(10))[0]}; a time is written 2026-05-01 12:00, "
            "now() - INTERVAL '5' MINUTE, or as a hybrid timestamp"
        ) from None
    if moment is None:
        raise InterfaceError(f"{text} is NULL, not a time")
    return moment
