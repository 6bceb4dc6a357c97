"""A request for a page, with what pages may use of the server."""

from __future__ import annotations

from typing import Protocol

from ...model.lazy_dataclass import dataclass
from .log_tail import LogTail
from .subject import Subject


class PageServer(Protocol):
    """The server of the pages: an `HttpServer`."""

    subject: Subject
    token: str
    log: LogTail
    seen: dict[str, tuple[float, int]]


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a page. `values` are those of the query, or of the form."""

    path: str
    values: dict[str, str]
    user: str
    server: PageServer
    is_post: bool = False

    @property
    def subject(self) -> Subject:
        """The store or server that the page describes."""
        return self.server.subject

    def value(self, name: str, default: str = "") -> str:
        """One value."""
        return self.values.get(name, default)

    def number(self, name: str, default: int = 0) -> int:
        """One value as a number; the default if it is none."""
        text = self.values.get(name, "")
        return int(text) if text.isdecimal() and len(text) < 19 else default
