"""The tail of this process's log; `level` and `text` filter."""

from __future__ import annotations

from typing import Final

from ..request import Request
from .frame import Page
from .html import element, join, link, table

_LEVELS: Final = ("INFO", "WARNING", "ERROR", "CRITICAL")


def log(request: Request) -> Page:
    """The page "/log"."""
    level, text = request.value("level", "INFO"), request.value("text").lower()
    least = _LEVELS.index(level) if level in _LEVELS else 0
    lines = [
        line
        for line in request.server.log.lines()
        if (line.level not in _LEVELS or _LEVELS.index(line.level) >= least) and text in line.text.lower()
    ]
    rows = [(line.time, _level(line.level), line.logger, element("pre", line.text)) for line in lines]
    choices = (join([link(f"{name.lower()} and above", "/log", level=name), " "]) for name in _LEVELS)
    search = element(
        "form",
        element("input", type="hidden", name="level", value=level),
        element("label", "Text has ", element("input", type="search", name="text", value=request.value("text"))),
        " ",
        element("button", "Filter"),
        method="get",
        action="/log",
        role="search",
    )
    headings = ("Time (UTC)", "Level", "Logger", "Text")
    return "Log", join([element("p", *choices), search, table("Lines, newest first", headings, rows, "There is none.")])


def _level(level: str) -> object:
    kind = {"WARNING": "warn", "ERROR": "bad", "CRITICAL": "bad"}.get(level)
    return level if kind is None else element("span", level, class_=kind)
