"""Statements of this process: running ones with a button that cancels, the last that ended, slow ones with plan."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ....driver.session.statement_records import StatementRecord, records
from ..request import Request
from .frame import Page
from .html import Html, Right, duration, element, facts, form, join, link, size, table

if TYPE_CHECKING:
    from ....planner.explaining.operator_lines import OperatorLine

_CHARACTERS: Final = 200
_NO_PLAN: Final = "Plans are kept of statements that run, and of slow ones."
_HEADINGS: Final = ("Id", "Statement", "For", "Rows", "Memory", "User", "Client", "Started (UTC)")


def statements(request: Request) -> Page:
    """The page "/statements". A form with `cancel`, a number, cancels a statement."""
    note = None
    if request.is_post:
        number = request.number("cancel", -1)
        with request.audited(f"CANCEL STATEMENT {number}") as counted:
            is_cancelled = records().cancel(number)
            counted.append(int(is_cancelled))
        note = element(
            "p",
            f"Statement {number} was cancelled." if is_cancelled else f"Statement {number} does not run any more.",
            class_=f"health {'good' if is_cancelled else 'warn'}",
            role="status",
        )
    running = [(_cancel_button(request, record), *_cells(record)) for record in records().running()]
    slow = [_cells(record) for record in records().slow()]
    recent = [(*_cells(record), record.sqlstate or "done") for record in records().recent()]
    return "Statements", join(
        [
            note,
            table("Running", ("Cancel", *_HEADINGS), running, "Nothing runs."),
            table(f"Slow: {records().slow_seconds:g} s or more", _HEADINGS, slow, "There was none."),
            table("Recent", (*_HEADINGS, "Outcome"), recent, "There was none."),
            element("p", "Statements about one row by its key are counted, but not listed.", class_="quiet"),
        ]
    )


def _cells(record: StatementRecord) -> tuple[object, ...]:
    text = record.text if len(record.text) <= _CHARACTERS else record.text[:_CHARACTERS] + " ..."
    return (
        link(record.number, "/statement", id=record.number),
        element("pre", text),
        duration(record.seconds),
        record.rows,
        size(record.memory_bytes),
        record.user,
        record.client or "this process",
        _time(record.started),
    )


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%H:%M:%S")


def _cancel_button(request: Request, record: StatementRecord) -> Html:
    return form(
        "/statements",
        request.server.token,
        element("input", type="hidden", name="cancel", value=record.number),
        element("button", "Cancel", aria_label=f"Cancel statement {record.number}"),
    )


def statement(request: Request) -> Page:
    """The page "/statement" of one statement, by `id`."""
    number = request.number("id", -1)
    every = (*records().running(), *records().slow(), *records().recent())
    found = next((record for record in every if record.number == number), None)
    if found is None:
        return f"Statement {number}", element("p", "It is not kept any more.", class_="health warn")
    plan = found.plan_text()
    pairs = (
        ("State", found.state.lower()),
        ("For", duration(found.seconds)),
        ("Rows", f"{found.rows:,}"),
        ("Memory of operators", size(found.memory_bytes)),
        ("User", found.user),
        ("Client", found.client or "this process"),
        ("Error", f"{found.sqlstate}: {found.error}" if found.error else None),
    )
    return f"Statement {number}", join(
        [
            facts(pairs),
            _cancel_button(request, found) if found.state == "RUNNING" else None,
            element("h2", "Text"),
            element("pre", found.text, tabindex="0"),
            _operators(found.operators()),
            element("h2", "Plan"),
            element("pre", plan, tabindex="0") if plan else element("p", _NO_PLAN, class_="quiet"),
        ]
    )


def _operators(lines: Sequence[OperatorLine]) -> Html | None:
    """The operators of a plan with what each has done; None if that is not measured."""
    if not lines:
        return None
    whole = sum(line.actual.seconds for line in lines if line.actual is not None)
    headings = ("Operator", "Rows", "Expected", "Time", "Share", "Memory", "Spilled")
    return table("Operators", headings, [_operator(line, whole) for line in lines])


def _operator(line: OperatorLine, whole: float) -> tuple[object, ...]:
    indent = "  " * line.depth
    lines = [f"{indent}{line.text}", *(f"{indent}  \N{MIDDLE DOT} {detail}" for detail in line.details)]
    text = element("pre", "\n".join(lines), class_="tree")
    actual = line.actual
    if actual is None:
        return text, None, line.expected_rows, None, None, None, None
    return (
        text,
        actual.rows,
        line.expected_rows,
        duration(actual.seconds),
        Right(f"{actual.seconds / whole:.0%}") if whole else None,
        size(actual.memory) if actual.memory else None,
        size(actual.spilled) if actual.spilled else None,
    )
