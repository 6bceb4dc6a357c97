"""Spans of statements: their tree, their attributes, which have no values, and the trace that a client began."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import nyala
import pytest
from nyala.driver.telemetry import trace_statements, trace_to
from nyala.errors import DivisionByZero
from nyala.model import waiting_time

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

pytestmark = pytest.mark.embedded_only("looks into this process")
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_statements(provider)
    yield exporter
    trace_statements(None)
    provider.shutdown()


@pytest.fixture
def connection() -> Iterator[Any]:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING) PARTITION BY HASH (k) PARTITIONS 2")
        connection.execute("INSERT INTO t SELECT n, 'v' FROM generate_series(1, 100) AS g(n)")
        yield connection


def roots(exporter: InMemorySpanExporter, verb: str) -> list[Any]:
    return [span for span in exporter.get_finished_spans() if span.name == verb]


def children(exporter: InMemorySpanExporter, span: Any) -> list[str]:
    """Names of the spans below one, in the order of their begin."""
    found = [s for s in exporter.get_finished_spans() if s.parent and s.parent.span_id == span.context.span_id]
    return [child.name for child in sorted(found, key=lambda child: child.start_time)]


def test_a_statement_has_a_span_with_its_phases(connection: Any, exporter: InMemorySpanExporter) -> None:
    cursor = connection.execute("SELECT v, count(*) FROM t WHERE k > 1234 OR v = 'Zanzibar' OR k < 1000 GROUP BY v")
    assert roots(exporter, "SELECT") == [], "it has not ended yet"
    assert cursor.fetchall() == [("v", 100)]
    (span,) = roots(exporter, "SELECT")
    assert children(exporter, span) == ["plan", "execute"]
    assert span.kind is SpanKind.INTERNAL and span.parent is None and span.status.status_code is StatusCode.UNSET
    found = dict(span.attributes)
    assert found.pop("nyala.memory_bytes") > 0
    assert found == {
        "db.system": "nyala",
        "db.operation": "SELECT",
        "db.statement": "SELECT v, count(*) FROM t WHERE k > ? OR v = ? OR k < ? GROUP BY v",
        "db.user": "nyala",
        "nyala.rows": 1,
    }


def test_statements_on_single_rows_and_changes_have_spans_too(connection: Any, exporter: InMemorySpanExporter) -> None:
    for _ in range(3):
        assert connection.execute("SELECT v FROM t WHERE k = ?", (7,)).fetchall() == [("v",)]
    assert len(roots(exporter, "SELECT")) == 3
    connection.execute("UPDATE t SET v = 'secret' WHERE k > 90")
    (change,) = roots(exporter, "UPDATE")
    assert change.attributes["nyala.rows"] == 10
    assert "secret" not in str([dict(span.attributes) for span in exporter.get_finished_spans()])


def test_failures_are_named_without_their_message(connection: Any, exporter: InMemorySpanExporter) -> None:
    with pytest.raises(nyala.Error):
        connection.execute("SELECT 'hunter2' FROM nothing")
    with pytest.raises(DivisionByZero):
        connection.execute("SELECT 4711 / (k - 50) FROM t").fetchall()
    unknown, divided = roots(exporter, "SELECT")
    assert [span.attributes["nyala.sqlstate"] for span in (unknown, divided)] == ["42P01", "22012"]
    for span in (unknown, divided):
        assert span.status.status_code is StatusCode.ERROR and span.events == ()
    spans = " ".join(span.to_json() for span in exporter.get_finished_spans())
    assert "hunter2" not in spans and "4711" not in spans


def test_a_commit_is_a_child_of_its_statement(connection: Any, exporter: InMemorySpanExporter) -> None:
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t VALUES (1000, 'x'), (1001, 'y')")
    connection.execute("COMMIT")
    (commit,) = roots(exporter, "COMMIT")
    assert "commit" in children(exporter, commit)


def test_calls_of_servers_are_children(connection: Any, exporter: InMemorySpanExporter) -> None:
    url = connection.serve()
    with nyala.connect(url) as client:
        assert client.execute("SELECT count(*) FROM t WHERE k > 0").fetchall() == [(100,)]
        client.execute("INSERT INTO t SELECT n, 'w' FROM generate_series(5000, 9000) AS g(n)")
    calls = [span for span in exporter.get_finished_spans() if "server.address" in span.attributes]
    assert {span.attributes["server.address"] for span in calls} == {url.removeprefix("nyala://")}
    known = {span.context.span_id for span in (*roots(exporter, "SELECT"), *roots(exporter, "INSERT"))}
    assert {span.parent.span_id for span in calls} <= known


def test_the_trace_of_a_client_goes_on(connection: Any, exporter: InMemorySpanExporter) -> None:
    connection.execute(f"SELECT count(*) FROM t /*application='x',traceparent='{TRACEPARENT}'*/").fetchall()
    connection.execute("SELECT count(*) FROM t /*traceparent='00-nonsense'*/").fetchall()
    with closing(connection.execute("SELECT 'traceparent=''' FROM t LIMIT 1")) as cursor:
        cursor.fetchall()
    first, *others = roots(exporter, "SELECT")
    assert (f"{first.context.trace_id:032x}", f"{first.parent.span_id:016x}") == (TRACE, PARENT)
    assert all(span.parent is None for span in others) and len(others) == 2


def of_clients(exporter: InMemorySpanExporter, count: int) -> list[Any]:
    """The spans of queries of other protocols, once there are as many: a server ends the last one after its reply."""
    deadline = time.monotonic() + 60
    while True:
        found = [span for span in roots(exporter, "SELECT") if span.kind is SpanKind.SERVER]
        if len(found) >= count:
            return found
        assert time.monotonic() < deadline, [span.name for span in exporter.get_finished_spans()]
        time.sleep(0.01)


def test_the_trace_of_clients_of_other_protocols_goes_on(connection: Any, exporter: InMemorySpanExporter) -> None:
    psycopg = pytest.importorskip("psycopg")
    adbc = pytest.importorskip("adbc_driver_flightsql.dbapi")
    url = connection.serve(postgres="127.0.0.1:0")
    with psycopg.connect(url.replace("//", "//ana@"), autocommit=True) as client:
        for _ in range(8):  # from the fifth on it is a prepared statement
            client.execute(f"SELECT v FROM t WHERE k = %s /*traceparent='{TRACEPARENT}'*/", (1,)).fetchall()
    served = of_clients(exporter, 8)
    assert all(span.attributes["client.address"].startswith("127.0.0.1:") for span in served)
    assert {f"{span.context.trace_id:032x}" for span in served} == {TRACE}
    exporter.clear()
    url = connection.serve(flight_sql="127.0.0.1:0")
    header = {"adbc.flight.sql.rpc.call_header.traceparent": TRACEPARENT}
    with adbc.connect(url, db_kwargs=header) as client, client.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM t")
        assert cursor.fetchall() == [(100,)]
    served = of_clients(exporter, 1)
    assert {f"{span.context.trace_id:032x}" for span in served} == {TRACE}


class Collector(BaseHTTPRequestHandler):
    """A collector of OTLP over HTTP."""

    received: list[ExportTraceServiceRequest]

    def do_POST(self) -> None:
        assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""


def test_spans_arrive_at_a_collector(connection: Any) -> None:
    received: list[ExportTraceServiceRequest] = []
    with HTTPServer(("127.0.0.1", 0), type("Here", (Collector,), {"received": received})) as collector:
        thread = threading.Thread(target=collector.serve_forever, args=(0.01,))
        thread.start()
        end = trace_to(f"http://127.0.0.1:{collector.server_port}/v1/traces", "store of weather")
        try:
            connection.execute("SELECT count(*) FROM t").fetchall()
        finally:
            end()
            collector.shutdown()
            thread.join()
    assert waiting_time.exporter is None
    (of_process,) = [resource for request in received for resource in request.resource_spans]
    named = {attribute.key: attribute.value.string_value for attribute in of_process.resource.attributes}
    assert named["service.name"] == "store of weather"
    assert sorted(span.name for scope in of_process.scope_spans for span in scope.spans) == [
        "SELECT",
        "execute",
        "plan",
    ]


def test_nothing_is_imported_until_it_is_configured() -> None:
    script = (
        "import sys, nyala; from nyala.driver import telemetry; c = nyala.connect(':memory:'); "
        "c.execute('SELECT 1').fetchall(); print([name for name in sys.modules if 'opentelemetry' in name])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
