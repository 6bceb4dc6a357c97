"""Exactly-once: what the writes of clients were answered, so that one that comes again is answered, not done again.

    call (client, sequence) ──► known?  ── yes ─► its result
                                in flight? ─────► wait for the entry of the first one
                                no ─────────────► do it; the entry in the log (TRACKED) has the result with the rows

Every replica keeps the results of the entries that it has applied, so a later leader has those of all earlier ones.
A client tells with each call below which of its calls all were answered: those results are forgotten. A client that
wrote nothing for an hour is forgotten as a whole. Each replica counts that hour by its own clock that never jumps, from
when it heard of the entry: no timestamp, and so no wrong clock of a client or a leader, makes it forget. A replica that
was opened again counts from then, so it forgets later.

A leader notes a result when it appends the entry; until that is decided, the result is not valid. An entry that is
void never had a result. So a result needs no second step: its entry's ticket says what it is worth.

Entries whose rows are all in files are not applied again when the replica is opened, and the log loses them at last.
Before the tablet's metadata says so of more entries, all results of entries that are decided are written into
DIR/results, with the index of the last of these entries. A replica that is opened reads the file, and notes again what
the entries behind have.

    DIR/results     a checked file: {index, clients: [[client, newest timestamp, first incomplete, [[sequence, index,
                    result], ...]], ...]}
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from ... import errors
from ...errors import DeadlineExceeded, IntegrityError, OperationalError, ProtocolError
from ...model.store import RowError, Timestamp, WriteResult
from ...storage.files.filesystem import FileSystem
from ...storage.log.wal import LogTicket
from ..consensus.checked_structs import read_struct, replace_struct
from ..consensus.log.tracked import CallHeader
from ..decoders import converter, msgpack_decoder
from ..wire.messages.methods import Call, WrittenRow

MAGIC = b"nyalaRES"
VERSION = 1
NAME = "results"
IDLE_SECONDS = 3600
"""A client that wrote nothing for so long is forgotten."""
_SWEEP_SECONDS = 60
"""How often idle clients are looked for."""

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
    """A result as it is logged."""
    refused = tuple([WrittenRow(e.row, type(e.error).__name__, str(e.error)) for e in result.errors])
    return _encode(_Content(result.applied, result.timestamp, refused))


def decode_result(data: bytes) -> WriteResult:
    """The inverse; `ProtocolError` where the bytes are none."""
    try:
        content = _decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise ProtocolError(f"{len(data)} bytes are not a write's result: {error}") from error
    refused = tuple([RowError(row.row, _ERRORS.get(row.error, IntegrityError)(row.message)) for row in content.errors])
    return WriteResult(content.applied, refused, Timestamp(content.timestamp))


@dataclass(slots=True, eq=False)
class _Result:
    """What the entry `index` says; where it has a ticket, only if that is durable."""

    index: int
    body: bytes
    ticket: LogTicket | None


@dataclass(slots=True, eq=False)
class _Client:
    newest: int = 0
    """Hybrid time of its newest entry."""
    heard: float = 0.0
    """When this replica heard of it, by `Results`' clock."""
    first_incomplete: int = 0
    results: dict[int, _Result] = field(default_factory=dict)
    """By sequence number."""


class _SavedClient(Struct, frozen=True, array_like=True):
    client: str
    newest: int
    first_incomplete: int
    results: tuple[tuple[int, int, bytes], ...]
    """(Sequence number, index, result) each."""


class SavedResults(Struct, frozen=True):
    """All results of the entries up to `index`, as plain data."""

    index: int = 0
    clients: tuple[_SavedClient, ...] = ()

    def write(self, fs: FileSystem, directory: str) -> None:
        """Replace DIR/results durably; `DiskError` where the disk fails."""
        replace_struct(fs, f"{directory}/{NAME}", MAGIC, VERSION, self)

    @classmethod
    def read(cls, fs: FileSystem, directory: str) -> SavedResults:
        """The file; nothing where there is none, `CorruptionError` where it is damaged."""
        path = f"{directory}/{NAME}"
        return read_struct(fs, path, MAGIC, VERSION, _saved_from_plain) if fs.exists(path) else cls()

    def to_bytes(self) -> bytes:
        """For another server."""
        return _encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> SavedResults:
        """The inverse; `ProtocolError` where the bytes are none."""
        try:
            return _decode_saved(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise ProtocolError(f"{len(data)} bytes are no results of writes: {error}") from error


_saved_from_plain = converter(SavedResults)
_decode_saved = msgpack_decoder(SavedResults).decode


class Results:
    """The results of one tablet's writes. Safe for several threads.

    Parameters
    ----------
    saved : SavedResults
        Those of the entries that the log may have no more.
    now : callable
        Seconds that never jump.
    """

    def __init__(self, saved: SavedResults | None = None, now: Callable[[], float] = time.monotonic):
        self._now = now
        self._lock = threading.Lock()
        self._clients: dict[str, _Client] = {}
        self._running: dict[tuple[str, int], threading.Event] = {}
        """Calls that a thread of this replica is doing now; set when it does so no more."""
        self._swept = now()
        saved = saved or SavedResults()
        self.saved_index = saved.index
        """The file has the results of the entries up to here."""
        for client in saved.clients:
            results = {sequence: _Result(index, body, None) for sequence, index, body in client.results}
            self._clients[client.client] = _Client(client.newest, self._swept, client.first_incomplete, results)

    # ---- calls, at the leader ------------------------------------------------------------------------------------

    def begin(self, call: Call, wait: Callable[[LogTicket], None], deadline: float) -> bytes | None:
        """The result of a call that was done before; None: it is the caller's to do now, and `end` follows.

        Waits for the same call that is on its way, until `deadline` (`DeadlineExceeded`); `wait` waits for a ticket,
        and may raise what it likes. `ProtocolError` for a call of which the client has said that it was answered.
        """
        key = (call.client, call.sequence)
        while True:
            with self._lock:
                found = self._find(call)
                if isinstance(found, bytes):
                    return found
                if found is None:
                    running = self._running.get(key)
                    if running is None:
                        self._running[key] = threading.Event()
                        return None
            if found is not None:
                try:
                    wait(found)
                except OperationalError:
                    if not found.is_decided:
                        raise
            elif running is not None and not running.wait(deadline - time.monotonic()):
                raise DeadlineExceeded(f"call {call.sequence} of client {call.client} is still being done")

    def begin_at_once(self, call: Call) -> bool:
        """Is the call the caller's to do now, and `end` to follow? Not where it was done before, or is on its way."""
        with self._lock:
            key = (call.client, call.sequence)
            if key in self._running or self._find(call) is not None:
                return False
            self._running[key] = threading.Event()
            return True

    def _find(self, call: Call) -> bytes | LogTicket | None:
        """The result of a call, the ticket of an entry that may have it, or None. Needs the lock."""
        client = self._clients.get(call.client)
        if client is None:
            return None
        result = client.results.get(call.sequence)
        if result is None:
            if call.sequence < client.first_incomplete:
                raise ProtocolError(
                    f"call {call.sequence} of client {call.client} was answered: "
                    f"the client has said so of all calls below {client.first_incomplete}"
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
        """The thread does the call no more, however that went."""
        with self._lock:
            self._running.pop((call.client, call.sequence)).set()

    # ---- entries -------------------------------------------------------------------------------------------------

    def note(self, header: CallHeader, index: int, timestamp: int, ticket: LogTicket | None = None) -> None:
        """An entry has this result; with a ticket: if it comes to be durable."""
        with self._lock:
            if index <= self.saved_index:
                return
            client = self._clients.get(header.client)
            if client is None:
                client = self._clients[header.client] = _Client()
            client.newest = max(client.newest, timestamp)
            client.heard = now = self._now()
            if header.first_incomplete > client.first_incomplete:
                client.first_incomplete = header.first_incomplete
                for sequence in [s for s in client.results if s < header.first_incomplete]:
                    del client.results[sequence]
            client.results[header.sequence] = _Result(index, header.result, ticket)
            if now - self._swept > _SWEEP_SECONDS:
                self._sweep(now)

    def _sweep(self, now: float) -> None:
        self._swept = now
        for name in [name for name, client in self._clients.items() if client.heard < now - IDLE_SECONDS]:
            del self._clients[name]

    # ---- what the log loses --------------------------------------------------------------------------------------

    def save(self, index: int) -> SavedResults:
        """The results of the entries up to `index`, all of which are decided."""
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
                    )
                    for name, client in self._clients.items()
                ),
            )

    def note_saved(self, index: int) -> None:
        """The file has them up to here."""
        self.saved_index = max(self.saved_index, index)
