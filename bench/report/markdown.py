"""The report as Markdown, for docs/benchmarks.md: the same sections without charts, whose numbers are in the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .assembled import INTRODUCTION, MISSED, TITLE, TRIAL, Entry, Report, counted, is_trial, moment, verdict
from .cells import shown
from .model import Grid, Target
from .records import Record, duration, machine_in_words

_MARKS = {"|": r"\|", "<": "&lt;", ">": "&gt;", "*": r"\*", "\r": "", "\n": " "}


def markdown(report: Report) -> str:
    """The page."""
    lines = [f"# {_plain(TITLE)}", "", _plain(INTRODUCTION), *_summary(report)]
    for entry in report.entries:
        lines += ["", f"## {_plain(entry.title)}", "", *_section(entry)]
    return "\n".join(lines) + "\n"


def _summary(report: Report) -> Iterator[str]:
    met, asked = counted(report)
    if is_trial(report):
        yield from ("", f"**{_plain(TRIAL)}**")
    yield from ("", f"{met} of {asked} targets met. Made by `nyala bench all`.", "")
    for entry in (*report.of_status("failed"), *report.of_status("skipped")):
        yield f"- {_plain(entry.title)}: {entry.record.status}, {_plain(entry.record.reason)}"
    if report.left_out:
        yield f"- not run: {_plain(', '.join(report.left_out))}"
    rows = [(target, entry.title) for entry, target in report.targets()]
    if rows:
        yield from ("", *_table(("target", "of", "required", "found", ""), (_target(t, of) for t, of in rows), set()))


def _target(target: Target, of: str) -> Sequence[str]:
    word = verdict(target)
    return (target.what, of, target.required, target.found, f"**{word}**" if word == MISSED else word)


def _section(entry: Entry) -> Iterator[str]:
    record, section = entry.record, entry.section
    if section is not None:
        yield from (_plain(section.text), "")
    yield from _origin(record)
    if record.status != "done":
        yield from ("", f"**{record.status.capitalize()}:** {_plain(record.reason)}")
    if record.log:
        yield from ("", "```text", *(line.replace("```", "'''") for line in record.log), "```")
    if section is not None:
        for grid in section.grids:
            yield from ("", *grid_lines(grid))


def _origin(record: Record) -> Iterator[str]:
    took = f" ({duration(record.seconds)})" if record.seconds else ""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    machine = machine_in_words(record.machine)
    command = record.command.replace("`", "'")
    yield f"`{command}`, {moment(record.date)}{took}, on {_plain(machine)}; {_plain(versions)}."


def grid_lines(grid: Grid) -> Iterator[str]:
    """The lines of a table with its title."""
    unit = f" ({grid.unit})" if grid.unit else ""
    yield from (f"{_plain(grid.title + unit)}:", "")
    numbers = {n for n in range(len(grid.columns)) if any(isinstance(row[n], (int, float)) for row in grid.rows)}
    yield from _table(grid.columns, ([shown(cell) for cell in row] for row in grid.rows), numbers)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: set[int]) -> Iterator[str]:
    """Lines of a table; `numbers` are the columns that are aligned to the right."""
    yield _line([_plain(column) for column in columns])
    yield _line(["--:" if n in numbers else "---" for n in range(len(columns))])
    for row in rows:
        yield _line([cell if cell == f"**{MISSED}**" else _plain(cell) for cell in row])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Text with Markdown's special characters escaped."""
    return "".join(_MARKS.get(character, character) for character in text)
