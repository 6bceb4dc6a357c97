"""The frame of every page: title, navigation, content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from ....model.lazy_dataclass import dataclass
from ..request import Request
from .html import Html, element, join

Page: TypeAlias = tuple[str, Html]
"""Title and content."""

_PAGES: Final = (
    ("/", "Overview"), ("/cluster", "Cluster"), ("/tables", "Tables"), ("/tablets", "Tablets"),
    ("/statements", "Statements"), ("/sessions", "Sessions"), ("/maintenance", "Maintenance"), ("/console", "Console"),
    ("/settings", "Settings"), ("/log", "Log"), ("/metrics", "Metrics"), ("/stacks", "Stacks"),
)  # fmt: skip
_WITHIN: Final = {"/table": "/tables", "/statement": "/statements"}


@dataclass(frozen=True, slots=True)
class Route:
    """A page; `takes_forms` if it answers POST."""

    make: Callable[[Request], Page]
    takes_forms: bool = False


def framed(request: Request, title: str, content: Html) -> str:
    """A whole document."""
    subject = request.subject
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("title", f"{title} - nyala {subject.kind}"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="stylesheet", href="/style.css"),
        element("link", rel="icon", href="data:,"),
    )
    here = _WITHIN.get(request.path, request.path)
    items = [
        element("li", element("a", name, href=path, aria_current="page" if path == here else None))
        for path, name in _PAGES
        if path != "/cluster" or subject.look is not None
    ]
    top = element(
        "header",
        element("p", element("strong", f"nyala {subject.kind}"), " ", subject.name),
        element("nav", element("ul", *items), aria_label="Pages"),
    )
    body = element(
        "body",
        element("a", "Skip to content", href="#content", class_="skip"),
        top,
        element("main", element("h1", title), content, id="content"),
    )
    return "<!DOCTYPE html>\n" + element("html", head, body, lang="en")


def problem(text: str) -> Page:
    """A page in place of one that cannot be made."""
    return "Not available", join([element("p", text, class_="health bad", role="alert")])
