"""Background operations: sums by kind, what runs, what could run by score and why, and what was done."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

from ....model.metrics import Distribution, collect
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
            element("p", _io()),
            table(
                "By kind",
                (
                    "Operation",
                    "Due",
                    "Best score",
                    "Running",
                    "Done",
                    "Failed",
                    "Took",
                    "Has written",
                    "Due: frees memory",
                    "Frees log",
                    "Frees disk",
                ),
                [_kind(row) for row in request.subject.rows("operation_kinds")],
                "This process does no background work.",
            ),
            table("Running", (*where, "Why", "For"), [_run(row) for row in states["RUNNING"]], "Nothing runs."),
            table(
                "Possible, best first",
                (*where, "Score", "Frees memory", "Frees log", "Reads or frees on disk"),
                possible,
                "There is nothing to do.",
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


def _io() -> str | None:
    """Sentence with the bytes of background work and their ceiling; None of a process that does no such work."""
    found: dict[str, float] = {}
    for sample in collect():
        if not isinstance(sample.value, Distribution):
            found[sample.name + "".join(sample.labels)] = sample.value
    read = found.get("nyala_maintenance_io_bytes_totalread")
    if read is None:
        return None
    written, limit = found["nyala_maintenance_io_bytes_totalwritten"], found["nyala_maintenance_io_limit_bytes"]
    ceiling = f"at most {size(limit)} per second" if limit else "without a ceiling"
    waited = duration(found["nyala_maintenance_io_wait_seconds_total"])
    return f"Background work has read {size(read)} and written {size(written)}, {ceiling}; it waited {waited} for that."


def _kind(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        row["kind"],
        row["queued"],
        Right(f"{row['best_score']:.3f}"),
        row["running"],
        row["done"],
        row["failed"],
        duration(row["seconds"]),
        size(row["written_bytes"]),
        size(row["memory_bytes"]),
        size(row["log_bytes"]),
        size(row["disk_bytes"]),
    )


def _where(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["kind"], row["table_name"], row["tablet_id"], row["target"]


def _run(row: Mapping[str, Any]) -> tuple[object, ...]:
    return *_where(row), row["reason"], duration(row["seconds"])


def _done(row: Mapping[str, Any]) -> tuple[object, ...]:
    started = datetime.datetime.fromtimestamp(row["started"] / 1e6, datetime.UTC).strftime("%H:%M:%S")
    outcome = "done" if row["state"] == "DONE" else element("span", row["error"], class_="bad")
    return *_run(row), started, outcome
