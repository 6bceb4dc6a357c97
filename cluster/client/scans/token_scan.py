"""Reads one token: batches from a replica, with failover that the reader does not notice.

    call that begins the scan ─┐
                               ├─► held back, up to 64 MB ─► reader
    stream, where more comes ──┘

A scan that may be small begins with a call. That costs a third of a stream, and usually returns all of it.

    | the stream breaks | then |
    |---|---|
    | while all is held back | the token is read again from the start, as of the same timestamp, from another replica |
    | later, and the server is still there | it continues with the next batch, which the server keeps ready |
    | later, in key order | another replica continues after the last key |
    | later, in no order | `ServerUnavailable`: the order of rows differs between replicas |

States of the scan. A server may hold batches for it from REQUESTED to STARTED, and while RESUMING:

    | state | event | next state |
    |---|---|---|
    | NEW | the call that begins it is sent before anything reads it | REQUESTED |
    | NEW | a replica is chosen and called | STARTING |
    | NEW | no replica is found | NEW |
    | NEW | no replica is found, and rows have come out | BROKEN |
    | NEW | the caller closes it, or a permanent error | ENDED |
    | REQUESTED | the reply is waited for | STARTING |
    | REQUESTED | the caller closes it, or a permanent error | ENDED |
    | STARTING | the reply comes, or a stream begins | READING |
    | STARTING | an error | NEW |
    | STARTING | an error, and rows have come out | BROKEN |
    | STARTING | the caller closes it, or a permanent error | ENDED |
    | READING | the batches of the reply are through, and there are more | STARTED |
    | READING | the last batch | ENDED |
    | READING | an error | NEW |
    | READING | an error, and rows have come out | BROKEN |
    | READING | the caller closes it, or a permanent error | ENDED |
    | STARTED | a stream goes on | READING |
    | STARTED | the caller closes it, or a permanent error | ENDED |
    | BROKEN | the same server is called to go on | RESUMING |
    | BROKEN | the caller closes it, or a permanent error | ENDED |
    | RESUMING | a batch, or the end | READING |
    | RESUMING | an error | NEW |
    | RESUMING | the caller closes it, or a permanent error | ENDED |

Most tokens end before their first batch is returned. Batches of the others are correct as well; the driver reruns a
statement that has not returned a row yet.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Generator
from dataclasses import replace
from enum import Enum
from typing import Any

import msgspec

from ....errors import DeadlineExceeded, Error, ServerUnavailable
from ....model.codec.values import key_to_plain
from ....model.keys.keys import Keys
from ....model.state_table import StateTable
from ....model.store import ScanCounters, ScanToken
from ....model.vectors.sizes import batch_bytes
from ....model.vectors.vector import Batch
from ....model.waiting_time import WaitingTime, current_waiting, within
from ...wire.messages.methods import CloseScanner, ScanEnd, ScanStart, ScanTablet, StartScan
from ...wire.messages.plain import spec_to_plain
from ...wire.rows.scan_streams import ScanStream, StartedScan
from ..catalog.catalog_cache import CatalogCache
from ..client_context import ClientContext
from ..retry import Attempts, Verdict, verdict
from ..tablet_calls import TabletCalls
from .encoded_spec import EncodedSpec
from .stream_watch import StreamWatch

HELD_BYTES = 64 << 20
STREAM_SECONDS = 24 * 3600.0
"""Timeout of a stream. `StreamWatch` checks that its server is alive."""
_FORGET_SECONDS = 5.0
"""Timeout for notifying a server of a closed scan; the server drops it by itself later."""


class ScanState(Enum):
    """State of the scan of one token; the table is on the module's page."""

    NEW = "new"
    REQUESTED = "requested"
    STARTING = "starting"
    READING = "reading"
    STARTED = "started"
    BROKEN = "broken"
    RESUMING = "resuming"
    ENDED = "ended"


_S = ScanState
STATES = StateTable(
    _S.NEW,
    {
        (_S.NEW, "the call that begins it is sent before anything reads it"): _S.REQUESTED,
        (_S.NEW, "a replica is chosen and called"): _S.STARTING,
        (_S.NEW, "no replica is found"): _S.NEW,
        (_S.NEW, "no replica is found, and rows have come out"): _S.BROKEN,
        (_S.NEW, "the caller closes it, or a permanent error"): _S.ENDED,
        (_S.REQUESTED, "the reply is waited for"): _S.STARTING,
        (_S.REQUESTED, "the caller closes it, or a permanent error"): _S.ENDED,
        (_S.STARTING, "the reply comes, or a stream begins"): _S.READING,
        (_S.STARTING, "an error"): _S.NEW,
        (_S.STARTING, "an error, and rows have come out"): _S.BROKEN,
        (_S.STARTING, "the caller closes it, or a permanent error"): _S.ENDED,
        (_S.READING, "the batches of the reply are through, and there are more"): _S.STARTED,
        (_S.READING, "the last batch"): _S.ENDED,
        (_S.READING, "an error"): _S.NEW,
        (_S.READING, "an error, and rows have come out"): _S.BROKEN,
        (_S.READING, "the caller closes it, or a permanent error"): _S.ENDED,
        (_S.STARTED, "a stream goes on"): _S.READING,
        (_S.STARTED, "the caller closes it, or a permanent error"): _S.ENDED,
        (_S.BROKEN, "the same server is called to go on"): _S.RESUMING,
        (_S.BROKEN, "the caller closes it, or a permanent error"): _S.ENDED,
        (_S.RESUMING, "a batch, or the end"): _S.READING,
        (_S.RESUMING, "an error"): _S.NEW,
        (_S.RESUMING, "the caller closes it, or a permanent error"): _S.ENDED,
    },
)
_HELD = frozenset((_S.REQUESTED, _S.STARTING, _S.READING, _S.STARTED, _S.RESUMING))
"""States in which a server may hold something ready for the scan."""


class TokenScan:
    """The scan of one token. For one thread at a time."""

    def __init__(
        self,
        shared: ClientContext,
        catalog: CatalogCache,
        calls: TabletCalls,
        watch: StreamWatch,
        token: ScanToken,
        counters: ScanCounters,
        held_bytes: int = HELD_BYTES,
        at_leader: bool = False,
    ):
        self._shared = shared
        self._catalog = catalog
        self._calls = calls
        self._watch = watch
        self._token = token
        self._counters = counters
        self._held_bytes = held_bytes
        self._sent = _encoded_spec(token)
        self._known = catalog.known(token.table)
        snapshot = None if at_leader else token.spec.snapshot
        self._route = calls.reading(self._known, token.tablet_id, snapshot)
        self._state = STATES.first
        self._stream: ScanStream | StartedScan | None = None
        """While READING or RESUMING."""
        self._starts_by_call = self._sent.may_be_small(token.rows)
        self._request: tuple[str, StartScan, Any] | None = None
        """While REQUESTED: the call, and to which address it was sent."""
        self._ticket: ScanTablet | None = None
        """Of the scan at the current server."""
        self._received = 0
        """Number of batches of this scanner received by the call and by broken streams."""
        self._rows_out = 0
        self._passed = 0
        self._after_key: tuple[Any, ...] | None = None
        self._stopped: BaseException | None = None
        """Error raised by the reader's own `ScanCounters.watch`."""
        self._attempts: Attempts | None = None
        """Attempts since the last batch; None if the last one succeeded."""
        self._waiting = current_waiting() or WaitingTime()
        """Waiting time of the statement, in whichever of its threads the scan is read."""

    def _to(self, state: ScanState) -> None:
        self._state = STATES.checked(self._state, state)

    def can_request(self) -> bool:
        """True if the scan begins with a call, and the replica to call is known. May call a master to find out."""
        if not self._starts_by_call:
            return False
        attempts = self._trying()
        with contextlib.suppress(Error):
            is_known = bool(self._route.next(attempts.remaining))
            self._attempts = None  # the reader may come late, and waits for nothing yet
            return is_known
        return False

    def request(self) -> None:
        """Sends the call that begins the scan, without waiting; needs `can_request`. The first batch raises its
        errors."""
        address = self._route.address
        with contextlib.suppress(Error):
            ticket = self._new_ticket()
            request, timeout = StartScan(ticket=ticket), self._new_attempts().timeout()
            begun = self._shared.channels.get(address).begin(request, timeout)
            self._to(ScanState.REQUESTED)
            self._ticket, self._request = ticket, (address, request, begun)

    def cancel(self) -> None:
        """Ends a scan that was requested and will not be read."""
        self._end()

    def batches(self) -> Generator[Batch]:
        """Yields the token's batches. Closing the iterator ends the scan at the server."""
        held: list[Batch] = []
        size = 0
        is_out = False
        try:
            while True:
                try:
                    with within(self._waiting):
                        batch = self._next()
                except Error as error:
                    if error is self._stopped:
                        raise
                    with within(self._waiting):
                        self._failed(error, is_out)
                    if not is_out:
                        held.clear()
                        size = 0
                    continue
                if batch is None:
                    break
                if not is_out:
                    held.append(batch)
                    size += batch_bytes(batch)
                    if size <= self._held_bytes:
                        continue
                    is_out = True
                for ready in held or [batch]:
                    given = self._given(ready)
                    with self._watch.idle(self._route.address, self._scanner):
                        yield given
                held.clear()
            for ready in held:
                yield self._given(ready)
        finally:
            self._end()

    def _given(self, batch: Batch) -> Batch:
        """Returns a batch for the reader, without the key columns that only this class needs."""
        self._rows_out += batch.length
        if not self._sent.is_resumable:
            return batch
        if batch.length:
            types = tuple(column.type for column in self._token.table.schema.key)
            keys = Keys(types, tuple(batch.column(place) for place in self._sent.key_places))
            self._after_key = keys.values_at(batch.length - 1)
        width = self._sent.width
        return batch if batch.width == width else batch.project(range(width))

    # ---- one stream ----------------------------------------------------------------------------------------------

    def _next(self) -> Batch | None:
        """Returns the next batch, None at the end. Begins or resumes the scan if there is no stream."""
        self._shared.check_open()
        self._look()
        while True:
            stream = self._stream or self._open()
            if isinstance(stream, StartedScan):
                batch = next(stream, None)
            else:
                batch = self._streamed(stream)
            if batch is not None or stream.end is not None:
                # A reply without batch or end is no progress: calls to a tablet without a leader would never end.
                self._attempts = None
                if self._state is ScanState.RESUMING:
                    self._to(ScanState.READING)
            if batch is not None:
                self._pass(batch.length)
                return batch
            self._stream = None
            if stream.end is not None:
                self._to(ScanState.ENDED)
                self._calls.answered(self._token.tablet_id, self._route.address, stream.end.leader)
                self._count(stream.end)
                return None
            self._to(ScanState.STARTED)
            self._received += stream.batches

    def _streamed(self, stream: ScanStream) -> Batch | None:
        began = time.monotonic()
        try:
            with self._watch.waiting(stream, self._route.address, self._look):
                return next(stream, None)
        except Error:
            self._waiting.add(began, time.monotonic())
            raise

    def _open(self) -> ScanStream | StartedScan:
        """Begins the scan, or resumes it after the batches of the call or of a broken stream."""
        if self._state is ScanState.NEW:
            self._calls.next(self._route, self._known, self._token.tablet_id, self._trying())
            self._ticket, self._received = self._new_ticket(), 0
            self._to(ScanState.STARTING)
            self._stream = self._start(self._ticket) if self._starts_by_call else self._streaming(self._ticket)
            self._to(ScanState.READING)
        elif self._state is ScanState.REQUESTED:
            assert self._request is not None
            self._to(ScanState.STARTING)
            self._received = 0
            self._stream = self._started(*self._request)
            self._to(ScanState.READING)
        else:
            assert self._ticket is not None
            self._to(ScanState.RESUMING if self._state is ScanState.BROKEN else ScanState.READING)
            self._stream = self._streaming(msgspec.structs.replace(self._ticket, resume_batch=self._received))
        return self._stream

    def _streaming(self, ticket: ScanTablet) -> ScanStream:
        return self._shared.channels.get(self._route.address).scan(ticket, timeout=STREAM_SECONDS)

    def _new_ticket(self) -> ScanTablet:
        """Returns a ticket for the rows not returned yet, with a new scanner id."""
        spec, plain = self._sent.spelled(self._known.table)
        if self._after_key is not None and spec.limit is not None:
            plain = spec_to_plain(replace(spec, limit=spec.limit - self._rows_out, fragment=b""))
        return ScanTablet(
            tablet_id=self._token.tablet_id,
            schema_version=self._known.table.version,
            spec=plain,
            scanner=uuid.uuid4().hex,
            after_key=None if self._after_key is None else key_to_plain(self._after_key),
            fragment=spec.fragment,
        )

    def _start(self, ticket: ScanTablet) -> StartedScan:
        """Begins the scan with a call."""
        channel, request = self._shared.channels.get(self._route.address), StartScan(ticket=ticket)
        return self._answered(lambda timeout: channel.call(request, timeout=timeout, look=self._look))

    def _started(self, address: str, request: StartScan, begun: Any) -> StartedScan:
        """Waits for the reply to `request`."""
        channel = self._shared.channels.get(address)
        return self._answered(lambda timeout: channel.finish(request, begun, timeout, self._look))

    def _answered(self, wait: Callable[[float], Any]) -> StartedScan:
        """Returns the reply to the call that begins the scan. A server without a reply in time is slow or blocked: the
        next one is sent a stream, which has no such limit and whose server is watched."""
        try:
            reply = wait(self._trying().timeout())
        except DeadlineExceeded:
            self._starts_by_call = False
            self._forget()
            raise
        assert isinstance(reply, ScanStart)
        return StartedScan(reply)

    def _trying(self) -> Attempts:
        if self._attempts is None:
            self._attempts = self._new_attempts()
        return self._attempts

    def _new_attempts(self) -> Attempts:
        return self._shared.attempts(f"a scan of table {self._token.table.name}")

    def _failed(self, error: Error, is_out: bool) -> None:
        """Handles a broken stream or failed call: prepares the next attempt, or raises."""
        said = verdict(error)
        if self._stream is not None:
            self._received += self._stream.batches
        self._drop_stream()
        if said is Verdict.OUT:
            self._to(ScanState.ENDED)
            raise error
        attempts = self._trying()
        # A server closes a stream that was not read for long before it drops the scan: another stream resumes it.
        if is_out and self._state is not ScanState.RESUMING and said is not Verdict.SCHEMA:
            self._to(ScanState.BROKEN)
            attempts.failed(error)
            return
        self._to(ScanState.NEW)
        if is_out and not self._sent.is_resumable:
            raise ServerUnavailable(
                f"a scan of table {self._token.table.name} was interrupted after {self._rows_out} rows and cannot "
                f"go on at another server: {error}"
            ) from error
        if said is Verdict.SCHEMA:
            attempts.failed(error)
            self._known = self._catalog.newer(self._known, attempts)
        else:
            self._calls.failed(self._route, error, attempts)

    @property
    def _scanner(self) -> str:
        return "" if self._ticket is None else self._ticket.scanner

    # ---- counting and ending -------------------------------------------------------------------------------------

    def _look(self, rows: int = 0) -> None:
        """Calls the reader's `ScanCounters.watch`; its error is the reader's, not a server's."""
        try:
            self._counters.passing(rows)
        except BaseException as error:
            self._stopped = error
            raise

    def _pass(self, rows: int) -> None:
        self._passed += rows
        self._look(rows)

    def _count(self, end: ScanEnd | None) -> None:
        if end is None:
            return
        own = ScanCounters(
            end.rows_considered,
            end.rows_returned,
            end.pages_read,
            end.pages_skipped,
            end.rowgroups_skipped,
            end.bytes_read,
        )
        self._counters.add(own)
        self._pass(max(0, end.rows_considered - self._passed))

    def _drop_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _end(self) -> None:
        """Ends the scan; before its last batch, the server is notified to drop it."""
        self._drop_stream()
        if self._state in _HELD:
            self._forget()
        if self._state is not ScanState.ENDED:
            self._to(ScanState.ENDED)

    def _forget(self) -> None:
        address, scanner = self._route.address, self._scanner
        request = self._request if self._state is ScanState.REQUESTED else None

        def forget() -> None:
            with contextlib.suppress(Error):
                channel = self._shared.channels.get(address)
                # A scan that ended with the first reply needs no message; one without a reply must not begin.
                reply = None
                if request is not None:
                    with contextlib.suppress(DeadlineExceeded):
                        reply = channel.finish(*request[1:], _FORGET_SECONDS)
                if isinstance(reply, ScanStart) and reply.end is not None:
                    return
                channel.call(CloseScanner(scanner=scanner), timeout=_FORGET_SECONDS)

        with contextlib.suppress(RuntimeError):  # the client is being closed
            self._shared.farewells.submit(forget)


def _encoded_spec(token: ScanToken) -> EncodedSpec:
    """Returns the spec that the scan shares among its tokens; a new one for a token from another process."""
    for part in token.part:
        if isinstance(part, EncodedSpec) and part.asked is token.spec:
            return part
    return EncodedSpec(token.table, token.spec)


class TokenBatches:
    """`TokenScan.batches` of a requested scan, which may be closed before it is read."""

    def __init__(self, scan: TokenScan):
        self._scan = scan
        self._batches = scan.batches()
        self._is_begun = False

    def __iter__(self) -> TokenBatches:
        return self

    def __next__(self) -> Batch:
        self._is_begun = True
        return next(self._batches)

    def close(self) -> None:
        """Closes the iterator, as a generator."""
        self._batches.close()
        if not self._is_begun:
            self._is_begun = True
            self._scan.cancel()
