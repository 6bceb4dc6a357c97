"""The framed connections to one server, opened when they are needed and again after they broke.

A connection that has been unused for a moment is checked first: a server that was restarted in between has closed it,
and the call would fail for no reason.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from .... import errors
from ....model.forks import stay_with_process
from ....net.client_connection import ClientConnection
from ....net.dialing import Dialed, NotTls, dial
from ..messages.envelope import MAX_REPLY_BYTES, Welcome, unpack, welcome_decoder
from ..security.tls import Credentials, accepts_only_tls

IDLE_SECONDS: Final = 0.005
"""Seconds after which an unused connection is checked, which takes a microsecond."""
DIAL_SECONDS: Final = 10.0
"""Most seconds for one attempt to connect."""


def dialed(address: str, tls: Credentials | None, timeout: float) -> Dialed:
    """Connects to a server, blocking. Raises the error of the attempt, `DeadlineExceeded` after `timeout` seconds."""
    secure = None if tls is None else tls.for_calls(address)
    try:
        return dial(address, b"", MAX_REPLY_BYTES, max(0.001, min(timeout, DIAL_SECONDS)), secure)
    except NotTls:
        raise accepts_only_tls(address) from None


class ServerConnection:
    """At most one connection at a time. Thread-safe."""

    def __init__(self, address: str, tls: Credentials | None = None):
        self.address = address
        self._tls = tls
        # Guards all below, and held by the thread that connects.
        self._lock = threading.Lock()
        self._connection: ClientConnection | None = None
        self._welcome = Welcome()
        self._failure: tuple[float, errors.Error] | None = None
        """When the last attempt to connect began, and its error."""
        self._is_closed = False
        stay_with_process(self)

    def get(self, timeout: float) -> ClientConnection:
        """Returns an open connection. Raises the error of the attempt to connect, `DeadlineExceeded` after `timeout`
        seconds."""
        connection = self._connection
        if connection is not None and not connection.is_over:
            if time.monotonic() - connection.used < IDLE_SECONDS or not connection.has_ended():
                return connection
        return self._connected(timeout)

    def welcome(self, timeout: float) -> Welcome:
        """Returns how the server has introduced itself, after checking that it is still there."""
        connection = self._connection
        if connection is None or connection.is_over or connection.has_ended():
            self._connected(timeout)
        return self._welcome

    def _connected(self, timeout: float) -> ClientConnection:
        began = time.monotonic()
        if not self._lock.acquire(timeout=timeout):
            raise errors.DeadlineExceeded(f"{self.address} has not answered in time")
        try:
            if self._is_closed:
                raise errors.ServerUnavailable(f"the channel to {self.address} has been closed")
            connection = self._connection
            if connection is not None and not connection.is_over:
                return connection
            if self._failure is not None and self._failure[0] >= began:
                # It failed while this thread waited for it: the next attempt would fail, too.
                error = self._failure[1]
                raise type(error)(*error.args)
            return self._dialed(began, timeout - (time.monotonic() - began))
        finally:
            self._lock.release()

    def _dialed(self, began: float, timeout: float) -> ClientConnection:
        """Needs the lock."""
        self._connection = None
        try:
            made = dialed(self.address, self._tls, timeout)
        except errors.Error as error:
            self._failure = time.monotonic(), error.with_traceback(None)
            raise
        connection = ClientConnection(made, self.address)
        try:
            self._welcome = unpack(made.welcome, welcome_decoder, "greeting")
        except errors.Error:
            connection.close()
            raise
        self._failure, self._connection = None, connection
        return connection

    def close(self) -> None:
        """Closes the connection: waiting calls fail. None is opened any more."""
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            connection.close()
