"""Requests to the HTTP server of nyala, for tests."""

from __future__ import annotations

import http.client
from urllib.parse import urlencode, urlsplit

from nyala.doors.http.server import HttpServer


def ask(
    server: HttpServer | str, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[http.client.HTTPResponse, str]:
    """A response and its text, of a server or of one at a URL."""
    where = urlsplit(server if isinstance(server, str) else server.url)
    client = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    try:
        client.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = client.getresponse()
        return response, response.read().decode()
    finally:
        client.close()


def post(
    server: HttpServer | str, path: str, authorization: str | None = None, **values: object
) -> tuple[http.client.HTTPResponse, str]:
    """A response to a form, and its text."""
    headers = {} if authorization is None else {"Authorization": authorization}
    return ask(server, path, "POST", urlencode(values), **headers)
