"""Entries of a replica's log for people: what is around the rows, for `nyala fs dump`."""

from __future__ import annotations

from dataclasses import replace

from ....model.clock import format_timestamp
from ....model.store import Timestamp
from ....storage.log.wal_format import EntryKind, LogEntry
from .tracked import decode_tracked
from .transaction_entries import decode_note, decode_prepare, decode_resolution, decode_staged


def open_entry(entry: LogEntry) -> tuple[LogEntry, str]:
    """Returns the entry of rows within an entry (itself, if it is none of a cluster's), and what the outer one says of
    its call or its transaction. Raises `CorruptionError`."""
    place, said = f"entry {entry.index}", ""
    if entry.kind is EntryKind.TRACKED:
        header, kind, body = decode_tracked(entry.body, place)
        entry = replace(entry, kind=kind, body=body)
        said = "" if header.is_lasting else f"call {header.sequence} of client {header.client}"
    if entry.kind is EntryKind.PREPARE:
        note, rows = decode_prepare(entry.body, place)
        known = decode_note(note)
        said = f"prepares transaction {known.transaction}, which tablet {known.tablet_id} decides"
        said += f", with the rows of {known.staged} entries" if known.staged else ""
        entry = replace(entry, kind=EntryKind.PART, body=rows)
    elif entry.kind is EntryKind.STAGE:
        note, rows = decode_prepare(entry.body, place)
        staged = decode_staged(note)
        said = f"part {staged.number} of transaction {staged.transaction}, which tablet {staged.tablet_id} decides"
        entry = replace(entry, kind=EntryKind.PART, body=rows)
    elif entry.kind is EntryKind.RESOLVE:
        resolution = decode_resolution(entry.body, place)
        said = f"aborts transaction {resolution.transaction}"
        if resolution.is_committed:
            moment = format_timestamp(Timestamp(resolution.timestamp))
            said = f"commits transaction {resolution.transaction} at {moment}"
    return entry, said
