"""Channels to servers: calls on framed connections, and scans as streams of gRPC.

A channel has three connections. Small calls share one, all others another: a batch of rows on its way delays no
look-up. A scan's stream goes to the server's Flight port, which its greeting names (`Welcome`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import flight

from .... import errors
from ....model import waiting_time
from ....model.clock import HybridClock
from ....model.forks import stay_with_process
from ....net.addresses import address_of, host_of
from ....net.client_connection import PendingCall
from ..faults import FAULTS
from ..messages.envelope import (
    MAX_BODY_BYTES,
    Caller,
    ReplyEnvelope,
    RequestEnvelope,
    TracedEnvelope,
    note_server,
    pack,
    reply_decoder,
    unpack,
)
from ..messages.errors import error_of_server
from ..messages.methods import Reply, Request, ScanTablet, SetFaults
from ..rows.scan_streams import ScanStream
from ..security.tls import Credentials
from .flight_connection import FlightConnection
from .server_connection import ServerConnection

SMALL_BYTES = 32 << 10
"""Size above which a request is not small, whatever its method."""


class TokenSource:
    """The token that requests carry; none. A client that has logged in has another (`cluster.client.login`)."""

    token = b""
    refusal: errors.Error | None = None
    """The reason for which there will be no other token; None: it is replaced."""

    def note_refused(self) -> None:
        """A server has refused the token as expired."""


NO_TOKEN = TokenSource()


class Channel:
    """The channel to one server.

    Parameters
    ----------
    address : str
        "host:port".
    clock : HybridClock
        Sent with each request, and updated by each response.
    caller : Caller, optional
        The caller's identity.
    tls : Credentials, optional
        For mutual authentication; None: no encryption.
    tokens : TokenSource
    """

    def __init__(
        self,
        address: str,
        clock: HybridClock,
        caller: Caller | None = None,
        tls: Credentials | None = None,
        tokens: TokenSource = NO_TOKEN,
    ):
        self._tokens = tokens
        self.address = address
        self._clock = clock
        self._caller = Caller() if caller is None else caller
        self.tls = tls
        self._small = ServerConnection(address, tls)
        self._large = ServerConnection(address, tls)
        self._server_id = ""
        # Guards the two below.
        self._lock = threading.Lock()
        self._scans: FlightConnection | None = None
        self._is_closed = False
        stay_with_process(self)

    @property
    def server_id(self) -> str:
        """The id that the server last sent; "" before its first response."""
        return self._server_id

    def call(self, request: Request, timeout: float = 30.0, look: Callable[[], None] | None = None) -> Any:
        """Returns the method's reply (of `request.reply`), or raises the server's error; `timeout` in seconds. While
        the call waits, `look` is called now and then; its error ends the wait."""
        if waiting_time.exporter is not None:
            from ....model import tracing  # few processes have an exporter

            with tracing.called(type(request).__name__, **{"server.address": self.address}):
                return self.unpacked(request, self.begin(request, timeout).answer(timeout, look))
        ends = time.monotonic() + timeout
        begun = self.begin(request, timeout)
        return self.unpacked(request, begun.answer(ends - time.monotonic(), look))

    def begin(self, request: Request, timeout: float) -> PendingCall:
        """Sends a request whose reply is needed later: `finish`."""
        body = self.packed(request, timeout)
        return (self._small if self.is_small(request, body) else self._large).get(timeout).begin(body)

    def finish(
        self,
        request: Request,
        begun: PendingCall,
        timeout: float,
        look: Callable[[], None] | None = None,
    ) -> Any:
        """As `call`, for a request that was begun: waits `timeout` seconds from now."""
        if waiting_time.exporter is not None:
            from ....model import tracing  # few processes have an exporter

            with tracing.child(f"{type(request).__name__}, its reply", **{"server.address": self.address}):
                return self.unpacked(request, begun.answer(timeout, look))
        return self.unpacked(request, begun.answer(timeout, look))

    def packed(self, request: Request, timeout: float) -> bytes:
        """Returns the body of a call."""
        if not isinstance(request, SetFaults):
            FAULTS.check(self.address, self._server_id)
        if timeout <= 0:
            raise errors.DeadlineExceeded(f"the deadline passed before the call of {self.address}")
        body = self._pack(request, timeout)
        if len(body) > MAX_BODY_BYTES:
            raise errors.ProtocolError(
                f"a message of {len(body)} bytes is too large: a server accepts up to {MAX_BODY_BYTES}"
            )
        return body

    def is_small(self, request: Request, body: bytes) -> bool:
        """True if a call goes by the connection of small calls."""
        return request.is_small and len(body) <= SMALL_BYTES

    def unpacked(self, request: Request, answered: bytes) -> Any:
        """Returns the reply in the body of an answer, or raises its error."""
        answer: ReplyEnvelope[Reply] = unpack(answered, reply_decoder(request.reply), "reply")
        self._server_id = answer.server
        if not isinstance(request, SetFaults):
            note_server(self._clock, answer.clock, self.address)
            FAULTS.check(answer.server)
        if answer.error is not None:
            error = error_of_server(answer.error, self._clock, self.address)
            self._check_login(error)
            raise error
        if answer.reply is None:
            raise errors.ProtocolError(f"{self.address} answered with neither a reply nor an error")
        return answer.reply

    def scan(self, ticket: ScanTablet, timeout: float = 30.0) -> ScanStream:
        """Begins to read a tablet. `timeout` in seconds is that of the whole stream."""
        FAULTS.check(self.address, self._server_id)
        if timeout <= 0:
            raise errors.DeadlineExceeded(f"the deadline passed before the scan at {self.address}")
        scans = self._scan_connection(timeout)
        client = scans.client()
        options = flight.FlightCallOptions(timeout=timeout)
        try:
            reader = client.do_get(flight.Ticket(self._pack(ticket, timeout)), options)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise scans.lost(client, error) from None
        scans.heard()
        return ScanStream(
            reader, self.address, self._clock, lambda error: scans.failed(client, error), self._check_login
        )

    def _check_login(self, error: errors.Error) -> None:
        """Has a token that a server refused be replaced; raises the reason if there will be no other."""
        if isinstance(error, errors.LoginExpired):
            self._tokens.note_refused()
            refusal = self._tokens.refusal
            if refusal is not None:
                raise type(refusal)(str(refusal)) from error  # a new one: several threads may raise it

    def _scan_connection(self, timeout: float) -> FlightConnection:
        """Returns the connection to the server's Flight port, which a restarted server may have changed."""
        port = self._small.welcome(timeout).flight_port
        if not port:
            raise errors.ProtocolError(f"the server at {self.address} has no tablets to scan")
        address = address_of(host_of(self.address), port)
        with self._lock:
            if self._is_closed:
                raise errors.ServerUnavailable(f"the channel to {self.address} has been closed")
            if self._scans is None or self._scans.address != address:
                if self._scans is not None:
                    self._scans.close()
                self._scans = FlightConnection(address, self.tls)
            return self._scans

    def close(self) -> None:
        """Closes the connections; running calls fail, scans end by themselves."""
        self._small.close()
        self._large.close()
        with self._lock:
            self._is_closed = True
            if self._scans is not None:
                self._scans.close()

    def _pack(self, method: Request | ScanTablet, timeout: float) -> bytes:
        if waiting_time.exporter is not None:
            from ....model import tracing  # few processes have an exporter

            if header := tracing.header():
                return pack(
                    TracedEnvelope(self._clock.now(), timeout, self._caller, method, self._tokens.token, header)
                )
        return pack(RequestEnvelope(self._clock.now(), timeout, self._caller, method, self._tokens.token))


class Channels:
    """The channels of a process, one per address. Thread-safe."""

    def __init__(self, clock: HybridClock, caller: Caller | None = None, tls: Credentials | None = None):
        self._clock = clock
        self._caller = caller
        self._tls = tls
        self.tokens: TokenSource = NO_TOKEN
        """Of the channels that are made from now on."""
        # Guards the two below.
        self._lock = threading.Lock()
        self._channels: dict[str, Channel] = {}
        self._closed = False

    def get(self, address: str) -> Channel:
        """Returns the channel to an address, without connecting yet."""
        known = self._channels.get(address)
        if known is not None:
            return known
        with self._lock:
            if self._closed:
                raise errors.ServerUnavailable("the channels have been closed")
            channel = self._channels.get(address)
            if channel is None:
                channel = self._channels[address] = Channel(address, self._clock, self._caller, self._tls, self.tokens)
            return channel

    def close(self) -> None:
        """Closes all channels."""
        with self._lock:
            self._closed = True
            channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel.close()
