"""Removal of replicas: from the consensus at once, from the disk when their files are no longer read.

RUNNING ── retire ──► its part in the consensus has ended ──► tombstone, durable ──► (last reader) ──► files removed

A server that dies in between removes the files when it starts. So after any crash a tablet's directory is complete, a
tombstone, or absent.

A tombstone keeps the term and the vote: a replica that was created again without them might vote twice in one term.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable

from ...errors import ConfigurationRefused, CorruptionError, DiskError, Error
from ...model.lazy_dataclass import dataclass
from ...storage.files.filesystem import FileSystem
from ..consensus.consensus_file import NAME as CONSENSUS_FILE
from ..consensus.consensus_file import ConsensusState, read_consensus
from ..disk_errors import is_full
from ..tablets.bootstrap import remove_data
from ..tablets.replica import Replica
from ..tablets.superblock import NAME as SUPERBLOCK_FILE
from ..tablets.superblock import ReplicaState, Superblock
from .directories import ServerDirectories
from .slots import Slot, Slots, SlotState

FLUSH_SECONDS = 5.0
"""Seconds for which a replica to be closed waits for work on its files."""
_log = logging.getLogger("nyala.cluster.tserver")


@dataclass(eq=False, slots=True)
class _Doomed:
    """A retired replica whose files wait for readers."""

    slot: Slot
    replica: Replica
    is_closing: bool = False


class Removal:
    """Removes replicas. Thread-safe; methods with a slot need the slot's lock.

    Parameters
    ----------
    fs, directories, slots
        The server's.
    release : callable
        Ends abandoned reads of a tablet.
    """

    def __init__(self, fs: FileSystem, directories: ServerDirectories, slots: Slots, release: Callable[[str], None]):
        self._fs = fs
        self._directories = directories
        self._slots = slots
        self._release_readers = release
        self._mutex = threading.Lock()
        """Guards `_doomed`; acquired within a slot's lock, or alone."""
        self._doomed: list[_Doomed] = []

    # ---- steps ---------------------------------------------------------------------------------------------------

    def retire(self, slot: Slot) -> None:
        """Ends the part of the slot's replica, if it has one, in the consensus, and retires it."""
        replica = slot.replica
        if replica is None:
            return
        status = replica.consensus.status()
        slot.kept = ConsensusState(status.term, "", status.configuration)  # for reports, until the file is read
        replica.consensus.close()
        slot.replica = None
        replica.tablet.is_dropped = True  # a flush that is about to begin would write files during their removal
        replica.tablet.prepared.end()  # of which no outcome comes any more: the server's maintenance may wait for it
        with self._mutex:
            self._doomed.append(_Doomed(slot, replica))

    def check_configuration(self, slot: Slot, index: int | None) -> None:
        """Raises `ConfigurationRefused` if the slot's replica has a newer configuration than that of log index
        `index`."""
        if index is None:
            return
        replica, kept = slot.replica, slot.kept
        configuration = replica.consensus.status().configuration if replica is not None else None
        if configuration is None and kept is not None:
            configuration = kept.configuration
        if configuration is not None and configuration.index > index:
            raise ConfigurationRefused(
                f"the replica of tablet {slot.id} has configuration {configuration.index}, a newer one than {index}"
            )

    def bury(self, slot: Slot, error: str = "") -> None:
        """Durably writes a tombstone; the replica is retired. Raises `DiskError`."""
        slot.kept = None
        with contextlib.suppress(CorruptionError):
            if self._fs.exists(f"{slot.path}/{CONSENSUS_FILE}"):
                slot.kept = read_consensus(self._fs, slot.path)
        if slot.description is None or slot.kept is None:
            # There is no term or vote to keep.
            self.forget(slot)
            return
        Superblock(slot.description, ReplicaState.TOMBSTONED).write(self._fs, slot.path)
        self._slots.change_state(slot, SlotState.TOMBSTONED, error)
        self._clear(slot)

    def forget(self, slot: Slot) -> None:
        """Leaves no tombstone; the replica is retired."""
        if slot.description is not None and not slot.directory.error and self._fs.exists(slot.path):
            # Otherwise a server that dies before the files are removed would open them again.
            try:
                Superblock(slot.description, ReplicaState.TOMBSTONED).write(self._fs, slot.path)
            except DiskError as error:
                if not is_full(error):
                    raise
                # No space for it, and the removal frees space: a directory without a superblock is removed, too.
                self._fs.remove(f"{slot.path}/{SUPERBLOCK_FILE}")
                self._fs.sync_directory(slot.path)
        self._slots.change_state(slot, SlotState.FORGOTTEN)
        self._clear(slot)

    def is_read(self, slot: Slot) -> bool:
        """True if files of a retired replica may still be read."""
        with self._mutex:
            return any(doomed.slot is slot for doomed in self._doomed)

    def _clear(self, slot: Slot) -> None:
        """Removes the rest of a TOMBSTONED or FORGOTTEN slot, unless it is read."""
        if self.is_read(slot):
            return
        with contextlib.suppress(DiskError):  # retried every second, and when the server starts
            if slot.state is SlotState.FORGOTTEN:
                self.remove(slot)
            elif slot.state is SlotState.TOMBSTONED:
                tombstone = {SUPERBLOCK_FILE, CONSENSUS_FILE}
                if not tombstone.issuperset(self._fs.list(slot.path)):
                    remove_data(self._fs, slot.path)

    def remove(self, slot: Slot) -> None:
        """Removes a tablet's directory, and drops its slot. Raises `DiskError`."""
        if not slot.directory.error:
            self._fs.remove_tree(slot.path)
            self._fs.sync_directory(slot.directory.tablets)
        self._directories.forget(slot.id)
        self._slots.drop(slot)

    # ---- later ---------------------------------------------------------------------------------------------------

    def keep_house(self) -> None:
        """Removes the files of replicas that are no longer read; to be called every second, without locks."""
        with self._mutex:
            doomed = list(self._doomed)
        for one in doomed:
            self._finish(one)
        for slot in self._slots.all():
            if slot.state is SlotState.FORGOTTEN and slot.lock.acquire(blocking=False):
                try:
                    self._clear(slot)
                finally:
                    slot.lock.release()

    def _finish(self, doomed: _Doomed) -> None:
        """Closes a retired replica unless it is being read."""
        slot = doomed.slot
        if not self._release(doomed):
            return
        if slot.lock.acquire(blocking=False):
            try:
                self._clear(slot)
            finally:
                slot.lock.release()

    def _release(self, doomed: _Doomed) -> bool:
        """Closes a retired replica unless it is being read; True if it is closed."""
        slot, replica = doomed.slot, doomed.replica
        self._release_readers(slot.id)
        if any(replica.tablet.held_pins()):
            return False
        with self._mutex:
            if doomed.is_closing:
                return doomed not in self._doomed
            doomed.is_closing = True
        try:
            # A running flush ends first; one that waits for a decision of the ended consensus is abandoned.
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
        """Closes the retired replicas of a slot that are not being read; True if all are closed."""
        with self._mutex:
            mine = [doomed for doomed in self._doomed if doomed.slot is slot]
        return all(self._release(doomed) for doomed in mine)

    def close(self) -> list[Replica]:
        """Returns the retired replicas that are not closed: the stopping server's caller closes them."""
        with self._mutex:
            left = [doomed.replica for doomed in self._doomed if not doomed.is_closing]
            for doomed in self._doomed:
                doomed.is_closing = True
        return left
