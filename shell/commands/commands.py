"""Backslash commands: the list `COMMANDS` is what the help prints, completion offers and docs/shell.md shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...errors import InterfaceError, did_you_mean
from .. import formats, serving
from ..output import SUFFIXES, OutputFile
from . import describe, rerun

if TYPE_CHECKING:
    from ..shell import Shell


@dataclass(frozen=True, slots=True)
class Command:
    """`usage` starts with the command's name; `run` gets the text after it. `takes` is the kind of completion."""

    name: str
    usage: str
    text: str
    run: Callable[[Shell, str], None]
    takes: tuple[str, ...] | str = ()


def run(shell: Shell, line: str) -> None:
    """Run one backslash command; `InterfaceError` where there is none of that name."""
    name, _, rest = line.strip().rstrip(";").partition(" ")
    for command in COMMANDS:
        if name == command.name:
            command.run(shell, rest.strip())
            return
    hint = did_you_mean(name, [command.name for command in COMMANDS])
    raise InterfaceError(f"there is no command {name}{hint} (\\? explains them)")


def _quit(shell: Shell, rest: str) -> None:
    raise EOFError


def _help(shell: Shell, rest: str) -> None:
    width = max(len(command.usage) for command in COMMANDS)
    for command in COMMANDS:
        print(f"  {command.usage:<{width}}  {command.text}", file=shell.out)
    print("Everything else is SQL and ends with a semicolon.", file=shell.out)


def _tables(shell: Shell, rest: str) -> None:
    describe.tables(shell)


def _views(shell: Shell, rest: str) -> None:
    describe.views(shell)


def _timing(shell: Shell, rest: str) -> None:
    shell.timing = _switch(rest, shell.timing)
    print(f"Timing is {'on' if shell.timing else 'off'}.", file=shell.out)


def _pager(shell: Shell, rest: str) -> None:
    shell.paging = _switch(rest, shell.paging)
    print(f"The pager is {'on' if shell.paging else 'off'}.", file=shell.out)


def _switch(word: str, now: bool) -> bool:
    if not word:
        return not now
    if word.lower() not in ("on", "off"):
        raise InterfaceError(f"{word}: say on or off")
    return word.lower() == "on"


def _expanded(shell: Shell, rest: str) -> None:
    word = rest.lower() or ("off" if shell.expanded == "on" else "on")
    if word not in ("on", "off", "auto"):
        raise InterfaceError(f"{rest}: say on, off or auto")
    shell.expanded = word
    meaning = {
        "on": "a line per value",
        "off": "tables",
        "auto": "a line per value where a table is wider than the screen",
    }
    print(f"Results are printed as {meaning[word]}.", file=shell.out)


def _rows(shell: Shell, rest: str) -> None:
    if rest.lower() == "all":
        shell.most_rows = None
    elif rest.isdecimal() and int(rest):
        shell.most_rows = int(rest)
    elif rest:
        raise InterfaceError(f"{rest}: \\rows takes a number above 0, or all")
    most = "all rows" if shell.most_rows is None else f"the first {shell.most_rows:,} rows"
    print(f"A terminal gets {most} of a table.", file=shell.out)


def _format(shell: Shell, rest: str) -> None:
    if rest not in formats.NAMES:
        raise InterfaceError(f"\\format takes one of {', '.join(formats.NAMES)}; it is {shell.format} now")
    shell.format = rest


def _output(shell: Shell, rest: str) -> None:
    file = OutputFile(Path(rest), _format_beside(rest, shell.format)) if rest else None
    if shell.file is not None:
        shell.file.close()
    shell.file = file


def _format_beside(name: str, chosen: str) -> str | None:
    """The format chosen by `\\format`, for a file with an unknown suffix."""
    suffix = Path(name).suffix.lower()
    return chosen if suffix and suffix not in SUFFIXES and chosen != "table" else None


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
    Command("\\serve", "\\serve", "let other processes reach this store, and say how", serving.serve),
    Command("\\timing", "\\timing [on|off]", "print how long each statement takes", _timing, ("on", "off")),
    Command("\\?", "\\?", "this list", _help),
    Command("\\q", "\\q", "leave (so does Ctrl-D)", _quit),
)
