"""Transactions over several tablets, at one replica: prepared writes, the record of the outcome, and their end.

    | state of a part | event | next state |
    |---|---|---|
    | - | PREPARE is proposed, or applied | PREPARED |
    | PREPARED | its entry is void | - |
    | PREPARED | RESOLVE is applied: committed | visible |
    | PREPARED | RESOLVE is applied: aborted | undone |

A part is in the log and in memory from its PREPARE entry on, at a timestamp above every earlier one of the tablet. The
commit timestamp is the greatest of all parts: RESOLVE has it, and parts with an earlier one get it in memory
(`LoggedWrite.restamp`). Until RESOLVE the timestamp is held (`MvccManager.hold`), so scans at or above it wait, safe
time stays below it, and the tablet is not flushed. Its keys are held, too: other writes of them wait.

The outcome is the first RESOLVE entry of the tablet that decides. It is a TRACKED entry whose client is the
transaction: the exactly-once table records it, at every replica, so every later request for a decision gets the
first one. A leader that does not hear of the outcome (`abandoned`) requests that tablet to decide ABORT, and resolves
by the reply.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from ...errors import (
    ClockTooFarAhead,
    DeadlineExceeded,
    ProtocolError,
    SerializationFailure,
)
from ...model.clock import HybridClock
from ...model.store import Timestamp, WriteBatch, WriteResult
from ...storage.log.decision import Decision
from ...storage.log.tablet_log import WriteContext
from ...storage.log.wal import LogTicket
from ...storage.log.wal_format import EntryKind, LogEntry
from ...storage.maintenance.tablet_flush import flush_overfull
from ...storage.tablet.prepared import PreparedWrite
from ...storage.tablet.tablet import Tablet
from ...storage.tablet.tablet_apply import TabletApplier
from ...storage.writing.incoming_rows import as_conflict, incoming, row_errors
from ...storage.writing.tablet_write import TabletWrite
from ..consensus.consensus import Consensus
from ..consensus.log.tracked import CallHeader, encode_tracked
from ..consensus.log.transaction_entries import (
    PreparedNote,
    Resolution,
    decode_note,
    decode_prepare,
    decode_resolution,
    encode_note,
    encode_prepare,
    encode_resolution,
)
from ..wire.messages.methods import Call
from .exactly_once import ExactlyOnceTable, check_call, decode_result, encode_result
from .layout import ReplicaLayout
from .leader_writes import Altering

CONFLICT_SECONDS: Final = 0.2
"""Seconds for which a part waits for another transaction that has prepared one of its keys; then it is refused. Two
transactions may wait for each other at two tablets."""
_RETRY_SECONDS: Final = 0.002


class ReplicaTransactions:
    """The transactions of one tablet. Thread-safe."""

    def __init__(
        self,
        tablet: Tablet,
        consensus: Consensus,
        results: ExactlyOnceTable,
        clock: HybridClock,
        altering: Altering,
        applier: TabletApplier,
        watched: AbstractContextManager[object],
    ):
        self._tablet = tablet
        self._consensus = consensus
        self._results = results
        self._clock = clock
        self._altering = altering
        self._applier = applier
        self._watched = watched

    # ---- at the leader -------------------------------------------------------------------------------------------

    def prepare(
        self, note: PreparedNote, timestamp: int, batch: WriteBatch, version: int | None, deadline: float
    ) -> int:
        """Prepares this tablet's part of a transaction: durable and in memory, but not visible before it is resolved.

        Parameters
        ----------
        note : PreparedNote
            The transaction, and the tablet that decides.
        timestamp : int
            Proposed; the part takes a later one if the clock has passed it.
        batch : WriteBatch
            Net changes, unchanged since the transaction's snapshot.
        version : int, optional
            The caller's version of the table.

        Returns the timestamp of the prepared part; that of the commit must not be below it. Raises
        `SerializationFailure` for a conflict, `ClockTooFarAhead`, otherwise as `Replica.write`. A repeated call with a
        later timestamp moves the part there.
        """
        with self._watched:
            return self._prepare(note, timestamp, batch, version, deadline)

    def _prepare(
        self, note: PreparedNote, timestamp: int, batch: WriteBatch, version: int | None, deadline: float
    ) -> int:
        self._consensus.check_serving()
        _check_transaction(note.transaction)
        self._check_timestamp(timestamp, self._clock.limit())
        patience = min(time.monotonic() + CONFLICT_SECONDS, deadline)
        while True:
            layout = self._altering.layout
            layout.check_version(version)
            part = self._part(layout, note, batch, deadline)
            found = self._try_to_prepare(part, layout, note, timestamp)
            if isinstance(found, PreparedWrite):
                self._consensus.wait(found.logged.ticket, deadline)
                return found.timestamp
            if isinstance(found, Decision):
                if not found.wait(max(patience - time.monotonic(), 0.0)):
                    raise SerializationFailure(
                        f"another transaction is about to change the same rows of table {layout.table.name}; retry the "
                        "transaction"
                    )
                continue
            if time.monotonic() > deadline:
                raise DeadlineExceeded(f"tablet {self._tablet.id} could not prepare a transaction in time")
            self._altering.wait_altered(deadline)
            time.sleep(_RETRY_SECONDS)

    def _part(self, layout: ReplicaLayout, note: PreparedNote, batch: WriteBatch, deadline: float) -> TabletWrite:
        rows = incoming(layout.table, batch)
        for refused in row_errors(layout.table, rows):
            raise refused.error
        layout.check_rows(rows.rows)
        flush_overfull(self._tablet)
        context = _PrepareContext(encode_note(note), deadline)
        part = TabletWrite(self._tablet, layout.table, rows, np.arange(len(rows)), context, batch.unchanged_since)
        part.probe()
        return part

    def _try_to_prepare(
        self, part: TabletWrite, layout: ReplicaLayout, note: PreparedNote, timestamp: int
    ) -> PreparedWrite | Decision | None:
        """Returns the prepared write, or the decision to wait for; None if the tablet prepares nothing now."""
        tablet = self._tablet
        with tablet.write_lock:
            tablet.settle()
            known = tablet.prepared.get(note.transaction)
            if known is not None:
                return self._held_later(known, note.transaction, timestamp)
            if self._altering.layout is not layout or self._altering.is_altering or not tablet.prepared.is_open:
                return None
            if (blocker := part.blocker()) is not None:
                return blocker
            part.check()
            for refused in part.errors:
                raise as_conflict(refused.error)
            part.encode()
            prepared = part.prepare(note.transaction, tablet.mvcc.hold_new(timestamp), encode_note(note))
            self._results.forget(note.forgotten)
            return prepared

    def _held_later(self, known: PreparedWrite, transaction: str, timestamp: int) -> PreparedWrite:
        """Holds a later timestamp for a prepared write, if its client promises so not to commit before it: reads below
        it need not wait, nor will they see the rows. Other replicas hold the earlier one. Needs the `write_lock`."""
        if timestamp <= known.timestamp:
            return known
        known.leave_timestamp()  # before a read above the earlier one goes on
        if not self._tablet.mvcc.hold_later(known.timestamp, timestamp):
            return known
        moved = replace(known, timestamp=timestamp)
        self._tablet.prepared.add(transaction, moved)
        return moved

    def decide(self, transaction: str, timestamp: int, deadline: float) -> int:
        """Records the outcome of a transaction that this tablet decides, and ends the part here: committed at
        `timestamp` if that is not 0, and if the part is prepared. Returns the first recorded outcome: the commit
        timestamp, or 0. After `DeadlineExceeded` it may be recorded all the same. Raises `ClockTooFarAhead`, and
        `ProtocolError` for a timestamp below that of the part."""
        _check_transaction(transaction)
        call = _decision_call(transaction)
        self._consensus.check_serving()
        known = self._results.begin(call, lambda ticket: self._consensus.wait(ticket, deadline), deadline)
        if known is not None:
            return decode_result(known).timestamp
        try:
            with self._tablet.write_lock:
                is_prepared = self._prepared(transaction, timestamp, self._clock.limit()) is not None
                outcome = timestamp if is_prepared else 0
                result = encode_result(WriteResult(int(outcome > 0), (), Timestamp(outcome)))
                header = CallHeader(call.client, call.sequence, call.first_incomplete, result, is_lasting=True)
                body = encode_tracked(header, EntryKind.RESOLVE, encode_resolution(Resolution(transaction, outcome)))
                ticket = self._propose(EntryKind.TRACKED, body, outcome)
                self._results.note(header, ticket.index, outcome, ticket)
            self._end(ticket, deadline)
        finally:
            self._results.end(call)
        return outcome

    def resolve(self, transaction: str, timestamp: int, deadline: float) -> None:
        """Ends this tablet's part of a transaction with its outcome (`decide`); no-op if there is none (any more).
        Raises as `decide`."""
        self._consensus.check_serving()
        with self._tablet.write_lock:
            # A server has decided it: its clock may be ahead of this one as those of peers may be.
            if self._prepared(transaction, timestamp, self._clock.limit_of_peers()) is None:
                return
            body = encode_resolution(Resolution(transaction, timestamp))
            ticket = self._propose(EntryKind.RESOLVE, body, timestamp)
        self._end(ticket, deadline)

    def _prepared(self, transaction: str, timestamp: int, limit: int) -> PreparedWrite | None:
        """Returns the prepared write that is to be ended, once the timestamp is checked; 0: it is aborted. A write
        whose own entry may still be void is none the less ended: the entry behind that would be void, too. Needs the
        tablet's `write_lock`."""
        self._tablet.settle()
        prepared = self._tablet.prepared.get(transaction)
        if prepared is not None and timestamp:
            if timestamp < prepared.timestamp:
                raise ProtocolError(
                    f"transaction {transaction} cannot be committed at {timestamp}: its part of tablet "
                    f"{self._tablet.id} was prepared at {prepared.timestamp}"
                )
            self._check_timestamp(timestamp, limit)
        return prepared

    def _check_timestamp(self, timestamp: int, limit: int) -> None:
        if timestamp > limit:
            raise ClockTooFarAhead(
                f"a transaction cannot be committed at {timestamp} of hybrid time: this server's clock follows others "
                f"only to {limit}; correct the clock of the wrong machine"
            )

    def _propose(self, kind: EntryKind, body: bytes, timestamp: int) -> LogTicket:
        """Proposes a RESOLVE entry. No write behind it in the log has a timestamp at or below that of the commit: so
        one with the same timestamp, if any, is committed before, and cannot be undone any more; but for a prepared one
        (`PreparedWrites.leave_timestamp`). Needs the tablet's `write_lock`."""
        self._clock.update(Timestamp(timestamp))
        return self._consensus.propose(kind, body)

    def _end(self, ticket: LogTicket, deadline: float) -> None:
        self._consensus.wait(ticket, deadline)
        self._consensus.wait_applied(ticket.index, deadline)

    def abandoned(self, seconds: float) -> list[PreparedNote]:
        """Returns the transactions whose parts here have been prepared for at least `seconds`, if this replica leads;
        another request has to decide them."""
        if not self._tablet.prepared or not self._consensus.status().is_serving:
            return []
        before = time.monotonic() - seconds
        return [decode_note(prepared.note) for _, prepared in self._tablet.prepared if prepared.since <= before]

    def wait_resolved(self, deadline: float) -> bool:
        """Waits until nothing is prepared that is prepared now; False if that is not so by the deadline."""
        return all(
            prepared.decision.wait(max(deadline - time.monotonic(), 0.0)) for _, prepared in self._tablet.prepared
        )

    # ---- committed entries, at every replica ---------------------------------------------------------------------

    def apply_prepare(self, entry: LogEntry, schema: pa.Schema) -> None:
        """Applies a PREPARE entry of another leader. Needs the tablet's `write_lock`."""
        encoded, rows = decode_prepare(entry.body, f"entry {entry.index}")
        note = decode_note(encoded)
        self._results.forget(note.forgotten)
        self._applier.prepare(note.transaction, replace(entry, kind=EntryKind.PART, body=rows), schema, encoded)

    def apply_resolve(self, entry: LogEntry) -> None:
        """Applies a RESOLVE entry. Needs the tablet's `write_lock`."""
        resolution = decode_resolution(entry.body, f"entry {entry.index}")
        self._applier.finish()
        tablet = self._tablet
        prepared = tablet.prepared.get(resolution.transaction)
        if prepared is None:
            return  # the files have its outcome
        logged, timestamp = prepared.logged, resolution.timestamp
        tablet.prepared.remove(resolution.transaction)
        if not resolution.is_committed:
            logged.undo()
        elif timestamp != logged.timestamp:
            tablet.prepared.leave_timestamp(timestamp)
            logged.restamp(timestamp)
            tablet.newest = max(tablet.newest, timestamp)
        self._clock.update(Timestamp(timestamp))  # before readers of the latest state go on
        tablet.mvcc.release(prepared.timestamp)
        if resolution.is_committed:
            prepared.decision.commit()
        else:
            prepared.decision.abort()


class _PrepareContext(WriteContext):
    """Makes a PREPARE entry of the rows of a part."""

    def __init__(self, note: bytes, deadline: float):
        super().__init__(deadline)
        self._note = note

    def encode(self, timestamp: int, kind: EntryKind, body: bytes) -> tuple[EntryKind, bytes]:
        return EntryKind.PREPARE, encode_prepare(self._note, body)


def _check_transaction(transaction: str) -> None:
    """Raises `ProtocolError` for a transaction that is no UUID in lower-case hex: the log has the bytes."""
    check_call(_decision_call(transaction))
    if bytes.fromhex(transaction).hex() != transaction:
        raise ProtocolError(f"{transaction!r} is no transaction: a UUID in lower-case hex is expected")


def _decision_call(transaction: str) -> Call:
    """Call id of the decision: the transaction is the client."""
    return Call(transaction, 1, 0)
