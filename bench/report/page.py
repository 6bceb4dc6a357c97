"""The report as one self-contained page of HTML: it includes style and charts, and has no script.

All texts from a benchmark are escaped; words in `backticks` of a section's text become code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from .assembled import INTRODUCTION, MET, MISSED, TITLE, TRIAL, Entry, Report, counted, is_trial, moment, verdict
from .bars import drawn
from .cells import shown
from .model import Cell, Grid, Section, Target
from .records import Record, duration, machine_in_words
from .style import CSS

OPEN_GRIDS: Final = 3
OPEN_ROWS: Final = 12
"""Number of a section's tables that are open: the first ones, and short ones. The others open at a click."""
_LONG_TEXT: Final = 60
_CODE: Final = re.compile(r"`([^`]+)`")


def page(report: Report) -> str:
    """The page."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<title>{escape(TITLE)}</title><link rel="icon" href="data:,">',
        f'<style>{CSS}</style></head><body><div class="layout">',
        f'<header><h1>{escape(TITLE)}</h1><p class="lead">{escape(INTRODUCTION)}</p></header>',
        _contents(report),
        "<main>",
        _summary(report),
        *(_section(entry) for entry in report.entries),
        "<footer>Made by <code>nyala bench all</code>.</footer></main></div></body></html>",
    ]
    return "\n".join(parts) + "\n"


# ---- contents and summary --------------------------------------------------------------------------------------------


def _contents(report: Report) -> str:
    items = [_content(entry) for entry in report.entries]
    first = '<li><a href="#summary">Summary</a></li>'
    return f'<nav aria-label="Contents"><b>Contents</b><ol>{first}{"".join(items)}</ol></nav>'


def _content(entry: Entry) -> str:
    targets = [target for target in entry.section.targets if target.is_measured] if entry.section is not None else []
    missed = sum(not target.is_met for target in targets)
    count = ""
    if entry.record.status != "done":
        count = f'<span class="count bad">{escape(entry.record.status)}</span>'
    elif targets:
        bad = " bad" if missed else ""
        count = f'<span class="count{bad}">{len(targets) - missed} of {len(targets)}</span>'
    return f"<li>{_link(entry)}{count}</li>"


def _summary(report: Report) -> str:
    met, asked = counted(report)
    failed, skipped = report.of_status("failed"), report.of_status("skipped")
    done = len(report.of_status("done"))
    unmeasured = sum(not target.is_measured for _, target in report.targets())
    cards = [
        _card(f"{met} of {asked}", "targets met", "good" if met == asked else ""),
        _card(str(asked - met), "targets missed", "bad" if met < asked else "good"),
        _card(str(done), "benchmarks done"),
        _card(str(len(failed)), "failed", "bad" if failed else "good"),
    ]
    if unmeasured:
        cards.append(_card(str(unmeasured), "targets not measured"))
    if skipped:
        cards.append(_card(str(len(skipped)), "skipped"))
    warning = f'<p class="trouble">{escape(TRIAL)}</p>' if is_trial(report) else ""
    parts = ['<section id="summary"><h2>Summary</h2>', warning, f'<div class="cards">{"".join(cards)}</div>']
    dates = sorted(entry.record.date for entry in report.entries)
    if dates:
        newest = max(report.entries, key=lambda entry: entry.record.date).record
        took = duration(sum(entry.record.seconds for entry in report.entries))
        facts = [
            ("Measured", escape(f"{moment(dates[0])} to {moment(dates[-1])}, {took} in all")),
            ("Machine", escape(machine_in_words(newest.machine))),
            ("Versions", escape(_versions(newest))),
        ]
        parts.append(_facts(facts))
    parts += [_status(entry) for entry in (*failed, *skipped)]
    if report.left_out:
        parts.append(f'<p class="note">Not run: {escape(", ".join(report.left_out))}.</p>')
    rows = [(target, _link(entry)) for entry, target in report.targets()]
    if rows:
        parts.append(f"<h3>Targets</h3>{_targets(rows)}")
    return "".join([*parts, "</section>"])


def _card(number: str, what: str, kind: str = "") -> str:
    return f'<div class="card {kind}"><b>{escape(number)}</b><span>{escape(what)}</span></div>'


def _status(entry: Entry) -> str:
    record = entry.record
    return f'<p><span class="pill {record.status}">{record.status}</span> {_link(entry)}: {escape(record.reason)}</p>'


def _link(entry: Entry) -> str:
    return f'<a href="#{_anchor(entry.record)}">{escape(entry.title)}</a>'


def _targets(rows: Iterable[tuple[Target, str]]) -> str:
    """A table of targets, each with a link or nothing."""
    lines = []
    for target, link in rows:
        word = verdict(target)
        mark = {MET: "✓", MISSED: "✗"}.get(word, "·")
        place = f'<br><span class="note">{link}</span>' if link else ""
        lines.append(
            f'<tr><td><span class="pill {word.replace(" ", "-")}">{mark} {word}</span></td>'
            f"<td>{escape(target.what)}{place}</td>"
            f'<td data-label="required">{escape(target.required)}</td>'
            f'<td data-label="found">{escape(target.found)}</td></tr>'
        )
    return (
        '<div class="scroll"><table class="targets"><thead><tr><th></th><th>target</th><th>required</th>'
        f"<th>found</th></tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


# ---- sections --------------------------------------------------------------------------------------------------------


def _section(entry: Entry) -> str:
    record, section = entry.record, entry.section
    parts = [f'<section id="{_anchor(record)}"><h2>{escape(entry.title)}</h2>']
    if section is not None:
        parts.append(f"<p>{_prose(section.text)}</p>")
    parts.append(_origin(record))
    if record.status != "done":
        parts += _trouble(record)
    if section is not None:
        parts += _body(section)
    return "".join([*parts, "</section>"])


def _body(section: Section) -> Iterator[str]:
    if section.targets:
        yield f"<h3>Targets</h3>{_targets((target, '') for target in section.targets)}"
    yield from (drawn(chart) for chart in section.charts)
    for number, grid in enumerate(section.grids):
        unit = f' <span class="unit">{escape(grid.unit)}</span>' if grid.unit else ""
        title = f"{escape(grid.title)}{unit}"
        if number >= OPEN_GRIDS or len(grid.rows) > OPEN_ROWS:
            yield f"<details><summary>{title}</summary>{_grid(grid)}</details>"
        else:
            yield f"<h3>{title}</h3>{_grid(grid)}"


def _origin(record: Record) -> str:
    """The origin of the numbers."""
    took = f", took {duration(record.seconds)}" if record.seconds else ""
    return _facts(
        [
            ("Command", f"<code>{escape(record.command)}</code>"),
            ("Date", escape(moment(record.date) + took)),
            ("Machine", escape(machine_in_words(record.machine))),
            ("Versions", escape(_versions(record))),
        ]
    )


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    return f'<dl class="origin">{"".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)}</dl>'


def _versions(record: Record) -> str:
    return ", ".join(f"{name} {version}" for name, version in record.versions.items())


def _trouble(record: Record) -> Iterator[str]:
    yield f'<div class="trouble {record.status}"><b>{record.status.capitalize()}:</b> {escape(record.reason)}</div>'
    if record.log:
        yield f"<h3>The end of its log</h3><pre>{escape(chr(10).join(record.log))}</pre>"


def _grid(grid: Grid) -> str:
    numbers = [any(isinstance(row[n], (int, float)) for row in grid.rows) for n in range(len(grid.columns))]
    head = "".join(f"<th{_kind(is_number)}>{escape(name)}</th>" for name, is_number in zip(grid.columns, numbers))
    body = "".join(
        f"<tr>{''.join(_cell(cell, is_number) for cell, is_number in zip(row, numbers))}</tr>" for row in grid.rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _kind(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _cell(cell: Cell, is_number: bool) -> str:
    kind = ' class="wide"' if isinstance(cell, str) and len(cell) > _LONG_TEXT else _kind(is_number)
    return f"<td{kind}>{escape(shown(cell))}</td>"


def _prose(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _anchor(record: Record) -> str:
    return escape(re.sub(r"[^a-z0-9-]+", "-", record.name.lower()), quote=True)
