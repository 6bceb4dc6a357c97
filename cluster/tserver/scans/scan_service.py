"""Scans as the wire brings them: from a ticket to a scanner over the replica's view, and a stream of its batches.

Most scans are small, and a stream costs three times as much as a call. So a scan may begin with a call (`StartScan`).
Its reply has the whole scan if that is small and soon done, otherwise the batches so far: at most `START_BYTES`, after
`START_SECONDS`. All longer waits (for writes up to the scan's timestamp, for scan threads, for a slow reader) are left
to the stream that resumes the scan. At most `STARTS` such calls are served at once, and each of them reads at most a
few row groups in its own thread (`ALONE_ROWS`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from ....errors import DeadlineExceeded, ProtocolError, ReplicaUnavailable
from ....model.codec.values import key_from_plain
from ....model.store import Timestamp
from ....model.vectors.vector import Batch
from ....storage.columns.column_file import ROW_GROUP_ROWS
from ....storage.tablet.tablet import TabletView
from ...tablets.damage import Watched
from ...tablets.served_tablet import ServedTablet
from ...wire.call_context import CallContext
from ...wire.messages import plain
from ...wire.messages.methods import CloseScanner, Done, KeepAlive, ScanEnd, ScanStart, ScanTablet, StartScan
from ...wire.messages.value_count import check_value_count
from ...wire.rows.small_batches import small_batch
from .fragments import Evaluator, Fragments
from .scan_production import Budget, NotYet, Production
from .scan_sources import ALONE_ROWS, scan_sources
from .scanners import Scanner, Scanners

SAFE_SECONDS = 10.0
"""Seconds for which a scan waits until its timestamp is complete here; then the client may try another replica."""
START_BYTES = 2 << 20
"""A quarter of a message's limit. A stream that resumes costs a millisecond before its first batch, in which neither
side works: as much as one or two mebibytes."""
START_SECONDS = 0.1
STARTS = 32
_CLOSE_SECONDS = 10.0
"""Seconds for which a stopping server waits for threads that read a tablet."""


class ScanService:
    """All scans of a server.

    Parameters
    ----------
    replica : callable
        Returns the replica of a tablet; raises `ReplicaUnavailable` if there is none.
    fragments : Fragments, optional
        Decodes the fragments of scans.
    threads : int
        Threads that read ahead.
    budget_bytes : int
        For batches that are read ahead or kept.
    ttl : float
        Seconds for which an unread scan is kept.
    """

    def __init__(
        self,
        replica: Callable[[str], ServedTablet],
        fragments: Fragments | None,
        *,
        threads: int,
        budget_bytes: int,
        ttl: float,
    ):
        self._replica = replica
        self._fragments = fragments
        self._parallel = threads
        self._scanners = Scanners(Budget(budget_bytes), ttl)
        self._threads = ThreadPoolExecutor(threads, "nyala-scan")
        self._starts = threading.BoundedSemaphore(STARTS)

    def scan(self, ticket: ScanTablet, context: CallContext) -> Iterator[Batch | ScanEnd]:
        """Returns the stream of a ticket: begins the scan, or resumes it. The iterator must be closed."""
        return self._scanners.stream(
            ticket.scanner, ticket.resume_batch, context.is_cancelled, lambda: self._begin(ticket, context)
        )

    def start(self, request: StartScan, context: CallContext) -> ScanStart:
        """Begins a scan; returns its first batches, with the end if no stream needs to resume it."""
        ticket = request.ticket
        if ticket.resume_batch:
            raise ProtocolError(f"a scan begins with its first batch, not with batch {ticket.resume_batch}")
        if not self._starts.acquire(blocking=False):
            return ScanStart()
        try:
            until = min(context.deadline, time.monotonic() + START_SECONDS)
            most = min(START_BYTES, context.room)  # a stream sends what does not fit, from the beginning
            batches, end = self._scanners.start(
                ticket.scanner, most, until, context.is_cancelled, lambda: self._begin(ticket, context, until)
            )
            return ScanStart(batches=tuple(map(small_batch, batches)), end=end)
        except NotYet:
            return ScanStart()
        finally:
            self._starts.release()

    def _begin(self, ticket: ScanTablet, context: CallContext, until: float | None = None) -> Scanner:
        replica = self._replica(ticket.tablet_id)
        spec = plain.spec_from_plain(ticket.spec)
        view = self._view(replica, ticket, spec.snapshot, context, until)
        if spec.changes is not None:
            replica.tablet.check_history(spec.changes.since)
        evaluate: Evaluator | None = None
        if ticket.fragment:
            if self._fragments is None:
                raise ProtocolError("this server does not evaluate plan fragments")
            check_value_count(memoryview(ticket.fragment), "plan fragment")
            evaluate = self._fragments(ticket.fragment, view.table, spec)
        production = Production(self._scanners.budget)
        with Watched(replica.met):
            sources = scan_sources(
                view,
                spec,
                parallel=self._parallel,
                watch=production.watch,
                after_key=None if ticket.after_key is None else key_from_plain(ticket.after_key),
                evaluate=evaluate,
            )
        # A few rows are read fastest by the calling thread; a stream is sent while more is read.
        alone = ROW_GROUP_ROWS if until is None else ALONE_ROWS
        iterators = [_watched(source, replica) for source in sources.iterators]
        production.begin(iterators, self._threads if sources.rows > alone else None)
        return Scanner(ticket.scanner, ticket.tablet_id, production, sources.counters, replica.leader_address)

    def _view(
        self,
        replica: ServedTablet,
        ticket: ScanTablet,
        snapshot: Timestamp | None,
        context: CallContext,
        until: float | None,
    ) -> TabletView:
        """Returns the tablet as of the scan's timestamp; raises `NotYet` if it is not available by `until`
        (monotonic)."""
        try:
            return replica.view(
                snapshot,
                deadline=min(context.deadline, time.monotonic() + SAFE_SECONDS) if until is None else until,
                schema_version=ticket.schema_version,
            )
        except (ReplicaUnavailable, DeadlineExceeded):
            if until is None or time.monotonic() < until:
                raise
            raise NotYet from None

    def close_scanner(self, request: CloseScanner, context: CallContext) -> Done:
        """Drops a scan."""
        self._scanners.close(request.scanner)
        return Done()

    def keep_alive(self, request: KeepAlive, context: CallContext) -> Done:
        """Keeps a scan alive."""
        self._scanners.keep_alive(request.scanner)
        return Done()

    def expire(self) -> None:
        """Drops unread scans; to be called every second."""
        self._scanners.expire(time.monotonic())

    def release(self, tablet_id: str) -> None:
        """Drops scans of a tablet that no stream reads."""
        self._scanners.release(tablet_id)

    @property
    def count(self) -> int:
        """Number of scans that have not ended."""
        return self._scanners.count

    def close(self) -> None:
        """Ends all scans."""
        self._scanners.close_all(_CLOSE_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _watched(batches: Iterator[Batch], replica: ServedTablet) -> Iterator[Batch]:
    """Yields the same batches; an error of a damaged file becomes one after which the client reads another replica."""
    with Watched(replica.met):
        yield from batches
