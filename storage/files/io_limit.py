"""A ceiling of bytes per second for the files that background work reads and writes: a token bucket.

    thread of background work                        everything else
    with limit.counted(is_urgent):                   (statements, logs, metadata)
      reads of pages ──► charged, never delayed        neither charged nor delayed
      writes of data files ──► charged, then wait ──┐
                                 ▲                  │  at most `STEP` seconds, then again:
                                 └── not urgent ────┘  the rate or the urgency may have changed

The bucket is refilled continuously and holds `BURST` seconds of the rate. Reads and writes take bytes from it, also
more than are in it; a thread waits until the bucket has covered its own bytes and those that were charged before, so
threads are served in order. Waits are at writes alone: a thread that reads a page may hold a lock that a statement
needs, one that writes a file of rows holds nothing but the tablet's `flush_lock`. Urgent work is charged, too, so that
the work after it pays: the sum stays below the ceiling.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from ...errors import InterfaceError
from ...model.metrics import Sample
from .filesystem import WritableFile

LEAST_RATE = 1 << 20
"""Bytes per second: below it, flushes would fall behind the slowest writers."""
BURST = 0.1
"""Seconds of the rate that an idle bucket holds, RocksDB's period of refills."""
STEP = 0.1
"""Seconds after which a waiting thread looks again."""


def _checked(rate: int | None) -> int | None:
    if rate is not None and rate < LEAST_RATE:
        raise InterfaceError(
            f"maintenance_io_limit={rate}: bytes per second, from {LEAST_RATE} (1MB); None is no limit"
        )
    return rate


class IoLimit:
    """The ceiling of one store, server or command. Safe for several threads.

    Parameters
    ----------
    rate : int, optional
        Bytes per second; None: no limit, bytes are only counted.
    clock : callable
        Seconds, never going back.
    wait : callable, optional
        Waits for a number of seconds, or less; by default until `stop` at the latest.

    Examples
    --------
    >>> limit = IoLimit(50 << 20)
    >>> with limit.counted():
    ...     note_read(1000)
    >>> limit.read_bytes
    1000
    """

    def __init__(
        self,
        rate: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ):
        self._rate = _checked(rate)
        self._clock = clock
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._lock = threading.Lock()
        self._charged = 0.0
        """Bytes charged since the start, and those of them that the bucket has covered; more by up to a burst."""
        self._covered = 0.0
        self._refilled = clock() - BURST  # a new bucket is full
        self.read_bytes = 0
        self.written_bytes = 0
        self.waited_seconds = 0.0
        self.waiting = 0
        """Threads that wait now."""

    @property
    def rate(self) -> int | None:
        """Bytes per second; None: no limit. May be set at any time: waiting threads follow within `STEP` seconds."""
        return self._rate

    @rate.setter
    def rate(self, value: int | None) -> None:
        with self._lock:
            self._refill()
            self._rate = _checked(value)

    def stop(self) -> None:
        """End all waits, for good: the store is being closed."""
        self._stopped.set()

    @contextlib.contextmanager
    def counted(self, is_urgent: Callable[[], bool] = lambda: False, longest: float = float("inf")) -> Iterator[None]:
        """Charge the data files that the calling thread reads and writes meanwhile.

        Parameters
        ----------
        is_urgent : callable
            True: do not wait now. Called before each wait, without locks of this module.
        longest : float
            Limit of one wait, in seconds.
        """
        before = getattr(_here, "account", None)
        _here.account = _Account(self, is_urgent, longest)
        try:
            yield
        finally:
            _here.account = before

    def samples(self) -> Iterator[Sample]:
        """For `metrics.collect`."""
        yield Sample("nyala_maintenance_io_bytes_total", self.read_bytes, ("read",))
        yield Sample("nyala_maintenance_io_bytes_total", self.written_bytes, ("written",))
        yield Sample("nyala_maintenance_io_limit_bytes", self._rate or 0)
        yield Sample("nyala_maintenance_io_wait_seconds_total", self.waited_seconds)

    # ---- the bucket ----------------------------------------------------------------------------------------------

    def charge(self, read: int = 0, written: int = 0) -> float:
        """Take bytes from the bucket; returns the level of charged bytes up to which `pay` waits."""
        with self._lock:
            self._refill()
            self.read_bytes += read
            self.written_bytes += written
            self._charged += read + written
            return self._charged

    def pay(self, level: float, is_urgent: Callable[[], bool] = lambda: False, longest: float = float("inf")) -> None:
        """Wait until the bucket has covered all bytes up to a level, as `counted` has it."""
        if self._missing(level) <= 0.0:
            return
        began = self._clock()
        with self._lock:
            self.waiting += 1
        try:
            while (seconds := min(self._missing(level), began + longest - self._clock())) > 0.0:
                if self._stopped.is_set() or is_urgent():
                    return
                self._wait(min(seconds, STEP))
        finally:
            with self._lock:
                self.waiting -= 1
                self.waited_seconds += self._clock() - began

    def _missing(self, level: float) -> float:
        """Seconds until the bucket has covered the level, at the present rate."""
        with self._lock:
            self._refill()
            missing = level - self._covered
            # Parts of a byte are errors of rounding.
            return 0.0 if self._rate is None or missing < 1.0 else missing / self._rate

    def _refill(self) -> None:
        """Needs the lock."""
        now = self._clock()
        if self._rate is None:
            self._covered = self._charged
        else:
            filled = self._covered + (now - self._refilled) * self._rate
            self._covered = min(filled, self._charged + BURST * self._rate)
        self._refilled = now


class _Account:
    """The limit to which a thread's data files are charged, and the conditions of its waits."""

    __slots__ = ("_is_urgent", "_limit", "_longest")

    def __init__(self, limit: IoLimit, is_urgent: Callable[[], bool], longest: float):
        self._limit, self._is_urgent, self._longest = limit, is_urgent, longest

    def read(self, size: int) -> None:
        self._limit.charge(read=size)

    def spend(self, read: int = 0, written: int = 0) -> None:
        self._limit.pay(self._limit.charge(read, written), self._is_urgent, self._longest)


class _CountedFile:
    """A `WritableFile` whose writes are charged, and delayed."""

    def __init__(self, file: WritableFile, account: _Account):
        self._file = file
        self._account = account
        self.sync = file.sync
        self.close = file.close

    @property
    def size(self) -> int:
        return self._file.size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._file.write(data)
        self._account.spend(written=memoryview(data).nbytes)


_here = threading.local()
"""`account` of the threads in `IoLimit.counted`."""


def note_read(size: int) -> None:
    """Charge bytes that the calling thread has read from a data file, if it does background work."""
    account = getattr(_here, "account", None)
    if account is not None:
        account.read(size)


def spend(read: int = 0, written: int = 0) -> None:
    """Charge bytes that the calling thread has read and written, if it does background work, and wait for them. For
    threads that hold no lock which a statement needs."""
    account = getattr(_here, "account", None)
    if account is not None:
        account.spend(read, written)


def counted_file(file: WritableFile) -> WritableFile:
    """A new data file; its writes are charged if the calling thread does background work."""
    account = getattr(_here, "account", None)
    return file if account is None else _CountedFile(file, account)
