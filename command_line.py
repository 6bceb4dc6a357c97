"""Commands as data: what a command is called, what it takes, and which function runs it.

`Command` and `Argument` describe a command line; `build_parser` makes argparse's parser of a tree of commands. A
handler is named as `module:function`, dotted from this package, and imported when its command runs, so that
`nyala --help` loads no engine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from .errors import did_you_mean

Handler: TypeAlias = Callable[[argparse.Namespace], int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The final output of a command: plain data for JSON, lines for display, True if it succeeded."""

    plain: dict[str, Any]
    lines: Sequence[str]
    is_well: bool = True


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument or option of a command (`argument` makes it).

    Parameters
    ----------
    names : sequence of str
        One name without dashes, or the spellings of an option.
    settings : mapping
        As `argparse.ArgumentParser.add_argument` takes them.
    group : (str, str), optional
        Title and description of the group that a help text shows it in.
    """

    names: Sequence[str]
    settings: Mapping[str, Any]
    group: tuple[str, str] | None = None


def argument(*names: str, group: tuple[str, str] | None = None, **settings: Any) -> Argument:
    """An `Argument`, written as a call of `ArgumentParser.add_argument`."""
    return Argument(names, settings, group)


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or a group of commands.

    Parameters
    ----------
    name : str
    help : str
        One line, for the list of commands.
    description : str
        For its own help text.
    handler : str
        `module:function`; the function takes the parsed arguments and returns the exit code. Empty for a group.
    arguments : sequence of Argument
        In the order of the help text.
    examples : sequence of str
        Whole command lines, shown at the end of the help text.
    commands : sequence of Command
        The commands of a group.
    first_is_dir : bool
        True if the first argument may be given as `--dir` as well.
    """

    name: str
    help: str
    description: str
    handler: str = ""
    arguments: Sequence[Argument] = ()
    examples: Sequence[str] = ()
    commands: Sequence[Command] = ()
    first_is_dir: bool = False


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with `examples`, and that guesses what a misspelt command or option was meant to be."""

    examples: Sequence[str] = ()
    first_is_dir = False

    def format_help(self) -> str:
        lines = "".join(f"  $ {example}\n" for example in self.examples)
        return super().format_help() + (f"\nexamples:\n{lines}" if lines else "")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        if self.first_is_dir:
            args = directory_first(args)
        # A command's own parser comes by here too, so it says what is wrong, with its own usage and options.
        known, unknown = super().parse_known_args(args, namespace)
        if unknown and unknown[0].startswith("-"):
            option = unknown[0].partition("=")[0]
            self.error(f"there is no option {option}{did_you_mean(option, self._option_string_actions)}")
        if unknown:
            self.error(f"unexpected argument {unknown[0]!r}")
        return known, unknown

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(action, f"there is no {value!r}{did_you_mean(str(value), known)}")


def build_parser(command: Command) -> Parser:
    """The parser of a command and of all commands below it; parsed arguments have the name of the handler as `run`."""
    parser = Parser(prog=command.name, description=command.description)
    _fill(parser, command)
    return parser


def _fill(parser: Parser, command: Command) -> None:
    parser.examples, parser.first_is_dir = command.examples, command.first_is_dir
    groups: dict[tuple[str, str], argparse._ArgumentGroup] = {}
    for given in command.arguments:
        target: argparse._ActionsContainer = parser
        if given.group is not None:
            if given.group not in groups:
                groups[given.group] = parser.add_argument_group(*given.group)
            target = groups[given.group]
        target.add_argument(*given.names, **given.settings)
    if command.handler:
        parser.set_defaults(run=command.handler)
    if command.commands:
        steps = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
        for step in command.commands:
            _fill(steps.add_parser(step.name, help=step.help, description=step.description), step)


def find_handler(name: str) -> Handler:
    """The function that `module:function` names."""
    module, _, function = name.partition(":")
    handler: Handler = getattr(import_module(f".{module}", __package__), function)
    return handler


def directory_first(words: Sequence[str]) -> list[str]:
    """A command's arguments with what `--dir` says in front.

    >>> directory_first(["tserver-2", "--dir", "demo", "--wait"])
    ['demo', 'tserver-2', '--wait']
    """
    words = list(words)
    for place, word in enumerate(words):
        if word == "--":
            break
        if word.startswith("--dir="):
            return [word.partition("=")[2], *words[:place], *words[place + 1 :]]
        if word == "--dir" and place + 1 < len(words):
            return [words[place + 1], *words[:place], *words[place + 2 :]]
    return words


# ---- values ----------------------------------------------------------------------------------------------------------


def positive(text: str) -> float:
    """A number above 0."""
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def count(text: str) -> int:
    """A whole number, 1 at least."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def natural(text: str) -> int:
    """A whole number, 0 at least."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return value


def seconds(text: str) -> float:
    """A number of seconds above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


def threads(default: int | None = None) -> Argument:
    """The option that says how many threads a statement may use."""
    return argument(
        "--threads", type=count, default=default, metavar="N", help="threads per statement (default: all processors)"
    )
