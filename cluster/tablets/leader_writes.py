"""Writes at the leader of a tablet: the embedded write path over a replicated log.

The life of a write:
1. A call that was done before, by this leader or an earlier one, gets its recorded result (`ExactlyOnceTable`).
2. The rows are converted to the table's columns, and must belong to this tablet.
3. Under the tablet's `write_lock` the ops are resolved to changes (`TabletWrite`, `RowWriter`). This determines the
   result, which goes into the log with the rows, as one entry.
4. Without the lock, the write waits until a majority has the entry; then readers see it.

A write that changes nothing is not logged. Its result depends on earlier writes, so it waits until these are decided;
the lease then guarantees that no other leader has written meanwhile. They must also be visible: its reply shows that
they are there, and a look-up that follows must not miss them (`MvccManager.newest_clean`).

A deadline that passes in step 4 leaves the write in flight. A retry of the call returns its outcome.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np

from ...errors import DeadlineExceeded
from ...model.clock import HybridClock
from ...model.store import Op, RowError, Timestamp, WriteBatch, WriteResult
from ...model.waiting_phases import acquiring, phase
from ...storage.log.decision import Decision
from ...storage.log.tablet_log import MustWait, WriteContext
from ...storage.log.wal import LogTicket
from ...storage.log.wal_format import EntryKind
from ...storage.maintenance.tablet_flush import flush_overfull, is_overfull
from ...storage.single_rows.few_rows import few_rows
from ...storage.single_rows.row_rules import BatchPathNeeded
from ...storage.single_rows.row_write import RowWriter, finish_row
from ...storage.tablet.tablet import Tablet
from ...storage.writing.incoming_rows import incoming, row_errors, rows_without
from ...storage.writing.tablet_write import TabletWrite
from ..consensus.consensus import Consensus
from ..consensus.log.tracked import CallHeader, encode_tracked
from ..wire.messages.methods import Call
from .exactly_once import ExactlyOnceTable, check_call, decode_result, encode_result
from .layout import ReplicaLayout

Done: TypeAlias = Callable[["WriteResult | Exception"], None]
"""Called with the outcome of a write."""
Later: TypeAlias = Callable[[Callable[[], None], bool], None]
"""Schedules a job that runs soon, with no lock held; does not block itself. The second argument is True if the job may
have to wait for the tablet's `write_lock`, or for the log."""


_Started: TypeAlias = tuple[LogTicket, Callable[[], WriteResult]]
"""The ticket of a write that is in the log, and the function that finishes it when that is decided."""


class Altering(Protocol):
    """The replica's table, as far as writes need it."""

    @property
    def layout(self) -> ReplicaLayout:
        """The current layout; replaced under the tablet's `write_lock`."""

    @property
    def is_altering(self) -> bool:
        """True while an alteration is in progress in the log. Needs the tablet's `write_lock`."""

    def wait_altered(self, deadline: float) -> None:
        """Returns when no alteration is in progress; raises `DeadlineExceeded`."""


class _TakesBatch(Exception):
    """A row must be written as a batch; nothing has been done."""

    def __init__(self, batch: WriteBatch):
        super().__init__()
        self.batch = batch


class LeaderWrites:
    """Writes into one tablet. Thread-safe."""

    def __init__(
        self,
        tablet: Tablet,
        consensus: Consensus,
        results: ExactlyOnceTable,
        clock: HybridClock,
        altering: Altering,
    ):
        self._tablet = tablet
        self._consensus = consensus
        self._results = results
        self._clock = clock
        self._altering = altering
        self._rows: tuple[ReplicaLayout, RowWriter] | None = None

    def write(
        self,
        batch: WriteBatch,
        call: Call | None,
        deadline: float,
        version: int | None,
        check_only: bool,
        is_transaction: bool,
    ) -> WriteResult:
        """Applies a batch; see `Replica.write`."""
        if check_only:
            return self._write(batch, None, deadline, version, check_only=True)
        return self._once(
            call, deadline, lambda: self._write(batch, call, deadline, version, is_transaction=is_transaction)
        )

    def write_row(
        self, op: Op, row: Mapping[str, Any], call: Call | None, deadline: float, version: int | None
    ) -> WriteResult:
        """Applies one row of physical values; see `Replica.write_row`."""
        return self._once(call, deadline, lambda: self._write_row(op, row, call, deadline, version))

    # ---- exactly once --------------------------------------------------------------------------------------------

    def _once(self, call: Call | None, deadline: float, write: Callable[[], WriteResult]) -> WriteResult:
        check_call(call)
        self._consensus.check_serving()
        if call is None:
            return write()
        known = self._results.begin(call, lambda ticket: self._consensus.wait(ticket, deadline), deadline)
        if known is not None:
            result = decode_result(known)
            self._wait_visible(result.timestamp, deadline)
            return result
        try:
            return write()
        finally:
            self._results.end(call)

    def _wait_visible(self, timestamp: int, deadline: float) -> None:
        """Returns when the decided writes up to a timestamp are visible."""
        self._tablet.mvcc.wait_until_clean(timestamp, deadline, passes_held=True)

    def _context(
        self,
        call: Call | None,
        result: Callable[[Timestamp], WriteResult],
        deadline: float | None = None,
        waits: bool = True,
    ) -> WriteContext:
        if call is None:
            return WriteContext(deadline, waits)
        return _TrackedWrite(self._results, call, result, deadline, waits)

    # ---- batches -------------------------------------------------------------------------------------------------

    def _write(
        self,
        batch: WriteBatch,
        call: Call | None,
        deadline: float,
        version: int | None,
        check_only: bool = False,
        is_transaction: bool = False,
    ) -> WriteResult:
        snapshot = batch.unchanged_since if is_transaction else None
        while True:
            layout = self._altering.layout
            layout.check_version(version)
            found = self._try(layout, batch, call, deadline, check_only, snapshot)
            if isinstance(found, WriteResult):
                return found
            if found is None:
                self._altering.wait_altered(deadline)
                continue
            with phase("transaction"):
                has_ended = found.wait(max(deadline - time.monotonic(), 0.0))
            if not has_ended:
                raise DeadlineExceeded(
                    f"a transaction that has prepared the same rows of table {layout.table.name} has not ended in time"
                )

    def _try(
        self,
        layout: ReplicaLayout,
        batch: WriteBatch,
        call: Call | None,
        deadline: float,
        check_only: bool,
        snapshot: int | None,
    ) -> WriteResult | Decision | None:
        """Writes a batch by one version of the table. With nothing done: None if the version has changed, or the
        decision to wait for where a transaction has prepared one of the keys."""
        tablet = self._tablet
        rows = incoming(layout.table, batch)
        errors = row_errors(layout.table, rows)
        numbers = rows_without(len(rows), errors)
        rows = rows.take(numbers)
        if not len(rows):
            # Errors within the rows themselves do not depend on other writes.
            timestamp = self._clock.now()
            self._consensus.check_can_serve(timestamp)
            return WriteResult(0, _in_order(errors), timestamp)
        layout.check_rows(rows.rows)
        flush_overfull(tablet)

        def result(timestamp: Timestamp) -> WriteResult:
            return WriteResult(part.applied, _in_order(errors, part.errors), timestamp)

        context = self._context(call, result, deadline)
        part = TabletWrite(tablet, layout.table, rows, np.asarray(numbers, np.intp), context, snapshot)
        part.probe()
        with acquiring(tablet.write_lock):
            if self._altering.layout is not layout or self._altering.is_altering:
                return None
            if (blocker := part.blocker()) is not None:
                return blocker
            part.check()
            is_refused = batch.all_or_none and bool(errors or part.errors)
            applies = part.has_changes and not is_refused and not check_only
            if applies:
                part.encode()
            timestamp = tablet.mvcc.start() if applies else self._clock.now()
            if applies:
                part.apply(timestamp)
        part.finish()
        if not applies:
            self._wait_visible(timestamp, deadline)
            self._consensus.check_can_serve(timestamp)
        found = result(timestamp)
        return replace(found, applied=0) if is_refused else found

    # ---- single rows ---------------------------------------------------------------------------------------------

    def _write_row(
        self, op: Op, row: Mapping[str, Any], call: Call | None, deadline: float, version: int | None
    ) -> WriteResult:
        layout = self._altering.layout
        layout.check_version(version)
        flush_overfull(self._tablet)
        try:
            context = self._context(call, _one_row, deadline)
            result = self._writer(layout).write_physical(op, row, context)
        except _TakesBatch as taken:
            return self._write(taken.batch, call, deadline, version)
        if not result.applied:
            self._wait_visible(result.timestamp, deadline)
            self._consensus.check_can_serve(result.timestamp)
        return result

    # ---- few rows, without waiting ---------------------------------------------------------------------------------

    def start_row(
        self, op: Op, row: Mapping[str, Any], call: Call | None, version: int | None, later: Later, done: Done
    ) -> bool:
        """Does the part of `write_row` before its wait; see `Replica.start_row`."""
        return self._begin(call, lambda: self._start_row(op, row, call, version), later, done)

    def start_rows(self, batch: WriteBatch, call: Call | None, version: int | None, later: Later, done: Done) -> bool:
        """Does the part of `write` before its wait; see `Replica.start_rows`."""
        return self._begin(call, lambda: self._start_rows(batch, call, version), later, done)

    def _begin(self, call: Call | None, start: Callable[[], _Started | None], later: Later, done: Done) -> bool:
        check_call(call)
        self._consensus.check_serving()
        if call is not None and not self._results.begin_at_once(call):
            return False
        started: _Started | None = None
        try:
            started = start()
        finally:
            if started is None and call is not None:
                self._results.end(call)
        if started is None:
            return False
        ticket, finish = started
        job = partial(self._finish, finish, call, done)
        # A void change is undone under the `write_lock`.
        self._consensus.when_decided(ticket, lambda: later(job, not ticket.durable))
        return True

    def _start_row(self, op: Op, row: Mapping[str, Any], call: Call | None, version: int | None) -> _Started | None:
        layout = self._altering.layout
        layout.check_version(version)
        if is_overfull(self._tablet):
            return None
        started = self._writer(layout).start_physical(op, row, self._context(call, _one_row, waits=False))
        return None if started is None else (started.ticket, partial(finish_row, started, _AT_ONCE))

    def _start_rows(self, batch: WriteBatch, call: Call | None, version: int | None) -> _Started | None:
        tablet, layout = self._tablet, self._altering.layout
        layout.check_version(version)
        if is_overfull(tablet):
            return None

        applied = 0

        # Not a method of the part, which has the context: in a cycle, it would keep the tablet's files in use.
        def result(timestamp: Timestamp) -> WriteResult:
            return WriteResult(applied, (), timestamp)

        try:
            context = self._context(call, result, deadline=0.0, waits=False)
            part = few_rows(tablet, layout.codec, batch, layout.check_key, context)
            if not tablet.write_lock.acquire(blocking=False):
                return None
            try:
                is_current = self._altering.layout is layout and not self._altering.is_altering
                if not is_current or part.blocker() is not None:
                    return None
                part.check()
                if not part.has_changes:
                    return None  # it waits for the writes on which its result depends
                applied = part.applied
                part.encode()
                timestamp = tablet.mvcc.start()
                ticket = part.apply(timestamp)
            finally:
                tablet.write_lock.release()
        except (BatchPathNeeded, MustWait):
            return None

        def finish() -> WriteResult:
            part.finish()
            return result(timestamp)

        return ticket, finish

    def _finish(self, finish: Callable[[], WriteResult], call: Call | None, done: Done) -> None:
        """Finishes a write whose ticket is decided, or whose consensus has stopped."""
        try:
            outcome: WriteResult | Exception = finish()
        except Exception as error:
            outcome = error
        if call is not None:
            self._results.end(call)
        try:
            done(outcome)
        finally:
            del outcome  # an error refers to this frame, and in a cycle would keep the tablet's files in use

    def _writer(self, layout: ReplicaLayout) -> RowWriter:
        known = self._rows
        if known is None or known[0] is not layout:

            def is_current() -> bool:
                return self._altering.layout is layout and not self._altering.is_altering

            writer = RowWriter(layout.codec, _OneTablet(layout), (self._tablet,), self._clock, is_current, _as_batch)
            known = self._rows = layout, writer
        return known[1]


class _TrackedWrite(WriteContext):
    """The context of a call's write: its log entry has the call with its result, and `ExactlyOnceTable` has it, too.

    Parameters
    ----------
    results : ExactlyOnceTable
    call : Call
    result : callable
        From the entry's timestamp: the reply to the call.
    deadline : float, optional
    waits : bool
        See `WriteContext`.
    """

    def __init__(
        self,
        results: ExactlyOnceTable,
        call: Call,
        result: Callable[[Timestamp], WriteResult],
        deadline: float | None,
        waits: bool,
    ):
        super().__init__(deadline, waits)
        self._results = results
        self._call = call
        self._result = result
        self._logged: tuple[CallHeader, int] | None = None

    def encode(self, timestamp: int, kind: EntryKind, body: bytes) -> tuple[EntryKind, bytes]:
        call, result = self._call, encode_result(self._result(Timestamp(timestamp)))
        header = CallHeader(call.client, call.sequence, call.first_incomplete, result)
        self._logged = header, timestamp
        return EntryKind.TRACKED, encode_tracked(header, kind, body)

    def appended(self, ticket: LogTicket) -> None:
        assert self._logged is not None
        header, timestamp = self._logged
        self._results.note(header, ticket.index, timestamp, ticket)


_AT_ONCE = WriteContext(deadline=0.0)


class _OneTablet:
    """Routes all rows to the one tablet; raises `StaleSchema` for rows of others."""

    def __init__(self, layout: ReplicaLayout):
        self._layout = layout

    def route_one(self, key: Any) -> int:
        """See `Partitioner.route_one`."""
        self._layout.check_key(key)
        return 0


def _one_row(timestamp: Timestamp) -> WriteResult:
    return WriteResult(1, (), timestamp)


def _as_batch(batch: WriteBatch) -> NoReturn:
    raise _TakesBatch(batch)


def _in_order(*errors: list[RowError]) -> tuple[RowError, ...]:
    return tuple(sorted((error for some in errors for error in some), key=lambda error: error.row))
