"""Staged parts of a tablet: rows of transactions that are in the log, and not in memory yet.

    STAGE ──► STAGE ──► STAGE ──► PREPARE ──► outcome
    rows      rows      rows      in memory

A part that is too large for one log entry comes in several. They change nothing: no key is held, no reader waits, and
the tablet is flushed as ever. The PREPARE entry behind them brings their rows into memory, all at its own timestamp; it
refers to them, so the log must have them as long as that entry may be replayed (`StagedParts.floor`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import field, replace

from ...model.lazy_dataclass import dataclass
from ..log.wal import LogTicket


@dataclass(frozen=True, slots=True, eq=False)
class StagedEntry:
    """One STAGE entry.

    Parameters
    ----------
    index : int
        In the log.
    nbytes : int
        About the memory that its rows will take.
    ticket : LogTicket, optional
        Of an own entry, which may still be void; None: it is committed.
    """

    index: int
    nbytes: int
    ticket: LogTicket | None = None

    @property
    def is_void(self) -> bool:
        """True if the log does not have it any more."""
        return self.ticket is not None and self.ticket.error is not None


@dataclass(frozen=True, slots=True, eq=False)
class StagedPart:
    """The part of one transaction.

    Parameters
    ----------
    note : bytes
        What its first entry says of the transaction.
    version : int
        Version of the table that the rows are of.
    entries : dict of int to StagedEntry
        By number.
    since : float
        When the last one came: monotonic seconds.
    is_prepared : bool
        True once a PREPARE entry refers to it, though that may be void.
    ended : int
        Index of the entry with the outcome; 0: there is none yet.
    """

    note: bytes
    version: int
    entries: dict[int, StagedEntry]
    since: float = field(default_factory=time.monotonic)
    is_prepared: bool = False
    ended: int = 0

    @property
    def first_index(self) -> int:
        """Index of the first entry; 0 if all are void."""
        return min((entry.index for entry in self.entries.values() if not entry.is_void), default=0)

    @property
    def nbytes(self) -> int:
        """About the memory that all rows will take."""
        return sum(entry.nbytes for entry in self.entries.values() if not entry.is_void)

    def complete(self, count: int) -> list[StagedEntry] | None:
        """Returns entries 0 to `count` (exclusive); None if the part has others."""
        found = [entry for number in range(count) if (entry := self.entries.get(number)) and not entry.is_void]
        return found if len(found) == count == len(self.entries) else None


class StagedParts:
    """The staged parts of one tablet, by transaction id. Changed under the tablet's `write_lock`, but for
    `forget_through`; may be read without."""

    def __init__(self) -> None:
        self._parts: dict[str, StagedPart] = {}
        self._lock = threading.Lock()
        """Guards replacements of it."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __iter__(self) -> Iterator[tuple[str, StagedPart]]:
        return iter(self._parts.items())

    def get(self, transaction: str) -> StagedPart | None:
        """Returns the part of a transaction."""
        return self._parts.get(transaction)

    def add(self, transaction: str, note: bytes, version: int, number: int, entry: StagedEntry) -> None:
        """Adds an entry; of two with the same number the first one counts."""
        part = self._parts.get(transaction)
        if part is None:
            part = StagedPart(note, version, {number: entry})
        elif (known := part.entries.get(number)) is None or known.is_void:
            part = replace(part, entries={**part.entries, number: entry}, since=time.monotonic())
        self._put(transaction, part)

    def note_prepared(self, transaction: str) -> None:
        """Records that a PREPARE entry refers to the part."""
        self._put(transaction, replace(self._parts[transaction], is_prepared=True))

    def end(self, transaction: str, index: int) -> None:
        """Records the entry with the outcome. No-op if there is no such part."""
        part = self._parts.get(transaction)
        if part is None:
            return
        if part.is_prepared:
            self._put(transaction, replace(part, ended=index))
        else:
            self._remove([transaction])

    def drop_unprepared(self) -> None:
        """Drops the parts that no PREPARE entry refers to: the table was altered."""
        self._remove([name for name, part in self._parts.items() if not part.is_prepared])

    def floor(self, index: int) -> int:
        """Returns the entry, at or below `index`, from which on the log can be replayed: a PREPARE entry behind it has
        its STAGE entries behind it, too."""
        parts = [(part.first_index, part.ended) for part in self._parts.values() if part.first_index]
        while True:
            lower = min([index, *(first - 1 for first, ended in parts if not ended or ended > index)])
            if lower == index:
                return index
            index = lower

    def forget_through(self, index: int) -> None:
        """Forgets the parts whose outcome is never replayed again: the log is replayed from behind `index`."""
        if any(0 < part.ended <= index for part in self._parts.values()):
            self._remove([name for name, part in self._parts.items() if 0 < part.ended <= index])

    def _put(self, transaction: str, part: StagedPart) -> None:
        with self._lock:
            self._parts = {**self._parts, transaction: part}  # replaced, for readers without the lock

    def _remove(self, transactions: list[str]) -> None:
        with self._lock:
            self._parts = {name: part for name, part in self._parts.items() if name not in transactions}
