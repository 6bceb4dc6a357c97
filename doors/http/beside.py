"""A server of a process with its HTTP server beside it (`cluster.wire.process.server_process.Server`).

    HTTP listens, not ready ──► the server is made ──► start ──► ready ──► drain: not ready ──► stop ──► HTTP ends

Probes are answered while a store recovers and while a server drains: an orchestrator sees the difference between a slow
start and a dead process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .options import HttpOptions
from .server import HttpServer
from .subject import Subject


class Inner(Protocol):
    """The server of a process."""

    @property
    def address(self) -> str: ...

    def start(self) -> None: ...

    def drain(self) -> Any: ...

    def stop(self) -> Any: ...


class ServerWithPages:
    """Makes a server after its HTTP server listens.

    Parameters
    ----------
    make : callable
        Makes the server; it may take long.
    subject : Subject
    options : HttpOptions

    Attributes
    ----------
    http : HttpServer
    """

    def __init__(self, make: Callable[[], Inner], subject: Subject, options: HttpOptions):
        self._subject = subject
        self.http = HttpServer(subject, options)
        self.http.start()
        try:
            self._inner = make()
        except BaseException:
            self.http.close()
            raise

    @property
    def address(self) -> str:
        """ "host:port" at which the server itself listens."""
        return self._inner.address

    def start(self) -> None:
        """Serves clients."""
        try:
            self._inner.start()
        except BaseException:
            self.http.close()
            raise
        self._subject.attach(self._inner)

    def drain(self) -> None:
        """Lets running work end."""
        self._subject.stop()
        self._inner.drain()

    def stop(self) -> None:
        """Ends both."""
        self._subject.stop()
        try:
            # Its connection to the store ends first: the store is closed by the server.
            self._subject.close()
            self._inner.stop()
        finally:
            self.http.close()


def with_pages(
    make: Callable[[], Inner],
    subject: Subject,
    options: HttpOptions | None,
    note: Callable[[ServerWithPages], object] = lambda server: None,
) -> Callable[[], Inner]:
    """`make`, or with options a function that makes the same server with pages beside it, and passes it to `note`."""
    if options is None:
        return make

    def made() -> Inner:
        server = ServerWithPages(make, subject, options)
        note(server)
        return server

    return made
