"""Background operations: what runs, what could run by score and why, and what was done."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

from ..request import Request
from .frame import Page
from .html import Right, duration, element, join, size, table

_MOST: Final = 100


def maintenance(request: Request) -> Page:
    """The page "/maintenance"."""
    rows = request.subject.rows("operations")
    states = {state: [row for row in rows if row["state"] == state] for state in ("RUNNING", "POSSIBLE")}
    ended = [row for row in rows if row["state"] in ("DONE", "FAILED")]
    possible = [
        (
            *_where(row),
            Right(f"{row['score']:.3f}"),
            size(row["memory_bytes"]),
            size(row["log_bytes"]),
            size(row["disk_bytes"]),
        )
        for row in states["POSSIBLE"][:_MOST]
    ]
    where = ("Operation", "Table", "Tablet", "Target")
    return "Maintenance", join(
        [
            table("Running", (*where, "Why", "For"), [_run(row) for row in states["RUNNING"]], "Nothing runs."),
            table(
                "Possible, best first",
                (*where, "Score", "Frees memory", "Frees log", "Reads or frees on disk"),
                possible,
                "There is nothing to do, or an operation runs just now.",
            ),
            element(
                "p",
                "The score is the gain per byte of work. Memory that is short, or a log that is too long, goes first.",
                class_="quiet",
            ),
            table(
                "Last operations", (*where, "Why", "Took", "Started (UTC)", "Outcome"), [_done(row) for row in ended]
            ),
        ]
    )


def _where(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["kind"], row["table_name"], row["tablet_id"], row["target"]


def _run(row: Mapping[str, Any]) -> tuple[object, ...]:
    return *_where(row), row["reason"], duration(row["seconds"])


def _done(row: Mapping[str, Any]) -> tuple[object, ...]:
    started = datetime.datetime.fromtimestamp(row["started"] / 1e6, datetime.UTC).strftime("%H:%M:%S")
    outcome = "done" if row["state"] == "DONE" else element("span", row["error"], class_="bad")
    return *_run(row), started, outcome
