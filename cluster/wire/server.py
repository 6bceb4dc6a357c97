"""Serving methods, scans and peer streams on one port.

    do_action     a method: decoded, passed to its handler, answered with the handler's reply or error
    do_get        a scan: batches as they are made, a `ScanEnd` last (`rows.scan_streams`)
    do_exchange   peer messages, or small calls, for the exchange's lifetime (`peer_streams`, `calls.call_service`)

gRPC gives each call a thread of its own, without a limit. So the server counts them and refuses excess ones, with
`ServerOverloaded`, before anything is decoded or done. Calls, scans and both kinds of streams each have their limit,
and so have bodies. A draining server refuses all new work with `ServerUnavailable` and lets running work end.

    | state | event | next state |
    |---|---|---|
    | STARTING | start | RUNNING |
    | STARTING | drain | DRAINING |
    | STARTING | stop | STOPPED |
    | RUNNING | drain | DRAINING |
    | RUNNING | stop | STOPPED |
    | DRAINING | drain | DRAINING |
    | DRAINING | stop | STOPPED |
    | STOPPED | stop | STOPPED |

With `Credentials` it accepts only TLS, with certificates that its CA has signed, and checks for each method that the
certificate's role may call it (`access`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from enum import Enum
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from ... import errors
from ...model.clock import HybridClock
from ...model.forks import stay_with_process
from ...model.lazy_dataclass import dataclass
from ...model.state_table import StateTable
from ...model.vectors.vector import Batch
from .calls import call_streams
from .calls.call_service import AnswerStream, CallService
from .calls.deferred_replies import Answer as Answer
from .calls.deferred_replies import DeferredReplies
from .calls.rpc import METHOD_ACTION
from .faults import FAULTS
from .messages.envelope import (
    MAX_BODY_BYTES,
    MAX_TICKET_BYTES,
    Caller,
    ReplyEnvelope,
    RequestEnvelope,
    note_caller,
    pack,
    request_decoder,
    ticket_decoder,
    unpack,
)
from .messages.errors import error_to_body, flight_error
from .messages.methods import Reply, Request, ScanEnd, ScanTablet, SetFaults, Write, WriteRow
from .messages.transaction_methods import Decide, PrepareWrite, Resolve, StageWrite
from .process.ending import cut_connections, stop_at_exit
from .rows.scan_streams import STREAM_SCHEMA, Expiries, ScanMessages
from .security.access import Role, address_of, check_request, check_role, identity_of
from .security.audit import log_denied, log_done
from .security.receive_guard import ALL_BYTES, CONNECTION_BYTES, CountedReader, ReceiveGuard
from .security.tls import Credentials

_logger = logging.getLogger("nyala.cluster.wire")


class ServerState(Enum):
    """State of a server's port; the table is on the module's page."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


_S = ServerState
STATES = StateTable(
    _S.STARTING,
    {
        (_S.STARTING, "start"): _S.RUNNING,
        (_S.STARTING, "drain"): _S.DRAINING,
        (_S.STARTING, "stop"): _S.STOPPED,
        (_S.RUNNING, "drain"): _S.DRAINING,
        (_S.RUNNING, "stop"): _S.STOPPED,
        (_S.DRAINING, "drain"): _S.DRAINING,
        (_S.DRAINING, "stop"): _S.STOPPED,
        (_S.STOPPED, "stop"): _S.STOPPED,
    },
)

LONGEST_CALL = 24 * 3600.0
"""Seconds; no deadline is further away, whatever the caller sends."""

CALL_THREADS = 64
"""Threads for calls of streams that may have to wait."""

ENDING_THREADS = 16
"""Threads for those of `Limits.ending`."""

_ENDING_BYTES = 1024
"""Size above which a body is none of `Limits.ending`."""

_CUT_SECONDS = 5.0
"""Seconds for handlers to notice that their connections are cut."""

Later = Callable[[Any, "CallContext", Answer], bool]
"""Answers a request without waiting: at once, or from another thread when its result is ready. False, with nothing done
and nothing answered, if it would have to wait; its error is the reply."""
Scan = Callable[[ScanTablet, "CallContext"], Iterator[Batch | ScanEnd]]
Exchange = Callable[[Any, Any, Any], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on concurrent work of a server. `growing` are the methods that need memory which they do not release;
    `ending` those that other calls wait for: they have threads of their own, and when all other places are taken they
    are accepted beyond `calls`, again up to this number.
    `streams` counts abandoned scans too, until their readers go away: each has a thread of gRPC. `connection_bytes` and
    `all_bytes` are what gRPC may hold of incomplete messages (`security.receive_guard`)."""

    calls: int = 256
    scans: int = 64
    streams: int = 256
    exchanges: int = 64
    call_streams: int = 256
    body_bytes: int = MAX_BODY_BYTES
    ticket_bytes: int = MAX_TICKET_BYTES
    connection_bytes: int = CONNECTION_BYTES
    all_bytes: int = ALL_BYTES
    idle_scan_seconds: float = 60.0
    growing: frozenset[type[Request]] = frozenset({Write, WriteRow, PrepareWrite, StageWrite})
    ending: frozenset[type[Request]] = frozenset({Decide, Resolve})


DEFAULT_LIMITS: Final = Limits()


class CallContext:
    """A call as its handler sees it: the caller, and its deadline."""

    __slots__ = ("_flight", "_is_stopped", "caller", "deadline")

    def __init__(self, caller: Caller, deadline: float, flight_context: Any, is_stopped: Callable[[], bool]):
        self.caller = caller
        self.deadline = deadline
        """By `time.monotonic`."""
        self._flight = flight_context
        self._is_stopped = is_stopped

    @property
    def identity(self) -> str:
        """Of the caller's certificate; "" without TLS."""
        return identity_of(self._flight)

    @property
    def address(self) -> str:
        """The caller's address."""
        return address_of(self._flight)

    def remaining(self) -> float:
        """Seconds until the caller's deadline; not below 0."""
        return max(0.0, self.deadline - time.monotonic())

    def is_cancelled(self) -> bool:
        """True if the call has no waiting caller any more. Long work checks it now and then."""
        return time.monotonic() >= self.deadline or self._is_stopped() or bool(self._flight.is_cancelled())

    @property
    def room(self) -> int:
        """Bytes of a reply that can be sent without waiting for its reader, as far as is known."""
        return getattr(self._flight, "room", MAX_BODY_BYTES)

    def check(self) -> None:
        """Raises `DeadlineExceeded` or `Cancelled` if the call has no waiting caller any more."""
        if time.monotonic() >= self.deadline:
            raise errors.DeadlineExceeded("the call's deadline passed before it was done")
        if self.is_cancelled():
            raise errors.Cancelled("the call was cancelled")


class _Gate:
    """Counts the running calls of one kind, at most `limit`."""

    def __init__(self, what: str, limit: int):
        self._what = what
        self._limit = limit
        self._changed = threading.Condition()
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def enter(self) -> None:
        with self._changed:
            if self._count >= self._limit:
                raise errors.ServerOverloaded(f"the server has {self._count} {self._what} at once, and accepts no more")
            self._count += 1

    def leave(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    @contextmanager
    def one(self) -> Iterator[None]:
        self.enter()
        try:
            yield
        finally:
            self.leave()

    def wait_empty(self, deadline: float) -> bool:
        """Waits until none is running; False at `deadline` (monotonic)."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, max(0.0, deadline - time.monotonic()))


class RpcServer:
    """A server on a port: it listens from its construction (`address` is known then) and serves from `start` on.

    Parameters
    ----------
    bind : str
        "host:port"; port 0 takes a free one.
    clock : HybridClock
        Sent with each reply, and updated by each request.
    handlers : mapping
        By class of request: a function of it and its `CallContext` that returns the reply or raises. Called from many
        threads. May be set later, as may `scan` and `exchange`, until `start`.
    scan : callable, optional
        Reads a tablet: batches, and a `ScanEnd` as the last item. It is closed if the reader goes away.
    exchange : callable, optional
        Serves a peer stream: (Flight's context, reader, writer).
    later : mapping, optional
        By class of request, besides its handler: answers it without waiting, if it came on a stream of calls.
    id : str
        The server's own.
    is_overloaded : callable, optional
        Returns the reason for which the server accepts no more into its memory now; "" if it does.
    tls : Credentials, optional
        The server's own; None: no encryption, and every caller may call everything.
    """

    def __init__(
        self,
        bind: str,
        clock: HybridClock,
        *,
        handlers: Mapping[type[Request], Callable[[Any, CallContext], Reply]] | None = None,
        scan: Scan | None = None,
        exchange: Exchange | None = None,
        later: Mapping[type[Request], Later] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        id: str = "",
        is_overloaded: Callable[[], str] = lambda: "",
        tls: Credentials | None = None,
    ):
        self.handlers: dict[type[Request], Callable[[Any, CallContext], Reply]] = dict(handlers or {})
        self.scan = scan
        self.exchange = exchange
        self.later: dict[type[Request], Later] = dict(later or {})
        self.id = id
        self.limits = limits
        self._clock = clock
        self._is_overloaded = is_overloaded
        self._is_secure = tls is not None
        self._decoder = request_decoder()
        self._state = STATES.first
        self._state_lock = threading.Lock()
        self._failure = ""
        """The thread that has died, and its error."""
        self._stopped = threading.Event()
        self._ending: threading.Thread | None = None
        self._calls = _Gate("calls", limits.calls)
        self._endings = _Gate("calls that end transactions", limits.calls)
        self._scans = _Gate("scans", limits.scans)
        self._streams = _Gate("streams of scans", limits.streams)
        self._exchanges = _Gate("peer streams", limits.exchanges)
        self._call_streams = _Gate("streams of calls", limits.call_streams)
        self.around: Callable[[], AbstractContextManager[object]] = nullcontext
        """Makes the context manager within which a thread processes small calls; set before `start`."""
        self._call_service = CallService(self.take, lambda: self.around())
        self._pool = ThreadPoolExecutor(CALL_THREADS, "nyala-call")
        self._ending_pool = ThreadPoolExecutor(ENDING_THREADS, "nyala-ending")
        self._expiries = Expiries(limits.idle_scan_seconds, self._thread_failed)
        self._deferred_replies = DeferredReplies(failed=self._thread_failed)
        host, _, port = bind.rpartition(":")
        try:
            self._flight = _FlightServer(self, f"{host}:{int(port)}", tls)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise errors.ServerUnavailable(f"cannot listen at {bind}: {error}") from None
        self.address = f"{host}:{self._flight.port}"
        self._guard = ReceiveGuard(self._flight.port, limits.connection_bytes, limits.all_bytes, self._thread_failed)
        stay_with_process(self, self._flight)
        stop_at_exit(self)

    def start(self) -> None:
        """Starts serving calls."""
        self._deferred_replies.start()
        self._guard.start()
        with self._state_lock:
            if self._state is ServerState.STARTING:
                self._to(ServerState.RUNNING)

    def _to(self, state: ServerState) -> None:
        """Needs `_state_lock`."""
        self._state = STATES.checked(self._state, state)

    def drain(self, grace: float = 10.0) -> bool:
        """Refuses new work, and waits for running calls and scans, at most `grace` seconds; True if all ended."""
        with self._state_lock:
            if self._state is not ServerState.STOPPED:
                self._to(ServerState.DRAINING)
        deadline = time.monotonic() + grace
        gates = self._calls, self._endings, self._scans
        return all(gate.wait_empty(deadline) for gate in gates)

    def stop(self, grace: float = 5.0, cut: bool = False) -> bool:
        """Stops listening. Scans end with an error at their next batch. A repeated call waits once more.

        Parameters
        ----------
        grace : float
            Seconds that calls and streams have to end.
        cut : bool
            True: connections are cut then. False: running work is left to end by itself.

        Returns False if calls still run.
        """
        with self._state_lock:
            self._to(ServerState.STOPPED)
        self._stopped.set()
        self._call_service.close()  # a port with an open stream is not released
        for pool in (self._pool, self._ending_pool):
            pool.shutdown(wait=False, cancel_futures=True)
        self._expiries.close()
        self._deferred_replies.close()
        self._guard.close()
        if self._ending is None:
            self._ending = threading.Thread(target=self._shut_down, name="nyala-rpc-stop", daemon=True)
            self._ending.start()
        self._ending.join(grace)
        if cut and self._ending.is_alive():
            cut_connections(self._flight.port)
            self._ending.join(_CUT_SECONDS)
        return not self._ending.is_alive()

    def _shut_down(self) -> None:
        try:
            self._flight.shutdown()
        except (pa.ArrowException, OSError) as error:
            _logger.warning("the server did not stop cleanly: %s", error)

    @property
    def under_way(self) -> Mapping[str, int]:
        """Returns the numbers of running calls, scans and peer streams."""
        return {
            "calls": self._calls.count + self._endings.count,
            "scans": self._scans.count,
            "exchanges": self._exchanges.count,
        }

    # ---- methods ----------------------------------------------------------------------------------------------------

    def answer(self, body: pa.Buffer, flight_context: Any) -> bytes:
        """Returns the reply to a request's body, as bytes; Flight's own error for a caller that may not understand
        one."""
        self._guard.note(address_of(flight_context), body.size)
        try:
            _check_size(body.size, self.limits.body_bytes)
            gate = self._enter(memoryview(body))
            try:
                envelope: RequestEnvelope = unpack(memoryview(body), self._decoder, "request")
                return self._answered(envelope, flight_context)
            finally:
                gate.leave()
        except errors.Error as error:
            raise flight_error(error) from None

    def _enter(self, body: bytes | memoryview) -> _Gate:
        """Counts a call that begins, and returns its gate; raises `ServerOverloaded`. A call that others wait for is
        decoded for this only if all other places are taken."""
        try:
            self._calls.enter()
        except errors.ServerOverloaded:
            if len(body) > _ENDING_BYTES:
                raise
            envelope: RequestEnvelope = unpack(body, self._decoder, "request")
            if type(envelope.method) not in self.limits.ending:
                raise
            self._endings.enter()
            return self._endings
        return self._calls

    def take(self, body: bytes, stream: AnswerStream, send: Callable[[bytes], None]) -> None:
        """Processes a call of a stream: `send` receives its reply, now or later."""
        try:
            _check_size(len(body), self.limits.body_bytes)
            if not stream.room:
                raise errors.ServerOverloaded(
                    "this client does not read its replies: no more calls are accepted from it"
                )
            gate = self._enter(body)
        except errors.Error as error:
            send(self._packed(error))
            return

        def finish(reply: Reply | BaseException) -> None:
            gate.leave()
            send(self._packed(reply))

        answer: Answer = finish
        try:
            envelope: RequestEnvelope = unpack(body, self._decoder, "request")
            context = self._begun(envelope, stream)
            later = self.later.get(type(envelope.method))
            if later is not None:
                answer = self._deferred_replies.expect(answer, context.deadline)
                if later(envelope.method, context, answer):
                    return
            pool = self._ending_pool if type(envelope.method) in self.limits.ending else self._pool
            pool.submit(self._answer_waiting, envelope.method, context, answer)
        except Exception as error:
            answer(error)

    def _answer_waiting(self, method: Request, context: CallContext, answer: Answer) -> None:
        try:
            reply: Reply | BaseException = self._handled(method, context)
        except Exception as error:
            reply = error
        answer(reply)

    def _answered(self, envelope: RequestEnvelope, flight_context: Any) -> bytes:
        try:
            return self._packed(self._handled(envelope.method, self._begun(envelope, flight_context)))
        except Exception as error:
            return self._packed(error)

    def _begun(self, envelope: RequestEnvelope, flight_context: Any) -> CallContext:
        """Returns the context of a call that this caller may make now; raises otherwise."""
        if self._is_secure:
            what = type(envelope.method).__name__
            self._check(flight_context, what, lambda identity: check_request(identity, envelope.method))
        is_fault = isinstance(envelope.method, SetFaults)
        if not is_fault:
            note_caller(self._clock, envelope, address_of(flight_context))
        context = self._context(envelope, flight_context, always=is_fault)
        if type(envelope.method) in self.limits.growing and (reason := self._is_overloaded()):
            raise errors.ServerOverloaded(reason)
        return context

    def _handled(self, method: Request, context: CallContext) -> Reply:
        handler = self.handlers.get(type(method))
        if handler is None:
            raise errors.ProtocolError(f"this server has no method {type(method).__name__}")
        try:
            reply = handler(method, context)
        except BaseException as error:
            log_done(method, self._who(context), context.address, error)
            raise
        log_done(method, self._who(context), context.address)
        return reply

    def _who(self, context: CallContext) -> str:
        return context.identity if self._is_secure else context.caller.id or context.caller.address

    def _check(self, flight_context: Any, what: str, check: Callable[[str], None]) -> None:
        """Runs `check` on the caller's identity; logs and raises its error."""
        identity = identity_of(flight_context)
        try:
            check(identity)
        except errors.AccessDenied as error:
            log_denied(what, identity, address_of(flight_context), error)
            raise

    def _packed(self, reply: Reply | BaseException) -> bytes:
        if isinstance(reply, BaseException):
            return pack(ReplyEnvelope(self._clock.now(), self.id, None, error_to_body(reply)))
        return pack(ReplyEnvelope(self._clock.now(), self.id, reply))

    def _context(self, envelope: RequestEnvelope, flight_context: Any, always: bool = False) -> CallContext:
        """Returns the call's context; raises if the call cannot be served now."""
        if not always:
            FAULTS.check(envelope.caller.id, envelope.caller.address)
        self._check_state()
        if not envelope.remaining > 0:  # also refuses NaN
            raise errors.DeadlineExceeded("the call's deadline had passed when it arrived")
        deadline = time.monotonic() + min(envelope.remaining, LONGEST_CALL)
        return CallContext(envelope.caller, deadline, flight_context, self._stopped.is_set)

    def _check_state(self) -> None:
        if self._failure:
            raise errors.InternalError(
                f"the server at {self.address} has stopped: {self._failure}; restart its process"
            )
        if self._state is not ServerState.RUNNING:
            raise errors.ServerUnavailable(f"the server at {self.address} is {self._state.value}")

    def _thread_failed(self, name: str, error: BaseException) -> None:
        self._failure = f"its thread {name} ended by {type(error).__name__}: {error}"
        _logger.critical("the server at %s has stopped: %s", self.address, self._failure, exc_info=error)

    # ---- streams ----------------------------------------------------------------------------------------------------

    def stream(self, ticket: bytes, flight_context: Any) -> Iterator[Any]:
        """Yields the messages of a scan; an error is the last of them."""
        self._guard.note(address_of(flight_context), len(ticket))
        try:
            if self._is_secure:
                self._check(flight_context, "a scan", lambda identity: check_role(identity, Role.CLIENT, "a scan"))
            _check_size(len(ticket), self.limits.ticket_bytes)
            with ExitStack() as entered:
                for gate in (self._streams, self._scans):
                    gate.enter()
                    entered.callback(gate.leave)
                envelope: RequestEnvelope = unpack(ticket, ticket_decoder(), "ticket of a scan")
                note_caller(self._clock, envelope, address_of(flight_context))
                entered.pop_all()
        except errors.Error as error:
            raise flight_error(error) from None
        messages = ScanMessages(
            lambda: self._begin_scan(envelope, flight_context),
            self._clock,
            self.id,
            finished=self._scans.leave,
            closed=self._streams.leave,
        )
        self._expiries.watch(messages)
        return messages

    def _begin_scan(self, envelope: RequestEnvelope, flight_context: Any) -> tuple[Iterator[Batch | ScanEnd], Any]:
        context = self._context(envelope, flight_context)
        if self.scan is None:
            raise errors.ProtocolError("this server has no tablets to scan")
        return self.scan(envelope.method, context), context.check

    def serve_exchange(self, flight_context: Any, command: bytes, reader: Any, writer: Any) -> None:
        """Serves a peer stream, or a stream of calls, until it ends."""
        reader = CountedReader(reader, address_of(flight_context), self._guard)
        try:
            self._check_state()
            is_calls = command == call_streams.COMMAND
            identity = identity_of(flight_context) if self._is_secure else ""
            if self._is_secure:
                needed, what = Role.CLIENT if is_calls else Role.SERVER, "an exchange of peers"
                self._check(flight_context, what, lambda identity: check_role(identity, needed, what))
            if is_calls:
                with self._call_streams.one():
                    self._call_service.serve(reader, writer, identity, address_of(flight_context))
                return
            if self.exchange is None:
                raise errors.ProtocolError("this server has no peers")
            with self._exchanges.one():
                self.exchange(flight_context, reader, writer)
        except errors.Error as error:
            raise flight_error(error) from None


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise errors.ProtocolError(f"a message of {size} bytes is too large: this server accepts up to {limit}")


class _FlightServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Passes everything to the `RpcServer`. (`serve()` is never called: it would handle the process's signals.)"""

    def __init__(self, rpc: RpcServer, address: str, tls: Credentials | None):
        self._rpc = rpc
        if tls is None:
            super().__init__(f"grpc+tcp://{address}")
        else:
            super().__init__(f"grpc+tls://{address}", **tls.of_server())

    def do_action(self, context: Any, action: flight.Action) -> list[bytes]:
        if action.type != METHOD_ACTION:
            raise flight_error(errors.ProtocolError(f"no action {action.type!r}: this is a server of nyala"))
        return [self._rpc.answer(action.body, context)]

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        return flight.GeneratorStream(STREAM_SCHEMA, self._rpc.stream(ticket.ticket, context))

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self._rpc.serve_exchange(context, descriptor.command, reader, writer)
