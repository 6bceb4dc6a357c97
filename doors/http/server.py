"""The HTTP server: a socket, a thread for each request, TLS, and limits. `handler` answers the requests.

The standard library's server is enough for a few readers: one request per connection, at most `HttpOptions.connections`
at a time, 10 seconds for a client to send its request (docs/decisions/2026-11-27-pages-by-the-standard-library.md).
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import socketserver
import threading
from http.server import HTTPServer
from typing import Any, Final

from ...errors import ServerUnavailable
from ...model.forks import stay_with_process
from ..authentication import Authentication
from .access import WithUsers, access_of
from .gc_pauses import GcPauses
from .handler import Handler
from .log_tail import LogTail
from .options import HttpOptions
from .subject import Phase, Subject

REQUEST_SECONDS: Final = 10.0
"""For a client to send its request, and to take each part of the response."""
_BUSY: Final = (
    b"HTTP/1.0 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 19\r\n\r\ntoo many requests\r\n"
)
_logger = logging.getLogger("nyala.doors.http")


class HttpServer(socketserver.ThreadingMixIn, HTTPServer):
    """Serves the pages, metrics and probes of a subject. It listens from its construction, and answers from `start` on.

    Raises `InterfaceError` if the options are invalid, `ServerUnavailable` if the address cannot be used.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, subject: Subject, options: HttpOptions):
        host, port = options.endpoint()
        self.subject, self.options = subject, options
        self.host = host
        self._users: Authentication | None = None
        self.access = WithUsers(access_of(options.password), self._authentication)
        self.token = secrets.token_urlsafe(24)
        """Of the forms of this process."""
        self.log = LogTail()
        self.seen: dict[str, tuple[float, int]] = {}
        """When a page has last shown a table, and its rows then."""
        self._tls = options.tls()
        self._slots = threading.BoundedSemaphore(options.connections)
        self._pauses = GcPauses()
        self._is_closed = False
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            raise ServerUnavailable(f"cannot listen at {options.address}: {error}") from None
        self.server_port = self.socket.getsockname()[1]
        self._thread = threading.Thread(target=self.serve_forever, args=(0.5,), name="nyala-http", daemon=True)
        stay_with_process(self)

    def server_bind(self) -> None:
        """As in `HTTPServer`, without a look-up of the machine's name, which may take seconds."""
        socketserver.TCPServer.server_bind(self)

    def _authentication(self) -> Authentication | None:
        """That of the store's users; None of a server of a cluster, or until the store is open."""
        if self._users is None and self.subject.kind in ("store", "gateway") and self.subject.phase is Phase.READY:
            store = self.subject.connection().session.transactions.store
            self._users = Authentication(lambda: store.access, self.options.password)
        return self._users

    @property
    def url(self) -> str:
        """URL of the pages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.server_port}/"

    # ---- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Answers requests."""
        self.log.install()
        self._pauses.install()
        self._thread.start()
        _logger.info("pages and metrics are served", extra={"fields": {"address": self.url}})

    def close(self) -> None:
        """Ends; running requests are abandoned. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
        self.server_close()
        self.log.remove()
        self._pauses.remove()
        self.subject.close()

    def __enter__(self) -> HttpServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _abandon(self) -> None:
        """In a forked child: closes its copy of the socket."""
        self.socket.close()

    # ---- requests --------------------------------------------------------------------------------------------------

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begins a thread for a connection, unless there are too many."""
        if not self._slots.acquire(blocking=False):
            with contextlib.suppress(OSError):
                if self._tls is None:
                    request.sendall(_BUSY)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers the request of a connection, in its thread: a slow handshake must not hold up others."""
        try:
            request.settimeout(REQUEST_SECONDS)
            if self._tls is not None:
                try:
                    request = self._tls.wrap_socket(request, server_side=True)
                except OSError as error:
                    _logger.debug("a handshake failed: %s", error)
                    self.shutdown_request(request)
                    return
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client has gone, or a handler has a bug; neither ends the server."""
        _logger.debug("a request ended early", exc_info=True)
