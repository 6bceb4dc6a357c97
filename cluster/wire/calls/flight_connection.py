"""One gRPC connection to an address, for streams of batches; renewed after it broke."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
from pyarrow import flight

from .... import errors
from ....model.forks import stay_with_process
from ..messages.envelope import MAX_REPLY_BYTES
from ..messages.errors import flight_text, raised_by_flight
from ..security.tls import Credentials

_SILENT_SECONDS = 15.0
"""Seconds without any message after which a time-out makes the channel reconnect."""
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


class FlightConnection:
    """One gRPC connection to an address, renewed after it broke. Thread-safe."""

    def __init__(self, address: str, tls: Credentials | None = None):
        self.address = address
        self._tls = tls
        # Guards all below.
        self._lock = threading.Lock()
        self._client: flight.FlightClient | None = None
        self._heard = 0.0
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
            return self._client

    def _connected(self) -> flight.FlightClient:
        if self._tls is None:
            return flight.FlightClient(f"grpc+tcp://{self.address}", generic_options=_OPTIONS)
        return flight.FlightClient(f"grpc+tls://{self.address}", generic_options=_OPTIONS, **self._tls.of_client())

    def heard(self) -> None:
        """Records a response of the server."""
        self._heard = time.monotonic()

    def failed(self, client: flight.FlightClient, error: errors.Error) -> None:
        """Handles a failed call on this client: drops the client if the connection is at fault. Its running calls
        continue."""
        if isinstance(error, errors.ServerUnavailable):
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
        raised = raised_by_flight(error, self.address)
        self.failed(client, raised)
        return raised

    def close(self) -> None:
        """Returns no more clients."""
        with self._lock:
            self._closed = True
            self._client = None
