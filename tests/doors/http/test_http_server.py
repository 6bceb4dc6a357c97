"""The HTTP server: probes, metrics by the parsers of Prometheus' library, access, forms, limits, TLS."""

from __future__ import annotations

import base64
import http.client
import logging
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import nyala
import pytest
from http_support import ask, post
from net_support import until
from nyala.doors.http import handler, serve
from nyala.doors.http.beside import with_pages
from nyala.doors.http.options import HttpOptions
from nyala.doors.http.pages import Route, problem
from nyala.doors.http.server import HttpServer
from nyala.doors.http.subject import Subject
from nyala.errors import InterfaceError, ServerUnavailable
from nyala.model.metric_definitions import METRICS
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_metrics
from tls_support import Pki

pytestmark = pytest.mark.embedded_only("serves a store of this process")
HOSTILE = 'a"\\\n{x="</script>'
OPEN = {"Accept": "application/openmetrics-text; version=1.0.0"}


@pytest.fixture(scope="module")
def connection() -> Iterator[nyala.driver.connection.Connection]:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING) PARTITION BY HASH (k) PARTITIONS 2")
        connection.execute("INSERT INTO t SELECT n, 'v' FROM generate_series(1, 100) AS g(n)")
        connection.execute('CREATE TABLE "{}" (k INT PRIMARY KEY)'.format(HOSTILE.replace('"', '""')))
        yield connection


@pytest.fixture(scope="module")
def server(connection: Any) -> Iterator[HttpServer]:
    with serve(connection) as server:
        yield server


# ---- probes ----------------------------------------------------------------------------------------------------------


class Slow:
    """A server that is made when it is allowed to."""

    address = "127.0.0.1:1"

    def __init__(self, reason: str = ""):
        self.reason = reason
        self.seen: list[str] = []

    def not_ready(self) -> str:
        return self.reason

    def start(self) -> None:
        self.seen.append("start")

    def drain(self) -> None:
        self.seen.append("drain")

    def stop(self) -> None:
        self.seen.append("stop")


def test_a_server_is_alive_before_it_is_ready_and_not_ready_while_it_drains(connection: Any) -> None:
    subject, inner = Subject("store", "x", lambda _: connection.duplicate()), Slow("3 tablets are being opened")
    pages: list[Any] = []
    probes: list[tuple[int, int]] = []

    def probe() -> None:
        probes.append(tuple(ask(pages[0], path)[0].status for path in ("/healthz", "/readyz")))  # type: ignore[arg-type]

    class Watching(HttpServer):
        def start(self) -> None:
            super().start()
            pages.append(self)

    def make() -> Slow:
        probe()
        response, text = ask(pages[0], "/tables")
        assert (response.status, "the server is starting" in text) == (503, True)
        assert "Not ready: the server is starting" in ask(pages[0], "/")[1]
        return inner

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nyala.doors.http.beside.HttpServer", Watching)
        around = with_pages(make, subject, HttpOptions())()
    try:
        around.start()
        probe()
        assert ask(pages[0], "/readyz")[1] == "3 tablets are being opened\n"
        inner.reason = ""
        probe()
        around.drain()
        probe()
    finally:
        around.stop()
    assert probes == [(200, 503), (200, 503), (200, 200), (200, 503)]
    assert inner.seen == ["start", "drain", "stop"]
    with pytest.raises(OSError):
        ask(pages[0], "/healthz")


def test_a_server_that_cannot_be_made_leaves_no_http_server(connection: Any) -> None:
    subject = Subject("store", "x", lambda _: connection.duplicate())

    def make() -> Slow:
        raise ServerUnavailable("the port is taken")

    before = threading.active_count()
    with pytest.raises(ServerUnavailable, match="taken"):
        with_pages(make, subject, HttpOptions())()
    assert threading.active_count() == before


# ---- metrics ---------------------------------------------------------------------------------------------------------


def test_metrics_are_open_metrics_and_prometheus_own_format(server: HttpServer) -> None:
    response, text = ask(server, "/metrics", **OPEN)
    assert response.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = {family.name: family for family in open_metrics(text)}
    assert set(families) <= {metric.family for metric in METRICS.values()}
    rows = {sample.labels["table"]: sample.value for sample in families["nyala_table_rows"].samples}
    assert rows["t"] == 100 and rows[HOSTILE] == 0
    assert families["nyala_statements"].type == "counter"
    assert families["nyala_fsync_seconds"].type == "histogram"
    response, text = ask(server, "/metrics")
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    plain = {family.name: family.type for family in plain_metrics(text)}
    assert plain.keys() == families.keys() and plain["nyala_statements"] == "counter"
    samples = {sample.name: sample.value for family in plain_metrics(text) for sample in family.samples}
    assert samples["nyala_ready"] == 1 and samples["nyala_gc_pause_seconds_count"] >= 0


def test_a_scrape_shows_what_sql_shows(server: HttpServer, connection: Any) -> None:
    shown = dict(
        connection.execute("SELECT name, value FROM nyala_catalog.metrics WHERE name = 'nyala_tablets'").fetchall()
    )
    scraped = {s.name: s.value for family in plain_metrics(ask(server, "/metrics")[1]) for s in family.samples}
    assert scraped["nyala_tablets"] == shown["nyala_tablets"]


# ---- access ----------------------------------------------------------------------------------------------------------


def test_responses_forbid_scripts_frames_and_foreign_content(server: HttpServer) -> None:
    for path in ("/", "/tables", "/metrics", "/stacks", "/style.css", "/nothing"):
        response, _ = ask(server, path)
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src" not in policy and "frame-ancestors 'none'" in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Cache-Control"] == "no-store"
        assert "Python" not in response.headers["Server"]


def test_a_name_of_another_site_is_refused_without_a_password(server: HttpServer) -> None:
    for path in ("/", "/metrics", "/healthz"):
        assert ask(server, path, Host="evil.example:80")[0].status == 421
    assert ask(server, "/", Host="localhost:1")[0].status == 200


def test_a_password_is_needed_for_all_but_probes(connection: Any) -> None:
    with serve(connection, password="open sesame") as server:
        assert [ask(server, path)[0].status for path in ("/healthz", "/readyz")] == [200, 200]
        for path in ("/", "/metrics", "/stacks", "/style.css"):
            response, _ = ask(server, path)
            assert response.status == 401 and response.headers["WWW-Authenticate"].startswith("Basic realm=")
        for given in ("Basic !", "Bearer x", "Basic " + base64.b64encode(b"ana:wrong").decode()):
            assert ask(server, "/", Authorization=given)[0].status == 401
        right = "Basic " + base64.b64encode(b"ana:open sesame").decode()
        assert ask(server, "/metrics", Authorization=right)[0].status == 200


def test_forms_need_the_token_of_the_process(server: HttpServer) -> None:
    assert post(server, "/console", sql="SELECT 1")[0].status == 403
    assert post(server, "/console", sql="SELECT 1", token="wrong")[0].status == 403
    assert post(server, "/tables", token=server.token)[0].status == 405
    response, text = post(server, "/console", sql="SELECT 6 * 7 AS answer", token=server.token)
    assert response.status == 200 and '<td class="number">42</td>' in text
    # The text of a link is shown, and not run.
    assert "42" not in ask(server, "/console?" + urlencode({"sql": "SELECT 6 * 7"}))[1]


def test_malformed_requests_are_answered(server: HttpServer) -> None:
    assert ask(server, "/console", "POST", "x=1", Content_Length="-1")[0].status == 413
    assert ask(server, "/console", "POST", None, Content_Length=str(1 << 30))[0].status == 413
    assert ask(server, "/statement?id=" + "9" * 400)[0].status == 200
    assert ask(server, "/tables?page=99999999999")[0].status == 200
    assert ask(server, "/%00%ff<script>")[0].status == 404
    assert ask(server, "/", "DELETE")[0].status == 501
    response, text = ask(server, "/", "HEAD")
    assert response.status == 200 and text == "" and int(response.headers["Content-Length"]) > 500


def test_a_reader_who_leaves_is_no_failure_of_the_page(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "nyala.doors.http")
    has_left = threading.Event()

    def late(request: Any) -> Any:
        assert has_left.wait(60)
        return problem("late" * 1_000_000)

    monkeypatch.setitem(handler.ROUTES, "/sessions", Route(late))
    where = urlsplit(server.url)
    with socket.create_connection((where.hostname, where.port)) as reader:
        reader.sendall(b"GET /sessions HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # the close is a reset
    has_left.set()
    until(lambda: "a request ended early" in caplog.text)
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


def test_too_many_requests_are_refused(connection: Any) -> None:
    with serve(connection, connections=1) as server:
        where = urlsplit(server.url)
        idle = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
        idle.connect()  # holds the one slot, until its request is complete or late
        try:
            response, _ = ask(server, "/healthz")
            assert response.status == 503
            idle.request("GET", "/healthz")
            assert idle.getresponse().status == 200
        finally:
            idle.close()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"address": "0.0.0.0:0"}, "a password and TLS are missing"),
        ({"address": "0.0.0.0:0", "password": "x"}, "TLS is missing"),
        ({"address": "8050"}, "HOST:PORT is needed"),
        ({"password": ""}, "the password is empty"),
        ({"tls_cert": "a"}, "one of the two is missing"),
    ],
)
def test_unsafe_options_are_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(InterfaceError, match=why):
        HttpOptions(**options).endpoint()  # type: ignore[arg-type]


def test_tls_and_a_client_that_does_not_speak_it(connection: Any, tmp_path: Path) -> None:
    files = Pki(tmp_path).files("127.0.0.1").options()
    with serve(connection, tls_cert=files["tls_cert"], tls_key=files["tls_key"]) as server:
        where = urlsplit(server.url)
        assert where.scheme == "https"
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(server, "/healthz")
        trusted = ssl.create_default_context(cafile=files["tls_ca"])
        client = http.client.HTTPSConnection("127.0.0.1", where.port, timeout=30, context=trusted)
        try:
            client.request("GET", "/healthz")
            assert client.getresponse().read() == b"ok\n"
        finally:
            client.close()


def test_a_port_that_is_taken_has_a_helpful_error(connection: Any, server: HttpServer) -> None:
    taken = f"127.0.0.1:{server.server_port}"
    with pytest.raises(ServerUnavailable, match=f"cannot listen at {taken}"):
        serve(connection, taken)


def test_the_profiler_is_off_unless_it_is_allowed(connection: Any, server: HttpServer) -> None:
    assert ask(server, "/profile")[0].status == 404
    with serve(connection, profiler=True) as allowed:
        response, text = ask(allowed, "/profile?seconds=0")
        stack, _, count = text.splitlines()[0].rpartition(" ")
        assert response.status == 200 and ";" in stack and int(count) >= 1
    assert "thread nyala-http" in ask(server, "/stacks")[1]


def test_a_connection_serves_one_protocol_for_each_call_and_ends_it() -> None:
    with nyala.connect(":memory:") as connection:
        url = connection.serve(http="127.0.0.1:0")
        with pytest.raises(InterfaceError, match="one protocol at a time"):
            connection.serve(http="127.0.0.1:0", postgres="127.0.0.1:0")
        with pytest.raises(InterfaceError, match="unexpected keyword"):
            connection.serve(http="127.0.0.1:0", nothing=1)
        where = urlsplit(url)
    client = http.client.HTTPConnection(where.hostname or "", where.port, timeout=5)
    with pytest.raises(OSError):
        client.request("GET", "/healthz")
    client.close()
