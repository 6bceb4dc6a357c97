"""Read-ahead of scans, on a few threads that all scans share.

                        ┌─ idle ◄──────────────┐  no room, or the time slice is over
    sources ──► idle ───┤                      │
                        └─► at work ── batch ──┴──► ready (a few batches) ──► the stream's own thread
                            (a scan thread, or the stream's own if nothing is ready)

A source is a generator: it can be suspended after any batch, and resumed by another thread. So a slow reader holds no
thread, only the batches that are ready. A stream for which no scan thread is free reads its sources itself, so it never
waits for other scans. A small scan is read by the stream's own thread alone, which is fastest. With one source, batches
keep its order.

    | state | event | next state |
    |---|---|---|
    | READING | the stream pauses, or has no reader any more | PAUSED |
    | READING | a source raises an error | FAILED |
    | READING | the scan ends or is closed | STOPPED |
    | PAUSED | a batch is requested | READING |
    | PAUSED | a source raises an error | FAILED |
    | PAUSED | the scan ends or is closed | STOPPED |
    | FAILED | the scan ends or is closed | STOPPED |

Only a READING scan is read ahead.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from enum import Enum

from ....errors import Cancelled, Error
from ....model.state_table import StateTable
from ....model.vectors.sizes import batch_bytes
from ....model.vectors.vector import Batch

AHEAD_BATCHES = 4
"""Most batches that are ready,"""
AHEAD_BYTES = 16 << 20
"""or bytes of them, not counting the batch that exceeds the limit."""
TURN_SECONDS = 0.05
"""Seconds for which a scan thread works for one scan while others wait."""
_LOOK_SECONDS = 0.25
"""Seconds between two checks by a waiting stream that its reader still exists."""


class NotYet(Exception):
    """No batch was ready in the available time; nothing is lost."""


class Budget:
    """Bytes of batches of all scans, against a limit. Concurrent additions are not lost."""

    def __init__(self, limit: int):
        self.limit = limit
        self._lock = threading.Lock()
        self._used = 0

    @property
    def used(self) -> int:
        """Bytes that are held now."""
        return self._used

    @property
    def is_spent(self) -> bool:
        """True if nothing more should be read ahead, or kept longer than it must."""
        return self._used > self.limit

    def add(self, size: int) -> None:
        """Adds to the held bytes, or subtracts from them."""
        with self._lock:
            self._used += size


class ProductionState(Enum):
    """State of the sources of a scan; the table is on the module's page."""

    READING = "reading"
    PAUSED = "paused"
    FAILED = "failed"
    STOPPED = "stopped"


_S = ProductionState
STATES = StateTable(
    _S.READING,
    {
        (_S.READING, "the stream pauses, or has no reader any more"): _S.PAUSED,
        (_S.READING, "a source raises an error"): _S.FAILED,
        (_S.READING, "the scan ends or is closed"): _S.STOPPED,
        (_S.PAUSED, "a batch is requested"): _S.READING,
        (_S.PAUSED, "a source raises an error"): _S.FAILED,
        (_S.PAUSED, "the scan ends or is closed"): _S.STOPPED,
        (_S.FAILED, "the scan ends or is closed"): _S.STOPPED,
    },
)


class Production:
    """One scan being read. `next` is called by one thread at a time, `stop` by any.

    Invariant: a source is in `_idle`, or held by one thread, or has ended.

    Parameters
    ----------
    budget : Budget
        Counts the batches that are ready.
    """

    def __init__(self, budget: Budget):
        self._threads: Executor | None = None
        self.budget = budget
        self._changed = threading.Condition()
        """Guards everything below."""
        self._idle: deque[Iterator[Batch]] = deque()
        self._working = 0
        self._called = 0
        """Scan threads that were requested and have not started yet."""
        self._ready: deque[tuple[Batch, int]] = deque()
        self._ready_bytes = 0
        self._error: BaseException | None = None
        self._state = STATES.first

    def _to(self, state: ProductionState) -> None:
        """Needs `_changed`."""
        self._state = STATES.checked(self._state, state)

    def begin(self, sources: Iterable[Iterator[Batch]], threads: Executor | None) -> None:
        """Begins: `sources` yield batches whose columns are read; `threads` read ahead, None: only `next` reads."""
        self._threads = threads
        self._idle.extend(sources)

    # ---- the stream's side ---------------------------------------------------------------------------------------

    def next(self, is_cancelled: Callable[[], bool], until: float | None = None) -> tuple[Batch, int] | None:
        """Returns the next batch and its bytes; None at the end. Raises the errors of sources; `Cancelled`, with
        nothing lost, if the stream has no reader any more.

        With `until` (monotonic), a scan that has scan threads is left to them, and `NotYet` reports that they have
        produced nothing by then, or must not read ahead.
        """
        source = None
        with self._changed:
            if self._state is ProductionState.PAUSED:
                self._to(ProductionState.READING)
            while not self._ready:
                if self._error is not None:
                    raise self._error
                if self._state is ProductionState.STOPPED:
                    raise Cancelled("the scan was closed")
                if self._idle and (until is None or self._threads is None):
                    source = self._take()
                    break
                if not self._idle and not self._working:
                    return None
                self._wait(until)
                if is_cancelled():
                    self._pause()
                    raise Cancelled("the scan has no reader any more")
            self._call_threads()
            if source is None:
                batch, size = self._ready.popleft()
                self._ready_bytes -= size
                self.budget.add(-size)
                return batch, size
        produced = self._advance(source)
        if produced is not None:
            self._put_down(source)
            return produced
        return self.next(is_cancelled, until)

    def _wait(self, until: float | None) -> None:
        """Waits a little for a batch. Needs `_changed`."""
        seconds = _LOOK_SECONDS
        if until is not None:
            self._call_threads()
            seconds = min(seconds, until - time.monotonic())
            if seconds <= 0 or not (self._working or self._called):
                raise NotYet
        self._changed.wait(seconds)

    def pause(self) -> None:
        """Suspends the sources after their next batches: the scan has no reader for now."""
        with self._changed:
            self._pause()

    def _pause(self) -> None:
        """Needs `_changed`."""
        if self._state is ProductionState.READING:
            self._to(ProductionState.PAUSED)

    def stop(self) -> None:
        """Ends the scan: sources are closed, at once or by the threads that hold them."""
        with self._changed:
            if self._state is not ProductionState.STOPPED:
                self._to(ProductionState.STOPPED)
            idle, self._idle = list(self._idle), deque()
            self.budget.add(-self._ready_bytes)
            self._ready.clear()
            self._ready_bytes = 0
            self._changed.notify_all()
        for source in idle:
            _close(source)

    def wait_stopped(self, timeout: float) -> bool:
        """After `stop`, waits until no thread holds a source; False after a timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._working, timeout)

    def watch(self, _rows: int) -> None:
        """For the sources' counters: ends a source in the middle of its work if the scan was stopped."""
        if self._state is ProductionState.STOPPED:
            raise Cancelled("the scan was closed")

    # ---- sources -------------------------------------------------------------------------------------------------

    def _take(self) -> Iterator[Batch]:
        """Returns an idle source for the calling thread. Needs `_changed`."""
        self._working += 1
        return self._idle.popleft()

    def _put_down(self, source: Iterator[Batch]) -> None:
        """Suspends a source; a scan thread resumes it when there is room."""
        with self._changed:
            self._working -= 1
            is_stopped = self._state is ProductionState.STOPPED
            if not is_stopped:
                self._idle.append(source)
                self._call_threads()
            self._changed.notify_all()
        if is_stopped:
            _close(source)

    def _advance(self, source: Iterator[Batch]) -> tuple[Batch, int] | None:
        """Returns the source's next batch; None if it has ended, also by an error, which `next` will raise."""
        error: BaseException | None = None
        try:
            batch = next(source, None)
            if batch is not None:
                return batch, batch_bytes(batch)
        # Whatever the error, the scan's reader gets it.
        except Exception as raised:
            error = raised
            if isinstance(error, Error):
                # Its frames refer to the objects that were read, and to this one: files would long count as in use.
                error.__traceback__ = None
        with self._changed:
            self._working -= 1
            self._error = self._error or error
            if error is not None and self._state in (ProductionState.READING, ProductionState.PAUSED):
                self._to(ProductionState.FAILED)
            self._changed.notify_all()
        return None

    # ---- the scan threads' side ----------------------------------------------------------------------------------

    def _call_threads(self) -> None:
        """Requests as many scan threads as are useful. Needs `_changed`."""
        while self._threads is not None and self._called < len(self._idle) and self._has_room():
            self._called += 1
            try:
                self._threads.submit(self._work)
            except RuntimeError:  # the server is stopping; until then, the stream's own thread reads
                self._threads = None

    def _has_room(self) -> bool:
        """True if more may be read ahead. Needs `_changed`."""
        if self._state is not ProductionState.READING:
            return False
        is_full = len(self._ready) >= AHEAD_BATCHES or self._ready_bytes >= AHEAD_BYTES
        return not is_full and not self.budget.is_spent

    def _work(self) -> None:
        """Runs on a scan thread: reads a source's batches while there is room."""
        with self._changed:
            self._called -= 1
            if not self._idle or not self._has_room():
                return
            source = self._take()
        ends = time.monotonic() + TURN_SECONDS
        while (produced := self._advance(source)) is not None:
            with self._changed:
                if self._state is not ProductionState.STOPPED:
                    self._ready.append(produced)
                    self._ready_bytes += produced[1]
                    self.budget.add(produced[1])
                    self._changed.notify_all()
                goes_on = self._has_room() and time.monotonic() < ends
            if not goes_on:
                self._put_down(source)
                return


def _close(source: Iterator[Batch]) -> None:
    """Closes a generator; other iterators (an evaluator may return any) end when they are garbage-collected."""
    close = getattr(source, "close", None)
    if close is not None:
        close()
