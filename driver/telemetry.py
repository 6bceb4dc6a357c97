"""OpenTelemetry: a span for each statement, with spans for its plan, its execution, COMMIT and calls of servers, and at
servers for each call that belongs to a statement with a span.

>>> from opentelemetry.sdk.trace import TracerProvider
>>> trace_statements(TracerProvider())
>>> trace_statements(None)

Needs `nyala[otel]`, whose packages are imported by `trace_statements` and `trace_to` alone. Attributes have no values:
texts are masked (`sql.masked_text`), errors are named by their SQLSTATE.

| attribute | |
|---|---|
| `db.system`, `db.operation`, `db.statement` | "nyala", the first word, the text with `?` in place of literals |
| `db.user`, `client.address` | who |
| `nyala.rows`, `nyala.sqlstate`, `nyala.memory_bytes` | rows returned or changed; of a failure; of operators |

Those of calls at a server are in `cluster.wire.calls.traced_calls`.

The parent of a statement is, in this order: the `traceparent` in a comment of the text (sqlcommenter), that of the
call's headers (Flight SQL), the current span of the program.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..errors import Error, OperationalError
from ..model import tracing
from ..model.version import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

_MARK: Final = "traceparent='"
_TRACEPARENT_CHARACTERS: Final = 55
_SYSTEM: Final = "nyala"
_ADVICE: Final = "spans need the packages of OpenTelemetry; try: pip install 'nyala[otel]'"
_INTERNAL: Final = "XX000"


def trace_statements(provider: Any) -> None:
    """Statements of this process that begin from now on have spans.

    Parameters
    ----------
    provider : opentelemetry.trace.TracerProvider, optional
        None: no more spans.

    Raises `OperationalError` if OpenTelemetry is not installed.
    """
    tracing.configure(None if provider is None else _Tracing(provider))


def trace_to(endpoint: str, service: str, instance: str = "") -> Callable[[], None]:
    """Sends spans by OTLP over HTTP, in batches, by a thread of its own.

    Parameters
    ----------
    endpoint : str
        URL of a collector, such as "http://127.0.0.1:4318/v1/traces".
    service : str
        Name of this process in traces.
    instance : str
        Its own name among several of this service, such as its address.

    Returns a function that sends what is left and ends it. Raises `OperationalError` if OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise OperationalError(f"{_ADVICE} ({error})") from None
    named = {"service.name": service, "service.version": __version__}
    if instance:
        named["service.instance.id"] = instance
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    trace_statements(provider)

    def end() -> None:
        trace_statements(None)
        provider.shutdown()

    return end


class _Tracing:
    """Makes the spans of statements; see `model.tracing.Tracing`."""

    def __init__(self, provider: Any):
        try:
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise OperationalError(f"{_ADVICE} ({error})") from None
        self._tracer: Tracer = provider.get_tracer(_SYSTEM, __version__)
        self._propagator = TraceContextTextMapPropagator()

    def statement(self, text: str, user: str, client: str) -> _StatementSpan:
        """See `model.tracing.Tracing`."""
        from opentelemetry.trace import SpanKind

        from ..sql.masked_text import mask_statement  # servers of a cluster have no statements

        masked = mask_statement(text)
        verb = masked.partition(" ")[0].upper() if masked[:1].isalpha() else "STATEMENT"
        attributes = {"db.system": _SYSTEM, "db.operation": verb, "db.statement": masked, "db.user": user}
        if client:
            attributes["client.address"] = client
        given = traceparent_of(text) or tracing.parent()
        parent = self._propagator.extract({"traceparent": given}) if given else None
        kind = SpanKind.SERVER if client else SpanKind.INTERNAL
        return _StatementSpan(
            self._tracer, self._tracer.start_span(verb, context=parent, kind=kind, attributes=attributes)
        )

    def call(
        self, method: str, traceparent: str, client: str, attributes: Mapping[str, str | int], arrived: int = 0
    ) -> _CallSpan:
        """See `model.tracing.Tracing`."""
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind

        # Not as a part of a span of this thread, whatever a traceparent that cannot be read says.
        parent = self._propagator.extract({"traceparent": traceparent}, Context())
        known = {"rpc.system": _SYSTEM, "client.address": client, **attributes}
        since = arrived or None
        span = self._tracer.start_span(method, context=parent, kind=SpanKind.SERVER, attributes=known, start_time=since)
        found = _CallSpan(self._tracer, span)
        if since is not None:
            found.begin("queue", since)()
            found.phase("execute")
        return found


class _Span:
    """See `model.tracing.Trace`."""

    def __init__(self, tracer: Tracer, span: Span):
        from opentelemetry.trace import set_span_in_context

        self._tracer, self._span = tracer, span
        self._context: Context = set_span_in_context(span)
        self._phase: Span | None = None
        self._is_ended = False

    @property
    def traceparent(self) -> str:
        """See `model.tracing.Trace`."""
        found = self._span.get_span_context()
        if not (found.is_valid and found.trace_flags.sampled):
            return ""
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-01"

    def phase(self, name: str) -> None:
        """See `model.tracing.Trace`."""
        if self._phase is not None:
            self._phase.end()
        self._phase = self._tracer.start_span(name, context=self._context)

    @contextlib.contextmanager
    def child(self, name: str, **attributes: str) -> Iterator[tracing.Trace]:
        """See `model.tracing.Trace`."""
        span = self._tracer.start_span(name, context=self._context, attributes=attributes)
        try:
            yield _Span(self._tracer, span)
        except BaseException as error:
            _fail(span, error.sqlstate if isinstance(error, Error) else _INTERNAL)
            raise
        finally:
            span.end()

    def begin(self, name: str, since: int | None = None) -> Callable[[], None]:
        """See `model.tracing.Trace`."""
        end: Callable[[], None] = self._tracer.start_span(name, context=self._context, start_time=since).end
        return end

    def _end(self, sqlstate: str, attributes: Mapping[str, int]) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        if self._phase is not None:
            self._phase.end()
        self._span.set_attributes(attributes)
        if sqlstate:
            _fail(self._span, sqlstate)
        self._span.end()


class _StatementSpan(_Span):
    """See `model.tracing.StatementTrace`."""

    def __init__(self, tracer: Tracer, span: Span):
        super().__init__(tracer, span)
        self.phase("plan")

    def end(self, rows: int = 0, sqlstate: str = "", memory_bytes: int = 0) -> None:
        """See `model.tracing.StatementTrace`."""
        memory = {"nyala.memory_bytes": memory_bytes} if memory_bytes else {}
        self._end(sqlstate, {"nyala.rows": rows, **memory})


class _CallSpan(_Span):
    """See `model.tracing.CallTrace`."""

    def end(self, sqlstate: str, attributes: Mapping[str, int]) -> None:
        """See `model.tracing.CallTrace`."""
        self._end(sqlstate, attributes)


def _fail(span: Span, sqlstate: str) -> None:
    """Notes a failure without its message, which may have values."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("nyala.sqlstate", sqlstate)
    span.set_status(Status(StatusCode.ERROR, sqlstate))


def traceparent_of(text: str) -> str:
    """The traceparent in a comment of a statement, as sqlcommenter writes it; "" without one.

    >>> parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    >>> traceparent_of(f"SELECT 1 /*traceparent='{parent}',db_driver='x'*/") == parent
    True
    >>> traceparent_of("SELECT 'traceparent=''00'")
    ''
    """
    place = text.rfind(_MARK)
    if place < 0 or text.rfind("/*", 0, place) < 0:
        return ""
    start = place + len(_MARK)
    return text[start : start + _TRACEPARENT_CHARACTERS] if text[start + _TRACEPARENT_CHARACTERS :][:1] == "'" else ""
