"""Exactly-once table: recorded results of clients' writes, so that a retried call gets its result and is not done
again.

    call (client, sequence) ──► recorded? ─ yes ─► its result
                                in flight? ──────► wait for the entry of the first one
                                no ──────────────► do it; the entry in the log (TRACKED) has the result with the rows

Every replica keeps the results of the entries that it has applied, so a later leader has those of all earlier ones.
With each call, a client sends the sequence number below which all its calls were answered: those results are dropped. A
client that wrote nothing for an hour is dropped as a whole; the outcome of a transaction (`transactions`) is kept. Each
replica measures that hour by its own monotonic clock, from when it received the entry: no timestamp, and so no wrong
clock of a client or a leader, shortens it. A replica that was reopened measures from then, so it keeps results longer.

A leader records a result when it appends the entry; until that is decided, the result is not valid. A void entry never
had a result. A result therefore needs no second step: the state of its entry's ticket decides its validity.

Entries whose rows are all in files are not applied again when the replica is opened, and the log finally removes them.
Before the tablet's metadata covers more entries, all results of decided entries are written to DIR/results, with the
index of the last of these entries. A replica that is opened reads the file, and records the results of later entries
again.

    DIR/results     a checked file: {index, clients: [[client, newest timestamp, first incomplete, [[sequence, index,
                    result], ...]], ...]}
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import field

import msgspec
from msgspec import Struct

from ... import errors
from ...errors import DeadlineExceeded, IntegrityError, OperationalError, ProtocolError
from ...model.lazy_dataclass import dataclass
from ...model.store import RowError, Timestamp, WriteResult
from ...storage.files.filesystem import FileSystem
from ...storage.log.wal import LogTicket
from ..consensus.checked_structs import read_struct, replace_struct
from ..consensus.log.tracked import CallHeader
from ..decoders import msgpack_decoder
from ..wire.messages.methods import Call, WrittenRow

MAGIC = b"nyalaRES"
VERSION = 1
NAME = "results"
IDLE_SECONDS = 3600
"""Seconds without a write after which a client is dropped."""
LASTING_SECONDS = 30 * 24 * 3600
"""The same for the outcome of a transaction, which is forgotten on purpose as a rule (`ExactlyOnceTable.forget`): for
so long a tablet that took part may be without a majority."""
_SWEEP_SECONDS = 60
"""Seconds between two searches for idle clients."""

_ERRORS: dict[str, type[IntegrityError]] = {
    name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, IntegrityError)
}


class _Content(Struct, frozen=True, array_like=True):
    """A `WriteResult` as bytes."""

    applied: int
    timestamp: int
    errors: tuple[WrittenRow, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgpack_decoder(_Content).decode


def encode_result(result: WriteResult) -> bytes:
    """Returns a result in its logged form."""
    refused = tuple([WrittenRow(e.row, type(e.error).__name__, str(e.error)) for e in result.errors])
    return _encode(_Content(result.applied, result.timestamp, refused))


def decode_result(data: bytes) -> WriteResult:
    """Inverse of `encode_result`; raises `ProtocolError` for invalid bytes."""
    try:
        content = _decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise ProtocolError(f"{len(data)} bytes are not a write's result: {error}") from error
    refused = tuple([RowError(row.row, _ERRORS.get(row.error, IntegrityError)(row.message)) for row in content.errors])
    return WriteResult(content.applied, refused, Timestamp(content.timestamp))


def check_call(call: Call | None) -> None:
    """Raise `ProtocolError` for a call whose numbers a log entry cannot have."""
    if call is None:
        return
    try:
        is_named = len(bytes.fromhex(call.client)) == 16
    except ValueError:
        is_named = False
    if not is_named or not 0 < call.sequence < 2**63 or not 0 <= call.first_incomplete <= call.sequence:
        raise ProtocolError(f"{call} is no call: a UUID in hex, a number from 1, and one up to that are expected")


@dataclass(slots=True, eq=False)
class _Result:
    """The result in entry `index`; if it has a ticket, valid only once that is durable."""

    index: int
    body: bytes
    ticket: LogTicket | None


@dataclass(slots=True, eq=False)
class _Client:
    newest: int = 0
    """Hybrid time of its newest entry."""
    heard: float = 0.0
    """When this replica received it, by the clock of `ExactlyOnceTable`."""
    first_incomplete: int = 0
    results: dict[int, _Result] = field(default_factory=dict)
    """By sequence number."""
    is_lasting: bool = False

    @property
    def idle_seconds(self) -> float:
        """Seconds without a write after which it is dropped."""
        return LASTING_SECONDS if self.is_lasting else IDLE_SECONDS


class _SavedClient(Struct, frozen=True, array_like=True):
    client: str
    newest: int
    first_incomplete: int
    results: tuple[tuple[int, int, bytes], ...]
    """(Sequence number, index, result) each."""
    is_lasting: bool = False


class SavedResults(Struct, frozen=True):
    """All results of the entries up to `index`, as plain data."""

    index: int = 0
    clients: tuple[_SavedClient, ...] = ()

    def write(self, fs: FileSystem, directory: str) -> None:
        """Durably replaces DIR/results; raises `DiskError`."""
        replace_struct(fs, f"{directory}/{NAME}", MAGIC, VERSION, self)

    @classmethod
    def read(cls, fs: FileSystem, directory: str) -> SavedResults:
        """Reads the file; empty if it does not exist, `CorruptionError` if it is damaged."""
        path = f"{directory}/{NAME}"
        return read_struct(fs, path, MAGIC, VERSION, _decode_saved) if fs.exists(path) else cls()

    def to_bytes(self) -> bytes:
        """Returns the encoded results, for another server."""
        return _encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> SavedResults:
        """Inverse of `to_bytes`; raises `ProtocolError` for invalid bytes."""
        try:
            return _decode_saved(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise ProtocolError(f"{len(data)} bytes are not results of writes: {error}") from error


_decode_saved = msgpack_decoder(SavedResults).decode


class ExactlyOnceTable:
    """The exactly-once table of one tablet. Thread-safe.

    Parameters
    ----------
    saved : SavedResults
        Those of the entries that the log may no longer have.
    now : callable
        Monotonic seconds.
    """

    def __init__(self, saved: SavedResults | None = None, now: Callable[[], float] = time.monotonic):
        self._now = now
        self._lock = threading.Lock()
        self._clients: dict[str, _Client] = {}
        self._running: dict[tuple[str, int], threading.Event | None] = {}
        """Calls that this replica is executing; the event, if a thread waits for it, is set at their end."""
        self._swept = now()
        saved = saved or SavedResults()
        self.saved_index = saved.index
        """The file has the results of the entries up to this index."""
        for client in saved.clients:
            results = {sequence: _Result(index, body, None) for sequence, index, body in client.results}
            self._clients[client.client] = _Client(
                client.newest, self._swept, client.first_incomplete, results, client.is_lasting
            )

    # ---- calls, at the leader ------------------------------------------------------------------------------------

    def begin(self, call: Call, wait: Callable[[LogTicket], None], deadline: float) -> bytes | None:
        """Returns the result of a call that was done before. None: the caller executes it now, and calls `end`.

        Waits for an execution in progress, until `deadline` (`DeadlineExceeded`); `wait` waits for a ticket, and its
        errors propagate. Raises `ProtocolError` for a call that the client has reported as answered.
        """
        key = (call.client, call.sequence)
        while True:
            with self._lock:
                found = self._find(call)
                if isinstance(found, bytes):
                    return found
                if found is None:
                    if key not in self._running:
                        self._running[key] = None
                        return None
                    running = self._running[key] = self._running[key] or threading.Event()
            if found is not None:
                try:
                    wait(found)
                except OperationalError:
                    if not found.is_decided:
                        raise
            elif running is not None and not running.wait(deadline - time.monotonic()):
                raise DeadlineExceeded(f"call {call.sequence} of client {call.client} is still in progress")

    def begin_at_once(self, call: Call) -> bool:
        """True if the caller executes the call now, and calls `end`; False if it was done before, or is in progress."""
        with self._lock:
            key = (call.client, call.sequence)
            if key in self._running or self._find(call) is not None:
                return False
            self._running[key] = None
            return True

    def _find(self, call: Call) -> bytes | LogTicket | None:
        """Returns the result of a call, the ticket of an entry that may have it, or None. Needs the lock."""
        client = self._clients.get(call.client)
        if client is None:
            return None
        result = client.results.get(call.sequence)
        if result is None:
            if call.sequence < client.first_incomplete:
                raise ProtocolError(
                    f"call {call.sequence} of client {call.client} was answered: "
                    f"the client has reported that for all calls below {client.first_incomplete}"
                )
            return None
        if result.ticket is None or result.ticket.durable:
            result.ticket = None
            return result.body
        if result.ticket.error is not None:
            del client.results[call.sequence]
            return None
        return result.ticket

    def end(self, call: Call) -> None:
        """Ends the execution of a call, whether it succeeded or failed."""
        with self._lock:
            running = self._running.pop((call.client, call.sequence))
        if running is not None:
            running.set()

    # ---- entries -------------------------------------------------------------------------------------------------

    def note(self, header: CallHeader, index: int, timestamp: int, ticket: LogTicket | None = None) -> None:
        """Records the result of an entry; with a ticket, valid if that becomes durable."""
        with self._lock:
            if index <= self.saved_index:
                return
            client = self._clients.get(header.client)
            if client is None:
                client = self._clients[header.client] = _Client()
            client.newest = max(client.newest, timestamp)
            client.is_lasting = header.is_lasting
            client.heard = now = self._now()
            if header.first_incomplete > client.first_incomplete:
                client.first_incomplete = header.first_incomplete
                for sequence in [s for s in client.results if s < header.first_incomplete]:
                    del client.results[sequence]
            client.results[header.sequence] = _Result(index, header.result, ticket)
            if now - self._swept > _SWEEP_SECONDS:
                self._swept = now
                for name in [n for n, client in self._clients.items() if client.heard < now - client.idle_seconds]:
                    del self._clients[name]

    def forget(self, clients: Iterable[str]) -> None:
        """Drops the outcomes of transactions, all of whose parts have ended."""
        with self._lock:
            for name in clients:
                client = self._clients.get(name)
                if client is not None and client.is_lasting:  # the results of writes are not for others to drop
                    del self._clients[name]

    # ---- results that the log no longer has
    # ---------------------------------------------------------------------------

    def save(self, index: int) -> SavedResults:
        """Returns the results of the entries up to `index`, all of which are decided."""
        with self._lock:
            return SavedResults(
                max(index, self.saved_index),
                tuple(
                    _SavedClient(
                        name,
                        client.newest,
                        client.first_incomplete,
                        tuple(
                            (sequence, result.index, result.body)
                            for sequence, result in client.results.items()
                            if result.index <= index and (result.ticket is None or result.ticket.durable)
                        ),
                        client.is_lasting,
                    )
                    for name, client in self._clients.items()
                ),
            )

    def note_saved(self, index: int) -> None:
        """Records that the file has the results up to this index."""
        self.saved_index = max(self.saved_index, index)
