"""All replicas of a server: opening, creating, and handling failures. Removal (`removal`) and copying (`copies`) have
modules of their own; `slots` has the states of a replica.

Creating a replica that exists is a no-op; a server that dies in between has a complete replica afterwards, or none.
Opening runs in the background, a few at a time; a replica that cannot be opened has failed, and the others continue.

After an error of a disk the manager checks the whole directory. If it fails, all its tablets have failed.
"""

from __future__ import annotations

import contextlib
import logging
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from ...errors import ConfigurationRefused, CorruptionError, DiskError, Error, ReplicaUnavailable
from ...model.clock import HybridClock
from ...storage.files.filesystem import FileSystem
from ...storage.files.io_limit import IoLimit
from ...storage.files.page_cache import PageCache
from ...storage.log.wal_format import log_schema
from ...storage.tablet.tablet import StoreOptions
from ..consensus.consensus_file import read_consensus
from ..consensus.host import ConsensusHost
from ..consensus.unsafe_configuration import force_configuration
from ..disk_errors import is_full
from ..raft.messages import Configuration, Peer
from ..tablets.health import ReplicaListener
from ..tablets.layout import schema_behind
from ..tablets.replica import Replica
from ..tablets.superblock import NAME as SUPERBLOCK_FILE
from ..tablets.superblock import ReplicaState, Superblock
from ..wire.calls.rpc import Channels
from ..wire.messages import methods
from ..wire.messages.methods import TabletReport
from .copies import Copies
from .directories import DataDirectory, ServerDirectories
from .removal import Removal
from .slots import UNREPORTED, Slot, Slots, SlotState

OPENERS = 4
"""Threads that open replicas."""
BUSY_SECONDS = 5.0
"""Seconds for which a removal waits for other operations on the replica."""
TRANSFER_SECONDS = 1.0
"""Seconds between two requests to a leader to transfer leadership."""
_WITHOUT_DATA = (SlotState.NEW, SlotState.TOMBSTONED, SlotState.FORGOTTEN)
"""States of tablets that are not counted as being here."""
_log = logging.getLogger("nyala.cluster.tserver")


class TabletManager:
    """The replicas of a server. Thread-safe.

    Parameters
    ----------
    fs, directories : where the replicas are
    host : ConsensusHost
    channels : Channels
        To other servers.
    server : Peer
        This one.
    cache, clock, options
        Shared by all tablets.
    io_limit : IoLimit
        The ceiling of the files that copies of replicas read and write.
    on_change : callable
        Called with the id of each tablet that has changes to report.
    release_scans : callable
        Ends the scans of a tablet that no stream is reading.
    space_again : callable
        Called when a directory that was full has space again.
    """

    def __init__(
        self,
        fs: FileSystem,
        directories: ServerDirectories,
        host: ConsensusHost,
        channels: Channels,
        server: Peer,
        *,
        cache: PageCache,
        clock: HybridClock,
        options: StoreOptions,
        io_limit: IoLimit,
        on_change: Callable[[str], None],
        release_scans: Callable[[str], None],
        space_again: Callable[[], None] = lambda: None,
    ):
        self._fs = fs
        self._directories = directories
        self._host = host
        self._server = server
        self._cache = cache
        self._clock = clock
        self._options = options
        self._slots = Slots(on_change)
        self._release_scans = release_scans
        self._space_again = space_again
        self._removal = Removal(fs, directories, self._slots, self._release)
        self.copies = Copies(
            fs,
            directories,
            self._slots,
            self._removal,
            channels,
            server,
            io_limit=io_limit,
            open_slot=self._open,
            place=self._place,
            disk_failed=self.disk_failed,
        )
        self._listener = ReplicaListener(self._changed, self.copies.ask, self._found_full)
        self._openers = ThreadPoolExecutor(OPENERS, "nyala-open")
        self._told: weakref.WeakKeyDictionary[Replica, str] = weakref.WeakKeyDictionary()
        """The errors of replicas that were logged."""

    # ---- lookup ------------------------------------------------------------------------------------------------------

    def get(self, tablet_id: str) -> Replica:
        """Returns the running replica of a tablet; otherwise raises `ReplicaUnavailable` with the present state."""
        slot = self._slots.get(tablet_id)
        replica = None if slot is None else slot.replica
        if replica is not None and replica.state == "RUNNING":
            return replica
        if slot is None:
            raise ReplicaUnavailable(f"{self._server.address} has no replica of tablet {tablet_id}")
        state, error = (slot.state, slot.error) if replica is None else (replica.state, replica.error)
        reason = f": {error}" if error else ""
        raise ReplicaUnavailable(f"the replica of tablet {tablet_id} at {self._server.address} is {state}{reason}")

    def replicas(self) -> list[Replica]:
        """Returns the open replicas."""
        return [replica for slot in self._slots.all() if (replica := slot.replica) is not None]

    @property
    def count(self) -> int:
        """Number of tablets, without tombstones."""
        return sum(slot.state not in _WITHOUT_DATA for slot in self._slots.all())

    def is_missing(self, tablet_id: str) -> bool:
        """True if the server has no data of a tablet, so that a copy would help; False for one that is being opened, or
        has failed."""
        slot = self._slots.get(tablet_id)
        return slot is None or slot.state is SlotState.TOMBSTONED

    def reports(self, tablet_ids: Iterable[str] | None = None) -> list[TabletReport]:
        """Returns reports of the existing tablets with these ids, None: all, by id; including tombstones."""
        return self._slots.reports(tablet_ids)

    # ---- opening -------------------------------------------------------------------------------------------------

    def open_all(self) -> None:
        """Opens the replicas in the directories, in the background; removes the remains of a crash."""
        slots: list[Slot] = []
        for found in self._directories.existing_tablets():
            slot = Slot(found.id, found.directory)
            if found.directory.error:
                slot.change_state(SlotState.FAILED, found.directory.error)
            else:
                slot.change_state(SlotState.BOOTSTRAPPING)
                slots.append(slot)
            self._slots.add(slot)
        for slot in slots:
            self._in_background(self._open_found, slot)

    def _open_found(self, slot: Slot) -> None:
        with slot.lock:
            if slot.state is not SlotState.BOOTSTRAPPING or self._slots.is_closed:
                return
            with self._failing(slot):
                superblock = Superblock.read(self._fs, slot.path)
                if superblock is None:
                    self._removal.remove(slot)
                    return
                if superblock.tablet.id != slot.id:
                    message = f"belongs to tablet {superblock.tablet.id}, expected {slot.id}: files were mixed up"
                    raise CorruptionError(message, f"{slot.path}/{SUPERBLOCK_FILE}", "tablet id")
                slot.description = superblock.tablet
                if superblock.state is ReplicaState.READY:
                    slot.kept = read_consensus(self._fs, slot.path)
                    self._open(slot)
                else:
                    self._removal.bury(slot)

    def _open(self, slot: Slot) -> Replica:
        """Opens a replica whose files are complete. Needs the slot's lock."""
        replica = Replica.open(
            self._fs,
            slot.path,
            self._host,
            cache=self._cache,
            clock=self._clock,
            options=self._options,
            listener=self._listener,
        )
        slot.description, slot.replica = replica.description, replica
        replica.disk_full = slot.directory.full
        replica.consensus.note_space(bool(replica.disk_full))
        self._slots.change_state(slot, SlotState.RUNNING)
        return replica

    @contextlib.contextmanager
    def _failing(self, slot: Slot) -> Iterator[None]:
        """Confines an error to its tablet, which fails."""
        try:
            yield
        # Whatever the error (a damaged file may raise any), the other tablets continue.
        except Exception as error:
            if is_full(error):  # opened when there is space again
                self._slots.change_state(slot, SlotState.BOOTSTRAPPING, str(error))
                self.disk_full(slot.id, error)
                return
            self._slots.change_state(slot, SlotState.FAILED, f"{type(error).__name__}: {error}")
            _log.error("tablet failed", extra={"fields": {"tablet": slot.id, "error": slot.error}})
            if isinstance(error, DiskError):
                self._in_background(self._probe, slot.directory)

    # ---- making --------------------------------------------------------------------------------------------------

    def create(self, tablet: methods.Tablet, configuration: Configuration) -> None:
        """Creates an empty replica and opens it. No-op if it exists. Raises `ReplicaUnavailable` if one exists that is
        not running, `DiskError` if the disk fails: then none exists."""
        slot = self._slots.claim(tablet.id, self._directories.own)
        with slot.lock:
            if slot.state is SlotState.RUNNING:
                return
            if slot.state is not SlotState.NEW:
                raise ReplicaUnavailable(f"a replica of tablet {tablet.id} cannot be created: one exists, {slot.state}")
            try:
                slot.directory = self._place(tablet.id)
                Replica.create(self._fs, slot.path, tablet, configuration)
                replica = self._open(slot)
            except BaseException as error:
                self._discard(slot)
                if isinstance(error, DiskError):
                    self._in_background(self._probe, slot.directory)
                raise
            if configuration.peers and configuration.peers[0].id == self._server.id:
                replica.consensus.campaign()

    def _place(self, tablet_id: str) -> DataDirectory:
        used: dict[DataDirectory, tuple[int, int]] = {}
        for slot in self._slots.all() if len(self._directories.all) > 1 else ():
            if slot.state is not SlotState.NEW:
                size, count = used.get(slot.directory, (0, 0))
                used[slot.directory] = (size + slot.size, count + 1)
        return self._directories.place(tablet_id, used)

    def _discard(self, slot: Slot) -> None:
        """Removes a replica that could not be created, or leaves that to the server's next start."""
        with contextlib.suppress(Error):
            self._fs.remove_tree(slot.path)
            self._directories.forget(slot.id)
        self._slots.drop(slot)

    # ---- removing ------------------------------------------------------------------------------------------------

    def delete(self, tablet_id: str, configuration_index: int | None = None, forget: bool = False) -> None:
        """Deletes a replica, keeping its tombstone unless `forget`. No-op if it does not exist. Files are removed when
        they are no longer read.

        Raises `ConfigurationRefused` if the replica has a newer configuration than that of `configuration_index`,
        `ReplicaUnavailable` while it is being copied or opened, `DiskError` if the disk fails: the call must then be
        retried.
        """
        slot = self._slots.get(tablet_id)
        if slot is None:
            return
        if not slot.lock.acquire(timeout=BUSY_SECONDS):
            raise ReplicaUnavailable(f"the replica of tablet {tablet_id} is {slot.state}; it can be removed later")
        try:
            if slot.state in UNREPORTED:
                return
            self._removal.check_configuration(slot, configuration_index)
            self._removal.retire(slot)
            if forget or slot.directory.error:
                self._removal.forget(slot)
            elif slot.state is not SlotState.TOMBSTONED:
                self._removal.bury(slot)
        finally:
            slot.lock.release()
        self.keep_house()

    def unsafe_change_config(self, tablet_id: str, survivors: Sequence[str]) -> Configuration:
        """Replaces the configuration of a tablet whose majority is lost by some of its peers (`force_configuration`).

        Raises `ConfigurationRefused` if the tablet has a leader, or for invalid peers; `ReplicaUnavailable` if the
        replica here is not open.
        """
        slot = self._slots.get(tablet_id)
        if slot is None or slot.replica is None:
            raise ReplicaUnavailable(f"{self._server.address} has no open replica of tablet {tablet_id}")
        with slot.lock:
            open_one = slot.replica
            if open_one is None or slot.state is not SlotState.RUNNING:
                raise ReplicaUnavailable(f"the replica of tablet {tablet_id} is {slot.state}")
            status = open_one.consensus.status()
            if status.is_serving or (status.leader and status.leader != self._server.id and not status.error):
                raise ConfigurationRefused(
                    f"tablet {tablet_id} has a leader, {status.leader}: change its configuration there, by moves"
                )
            schema, applied = log_schema(open_one.table.schema), open_one.tablet.metadata.replay_index
            del open_one
            self._removal.retire(slot)
            self.copies.wait_unread(slot)
            fields = {"tablet": tablet_id, "survivors": list(survivors), "term": status.term}
            _log.warning("a configuration is forced: acknowledged writes may be lost", extra={"fields": fields})
            try:
                forced = force_configuration(
                    self._fs,
                    slot.path,
                    schema,
                    self._server.id,
                    survivors,
                    self._clock,
                    applied_index=applied,
                    alter_schema=schema_behind,
                )
            finally:
                with self._failing(slot):
                    opened = self._open(slot)
            if len(forced.voters) == 1 and slot.replica is not None:
                with contextlib.suppress(Error):
                    opened.consensus.campaign()
            return forced

    def keep_house(self) -> None:
        """Does the housekeeping; to be called every second, without locks."""
        self._removal.keep_house()
        self.copies.sources.expire()
        for replica in self.replicas():
            replica.step_down_if_damaged()

    def _release(self, tablet_id: str) -> None:
        """Ends abandoned reads of a tablet that is to be removed."""
        self._release_scans(tablet_id)
        self.copies.sources.release(tablet_id)

    # ---- failing -------------------------------------------------------------------------------------------------

    def _changed(self, replica: Replica) -> None:
        """Called when a replica has changed, perhaps to failed."""
        self._slots.note(replica.tablet_id)
        if replica.error and replica.error != self._told.get(replica):
            self._told[replica] = replica.error
            event = "tablet failed" if replica.state == "FAILED" else "tablet is damaged"
            _log.error(event, extra={"fields": {"tablet": replica.tablet_id, "error": replica.error}})
            self.disk_failed(replica.tablet_id)

    def met(self, tablet_id: str, error: Exception) -> None:
        """Judges an error of background work on a tablet (`Replica.met`)."""
        slot = self._slots.get(tablet_id)
        if slot is not None and slot.replica is not None:
            slot.replica.met(error)
        if isinstance(error, DiskError) and not is_full(error):
            self.disk_failed(tablet_id)

    # ---- full disks ----------------------------------------------------------------------------------------------

    def check_space(self, replica: Replica) -> None:
        """Raises `DiskError`, with nothing done, if a leader accepts no writes: its disk is full, or too few followers
        have space for a majority."""
        if not replica.consensus.is_serving:
            return
        if replica.disk_full:
            raise self._full_error(replica.disk_full)
        full = replica.consensus.voters_without_space()
        if full:
            raise DiskError(
                f"tablet {replica.tablet_id} accepts no writes: disk full: {', '.join(peer.address for peer in full)}"
            )

    def disk_full(self, tablet_id: str, error: Exception) -> bool:
        """Handles a lack of space for a tablet's files. True: its directory is marked as full, and checked again
        later."""
        slot = self._slots.get(tablet_id)
        if slot is None:
            return False
        if self._directories.note_full(slot.directory, error):
            self._in_background(self._note_space, slot.directory)
        return bool(slot.directory.full)

    def _found_full(self, replica: Replica, error: Exception) -> Exception:
        self.disk_full(replica.tablet_id, error)
        slot = self._slots.get(replica.tablet_id)
        return error if slot is None or not slot.directory.full else self._full_error(slot.directory.full)

    def _full_error(self, why: str) -> DiskError:
        return DiskError(f"tablet server {self._server.address} accepts no writes: {why}")

    def look_for_space(self) -> None:
        """Checks which full directories have space again; to be called every few seconds, without locks."""
        for directory in self._directories.all:
            if directory.full and not directory.error and self._directories.look_again(directory):
                self._note_space(directory)
                self._space_again()

    def _note_space(self, directory: DataDirectory) -> None:
        """Notifies all replicas of a directory whether it is full; opens those for which there was no space."""
        full = directory.full
        fields = {"path": directory.path, "error": full}
        (_log.error if full else _log.info)("disk full" if full else "space again", extra={"fields": fields})
        for slot in self._slots.all():
            if slot.directory is not directory:
                continue
            replica = slot.replica
            if replica is not None:
                replica.disk_full = full
                replica.consensus.note_space(bool(full))
                self._slots.note(slot.id)
            elif slot.state is SlotState.BOOTSTRAPPING and not full:
                self._in_background(self._open_found, slot)

    def disk_failed(self, tablet_id: str) -> None:
        """Handles an error on a tablet's files: it may concern the whole directory."""
        slot = self._slots.get(tablet_id)
        if slot is not None:
            self._in_background(self._probe, slot.directory)

    def _probe(self, directory: DataDirectory) -> None:
        """Checks whether a whole directory has failed, with all its tablets."""
        if directory.error or self._directories.probe(directory):
            return
        _log.error("data directory failed", extra={"fields": {"path": directory.path, "error": directory.error}})
        for slot in self._slots.all():
            if slot.directory is not directory:
                continue
            with slot.lock:
                if slot.state not in UNREPORTED:
                    self._removal.retire(slot)
                    self._slots.change_state(slot, SlotState.FAILED, directory.error)

    # ---- the end -------------------------------------------------------------------------------------------------

    def hand_over(self, deadline: float) -> None:
        """Transfers leadership to other replicas that can lead; returns when they do, or at `deadline` (monotonic)."""
        requested_at: dict[str, float] = {}
        while (now := time.monotonic()) < deadline:
            leading = [replica for replica in self.replicas() if _leads_others(replica)]
            if not leading:
                return
            for replica in leading:
                if now - requested_at.get(replica.tablet_id, 0.0) > TRANSFER_SECONDS:
                    requested_at[replica.tablet_id] = now
                    with contextlib.suppress(Error):
                        replica.consensus.transfer(None)
            time.sleep(0.05)

    def close(self) -> None:
        """Closes all replicas. Scans have ended."""
        slots = self._slots.close()
        self.copies.close()
        self._openers.shutdown(cancel_futures=True)
        replicas = self._removal.close()
        for slot in slots:
            with slot.lock:
                if slot.replica is not None:
                    replicas.append(slot.replica)
                    slot.replica = None
                slot.change_state(SlotState.GONE, slot.error)
        for replica in replicas:
            try:
                replica.close()
            except Error as error:
                fields = {"tablet": replica.tablet_id, "error": str(error)}
                _log.warning("tablet did not close cleanly", extra={"fields": fields})

    def _in_background(self, work: Callable[..., None], *arguments: object) -> None:
        """Runs a job on an opener thread, unless the server is stopping."""
        with contextlib.suppress(RuntimeError):
            self._openers.submit(_logged, work, *arguments)


def _logged(work: Callable[..., None], *arguments: object) -> None:
    try:
        work(*arguments)
    except Exception:
        _log.exception("work on a tablet failed")


def _leads_others(replica: Replica) -> bool:
    status = replica.consensus.status()
    return status.role == "LEADER" and len(status.configuration.voters) > 1
