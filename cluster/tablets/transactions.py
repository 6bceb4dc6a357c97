"""Transactions over several tablets, at one replica: prepared writes, the record of the outcome, and their end.

    | state of a part | event | next state |
    |---|---|---|
    | - | STAGE is proposed, or applied: some of the rows of a large part | STAGED |
    | STAGED | RESOLVE is applied, or an ALTER | - |
    | -, STAGED | PREPARE is proposed, or applied | PREPARED |
    | PREPARED | its entry is void | -, STAGED |
    | PREPARED | RESOLVE is applied: committed | visible |
    | PREPARED | RESOLVE is applied: aborted | undone |

A part is in the log and in memory from its PREPARE entry on, at a timestamp above every earlier one of the tablet. The
commit timestamp is the greatest of all parts: RESOLVE has it, and parts with an earlier one get it in memory
(`LoggedWrite.restamp`). Until RESOLVE the timestamp is held (`MvccManager.hold`), so scans at or above it wait, safe
time stays below it, and the tablet is not flushed. Its keys are held, too: other writes of them wait.

The outcome is the first RESOLVE entry of the tablet that decides. It is a TRACKED entry whose client is the
transaction: the exactly-once table records it, at every replica, so every later request for a decision gets the
first one. A leader that does not hear of the outcome (`abandoned`) requests that tablet to decide ABORT, and resolves
by the reply. `large_parts` has those that take several entries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import (
    ClockTooFarAhead,
    DeadlineExceeded,
    ProtocolError,
    SerializationFailure,
    StaleSchema,
)
from ...model.clock import HybridClock
from ...model.store import Timestamp, WriteBatch, WriteResult
from ...model.waiting_phases import acquiring, phase
from ...storage.log.decision import Decision
from ...storage.log.wal import LogTicket
from ...storage.log.wal_format import EntryKind, LogEntry
from ...storage.maintenance.tablet_flush import flush_overfull
from ...storage.tablet.prepared import PreparedWrite
from ...storage.tablet.staged import StagedEntry
from ...storage.tablet.tablet import Tablet
from ...storage.tablet.tablet_apply import TabletApplier
from ...storage.writing.incoming_rows import as_conflict, incoming, row_errors
from ...storage.writing.staged_write import StagedWrite
from ...storage.writing.tablet_write import TabletWrite
from ..consensus.consensus import Consensus
from ..consensus.log.tracked import CallHeader, encode_tracked
from ..consensus.log.transaction_entries import (
    PreparedNote,
    Resolution,
    StagedNote,
    decode_note,
    decode_prepare,
    decode_resolution,
    encode_note,
    encode_resolution,
)
from ..wire.messages.methods import Call
from . import large_parts
from .exactly_once import ExactlyOnceTable, check_call, decode_result, encode_result
from .large_parts import (
    NoteContext,
    Staging,
    abandoned_parts,
    applied_pieces,
    apply_stage,
    complete_part,
    requested_pieces,
)
from .layout import ReplicaLayout
from .leader_writes import Altering

CONFLICT_SECONDS: Final = 0.2
"""Seconds for which a part waits for another transaction that has prepared one of its keys; then it is refused. Two
transactions may wait for each other at two tablets."""
LONGEST_SECONDS: Final = 120.0
"""Most seconds that a part may stay prepared by its own note before its leader requests the outcome."""
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
            make = self._large_part if note.staged else self._part
            found = self._try_to_prepare(make(layout, note, batch, version, deadline), layout, note, timestamp)
            if isinstance(found, PreparedWrite):
                self._consensus.wait(found.logged.ticket, deadline)
                return found.timestamp
            self._wait_for(found, layout, patience, deadline)

    def _wait_for(self, found: Decision | None, layout: ReplicaLayout, patience: float, deadline: float) -> None:
        """Waits for the outcome of another transaction until `patience`, or until the tablet prepares again; raises
        `SerializationFailure`, `DeadlineExceeded`."""
        if found is not None:
            with phase("transaction"):
                has_ended = found.wait(max(patience - time.monotonic(), 0.0))
            if not has_ended:
                raise SerializationFailure(
                    f"another transaction is about to change the same rows of table {layout.table.name}; retry the "
                    "transaction"
                )
            return
        if time.monotonic() > deadline:
            raise DeadlineExceeded(f"tablet {self._tablet.id} could not prepare a transaction in time")
        self._altering.wait_altered(deadline)
        time.sleep(_RETRY_SECONDS)

    def stage(self, note: StagedNote, batch: WriteBatch, nbytes: int, deadline: float) -> None:
        """Logs some rows of a part that is too large for one entry; nothing changes before `prepare` with the number of
        all entries. A repeated call does nothing.

        Parameters
        ----------
        note : StagedNote
            `version` is the caller's of the table.
        batch : WriteBatch
            Net changes, unchanged since the transaction's snapshot. No key is in two entries.
        nbytes : int
            About the memory that the rows will take.

        Raises `SerializationFailure` for a conflict, otherwise as `Replica.write`.
        """
        with self._watched:
            self._stage(note, batch, nbytes, deadline)

    def _stage(self, note: StagedNote, batch: WriteBatch, nbytes: int, deadline: float) -> None:
        self._consensus.check_serving()
        _check_transaction(note.transaction)
        if batch.unchanged_since is None:
            raise ProtocolError(f"transaction {note.transaction} has staged rows without its snapshot")
        self._check_timestamp(batch.unchanged_since, self._clock.limit())
        self._clock.update(batch.unchanged_since)
        patience = min(time.monotonic() + CONFLICT_SECONDS, deadline)
        while True:
            layout = self._altering.layout
            layout.check_version(note.version)
            flush_overfull(self._tablet)
            staging = Staging(self._tablet, layout, note, batch, nbytes, deadline)
            blocker: Decision | None = None
            with acquiring(self._tablet.write_lock):
                self._tablet.settle()
                known = self._staged_entry(note)
                is_current = self._altering.layout is layout and not self._altering.is_altering
                if known is None and is_current:
                    blocker = staging.propose()
            if known is not None:
                if known.ticket is not None:
                    self._consensus.wait(known.ticket, deadline)
                return
            if is_current and blocker is None:
                staging.finish()
                return
            self._wait_for(blocker, layout, patience, deadline)

    def staged_bytes(self, transaction: str) -> int:
        """Returns about the memory that the staged rows of a transaction will take."""
        part = self._tablet.staged.get(transaction)
        return 0 if part is None else part.nbytes

    def _staged_entry(self, note: StagedNote) -> StagedEntry | None:
        """Returns the entry of a call that was done before. Needs the tablet's `write_lock`."""
        part = self._tablet.staged.get(note.transaction)
        if part is None:
            return None
        if part.ended or part.is_prepared:
            raise SerializationFailure(f"transaction {note.transaction} takes no more rows; retry the transaction")
        if part.version != note.version:
            raise StaleSchema(f"transaction {note.transaction} has staged rows of version {part.version} of the table")
        known = part.entries.get(note.number)
        return None if known is None or known.is_void else known

    def _large_part(
        self, layout: ReplicaLayout, note: PreparedNote, batch: WriteBatch, version: int | None, deadline: float
    ) -> _Part:
        if batch.unchanged_since is None:
            raise ProtocolError(f"transaction {note.transaction} has staged rows without its snapshot")
        pieces = requested_pieces(self._tablet, self._consensus, note, version)
        encoded = encode_note(note)
        context = NoteContext(EntryKind.PREPARE, encoded, deadline)
        write = StagedWrite(self._tablet, layout.table, note.transaction, batch.unchanged_since, pieces, context)
        return _Part(write.blocker, write.check, lambda proposed: write.prepare(proposed, encoded))

    def _part(
        self, layout: ReplicaLayout, note: PreparedNote, batch: WriteBatch, version: int | None, deadline: float
    ) -> _Part:
        rows = incoming(layout.table, batch)
        for refused in row_errors(layout.table, rows):
            raise refused.error
        layout.check_rows(rows.rows)
        flush_overfull(self._tablet)
        encoded = encode_note(note)
        context = NoteContext(EntryKind.PREPARE, encoded, deadline)
        part = TabletWrite(self._tablet, layout.table, rows, np.arange(len(rows)), context, batch.unchanged_since)
        part.probe()

        def check() -> None:
            part.check()
            for refused in part.errors:
                raise as_conflict(refused.error)
            part.encode()

        def prepare(proposed: int) -> PreparedWrite:
            return part.prepare(note.transaction, self._tablet.mvcc.hold_new(proposed), encoded)

        return _Part(part.blocker, check, prepare)

    def _try_to_prepare(
        self, part: _Part, layout: ReplicaLayout, note: PreparedNote, timestamp: int
    ) -> PreparedWrite | Decision | None:
        """Returns the prepared write, or the decision to wait for; None if the tablet prepares nothing now."""
        tablet = self._tablet
        with acquiring(tablet.write_lock):
            tablet.settle()
            known = tablet.prepared.get(note.transaction)
            if known is not None:
                return self._held_later(known, note.transaction, timestamp)
            if self._altering.layout is not layout or self._altering.is_altering or not tablet.prepared.is_open:
                return None
            if (blocker := part.blocker()) is not None:
                return blocker
            if note.staged:
                complete_part(tablet, note, None)  # an outcome may have come since
            part.check()
            prepared = part.prepare(timestamp)
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
            with acquiring(self._tablet.write_lock):
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
        with acquiring(self._tablet.write_lock):
            # A server has decided it: its clock may be ahead of this one as those of peers may be.
            if self._prepared(transaction, timestamp, self._clock.limit_of_peers()) is None:
                staged = self._tablet.staged.get(transaction)
                if staged is None or staged.ended:
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

    def abandoned(self, seconds: float) -> list[PreparedNote | StagedNote]:
        """Returns the transactions whose parts here have been prepared for at least `seconds` (or as long as their
        notes say, if that is longer), or staged for `STAGED_SECONDS`, if this replica leads; another request has to
        decide them."""
        tablet = self._tablet
        if not (tablet.prepared or tablet.staged) or not self._consensus.status().is_serving:
            return []
        found: list[PreparedNote | StagedNote] = []
        for _, prepared in tablet.prepared:
            note = decode_note(prepared.note)
            if prepared.since <= time.monotonic() - max(seconds, min(note.seconds, LONGEST_SECONDS)):
                found.append(note)
        return found + abandoned_parts(tablet, large_parts.STAGED_SECONDS)

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
        pieces = [(replace(entry, kind=EntryKind.PART, body=rows), schema)]
        if note.staged:
            pieces = applied_pieces(self._tablet, self._consensus, note, f"entry {entry.index}")
            self._tablet.staged.note_prepared(note.transaction)
        self._applier.prepare(note.transaction, entry.index, entry.timestamp, pieces, encoded)

    def apply_stage(self, entry: LogEntry) -> None:
        """Applies a STAGE entry of another leader. Needs the tablet's `write_lock`."""
        apply_stage(self._tablet, entry)

    def apply_resolve(self, entry: LogEntry) -> None:
        """Applies a RESOLVE entry. Needs the tablet's `write_lock`."""
        resolution = decode_resolution(entry.body, f"entry {entry.index}")
        self._applier.finish()
        tablet = self._tablet
        tablet.staged.end(resolution.transaction, entry.index)
        prepared = tablet.prepared.get(resolution.transaction)
        if prepared is None:
            return  # the files have its outcome
        logged, timestamp = prepared.logged, resolution.timestamp
        if not resolution.is_committed:
            logged.undo()
        elif timestamp != logged.timestamp:
            tablet.prepared.leave_timestamp(timestamp)
            logged.restamp(timestamp)
            tablet.newest = max(tablet.newest, timestamp)
        # All this before readers of its rows go on.
        self._clock.update(Timestamp(timestamp))
        tablet.mvcc.note_committed(timestamp)
        tablet.prepared.remove(resolution.transaction)
        tablet.mvcc.release(prepared.timestamp)
        if resolution.is_committed:
            prepared.decision.commit()
        else:
            prepared.decision.abort()


class _Part(NamedTuple):
    """A part that is to be prepared. All functions need the tablet's `write_lock`."""

    blocker: Callable[[], Decision | None]
    """See `TabletWrite.blocker`."""
    check: Callable[[], None]
    """Raises `SerializationFailure` for a conflict."""
    prepare: Callable[[int], PreparedWrite]
    """Logs the part and changes memory, at the proposed timestamp or a later one."""


def _check_transaction(transaction: str) -> None:
    """Raises `ProtocolError` for a transaction that is no UUID in lower-case hex: the log has the bytes."""
    check_call(_decision_call(transaction))
    if bytes.fromhex(transaction).hex() != transaction:
        raise ProtocolError(f"{transaction!r} is no transaction: a UUID in lower-case hex is expected")


def _decision_call(transaction: str) -> Call:
    """Call id of the decision: the transaction is the client."""
    return Call(transaction, 1, 0)
