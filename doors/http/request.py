"""A request for a page, with what pages may use of the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from ...errors import Error, InternalError
from ...model.lazy_dataclass import dataclass
from ..audited import Audited
from .log_tail import LogTail
from .options import HttpOptions
from .subject import Subject

DOOR: Final = "http"
"""Its name in the audit log."""


class PageServer(Protocol):
    """The server of the pages: an `HttpServer`."""

    subject: Subject
    options: HttpOptions
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
    address: str = ""
    """"host:port" of the client."""

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

    @contextmanager
    def audited(self, text: str) -> Iterator[list[int]]:
        """Context manager for a statement in the audit log. Its number of rows, if any, is to be added to the list.

        Raises `DiskError` at the end if the line cannot be written.
        """
        rows: list[int] = []
        if (log := self.server.options.audit) is None:
            yield rows
            return
        statement = Audited(log, DOOR, self.user, self.address).begin(text)
        try:
            yield rows
        except BaseException as error:
            statement.end(-1, error.sqlstate if isinstance(error, Error) else InternalError.sqlstate)
            raise
        statement.end(sum(rows) if rows else -1)
