"""One client of the server: the protocol of its connection (`net.connection.Protocol`), and its work in the pool.

    | state | event | next state |
    |---|---|---|
    | STARTING | the client is authenticated | IDLE |
    | STARTING | it is refused, or lost | ENDED |
    | IDLE | messages have arrived | WORKING |
    | IDLE | it is lost | ENDED |
    | WORKING | all messages are done | IDLE |
    | WORKING | the client does not read | PARKED |
    | WORKING | it is lost | ENDED |
    | PARKED | what was sent has been read | WORKING |
    | PARKED | it is lost | ENDED |

The reactor's thread reads messages. Statements on single rows that have run before are handled at once
(`session.known_groups`): look-ups while the client is IDLE; with a write it is WORKING until the row is durable. All
other messages are queued; while WORKING, one thread of the pool handles them. A PARKED client has a generator that is
not exhausted, and no thread. If too many bytes wait in the queue, nothing is read from the socket.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol

from ....driver.connection import Connection as DriverConnection
from ....driver.session.executions import Halt
from ....errors import Error, ProtocolError
from ....model.state_table import StateTable
from ....model.store import WriteResult
from ....net.connection import Connection
from ....net.tls import TlsFilter
from ....storage.single_rows.committers import Done
from ....storage.single_rows.row_write import StartedRow
from ...audited import Audited, log_refused
from ...authentication import Authentication
from ..protocol import frontend, replies, startup
from ..protocol.reader import MessageReader
from ..session.backend import Backend
from ..session.bound_values import Values
from ..session.client_settings import ClientSettings
from ..session.known_groups import LONGEST, Known
from ..session.one_step import OneStep
from ..session.reports import report
from .options import PostgresOptions

_logger = logging.getLogger("nyala.doors.postgres")

START_SECONDS: Final = 10.0
"""Seconds from the connection to the end of authentication."""
MESSAGE_SECONDS: Final = 120.0
"""Seconds without a byte after which an incomplete message ends the connection."""
PARK_BYTES: Final = 1 << 20
"""Unsent bytes above which a client is parked."""
FLUSH_BYTES: Final = 1 << 16
MOST_AT_ONCE: Final = 16
"""Look-ups of one client that the reactor's thread runs before it goes on to the next one."""
QUEUE_BYTES: Final = 4 << 20
"""Bytes of messages in the queue above which nothing more is read."""
_DOOR: Final = "postgres"
"""Its name in the audit log."""
_TLS_RECORD: Final = 0x16
"""The first byte of a TLS handshake: the client does not request TLS first (sslnegotiation=direct)."""


class State(Enum):
    """State of a client; the table is on the module's page."""

    STARTING = "starting"
    IDLE = "idle"
    WORKING = "working"
    PARKED = "parked"
    ENDED = "ended"


_S = State
STATES = StateTable(
    _S.STARTING,
    {
        (_S.STARTING, "the client is authenticated"): _S.IDLE,
        (_S.STARTING, "it is refused, or lost"): _S.ENDED,
        (_S.IDLE, "messages have arrived"): _S.WORKING,
        (_S.IDLE, "it is lost"): _S.ENDED,
        (_S.WORKING, "all messages are done"): _S.IDLE,
        (_S.WORKING, "the client does not read"): _S.PARKED,
        (_S.WORKING, "it is lost"): _S.ENDED,
        (_S.PARKED, "what was sent has been read"): _S.WORKING,
        (_S.PARKED, "it is lost"): _S.ENDED,
    },
)
_STARTING, _IDLE, _WORKING, _PARKED, _ENDED = State
"""An attribute of an Enum costs as much as five comparisons."""


class Host(Protocol):
    """The server of a client (`server.PostgresServer`)."""

    options: PostgresOptions
    tls: ssl.SSLContext | None
    needs_tls: bool
    authenticator: Authentication
    lookups: int
    writes: int

    def admit(self) -> None:
        """Raises `Refused` if there is no room for a client."""

    def open_session(self, user: str, settings: Mapping[str, str]) -> DriverConnection:
        """Makes a connection for a client."""

    def register(self, client: PostgresClient, key_bytes: int) -> tuple[int, bytes]:
        """Number and secret key of a client that has entered."""

    def forget(self, client: PostgresClient) -> None:
        """A client is lost."""

    def cancel(self, process: int, key: bytes) -> None:
        """Cancels the statement of a client."""

    def submit(self, job: Callable[[], None]) -> None:
        """Runs a job in the pool."""

    def commit(self, started: StartedRow, done: Done) -> None:
        """Has a row committed; calls `done` with the outcome in the reactor's thread."""

    def call_later(self, seconds: float, job: Callable[[], object]) -> None:
        """Runs a job in the reactor's thread after a time."""

    def note_bytes(self, client: PostgresClient, size: int) -> None:
        """Records the bytes that a client's messages take."""


class PostgresClient:
    """See the module's page. Made by the server for each connection."""

    def __init__(self, server: Host):
        self.connection: Connection
        self.process = 0
        self.key = b""
        self._server = server
        self._reader = MessageReader(server.options.message_bytes)
        self._startup: startup.StartUp | None = None
        self._backend: Backend | None = None
        self._audited: Audited | None = None
        self._began = time.monotonic()
        self._idle_since = self._began
        # Guards the state, the queue and the flags.
        self._lock = threading.Lock()
        self._state = STATES.first
        self._queue: deque[tuple[Any, int]] = deque()
        self._queued = 0
        self._is_paused = False
        self._is_lost = False
        self._is_leaving = False
        self._steps: Iterator[bytes] | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._due = 0.0, Halt()
        """When the newest statement with a timeout is to end (of `time.monotonic`)."""
        self._alarm = 0.0
        """When the timer is due; 0: there is none."""

    def _to(self, state: State) -> None:
        self._state = STATES.checked(self._state, state)

    # ---- the protocol (`net.connection.Protocol`), in the reactor's thread -----------------------------------------

    def connection_made(self, connection: Connection) -> None:
        """See `net.connection.Protocol`."""
        self.connection = connection
        options = self._server
        self._startup = startup.StartUp(options.tls is not None, options.needs_tls, options.authenticator)

    def bytes_received(self, data: memoryview) -> None:
        """See `net.connection.Protocol`."""
        whole = b""
        if self._state is _IDLE and not self._reader.buffered:
            whole = bytes(data)
            place = self._handle_known(whole)
            if place == len(whole):
                return
            if place:
                data, whole = data[place:], b""
        elif self._is_direct_tls(data):
            self._begin_tls(bytes(data))
            return
        self._reader.feed(data)
        try:
            while self._state is _STARTING:
                message = self._reader.take()
                if message is None:
                    return
                self._start(message)
            found = []
            before = self._reader.buffered
            while (message := self._reader.take()) is not None:
                after = self._reader.buffered
                found.append((message, before - after))
                before = after
        except ProtocolError as error:
            self._refuse(error)
            return
        if found:
            self._enqueue(found, b"" if self._reader.buffered or len(whole) > LONGEST else whole)
        self._server.note_bytes(self, self._reader.buffered + self._queued)

    def drained(self) -> None:
        """See `net.connection.Protocol`."""
        with self._lock:
            if self._state is not _PARKED:
                return
            self._to(_WORKING)
        self._server.submit(self._work)

    def check(self, now: float) -> str:
        """See `net.connection.Protocol`."""
        if self._state is _STARTING:
            return "the start-up has taken too long" if now - self._began > START_SECONDS else ""
        if self._reader.buffered and now - self.connection.active > MESSAGE_SECONDS:
            return "a message has taken too long"
        backend = self._backend
        if self._state is _IDLE and backend is not None and backend.is_in_transaction:
            seconds = backend.settings.seconds("idle_in_transaction_session_timeout")
            if seconds and now - self._idle_since > seconds:
                self._end("25P03", "terminating connection due to idle-in-transaction timeout")
        return ""

    def connection_lost(self, reason: str) -> None:
        """See `net.connection.Protocol`."""
        if reason and not self._is_leaving and self._state is not _STARTING:
            _logger.info("a client is lost", extra={"fields": {"from": self._address, "reason": reason}})
        self._server.forget(self)
        audited, self._audited = self._audited, None
        if audited is not None:
            with contextlib.suppress(Error):
                audited.leave()
        with self._lock:
            self._is_lost = True
            self._queue.clear()
            self._queued = 0
            is_working = self._state is _WORKING
            if not is_working and self._state is not _ENDED:
                self._to(_ENDED)
        backend = self._backend
        if backend is None:
            return
        if is_working:
            backend.cancel()  # the thread that works for the client ends it
        else:
            self._server.submit(self._close)

    @property
    def _address(self) -> str:
        connection = getattr(self, "connection", None)
        return "" if connection is None else connection.address

    # ---- start-up, in the reactor's thread -------------------------------------------------------------------------

    def _is_direct_tls(self, data: memoryview) -> bool:
        is_first = self._state is _STARTING and not self._reader.buffered and not self.connection.is_encrypted
        return is_first and data[0] == _TLS_RECORD and self._server.tls is not None

    def _begin_tls(self, received: bytes = b"") -> None:
        assert self._server.tls is not None and self._startup is not None
        self._startup.note_tls()
        self.connection.start_tls(TlsFilter(self._server.tls), received)

    def _start(self, message: Any) -> None:
        assert self._startup is not None
        for event in self._startup.take(message, self._reader.buffered > 0):
            if isinstance(event, startup.Send):
                self.connection.send(event.data)
            elif isinstance(event, startup.StartTls):
                self._begin_tls()
            elif isinstance(event, startup.Cancel):
                self._server.cancel(event.process, event.key)
                self._close_start(b"")
            elif isinstance(event, startup.End):
                fields = {"from": self._address, "error": event.reason}
                _logger.warning("a client is refused", extra={"fields": fields})
                self._note_refused(event.sqlstate, event.reason)
                self._close_start(event.data)
            else:
                self._enter(event)
        # The start-up message has no kind; what follows has.
        self._reader.is_started = isinstance(message, frontend.Startup) or self._reader.is_started

    def _close_start(self, data: bytes) -> None:
        with self._lock:
            self._to(_ENDED)
        self.connection.end(data)

    def _enter(self, event: startup.Enter) -> None:
        assert self._startup is not None
        try:
            self._server.admit()
            parameters = dict(event.parameters)
            user = parameters.pop("user")
            given = startup.command_line_settings(parameters.pop("options", ""))
            parameters.pop("replication", None)
            database = parameters.pop("database", "")
            given.update({name: value for name, value in parameters.items() if not name.startswith("_pq_.")})
            settings = ClientSettings(user, given)
            session = self._server.open_session(user, settings.unknown)
            session.session.client = self._address
            self.process, self.key = self._server.register(self, 32 if event.minor >= 2 else 4)
            self._note_entered(user)
        except Error as error:
            found = report(error)
            self._note_refused(found.sqlstate, found.message)
            self._close_start(
                replies.error_response(replies.Report("FATAL", found.sqlstate, found.message, hint=found.hint))
            )
            return
        self._backend = Backend(session, settings, self._following, self._arm, self._audited, database)
        self._reader.is_authenticated = True
        self._idle_since = time.monotonic()
        with self._lock:
            self._to(_IDLE)
        self.connection.send(self._backend.opening(self.process, self.key))

    def _note_entered(self, user: str) -> None:
        """Writes the login to the audit log. Raises `DiskError` if that fails: nothing may go unlogged."""
        assert self._startup is not None
        if (log := self._server.options.audit) is not None:
            audited = Audited(log, _DOOR, user, self._address, self.process)
            audited.enter(self._startup.is_authenticated)
            self._audited = audited

    def _note_refused(self, sqlstate: str, reason: str) -> None:
        if (log := self._server.options.audit) is not None and self._startup is not None:
            with contextlib.suppress(Error):
                log_refused(log, _DOOR, self._startup.user, self._address, sqlstate, reason)

    def _refuse(self, error: ProtocolError) -> None:
        """Ends the connection: the bytes are not of the protocol."""
        _logger.warning("a client is refused", extra={"fields": {"from": self._address, "error": str(error)}})
        self._end(error.sqlstate, str(error))

    def _end(self, sqlstate: str, message: str) -> None:
        """Ends the connection with a fatal error; in the reactor's thread."""
        self.connection.end(replies.error_response(replies.Report("FATAL", sqlstate, message)))

    def shut_down(self) -> None:
        """Ends an idle client, because the server stops; in the reactor's thread."""
        if self._state in (_IDLE, _STARTING):
            self._end("57P01", "terminating connection due to administrator command")

    @property
    def is_working(self) -> bool:
        """True while it has messages to handle."""
        return self._state in (_WORKING, _PARKED)

    # ---- the queue -------------------------------------------------------------------------------------------------

    def _handle_known(self, data: bytes) -> int:
        """Handles the first messages if they are statements on single rows that have run before; returns the place
        behind them. The client is idle, and only this thread can change that."""
        backend = self._backend
        assert backend is not None
        one_step = backend.one_step
        place, out = 0, list[bytes]()
        for _ in range(MOST_AT_ONCE):
            found = one_step.match(data, place)
            if found is None:
                break
            known, values, end, ready = found
            if known.writes:
                if out:
                    self.connection.send(b"".join(out))
                return end if self._begin_write(one_step, known, values) else place
            response = one_step.read(known, values, ready)
            if response is None:
                break
            self._server.lookups += 1
            out.append(response)
            place = end
            if place == len(data):
                break
        if out:
            self.connection.send(out[0] if len(out) == 1 else b"".join(out))
        return place

    def _begin_write(self, one_step: OneStep, known: Known, values: Values) -> bool:
        """Begins a statement that writes a single row; False, with nothing done, if its messages must be handled one by
        one."""
        started = one_step.start(known, values)
        if started is None and not one_step.can_run(known):
            return False
        self._server.writes += 1
        with self._lock:
            self._to(_WORKING)
        if started is None:
            self._server.submit(lambda: self._run_write(one_step, known, values))
        else:
            self._server.commit(started, lambda outcome: self._written(one_step, known, outcome))
        return True

    def _written(self, one_step: OneStep, known: Known, outcome: WriteResult | Exception) -> None:
        """Sends the response to a write, which is durable or has failed; in the reactor's thread."""
        self.connection.send(one_step.finish(known, outcome))
        with self._lock:
            is_done = not self._queue and not self._is_lost
            if is_done:
                self._to(_IDLE)
        if not is_done:
            self._server.submit(self._work)

    def _run_write(self, one_step: OneStep, known: Known, values: Values) -> None:
        """Runs a statement that writes a single row; in a thread of the pool, since it may wait."""
        self._out.append(one_step.run(known, values))
        self._work()

    def _enqueue(self, found: list[tuple[Any, int]], whole: bytes) -> None:
        """Queues messages. `whole`: their bytes, if these are no others; they may be those of a statement on a
        single row."""
        with self._lock:
            if self._is_lost:
                return
            self._queue.extend(found)
            self._queued += sum(size for _, size in found)
            pauses = self._queued > QUEUE_BYTES and not self._is_paused
            self._is_paused = self._is_paused or pauses
            begins = self._state is _IDLE
            if begins:
                self._to(_WORKING)
        if pauses:
            self.connection.pause_reading(True)
        if not begins:
            return
        messages = [message for message, _ in found]
        self._server.submit(lambda: self._work(whole, messages))

    def _following(self) -> type | None:
        with self._lock:
            return type(self._queue[0][0]) if self._queue else None

    def _next(self) -> Any:
        """The next message; None if there is none, and then the client is idle, or has ended."""
        with self._lock:
            if self._queue and not self._is_lost:
                message, size = self._queue.popleft()
                self._queued -= size
                resumes = self._is_paused and self._queued <= QUEUE_BYTES // 2
                self._is_paused = self._is_paused and not resumes
            else:
                self._to(_ENDED if self._is_lost else _IDLE)
                self._idle_since = time.monotonic()
                return None
        if resumes:
            self.connection.pause_reading(False)
        return message

    def cancel(self) -> None:
        """Stops the running statement; from any thread."""
        if self._backend is not None:
            self._backend.cancel()

    def _arm(self, seconds: float, halt: Halt) -> None:
        """Has a statement time out. There is one timer for all statements of a client: most end long before it."""
        due = time.monotonic() + seconds
        with self._lock:
            self._due = due, halt
            if self._alarm and self._alarm <= due:
                return
            self._alarm = due
        self._server.call_later(seconds, lambda: self._ring(due))

    def _ring(self, alarm: float) -> None:
        """The time of a statement is over, or of an earlier one; in the reactor's thread."""
        with self._lock:
            if self._alarm != alarm:
                return  # another timer is earlier
            due, halt = self._due
            is_over = due <= time.monotonic()
            self._alarm = 0.0 if is_over else due
        backend = self._backend
        if is_over and backend is not None:
            backend.time_out(halt)
        elif not is_over:
            self._server.call_later(due - time.monotonic(), lambda: self._ring(due))

    # ---- a thread of the pool --------------------------------------------------------------------------------------

    def _work(self, whole: bytes = b"", messages: Sequence[Any] = ()) -> None:
        """Handles messages until there is none, or the client does not read. `whole`: the bytes of the first ones, for
        their next run."""
        try:
            if whole and self._backend is not None:
                self._backend.learn(whole, messages)
            while True:
                if self._steps is None:
                    if not self._queue:
                        self._flush()
                    message = self._next()
                    if message is None:
                        break
                    if isinstance(message, frontend.Terminate):
                        self._is_leaving = True
                        self.connection.end()
                        continue
                    assert self._backend is not None
                    self._steps = self._backend.handle(message)
                if not self._step(self._steps):
                    return
        except Exception:
            _logger.exception("the connection from %s is closed", self._address)
            self.connection.abort("a bug in the server")
            with self._lock:
                self._to(_IDLE if not self._is_lost else _ENDED)
        if self._state is _ENDED:
            self._close()

    def _step(self, steps: Iterator[bytes]) -> bool:
        """Sends pieces of a response to its end; False if the client is parked in the middle of it."""
        for piece in steps:
            self._out.append(piece)
            self._out_bytes += len(piece)
            if self._out_bytes >= FLUSH_BYTES:
                self._flush()
                if self._is_lost:
                    break
                if self.connection.unsent > PARK_BYTES and self._park():
                    return False
        if self._is_lost:
            close = getattr(steps, "close", None)
            if close is not None:
                close()
        self._steps = None
        return True

    def _flush(self) -> None:
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._out_bytes = 0
            if data:
                self.connection.send(data)

    def _park(self) -> bool:
        """Leaves the response where it is, until the socket has drained; False if it has done so by now."""
        with self._lock:
            if self._is_lost:
                return False
            self._to(_PARKED)
            if self.connection.unsent:
                return True
            self._to(_WORKING)
        return False

    def _close(self) -> None:
        """Ends the session. In a thread of the pool: a rollback may take a moment."""
        steps, self._steps = self._steps, None
        with contextlib.suppress(Exception):
            if steps is not None:
                getattr(steps, "close", lambda: None)()
        backend, self._backend = self._backend, None
        if backend is not None:
            try:
                backend.close()
            except Exception:
                _logger.exception("the session of %s could not be closed", self._address)
