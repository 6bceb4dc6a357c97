"""Backslash commands: the list `COMMANDS` is what the help prints, completion offers and docs/shell.md shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ...driver.stores.open_stores import directory_of
from ...errors import InterfaceError, did_you_mean
from ...model.lazy_dataclass import dataclass
from .. import formats
from ..console import Console
from ..output import SUFFIXES, OutputFile
from ..serving import is_directory
from . import describe, rerun


@dataclass(frozen=True, slots=True)
class Command:
    """`usage` starts with the command's name; `run` gets the text after it. `takes` is the kind of completion."""

    name: str
    usage: str
    text: str
    run: Callable[[Console, str], None]
    takes: tuple[str, ...] | str = ()


def run(console: Console, line: str) -> None:
    """Run one backslash command; `InterfaceError` where there is none of that name."""
    name, _, rest = line.strip().rstrip(";").partition(" ")
    for command in COMMANDS:
        if name == command.name:
            command.run(console, rest.strip())
            return
    hint = did_you_mean(name, [command.name for command in COMMANDS])
    raise InterfaceError(f"there is no command {name}{hint} (\\? explains them)")


def _quit(console: Console, rest: str) -> None:
    raise EOFError


def _help(console: Console, rest: str) -> None:
    width = max(len(command.usage) for command in COMMANDS)
    for command in COMMANDS:
        print(f"  {command.usage:<{width}}  {command.text}", file=console.out)
    print("Everything else is SQL and ends with a semicolon.", file=console.out)


def _tables(console: Console, rest: str) -> None:
    describe.tables(console)


def _views(console: Console, rest: str) -> None:
    describe.views(console)


def _timing(console: Console, rest: str) -> None:
    console.timing = _switch(rest, console.timing)
    print(f"Timing is {'on' if console.timing else 'off'}.", file=console.out)


def _pager(console: Console, rest: str) -> None:
    console.paging = _switch(rest, console.paging)
    print(f"The pager is {'on' if console.paging else 'off'}.", file=console.out)


def _switch(word: str, now: bool) -> bool:
    if not word:
        return not now
    if word.lower() not in ("on", "off"):
        raise InterfaceError(f"{word}: say on or off")
    return word.lower() == "on"


def _expanded(console: Console, rest: str) -> None:
    word = rest.lower() or ("off" if console.expanded == "on" else "on")
    if word not in ("on", "off", "auto"):
        raise InterfaceError(f"{rest}: say on, off or auto")
    console.expanded = word
    meaning = {
        "on": "a line per value",
        "off": "tables",
        "auto": "a line per value where a table is wider than the screen",
    }
    print(f"Results are printed as {meaning[word]}.", file=console.out)


def _rows(console: Console, rest: str) -> None:
    if rest.lower() == "all":
        console.most_rows = None
    elif rest.isdecimal() and int(rest):
        console.most_rows = int(rest)
    elif rest:
        raise InterfaceError(f"{rest}: \\rows takes a number above 0, or all")
    most = "all rows" if console.most_rows is None else f"the first {console.most_rows:,} rows"
    print(f"A terminal gets {most} of a table.", file=console.out)


def _format(console: Console, rest: str) -> None:
    if rest not in formats.NAMES:
        raise InterfaceError(f"\\format takes one of {', '.join(formats.NAMES)}; it is {console.format} now")
    console.format = rest


def _output(console: Console, rest: str) -> None:
    file = OutputFile(Path(rest), _format_beside(rest, console.format)) if rest else None
    if console.file is not None:
        console.file.close()
    console.file = file


def _format_beside(name: str, chosen: str) -> str | None:
    """The format chosen by `\\format`, for a file with an unknown suffix."""
    suffix = Path(name).suffix.lower()
    return chosen if suffix and suffix not in SUFFIXES and chosen != "table" else None


def _serve(console: Console, rest: str) -> None:
    """Serve the store, and print how other processes reach it."""
    url = console.serving.url()
    targets = [directory_of(console.target)] if is_directory(console.target) else []
    print("Other processes reach this store by", file=console.out)
    for target in (*targets, url):
        print(f'  nyala.connect("{target}")', file=console.out)


COMMANDS: Final = (
    Command("\\d", "\\d [NAME]", "describe a table or view; without a name, list them", describe.describe, "tables"),
    Command("\\dt", "\\dt", "list the tables", _tables),
    Command("\\dv", "\\dv", "list the views", _views),
    Command("\\plan", "\\plan [SQL]", "run it (or the last statement), show its plan and times", rerun.plan, "sql"),
    Command("\\asof", "\\asof [TIME|off]", "read all tables as of a time", rerun.as_of, ("off", "now()")),
    Command("\\watch", "\\watch [SECONDS]", "repeat the last statement until Ctrl-C", rerun.watch),
    Command("\\e", "\\e", "edit the last statement with $EDITOR", rerun.edit),
    Command("\\i", "\\i FILE", "run a file", rerun.include, "files"),
    Command("\\o", "\\o [FILE]", "write results to a file; without a name, print them again", _output, "files"),
    Command("\\format", "\\format NAME", f"print results as {', '.join(formats.NAMES)}", _format, formats.NAMES),
    Command("\\x", "\\x [on|off|auto]", "print a line per value, for wide rows", _expanded, ("on", "off", "auto")),
    Command("\\rows", "\\rows [N|all]", "how many rows of a table a terminal gets", _rows, ("all",)),
    Command("\\pager", "\\pager [on|off]", "show what does not fit the screen through $PAGER", _pager, ("on", "off")),
    Command("\\serve", "\\serve", "let other processes reach this store, and say how", _serve),
    Command("\\timing", "\\timing [on|off]", "print how long each statement takes", _timing, ("on", "off")),
    Command("\\?", "\\?", "this list", _help),
    Command("\\q", "\\q", "leave (so does Ctrl-D)", _quit),
)
