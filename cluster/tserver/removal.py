"""How replicas go: out of the consensus at once, from the disk when nobody reads them any more.

    RUNNING ── retire ──► its part in the consensus has ended ──► tombstone, durable ──► (last reader) ──► files gone

A server that dies in between removes the files when it starts. So whatever a crash cuts short, a tablet's directory is
whole, or a tombstone, or gone.

A tombstone keeps the term and the vote: a replica that was made again without them might vote twice in one term.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ...errors import ConfigurationRefused, CorruptionError, DiskError, Error
from ...storage.files.filesystem import FileSystem
from ..consensus.consensus_file import NAME as CONSENSUS_FILE
from ..consensus.consensus_file import ConsensusState, read_consensus
from ..disk_errors import is_full
from ..tablets.bootstrap import remove_data
from ..tablets.replica import Replica
from ..tablets.superblock import NAME as SUPERBLOCK_FILE
from ..tablets.superblock import ReplicaState, Superblock
from .directories import ServerDirectories
from .slots import Slot, Slots

FLUSH_SECONDS = 5.0
"""A replica that is to be closed waits so long for work on its files."""
_log = logging.getLogger("nyala.cluster.tserver")


@dataclass(eq=False, slots=True)
class _Doomed:
    """A replica that takes part in nothing any more; its files wait for readers."""

    slot: Slot
    replica: Replica
    is_closing: bool = False


class Removal:
    """Removes replicas. Safe for several threads; what takes a slot needs the slot's lock.

    Parameters
    ----------
    fs, directories, slots
        The server's.
    release : callable
        Ends what reads a tablet here and nobody waits for.
    """

    def __init__(self, fs: FileSystem, directories: ServerDirectories, slots: Slots, release: Callable[[str], None]):
        self._fs = fs
        self._directories = directories
        self._slots = slots
        self._release_readers = release
        self._mutex = threading.Lock()
        """Guards `_doomed`; taken within a slot's lock, or alone."""
        self._doomed: list[_Doomed] = []

    # ---- steps ---------------------------------------------------------------------------------------------------

    def retire(self, slot: Slot) -> None:
        """End the part of the slot's replica, if it has one, in the consensus, and let go of it."""
        replica = slot.replica
        if replica is None:
            return
        status = replica.consensus.status()
        slot.kept = ConsensusState(status.term, "", status.configuration)  # for reports, until the file is read
        replica.consensus.close()
        slot.replica = None
        replica.tablet.is_dropped = True  # a flush that is about to begin would write files beside their removal
        with self._mutex:
            self._doomed.append(_Doomed(slot, replica))

    def check_configuration(self, slot: Slot, index: int | None) -> None:
        """Raise `ConfigurationRefused` where the slot's replica has a newer configuration than that of `index`."""
        if index is None:
            return
        replica, kept = slot.replica, slot.kept
        found = replica.consensus.status().configuration if replica is not None else None
        if found is None and kept is not None:
            found = kept.configuration
        if found is not None and found.index > index:
            raise ConfigurationRefused(
                f"the replica of tablet {slot.id} has configuration {found.index}, a newer one than {index}"
            )

    def bury(self, slot: Slot, error: str = "") -> None:
        """Leave a tombstone, durably; the replica is retired. `DiskError` where the disk fails."""
        slot.kept = None
        with contextlib.suppress(CorruptionError):
            if self._fs.exists(f"{slot.path}/{CONSENSUS_FILE}"):
                slot.kept = read_consensus(self._fs, slot.path)
        if slot.description is None or slot.kept is None:
            # Nothing is known that would be worth keeping.
            self.forget(slot)
            return
        Superblock(slot.description, ReplicaState.TOMBSTONED).write(self._fs, slot.path)
        self._slots.set(slot, "TOMBSTONED", error)
        self._clear(slot)

    def forget(self, slot: Slot) -> None:
        """Leave nothing; the replica is retired."""
        if slot.description is not None and not slot.directory.error and self._fs.exists(slot.path):
            # Without it, a server that dies before the files are gone would open them again.
            try:
                Superblock(slot.description, ReplicaState.TOMBSTONED).write(self._fs, slot.path)
            except DiskError as error:
                if not is_full(error):
                    raise
                # No space for it, and what is dropped makes space: a directory without a superblock is removed, too.
                self._fs.remove(f"{slot.path}/{SUPERBLOCK_FILE}")
                self._fs.sync_directory(slot.path)
        self._slots.set(slot, "FORGOTTEN")
        self._clear(slot)

    def is_read(self, slot: Slot) -> bool:
        """Are there files of a retired replica that somebody may read?"""
        with self._mutex:
            return any(doomed.slot is slot for doomed in self._doomed)

    def _clear(self, slot: Slot) -> None:
        """Remove what is left of a TOMBSTONED or FORGOTTEN slot, unless it is read."""
        if self.is_read(slot):
            return
        with contextlib.suppress(DiskError):  # tried again every second, or when the server starts
            if slot.state == "FORGOTTEN":
                self.remove(slot)
            elif slot.state == "TOMBSTONED":
                self._remove_data(slot)

    def _remove_data(self, slot: Slot) -> None:
        """Remove everything but the tombstone."""
        if any(name not in (SUPERBLOCK_FILE, CONSENSUS_FILE) for name in self._fs.list(slot.path)):
            remove_data(self._fs, slot.path)

    def remove(self, slot: Slot) -> None:
        """Remove a tablet's directory, and forget its slot. `DiskError` where the disk fails."""
        if not slot.directory.error:
            self._fs.remove_tree(slot.path)
            self._fs.sync_directory(slot.directory.tablets)
        self._directories.forget(slot.id)
        self._slots.drop(slot)

    # ---- later ---------------------------------------------------------------------------------------------------

    def keep_house(self) -> None:
        """Remove the files of replicas that nobody reads any more; to be called every second, without locks."""
        with self._mutex:
            doomed = list(self._doomed)
        for one in doomed:
            self._finish(one)
        for slot in self._slots.all():
            if slot.state == "FORGOTTEN" and slot.lock.acquire(blocking=False):
                try:
                    self._clear(slot)
                finally:
                    slot.lock.release()

    def _finish(self, doomed: _Doomed) -> None:
        """Close a retired replica unless somebody reads it."""
        slot = doomed.slot
        if not self._release(doomed):
            return
        if slot.lock.acquire(blocking=False):
            try:
                self._clear(slot)
            finally:
                slot.lock.release()

    def _release(self, doomed: _Doomed) -> bool:
        """Close a retired replica unless somebody reads it; is it closed?"""
        slot, replica = doomed.slot, doomed.replica
        self._release_readers(slot.id)
        if any(replica.tablet.held_pins()):
            return False
        with self._mutex:
            if doomed.is_closing:
                return doomed not in self._doomed
            doomed.is_closing = True
        try:
            # A flush that had begun ends first; one that waits for what the consensus will not tell any more is left.
            if replica.tablet.flush_lock.acquire(timeout=FLUSH_SECONDS):
                replica.tablet.flush_lock.release()
            replica.close()
        except Error as error:
            fields = {"tablet": slot.id, "error": str(error)}
            _log.warning("tablet did not close cleanly", extra={"fields": fields})
        with self._mutex:
            self._doomed.remove(doomed)
        return True

    def release(self, slot: Slot) -> bool:
        """Close the retired replicas of a slot as far as nobody reads them; are all closed?"""
        with self._mutex:
            mine = [doomed for doomed in self._doomed if doomed.slot is slot]
        return all(self._release(doomed) for doomed in mine)

    def close(self) -> list[Replica]:
        """The replicas that are retired and not closed: the server stops, and whoever calls this closes them."""
        with self._mutex:
            left = [doomed.replica for doomed in self._doomed if not doomed.is_closing]
            for doomed in self._doomed:
                doomed.is_closing = True
        return left
