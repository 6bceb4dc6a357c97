"""Scans as the wire brings them: a ticket becomes a scanner over the replica's view, and a stream of its batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from ...errors import ProtocolError
from ...storage.clock import HybridClock
from ...storage.columns.column_file import ROW_GROUP_ROWS
from ...storage.vector import Batch
from ..tablets.replica import Replica
from ..wire import plain
from ..wire.methods import CloseScanner, Done, KeepAlive, ScanEnd, ScanTablet
from ..wire.server import CallContext
from ..wire.values import key_from_plain
from .fragments import Evaluator, Fragments
from .scan_production import Budget, Production
from .scan_sources import scan_sources
from .scanners import Scanner, Scanners

SAFE_SECONDS = 10.0
"""A scan waits so long until everything up to its time is here; then another replica may be asked."""
_CLOSE_SECONDS = 10.0
"""A server that stops waits so long for threads that read a tablet."""


class ScanService:
    """All scans of a server.

    Parameters
    ----------
    replica : callable
        The replica of a tablet; `ReplicaUnavailable` where there is none.
    clock : HybridClock
    fragments : Fragments, optional
        Reads what scans bring along.
    threads : int
        That read ahead.
    budget_bytes : int
        For batches that are read ahead or kept.
    ttl : float
        Seconds for which a scan that nobody reads is kept.
    """

    def __init__(
        self,
        replica: Callable[[str], Replica],
        clock: HybridClock,
        fragments: Fragments | None,
        *,
        threads: int,
        budget_bytes: int,
        ttl: float,
    ):
        self._replica = replica
        self._clock = clock
        self._fragments = fragments
        self._parallel = threads
        self._scanners = Scanners(Budget(budget_bytes), ttl)
        self._threads = ThreadPoolExecutor(threads, "nyala-scan")

    def scan(self, ticket: ScanTablet, context: CallContext) -> Iterator[Batch | ScanEnd]:
        """The stream of a ticket: begins the scan, or goes on with it. The iterator is to be closed."""
        return self._scanners.stream(
            ticket.scanner, ticket.resume_batch, context.is_cancelled, lambda: self._begin(ticket, context)
        )

    def _begin(self, ticket: ScanTablet, context: CallContext) -> Scanner:
        replica = self._replica(ticket.tablet_id)
        spec = plain.spec_from_plain(ticket.spec)
        # Without a time, the scan reads the latest, which the leader alone knows.
        view = replica.view(
            self._clock.now() if spec.snapshot is None else spec.snapshot,
            deadline=min(context.deadline, time.monotonic() + SAFE_SECONDS),
            schema_version=ticket.schema_version,
            leader_only=ticket.leader_only or spec.snapshot is None,
        )
        if spec.changes is not None:
            replica.tablet.check_history(spec.changes.since)
        evaluate: Evaluator | None = None
        if ticket.fragment:
            if self._fragments is None:
                raise ProtocolError("this server evaluates no fragments of plans")
            evaluate = self._fragments(ticket.fragment, view.table, spec)
        production = Production(self._scanners.budget)
        sources = scan_sources(
            view,
            spec,
            parallel=self._parallel,
            watch=production.watch,
            after_key=None if ticket.after_key is None else key_from_plain(ticket.after_key),
            evaluate=evaluate,
        )
        # One batch is read soonest by the stream's own thread.
        production.begin(sources.iterators, self._threads if sources.rows > ROW_GROUP_ROWS else None)
        return Scanner(ticket.scanner, ticket.tablet_id, production, sources.counters)

    def close_scanner(self, request: CloseScanner, context: CallContext) -> Done:
        """Forget a scan."""
        self._scanners.close(request.scanner)
        return Done()

    def keep_alive(self, request: KeepAlive, context: CallContext) -> Done:
        """Keep a scan."""
        self._scanners.keep_alive(request.scanner)
        return Done()

    def expire(self) -> None:
        """Forget scans that nobody reads; to be called every second."""
        self._scanners.expire(time.monotonic())

    def release(self, tablet_id: str) -> None:
        """Forget scans of a tablet that no stream reads."""
        self._scanners.release(tablet_id)

    @property
    def count(self) -> int:
        """Scans that have not ended."""
        return self._scanners.count

    def close(self) -> None:
        """End all scans."""
        self._scanners.close_all(_CLOSE_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)
