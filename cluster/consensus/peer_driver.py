"""One Raft peer at work: steps its `RaftNode` and executes the `Ready` in the order that durability requires.

    any thread:  event ─► step (under the lock) ─┬─► messages ─► Transport      at once, unless held
                                                 ├─► decisions ─► proposals, applier
                                                 └─► work for the disk ─► a log thread
    log thread:  consensus file ─► send held messages ─► log.persist (group commit) ─► step(Persisted)

- The lock is held for a step and its effects in memory, never during disk or network work. (The exception is reading
  entries that a slow follower lacks and memory no longer has.)
- Messages of a step that changed term or vote, and of all later steps, are *held* until the consensus file is written.
- The log is persisted after the consensus file: a log thread never reports durable entries to the node while a change
  of term or vote is not on the disk.
- After a disk error, or another unexpected error, the peer has failed: it sends nothing any more, and its waiting
  callers get the error. It never reports as durable what is not.
- A full disk is no such error. Unwritten entries wait in memory and are not acknowledged, messages that
  need the consensus file stay held; heartbeats, votes and commits that need neither continue. The file is retried
  every `FULL_SECONDS`, since it has a reserve; more than `FULL_LOG_BYTES` of log wait for `note_space`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

import msgspec

from ...errors import ClusterError, NotTheLeader, ReplicaUnavailable
from ...model.clock import LOGICAL_BITS, HybridClock
from ...model.store import Timestamp
from ..disk_errors import is_full
from ..raft.events import Event, Persisted, Quiesce, RaftRole, Ready, Received, Renew, Send, Tick
from ..raft.messages import AppendRequest, AppendResponse, Message, Peer
from ..raft.node import RaftNode
from .applier import POSTPONED, Applier
from .consensus_file import ConsensusFile
from .interfaces import ReplicatedState
from .log.raft_log import RaftLog
from .proposals import Proposals
from .workers import Job

_logger = logging.getLogger("nyala.cluster.consensus")

_LEAD_MARGIN = 1_000_000
"""Microseconds that are added to the required clock lead when the consensus file is written."""
_LEAD_EXCESS = 4_000_000
"""A lead that exceeds the required one by this much is rewritten: after a restart, all of it counts as promised."""
FULL_SECONDS = 0.5
FULL_LOG_BYTES = 4 << 20
"""Bytes of entries that are written although the disk is full, half of the reserve. They are the entries in progress
when it became full, so that reads need not wait for their decision, and those of an election or a change of peers. New
writes are refused earlier."""
_MOST_HELD = 256
"""Most messages that wait for a consensus file without space: older ones are dropped, as on a network."""
RELUCTANCE = 8.0
"""Seconds by which a peer whose clock was wrong campaigns later: a few election timeouts."""
_RENEW_INTERVAL = 0.02
"""Seconds between rounds that are begun because a caller waits for a lease."""


class Services(Protocol):
    """The services of a process for all its peers."""

    clock: HybridClock

    def now(self) -> float:
        """Monotonic seconds."""

    def wall_clock(self) -> int:
        """Microseconds since 1970."""

    def can_lead(self, clock_limit: int) -> bool:
        """False if a peer that has allowed such a clock limit should leave leadership to others for a while."""

    def send(self, peer: Peer, tablet_id: str, message: Message) -> None: ...

    def on_disk(self, job: Job) -> None:
        """Runs a job on a log thread."""

    def on_pool(self, job: Job) -> None:
        """Runs a job, which may block, on a pool thread."""

    def schedule(self, when: float, job: Job) -> None:
        """Runs a job, which must be short, at a time of `now`."""

    def round_down(self, when: float) -> float:
        """Returns the last moment up to a time at which timers of many tablets coincide."""

    def disk_full(self, tablet_id: str, error: Exception) -> bool:
        """A tablet's log or consensus file found no space. Called without locks.

        Returns True if the callee will call `PeerDriver.note_space` when there is space again. After False, the write
        is retried every `FULL_SECONDS`.
        """

    def send_later(self, job: Job) -> None:
        """Calls `job` in a moment, once, however often it is requested."""

    def deciding(self) -> AbstractContextManager[object]:
        """The context manager within which a thread sends messages or may decide entries; left without any lock
        held."""


class PeerDriver:
    """The driver of one peer; see the module's page.

    Attributes
    ----------
    lock, changed
        Guard everything here but the log and the file, which have their own; acquired after a tablet's `write_lock`.
        `changed` is notified of every step while `waiting` is not 0.
    is_serving : bool
        True if this peer leads, and the tablet's memory has everything that was committed before.
    altering_index : int
        The last ALTER entry that was proposed; no other entry may be proposed until it is applied.
    error : Exception or None
        The reason for which the peer has stopped.
    full_peers : set of str
        Ids of the peers that have reported a full disk to this leader.
    unsynced : deque of (int, callable)
        Own entries whose calls have spans: called once they are on the own disk. Empty without an exporter.
    on_closed : callable
        Called by `close`.
    """

    def __init__(
        self,
        tablet_id: str,
        services: Services,
        make_node: Callable[[], RaftNode],
        log: RaftLog,
        file: ConsensusFile,
        state: ReplicatedState,
        applied_index: int,
    ):
        self.tablet_id = tablet_id
        self.services = services
        self.log = log
        self.file = file
        self.state = state
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.waiting = 0
        self.error: Exception | None = None
        self.is_serving = False
        self.altering_index = 0
        self.silent: dict[str, Peer] = {}
        self.full_peers: set[str] = set()
        self.unsynced: deque[tuple[int, Job]] = deque()
        self.on_closed: Job = lambda: None
        self.proposals = Proposals(applied_index)
        self.applier = Applier(
            state,
            log,
            self.changed,
            applied_index,
            submit=services.on_pool,
            full=lambda error: services.disk_full(tablet_id, error),
            postpone=lambda job: services.schedule(services.now() + POSTPONED, job),
            applied=self._applied,
            fail=self.fail,
        )
        self._led_term: int | None = None
        self._serve_from: int | None = None
        self._held: list[tuple[Peer, Message]] = []
        self._needs_file = False
        self._is_writing_file = False
        self._is_disk_busy = False
        self._is_full = False
        self._waits_for_space = False
        """The disk is full: log threads get no work until `_try_again`."""
        self._seen_limit = 0
        self._renewed_at = 0.0
        self._timer_at = float("inf")
        self.node = make_node()
        with self.lock:
            self._schedule()

    # ---- steps ---------------------------------------------------------------------------------------------------

    def step(self, event: Event) -> None:
        """Processes an event. Raises as `RaftNode.step`, and `ReplicaUnavailable` if the peer has stopped."""
        with self.lock:
            self.step_locked(event)

    def step_locked(self, event: Event) -> None:
        """Like `step`; needs the lock."""
        self.check_running()
        try:
            ready = self.node.step(event, self.services.now())
        except ClusterError:
            raise
        except Exception as error:
            self._fail_locked(error)
            raise self._unavailable() from error
        self._take(ready)

    def receive(self, message: Message, sender: Peer) -> None:
        """Processes a peer's message; errors of it, or of this peer, are not reported to the sender."""
        if isinstance(message, AppendRequest) and message.entries:
            self.services.clock.update(Timestamp(message.entries[-1].timestamp))
        with self.lock:
            if isinstance(message, AppendResponse):
                if message.is_full:
                    self.full_peers.add(sender.id)
                elif self.full_peers:
                    self.full_peers.discard(sender.id)
            if self.error is None:
                try:  # a context manager would cost as much as a tenth of a heartbeat
                    self.step_locked(Received(message, sender))
                except ClusterError:
                    return

    def quiesce(self, is_quiescing: bool) -> None:
        """Leaves leadership to other peers, or takes part in elections again. Acquires the lock."""
        with self.lock:
            if self.error is None:
                self.step_locked(Quiesce(is_quiescing))

    def _tick(self, when: float) -> None:
        """Called by the timer that was set to a time; a timer that was replaced by an earlier one has no effect."""
        if when != self._timer_at:
            return
        try:
            safe = self.safe_timestamp()
        except Exception as error:
            self.fail(error)
            return
        with self.lock:
            if when != self._timer_at:
                return
            self._timer_at = float("inf")
            if self.error is not None:
                return
            if self.services.now() < self.node.deadline:
                self._schedule_look()
                return
            if self._is_reluctant():
                self._set_timer(self.node.deadline + RELUCTANCE)
                return
            if safe:
                self.announce(safe)
            with contextlib.suppress(ClusterError):
                self.step_locked(Tick())

    def _is_reluctant(self) -> bool:
        """True while others should be elected instead of this peer: its clock limit comes from a wrong clock."""
        node = self.node
        if node.role is RaftRole.LEADER or self.services.now() >= node.deadline + RELUCTANCE:
            return False
        return not self.services.can_lead(node.clock_limit)

    def safe_timestamp(self) -> int:
        """Returns the safe time that may be announced, read before the log's end; 0 for none. Without the lock."""
        return self.state.safe_timestamp() if self.is_serving else 0

    def send_held(self) -> None:
        """Sends the entries that were held back."""
        with self.lock:
            if self.error is None:
                with contextlib.suppress(ClusterError):
                    self.step_locked(Send())

    def announce(self, timestamp: int) -> None:
        """Announces that the log has every write at or below a time; needs the lock, and that this leader still
        serves."""
        if self.is_serving:
            self.node.announce_safe_time(timestamp, self.log.last_index)

    def renew(self) -> None:
        """Begins a round unless one was begun a moment ago; needs the lock."""
        now = self.services.now()
        if now >= self._renewed_at + _RENEW_INTERVAL:
            self._renewed_at = now
            self.step_locked(Renew())

    @property
    def timestamp_limit(self) -> int:
        """Returns `RaftNode.timestamp_limit`, as far as it would survive a crash now. Needs the lock."""
        return self._as_kept(self.node.timestamp_limit)

    @property
    def safe_time(self) -> int:
        """Returns `RaftNode.safe_time`, as far as it would survive a crash now: a former leader's safe time depends on
        its own clock limit. Needs the lock."""
        return self._as_kept(self.node.safe_time)

    def _as_kept(self, timestamp: int) -> int:
        """Limits a time to the content of the consensus file while that is to be written: a group of one voter waits
        for no other peer's response."""
        if self._needs_file or self._is_writing_file:
            return min(timestamp, self.file.state.clock_limit_at(self.services.wall_clock()))
        return timestamp

    def wait(self, until: float) -> bool:
        """Waits for a step until a time of `Services.now`; False if that has already passed. Needs the lock, and
        releases it while waiting."""
        left = until - self.services.now()
        if left <= 0:
            return False
        self.applier.hasten()
        self.waiting += 1
        self.changed.wait(left)
        self.waiting -= 1
        return True

    # ---- what a step says ------------------------------------------------------------------------------------------

    def _take(self, ready: Ready) -> None:
        if ready.ignored:
            _logger.debug("tablet %s ignores %s", self.tablet_id, ready.ignored)
        if ready.clock_floor is not None:
            self.services.clock.update(Timestamp(ready.clock_floor))
        if ready.truncated_to is not None:
            self._cut_off(ready.truncated_to)
        if ready.hard_state is not None or self._has_lead_changed():
            self._needs_file = True
        if self._needs_file or self._is_writing_file:
            self._held += ready.messages
            if self._is_full:
                del self._held[:-_MOST_HELD]
        else:
            self._send(ready.messages)
        if ready.commit_index is not None:
            if self.proposals.commit(ready.commit_index):
                self.applier.settle()
            is_urgent = bool(self.waiting) or self.node.role is RaftRole.LEADER
            self.applier.commit(ready.commit_index, is_urgent=is_urgent)
        for peer in ready.bootstraps:
            self.applier.notify_bootstrap(peer)
        if self.silent or ready.silent:
            self._note_silent(ready)
        self._update_serving()
        if ready.is_leader_changed:
            self._log_leadership()
            self.applier.notify_leadership()
        if self._needs_file or (self.log.has_work and not ready.is_held):
            self._start_disk_work()
        self._schedule()
        if self.waiting:
            self.changed.notify_all()
        if ready.is_held:
            self.services.send_later(self.send_held)

    def _send(self, messages: list[tuple[Peer, Message]]) -> None:
        for peer, message in messages:
            if self._is_full and isinstance(message, AppendResponse):
                message = msgspec.structs.replace(message, is_full=True)
            self.services.send(peer, self.tablet_id, message)

    def _cut_off(self, last_index: int) -> None:
        node = self.node
        leader = node.leader_peer
        error = NotTheLeader(
            f"the entries of tablet {self.tablet_id} after {last_index} were not committed before {node.leader} "
            f"became the leader of term {node.term}",
            leader.address if leader is not None else "",
            node.term,
        )
        if self.altering_index > last_index:
            self.altering_index = 0
        self.applier.cut_off(last_index)
        if self.proposals.cut_off(last_index, error):
            self.applier.settle()

    def _has_lead_changed(self) -> bool:
        """True if the consensus file must be written because of newly allowed clock limits."""
        limit = self.node.clock_limit
        if limit == self._seen_limit:
            return False
        self._seen_limit = limit
        excess = self.file.state.clock_lead - self._clock_lead(limit)
        return not 0 <= excess <= _LEAD_EXCESS

    def _clock_lead(self, limit: int) -> int:
        return (limit >> LOGICAL_BITS) - self.services.wall_clock() + 1

    def _note_silent(self, ready: Ready) -> None:
        if self.node.role is not RaftRole.LEADER:
            self.silent.clear()
        for peer in ready.silent:
            self.silent[peer.id] = peer

    def silent_peers(self) -> tuple[str, ...]:
        """Returns ids of the voters that were reported as silent and still are. Needs the lock."""
        progress = self.node.peer_progress()
        return tuple(id for id in self.silent if id in progress and progress[id].is_silent)

    def _update_serving(self) -> None:
        is_serving = self.node.is_serving
        if not is_serving:
            self._serve_from = None
        else:
            if self._serve_from is None:
                self._serve_from = self.node.commit_index
            is_serving = self.applier.applied_index >= self._serve_from
        if is_serving is not self.is_serving:
            self.is_serving = is_serving
            self.applier.notify_leadership()

    def _log_leadership(self) -> None:
        """Logs, without the lock, that this peer has begun or ended leading."""
        before, node = self._led_term, self.node
        self._led_term = node.term if node.role is RaftRole.LEADER else None
        if before == self._led_term:
            return
        for term, event in ((before, "leads no more"), (self._led_term, "leads")):
            if term is not None:
                fields = {"tablet": self.tablet_id, "term": term}
                self.applier.notify(partial(_logger.info, event, extra={"fields": fields}))

    def _applied(self) -> None:
        """Called when more entries are in the tablet's memory."""
        self.proposals.memory_index = max(self.proposals.memory_index, self.applier.applied_index)
        if self.error is None:
            self._update_serving()
        if self.waiting:
            self.changed.notify_all()

    def _schedule_look(self) -> None:
        """Schedules a tick that is expected to come too early: the leader will have been heard meanwhile. So those of
        all tablets may coincide. No-op for a peer without a vote, which has no deadline."""
        deadline = self.node.deadline
        if deadline == float("inf"):
            return
        look = self.services.round_down(deadline)
        if look <= self.services.now():
            self._schedule()
        else:
            self._set_timer(look)

    def _schedule(self) -> None:
        deadline = self.node.deadline
        if deadline < self._timer_at:
            self._set_timer(deadline)

    def _set_timer(self, when: float) -> None:
        self._timer_at = when
        self.services.schedule(when, partial(self._tick, when))

    # ---- the disk --------------------------------------------------------------------------------------------------

    def _start_disk_work(self) -> None:
        if not self._is_disk_busy and not self._waits_for_space:
            self._is_disk_busy = True
            self.services.on_disk(self._work_on_disk)

    def _has_disk_work(self) -> bool:
        if self._needs_file:
            return True
        return self.log.has_work and not (self._is_full and self.log.unwritten_bytes > FULL_LOG_BYTES)

    def _work_on_disk(self) -> None:
        """Runs on a log thread until nothing is left to be made durable."""
        while True:
            with self.lock:
                if self.error is not None or self._waits_for_space or not self._has_disk_work():
                    self._is_disk_busy = False
                    self.changed.notify_all()
                    return
                writes_file, self._needs_file = self._needs_file, False
                self._is_writing_file = writes_file
                hard_state, limit = self.node.hard_state, self.node.clock_limit
                configuration = self.node.committed_configuration
            try:
                if writes_file:
                    self.file.update(
                        term=hard_state.term,
                        vote=hard_state.vote,
                        configuration=configuration,
                        clock_limit=limit,
                        clock_lead=max(0, self._clock_lead(limit)) + _LEAD_MARGIN,
                    )
                    self._release()
                if self.log.has_work and not (self._is_full and self.log.unwritten_bytes > FULL_LOG_BYTES):
                    with self.services.deciding():
                        self._persist()
            except Exception as error:
                if is_full(error):
                    self.note_full(error)
                else:
                    self.fail(error)

    def note_full(self, error: Exception) -> None:
        """Schedules a retry after the log or the consensus file found no space. Acquires the lock."""
        with self.lock:
            self._is_full = self._waits_for_space = True
            self._needs_file = self._needs_file or self._is_writing_file
            self._is_writing_file = False
        if not self.services.disk_full(self.tablet_id, error):
            with self.lock:
                self._is_full = False
        self.services.schedule(self.services.now() + FULL_SECONDS, self._try_again)

    def note_space(self, is_full: bool) -> None:
        """Notes that the disk has become full, or has space again. Acquires the lock."""
        with self.lock:
            self._is_full = is_full
        if not is_full:
            self._try_again()

    def voters_without_space(self) -> list[Peer]:
        """Returns the voters whose disks are full, including this one, if the others are no majority; else none.
        Acquires the lock."""
        if not self.full_peers:
            return []
        with self.lock:
            own = {self.node.id} if self._is_full else set()
            voters = self.node.configuration.voters
            full = [peer for peer in voters if peer.id in self.full_peers | own]
            return full if len(voters) - len(full) < self.node.configuration.majority else []

    def _try_again(self) -> None:
        with self.lock:
            self._waits_for_space = False
            if self.error is None and self._has_disk_work():
                self._start_disk_work()

    def _release(self) -> None:
        """Sends the held messages after the file is written, unless it must be written again."""
        with self.lock:
            self._is_writing_file = False
            if not self._needs_file:
                held, self._held = self._held, []
                self._send(held)
                if self.waiting:
                    self.changed.notify_all()

    def _persist(self) -> None:
        position = self.log.persist()
        with self.lock:
            while self.unsynced and position is not None and self.unsynced[0][0] <= position[0]:
                self.unsynced.popleft()[1]()
            if position is not None and self.error is None and not self._needs_file:
                # it may have been truncated and have grown again meanwhile
                if self.log.term(position[0]) == position[1]:
                    self.log.note_reported(position[0])
                self.step_locked(Persisted(*position))

    # ---- the end ---------------------------------------------------------------------------------------------------

    def check_running(self) -> None:
        """Raises `ReplicaUnavailable` if the peer has stopped. Without the lock the answer may be outdated."""
        if self.error is not None:
            raise self._unavailable()

    def _unavailable(self) -> ReplicaUnavailable:
        assert self.error is not None
        return ReplicaUnavailable(f"tablet {self.tablet_id} has stopped here: {self.error}")

    def fail(self, error: Exception) -> None:
        """Stops for good; acquires the lock."""
        with self.lock:
            self._fail_locked(error)

    def _fail_locked(self, error: Exception) -> None:
        if self._stop(error):
            self.applier.stop(lambda: self._notify_failure(error))

    def _notify_failure(self, error: Exception) -> None:
        _logger.error("tablet %s has failed: %s", self.tablet_id, error, exc_info=error)
        self.state.failed(error)

    def _stop(self, error: Exception) -> bool:
        if self.error is not None:
            return False
        self.error = error
        self.is_serving = False
        self._held.clear()
        self.proposals.wake_all()
        self.changed.notify_all()
        return True

    def close(self, error: Exception) -> None:
        """Stops, waits until no other thread works here, and closes the log. Idempotent. Raises `DiskError` if the
        close fails."""
        self.on_closed()
        with self.lock:
            if self._stop(error):
                self.applier.stop()
            # from within a call of `ReplicatedState`, which must not wait for itself
            own_call = self.applier.worker == threading.get_ident()
            while self._is_disk_busy or (self.applier.is_busy and not own_call):
                self.changed.wait()
        self.log.close()
