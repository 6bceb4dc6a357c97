"""Looking after streams that a thread waits for.

A thread that waits for the next batch of a stream hears nothing else: neither that its statement was cancelled, nor
that the server stands still. One thread of the client looks for all of them: every 50 ms at the statement, and where a
stream has been silent for some seconds, whether its server answers at all.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from ...errors import DeadlineExceeded, Error, ServerUnavailable
from ..wire.methods import GetStatus
from ..wire.scan_streams import ScanStream
from .shared import Shared

LOOK_SECONDS = 0.05
SILENT_SECONDS = 3.0
"""After so long a server is asked whether it is there."""
ANSWER_SECONDS = 3.0


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
        self._thread: threading.Thread | None = None
        self._closed = False

    @contextlib.contextmanager
    def waiting(self, stream: ScanStream, address: str, look: Callable[[], None]) -> Iterator[None]:
        """While the caller waits for a stream, `look` is called now and then; what it raises closes the stream, and
        comes out here in place of the stream's own error."""
        watched = Watched(stream, address, look)
        with self._changed:
            self._waiting.add(watched)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="nyala-client-watch", daemon=True)
                self._thread.start()
            if len(self._waiting) == 1:
                self._changed.notify()
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

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
            time.sleep(LOOK_SECONDS)
            with self._changed:
                waiting = list(self._waiting)
            for watched in waiting:
                self._look_at(watched)

    def _look_at(self, watched: Watched) -> None:
        try:
            self._shared.check_open()
            watched.look()
        except BaseException as error:  # whatever it is, it is the reader's
            watched.error = error
            watched.stream.close()
            return
        if not watched.is_asking and time.monotonic() - watched.asked > SILENT_SECONDS:
            watched.is_asking = True
            with contextlib.suppress(RuntimeError):  # the pool has been shut down
                self._shared.pool.submit(self._ask, watched)

    def _ask(self, watched: Watched) -> None:
        """Is the server there? One that is may take its time."""
        try:
            self._shared.channels.get(watched.address).call(GetStatus(), timeout=ANSWER_SECONDS)
        except (ServerUnavailable, DeadlineExceeded) as error:
            watched.error = ServerUnavailable(f"{watched.address} does not answer any more: {error}")
            watched.stream.close()
        except Error:
            pass  # an answer, whatever it says
        watched.asked = time.monotonic()
        watched.is_asking = False
