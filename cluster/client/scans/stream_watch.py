"""Looking after streams that a thread waits for.

A thread that waits for the next batch of a stream hears nothing else: neither that its statement was cancelled, nor
that the server stands still. One thread of the client looks for all of them: every 50 ms at the statement, and where a
stream has been silent for some seconds, whether its server answers at all. A scan whose reader takes its time is kept
alive at its server.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from ....errors import DeadlineExceeded, Error, ServerUnavailable
from ...wire.messages.methods import GetStatus, KeepAlive
from ...wire.rows.scan_streams import ScanStream
from ..client_context import Shared

LOOK_SECONDS = 0.05
SILENT_SECONDS = 3.0
"""After so long a server is asked whether it is there."""
ANSWER_SECONDS = 3.0
_SHARE = 0.25
"""Neither takes longer than this share of the client's deadline."""
KEEP_ALIVE_SECONDS = 15.0
"""After so long a server is told that a scan is still wanted; it would keep it for a minute."""


class Watched:
    """A stream that somebody waits for. `error`: why it was closed."""

    __slots__ = ("address", "asked", "error", "is_asking", "look", "stream")

    def __init__(self, stream: ScanStream, address: str, look: Callable[[], None]):
        self.stream = stream
        self.address = address
        self.look = look
        self.asked = time.monotonic()
        self.is_asking = False
        self.error: BaseException | None = None


class StreamWatch:
    """Closes streams whose reader is not to wait any longer. Safe for several threads."""

    def __init__(self, shared: Shared):
        self._shared = shared
        self._changed = threading.Condition()
        """Guards what follows."""
        self._waiting: set[Watched] = set()
        self._idle: dict[tuple[str, str], float] = {}
        """Scans that their readers do not ask for just now, by address and scanner: when they were heard of last."""
        self._thread: threading.Thread | None = None
        self._closed = False
        share = _SHARE * shared.options.deadline
        self._silent_seconds, self._answer_seconds = min(SILENT_SECONDS, share), min(ANSWER_SECONDS, share)

    @contextlib.contextmanager
    def waiting(self, stream: ScanStream, address: str, look: Callable[[], None]) -> Iterator[None]:
        """While the caller waits for a stream, `look` is called now and then; what it raises closes the stream, and
        comes out here in place of the stream's own error."""
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
        """While the caller does something else, the server keeps a scan that it has begun."""
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
        """Have the thread look. Needs the lock."""
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="nyala-client-watch", daemon=True)
            self._thread.start()
        self._changed.notify()

    def close(self) -> None:
        """End the thread."""
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
        """Wait until there is something to look after; False where that is over."""
        with self._changed:
            if not self._waiting and not self._closed:
                self._changed.wait(KEEP_ALIVE_SECONDS / 2 if self._idle else None)
            if self._closed:
                return False
        time.sleep(LOOK_SECONDS)
        return True

    def _keep_alive(self, address: str, scanner: str) -> None:
        with contextlib.suppress(Error):  # its reader will see
            self._shared.channels.get(address).call(KeepAlive(scanner=scanner), timeout=ANSWER_SECONDS)

    def _look_at(self, watched: Watched) -> None:
        try:
            self._shared.check_open()
            watched.look()
        except BaseException as error:  # whatever it is, it is the reader's
            watched.error = error
            watched.stream.close()
            return
        if not watched.is_asking and time.monotonic() - watched.asked > self._silent_seconds:
            watched.is_asking = True
            with contextlib.suppress(RuntimeError):  # the pool has been shut down
                self._shared.pool.submit(self._ask, watched)

    def _ask(self, watched: Watched) -> None:
        """Is the server there? One that is may take its time."""
        try:
            self._shared.channels.get(watched.address).call(GetStatus(), timeout=self._answer_seconds)
        except (ServerUnavailable, DeadlineExceeded) as error:
            watched.error = ServerUnavailable(f"{watched.address} does not answer any more: {error}")
            watched.stream.close()
        except Error:
            pass  # an answer, whatever it says
        watched.asked = time.monotonic()
        watched.is_asking = False
