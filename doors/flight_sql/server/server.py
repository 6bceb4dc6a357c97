"""The server: listens, looks after sessions and running calls, and shuts down.

gRPC's threads    one for each call: statements, streams
nyala-flight-sql  stops calls whose clients have gone, ends idle sessions
receive guard     cuts connections that send too much without completing a message; finds the open ones
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from typing import Any, Final

import pyarrow as pa

from ....cluster.wire.process.ending import cut_connections, stop_at_exit
from ....cluster.wire.security.receive_guard import ReceiveGuard
from ....driver.connection import Connection
from ....driver.session.identity import as_user
from ....errors import Error, ServerUnavailable
from ....model.forks import stay_with_process
from ....net.addresses import address_of
from ....sql.session_facts import USER
from ...audit import AuditLog
from ...audited import Audited, log_refused
from ...authentication import entrance
from ..session.client_session import ClientSession
from ..session.reports import sqlstate_of
from .authentication import DOOR, MIDDLEWARE, CallerFactory, NoHandshake
from .calls import LOOK_SECONDS, RunningCalls
from .handlers import FlightHandlers
from .options import MESSAGE_BYTES, FlightSqlOptions
from .part_endpoints import PartEndpoints
from .sessions import Sessions

_logger = logging.getLogger("nyala.doors.flight_sql")

_SWEEP_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 1.0
"""Seconds for cancelled calls to end, before their connections are cut."""
_CUT_SECONDS: Final = 5.0


class FlightSqlServer:
    """Serves the store of a connection by Flight SQL, from its birth to `close`.

    Parameters
    ----------
    connection : Connection
        Each session gets a connection of its own to the same store; this one is not used, and stays open.
    options : FlightSqlOptions

    Raises `InterfaceError` if the options are invalid, `ServerUnavailable` if the address cannot be used.
    """

    def __init__(self, connection: Connection, options: FlightSqlOptions):
        host, port, self.authenticator = entrance(connection, options)
        tls = options.tls()
        self.options = options
        self._connection = connection
        callers = CallerFactory(self.authenticator, options.audit)
        self.sessions = Sessions(self._open_session, options.sessions, callers.forget, self._note_refused)
        self._numbers = itertools.count(1)
        self.calls = RunningCalls(options.statements)
        self.part_endpoints = PartEndpoints(options)
        self._scheme = "grpc+tls" if tls else "grpc"
        self.host = host
        self._ending: threading.Thread | None = None
        self._is_closed = False
        self._stopped = threading.Event()
        location = f"{'grpc+tls' if tls else 'grpc+tcp'}://{address_of(host, port)}"
        try:
            self._flight = FlightHandlers(
                self, location, auth_handler=NoHandshake(), middleware={MIDDLEWARE: callers}, **tls
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ServerUnavailable(f"cannot listen at {options.address}: {error}") from None
        self.port: int = self._flight.port
        self._guard = ReceiveGuard(self.port, MESSAGE_BYTES, options.incomplete_bytes)
        self._watcher = threading.Thread(target=self._watch, name="nyala-flight-sql", daemon=True)
        stay_with_process(self, self._flight)
        stop_at_exit(self)

    @property
    def address(self) -> str:
        """ "host:port" at which it listens."""
        return address_of(self.host, self.port)

    @property
    def url(self) -> str:
        """URL for clients: grpc://host:port, grpc+tls://host:port with TLS."""
        return f"{self._scheme}://{self.address}"

    # ---- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to look after clients."""
        self._guard.start()
        self._watcher.start()
        _logger.info("Flight SQL is served", extra={"fields": {"address": self.address}})

    def _watch(self) -> None:
        swept = time.monotonic()
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                self.calls.look()
                if time.monotonic() - swept > _SWEEP_SECONDS:
                    self.sessions.sweep(self._guard.senders)
                    swept = time.monotonic()
            except Exception:
                _logger.exception("the sessions could not be looked after")

    def drain(self, grace: float | None = None) -> None:
        """Refuses new statements, and lets running ones end, for `grace` seconds at most."""
        self.calls.refuse()
        self.calls.wait(time.monotonic() + (self.options.drain_seconds if grace is None else grace))

    def close(self, grace: float | None = None) -> None:
        """Drains, cancels what still runs, and closes all connections. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self.drain(grace)
        self.stop(_STOP_SECONDS, True)

    def stop(self, grace: float, cut: bool) -> bool:
        """Cancels what runs, and stops; True if all calls have ended in `grace` seconds, or after their connections
        were cut. May be repeated."""
        self.calls.refuse()
        self.calls.stop()
        self.sessions.close()
        self._stopped.set()
        self._guard.close()
        if self._ending is None:
            self._ending = threading.Thread(target=self._shut_down, name="nyala-flight-sql-stop", daemon=True)
            self._ending.start()
        self._ending.join(grace)
        if cut and self._ending.is_alive():
            cut_connections(self.port)
            self._ending.join(_CUT_SECONDS)
        self.sessions.close()  # those of calls that were on their way
        return not self._ending.is_alive()

    def _shut_down(self) -> None:
        try:
            self._flight.shutdown()
        except (pa.ArrowException, OSError) as error:
            _logger.warning("the server of Flight did not stop cleanly: %s", error)

    def __enter__(self) -> FlightSqlServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def idle_seconds(self) -> float:
        """Seconds since the last session ended; 0 while there is one."""
        return 0.0 if len(self.sessions) else time.monotonic() - self.sessions.used

    # ---- for calls (`call.Host`) -------------------------------------------------------------------------------------

    def _open_session(self, session_id: bytes, user: str, address: str) -> ClientSession:
        proved = self.authenticator.is_needed and self.authenticator.admits_as_user(user)
        connection = as_user(self._connection, user or USER, is_authenticated=proved)
        connection.autocommit = True
        connection.session.client = f"Flight SQL ({user})" if user else "Flight SQL"
        session = ClientSession(session_id, connection, user, self.options.limits)
        if self.options.audit is not None:
            try:
                session.audited = self._entered(self.options.audit, session, address)
            except BaseException:
                session.close()
                raise
        return session

    def _entered(self, log: AuditLog, session: ClientSession, address: str) -> Audited:
        """Writes the login to the audit log. Raises `DiskError` if that fails: nothing may go unlogged."""
        audited = Audited(log, DOOR, session.connection.session.facts.user, address, next(self._numbers))
        audited.enter(self.authenticator.is_needed)
        return audited

    def _note_refused(self, user: str, address: str, error: Error) -> None:
        if self.options.audit is not None:
            with contextlib.suppress(Error):
                log_refused(self.options.audit, DOOR, user or USER, address, sqlstate_of(error), str(error))

    def note_message(self, address: str, size: int) -> None:
        """See `call.Host`."""
        self._guard.note(address, size)

    def facts(self, session: ClientSession) -> dict[str, Any]:
        """See `call.Host`."""
        return {
            "read_only": _is_read_only(session),
            "connections": self.options.sessions,
            "transaction_seconds": self.options.limits.transaction_seconds,
            "has_schemas": True,
        }


def _is_read_only(session: ClientSession) -> bool:
    try:
        session.connection.session.refuse_writes("a write")
    except Error:
        return True
    return False
