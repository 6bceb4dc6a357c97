"""Parts of transactions that take several log entries, at one replica: staged, then prepared as one.

    client    StageWrite 0, 1, 2 ...                       PrepareWrite(staged=n)
    log       STAGE: net changes, checked against the      PREPARE: no rows
              snapshot; nothing in memory, no key held
    memory                                                 the rows of the STAGE entries, at the PREPARE's timestamp

The net changes of a STAGE entry depend on whether its keys exist. They are those at the snapshot, if no other
transaction has changed a key since: so a conflict is looked for twice, when an entry is staged and, under the lock
under which the part is prepared, for the keys of all entries. Clocks are led to the snapshot before, so that no change
after the first check has a timestamp at or below it.

The rows of staged entries are read from the log again; the replica only notes where they are (`StagedPart`). A staged
part without new entries for `STAGED_SECONDS` is ended like a prepared one whose client has gone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ...errors import CorruptionError, SerializationFailure, StaleSchema
from ...model.store import WriteBatch
from ...storage.log.decision import Decision
from ...storage.log.tablet_log import WriteContext
from ...storage.log.wal_format import EntryKind, LogEntry
from ...storage.rowsets.memrowset import INDEX_BYTES
from ...storage.tablet.staged import StagedEntry
from ...storage.tablet.tablet import Tablet
from ...storage.writing.incoming_rows import as_conflict, incoming, row_errors
from ...storage.writing.tablet_write import TabletWrite
from ..consensus.consensus import Consensus
from ..consensus.log.transaction_entries import (
    PreparedNote,
    StagedNote,
    decode_prepare,
    decode_staged,
    encode_note,
    encode_prepare,
)
from .layout import ReplicaLayout

STAGED_SECONDS: Final = 300.0
"""Seconds after which the leader of a staged part without new entries requests the outcome. Nothing waits for it."""
MEMORY_SHARE: Final = 0.25
"""Share of a server's memory limit that the rows of one part may take: they cannot be flushed before the outcome."""


class NoteContext(WriteContext):
    """Makes an entry of another kind of the rows of a part: with a note."""

    def __init__(self, kind: EntryKind, note: bytes, deadline: float):
        super().__init__(deadline)
        self._kind = kind
        self._note = note

    def encode(self, timestamp: int, kind: EntryKind, body: bytes) -> tuple[EntryKind, bytes]:
        return self._kind, encode_prepare(self._note, body)


class Staging:
    """Some rows that are to be staged at the leader.

    Parameters
    ----------
    tablet : Tablet
    layout : ReplicaLayout
    note : StagedNote
    batch : WriteBatch
        Unchanged since the transaction's snapshot.
    nbytes : int
        About the memory that the rows will take.
    deadline : float
    """

    def __init__(
        self,
        tablet: Tablet,
        layout: ReplicaLayout,
        note: StagedNote,
        batch: WriteBatch,
        nbytes: int,
        deadline: float,
    ):
        rows = incoming(layout.table, batch)
        for refused in row_errors(layout.table, rows):
            raise refused.error
        layout.check_rows(rows.rows)
        self._tablet = tablet
        self._note = note
        self._encoded = encode_note(note)
        self._nbytes = nbytes
        context = NoteContext(EntryKind.STAGE, self._encoded, deadline)
        self._write = TabletWrite(tablet, layout.table, rows, np.arange(len(rows)), context, batch.unchanged_since)
        self._write.probe()

    def propose(self) -> Decision | None:
        """Appends the entry; returns the decision to wait for instead, if another transaction has prepared one of the
        keys. Needs the tablet's `write_lock`, with settled writes."""
        write, note = self._write, self._note
        if (blocker := write.blocker()) is not None:
            return blocker
        write.check()
        for refused in write.errors:
            raise as_conflict(refused.error)
        write.encode_staged()
        ticket = write.stage(self._tablet.mvcc.start())
        entry = StagedEntry(ticket.index, self._nbytes, ticket)
        self._tablet.staged.add(note.transaction, self._encoded, note.version, note.number, entry)
        return None

    def finish(self) -> None:
        """Returns when the entry is committed; raises as `TabletWrite.finish`."""
        self._write.finish()


def complete_part(tablet: Tablet, note: PreparedNote, version: int | None) -> list[StagedEntry]:
    """Returns the staged entries that a PREPARE request refers to; raises `SerializationFailure` if they were dropped
    meanwhile, `StaleSchema` if their rows are of another version of the table than the caller's."""
    part = tablet.staged.get(note.transaction)
    entries = None if part is None or part.ended else part.complete(note.staged)
    if part is None or entries is None:
        raise _dropped(tablet)
    if version is not None and part.version != version:
        raise StaleSchema(f"the rows of transaction {note.transaction} are of version {part.version} of the table")
    return entries


def _dropped(tablet: Tablet) -> SerializationFailure:
    return SerializationFailure(
        f"the rows that the transaction has sent to table {tablet.table.name} were dropped, since it took too long to "
        "commit or the table was altered; retry the transaction"
    )


def requested_pieces(
    tablet: Tablet, consensus: Consensus, note: PreparedNote, version: int | None
) -> list[tuple[LogEntry, pa.Schema]]:
    """`complete_part`, read from the log."""
    entries = complete_part(tablet, note, version)
    try:
        return _read(consensus, entries)
    except IndexError:  # the outcome has come since, and the log was cut
        raise _dropped(tablet) from None


def applied_pieces(
    tablet: Tablet, consensus: Consensus, note: PreparedNote, place: str
) -> list[tuple[LogEntry, pa.Schema]]:
    """Returns the entries that an applied PREPARE entry refers to; `CorruptionError` if the replica does not know
    all of them."""
    part = tablet.staged.get(note.transaction)
    entries = None if part is None else part.complete(note.staged)
    if entries is None:
        raise CorruptionError(f"the log lacks rows of transaction {note.transaction}", tablet.directory, place)
    return _read(consensus, entries)


def _read(consensus: Consensus, entries: Sequence[StagedEntry]) -> list[tuple[LogEntry, pa.Schema]]:
    """Reads STAGE entries from the log: their rows, and the schema of these."""
    pieces: list[tuple[LogEntry, pa.Schema]] = []
    for staged in entries:
        (entry,) = consensus.entries(staged.index, staged.index, 1)
        _, rows = decode_prepare(memoryview(entry.body), f"entry {entry.index}")
        piece = LogEntry(entry.term, entry.index, entry.timestamp, 0, EntryKind.PART, rows)
        pieces.append((piece, consensus.log.schema_at(entry.index)))
    return pieces


def apply_stage(tablet: Tablet, entry: LogEntry) -> None:
    """Applies a STAGE entry of another leader. Needs the tablet's `write_lock`."""
    encoded, rows = decode_prepare(entry.body, f"entry {entry.index}")
    note = decode_staged(encoded)
    staged = StagedEntry(entry.index, part_bytes(len(rows), note.rows))
    tablet.staged.add(note.transaction, encoded, note.version, note.number, staged)


def part_bytes(nbytes: int, rows: int) -> int:
    """About the memory that rows of `nbytes` bytes take, with their keys: in the index, and held."""
    return nbytes + 2 * INDEX_BYTES * rows


def abandoned_parts(tablet: Tablet, seconds: float) -> list[StagedNote]:
    """Returns the transactions that have staged rows, but prepared none, for at least `seconds`."""
    before = time.monotonic() - seconds
    return [
        decode_staged(part.note)
        for transaction, part in tablet.staged
        if not part.ended and part.since <= before and tablet.prepared.get(transaction) is None
    ]
