"""Scans of clients: begun, resumed by a stream after another one broke, dropped when idle.

    batch    0   1   2   3   4   5   6   7   8
             └─ gone ─┘  └── kept ──┘  └ ready ┘        kept: sent, perhaps not received
                         ▲                              a stream that begins at batch 2 repeats 2, 3 and 4
                         first                          and continues; one at batch 1 is too late

A server does not know which batches a stream's reader has received. So the last batches sent are kept, as far as
memory allows, until the scan is dropped: `FINISHED_SECONDS` after its end; before its end, `scanner_ttl` after its last
batch. The client names the batch to resume with; earlier ones are dropped.

A scan has one stream at a time: a new one replaces the one before, which its client has abandoned.

The first batches may be sent as the reply to a call (`Scanners.start`), as if a stream had broken after them. A scan
that ends with it is dropped at once: its client returns none of its rows without its end.

    | state | event | next state |
    |---|---|---|
    | WAITING | a stream begins | READ |
    | READ | another stream takes over | READ |
    | READ | its stream ends | WAITING |
    | READ | the last batch has been made | FINISHED |
    | WAITING | the last batch has been made, for a stream that has ended | FINISHED |
    | WAITING | it is dropped | CLOSED |
    | READ | it is dropped | CLOSED |
    | FINISHED | it is dropped | CLOSED |

Streams of a FINISHED scan repeat the kept batches; those of a CLOSED one end with an error.

Calls and streams may arrive out of order, so a scan may be closed before it is begun. It is not begun then: the ids
closed last are kept, and an id is never used twice.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum

from ....errors import Cancelled, ProtocolError, ScannerExpired, ServerOverloaded
from ....model.state_table import StateTable
from ....model.store import ScanCounters
from ....model.vectors.vector import Batch
from ...wire.messages.methods import ScanEnd
from ...wire.rows.small_batches import sent_bytes
from .scan_production import Budget, NotYet, Production

KEPT_BATCHES = 16
"""Maximum number of kept batches per scan."""
KEPT_BYTES = 32 << 20
"""Maximum size of the kept batches per scan, without the last one."""
FINISHED_SECONDS = 10.0
"""Seconds for which a finished scan is kept, in case its end was lost on the way."""
FINISHED_SCANS = 256
"""Maximum number of finished scans kept."""
MOST_SCANS = 1000
"""Maximum number of open scans; further ones are refused."""
CLOSED_SCANS = 4096
"""Number of closed scans whose ids are kept: enough for the time that a message may take."""


class ScannerState(Enum):
    """State of a scan at its server; the table is on the module's page."""

    WAITING = "waiting"
    READ = "read"
    FINISHED = "finished"
    CLOSED = "closed"


_S = ScannerState
STATES = StateTable(
    _S.WAITING,
    {
        (_S.WAITING, "a stream begins"): _S.READ,
        (_S.READ, "another stream takes over"): _S.READ,
        (_S.READ, "its stream ends"): _S.WAITING,
        (_S.READ, "the last batch has been made"): _S.FINISHED,
        (_S.WAITING, "the last batch has been made, for a stream that has ended"): _S.FINISHED,
        (_S.WAITING, "it is dropped"): _S.CLOSED,
        (_S.READ, "it is dropped"): _S.CLOSED,
        (_S.FINISHED, "it is dropped"): _S.CLOSED,
    },
)


class Scanner:
    """One scan. Streams of it may be in several threads, one of them attached.

    Locks: `_turn` while the next batch is produced (it may take long), `_mutex` briefly, within it or alone.
    """

    def __init__(
        self, id: str, tablet_id: str, production: Production, counters: tuple[ScanCounters, ...], leader: str = ""
    ):
        self.id = id
        self.tablet_id = tablet_id
        self.production = production
        self._counters = counters
        self._leader = leader
        self._turn = threading.Lock()
        self._mutex = threading.Lock()
        """Guards everything below."""
        self._kept: deque[tuple[Batch, int]] = deque()
        self._kept_bytes = 0
        self._first = 0
        """The number of the first batch that is kept."""
        self._stream = 0
        """Number of the newest stream, which is the attached one."""
        self._state = STATES.first
        self._used = time.monotonic()
        self._end: ScanEnd | None = None
        """Of a FINISHED scan."""

    def _to(self, state: ScannerState) -> None:
        """Needs `_mutex`."""
        self._state = STATES.checked(self._state, state)

    # ---- streams -------------------------------------------------------------------------------------------------

    def attach(self, number: int, is_cancelled: Callable[[], bool]) -> Iterator[Batch | ScanEnd]:
        """Returns a stream from batch `number` on. Raises `ScannerExpired` if that batch is no longer kept."""
        return self._batches(self._attached_stream(number), number, is_cancelled)

    def first(
        self, most_bytes: int, until: float, is_cancelled: Callable[[], bool]
    ) -> tuple[list[Batch], ScanEnd | None]:
        """Returns the first batches, of at most `most_bytes` together and produced by `until` (monotonic); and the end,
        if it follows them. Raises `ScannerExpired` if a stream takes over meanwhile."""
        stream = self._attached_stream(0)
        batches: list[Batch] = []
        try:
            # A batch that was produced and does not fit is among the kept ones.
            while len(batches) < KEPT_BATCHES and (not batches or time.monotonic() < until):
                item = self._item(stream, len(batches), is_cancelled, until)
                if isinstance(item, ScanEnd):
                    return batches, item
                most_bytes -= sent_bytes(item)
                if most_bytes < 0:
                    break
                batches.append(item)
        except NotYet:
            pass
        finally:
            self._detach(stream)
        return batches, None

    def _attached_stream(self, number: int) -> int:
        with self._mutex:
            self._check(number)
            self._forget_to(number)
            self._stream += 1
            if self._state in (ScannerState.WAITING, ScannerState.READ):
                self._to(ScannerState.READ)
            self._used = time.monotonic()
            return self._stream

    def _batches(self, stream: int, number: int, is_cancelled: Callable[[], bool]) -> Iterator[Batch | ScanEnd]:
        try:
            while True:
                item = self._item(stream, number, is_cancelled)
                yield item
                if isinstance(item, ScanEnd):
                    return
                number += 1
        finally:
            self._detach(stream)

    def _item(
        self, stream: int, number: int, is_cancelled: Callable[[], bool], until: float | None = None
    ) -> Batch | ScanEnd:
        """Returns the batch of a number, or the end; `until` as in `Production.next`."""
        with self._turn:
            with self._mutex:
                if stream != self._stream:
                    raise ScannerExpired(f"another stream goes on with scan {self.id}")
                self._used = time.monotonic()
                self._check(number)
                if number < self._first + len(self._kept):
                    return self._kept[number - self._first][0]
                if self._end is not None:
                    return self._end
            made = self.production.next(is_cancelled, until)
            with self._mutex:
                self._used = time.monotonic()
                if made is None:
                    self._end = self._ended()
                    if self._state is not ScannerState.CLOSED:
                        self._to(ScannerState.FINISHED)
                    return self._end
                if self._state is ScannerState.CLOSED:  # while it was produced: it would stay in the budget for ever
                    raise ScannerExpired(f"scan {self.id} was closed")
                self._keep(*made)
                return made[0]

    def _check(self, number: int) -> None:
        after = self._first + len(self._kept)
        if number < self._first:
            raise ScannerExpired(f"scan {self.id} has only batches from {self._first} on, not batch {number}")
        if number > after:
            raise ProtocolError(f"scan {self.id} has got as far as batch {after}, not {number}")

    def _keep(self, batch: Batch, size: int) -> None:
        self._kept.append((batch, size))
        self._kept_bytes += size
        self.production.budget.add(size)
        while len(self._kept) > 1 and (
            len(self._kept) > KEPT_BATCHES or self._kept_bytes > KEPT_BYTES or self.production.budget.is_spent
        ):
            self._forget_to(self._first + 1)

    def _forget_to(self, number: int) -> None:
        """Drops the batches before number `number`."""
        while self._kept and self._first < number:
            _, size = self._kept.popleft()
            self._first += 1
            self._kept_bytes -= size
            self.production.budget.add(-size)

    def _ended(self) -> ScanEnd:
        total = ScanCounters()
        for counters in self._counters:
            total.add(counters)
        return ScanEnd(
            batches=self._first + len(self._kept),
            rows_considered=total.rows_considered,
            rows_returned=total.rows_returned,
            pages_read=total.pages_read,
            pages_skipped=total.pages_skipped,
            rowgroups_skipped=total.rowgroups_skipped,
            bytes_read=total.bytes_read,
            leader=self._leader,
        )

    def _detach(self, stream: int) -> None:
        with self._mutex:
            if stream != self._stream or self._state is not ScannerState.READ:
                return
            self._to(ScannerState.WAITING)
        self.production.pause()

    # ---- life ----------------------------------------------------------------------------------------------------

    @property
    def is_attached(self) -> bool:
        """True if a stream reads it."""
        return self._state is ScannerState.READ

    def idle_seconds(self, now: float) -> float:
        """Seconds since its last batch was requested."""
        return now - self._used

    def keep_alive(self) -> None:
        """Restarts the idle time, as a request for a batch does."""
        with self._mutex:
            self._used = time.monotonic()

    def close(self) -> None:
        """Drops the scan; a stream of it ends with an error."""
        with self._mutex:
            if self._state is not ScannerState.CLOSED:
                self._to(ScannerState.CLOSED)
            self._stream += 1
            self._forget_to(self._first + len(self._kept))
        self.production.stop()


class Scanners:
    """The scans of a server by id. Thread-safe.

    Parameters
    ----------
    budget : Budget
        For the batches of all scans.
    ttl : float
        Seconds for which a scan that no client reads is kept.
    """

    def __init__(self, budget: Budget, ttl: float):
        self.budget = budget
        self._ttl = ttl
        self._lock = threading.Lock()
        """Guards the maps, of which a scan is in one; acquired before a scanner's own lock."""
        self._live: dict[str, Scanner] = {}
        self._finished: dict[str, Scanner] = {}
        """In the order of their ends."""
        self._closed: dict[str, None] = {}
        """Ids closed by clients, the oldest first; guarded by the lock, too."""
        self._beginning = 0
        """Number of scans that are being begun; guarded by the lock, too."""

    def stream(
        self, id: str, number: int, is_cancelled: Callable[[], bool], begin: Callable[[], Scanner]
    ) -> Iterator[Batch | ScanEnd]:
        """Returns a stream of a scan from batch `number` on; begins an unknown scan, by `begin`.

        Raises `ScannerExpired` if it is no longer known, or not from there on, `ServerOverloaded` if there are
        too many.
        """
        scanner = self._scanner(id, number, begin)
        return self._watched(scanner, scanner.attach(number, is_cancelled))

    def start(
        self, id: str, most_bytes: int, until: float, is_cancelled: Callable[[], bool], begin: Callable[[], Scanner]
    ) -> tuple[list[Batch], ScanEnd | None]:
        """Returns the first batches of a scan, and its end, as `Scanner.first`; without an end, a stream may continue.
        Raises as `stream`."""
        scanner = self._scanner(id, 0, begin)
        try:
            batches, end = scanner.first(most_bytes, until, is_cancelled)
        except ScannerExpired:
            raise  # a stream has it
        except Exception:
            self._forget(id)
            raise
        if end is not None:
            self._forget(id)
        return batches, end

    def _scanner(self, id: str, number: int, begin: Callable[[], Scanner]) -> Scanner:
        """Returns the scan of an id; begins it if it is unknown and `number` is its first batch."""
        with self._lock:
            scanner = self._live.get(id) or self._finished.get(id)
            if scanner is not None:
                return scanner
            self._check_wanted(id)
            if number:
                raise ScannerExpired(f"there is no scan {id} to go on with from batch {number}")
            if len(self._live) >= MOST_SCANS:
                raise ServerOverloaded(f"the server has {len(self._live)} scans open, and takes no more")
            self._beginning += 1
        try:
            return self._begun(id, begin())
        finally:
            with self._lock:
                self._beginning -= 1

    def _begun(self, id: str, scanner: Scanner) -> Scanner:
        first: Scanner | None = None
        try:
            with self._lock:
                self._check_wanted(id)  # it may have been closed while it was begun
                # A client that sends the same request twice at once gets one scan, read by the last stream.
                first = self._live.setdefault(id, scanner)
        finally:
            if first is not scanner:
                scanner.close()
        return first

    def _check_wanted(self, id: str) -> None:
        """Raises `ScannerExpired` if the client has closed the scan. Needs the lock."""
        if id in self._closed:
            raise ScannerExpired(f"scan {id} has been closed")

    def _watched(self, scanner: Scanner, items: Iterator[Batch | ScanEnd]) -> Iterator[Batch | ScanEnd]:
        with contextlib.closing(items):  # type: ignore[type-var]  # a generator
            try:
                for item in items:
                    if isinstance(item, ScanEnd):
                        self._finish(scanner)
                    yield item
            except (GeneratorExit, Cancelled, ScannerExpired):
                # The stream has ended; the scan waits for another one.
                raise
            except Exception:
                self._forget(scanner.id)
                raise

    def _finish(self, scanner: Scanner) -> None:
        scanner.production.stop()
        dropped: list[Scanner] = []
        with self._lock:
            if self._live.pop(scanner.id, None) is not None:
                self._finished[scanner.id] = scanner
            while len(self._finished) > FINISHED_SCANS or (self._finished and self.budget.is_spent):
                dropped.append(self._finished.pop(next(iter(self._finished))))
        for old in dropped:
            old.close()

    def keep_alive(self, id: str) -> None:
        """Restarts the idle time of a scan. Raises `ScannerExpired` if it is unknown."""
        with self._lock:
            scanner = self._live.get(id) or self._finished.get(id)
        if scanner is None:
            raise ScannerExpired(f"there is no scan {id}")
        scanner.keep_alive()

    def close(self, id: str) -> None:
        """Drops a scan that its client has closed; one that is unknown yet will not be begun."""
        with self._lock:
            self._closed[id] = None
            if len(self._closed) > CLOSED_SCANS:
                del self._closed[next(iter(self._closed))]
        self._forget(id)

    def _forget(self, id: str) -> None:
        """Drops a scan, if it is known."""
        with self._lock:
            scanner = self._live.pop(id, None) or self._finished.pop(id, None)
        if scanner is not None:
            scanner.close()

    def expire(self, now: float) -> None:
        """Drops idle scans; to be called regularly."""
        with self._lock:
            old = [s for s in self._live.values() if s.idle_seconds(now) > self._ttl]
            old += [s for s in self._finished.values() if s.idle_seconds(now) > min(FINISHED_SECONDS, self._ttl)]
        for scanner in old:
            self._forget(scanner.id)

    def release(self, tablet_id: str) -> None:
        """Drops the scans of a tablet that have no stream, before its files are removed."""
        with self._lock:
            scans = [s for s in self._live.values() if s.tablet_id == tablet_id and not s.is_attached]
        for scanner in scans:
            self._forget(scanner.id)

    def close_all(self, timeout: float) -> None:
        """Drops all scans; waits until no thread reads a tablet, at most `timeout` seconds."""
        with self._lock:
            scans = [*self._live.values(), *self._finished.values()]
            self._live.clear()
            self._finished.clear()
        for scanner in scans:
            scanner.close()
        deadline = time.monotonic() + timeout
        for scanner in scans:
            scanner.production.wait_stopped(max(0.0, deadline - time.monotonic()))

    @property
    def count(self) -> int:
        """Number of scans that have not ended. One that is being begun counts: a server that quiesces may have accepted
        it before, and is not to be stopped yet."""
        with self._lock:
            return len(self._live) + self._beginning
