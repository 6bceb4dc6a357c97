"""Monitoring of streams that a thread waits for.

A thread that waits for the next batch of a stream notices nothing else: neither that its statement was cancelled, nor
that the server hangs. One thread of the client checks all of them. It checks the statement every 50 ms and, if a stream
has been silent for some seconds, whether its server responds at all. A scan whose reader is slow is kept alive at its
server.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from ....errors import DeadlineExceeded, Error, ServerUnavailable
from ...wire.messages.methods import GetStatus, KeepAlive
from ...wire.rows.scan_streams import ScanStream
from ..client_context import ClientContext

LOOK_SECONDS = 0.05
SILENT_SECONDS = 3.0
"""Seconds of silence after which a server is called to check it."""
ANSWER_SECONDS = 3.0
_SHARE = 0.25
"""Neither takes longer than this share of the client's deadline."""
KEEP_ALIVE_SECONDS = 15.0
"""Seconds after which a server gets a keep-alive for a scan; it would keep it for a minute."""


class Watched:
    """A stream with a waiting reader. `error`: the reason for which it was closed."""

    __slots__ = ("address", "asked", "error", "is_asking", "look", "stream")

    def __init__(self, stream: ScanStream, address: str, look: Callable[[], None]):
        self.stream = stream
        self.address = address
        self.look = look
        self.asked = time.monotonic()
        self.is_asking = False
        self.error: BaseException | None = None


class StreamWatch:
    """Closes streams whose reader must not wait any longer. Thread-safe."""

    def __init__(self, shared: ClientContext):
        self._shared = shared
        self._changed = threading.Condition()
        """Guards the following attributes."""
        self._waiting: set[Watched] = set()
        self._idle: dict[tuple[str, str], float] = {}
        """Scans whose readers are busy, by address and scanner: when they last had contact."""
        self._thread: threading.Thread | None = None
        self._closed = False
        share = _SHARE * shared.options.deadline
        self._silent_seconds, self._answer_seconds = min(SILENT_SECONDS, share), min(ANSWER_SECONDS, share)

    @contextlib.contextmanager
    def waiting(self, stream: ScanStream, address: str, look: Callable[[], None]) -> Iterator[None]:
        """While the caller waits for a stream, calls `look` now and then. Its error closes the stream, and is raised
        here in place of the stream's own error."""
        watched = Watched(stream, address, look)
        with self._changed:
            self._waiting.add(watched)
            if len(self._waiting) == 1:
                self._wake()
        try:
            yield
        except BaseException:
            if watched.error is not None:
                raise watched.error from None
            raise
        finally:
            with self._changed:
                self._waiting.discard(watched)
        if watched.error is not None:
            raise watched.error

    @contextlib.contextmanager
    def idle(self, address: str, scanner: str) -> Iterator[None]:
        """Keeps a begun scan alive at its server while the caller does something else."""
        with self._changed:
            self._idle[address, scanner] = time.monotonic()
            if len(self._idle) == 1:
                self._wake()
        try:
            yield
        finally:
            with self._changed:
                self._idle.pop((address, scanner), None)

    def _wake(self) -> None:
        """Wakes the thread. Needs the lock."""
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="nyala-client-watch", daemon=True)
            self._thread.start()
        self._changed.notify()

    def close(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._rest():
            with self._changed:
                waiting = list(self._waiting)
                now = time.monotonic()
                due = [scan for scan, heard in self._idle.items() if now - heard > KEEP_ALIVE_SECONDS]
                self._idle.update(dict.fromkeys(due, now))
            for watched in waiting:
                self._look_at(watched)
            for address, scanner in due:
                with contextlib.suppress(RuntimeError):  # the pool has been shut down
                    self._shared.pool.submit(self._keep_alive, address, scanner)

    def _rest(self) -> bool:
        """Waits for work; False when there is none any more."""
        with self._changed:
            if not self._waiting and not self._closed:
                self._changed.wait(KEEP_ALIVE_SECONDS / 2 if self._idle else None)
            if self._closed:
                return False
        time.sleep(LOOK_SECONDS)
        return True

    def _keep_alive(self, address: str, scanner: str) -> None:
        with contextlib.suppress(Error):  # its reader will get the error
            self._shared.channels.get(address).call(KeepAlive(scanner=scanner), timeout=ANSWER_SECONDS)

    def _look_at(self, watched: Watched) -> None:
        try:
            self._shared.check_open()
            watched.look()
        except BaseException as error:  # whatever it is, the reader gets it
            watched.error = error
            watched.stream.close()
            return
        if not watched.is_asking and time.monotonic() - watched.asked > self._silent_seconds:
            watched.is_asking = True
            with contextlib.suppress(RuntimeError):  # the pool has been shut down
                self._shared.pool.submit(self._ask, watched)

    def _ask(self, watched: Watched) -> None:
        """Checks that the server is there. One that is may be slow."""
        try:
            self._shared.channels.get(watched.address).call(GetStatus(), timeout=self._answer_seconds)
        except (ServerUnavailable, DeadlineExceeded) as error:
            watched.error = ServerUnavailable(f"{watched.address} does not respond any more: {error}")
            watched.stream.close()
        except Error:
            pass  # any response will do
        watched.asked = time.monotonic()
        watched.is_asking = False
