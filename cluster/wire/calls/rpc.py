"""Calls to servers: a `Channel` to each address, kept and shared by all threads.

A channel connects when it is first used, and again after its connection broke. It never retries a call by itself, since
only its caller can decide whether that is correct. Every failure is raised as an error of `errors`:

    the server's own error        as it was raised there
    no connection                 ServerUnavailable; ConnectionRefused if no process listens there
    no reply in time              DeadlineExceeded
    no server of nyala there      ProtocolError
    no trust between the sides    AuthenticationFailed

Calls and scans of an address have a connection each: a scan's volume does not delay the calls. Small calls share one
exchange (`calls.call_streams`); if there is none, or no room on it, they are sent separately.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import flight

from .... import errors
from ....model.clock import HybridClock
from ....model.forks import stay_with_process
from ..faults import FAULTS
from ..messages.envelope import Caller, ReplyEnvelope, RequestEnvelope, note_server, pack, reply_decoder, unpack
from ..messages.errors import error_from_body, flight_text, raised_by_flight
from ..messages.methods import Reply, Request, ScanTablet, SetFaults
from ..rows.scan_streams import ScanStream
from ..security.tls import Credentials, why_refused
from .call_streams import CallStream, PendingCall, SeparateCall

METHOD_ACTION = "nyala.call"
"""The one Flight action; the body names the method."""

_SILENT_SECONDS = 15.0
"""Seconds without any message after which a time-out makes the channel reconnect."""
_NO_STREAM_SECONDS = 1.0
"""Seconds for which no exchange is opened after one failed to open, or broke."""
MAX_REPLY_BYTES = 256 << 20
"""Most bytes of a server's message: gRPC refuses a longer one before it has arrived."""
_OPTIONS: list[tuple[str, str | int]] = [
    # Each channel has its own connection, independent of others' failed attempts to connect.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
    # A batch of a scan has some MiB, or one row; a dictionary some more.
    ("grpc.max_receive_message_length", MAX_REPLY_BYTES),
]


class Connection:
    """One gRPC connection to an address, renewed after it broke. Thread-safe."""

    def __init__(self, address: str, tls: Credentials | None = None):
        self.address = address
        self._tls = tls
        # Guards all below.
        self._lock = threading.Lock()
        self._client: flight.FlightClient | None = None
        self._heard = 0.0
        self._has_heard = False
        self._closed = False
        stay_with_process(self)

    def client(self) -> flight.FlightClient:
        """Returns the client for the next call."""
        with self._lock:
            if self._closed:
                raise errors.ServerUnavailable(f"the channel to {self.address} has been closed")
            if self._client is None:
                try:
                    self._client = self._connected()
                except (pa.ArrowException, OSError, ValueError) as error:
                    raise errors.ServerUnavailable(
                        f"{self.address} is not an address of a server: {flight_text(error)}"
                    ) from None
                self._heard = time.monotonic()
                self._has_heard = False
            return self._client

    def _connected(self) -> flight.FlightClient:
        if self._tls is None:
            return flight.FlightClient(f"grpc+tcp://{self.address}", generic_options=_OPTIONS)
        return flight.FlightClient(f"grpc+tls://{self.address}", generic_options=_OPTIONS, **self._tls.of_client())

    def heard(self) -> None:
        """Records a response of the server."""
        self._heard = time.monotonic()
        self._has_heard = True

    def failed(self, client: flight.FlightClient, error: errors.Error) -> None:
        """Handles a failed call on this client: drops the client if the connection is at fault. Its running calls
        continue."""
        if isinstance(error, errors.ServerUnavailable | errors.AuthenticationFailed):
            is_lost = True
        else:
            is_lost = isinstance(error, errors.DeadlineExceeded) and time.monotonic() - self._heard > _SILENT_SECONDS
        if is_lost:
            with self._lock:
                if self._client is client:
                    self._client = None

    def lost(self, client: flight.FlightClient, error: pa.ArrowException | OSError | KeyError) -> errors.Error:
        """Like `failed`, for an exception of Flight; returns the error to raise for it.

        The caller must raise it without a variable for it. An error, its traceback and a frame that refers to the error
        keep each other alive. They would also keep that frame's client alive, which has a thread and tries to connect.
        """
        explained = self.explained(raised_by_flight(error, self.address))
        self.failed(client, explained)
        return explained

    def explained(self, error: errors.Error) -> errors.Error:
        """Returns the error, or `AuthenticationFailed` if the connection failed for lack of trust."""
        if self._has_heard or not isinstance(error, errors.ServerUnavailable):
            return error
        return why_refused(self.address, self._tls, str(error)) or error

    def renew(self) -> None:
        """Makes the next call reconnect."""
        with self._lock:
            self._client = None

    def close(self) -> None:
        """Returns no more clients."""
        with self._lock:
            self._closed = True
            self._client = None


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
    """

    def __init__(self, address: str, clock: HybridClock, caller: Caller | None = None, tls: Credentials | None = None):
        self.address = address
        self._clock = clock
        self._caller = Caller() if caller is None else caller
        self._calls = Connection(address, tls)
        self._scans = Connection(address, tls)
        self._server_id = ""
        # Guards the two below.
        self._lock = threading.Lock()
        self._stream: CallStream | None = None
        self._no_stream_until = 0.0
        stay_with_process(self)

    @property
    def server_id(self) -> str:
        """The id that the server last sent; "" before its first response."""
        return self._server_id

    def call(self, request: Request, timeout: float = 30.0, look: Callable[[], None] | None = None) -> Any:
        """Returns the method's reply (of `request.reply`), or raises the server's error; `timeout` in seconds. While a
        small call waits, `look` is called now and then; its error ends the wait."""
        body = self._body(request, timeout)
        begun = self._begun(body) if request.is_small else None
        return self._reply(
            request, self._call_separately(body, timeout) if begun is None else begun.answer(timeout, look)
        )

    def begin(self, request: Request, timeout: float) -> PendingCall | SeparateCall:
        """Sends a request whose reply is needed later: `finish`. If it is too large for the stream of small calls, for
        instance with a large runtime filter, a thread waits for the reply."""
        body = self._body(request, timeout)
        return self._begun(body) or SeparateCall(lambda: self._call_separately(body, timeout), self.address)

    def finish(
        self,
        request: Request,
        begun: PendingCall | SeparateCall,
        timeout: float,
        look: Callable[[], None] | None = None,
    ) -> Any:
        """As `call`, for a request that was begun: waits `timeout` seconds from now."""
        return self._reply(request, begun.answer(timeout, look))

    def _body(self, request: Request, timeout: float) -> bytes:
        if not isinstance(request, SetFaults):
            FAULTS.check(self.address, self._server_id)
        if timeout <= 0:
            raise errors.DeadlineExceeded(f"the deadline passed before the call of {self.address}")
        return self._pack(request, timeout)

    def _reply(self, request: Request, answered: Any) -> Any:
        answer: ReplyEnvelope[Reply] = unpack(answered, reply_decoder(request.reply), "reply")
        self._server_id = answer.server
        if not isinstance(request, SetFaults):
            note_server(self._clock, answer.clock, self.address)
            FAULTS.check(answer.server)
        if answer.error is not None:
            raise error_from_body(answer.error)
        if answer.reply is None:
            raise errors.ProtocolError(f"{self.address} answered with neither a reply nor an error")
        return answer.reply

    def _call_separately(self, body: bytes, timeout: float) -> Any:
        client = self._calls.client()
        options = flight.FlightCallOptions(timeout=timeout)
        try:
            results = list(client.do_action((METHOD_ACTION, body), options))
        except (pa.ArrowException, OSError, KeyError) as error:
            raise self._calls.lost(client, error) from None
        self._calls.heard()
        if len(results) != 1:
            raise errors.ProtocolError(f"{self.address} answered with {len(results)} replies instead of one")
        return results[0].body

    def _begun(self, body: bytes) -> PendingCall | None:
        """Sends the call on the stream of calls; None if it must be sent separately."""
        stream = self._stream
        if stream is None or stream.is_over:
            stream = self._new_stream()
        return None if stream is None else stream.begin(body)

    def _new_stream(self) -> CallStream | None:
        with self._lock:
            if self._stream is not None and not self._stream.is_over:
                return self._stream
            if time.monotonic() < self._no_stream_until:
                return None
            self._no_stream_until = time.monotonic() + _NO_STREAM_SECONDS
            client = self._calls.client()
            self._stream = CallStream(client, self.address, lambda error: self._calls.failed(client, error))
            return self._stream

    def scan(self, ticket: ScanTablet, timeout: float = 30.0) -> ScanStream:
        """Begins to read a tablet. `timeout` in seconds is that of the whole stream."""
        FAULTS.check(self.address, self._server_id)
        if timeout <= 0:
            raise errors.DeadlineExceeded(f"the deadline passed before the scan at {self.address}")
        client = self._scans.client()
        options = flight.FlightCallOptions(timeout=timeout)
        try:
            reader = client.do_get(flight.Ticket(self._pack(ticket, timeout)), options)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise self._scans.lost(client, error) from None
        self._scans.heard()
        return ScanStream(reader, self.address, self._clock, lambda error: self._scans.failed(client, error))

    def close(self) -> None:
        """Closes the connections; running small calls fail, others end by themselves."""
        with self._lock:
            stream, self._no_stream_until = self._stream, float("inf")
        if stream is not None:
            stream.close()
        self._calls.close()
        self._scans.close()

    def _pack(self, method: Request | ScanTablet, timeout: float) -> bytes:
        return pack(RequestEnvelope(self._clock.now(), timeout, self._caller, method))


class Channels:
    """The channels of a process, one per address. Thread-safe."""

    def __init__(self, clock: HybridClock, caller: Caller | None = None, tls: Credentials | None = None):
        self._clock = clock
        self._caller = caller
        self._tls = tls
        # Guards the two below.
        self._lock = threading.Lock()
        self._channels: dict[str, Channel] = {}
        self._closed = False

    def get(self, address: str) -> Channel:
        """Returns the channel to an address, without connecting yet."""
        with self._lock:
            if self._closed:
                raise errors.ServerUnavailable("the channels have been closed")
            channel = self._channels.get(address)
            if channel is None:
                channel = self._channels[address] = Channel(address, self._clock, self._caller, self._tls)
            return channel

    def close(self) -> None:
        """Closes all channels."""
        with self._lock:
            self._closed = True
            channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel.close()
