"""Spans of calls at their server: of those whose envelope has a traceparent, while the process has an exporter.

    take ─► a span ─┬─ queue       until a thread of the pool takes the call; none if the reactor's thread answers it
                    ├─ execute     its handler, in that thread; of a scan's stream: read, until its last batch
                    └─ what the handler waits for (`model.waiting_phases`): lock, transaction, snapshot, replicate, wal

| attribute | |
|---|---|
| `nyala.tablet_id`, `client.address` | the tablet, if the method names one; the caller |
| `nyala.request_bytes`, `nyala.reply_bytes` | of the messages; a scan's stream has none of a reply |
| `nyala.rows`, `nyala.rows_refused` | rows returned or changed, and refused |
| `nyala.check_only` | of a write that only reports what would be refused |
| `nyala.rows_considered`, `nyala.bytes_read`, `nyala.pages_read`, `nyala.pages_skipped`, `nyala.batches` | of a scan |
| `nyala.sqlstate` | of a failure |

Calls without a traceparent have no spans: those of clients without an exporter, heartbeats, messages of Raft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from .... import errors
from ....model import tracing, waiting_time
from ....model.vectors.vector import Batch
from ..messages.envelope import TracedEnvelope
from ..messages.methods import Reply, RowReply, ScanEnd, ScanStart, WriteReply
from .deferred_replies import Answer

P = ParamSpec("P")
T = TypeVar("T")
_INTERNAL = "XX000"


def serve(
    process: Callable[[TracedEnvelope, Answer], None],
    envelope: TracedEnvelope,
    answer: Any,
    client: str,
    size: int,
    arrived: int = 0,
) -> None:
    """Processes a call within its span, which ends with its answer (`RpcServer._reply`); the rest as `begun`."""
    trace = begun(envelope, client, size, arrived)
    if trace is None:
        process(envelope, answer)
        return
    with tracing.within(trace):
        process(envelope, partial(answer, trace=trace))


def begun(envelope: TracedEnvelope, client: str, size: int, arrived: int = 0) -> tracing.CallTrace | None:
    """Begins the span of a call from the address `client` whose message has `size` bytes. `arrived`: nanoseconds since
    1970, if that was earlier. None if there is no exporter any more."""
    exporter: tracing.Tracing | None = waiting_time.exporter
    if exporter is None:
        return None
    method = envelope.method
    attributes: dict[str, str | int] = {"nyala.request_bytes": size}
    tablet_id = getattr(getattr(method, "ticket", method), "tablet_id", None)
    if isinstance(tablet_id, str):
        attributes["nyala.tablet_id"] = tablet_id
    if getattr(method, "check_only", False):
        attributes["nyala.check_only"] = True
    return exporter.call(type(method).__name__, envelope.traceparent, client, attributes, arrived)


def carried(work: Callable[P, T]) -> Callable[P, T]:
    """Wraps the work of the call that this thread serves, for a thread of a pool; until it begins, the call queues."""
    trace = tracing.current()
    if trace is None:
        return work
    trace.phase("queue")

    @wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        trace.phase("execute")
        with tracing.within(trace):
            return work(*args, **kwargs)

    return call


def end(trace: tracing.CallTrace, reply: Reply | BaseException, size: int) -> None:
    """Ends the span of a call that was answered by `size` bytes."""
    if isinstance(reply, BaseException):
        trace.end(_sqlstate(reply), {"nyala.reply_bytes": size})
    else:
        trace.end("", {"nyala.reply_bytes": size, **_attributes(reply)})


def _sqlstate(error: BaseException) -> str:
    return error.sqlstate if isinstance(error, errors.Error) else _INTERNAL


def _attributes(reply: Reply) -> dict[str, int]:
    if isinstance(reply, WriteReply):
        return {"nyala.rows": reply.applied, "nyala.rows_refused": len(reply.errors)}
    if isinstance(reply, RowReply):
        return {"nyala.rows": int(reply.row is not None)}
    if isinstance(reply, ScanStart):
        return {"nyala.batches": len(reply.batches)} if reply.end is None else _of_scan(reply.end)
    return {}


def _of_scan(end: ScanEnd) -> dict[str, int]:
    return {
        "nyala.batches": end.batches,
        "nyala.rows": end.rows_returned,
        "nyala.rows_considered": end.rows_considered,
        "nyala.bytes_read": end.bytes_read,
        "nyala.pages_read": end.pages_read,
        "nyala.pages_skipped": end.pages_skipped,
    }


class TracedItems:
    """The items of a scan, whose span ends with them, or when they are closed."""

    def __init__(self, trace: tracing.CallTrace, items: Iterator[Batch | ScanEnd]):
        self._trace, self._items = trace, items
        trace.phase("read")

    def __iter__(self) -> TracedItems:
        return self

    def __next__(self) -> Batch | ScanEnd:
        try:
            item = next(self._items)
        except StopIteration:
            raise
        except BaseException as error:
            self._trace.end(_sqlstate(error), {})
            raise
        if isinstance(item, ScanEnd):
            self._trace.end("", _of_scan(item))
        return item

    def close(self) -> None:
        """Closes them; the span of a scan that is not at its end has no numbers."""
        try:
            self._items.close()  # type: ignore[attr-defined]  # a generator
        finally:
            self._trace.end("", {})


def scanned(
    trace: tracing.CallTrace, begin: Callable[[], tuple[Iterator[Batch | ScanEnd], Any]]
) -> tuple[Iterator[Batch | ScanEnd], Any]:
    """Begins a scan (`RpcServer.begin_scan`) within its span."""
    try:
        with tracing.within(trace):
            items, check = begin()
    except BaseException as error:
        trace.end(_sqlstate(error), {})
        raise
    return TracedItems(trace, items), check
