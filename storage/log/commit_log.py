"""The commit log of a store: which writes over several tablets count.

A write over several tablets is one PART entry in the log of each of them, all with its timestamp, and one COMMIT entry
here. The COMMIT decides: a crash, or a log that fails, before it is durable leaves nothing of the write, afterwards
everything.

    logs of the tablets     PART  PART  PART           appended in one go, under the tablets' write locks
                             │     │     │             synced at the same time
                             └─────┼─────┘
    commit log                  COMMIT                 appended and synced when all of them are durable
                                   │
    memory                      visible, in all tablets at the same moment

1. Until the decision the rows are in memory, in flight (`mvcc`), and other writers keep away from their keys
   (`Tablet.deciding`): so what is undone has nothing built on it, and later entries of the same logs stand by
   themselves. Nothing that a flush or a compaction writes contains them, since these wait for writes in flight.
2. Where a tablet's log, or this one, fails, the parts are undone in memory. Their entries stay in the logs of the other
   tablets, and replay passes over them, now and for ever: no other write ever gets the same timestamp.
3. Recovery reads this log first, then replays the tablets'.
4. A COMMIT may be forgotten when no participant will replay its part any more (`TabletMetadata.replay_index`), or has
   been dropped. Records are counted in chunks; a segment goes when all chunks in it may go.

It is a `WriteAheadLog` like the tablets', `commits/<first index>.log`: the same group commit, checksums, cutting of
torn tails. The body of a COMMIT is the msgpack map {tablet id: index of the last entry of its part}. There is no such
folder before the first write over several tablets.

A COMMIT that is lost takes an acknowledged write with it, so others are its witnesses:

    its end       each entry of a tablet's log, and each tablet's metadata, has the number up to which the commit log
                  was durable when it was written. A log that ends before has lost its end
    its start     `commits/forgotten`, a checked file {index}: the COMMITs up to there were removed on purpose. It is
                  replaced before a segment is removed. A log that begins behind has lost its start
    in between    the entries' own numbers, as in every log

What the log does not decide on is unknown then: tablets whose logs have such parts go into quarantine, and no write
over several tablets is taken, until the files are restored. In turn a COMMIT is a witness for the tablets' logs: one
that ends before its part has lost something, too (not with durability "os", where the parts need not be synced).
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field

import pyarrow as pa

from ...errors import CorruptionError, OperationalError
from ...model.codec.packing import pack, unpack
from ...model.lazy_dataclass import dataclass
from ..files.checked_file import read_checked, replace_checked
from ..files.filesystem import FileSystem
from .wal import LogTicket, Witnessed, WriteAheadLog
from .wal_format import EntryKind, LogEntry
from .wal_recovery import RecoveredLog, read_log, segment_index

_log = logging.getLogger("nyala.storage")

SEGMENT_BYTES = 1 << 20
CHUNK_RECORDS = 1024
"""Records whose participants are counted together: few, so that segments go soon; many, so that they take no memory."""
FORGOTTEN = "forgotten"
"""File with the number of the last COMMIT that was removed on purpose."""
_MAGIC = b"nyalaCMT"
_VERSION = 1
_NO_COLUMNS = pa.schema([])


@dataclass(slots=True)
class _Chunk:
    """Consecutive records; `needed` is, for each participant, the last entry that one of them is about."""

    first: int
    last: int
    needed: dict[str, int] = field(default_factory=dict)

    def is_replayed(self, replayed: Mapping[str, int]) -> bool:
        """True if no participant that there is still needs one of the records."""
        return all(replayed.get(tablet, index) >= index for tablet, index in self.needed.items())


class CommitLog:
    """Safe for several threads.

    Parameters
    ----------
    fs : FileSystem
    directory : str
        The folder of its segments, made when it is needed first.
    syncs : bool
        False: durability "os". A commit then survives the process, as the entries of its parts do.
    is_trial : bool
        Opened by a check that drops what recovery writes: nothing is logged.
    """

    def __init__(self, fs: FileSystem, directory: str, syncs: bool = True, is_trial: bool = False):
        self._fs = fs
        self._directory = directory
        self._syncs = syncs
        self._is_trial = is_trial
        self._has_directory = fs.exists(directory)
        self._chunks: deque[_Chunk] = deque()
        self._recovered: set[int] = set()
        self._decided: dict[int, Mapping[str, int]] = {}
        """COMMITs that the catalog has decided on, and which have no record yet: `note_decided`."""
        self._last_parts: dict[str, tuple[int, int]] = {}
        """For each tablet, the last synced entry of a part, and the number of its COMMIT."""
        self._witness = 0
        self._lock = threading.Lock()
        """Guards the chunks, and the making of the directory; taken before the log's mutex."""
        self.durable = Witnessed()
        """Up to which COMMIT the log is durable; for the tablets' logs."""
        self.check_settled: Callable[[], None] = lambda: None
        """Raises `DiskError` while it is unknown whether the catalog has decided on a COMMIT."""
        self.damage: CorruptionError | None = None
        """Reason why the log cannot be read: writes without a known decision stay undecided then, and no record is
        appended."""
        self._found = RecoveredLog([], [], 0)
        try:
            self._found = self._read()
        except CorruptionError as error:
            self._refuse(error)
        self._log = WriteAheadLog(fs, directory, _NO_COLUMNS, self._found.last_index, syncs, SEGMENT_BYTES)
        """Takes records from `opened` on."""

    def _refuse(self, damage: CorruptionError) -> None:
        self.damage = damage
        if self._is_trial:
            return
        message = "the commit log is damaged and left as it is, writes over several tablets are refused: %s"
        _log.error(message, damage)

    @property
    def last_index(self) -> int:
        """Number of the last COMMIT."""
        return self._log.last_index

    def check_whole(self) -> None:
        """Raise `CorruptionError` where the log takes no record."""
        if self.damage is not None:
            cause = str(self.damage).removeprefix(f"{self.damage.path}: {self.damage.place}: ")
            raise CorruptionError(
                f"{cause}; writes over several tablets are refused until the commit log is restored from a backup; "
                "those of one tablet work",
                self.damage.path,
                self.damage.place,
            )

    # ---- recovery ------------------------------------------------------------------------------------------------

    def _read(self) -> RecoveredLog:
        """Read all records; no file is changed."""
        fs, directory = self._fs, self._directory
        if not self._has_directory:
            return RecoveredLog([], [], 0)
        forgotten = self._read_forgotten()
        names = self._segments()
        if not names:
            return RecoveredLog([], [], forgotten or 0)
        before = segment_index(directory, min(names)) - 1
        if forgotten is not None and before > forgotten:
            message = f"the log begins with COMMIT {before + 1}, but those behind {forgotten} were kept"
            raise CorruptionError(message, f"{directory}/{min(names)}", "start")
        return read_log(fs, directory, before, 0, self._replay)

    def _read_forgotten(self) -> int | None:
        """The last COMMIT that was removed on purpose; None if an earlier version did not record it."""
        path = f"{self._directory}/{FORGOTTEN}"
        if not self._fs.exists(path):
            return None
        return int(read_checked(self._fs, path, _MAGIC, _VERSION)["index"])

    def _replay(self, entry: LogEntry, schema: pa.Schema) -> None:
        if entry.kind is not EntryKind.COMMIT:
            raise CorruptionError(f"an entry of kind {entry.kind.name}", self._directory, f"entry {entry.index}")
        parts = unpack(entry.body)
        self._recovered.add(entry.timestamp)
        self._note(entry.index, parts)
        if entry.witness:
            self._last_parts.update({tablet: (last, entry.index) for tablet, last in parts.items()})

    def is_committed(self, timestamp: int) -> bool:
        """True if the log had a COMMIT of this timestamp when it was opened: for replay, until `opened`.
        `CorruptionError` where that cannot be known."""
        if timestamp in self._recovered:
            return True
        if self.damage is not None:
            raise self.damage
        return False

    def note_decided(self, decided: Mapping[int, Mapping[str, int]]) -> None:
        """Count COMMITs that the catalog has decided on (`Catalog.decided`), whether they are in the log or not; before
        the tablets are opened."""
        for timestamp, parts in decided.items():
            if timestamp not in self._recovered:
                self._recovered.add(timestamp)
                self._decided[timestamp] = parts

    def record_decided(self) -> None:
        """Append and sync the records of `note_decided`; after `opened`. `DiskError` where the disk fails,
        `CorruptionError` where the log takes no record."""
        if self._decided:
            self.check_whole()
        while self._decided:
            timestamp, parts = next(iter(self._decided.items()))
            self.sync(self.append(timestamp, parts))
            del self._decided[timestamp]
            self._recovered.discard(timestamp)

    def last_part(self, tablet_id: str, given_up: int = 0) -> int:
        """The log entry of a tablet that is known to have been durable, since a COMMIT behind `given_up` names it; 0
        where there is none. Until `opened`."""
        last, commit = self._last_parts.get(tablet_id, (0, 0))
        return last if commit > given_up else 0

    def note_witness(self, index: int) -> None:
        """Record that, according to a tablet's file, the log was durable up to this COMMIT."""
        if index > self._witness:
            with self._lock:
                self._witness = max(self._witness, index)

    def opened(self) -> None:
        """All tablets are open: settle the files, and release what only replay needs.

        Where the log has lost its end, `damage` says so from now on. The tablets that have passed over parts must go
        into quarantine then: their COMMITs may be among what is lost.
        """
        last = self._found.last_index
        if self.damage is None and self._witness > last:
            message = f"the log ends with COMMIT {last}, but went on to COMMIT {self._witness}"
            self._refuse(CorruptionError(message, self._last_file(), "end"))
        if self.damage is None:
            recovered, self._found = self._found, RecoveredLog([], [], last)
            before = recovered.segments[0].segment.first_index - 1 if recovered.segments else last
            self._log = WriteAheadLog.settled(
                self._fs, self._directory, _NO_COLUMNS, recovered, before, self._syncs, SEGMENT_BYTES, self._is_trial
            )
            self._log.witnessed.durable_index = int(self._syncs)
            self.durable.durable_index = self._log.synced_index
        self._recovered, self._last_parts = set(), {}

    def _last_file(self) -> str:
        names = self._segments() if self._has_directory else []
        return f"{self._directory}/{max(names)}" if names else self._directory

    def _segments(self) -> list[str]:
        return [name for name in self._fs.list(self._directory) if name.endswith(".log")]

    # ---- committing ----------------------------------------------------------------------------------------------

    def append(self, timestamp: int, parts: Mapping[str, int]) -> LogTicket:
        """Append the COMMIT of a write whose parts are durable; it counts when `sync` has returned.

        Parameters
        ----------
        timestamp : int
            Of the write.
        parts : mapping of str to int
            For each tablet, the index of the last log entry of its part.

        Raises `DiskError` or `StoreClosed`: there is no such record, and there will be none.
        """
        body = pack(dict(parts))
        with self._lock:
            if not self._has_directory:
                self._make_directory()
            ticket = self._log.append(timestamp, EntryKind.COMMIT, [body])
            self._note(ticket.index, parts)
            return ticket

    def _make_directory(self) -> None:
        self._fs.make_directory(self._directory)
        self._write_forgotten(0)
        self._fs.sync_directory(self._directory.rpartition("/")[0] or "/")
        self._has_directory = True

    def _write_forgotten(self, index: int) -> None:
        replace_checked(self._fs, f"{self._directory}/{FORGOTTEN}", _MAGIC, _VERSION, {"index": index})

    def sync(self, ticket: LogTicket) -> None:
        """Block until a COMMIT is durable; it is decided in any case when this ends.

        Raises `DiskError` where it has failed, `OutcomeUnknown` where it may still be found by the next opening.
        """
        try:
            self._log.sync(ticket)
        except OperationalError:
            raise
        except BaseException:  # Ctrl-C while another thread syncs: a record that becomes durable later would be a lie
            with contextlib.suppress(OperationalError):
                self._log.sync(ticket)
            raise
        finally:
            self.durable.durable_index = self._log.synced_index

    def sync_now(self) -> None:
        """Make everything appended so far durable, and cut away what a failed write left; `DiskError` where the disk
        fails. Metadata of tablets must not be replaced before."""
        self.check_settled()
        self._log.repair()
        self._log.sync_now()
        self.durable.durable_index = self._log.synced_index

    def repair(self) -> None:
        """Cut away what a failed write left; `DiskError` while that cannot be."""
        self._log.repair()

    # ---- forgetting ----------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._log.size

    def _note(self, index: int, parts: Mapping[str, int]) -> None:
        """Count a record. Indexes of records that failed are given again, so they do not always ascend."""
        chunks = self._chunks
        if not chunks or index - chunks[-1].first >= CHUNK_RECORDS:
            chunks.append(_Chunk(index, index))
        chunk = chunks[-1]
        chunk.last = max(chunk.last, index)
        for tablet, entry in parts.items():
            chunk.needed[tablet] = max(chunk.needed.get(tablet, 0), entry)

    def forget(self, replayed: Callable[[], Mapping[str, int]]) -> None:
        """Remove the segments that are not needed any more; `DiskError` if one cannot be removed.

        `replayed` returns, for each existing tablet, the log entry up to which replay is not needed.
        """
        last = self._log.last_index  # before the look at the tablets: later records may be about newer ones
        replayed_by_tablet = replayed()
        with self._lock:
            while self._chunks and self._chunks[0].last <= last and self._chunks[0].is_replayed(replayed_by_tablet):
                self._chunks.popleft()
            floor = self._chunks[0].first - 1 if self._chunks else last
        for end in self._log.finished_segments:
            if end > floor:
                break
            # One by one: a crash must not take a segment and leave one before it.
            self._write_forgotten(end)
            self._log.remove_through(end)
            self._fs.sync_directory(self._directory)

    def holders(self) -> list[str]:
        """The ids of the tablets, dropped ones perhaps among them, that the oldest records are kept for."""
        with self._lock:
            return list(self._chunks[0].needed) if self._chunks else []

    def close(self) -> None:
        """Make everything durable and close the files; nothing can be appended afterwards."""
        self._log.close()
