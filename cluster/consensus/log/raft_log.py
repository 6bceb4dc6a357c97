"""The replicated log of one tablet: changed in memory at once, made durable by a log thread.

    base          written        last
     |               |             |
     ▼               ▼             ▼
     ├─ segments ────┤             │      read by offset (`log.log_segments`)
     │        ├──── tail ──────────┤      newest entries in memory: all unwritten ones, and some that are written

`append` and `truncate` change the memory only, so a `RaftNode` can be stepped without waiting for a disk. `persist`
brings the files up to date: truncation first, then the new entries, then one fsync for all of them. Entries that arrive
meanwhile wait for the next call (group commit).

After one failure of a disk its content is unknown. The log has then failed: it reports nothing as durable any more.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence

import pyarrow as pa

from ....errors import OperationalError
from ....storage.files.filesystem import FileSystem
from ....storage.log.wal_format import EntryKind, LogEntry
from ...disk_errors import is_full
from ...raft.messages import Entry
from .log_segments import LogSegments

SEGMENT_BYTES = 8 << 20
"""As in Kudu. A server has hundreds of logs, and entries for slow followers are kept by whole segments."""
CACHE_BYTES = 2 << 20
"""Most bytes of bodies of written entries that are kept in memory for followers."""

AlterSchema = Callable[[bytes], pa.Schema]
"""Returns the schema of logged rows after an ALTER entry, from its body (`log_schema`)."""


class RaftLog:
    """Implements `raft.events.Log`; `append` and `truncate` are called by one thread at a time, everything else by any.

    Locks, in the order in which they are acquired: `_disk` (for work on the files), `_mutex` (for the memory), the
    segments' own.

    Attributes
    ----------
    failure : Exception or None
        The reason for which the files cannot be written any more. A full disk is no failure: the remains of a failed
        write are truncated before the next one.
    configurations : list of Entry
        The CONFIGURATION entries that were read when the log was opened, ascending.
    newest_timestamp : int
        The greatest timestamp of an entry that was read then; 0 if there was none.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        schema: pa.Schema,
        *,
        base_index: int = 0,
        base_term: int = 0,
        known_index: int = 0,
        alter_schema: AlterSchema | None = None,
        syncs: bool = True,
        segment_bytes: int = SEGMENT_BYTES,
        cache_bytes: int = CACHE_BYTES,
    ):
        """Opens a log in an existing directory.

        Parameters
        ----------
        schema : pa.Schema
            Of the rows in the first segment, if there is none yet.
        base_index, base_term : int
            The last entry that is in the tablet's files and may be gone from the log.
        known_index : int
            Entries up to here were durable: raises `CorruptionError` if they are damaged or missing.
        alter_schema : callable
            A log without it supports no ALTER entries.
        syncs : bool
            False: what the operating system has counts as durable (durability "os"); `persist(force=True)` still syncs.
        """
        self.failure: Exception | None = None
        self.configurations: list[Entry] = []
        self.newest_timestamp = 0
        self._alter_schema = alter_schema
        self._syncs = syncs
        self._cache_bytes = cache_bytes
        self._base_index = base_index
        self._terms: list[tuple[int, int]] = [(base_index, base_term)]
        self._schemas: list[tuple[int, pa.Schema]] = []
        self._tail: list[Entry] = []
        self._tail_bytes = 0
        self._last_index = base_index
        self._segments = LogSegments.recover(
            fs, directory, segment_bytes, base_index, max(known_index, base_index), self._find
        )
        if not self._schemas:
            self._schemas.append((base_index + 1, schema))
        self._written_index = self._synced_index = self._told_index = self._last_index
        self._file_index = self._last_index
        """The last entry that is in the files, or being written."""
        self._cut: int | None = None
        """The files must be truncated after this entry before anything is written."""
        self._truncations = 0
        self._is_torn = False
        """True if the files may have remains, after `_cut`, of a write for which there was no space."""
        self._disk = threading.Lock()
        self._mutex = threading.Lock()

    def _find(self, entry: LogEntry, schema: pa.Schema) -> None:
        """Records an entry of the files."""
        self._last_index = entry.index
        self.newest_timestamp = max(self.newest_timestamp, entry.timestamp)
        if self._terms[-1][1] != entry.term:
            self._terms.append((entry.index, entry.term))
        if not self._schemas or self._schemas[-1][1] is not schema:
            self._begin_schema(entry.index, schema)
        if entry.kind is EntryKind.ALTER:
            self._begin_schema(entry.index + 1, self._schema_behind(bytes(entry.body)))
        elif entry.kind is EntryKind.CONFIGURATION:
            body = bytes(entry.body)
            self.configurations.append(Entry(entry.term, entry.index, entry.timestamp, int(entry.kind), body))

    def _begin_schema(self, index: int, schema: pa.Schema) -> None:
        if self._schemas and self._schemas[-1][0] == index:
            del self._schemas[-1]  # announced by the preceding ALTER; the segment that it began has the schema itself
        self._schemas.append((index, schema))

    def _schema_behind(self, body: bytes) -> pa.Schema:
        if self._alter_schema is None:
            raise ValueError("an ALTER entry in a log that was opened without alter_schema")
        # A new object each time: segments are compared by its identity.
        schema = self._alter_schema(body)
        return pa.schema(list(schema), schema.metadata)

    # ---- what is in it -------------------------------------------------------------------------------------------

    @property
    def base_index(self) -> int:
        """Entries up to this index were removed."""
        return self._base_index

    @property
    def base_term(self) -> int:
        """The term of entry `base_index`."""
        with self._mutex:
            return self._terms[0][1]

    @property
    def last_index(self) -> int:
        """The index of the newest entry."""
        return self._last_index

    @property
    def synced_index(self) -> int:
        """Entries up to this index have been synced to the disk, whatever the durability."""
        return self._synced_index

    @property
    def memory_bytes(self) -> int:
        """Bytes of the bodies in memory: all unwritten entries, and a few others."""
        return self._tail_bytes

    @property
    def unwritten_bytes(self) -> int:
        """Bytes of the bodies of entries that are not in the files yet."""
        with self._mutex:
            count = self._last_index - self._written_index
            return sum(len(entry.body) for entry in self._tail[len(self._tail) - count :]) if count else 0

    def term(self, index: int) -> int | None:
        """Returns the term of an entry, also of `base_index`; None if the log does not have it."""
        with self._mutex:
            return self._term(index)

    def _term(self, index: int) -> int | None:
        if not self._base_index <= index <= self._last_index:
            return None
        terms = self._terms
        if index >= terms[-1][0]:
            return terms[-1][1]
        return terms[bisect_right(terms, index, key=_first) - 1][1]

    def schema_at(self, index: int) -> pa.Schema:
        """Returns the schema of the rows in entry `index`, or of the next entry."""
        with self._mutex:
            return self._schemas[max(bisect_right(self._schemas, index, key=_first) - 1, 0)][1]

    def entries(self, first: int, last: int, max_bytes: int) -> Sequence[Entry]:
        """Returns entries `first` to `last`, at least one, as far as `max_bytes` of bodies go; may return fewer. Raises
        `DiskError` or `CorruptionError` if entries must be read from the files and cannot."""
        with self._mutex:
            if not self._base_index < first <= last <= self._last_index:
                raise IndexError(
                    f"the log has entries {self._base_index + 1} to {self._last_index}, not {first} to {last}"
                )
            tail_first = self._last_index + 1 - len(self._tail)
            if first >= tail_first:
                in_memory = self._tail[first - tail_first : last + 1 - tail_first]
                return in_memory[: _fitting(in_memory, max_bytes)]
        return self._segments.read(first, min(last, tail_first - 1), max_bytes)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._segments.size

    def size_from(self, index: int) -> int:
        """Returns the bytes of the segments that must stay because of entry `index` and later ones."""
        return self._segments.size_from(index)

    @property
    def finished_index(self) -> int:
        """Last entry of the finished segments; 0 if there is none."""
        return self._segments.finished_index

    # ---- changes in memory ---------------------------------------------------------------------------------------

    def append(self, entries: Sequence[Entry]) -> None:
        """Appends entries after the last one."""
        with self._mutex:
            for entry in entries:
                assert entry.index == self._last_index + 1, f"entry {entry.index} after {self._last_index}"
                self._last_index = entry.index
                if self._terms[-1][1] != entry.term:
                    self._terms.append((entry.index, entry.term))
                self._tail.append(entry)
                self._tail_bytes += len(entry.body)
                if entry.kind == EntryKind.ALTER:
                    self._begin_schema(entry.index + 1, self._schema_behind(entry.body))
            if self._tail_bytes > self._cache_bytes:
                self._shrink_tail()

    def truncate(self, last_index: int) -> None:
        """Removes the entries after `last_index`."""
        with self._mutex:
            assert last_index >= self._base_index, f"entry {last_index} is before the log's beginning"
            if last_index >= self._last_index:
                return
            while self._tail and self._tail[-1].index > last_index:
                self._tail_bytes -= len(self._tail.pop().body)
            self._last_index = last_index
            while len(self._terms) > 1 and self._terms[-1][0] > last_index:
                self._terms.pop()
            while len(self._schemas) > 1 and self._schemas[-1][0] > last_index + 1:
                self._schemas.pop()
            if last_index < self._file_index:
                self._cut = last_index if self._cut is None else min(self._cut, last_index)
            self._written_index = min(self._written_index, last_index)
            self._synced_index = min(self._synced_index, last_index)
            self._told_index = min(self._told_index, last_index)
            self._truncations += 1

    def _shrink_tail(self) -> None:
        """Evicts written entries from memory. Needs `_mutex`."""
        count = 0
        for entry in self._tail:
            if entry.index > self._written_index or 2 * self._tail_bytes <= self._cache_bytes:
                break
            self._tail_bytes -= len(entry.body)
            count += 1
        del self._tail[:count]

    # ---- changes on the disk -------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """True if `persist` has work, or a result to be reported (`note_reported`)."""
        return self._cut is not None or self._told_index < self._last_index

    def persist(self, force: bool = False) -> tuple[int, int] | None:
        """Durably brings the files to the state of the memory.

        Returns (index, term) of the last durable entry, as all before it are; None if the log was truncated
        concurrently: call it again. Raises `DiskError` if the disk fails, or has failed before; after a full disk it
        may be called again. One thread at a time works, others wait.
        """
        syncs = self._syncs or force
        with self._disk:
            with self._mutex:
                if self.failure is not None:
                    raise self.failure
                cut, self._cut = self._cut, None
                last, durable, truncations = self._last_index, self._synced_index, self._truncations
                count = last - self._written_index
                entries = self._tail[len(self._tail) - count :] if count else []
                self._file_index = last
            try:
                if self._is_torn:
                    self._segments.restore(min(last if cut is None else cut, self._written_index))
                    self._is_torn = False
                elif cut is not None:
                    self._segments.cut(cut)
                self._segments.write(entries, durable, self.schema_at)
                if syncs:
                    self._segments.sync()
            except (OperationalError, OSError) as error:
                if not is_full(error) or not self._take_back(cut):
                    self.failure = error
                raise
            with self._mutex:
                reached = last if self._cut is None else min(last, self._cut)
                self._written_index = reached
                if syncs:
                    self._synced_index = reached
                if self._tail_bytes > self._cache_bytes:
                    self._shrink_tail()
                if truncations != self._truncations:
                    return None
                term = self._term(reached)
        assert term is not None, "a log that was not truncated has its entries"
        return reached, term

    def _take_back(self, cut: int | None) -> bool:
        """Prepares to repeat a failed write. False if unsynced entries are no longer in memory: a failed sync may have
        lost them."""
        with self._mutex:
            if self._last_index - len(self._tail) > self._synced_index:
                return False
            self._written_index = min(self._written_index, self._synced_index)
            self._cut = self._written_index if cut is None else min(cut, self._written_index)
            self._is_torn = True
            return True

    def note_reported(self, index: int) -> None:
        """Records that the node was notified of durable entries up to this index."""
        with self._mutex:
            self._told_index = max(self._told_index, min(index, self._last_index))

    def index_before(self, index: int, max_bytes: int) -> int:
        """Returns the last entry before the newest segments that end at or before `index` and together have at most
        `max_bytes`; 0 if all segments are among those."""
        return self._segments.index_before(index, max_bytes)

    def new_base(self, index: int) -> tuple[int, int] | None:
        """Returns (index, term) of the last entry that can be removed with whole segments, if all up to `index` may; or
        None."""
        base = self._segments.removable_index(index)
        with self._mutex:
            term = self._term(base)
            return None if term is None or base <= self._base_index else (base, term)

    def forget(self, base_index: int) -> None:
        """Drops the entries up to `base_index` (from `new_base`, already durably recorded by the caller)."""
        with self._mutex:
            term = self._term(base_index)
            if term is None:
                return
            later = [(index, term) for index, term in self._terms if index > base_index]
            self._base_index = base_index
            self._terms = [(base_index, term), *later]
            place = bisect_right(self._schemas, base_index + 1, key=_first) - 1
            self._schemas = self._schemas[max(place, 0) :]
            kept = self._last_index - base_index
            if kept < len(self._tail):
                gone = self._tail[: len(self._tail) - kept]
                self._tail_bytes -= sum(len(entry.body) for entry in gone)
                self._tail = self._tail[len(gone) :]

    def remove_files(self) -> None:
        """Removes the files all of whose entries were dropped. After a `DiskError` the remaining ones are removed when
        the log is next opened."""
        with self._disk:
            self._segments.remove_through(self._base_index)

    def close(self) -> None:
        """Makes everything durable and closes the files, also on `DiskError`."""
        try:
            if self.failure is None:
                self.persist(force=True)
        finally:
            with self._disk:
                self._segments.close()


def _first(run: tuple[int, object]) -> int:
    return run[0]


def _fitting(entries: Sequence[Entry], max_bytes: int) -> int:
    """Returns how many entries, at least one, fit into this number of bytes."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry.body)
        if size > max_bytes and count:
            return count
    return len(entries)
