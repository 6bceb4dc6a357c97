"""The first page: health in one line, then versions, memory, disk, statements, and the last warnings of the log."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Iterator
from typing import Any

from ....model.metrics import Distribution, Sample, collect
from ....model.version import __version__
from ..request import Request
from .frame import Page
from .html import Html, duration, element, facts, join, link, meter, size, table

_WARNINGS = 5


def overview(request: Request) -> Page:
    """The page "/"."""
    subject = request.subject
    samples = {(sample.name, sample.labels): sample for sample in collect()}
    findings = list(_findings(request, samples))
    if findings:
        health = element("p", "; ".join(findings), class_="health bad", role="status")
    else:
        health = element("p", f"Healthy: the {subject.kind} is ready.", class_="health good", role="status")
    warnings = [line for line in request.server.log.lines() if line.level not in ("INFO", "DEBUG")][:_WARNINGS]
    return "Overview", join(
        [
            health,
            facts(_facts(request, samples)),
            table(
                "Last warnings",
                ("Time (UTC)", "Level", "Logger", "Text"),
                [(line.time, line.level, line.logger, element("pre", line.text)) for line in warnings],
                "There were no warnings since the start.",
            ),
            element("p", link("All of the log that is kept", "/log")),
        ]
    )


def _value(samples: dict[Any, Sample], name: str, *labels: str) -> float | None:
    found = samples.get((name, labels))
    return None if found is None or isinstance(found.value, Distribution) else found.value


def _findings(request: Request, samples: dict[Any, Sample]) -> Iterator[str]:
    """Faults that an operator should look at."""
    reason = request.subject.not_ready()
    if reason:
        yield f"Not ready: {reason}"
    used = sum(_value(samples, "nyala_memory_bytes", kind) or 0 for kind in ("rows", "pages"))
    limit = _value(samples, "nyala_memory_limit_bytes")
    if limit and used > 0.95 * limit:
        yield f"Memory is full: {size(used)} of {size(limit)}"
    failed = _value(samples, "nyala_directories", "failed")
    if failed:
        yield f"{int(failed)} data directories have failed"
    full = _value(samples, "nyala_directories", "full")
    if full:
        yield f"{int(full)} data directories are full: they take no writes"
    if request.subject.kind == "store" and not reason:
        damaged = [row["tablet_id"] for row in request.subject.rows("tablets") if row["is_damaged"]]
        if damaged:
            yield f"{len(damaged)} tablets are in quarantine, {damaged[0]} among them: the log has the reason"


def _facts(request: Request, samples: dict[Any, Sample]) -> Iterator[tuple[str, Html | str | None]]:
    subject = request.subject
    yield "State", str(subject.phase)
    yield "Version", f"nyala {__version__}, Python {platform.python_version()}"
    yield "Process", f"{os.getpid()}, up for {duration(time.time() - subject.started)}"
    limit = _value(samples, "nyala_memory_limit_bytes")
    for kind in ("rows", "pages"):
        held = _value(samples, "nyala_memory_bytes", kind)
        if held is not None and limit:
            yield f"Memory of {kind}", meter(f"Memory of {kind}", held, limit)
    yield "Resident memory", size(_value(samples, "nyala_process_resident_bytes") or 0)
    yield "Disk", _disk(subject.name)
    yield "Write-ahead log", _size(_value(samples, "nyala_log_bytes"))
    yield "Open files", _share(samples, "nyala_process_open_files", "nyala_process_max_open_files")
    yield "Tablets", _plain(_value(samples, "nyala_tablets"))
    yield "Sessions", _plain(_value(samples, "nyala_sessions"))
    by_row = _value(samples, "nyala_statements_total", "row") or 0
    planned = _value(samples, "nyala_statements_total", "planned") or 0
    yield "Statements", f"{int(by_row + planned):,}, of them {int(by_row):,} by the row path"
    seconds = samples.get(("nyala_statement_seconds", ()))
    if seconds is not None and isinstance(seconds.value, Distribution) and seconds.value.count:
        shown = (f"{share:.0%} within {_bound(seconds.value.quantile(share))}" for share in (0.5, 0.95, 0.99))
        yield "Latency of planned statements", ", ".join(shown)
    hits = _value(samples, "nyala_page_cache_hits_total") or 0
    misses = _value(samples, "nyala_page_cache_insertions_total") or 0
    if hits + misses:
        yield "Page cache", f"{hits / (hits + misses):.1%} of pages of scans were in memory"


def _bound(seconds: float) -> str:
    return "more than a minute" if seconds == float("inf") else duration(seconds)


def _plain(value: float | None) -> str | None:
    return None if value is None else f"{int(value):,}"


def _size(value: float | None) -> str | None:
    return None if value is None else size(value)


def _share(samples: dict[Any, Sample], name: str, limit: str) -> str | None:
    value, most = _value(samples, name), _value(samples, limit)
    return None if value is None or most is None else f"{int(value):,} of {int(most):,}"


def _disk(directory: str) -> Html | None:
    """Use of the file system that a store's directory is on."""
    try:
        usage = shutil.disk_usage(directory)
    except (OSError, ValueError):
        return None
    return meter("Use of the disk", usage.used, usage.total)
