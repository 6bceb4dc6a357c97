"""Spans of servers: parts of the traces of clients, from real servers to a collector, and none without a trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import nyala
import pytest
from nyala.cluster.admin.minicluster import MiniCluster
from nyala.cluster.wire.messages.methods import ReadRow
from nyala.driver.telemetry import trace_statements
from nyala.errors import ReplicaUnavailable
from nyala.model import tracing, waiting_time

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only("starts its own servers")]
PATIENCE = 180.0
SERVER = 2
"""The kind of a span that answers a call, by OTLP."""


class Exported(NamedTuple):
    """A span that has arrived."""

    service: str
    instance: str
    trace: str
    id: str
    parent: str
    name: str
    kind: int
    began: int
    ended: int
    attributes: dict[str, Any]


class Collector:
    """A collector of OTLP over HTTP; a context manager."""

    def __init__(self) -> None:
        self.spans: list[Exported] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.spans += _spans(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait_for(self, found: Callable[[list[Exported]], Any]) -> Any:
        """The result of `found` for all spans, once that is true."""
        deadline = time.monotonic() + PATIENCE
        while not (result := found(list(self.spans))):
            assert time.monotonic() < deadline, "\n".join(
                str((s.name, s.id, s.parent, s.attributes)) for s in self.spans[-50:]
            )
            time.sleep(0.02)
        return result


def _spans(request: ExportTraceServiceRequest) -> Iterator[Exported]:
    for resource in request.resource_spans:
        named = {item.key: item.value.string_value for item in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                values = {item.key: item.value for item in span.attributes}
                yield Exported(
                    named["service.name"],
                    named["service.instance.id"],
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    span.kind,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    {name: getattr(value, str(value.WhichOneof("value"))) for name, value in values.items()},
                )


class Traced(NamedTuple):
    """A cluster whose servers send spans."""

    cluster: MiniCluster
    collector: Collector


@pytest.fixture(scope="module")
def traced() -> Iterator[Traced]:
    patch = pytest.MonkeyPatch()
    patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds; 5,000 by default
    try:
        with Collector() as collector, MiniCluster(options={"trace": collector.url}) as cluster:
            with nyala.connect(cluster.url) as client:
                client.execute(
                    "CREATE TABLE t (k INT PRIMARY KEY, v STRING) PARTITION BY HASH (k) PARTITIONS 2 REPLICAS 3"
                )
                client.execute("INSERT INTO t SELECT n, 'v' FROM generate_series(1, 1000) AS g(n)")
            yield Traced(cluster, collector)
    finally:
        patch.undo()


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    """The spans of this process, as the client."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_statements(provider)
    yield exporter
    trace_statements(None)
    provider.shutdown()


def statement(exporter: InMemorySpanExporter, verb: str) -> tuple[str, set[str]]:
    """The trace of the only statement that begins with a verb, and the ids of its client's spans."""
    finished = exporter.get_finished_spans()
    (root,) = [span for span in finished if span.name == verb and span.parent is None]
    trace = root.context.trace_id
    return f"{trace:032x}", {f"{s.context.span_id:016x}" for s in finished if s.context.trace_id == trace}


def calls(spans: list[Exported], trace: str, name: str) -> list[Exported]:
    """The spans of a method's calls in a trace."""
    return [span for span in spans if (span.trace, span.name, span.kind) == (trace, name, SERVER)]


def below(spans: list[Exported], call: Exported) -> dict[str, Exported]:
    """The spans within one, by name."""
    return {span.name: span for span in spans if span.parent == call.id}


def test_a_write_shows_what_its_server_waited_for(traced: Traced, exporter: InMemorySpanExporter) -> None:
    with nyala.connect(traced.cluster.url) as client:
        client.execute("INSERT INTO t SELECT n, repeat('w', 50) FROM generate_series(2001, 6000) AS g(n)")
    trace, known = statement(exporter, "INSERT")

    def written(spans: list[Exported]) -> Any:
        found = [call for call in calls(spans, trace, "Write") if "nyala.check_only" not in call.attributes]
        inside = [below(spans, call) for call in found]
        phases = {"queue", "execute", "lock", "replicate", "wal"}
        is_whole = sum(call.attributes.get("nyala.rows", 0) for call in found) == 4000
        return is_whole and all(phases <= parts.keys() for parts in inside) and list(zip(found, inside, strict=True))

    for call, parts in traced.collector.wait_for(written):
        assert call.parent in known and call.service == "nyala-tserver"
        assert traced.cluster.name_of(call.instance) in traced.cluster.tservers
        assert call.attributes["nyala.request_bytes"] > 50 * call.attributes["nyala.rows"]
        assert call.attributes["nyala.reply_bytes"] > 0 and call.attributes["nyala.rows_refused"] == 0
        assert call.attributes["rpc.system"] == "nyala" and call.attributes["nyala.tablet_id"]
        assert call.attributes["client.address"].startswith("127.0.0.1")
        assert call.began <= parts["queue"].began <= parts["queue"].ended <= parts["execute"].ended <= call.ended
        assert parts["replicate"].began >= parts["lock"].ended


def test_a_write_without_a_thread_of_its_own_has_the_same_waits(traced: Traced, exporter: InMemorySpanExporter) -> None:
    with nyala.connect(traced.cluster.url) as client:
        client.execute("UPSERT INTO t VALUES (7, 'seven')")
    trace, known = statement(exporter, "UPSERT")

    def written(spans: list[Exported]) -> Any:
        found = [*calls(spans, trace, "WriteRow"), *calls(spans, trace, "Write")]
        return [
            c for c in found if c.attributes.get("nyala.rows") == 1 and {"replicate", "wal"} <= below(spans, c).keys()
        ]

    (call,) = traced.collector.wait_for(written)
    assert call.parent in known


def test_a_scan_has_its_numbers(traced: Traced, exporter: InMemorySpanExporter) -> None:
    with nyala.connect(traced.cluster.url) as client:
        client.execute("SELECT k, v FROM t WHERE k <= 1000").fetchall()
        client.execute("SELECT v FROM t WHERE k = ?", (9,)).fetchall()
    traces = {
        f"{span.context.trace_id:032x}"
        for span in exporter.get_finished_spans()
        if span.name == "SELECT" and span.parent is None
    }

    def scanned(spans: list[Exported]) -> Any:
        found = [call for trace in traces for name in ("StartScan", "ScanTablet") for call in calls(spans, trace, name)]
        ended = [call for call in found if "nyala.rows_considered" in call.attributes]
        return sum(call.attributes["nyala.rows"] for call in ended) == 1000 and ended

    for call in traced.collector.wait_for(scanned):
        assert call.attributes["nyala.rows_considered"] >= call.attributes["nyala.rows"]
        assert {
            "nyala.bytes_read",
            "nyala.pages_read",
            "nyala.pages_skipped",
            "nyala.batches",
        } <= call.attributes.keys()
        assert call.attributes["nyala.tablet_id"]
    (looked_up,) = traced.collector.wait_for(
        lambda spans: [
            call for trace in traces for call in calls(spans, trace, "ReadRow") if call.attributes.get("nyala.rows")
        ]
    )
    assert looked_up.attributes["nyala.rows"] == 1


def test_a_master_calls_tablet_servers_within_the_trace(traced: Traced, exporter: InMemorySpanExporter) -> None:
    with nyala.connect(traced.cluster.url) as client:
        client.execute("CREATE TABLE made (k INT PRIMARY KEY)")
    trace, known = statement(exporter, "CREATE")
    (call, *_) = traced.collector.wait_for(lambda spans: calls(spans, trace, "CreateTable"))
    assert call.service == "nyala-master" and call.parent in known


def test_a_failed_call_has_its_sqlstate(traced: Traced, exporter: InMemorySpanExporter) -> None:
    trace = waiting_time.exporter.statement("SELECT 1", "ana", "")
    request = ReadRow(tablet_id="none", schema_version=1, key=(1,), columns=("k",))
    with tracing.within(trace), pytest.raises(ReplicaUnavailable):
        traced.cluster.call(traced.cluster.tservers[0], request)
    trace.end()
    of_client, _ = statement(exporter, "SELECT")
    (call,) = traced.collector.wait_for(lambda spans: calls(spans, of_client, "ReadRow"))
    assert call.attributes["nyala.sqlstate"] == ReplicaUnavailable.sqlstate
    assert call.attributes["nyala.tablet_id"] == "none" and "nyala.rows" not in call.attributes


def test_calls_without_a_trace_have_no_spans(traced: Traced, exporter: InMemorySpanExporter) -> None:
    trace_statements(None)
    with nyala.connect(traced.cluster.url) as client:
        client.execute("SELECT count(*) FROM t WHERE v = 'w'").fetchall()
        client.execute("UPSERT INTO t VALUES (8, 'eight')")
        # A statement whose spans arrive is after the others at each server that they reached.
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace_statements(provider)
        client.execute("SELECT count(*) FROM t WHERE v = 'v'").fetchall()
    trace, _ = statement(exporter, "SELECT")
    traced.collector.wait_for(lambda spans: [s for s in spans if s.trace == trace])
    assert all(span.parent for span in traced.collector.spans), "each belongs to a caller's trace"
    provider.shutdown()
