"""The common parts of one client: clock, channels, threads, and its open state."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from ...errors import StoreClosed
from ...model.clock import LOGICAL_BITS, HybridClock, wall_microseconds
from ...model.forks import stay_with_process
from ...model.store import Timestamp
from ...model.waiting_time import WaitingTime, current_waiting
from ..wire.calls.rpc import TokenSource
from ..wire.messages.methods import Request, ScanTablet
from ..wire.rows.scan_streams import ScanStream
from .options import ClientOptions
from .retry import FIRST_ATTEMPT, Attempts
from .writes.call_ids import CallIds

THREADS = 8
"""Most concurrent requests of one client's batches; more would wait at the servers."""
FAREWELL_THREADS = 2


class ChannelLike(Protocol):
    """`wire.calls.rpc.Channel`, as far as a client needs it."""

    def call(self, request: Request, timeout: float = 30.0, look: Callable[[], None] | None = None) -> object: ...

    def begin(self, request: Request, timeout: float) -> Any: ...

    def finish(
        self, request: Request, begun: Any, timeout: float, look: Callable[[], None] | None = None
    ) -> object: ...

    def scan(self, ticket: ScanTablet, timeout: float = 30.0) -> ScanStream: ...


class ChannelsLike(Protocol):
    """`wire.calls.rpc.Channels`, as far as a client needs it."""

    tokens: TokenSource

    def get(self, address: str) -> ChannelLike: ...

    def close(self) -> None: ...


class ClientContext:
    """The common parts of one client. Thread-safe.

    Parameters
    ----------
    name : str
        The cluster's URL, for errors.
    clock : HybridClock
        Has followed the clock of every reply; a later `now` is above all of them.
    channels : Channels
    options : ClientOptions
    """

    def __init__(self, name: str, clock: HybridClock, channels: ChannelsLike, options: ClientOptions):
        self.name = name
        self.clock = clock
        self.channels = channels
        self.options = options
        self.numbers = CallIds()
        self.pool = ThreadPoolExecutor(THREADS, "nyala-client")
        """Its tasks never wait for other tasks of it."""
        self.farewells = ThreadPoolExecutor(FAREWELL_THREADS, "nyala-client-farewell")
        """Notifies servers of data that they need not keep. An unresponsive server blocks no task of `pool`."""
        self.closing: list[Callable[[], None]] = []
        """Called by `close`."""
        self.latest_write = 0
        """Timestamp of the latest acknowledged write."""
        self._closed = False
        stay_with_process(self)

    def check_open(self) -> None:
        """Raises `StoreClosed` after `close`."""
        if self._closed:
            raise StoreClosed(f"the client of {self.name} is closed; connect again")

    def attempts(
        self,
        what: str,
        seconds: float | None = None,
        first_attempt: float | None = FIRST_ATTEMPT,
        patience: float | None = None,
        waiting: WaitingTime | None = None,
    ) -> Attempts:
        """Returns the attempts at a request of a statement, by default this thread's; they end when the client is
        closed, too. Requests that may take longer than a statement may wait (`seconds`) are bounded by that alone."""
        deadline = self.options.deadline
        seconds = deadline if seconds is None else seconds
        if waiting is None:
            waiting = current_waiting()
        limit = max(seconds, deadline)
        return Attempts(what, seconds, first_attempt, self.check_open, patience, waiting, limit)

    def written(self, timestamp: int) -> None:
        """Records the timestamp of an acknowledged write: every later read is above it. Waits with `commit_wait`."""
        while (seconds := self.note_written(timestamp)) > 0:
            time.sleep(seconds)

    def note_written(self, timestamp: int) -> float:
        """As `written`, but returns the seconds to wait before it must be called again; 0: no wait."""
        self.clock.update(Timestamp(timestamp))
        if timestamp > self.latest_write:
            self.latest_write = timestamp  # of two at the same moment, both are some seconds above any stale read
        if not self.options.commit_wait:
            return 0.0
        return max(0.0, ((timestamp >> LOGICAL_BITS) + 1 - wall_microseconds()) / 1e6)

    def close(self) -> None:
        """Accepts no more requests; running ones end at their next attempt."""
        if self._closed:
            return
        self._closed = True
        for close in self.closing:
            close()
        self.channels.close()
        for pool in (self.pool, self.farewells):
            pool.shutdown(wait=True, cancel_futures=True)
