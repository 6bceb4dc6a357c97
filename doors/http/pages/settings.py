"""Settings of SQL and options of the command line, with where each value comes from."""

from __future__ import annotations

from ....sql.settings import SETTINGS
from ..request import Request
from .frame import Page
from .html import join, table


def settings(request: Request) -> Page:
    """The page "/settings"."""
    current = request.subject.connection().session.settings
    texts = current.texts()
    rows = [
        (name, texts[name], current.source(name), setting.range, setting.description)
        for name, setting in SETTINGS.items()
        if not setting.foreign
    ]
    options = [(f"--{name.replace('_', '-')}", value) for name, value in sorted(request.subject.options.items())]
    return "Settings", join(
        [
            table("Options of the command line", ("Option", "Value"), options, "There was none."),
            table("Settings of a new session", ("Setting", "Value", "Source", "Range", "Meaning"), rows),
        ]
    )
