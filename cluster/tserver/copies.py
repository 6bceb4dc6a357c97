"""Copies of replicas, in both directions: to this server from another one, and from here.

    leader                                        the peer without data
    needs_bootstrap ─► StartBootstrap ──────────► a thread
                       BeginBootstrap ◄──────────   is a copy needed?
                       ReadFile ...   ◄──────────   superblock COPYING, with files beside it
                       EndBootstrap   ◄──────────   superblock READY ─► opened ─► catches up by the log

An aborted copy leaves a tombstone, or nothing if there was nothing before. The leader repeats its request while the
peer needs the copy.

Two kinds of replicas must not be replaced. One in a greater term than the requester's may have voted for a later
leader. One that already has the copy's entries may have acknowledged later ones, and the leader counts on it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...errors import ConfigurationRefused, DiskError, Error, ReplicaUnavailable, ServerUnavailable
from ...storage.files.filesystem import FileSystem
from ...storage.files.io_limit import IoLimit
from ..consensus.consensus_file import read_consensus
from ..disk_errors import is_full
from ..raft.messages import Peer
from ..tablets.bootstrap import BootstrapSources, copy_replica
from ..tablets.replica import Replica
from ..wire.calls.rpc import Channel, Channels
from ..wire.messages.methods import BeginBootstrap, BootstrapSession, EndBootstrap, Request, StartBootstrap
from .directories import DataDirectory, ServerDirectories
from .removal import Removal
from .slots import Slot, Slots, SlotState

COPIERS, ASKERS = 2, 2
"""Threads that copy from other servers, and threads that request copies from other servers."""
ASK_SECONDS = 5.0
"""Seconds for a server to acknowledge a request to copy: it does so at once."""
BEGIN_SECONDS = 60.0
"""Seconds for the source to begin: it may have to flush first."""
CALL_SECONDS = 10.0
"""Seconds for any other response."""
LONGEST_DELAY = 20.0
"""Seconds for which the ceiling of I/O may delay one part of a copy: the source ends a session that rests longer than
`bootstrap.SESSION_SECONDS`."""
RELEASE_SECONDS = 30.0
"""Seconds for which a replica to be replaced waits for scans to end."""
_REPLACEABLE = (SlotState.NEW, SlotState.TOMBSTONED, SlotState.RUNNING)
"""States of replicas that a copy may replace."""
_COPIED = (SlotState.NEW, SlotState.COPYING, SlotState.RUNNING)
"""States in which an aborted copy leaves a replica."""
_log = logging.getLogger("nyala.cluster.tserver")


class Copies:
    """Remote bootstrap, both sides. Thread-safe.

    Parameters
    ----------
    fs, directories, slots, removal, channels, server
        The server's.
    io_limit : IoLimit
        The ceiling of the files that copies read and write.
    open_slot : callable
        Opens the replica of a slot whose files are complete.
    place : callable
        Chooses a directory for a tablet.
    disk_failed : callable
        Called with the id of a tablet after an error on its files.
    """

    def __init__(
        self,
        fs: FileSystem,
        directories: ServerDirectories,
        slots: Slots,
        removal: Removal,
        channels: Channels,
        server: Peer,
        *,
        io_limit: IoLimit,
        open_slot: Callable[[Slot], object],
        place: Callable[[str], DataDirectory],
        disk_failed: Callable[[str], None],
    ):
        self._fs = fs
        self._directories = directories
        self._slots = slots
        self._removal = removal
        self._channels = channels
        self._server = server
        self._io_limit = io_limit
        self._open = open_slot
        self._place = place
        self._disk_failed = disk_failed
        self.sources = BootstrapSources(io_limit)
        """The sessions in which other servers copy replicas from here."""
        self._mutex = threading.Lock()
        """Guards the two below."""
        self._copying: set[str] = set()
        """Tablets that wait for a copier thread, or have one."""
        self._asked: set[tuple[str, str]] = set()
        """(Tablet, peer) of the requests in progress."""
        self._copiers = ThreadPoolExecutor(COPIERS, "nyala-copy")
        self._askers = ThreadPoolExecutor(ASKERS, "nyala-ask")

    # ---- to here -------------------------------------------------------------------------------------------------

    def start(self, request: StartBootstrap) -> None:
        """Begins to copy a replica from another server. No-op if that is in progress already.

        Raises `ConfigurationRefused` if this replica is in a greater term than the requester, `ReplicaUnavailable` if
        it has failed, or another operation on it is in progress.
        """
        slot = self._slots.claim(request.tablet.id, self._directories.own)
        with self._mutex:
            if slot.id in self._copying:
                return
            self._copying.add(slot.id)
        try:
            self._check_slot(slot, request)
            self._copiers.submit(self._run, slot, request)
        except BaseException as error:
            self._done(slot)
            if isinstance(error, RuntimeError):
                raise ServerUnavailable("the server is shutting down") from None
            raise

    def _check_slot(self, slot: Slot, request: StartBootstrap) -> None:
        replica, kept = slot.replica, slot.kept
        if slot.state not in _REPLACEABLE or (replica is not None and replica.state != "RUNNING"):
            raise ReplicaUnavailable(
                f"the replica of tablet {slot.id} is {slot.state}, and cannot be replaced by a copy"
            )
        term = 0 if kept is None else kept.term
        if replica is not None:
            term = replica.consensus.status().term
        if term > request.term:
            raise ConfigurationRefused(
                f"the replica of tablet {slot.id} is in term {term}; the leader of term {request.term} is outdated"
            )

    def _done(self, slot: Slot) -> None:
        with self._mutex:
            self._copying.discard(slot.id)

    def _run(self, slot: Slot, request: StartBootstrap) -> None:
        try:
            with slot.lock:
                self._copy(slot, request)
        except Exception:
            _log.exception("an aborted copy could not be cleaned up", extra={"fields": {"tablet": slot.id}})
        finally:
            self._done(slot)

    def _copy(self, slot: Slot, request: StartBootstrap) -> None:
        """Copies and opens a replica. Needs the slot's lock."""
        began = time.monotonic()
        fields: dict[str, Any] = {"tablet": slot.id, "source": request.source.address}
        try:
            self._check_slot(slot, request)
            call = _SourceCalls(self._channels.get(request.source.address), lambda found: self._begin(slot, found))
            if slot.state is SlotState.NEW:
                slot.directory = self._place(slot.id)
                slot.description = request.tablet
            with self._io_limit.counted(longest=LONGEST_DELAY):
                copy_replica(call, slot.id, self._server.id, self._fs, slot.path, check=self._check_open)
            self._open(slot)
        # Whatever the error, the leader repeats its request.
        except Exception as error:
            _log.warning("copy aborted", extra={"fields": {**fields, "error": str(error)}})
            self._broke_off(slot, error)
            return
        _log.info("copied", extra={"fields": {**fields, "bytes": call.bytes, "seconds": time.monotonic() - began}})

    def _begin(self, slot: Slot, session: BootstrapSession) -> None:
        """Checks, once the source is ready, that a copy is needed and that the directory is not in use."""
        replica = slot.replica
        if replica is not None:
            status = replica.consensus.status()
            has_base = replica.consensus.term_at(session.base_index) == session.base_term
            if has_base or status.commit_index >= session.base_index:
                raise ConfigurationRefused(
                    f"the replica of tablet {slot.id} has all entries up to {session.base_index}; it needs no copy"
                )
            self._removal.retire(slot)
            slot.kept = read_consensus(self._fs, slot.path)
            self.wait_unread(slot)
        elif self._removal.is_read(slot):
            self.wait_unread(slot)
        self._slots.change_state(slot, SlotState.COPYING)

    def wait_unread(self, slot: Slot) -> None:
        """Returns when the files of a slot's retired replicas are no longer read; raises `ReplicaUnavailable` if they
        still are after `RELEASE_SECONDS`. Needs the slot's lock."""
        ends = time.monotonic() + RELEASE_SECONDS
        while not self._removal.release(slot):
            self._check_open()
            if time.monotonic() > ends:
                raise ReplicaUnavailable(f"the files of tablet {slot.id} are still being read")
            time.sleep(0.05)

    def _check_open(self) -> None:
        if self._slots.is_closed:
            raise ServerUnavailable("the server is shutting down")

    def _broke_off(self, slot: Slot, error: Exception) -> None:
        if slot.replica is not None or slot.state not in _COPIED:
            return  # unchanged
        try:
            self._removal.bury(slot, f"{type(error).__name__}: {error}")
        except DiskError as failure:
            # Without space for a tombstone, the superblock still has the state COPYING: the server's next start cleans
            # it up.
            has_tombstone = is_full(failure) and slot.kept is not None
            state = SlotState.TOMBSTONED if has_tombstone else SlotState.FAILED
            self._slots.change_state(slot, state, str(failure))
        if isinstance(error, DiskError):
            self._disk_failed(slot.id)

    # ---- from here -----------------------------------------------------------------------------------------------

    def ask(self, replica: Replica, peer: Peer) -> None:
        """Requests that a peer copies a replica that leads here: it needs entries that the log no longer has. Returns
        at once."""
        pair = (replica.tablet_id, peer.id)
        with self._mutex:
            if pair in self._asked:
                return
            self._asked.add(pair)
        try:
            self._askers.submit(self._ask, replica, peer)
        except RuntimeError:
            with self._mutex:
                self._asked.discard(pair)

    def _ask(self, replica: Replica, peer: Peer) -> None:
        try:
            request = StartBootstrap(
                tablet=replica.description, source=self._server, term=replica.consensus.status().term
            )
            self._channels.get(peer.address).call(request, ASK_SECONDS)
        except Error as error:
            # The consensus repeats its call while the peer needs the copy.
            fields = {"tablet": replica.tablet_id, "peer": peer.id, "error": str(error)}
            _log.info("a peer did not accept the request to copy", extra={"fields": fields})
        finally:
            with self._mutex:
                self._asked.discard((replica.tablet_id, peer.id))

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stops; returns when no copy to this server is in progress. The slots are closed."""
        self._askers.shutdown(cancel_futures=True)
        self._copiers.shutdown(cancel_futures=True)
        self.sources.close()


class _SourceCalls:
    """The calls of one copy to its source. `begin` checks the session first; its error ends the copy."""

    def __init__(self, channel: Channel, begin: Callable[[BootstrapSession], None]):
        self._channel = channel
        self._begin = begin
        self.bytes = 0
        """Of all files of the session."""

    def __call__(self, request: Request) -> Any:
        seconds = BEGIN_SECONDS if isinstance(request, BeginBootstrap) else CALL_SECONDS
        reply = self._channel.call(request, seconds)
        if isinstance(reply, BootstrapSession):
            self.bytes = sum(reply.files.values())
            try:
                self._begin(reply)
            except BaseException:
                self._channel.call(EndBootstrap(session=reply.session), CALL_SECONDS)
                raise
        return reply
