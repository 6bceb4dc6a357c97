"""Answers one request: probes, metrics, stacks, or a page.

    Host ─► probe? ─► credentials ─► token of a POST ─► /metrics, /stacks, /profile, style.css ─► pages.ROUTES

Every response forbids scripts, frames and foreign content; there is no script in any page.
"""

from __future__ import annotations

import contextlib
import http
import logging
import secrets
import time
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, Protocol, cast
from urllib.parse import parse_qs, urlsplit

from ...errors import Error, InvalidPassword, UnknownTable
from ...model.metrics import collect
from ...model.version import __version__
from ...net.addresses import address_of
from ..audited import log_refused
from .access import Access, is_own_name, named_user
from .exposition import exposition
from .pages import ROUTES, STYLESHEET, framed, problem
from .request import DOOR, PageServer, Request
from .stacks import profile, stacks

BODY_BYTES: Final = 1 << 20
"""Longest body of a POST."""
WRONG_SECONDS: Final = 0.25
"""Delay after wrong credentials."""
SECURITY: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_WRONG: Final = "the user and the password are wrong, or not those of a superuser"
_TEXT: Final = "text/plain; charset=utf-8"
_HTML: Final = "text/html; charset=utf-8"
_logger = logging.getLogger("nyala.doors.http")


class RequestServer(PageServer, Protocol):
    """The server of the handlers: an `HttpServer`."""

    host: str
    access: Access


class Handler(BaseHTTPRequestHandler):
    """Answers one request of a connection."""

    protocol_version = "HTTP/1.0"
    server_version = f"nyala/{__version__}"
    sys_version = ""

    def do_GET(self) -> None:
        """GET: everything but what changes something."""
        self._answer(is_post=False)

    def do_HEAD(self) -> None:
        """HEAD: GET without the body."""
        self._answer(is_post=False)

    def do_POST(self) -> None:
        """POST: the console, and buttons."""
        self._answer(is_post=True)

    def log_message(self, format: str, *arguments: Any) -> None:
        _logger.debug(format, *arguments)

    @property
    def _server(self) -> RequestServer:
        return cast(RequestServer, self.server)

    # ---- the steps ---------------------------------------------------------------------------------------------------

    def _answer(self, is_post: bool) -> None:
        path = urlsplit(self.path)
        options = self._server.options
        if options.password is None and not is_own_name(self.headers.get("Host"), self._server.host):
            return self._send(421, "this server is read by names of its own machine only, such as 127.0.0.1\n")
        if path.path == "/healthz":
            return self._send(200, "ok\n")
        if path.path == "/readyz":
            reason = self._server.subject.not_ready()
            return self._send(503 if reason else 200, f"{reason or 'ready'}\n")
        user = self._server.access.user_of(self.headers.get("Authorization"))
        if user is None:
            if (given := self.headers.get("Authorization")) is not None:
                self._note_refused(given)
                time.sleep(WRONG_SECONDS)  # guesses are slow; other requests have other threads
            challenge = {"WWW-Authenticate": 'Basic realm="nyala", charset="UTF-8"'}
            return self._send(401, "a password is needed\n", more=challenge)
        values = {name: found[-1] for name, found in parse_qs(path.query, keep_blank_values=True).items()}
        if is_post:
            body = self._form()
            if body is None:
                return self._send(413, "the form is too long, or has no length\n")
            if not secrets.compare_digest(body.pop("token", "").encode(), self._server.token.encode()):
                return self._send(403, "the form is from another process or another site: load the page again\n")
            values = body
        request = Request(path.path, values, user, self._server, is_post, self._client)
        if not self._plain(request):
            self._page(request)
        return None

    @property
    def _client(self) -> str:
        return address_of(*self.client_address[:2])

    def _note_refused(self, authorization: str) -> None:
        """Wrong credentials, for the audit log; the request is refused in any case."""
        if (log := self._server.options.audit) is not None:
            with contextlib.suppress(Error):
                log_refused(log, DOOR, named_user(authorization), self._client, InvalidPassword.sqlstate, _WRONG)

    def _form(self) -> dict[str, str] | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > BODY_BYTES:
            return None
        found = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"), keep_blank_values=True)
        return {name: values[-1] for name, values in found.items()}

    def _plain(self, request: Request) -> bool:
        """Answers what is no page; False if it is one."""
        if request.path == "/metrics":
            text, media = exposition(collect(), self.headers.get("Accept", ""))
            self._send(200, text, media)
        elif request.path == "/style.css":
            self._send(200, STYLESHEET, "text/css; charset=utf-8")
        elif request.path == "/stacks":
            self._send(200, stacks())
        elif request.path == "/profile":
            if self._server.options.profiler:
                self._send(200, profile(float(request.number("seconds", 5))))
            else:
                self._send(404, "the profiler is off: start the server with --http-profiler\n")
        else:
            return False
        return True

    def _page(self, request: Request) -> None:
        route = ROUTES.get(request.path)
        if route is None:
            return self._send(404, framed(request, *problem(f"There is no page {request.path}.")), _HTML)
        if request.is_post and not route.takes_forms:
            return self._send(405, "this page takes no forms\n")
        status = 200
        try:
            made = route.make(request)
        except Error as error:
            status, made = 404 if isinstance(error, UnknownTable) else 503, problem(str(error))
        except Exception:
            _logger.exception("a page failed", extra={"fields": {"path": request.path}})
            status, made = 500, problem("The page failed; the log has the reason.")
        # A reader who has gone by now is no fault of the page: `HttpServer.handle_error` notes it.
        return self._send(status, framed(request, *made), _HTML)

    def _send(self, status: int, text: str, media: str = _TEXT, more: dict[str, str] | None = None) -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status, http.HTTPStatus(status).phrase)
        headers = {"Content-Type": media, "Content-Length": str(len(body)), "Connection": "close"}
        for name, value in {**headers, **SECURITY, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
