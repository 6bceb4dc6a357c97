"""The port for scans: Arrow Flight, one stream of batches per scan.

gRPC gives each stream a thread of its own, without a limit. So streams are counted, and refused before anything is
decoded. It accepts nothing else: calls and messages have the server's framed port.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import flight

from ... import errors
from ...model.clock import HybridClock
from ...model.forks import stay_with_process
from ...model.vectors.vector import Batch
from .gate import Gate
from .messages.envelope import MAX_BODY_BYTES, RequestEnvelope, TracedEnvelope, ticket_decoder, unpack
from .messages.errors import flight_error
from .messages.methods import ScanEnd
from .process.ending import cut_connections
from .process.server_threads import Failed
from .rows.scan_streams import STREAM_SCHEMA, Expiries, ScanMessages
from .security.access import Role, address_of, check_role, identity_of
from .security.receive_guard import ReceiveGuard
from .security.tls import Credentials

_logger = logging.getLogger("nyala.cluster.wire")

_CUT_SECONDS = 5.0
"""Seconds for handlers to notice that their connections are cut."""


class _Streamed:
    """The origin of a scan."""

    __slots__ = ("_flight",)

    def __init__(self, flight_context: Any):
        self._flight = flight_context

    @property
    def identity(self) -> str:
        return identity_of(self._flight)

    @property
    def address(self) -> str:
        return address_of(self._flight)

    @property
    def room(self) -> int:
        return MAX_BODY_BYTES

    def is_cancelled(self) -> bool:
        return bool(self._flight.is_cancelled())

    def is_of_account(self, check: Callable[[str], bool]) -> bool:
        return check(self.address)  # which connection a stream belongs to is not shown here


class ScanServer(Protocol):
    """`server.RpcServer`, as far as scans need it."""

    id: str

    @property
    def clock(self) -> HybridClock:
        """The server's clock."""

    def check(self, origin: Any, what: str, check: Callable[[str], None]) -> None:
        """Raises `AccessDenied` if the caller's identity does not pass the check."""

    def note_caller(self, envelope: RequestEnvelope, address: str) -> None:
        """Follows the clock of a scan's caller."""

    def begin_scan(self, envelope: TracedEnvelope, origin: Any, size: int) -> tuple[Iterator[Batch | ScanEnd], Any]:
        """Returns the batches of a scan whose ticket has `size` bytes, and the check of its deadline."""


class FlightPort:
    """The Flight server of one server.

    Parameters
    ----------
    server : ScanServer
    bind : str
        "host:port"; port 0 takes a free one.
    tls : Credentials or None
    failed : callable
        Called if one of its threads dies.
    scans, streams : int
        Running scans, and those whose reader is still there.
    ticket_bytes, connection_bytes, all_bytes : int
        See `server_limits.Limits`.
    idle_seconds : float
        Seconds after which a scan that is not read ends.
    """

    def __init__(
        self,
        server: ScanServer,
        bind: str,
        tls: Credentials | None,
        failed: Failed,
        *,
        scans: int,
        streams: int,
        ticket_bytes: int,
        connection_bytes: int,
        all_bytes: int,
        idle_seconds: float,
    ):
        self._server = server
        self._ticket_bytes = ticket_bytes
        self.scans = Gate("scans", scans)
        self._streams = Gate("streams of scans", streams)
        self._expiries = Expiries(idle_seconds, failed)
        self._ending: threading.Thread | None = None
        try:
            self._flight = _FlightServer(self, bind, tls)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise errors.ServerUnavailable(f"cannot listen at {bind}: {error}") from None
        self.port: int = self._flight.port
        self._guard = ReceiveGuard(self.port, connection_bytes, all_bytes, failed)
        stay_with_process(self, self._flight)

    def start(self) -> None:
        """Begins to watch received bytes."""
        self._guard.start()

    def stop(self, deadline: float, cut: bool) -> bool:
        """Ends all scans with an error at their next batch; True if they have ended by `deadline` (monotonic), or
        after their connections were cut then. A repeated call waits once more."""
        self._expiries.close()
        self._guard.close()
        if self._ending is None:
            self._ending = threading.Thread(target=self._shut_down, name="nyala-rpc-stop", daemon=True)
            self._ending.start()
        self._ending.join(max(0.0, deadline - time.monotonic()))
        if cut and self._ending.is_alive():
            cut_connections(self.port)
            self._ending.join(_CUT_SECONDS)
        return not self._ending.is_alive()

    def _shut_down(self) -> None:
        try:
            self._flight.shutdown()
        except (pa.ArrowException, OSError) as error:
            _logger.warning("the port for scans did not stop cleanly: %s", error)

    def stream(self, ticket: bytes, flight_context: Any) -> Iterator[Any]:
        """Yields the messages of a scan; an error is the last of them."""
        origin, server = _Streamed(flight_context), self._server
        self._guard.note(origin.address, len(ticket))
        try:
            server.check(origin, "a scan", lambda identity: check_role(identity, Role.CLIENT, "a scan"))
            if len(ticket) > self._ticket_bytes:
                raise errors.ProtocolError(
                    f"a message of {len(ticket)} bytes is too large: this server accepts up to {self._ticket_bytes}"
                )
            with ExitStack() as entered:
                for gate in (self._streams, self.scans):
                    gate.enter()
                    entered.callback(gate.leave)
                envelope: TracedEnvelope = unpack(ticket, ticket_decoder(), "ticket of a scan")
                server.note_caller(envelope, origin.address)
                entered.pop_all()
        except errors.Error as error:
            raise flight_error(error) from None
        messages = ScanMessages(
            lambda: server.begin_scan(envelope, origin, len(ticket)),
            server.clock,
            server.id,
            finished=self.scans.leave,
            closed=self._streams.leave,
        )
        self._expiries.watch(messages)
        return messages


class _FlightServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Passes scans to the `FlightPort`. (`serve()` is never called: it would handle the process's signals.)"""

    def __init__(self, port: FlightPort, address: str, tls: Credentials | None):
        self._scans = port
        if tls is None:
            super().__init__(f"grpc+tcp://{address}")
        else:
            super().__init__(f"grpc+tls://{address}", **tls.of_server())

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        return flight.GeneratorStream(STREAM_SCHEMA, self._scans.stream(ticket.ticket, context))
