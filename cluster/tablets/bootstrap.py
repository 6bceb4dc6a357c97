"""Remote bootstrap: copying a replica to another server.

    source                                          sink
    BootstrapSources.begin                          copy_replica
      pin of the state: its files stay                superblock: COPYING
      metadata that names files of the pin            rowsets/, each file synced
      anchor of the log from replay_index + 1         metadata
    ReadFile, ReadFile, ...  ───────────────►         results
                                                      consensus: base = replay_index of the metadata
    EndBootstrap                                      superblock: READY
      the log is held for the sink

The sink's log begins after the base. Later entries come from the leader, which holds its log until the sink has them
(`consensus.log.log_retention`). The files may already have the effects of some of them (`storage.tablet.tablet_apply`).

All entries from the base on are in the tablet's current schema: a source that has older ones to replay flushes first.

A server that was already a peer of the tablet keeps its term and its vote, whatever the source sends: the new
`consensus` file has them. Recovery that finds COPYING after a crash removes everything except that file.
"""

from __future__ import annotations

import contextlib
import posixpath
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any, Protocol

from ...errors import CorruptionError, DiskError, ProtocolError, ReplicaUnavailable
from ...model.lazy_dataclass import dataclass
from ...storage.files.filesystem import FileSystem, ReadableFile
from ...storage.files.io_limit import IoLimit, counted_file, note_read
from ...storage.maintenance.tablet_flush import flush, flush_deltas
from ...storage.rowsets.rowset_metadata import RowSetMetadata, rowset_files
from ...storage.tables.store_directory import make_durable_directory
from ...storage.tablet.tablet import Pin
from ...storage.tablet.tablet_metadata import TabletMetadata
from ..consensus.consensus_file import NAME as CONSENSUS
from ..consensus.consensus_file import ConsensusState, read_consensus, write_consensus
from ..consensus.log.log_retention import Anchor
from ..wire.messages.methods import BeginBootstrap, BootstrapSession, EndBootstrap, FileChunk, ReadFile, Request
from .damage import Watched, damage_of_file
from .exactly_once import SavedResults
from .replica import Replica
from .superblock import NAME as SUPERBLOCK
from .superblock import ReplicaState, Superblock

SESSION_SECONDS = 60.0
"""Seconds after which an unused session expires."""
CHUNK_BYTES = 1 << 20
_MAX_CHUNK = 8 << 20


# ---- source ------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Session:
    tablet_id: str
    fs: FileSystem
    directory: str
    files: dict[str, int]
    pin: Pin
    anchor: Anchor
    hold_log: Callable[[], None]
    """Reports the end of the session to the receiver, which then begins to catch up."""
    rowsets: Mapping[str, RowSetMetadata]
    """By file, for those in `files`."""
    met: Callable[[Exception], Exception]
    """Judges an error of the replica's files (`Replica.met`)."""
    used: float
    open_files: dict[str, ReadableFile] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while a file is read."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Returns bytes of a file; the first read of a file checks it as a whole, so that damage is not copied."""
        file = self.open_files.get(path)
        if file is None:
            full = posixpath.join(self.directory, path)
            damage = damage_of_file(self.fs, full, self.rowsets[path], self.pin.table.schema)
            if damage:
                raise CorruptionError(damage, full, "whole file")
            file = self.open_files[path] = self.fs.open(full)
        data = file.read_at(offset, length)
        note_read(len(data))
        return data

    def close(self) -> None:
        with self.lock:
            self.hold_log()
            self.anchor.close()
            for file in self.open_files.values():
                with contextlib.suppress(DiskError):
                    file.close()
            self.open_files.clear()


class BootstrapSources:
    """The sessions in which replicas are copied from this server. Thread-safe.

    Parameters
    ----------
    io_limit : IoLimit, optional
        What is read is charged to it; the receiver's own limit delays the copy.
    ttl : float
        Seconds after which an unused session ends.
    """

    def __init__(self, io_limit: IoLimit | None = None, ttl: float = SESSION_SECONDS):
        self._io_limit = io_limit or IoLimit()
        self._ttl = ttl
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()

    def begin(self, replica: Replica, receiver: str) -> BootstrapSession:
        """Begins a session with the current state of a replica, for the server of that id. Raises `ReplicaUnavailable`
        if it cannot be copied now, `DiskError` if it must be flushed first and the disk fails."""
        _catch_up(replica)
        tablet, consensus = replica.tablet, replica.consensus
        # The pin first: it keeps every file that goes out of use from now on, whichever state names it.
        pin = tablet.pin()
        with tablet.metadata_lock:
            metadata, description = tablet.metadata, replica.description
            if replica.schema_index > metadata.replay_index:
                raise ReplicaUnavailable(f"tablet {tablet.id} is being altered; try again")
            anchor = consensus.anchor(metadata.replay_index + 1)
        try:
            base_term = consensus.term_at(metadata.replay_index)
            if base_term is None:
                raise ReplicaUnavailable(f"the log of tablet {tablet.id} no longer has entry {metadata.replay_index}")
            rowsets = {f"rowsets/{name}": rowset for rowset in metadata.rowsets for name in rowset_files(rowset)}
            with replica.watched:
                handles = tablet.cache.handles(tablet.fs)
                files = {name: handles.size(posixpath.join(tablet.directory, name)) for name in rowsets}
            results = replica.results.save(replica.decided_index)  # up to the base at least
        except BaseException:
            anchor.close()
            raise
        hold_log = partial(consensus.hold_log_for, receiver, metadata.replay_index)
        session = _Session(
            tablet.id,
            tablet.fs,
            tablet.directory,
            files,
            pin,
            anchor,
            hold_log,
            rowsets,
            replica.met,
            time.monotonic(),
        )
        name = uuid.uuid4().hex
        with self._lock:
            self._sessions[name] = session
        return BootstrapSession(
            session=name,
            metadata=metadata.to_dict(),
            files=files,
            tablet=description,
            results=results.to_bytes(),
            base_index=metadata.replay_index,
            base_term=base_term,
            configuration=consensus.committed_configuration,
            clock_limit=consensus.clock_limit,
        )

    def read(self, request: ReadFile) -> FileChunk:
        """Returns a part of a session's file. Raises `ReplicaUnavailable` if the session has ended."""
        session = self._session(request.session)
        if request.path not in session.files or request.offset < 0 or not 0 <= request.length <= _MAX_CHUNK:
            raise ProtocolError(
                f"session {request.session} has no {request.length} bytes at {request.offset} of {request.path}"
            )
        with session.lock:
            session.used = time.monotonic()
            if not session.anchor.is_held:
                raise _ended(request.session)
            with Watched(session.met), self._io_limit.counted():
                data = session.read(request.path, request.offset, request.length)
            if request.offset + len(data) >= session.files[request.path]:
                session.open_files.pop(request.path).close()
        return FileChunk(data=data, checksum=zlib.crc32(data))

    def end(self, name: str) -> None:
        """Ends a session. No-op if it does not exist."""
        with self._lock:
            session = self._sessions.pop(name, None)
        if session is not None:
            session.close()

    def expire(self) -> None:
        """Ends unused sessions; to be called every few seconds."""
        before = time.monotonic() - self._ttl
        with self._lock:
            names = [name for name, session in self._sessions.items() if session.used < before]
        for name in names:
            self.end(name)

    def release(self, tablet_id: str) -> None:
        """Ends the sessions of a tablet whose replica here is removed."""
        with self._lock:
            names = [name for name, session in self._sessions.items() if session.tablet_id == tablet_id]
        for name in names:
            self.end(name)

    def close(self) -> None:
        """Ends all sessions."""
        with self._lock:
            names = list(self._sessions)
        for name in names:
            self.end(name)

    def _session(self, name: str) -> _Session:
        with self._lock:
            session = self._sessions.get(name)
        if session is None:
            raise _ended(name)
        return session


def _ended(name: str) -> ReplicaUnavailable:
    return ReplicaUnavailable(f"bootstrap session {name} no longer exists; begin another one")


def _catch_up(replica: Replica) -> None:
    """Flushes everything in memory that was logged in an older schema."""
    replica.check_workable()
    tablet = replica.tablet
    if replica.schema_index <= tablet.metadata.replay_index:
        return
    flush(tablet)
    for stored in tablet.state.rowsets:
        flush_deltas(tablet, stored)
    with tablet.flush_lock:
        with tablet.nothing_prepared():
            cut = tablet.cut()
        tablet.wait_for(cut)
        with tablet.metadata_lock:
            tablet.write_metadata(tablet.metadata, cut)


# ---- sink --------------------------------------------------------------------------------------------------------


class Caller(Protocol):
    """Calls a method of the source: `wire.calls.rpc.Channel.call`."""

    def __call__(self, request: Request) -> Any: ...


def copy_replica(
    call: Caller,
    tablet_id: str,
    receiver: str,
    fs: FileSystem,
    directory: str,
    *,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Copies a replica into a directory that is not in use. The directory may be missing, or hold a tombstone, the
    remains of an earlier copy, or a replica to be replaced.

    Parameters
    ----------
    call : callable
        Calls the source.
    receiver : str
        The id of this server.
    check : callable
        Called before each part; an error that it raises ends the copy.

    Raises the errors of `call`, `DiskError`, or `CorruptionError` if a part was damaged in transfer. The superblock
    then has the state COPYING.
    """
    session: BootstrapSession = call(BeginBootstrap(tablet_id=tablet_id, receiver=receiver))
    try:
        make_durable_directory(fs, directory)
        Superblock(session.tablet, ReplicaState.COPYING).write(fs, directory)
        remove_data(fs, directory)
        fs.make_directory(f"{directory}/rowsets")
        fs.make_directory(f"{directory}/wal")
        for path, size in session.files.items():
            _copy_file(call, session.session, path, size, fs, directory, check)
        fs.sync_directory(f"{directory}/rowsets")
        fs.sync_directory(directory)
        metadata = TabletMetadata.from_dict(session.metadata)
        replace(metadata, log_index=session.base_index).write(fs, directory)
        SavedResults.from_bytes(session.results).write(fs, directory)
        write_consensus(fs, directory, _consensus(fs, directory, session))
        Superblock(session.tablet, ReplicaState.READY, session.base_index).write(fs, directory)
    finally:
        with contextlib.suppress(Exception):
            call(EndBootstrap(session=session.session))


def remove_data(fs: FileSystem, directory: str) -> None:
    """Removes a replica's data, except its superblock, which already records that, and its consensus file with term and
    vote."""
    for name in fs.list(directory):
        if name in ("rowsets", "wal"):
            fs.remove_tree(f"{directory}/{name}")
        elif name not in (SUPERBLOCK, CONSENSUS):
            fs.remove(f"{directory}/{name}")
    fs.sync_directory(directory)


def _consensus(fs: FileSystem, directory: str, session: BootstrapSession) -> ConsensusState:
    """Returns the initial state of the consensus: the source's base, and this server's own term and vote."""
    kept = ConsensusState(0, "", session.configuration)
    if fs.exists(f"{directory}/{CONSENSUS}"):
        kept = read_consensus(fs, directory)
    newer = session.base_term > kept.term
    return ConsensusState(
        term=session.base_term if newer else kept.term,
        vote="" if newer else kept.vote,
        configuration=session.configuration,
        base_index=session.base_index,
        base_term=session.base_term,
        clock_limit=max(kept.clock_limit, session.clock_limit),
        clock_lead=kept.clock_lead,
    )


def _copy_file(
    call: Caller, session: str, path: str, size: int, fs: FileSystem, directory: str, check: Callable[[], None]
) -> None:
    folder, _, name = path.rpartition("/")
    if folder != "rowsets" or not name or name.startswith("."):
        raise ProtocolError(f"{path} is no file of a tablet")
    file = counted_file(fs.create(f"{directory}/{path}"))
    try:
        while file.size < size:
            check()
            length = min(CHUNK_BYTES, size - file.size)
            chunk: FileChunk = call(ReadFile(session=session, path=path, offset=file.size, length=length))
            if len(chunk.data) != length or zlib.crc32(chunk.data) != chunk.checksum:
                raise CorruptionError(
                    f"expected {length} bytes of checksum {chunk.checksum:08x}, got {len(chunk.data)} of "
                    f"{zlib.crc32(chunk.data):08x}",
                    path,
                    f"offset {file.size}, in transfer from the source",
                )
            file.write(chunk.data)
        file.sync()
    finally:
        file.close()
