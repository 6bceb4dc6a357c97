"""Serving methods, scans and peer messages.

    port          framed connections on one reactor (`net`): a call is decoded, passed to its handler, and answered with
                  the handler's reply or error; messages of other servers are passed on
    Flight port   scans: batches as they are made, a `ScanEnd` last (`flight_port`); the greeting of a client names it

The reactor's thread answers calls that need no wait itself (`later`), and leaves the others to a pool of threads. The
server counts all calls and refuses excess ones, with `ServerOverloaded`, before anything is decoded or done. Calls,
those of one client, scans and connections each have their limit, and so have bodies. A draining server refuses all new
work with `ServerUnavailable` and lets running work end.

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
from contextlib import AbstractContextManager, ExitStack, nullcontext
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from ... import errors
from ...model import metrics, waiting_time
from ...model.clock import HybridClock
from ...model.forks import stay_with_process
from ...model.state_table import StateTable
from ...model.vectors.vector import Batch
from ...net.addresses import address_of, host_of, port_of
from ...net.frame_server import FramedClient, FrameService
from ...net.listener import Listener
from ...net.reactor import Reactor
from .call_context import CallContext, CallOrigin, Origin
from .calls.deferred_replies import Answer, DeferredReplies
from .faults import FAULTS
from .flight_port import FlightPort
from .gate import Gate
from .handlers import Admit, AtOnce, Later, PeerMessage, Scan
from .messages.envelope import (
    ReplyEnvelope,
    RequestEnvelope,
    TracedEnvelope,
    Welcome,
    note_caller,
    pack,
    request_decoder,
    unpack,
)
from .messages.errors import error_to_body
from .messages.methods import Reply, Request, ScanEnd, SetFaults
from .messages.value_count import SMALL_BYTES
from .process.ending import stop_at_exit
from .rounds import Round
from .security.access import Role, check_request, check_role
from .security.audit import log_denied, log_done
from .security.tls import Credentials
from .server_limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from ...model import tracing

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
"""Threads for calls that may have to wait."""

ENDING_THREADS = 16
"""Threads for those of `Limits.ending`."""

_ENDING_BYTES = 1024
"""Size above which a body is none of `Limits.ending`."""


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
        threads. May be set later, as may `scan` and `message`, until `start`.
    scan : callable, optional
        Reads a tablet: batches, and a `ScanEnd` as the last item. It is closed if the reader goes away.
    message : callable, optional
        Processes a message of another server, without waiting.
    at_once, later : mapping, optional
        By class of request, besides its handler: answers it without waiting, now, or when its result is ready.
    id : str
        The server's own.
    is_overloaded : callable, optional
        Returns the reason for which the server accepts no more into its memory now; "" if it does.
    tls : Credentials, optional
        The server's own; None: no encryption, and every caller may call everything.
    flight_port : int, optional
        Port for scans; 0 takes a free one. None: the server has no scans.
    """

    def __init__(
        self,
        bind: str,
        clock: HybridClock,
        *,
        handlers: Mapping[type[Request], Callable[[Any, CallContext], Reply]] | None = None,
        scan: Scan | None = None,
        message: PeerMessage | None = None,
        at_once: Mapping[type[Request], AtOnce] | None = None,
        later: Mapping[type[Request], Later] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        id: str = "",
        is_overloaded: Callable[[], str] = lambda: "",
        tls: Credentials | None = None,
        flight_port: int | None = 0,
    ):
        self.handlers: dict[type[Request], Callable[[Any, CallContext], Reply]] = dict(handlers or {})
        self.scan = scan
        self.message = message
        self.admit: Admit | None = None
        """Called before each handler, `at_once`, `later` and scan; set before `start`."""
        self.at_once: dict[type[Request], AtOnce] = dict(at_once or {})
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
        self._calls = Gate("calls", limits.calls)
        self._endings = Gate("calls that end transactions", limits.calls)
        self.around: Callable[[], AbstractContextManager[object]] = nullcontext
        """Makes the context manager within which the reactor processes each round; set before `start`."""
        self._pool = ThreadPoolExecutor(CALL_THREADS, "nyala-call")
        self._ending_pool = ThreadPoolExecutor(ENDING_THREADS, "nyala-ending")
        self._without_thread = 0
        self._in_threads = 0
        """Numbers of calls so far, changed by the reactor's thread."""
        metrics.register(self.samples)
        self._deferred_replies = DeferredReplies(failed=self._thread_failed)
        try:
            host, port = host_of(bind), port_of(bind)
        except ValueError:
            raise errors.ServerUnavailable(f"cannot listen at {bind}: it is not a host and a port") from None
        self._flight: FlightPort | None = None
        self.reactor = Reactor(failed=self._thread_failed)
        with ExitStack() as stack:
            stack.callback(self.reactor.close)
            self._listener = Listener(
                self.reactor,
                host,
                port,
                self._frame_service().protocol,
                tls=None if tls is None else tls.accepting,
                most=limits.connections,
            )
            stack.callback(self._listener.close)
            self.address = address_of(host, self._listener.port)
            if flight_port is not None:
                self._flight = self._open_flight(address_of(host, flight_port), tls)
            stack.pop_all()
        # Refuses calls until `start`.
        self.reactor.around = lambda: Round(self.around())
        self.reactor.start()
        self._listener.start()
        stay_with_process(self)
        stop_at_exit(self)

    def _frame_service(self) -> FrameService:
        limits = self.limits
        return FrameService(
            self._greet,
            self.take,
            self._take_message,
            call_bytes=limits.body_bytes,
            message_bytes=limits.message_bytes,
            all_bytes=limits.incomplete_bytes,
        )

    def _open_flight(self, bind: str, tls: Credentials | None) -> FlightPort:
        limits = self.limits
        return FlightPort(
            self,
            bind,
            tls,
            self._thread_failed,
            scans=limits.scans,
            streams=limits.streams,
            ticket_bytes=limits.ticket_bytes,
            connection_bytes=limits.connection_bytes,
            all_bytes=limits.all_bytes,
            idle_seconds=limits.idle_scan_seconds,
        )

    def start(self) -> None:
        """Starts serving calls."""
        self._deferred_replies.start()
        with self._state_lock:
            if self._state is ServerState.STARTING:
                self._to(ServerState.RUNNING)
        if self._flight is not None:
            self._flight.start()

    def _to(self, state: ServerState) -> None:
        """Needs `_state_lock`."""
        self._state = STATES.checked(self._state, state)

    def drain(self, grace: float = 10.0) -> bool:
        """Refuses new work, and waits for running calls and scans, at most `grace` seconds; True if all ended."""
        with self._state_lock:
            if self._state is not ServerState.STOPPED:
                self._to(ServerState.DRAINING)
        deadline = time.monotonic() + grace
        gates = [self._calls, self._endings] + ([] if self._flight is None else [self._flight.scans])
        return all(gate.wait_empty(deadline) for gate in gates)

    def stop(self, grace: float = 5.0, cut: bool = False) -> bool:
        """Stops listening. Scans end with an error at their next batch. A repeated call waits once more.

        Parameters
        ----------
        grace : float
            Seconds that calls and scans have to end. Writes that are not decided then are left undecided.
        cut : bool
            True: connections of scans are cut then. False: running scans are left to end by themselves.

        Returns False if calls or scans still run.
        """
        deadline = time.monotonic() + grace
        with self._state_lock:
            self._to(ServerState.STOPPED)
        self._stopped.set()
        self.reactor.call_soon(self._listener.stop_accepting)
        for pool in (self._pool, self._ending_pool):
            pool.shutdown(wait=False, cancel_futures=True)
        self._deferred_replies.close(
            errors.ServerUnavailable("the server stopped before the call was decided; it may still be executed")
        )
        is_done = all(gate.wait_empty(deadline) for gate in (self._calls, self._endings))
        self._listener.finish(deadline)
        self.reactor.close()
        self._listener.close()
        if self._flight is not None:
            is_done = self._flight.stop(deadline, cut) and is_done
        return is_done

    def samples(self) -> Iterator[metrics.Sample]:
        """For `metrics.collect`."""
        under_way = self.under_way
        yield metrics.Sample("nyala_calls_running", under_way["calls"])
        yield metrics.Sample("nyala_scans_open", under_way["scans"])
        yield metrics.Sample("nyala_calls_total", self._without_thread, ("reactor",))
        yield metrics.Sample("nyala_calls_total", self._in_threads, ("pool",))

    @property
    def ports(self) -> tuple[int, ...]:
        """Returns the ports at which it accepts connections: of calls, and of scans if there are any."""
        return (self._listener.port, *(() if self._flight is None else (self._flight.port,)))

    @property
    def under_way(self) -> Mapping[str, int]:
        """Returns the numbers of running calls, scans and connections."""
        return {
            "calls": self._calls.count + self._endings.count,
            "scans": 0 if self._flight is None else self._flight.scans.count,
            "connections": self._listener.count,
        }

    @property
    def processed(self) -> Mapping[str, int]:
        """Returns how many calls were processed without a thread of their own, and in threads of the pools."""
        return {"calls_without_thread": self._without_thread, "calls_in_threads": self._in_threads}

    # ---- framed connections, in the reactor's thread -----------------------------------------------------------------

    def _greet(self, hello: bytes, client: FramedClient) -> bytes:
        return pack(Welcome(self.id, 0 if self._flight is None else self._flight.port))

    def _take_message(self, client: FramedClient, body: bytes) -> None:
        """Passes on a message of another server."""
        if client.caller is None:
            if self._is_secure:
                what = "a message of a peer"
                self.check(client, what, lambda identity: check_role(identity, Role.SERVER, what))
            if self.message is None:
                raise errors.ProtocolError("this server has no peers")
            client.caller = True
        if self._state is ServerState.RUNNING or self._state is ServerState.DRAINING:
            assert self.message is not None
            self.message(client, body)

    def take(self, client: FramedClient, number: int, body: bytes) -> None:
        """Processes a call: its reply is sent now or later."""
        try:
            if not client.room:
                raise errors.ServerOverloaded(
                    "this client does not read its replies: no more calls are accepted from it"
                )
            gate = self._enter(body, client)
        except errors.Error as error:
            client.reply(number, self._packed(error))
            return
        origin, answer = CallOrigin(client, number), self._answer(client, number, gate)
        if len(body) > SMALL_BYTES:
            arrived = 0 if waiting_time.exporter is None else time.time_ns()
            self._submit(self._pool, self._decode, self._process_large, body, origin, arrived, answer)
        else:
            self._decode(self._process_small, body, origin, 0, answer)

    def _decode(
        self,
        process: Callable[[Origin, RequestEnvelope, Answer], None],
        body: bytes,
        origin: Origin,
        arrived: int,
        answer: Answer,
    ) -> None:
        """Decodes a call and has it processed, within a span if its caller's statement has one. `arrived`: nanoseconds
        since 1970, if the call has waited for this since then."""
        try:
            envelope: TracedEnvelope = unpack(body, self._decoder, "request")
        except Exception as error:
            answer(error)
            return
        if envelope.traceparent and waiting_time.exporter is not None:
            from .calls import traced_calls  # few processes have an exporter

            traced_calls.serve(partial(process, origin), envelope, answer, origin.address, len(body), arrived)
        else:
            process(origin, envelope, answer)

    def _process_small(self, origin: Origin, envelope: RequestEnvelope, answer: Answer) -> None:
        """Processes a call in the reactor's thread, which must not wait: answers it at once if that is possible."""
        method = envelope.method
        try:
            context = self._begun(envelope, origin)
            at_once = self.at_once.get(type(method))
            reply = None if at_once is None else at_once(method, context)
        except Exception as error:
            answer(error)
            return
        if reply is not None:
            self._without_thread += 1
            answer(reply)
        else:
            self._take_longer(method, context, answer)

    def _reply(
        self,
        client: FramedClient,
        number: int,
        gate: Gate,
        reply: Reply | BaseException,
        trace: tracing.CallTrace | None = None,
    ) -> None:
        gate.leave()
        body = self._packed(reply)
        client.reply(number, body)
        if trace is not None:
            from .calls import traced_calls  # few processes have an exporter

            traced_calls.end(trace, reply, len(body))

    def _answer(self, client: FramedClient, number: int, gate: Gate) -> Answer:
        return partial(self._reply, client, number, gate)

    def _take_longer(self, method: Request, context: CallContext, answer: Answer) -> None:
        """Processes a call that is not answered at once: its reply is sent when it is decided, or by a thread."""
        later = self.later.get(type(method))
        if later is not None:
            answer = reply = self._deferred_replies.reply(answer, context.deadline)
            try:
                is_taken = later(method, context, reply)
            except Exception as error:
                answer(error)
                return
            self._deferred_replies.expect(reply)
            if is_taken:
                self._without_thread += 1
                return
        pool = self._ending_pool if type(method) in self.limits.ending else self._pool
        self._submit(pool, self._answer_waiting, method, context, answer)

    def _enter(self, body: bytes, client: FramedClient) -> Gate:
        """Counts a call that begins, and returns its gate; raises `ServerOverloaded`. A call that others wait for is
        decoded for this only if all other places are taken."""
        try:
            if client.running > self.limits.client_calls:
                raise errors.ServerOverloaded(
                    f"this client has {client.running - 1} calls at once, and no more are accepted"
                )
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

    def _submit(self, pool: ThreadPoolExecutor, work: Callable[..., None], *arguments: Any) -> None:
        """Passes work to a pool; its last argument receives the reply."""
        self._in_threads += 1
        if waiting_time.exporter is not None:
            from .calls import traced_calls  # few processes have an exporter

            work = traced_calls.carried(work)
        try:
            pool.submit(work, *arguments)
        except RuntimeError:
            arguments[-1](errors.ServerUnavailable("the server is stopping"))

    def _process_large(self, origin: Origin, envelope: RequestEnvelope, answer: Answer) -> None:
        """Processes a call that takes long to decode, in a thread of the pool."""
        try:
            context = self._begun(envelope, origin)
        except Exception as error:
            answer(error)
            return
        self._answer_waiting(envelope.method, context, answer)

    def _answer_waiting(self, method: Request, context: CallContext, answer: Answer) -> None:
        try:
            reply = self._handled(method, context)
        except Exception as error:
            # Not as a variable of this frame, which the error's traceback refers to: such a cycle would hold the files
            # that the handler was reading until the next collection.
            answer(error)
            return
        answer(reply)

    # ---- checks and handlers -----------------------------------------------------------------------------------------

    def _begun(self, envelope: RequestEnvelope, origin: Origin) -> CallContext:
        """Returns the context of a call that this caller may make now; raises otherwise."""
        method = envelope.method
        if self._is_secure:
            what = type(method).__name__
            self.check(origin, what, lambda identity: check_request(identity, method))
        is_fault = isinstance(method, SetFaults)
        if not is_fault:
            note_caller(self._clock, envelope, origin.address)
        context = self.context(envelope, origin, always=is_fault)
        if self.admit is not None:
            self.admit(method, context)
        if type(method) in self.limits.growing and (reason := self._is_overloaded()):
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

    def check(self, origin: Origin | FramedClient, what: str, check: Callable[[str], None]) -> None:
        """Runs `check` on the caller's identity, with TLS; logs and raises its error."""
        if not self._is_secure:
            return
        try:
            check(origin.identity)
        except errors.AccessDenied as error:
            log_denied(what, origin.identity, origin.address, error)
            raise

    def _packed(self, reply: Reply | BaseException) -> bytes:
        if isinstance(reply, BaseException):
            return pack(ReplyEnvelope(self._clock.now(), self.id, None, error_to_body(reply)))
        return pack(ReplyEnvelope(self._clock.now(), self.id, reply))

    def context(self, envelope: RequestEnvelope, origin: Origin, always: bool = False) -> CallContext:
        """Returns the context of a call or scan; raises if it cannot be served now."""
        caller, remaining = envelope.caller, envelope.remaining
        if not always:
            FAULTS.check(caller.id, caller.address)
        self._check_state()
        if not remaining > 0:  # also refuses NaN
            raise errors.DeadlineExceeded("the call's deadline had passed when it arrived")
        deadline = time.monotonic() + (remaining if remaining < LONGEST_CALL else LONGEST_CALL)
        return CallContext(caller, deadline, origin, self._stopped.is_set, envelope.token)

    def _check_state(self) -> None:
        if self._failure:
            raise errors.InternalError(
                f"the server at {self.address} has stopped: {self._failure}; restart its process"
            )
        if self._state is not ServerState.RUNNING:
            raise errors.ServerUnavailable(f"the server at {self.address} is {self._state.value}")

    def begin_scan(self, envelope: TracedEnvelope, origin: Origin, size: int) -> tuple[Iterator[Batch | ScanEnd], Any]:
        """Returns the batches of a scan whose ticket has `size` bytes, and the check of its deadline."""
        if envelope.traceparent and waiting_time.exporter is not None:
            from .calls import traced_calls  # few processes have an exporter

            trace = traced_calls.begun(envelope, origin.address, size)
            if trace is not None:
                return traced_calls.scanned(trace, partial(self._begin_scan, envelope, origin))
        return self._begin_scan(envelope, origin)

    def _begin_scan(self, envelope: RequestEnvelope, origin: Origin) -> tuple[Iterator[Batch | ScanEnd], Any]:
        context = self.context(envelope, origin)
        if self.scan is None:
            raise errors.ProtocolError("this server has no tablets to scan")
        if self.admit is not None:
            self.admit(envelope.method, context)
        return self.scan(envelope.method, context), context.check

    def note_caller(self, envelope: RequestEnvelope, address: str) -> None:
        """Follows the clock of a scan's caller."""
        note_caller(self._clock, envelope, address)

    @property
    def clock(self) -> HybridClock:
        """The server's clock."""
        return self._clock

    def _thread_failed(self, name: str, error: BaseException) -> None:
        self._failure = f"its thread {name} ended by {type(error).__name__}: {error}"
        _logger.critical("the server at %s has stopped: %s", self.address, self._failure, exc_info=error)
