"""All Raft peers of a server: shared resources, and dispatch of messages.

    Transport ──► receive(PeerBatch) ──► Consensus of each tablet ──► Transport.send
                                              │    │    │
             the reactor's timers ────────────┘    │    └────── pool (n): apply, notifications
                                                   └─────────── log threads (1 for each disk): fsync

No tablet has threads of its own: an idle tablet costs only its heartbeats. Those of all tablets are due in `SLOTS`
moments of the interval, so a server sends each peer one message in each of them.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

import pyarrow as pa

from ...errors import CorruptionError, OperationalError, StoreClosed
from ...model.clock import LOGICAL_BITS, HybridClock, format_timestamp
from ...model.store import Timestamp
from ...net.reactor import Reactor
from ...storage.files.filesystem import FileSystem
from ..raft.membership import decode_configuration
from ..raft.messages import AppendRequest, AppendResponse, Configuration, Message, Peer, VoteResponse
from ..raft.node import RaftNode, RaftOptions
from ..wire.peers import PeerBatch, Transport
from .consensus import Consensus
from .consensus_file import ConsensusFile, ConsensusState, write_consensus
from .gatherer import Gatherer
from .interfaces import ReplicatedState
from .log.raft_log import SEGMENT_BYTES, AlterSchema, RaftLog
from .peer_driver import PeerDriver
from .workers import Job, Workers, guarded

_logger = logging.getLogger("nyala.cluster.consensus")

SLOTS = 5
"""Moments per heartbeat interval at which heartbeats are due: in one for all tablets, hundreds of them would delay the
calls that arrive then."""
_REFUSED_SECONDS = 60.0
"""Least seconds between two log lines of a tablet about messages with absurd times."""
_FIRST_CLOCK_LEAD = 4_000_000
"""Microseconds; the clock lead that a tablet's leaders usually request, so that the first request needs no write."""


class ConsensusHost:
    """All Raft peers of a server; see the module's page. Thread-safe.

    Parameters
    ----------
    server : Peer
        This server: its id is that of its peers, its address the one that others connect to.
    durability : str
        "fsync": an entry counts as durable here when it is on the disk. "os": when the operating system has it.
    threads : int
        Size of the pool.
    log_threads : int
        One per disk: while one tablet's log is synced, entries of the others accumulate, and are synced together.
    is_missing : callable
        True if this server has no data of a tablet that is not open: its leader is then notified, and sends a copy. By
        default true for every tablet that is not open.
    disk_full : callable
        Called with a tablet's id and the error when there was no space for its log; must not block. Returns True if the
        callee will report space again (`Consensus.note_space`).
    deciding : callable
        Makes the context manager within which threads of the host send messages or may decide entries; left without any
        lock held.
    reactor : Reactor, optional
        The server's own, in whose rounds (within `deciding`) timers run. None: the host has one.
    """

    def __init__(
        self,
        server: Peer,
        clock: HybridClock,
        transport: Transport,
        options: RaftOptions | None = None,
        *,
        durability: str = "fsync",
        threads: int = 4,
        log_threads: int = 1,
        is_missing: Callable[[str], bool] | None = None,
        deciding: Callable[[], AbstractContextManager[object]] = nullcontext,
        disk_full: Callable[[str, Exception], bool] = lambda tablet_id, error: False,
        segment_bytes: int = SEGMENT_BYTES,
        reactor: Reactor | None = None,
    ):
        self.server = server
        self.clock = clock
        self.on_disk: Callable[[Job], None]
        self._transport = transport
        options = RaftOptions() if options is None else options
        self._options = replace(options, gathers=True, slot=options.heartbeat / SLOTS)
        self._durability = durability
        self._is_missing = is_missing
        self._segment_bytes = segment_bytes
        self._tablets: dict[str, PeerDriver] = {}
        self._consensuses: dict[str, Consensus] = {}
        self._addresses: dict[str, Peer] = {}
        self._lock = threading.Lock()
        """Guards the three; never held together with a tablet's lock."""
        self._closed = False
        self._quiescing_lock = threading.Lock()
        """Held while the peers are notified of a change, before their own locks."""
        self.is_quiescing = False
        """True if this server's peers leave leadership to others; changed by `quiesce`."""
        self._refused: dict[str, float] = {}
        """By tablet: when a message dropped because of its time was last logged."""
        self._log_threads = Workers("log", log_threads)
        self._pool = Workers("apply", threads)
        self._own_reactor: Reactor | None = None
        if reactor is None:
            reactor = self._own_reactor = Reactor("nyala-consensus")
            reactor.around = deciding
            reactor.start()
        self._reactor = reactor
        self.send_later = Gatherer(self.schedule).add
        self.on_disk = self._log_threads.submit
        self.on_pool = self._pool.submit
        self.deciding = deciding
        self.disk_full = disk_full

    # ---- what peers use (`peer_driver.Services`) -------------------------------------------------------------------

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def wall_clock(self) -> int:
        """Microseconds since 1970 UTC; may jump."""
        return self.clock.wall()

    def schedule(self, when: float, job: Job) -> None:
        """Runs a job, which must be short, in the reactor's thread at a time of `now`. An uncaught error is that of a
        thread."""
        self._reactor.call_at(when, partial(guarded, job))

    def round_down(self, when: float) -> float:
        """Returns the last slot of heartbeats that begins at or before a time."""
        return math.floor(when / self._options.slot) * self._options.slot

    def send(self, peer: Peer, tablet_id: str, message: Message) -> None:
        """Passes a message to the transport; messages to a peer without a known address are dropped."""
        if not peer.address:
            known = self._addresses.get(peer.id)
            if known is None:
                return
            peer = known
        self._transport.send(peer, tablet_id, message)

    # ---- tablets -------------------------------------------------------------------------------------------------

    @staticmethod
    def create_files(
        fs: FileSystem,
        directory: str,
        configuration: Configuration,
        *,
        term: int = 0,
        base_index: int = 0,
        base_term: int = 0,
        clock_limit: int = 0,
    ) -> None:
        """Durably creates the files of a peer whose log begins after entry `base_index`: DIR/consensus and DIR/wal, but
        not the directory entry of DIR. No files of an earlier log may exist."""
        fs.make_directory(f"{directory}/wal")
        state = ConsensusState(
            term, "", configuration, base_index, base_term, clock_limit, clock_lead=_FIRST_CLOCK_LEAD
        )
        write_consensus(fs, directory, state)

    def open(
        self,
        tablet_id: str,
        fs: FileSystem,
        directory: str,
        schema: pa.Schema,
        state: ReplicatedState,
        *,
        applied_index: int,
        alter_schema: AlterSchema | None = None,
        is_new: bool | None = None,
    ) -> Consensus:
        """Takes part in a tablet's consensus; `state` may be called before this returns.

        Parameters
        ----------
        directory : str
            With the files of `create_files`.
        schema : pa.Schema
            Of logged rows (`log_schema`), for a log without entries.
        applied_index : int
            The replica has everything up to this index; later entries are applied once they are known to be committed.
        alter_schema : callable
            Returns the schema of logged rows after an ALTER entry, from its body.
        is_new : bool, optional
            The tablet was just created, so this peer has promised nothing. By default read from the files.

        Raises `CorruptionError`, `DiskError`.
        """
        file = ConsensusFile(fs, directory)
        kept = file.state
        if applied_index < kept.base_index:
            raise CorruptionError(
                f"the log begins after entry {kept.base_index}, but the tablet's files end with entry {applied_index}",
                f"{directory}/consensus",
                "base",
            )
        log = RaftLog(
            fs,
            f"{directory}/wal",
            schema,
            base_index=kept.base_index,
            base_term=kept.base_term,
            known_index=applied_index,
            alter_schema=alter_schema,
            syncs=self._durability == "fsync",
            segment_bytes=self._segment_bytes,
        )
        self.clock.tolerate(Timestamp(kept.clock_limit_at(self.wall_clock())))
        if not self.clock.is_beyond(log.newest_timestamp):
            self.clock.update(Timestamp(log.newest_timestamp))
        else:
            self.clock.tolerate(Timestamp(log.newest_timestamp))
            # After a wrong clock. Uncommitted entries may still be truncated; committed ones move the clock when they
            # are applied, and every new leader begins above the last entry.
            _logger.warning(
                "the log of tablet %s ends at %s, ahead of this machine's clock",
                tablet_id,
                format_timestamp(Timestamp(log.newest_timestamp)),
            )
        driver = PeerDriver(
            tablet_id, self, lambda: self._node(log, kept, applied_index, is_new), log, file, state, applied_index
        )
        consensus = Consensus(driver)
        with self._lock:
            if not self._closed:
                self._tablets[tablet_id], self._consensuses[tablet_id] = driver, consensus
                driver.on_closed = lambda: self._forget(tablet_id, driver)
            is_closed = self._closed
        if is_closed:
            consensus.close()
            raise StoreClosed(f"{self.server.id} is shutting down")
        with self._quiescing_lock:
            if self.is_quiescing:
                driver.quiesce(True)
        return consensus

    def _node(self, log: RaftLog, kept: ConsensusState, applied_index: int, is_new: bool | None) -> RaftNode:
        found = [
            decode_configuration(entry.body, entry.index)
            for entry in log.configurations
            if entry.index > kept.configuration.index
        ]
        configurations = [kept.configuration, *found]
        return RaftNode(
            self.server.id,
            log,
            kept.hard_state,
            configurations[-1],
            self._options,
            now=self.now(),
            random=random.Random(),
            hybrid=self.clock.now,
            wall=lambda: self.clock.wall() << LOGICAL_BITS,
            clock_limit=kept.clock_limit_at(self.wall_clock()),
            is_new=kept.term == 0 and log.last_index == 0 if is_new is None else is_new,
            commit_index=applied_index,
            history=configurations[:-1],
        )

    def get(self, tablet_id: str) -> Consensus | None:
        """Returns the consensus of an open tablet."""
        return self._consensuses.get(tablet_id)

    def _forget(self, tablet_id: str, driver: PeerDriver) -> None:
        with self._lock:
            if self._tablets.get(tablet_id) is driver:
                del self._tablets[tablet_id], self._consensuses[tablet_id]

    def quiesce(self, is_quiescing: bool) -> None:
        """Leaves leadership of all tablets to other servers, or takes part in elections again; also of those that are
        opened later. Returns without waiting for the transfers."""
        with self._quiescing_lock, self.deciding():
            self.is_quiescing = is_quiescing
            with self._lock:
                drivers = list(self._tablets.values())
            for driver in drivers:
                driver.quiesce(is_quiescing)

    # ---- messages ------------------------------------------------------------------------------------------------

    def receive(self, batch: PeerBatch) -> None:
        """Processes a batch from another server; returns when its messages have been stepped, without waiting for a
        disk."""
        sender = batch.sender
        self.clock.update(Timestamp(batch.clock))
        if self._addresses.get(sender.id) != sender:
            with self._lock:
                self._addresses[sender.id] = sender
        limit = self.clock.limit_of_peers() + self._options.clock_lead
        with self.deciding():
            for tablet_id, message in batch.messages:
                if _newest_timestamp(message) > limit:
                    self._refuse(tablet_id, sender, message)
                    continue
                driver = self._tablets.get(tablet_id)
                if driver is not None:
                    driver.receive(message, sender)
                elif isinstance(message, AppendRequest):
                    self._answer_missing(sender, tablet_id, message)

    def _refuse(self, tablet_id: str, sender: Peer, message: Message) -> None:
        """Drops a message whose time is too far ahead. Peers with correct clocks also send what a wrong clock has left:
        such messages are dropped until that time has come."""
        now = self.now()
        if now - self._refused.get(tablet_id, -math.inf) > _REFUSED_SECONDS:
            self._refused[tablet_id] = now
            _logger.warning(
                "tablet %s: a message of server %s is dropped: its time, %s, is too far ahead of this machine's",
                tablet_id,
                sender.id,
                format_timestamp(Timestamp(_newest_timestamp(message))),
            )

    def can_lead(self, clock_limit: int) -> bool:
        """False if this peer has allowed timestamps too far ahead of its own clock, perhaps under a wrong clock.

        As leader it would have to begin above them, so other peers should lead if they can.
        """
        return not self.clock.is_beyond(clock_limit - self._options.clock_lead)

    def _answer_missing(self, sender: Peer, tablet_id: str, request: AppendRequest) -> None:
        if self._closed or (self._is_missing is not None and not self._is_missing(tablet_id)):
            return
        answer = AppendResponse(self.server.id, request.term, request.round, False, 0, is_missing=True)
        self._transport.send(sender, tablet_id, answer)

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes all open tablets and ends all threads; then raises the first error of a tablet's close."""
        with self._lock:
            self._closed = True
            consensuses = list(self._consensuses.values())
        errors: list[Exception] = []
        for consensus in consensuses:
            try:
                consensus.close()
            except OperationalError as error:
                errors.append(error)
        if self._own_reactor is not None:
            self._own_reactor.close()
        self._log_threads.close()
        self._pool.close()
        if errors:
            raise errors[0]


def _newest_timestamp(message: Message) -> int:
    """Returns the greatest hybrid time to which a message would move its receiver's clock."""
    if isinstance(message, AppendRequest):
        return max(message.clock_limit, message.entries[-1].timestamp if message.entries else 0)
    return message.clock_limit if isinstance(message, VoteResponse) else 0
