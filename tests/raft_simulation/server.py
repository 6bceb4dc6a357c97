"""One simulated server: the driver of a `RaftNode`, its disk, its clocks, and a state machine.

It processes a `Ready` in the order that `raft.events` states, and may crash between any two steps of it:

0 ─ hard state, the log's sync begins ─ 1, 2 ─ half the messages ─ 3 ─ the others ─ 4 ─ apply ─ 5

At 6 all has been done, but the messages are lost with the process, in the buffers of its sockets.

The state machine is the sequence of applied entries, as a digest; it is flushed, and the log trimmed, now and then.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nyala.cluster.raft.events import Event, Persisted, RaftRole, Ready, Received, Send, Tick
from nyala.cluster.raft.messages import AppendRequest, AppendResponse, Configuration, HardState, Message, Peer
from nyala.cluster.raft.node import RaftNode
from nyala.errors import ClusterError

from .disk import Disk, SimulatedLog
from .invariants import LEAD_MARGIN

if TYPE_CHECKING:
    from .simulation import Simulation

CRASH_POINTS = 7
LOGICAL_BITS = 12
LATE_TICK = 0.01
"""Greatest delay of a tick, in seconds."""


class Server:
    """A server that is up or down. While it is up, it may be busy (paused, or waiting for its disk), and events
    wait."""

    def __init__(self, simulation: Simulation, id: str, chance: random.Random):
        profile = simulation.profile
        self.simulation = simulation
        self.id = id
        self.chance = chance
        self.disk: Disk | None = None
        self.is_up = True
        self.incarnation = 0
        self.rate = 1.0 + chance.uniform(-1, 1) * profile.drift
        self.offset = chance.uniform(0, 1000)
        self.skew = chance.uniform(-1, 1) * profile.skew
        self.is_slow = False
        self.crash_point: int | None = None
        self._reset()

    def _reset(self) -> None:
        """Drops the state that a crash loses."""
        self.has_node = False
        self.busy_until = 0.0
        self.waiting: list[Event] = []
        self.unfinished: Ready | None = None
        self.is_sending = False
        self.saving: tuple[HardState, int] | None = None
        self.held: list[tuple[Peer, Message]] = []
        self.is_syncing = False
        self.tick_at = float("inf")
        self.latest = 0
        self.applied = 0
        self.digest = 0
        self.proposals: dict[int, int] = {}
        self.leading = -1
        self.first_index = 0
        self.served = 0

    # ---- clocks ---------------------------------------------------------------------------------------------

    def now(self) -> float:
        """The monotonic clock, which drifts."""
        return self.offset + self.rate * self.simulation.time

    def physical(self) -> int:
        """The wall clock as a hybrid time; it is off by `skew`."""
        return int((1000.0 + self.simulation.time + self.skew) * 1e6) << LOGICAL_BITS

    def hybrid(self) -> int:
        """The hybrid clock, which never goes back."""
        self.latest = max(self.physical(), self.latest + 1, self.log.newest_timestamp + 1 if self.has_node else 0)
        return self.latest

    # ---- life -----------------------------------------------------------------------------------------------

    def create(self, disk: Disk) -> None:
        """Creates data of the tablet here, and starts it."""
        self.disk = disk
        self.start(is_new=disk.base_index == 0)

    def start(self, *, is_new: bool = False) -> None:
        """Starts the process with the state of its disk."""
        self.is_up = True
        if self.disk is None:
            return
        simulation, disk = self.simulation, self.disk
        *history, configuration = disk.configurations()
        self.log = SimulatedLog(disk, self)
        self.latest = self.log.newest_timestamp
        self.hard_state = disk.hard_state
        clock_limit = disk.clock_limit
        if simulation.profile.keeps_lead and disk.clock_lead:
            clock_limit = max(clock_limit, self.physical() + disk.clock_lead)
        self.applied, self.digest = disk.snapshot_index, disk.snapshot_digest
        self.node = RaftNode(
            self.id, self.log, disk.hard_state, configuration, simulation.options, now=self.now(),
            random=self.chance, hybrid=self.hybrid, wall=self.physical, clock_limit=clock_limit, is_new=is_new,
            history=history, commit_index=disk.snapshot_index,
        )  # fmt: skip
        self.has_node = True
        self.configuration_before = self.node.configuration
        self.schedule_tick()

    def crash(self, *, stays_down: bool = False) -> None:
        """Ends the process at once; a random part of the unsynced changes has reached the disk."""
        if self.disk is not None and self.has_node:
            if self.saving is not None and self.chance.random() < 0.5:
                self.save(*self.saving)
            lost = self.log.crash(self.chance.randint(0, len(self.log.pending)))
            self.simulation.invariants.lost(lost, self.disk.hard_state.term)
        self.simulation.leaders.pop(self.id, None)
        self.simulation.count["crash"] += 1
        self.incarnation += 1
        self.is_sending = False
        self.crash_point = None
        self._reset()
        self.is_up = False
        if not stays_down:
            self.simulation.after(self.chance.uniform(0.02, self.simulation.profile.longest_restart), self.restart)

    def restart(self) -> None:
        if not self.is_up:
            self.start()

    def hold(self, seconds: float) -> None:
        """Virtual SIGSTOP, or a thread that waits for its disk: the clocks continue."""
        self.busy_until = max(self.busy_until, self.simulation.time + seconds)
        self.simulation.after(seconds, self.wake, self.incarnation)

    def wake(self, incarnation: int) -> None:
        if incarnation != self.incarnation or self.is_busy:
            return
        ready, self.unfinished = self.unfinished, None
        if ready is not None:
            self._finish(ready)
        waiting, self.waiting = self.waiting, []
        for event in waiting:
            if incarnation != self.incarnation:  # crashed on the way: the rest is lost
                return
            self.submit(event)

    @property
    def is_busy(self) -> bool:
        return self.simulation.time < self.busy_until

    @property
    def is_leader(self) -> bool:
        return self.has_node and self.node.role is RaftRole.LEADER

    # ---- events ---------------------------------------------------------------------------------------------

    def receive(self, message: Message, sender_clock: int) -> None:
        """Receives a message from the network."""
        if not self.is_up:
            return
        if self.has_node:
            if sender_clock > self.latest and self.simulation.profile.exchanges_clocks:
                self.latest = sender_clock
            self.submit(Received(message))
        elif isinstance(message, AppendRequest):
            answer = AppendResponse(self.id, message.term, message.round, False, 0, is_missing=True)
            self.simulation.send(self, message.sender, answer)

    def send_held(self, incarnation: int) -> None:
        """Sends the entries that the leader has held back."""
        if incarnation == self.incarnation:
            self.is_sending = False
            self.submit(Send())

    def tick(self, incarnation: int, at: float) -> None:
        """Processes a tick that was due at true time `at`."""
        if incarnation != self.incarnation or at != self.tick_at:
            return
        self.tick_at = float("inf")
        if self.now() >= self.node.deadline:
            self.submit(Tick())
        else:
            self.schedule_tick()

    def schedule_tick(self) -> None:
        due = (self.node.deadline - self.offset) / self.rate
        if due < self.tick_at - 1e-9:
            self.tick_at = at = max(due, self.simulation.time) + self.chance.random() * LATE_TICK + 1e-6
            self.simulation.at(at, self.tick, self.incarnation, at)

    def submit(self, event: Event) -> None:
        """Passes an event to the node, now or once the server is no longer busy."""
        if self.simulation.time < self.busy_until or self.unfinished is not None:
            self.waiting.append(event)
        else:
            self.step(event)

    def step(self, event: Event) -> bool:
        """Steps the node; False if it refuses a client's event."""
        simulation, node = self.simulation, self.node
        if simulation.trace is not None:
            simulation.note(self, event)
        self.configuration_before = node.configuration
        try:
            ready = node.step(event, self.now())
        except ClusterError:
            self.schedule_tick()
            return False
        if simulation.trace is not None:
            simulation.note(self, ready)
        self._handle(ready)
        return True

    # ---- a Ready, in its order --------------------------------------------------------------------------------

    def _handle(self, ready: Ready) -> None:
        if ready.truncated_to is not None:
            self.simulation.invariants.truncated(self, ready.truncated_to)
            self.proposals = {i: term for i, term in self.proposals.items() if i <= ready.truncated_to}
        if ready.hard_state is not None:
            self.hard_state = ready.hard_state
        profile = self.simulation.profile
        if (self.is_slow or profile.slow_disk or profile.holds_messages) and self.needs_saving():
            if not profile.holds_messages:
                self.unfinished = ready
                self.hold(self.simulation.disk_delay(self))
                return
            self._begin_saving()
        self._finish(ready)

    def _finish(self, ready: Ready) -> None:
        assert self.disk is not None
        if self.crash_point is not None and (ready.messages or ready.commit_index is not None):
            self._crash_within(ready, self.crash_point)
            return
        if self.simulation.fragile and self.chance.random() < self.simulation.fragile:
            points = self._delicate_points(ready)
            if points:
                self._crash_within(ready, self.chance.choice(points))
                return
        self._send(ready, len(ready.messages))
        self._apply(ready)
        self._tell(ready)

    def _delicate_points(self, ready: Ready) -> Sequence[int]:
        """Returns the steps at which a crash is dangerous: any with a new term, vote or leadership; after the first
        commit of a leader."""
        is_leader = self.node.role is RaftRole.LEADER
        if ready.hard_state is not None or (is_leader and self.leading != self.node.term):
            return range(CRASH_POINTS)
        is_first_commit = ready.commit_index is not None and ready.commit_index <= self.first_index
        return (5, 6) if is_leader and is_first_commit else ()

    def _crash_within(self, ready: Ready, point: int) -> None:
        if point >= 1:
            count = len(ready.messages)
            self._send(ready, count // 2 if point == 3 else count if point in (4, 5) else 0)
        if point >= 5:
            self._apply(ready)
        self.crash()

    def _send(self, ready: Ready, count: int) -> None:
        """Sends the messages, after everything that they depend on."""
        if not self.saving and self.needs_saving():
            self.save(self.hard_state, self.node.clock_limit)
        self.start_sync()
        if self.saving:
            self.held += ready.messages[:count]
            return
        for peer, message in ready.messages[:count]:
            self.simulation.send(self, peer.id, message)

    def needs_saving(self) -> bool:
        """True if the disk, after a crash, would give another term or vote, or a lower clock limit."""
        if self.hard_state is not self.disk.hard_state:
            return True
        limit = self.node.clock_limit
        if self.simulation.profile.keeps_lead:
            return limit > self.physical() + self.disk.clock_lead
        return limit != self.disk.clock_limit

    def save(self, hard_state: HardState, clock_limit: int) -> None:
        """Saves one file. A limit that keeps its distance from the wall clock need not be written each time it
        rises."""
        self.disk.hard_state = hard_state
        self.disk.clock_limit = clock_limit
        self.disk.clock_lead = max(clock_limit - self.physical(), 0) + LEAD_MARGIN

    def _begin_saving(self) -> None:
        """Writes the file while the node continues; its messages are held meanwhile."""
        if not self.saving:
            self.saving = (self.hard_state, self.node.clock_limit)
            self.simulation.after(self.simulation.disk_delay(self), self._saved, self.incarnation)

    def _saved(self, incarnation: int) -> None:
        if incarnation != self.incarnation or self.saving is None:
            return
        self.save(*self.saving)
        self.saving = None
        if self.needs_saving():
            self._begin_saving()
            return
        held, self.held = self.held, []
        for peer, message in held:
            self.simulation.send(self, peer.id, message)
        self.start_sync()
        self._note_leadership()

    def start_sync(self) -> None:
        """Begins to write pending changes; one sync at a time, as a group commit, and after the hard state."""
        pending = self.log.pending
        if pending and not self.is_syncing and not self.saving:
            self.is_syncing = True
            self.simulation.after(
                self.simulation.disk_delay(self), self._synced, self.incarnation, len(pending), self.log.truncations
            )

    def _synced(self, incarnation: int, count: int, truncations: int) -> None:
        if incarnation != self.incarnation:
            return
        if self.chance.random() < self.simulation.profile.partial_sync:
            count = self.chance.randint(1, count)
        index, term = self.log.flush(count)
        self.is_syncing = False
        if truncations == self.log.truncations and not any(isinstance(change, int) for change in self.log.pending):
            self.submit(Persisted(index, term))
        else:  # `Persisted` reports only syncs that were begun after the last truncation, and have done that
            self.start_sync()

    def _apply(self, ready: Ready) -> None:
        if ready.commit_index is None:
            return
        log, node, invariants, simulation = self.log, self.node, self.simulation.invariants, self.simulation
        if node.role is RaftRole.LEADER:
            invariants.majority_holds(self, ready.commit_index)
        for index in range(self.applied + 1, ready.commit_index + 1):
            entry = log.entry(index)
            invariants.committed_at(entry, node.term, self.id)
            self.applied, self.digest = index, invariants.digests[index]
            if self.proposals.pop(index, -1) == entry.term:
                invariants.acknowledged_index = max(invariants.acknowledged_index, index)
                simulation.count["acknowledged"] += 1

    def _tell(self, ready: Ready) -> None:
        """Reports the notifications, and everything that holds only after the whole Ready."""
        simulation, node = self.simulation, self.node
        self._note_leadership()
        if ready.clock_floor is not None:
            self.latest = max(self.latest, ready.clock_floor)
            simulation.invariants.clock_moved(self, ready.clock_floor)
        self.keep_configuration(node.committed_configuration)
        for peer in ready.bootstraps:
            simulation.bootstrap_wanted(self, peer)
        self._serve_follower_read()
        if ready.is_held and not self.is_sending:
            self.is_sending = True
            simulation.after(self.simulation.profile.delay, self.send_held, self.incarnation)
        self.schedule_tick()
        self.start_sync()

    def _note_leadership(self) -> None:
        simulation, node = self.simulation, self.node
        if node.role is RaftRole.LEADER:
            if self.leading != node.term and not self.saving:  # before that, no peer has heard of this leader
                self.leading = node.term
                self.first_index = self.log.last_index
                simulation.leaders[self.id] = self
                simulation.count["elected"] += 1
                simulation.invariants.elected(self)
                simulation.elected(self)
            if len(simulation.leaders) > 1:
                simulation.invariants.leases_are_exclusive(simulation.leaders)
        elif self.leading >= 0:
            self.leading = -1
            simulation.leaders.pop(self.id, None)

    def keep_configuration(self, configuration: Configuration) -> None:
        """The last committed configuration is durable before the log could be trimmed after it."""
        if configuration.index > self.disk.configuration.index:
            self.disk.configuration = configuration
            self.simulation.count["configuration"] += 1

    # ---- reads, flushes, copies -------------------------------------------------------------------------------

    def _serve_follower_read(self) -> None:
        """Serves a follower's read at its greatest readable timestamp, whenever that has grown."""
        node = self.node
        if self.saving:
            return  # if it has led as the only voter, the clock limit behind its safe time may not be durable yet
        if node.safe_time > self.served and self.applied >= node.safe_index and node.role is not RaftRole.LEADER:
            self.served = node.safe_time
            self.simulation.count["follower read"] += 1
            self.simulation.invariants.read_at(self, node.safe_time)

    def serve_leader_read(self, *, at_limit: bool) -> None:
        """Serves a leader's read of the latest state, and one as of a timestamp: its clock's, or the greatest it may
        serve."""
        node = self.node
        if not node.is_serving or not node.has_lease(self.now()):
            return
        if self.saving and len(node.configuration.voters) == 1:
            return  # no other peer has the clock limit, so it holds only once it is durable here
        self.simulation.count["leader read"] += 1
        self.simulation.invariants.read_latest(self)
        timestamp = node.timestamp_limit if at_limit else min(self.hybrid(), node.timestamp_limit)
        if self.log.last_index > self.applied:  # snapshots that need entries in flight would wait; this one need not
            timestamp = min(timestamp, self.log.entry(self.applied + 1).timestamp - 1)
        self.latest = max(self.latest, timestamp)
        self.simulation.invariants.read_at(self, timestamp)

    def announce_safe_time(self) -> None:
        """No write is between its timestamp and its proposal here, so every later one is above the clock's now."""
        node = self.node
        if node.is_serving:
            node.announce_safe_time(min(self.hybrid(), node.timestamp_limit), self.log.last_index)

    def flush_and_trim(self) -> None:
        """Flushes the state machine, and trims the log up to its flushed and durable entries, or less far."""
        if not self.has_node:
            return
        disk = self.disk
        durable = disk.base_index + len(disk.entries)
        index = min(self.applied, durable)
        if any(isinstance(change, int) for change in self.log.pending) or index <= self.log.base_index:
            return
        disk.snapshot_index, disk.snapshot_digest = index, self.simulation.invariants.digests[index]
        self.log.remove_through(self.chance.randint(self.log.base_index + 1, index))
        self.simulation.count["trim"] += 1

    def copy_for(self, target: Server) -> Disk:
        """Returns the target's disk after a copy: the state machine as applied here, the log from there on, and the
        target's own term and vote, which must never be lost."""
        own = target.disk
        hard_state = HardState(self.node.term)
        if own is not None and own.hard_state.term >= hard_state.term:
            hard_state = own.hard_state
        term = self.log.term(self.applied)
        assert term is not None
        return Disk(
            hard_state,
            self.node.committed_configuration,
            clock_limit=max(self.node.clock_limit, own.clock_limit if own is not None else 0),
            base_index=self.applied,
            base_term=term,
            snapshot_index=self.applied,
            snapshot_digest=self.digest,
            clock_lead=own.clock_lead if own is not None else 0,
        )

    def describe(self) -> str:
        if not self.has_node:
            return f"{self.id} {'without data' if self.is_up else 'down'}"
        node, log = self.node, self.log
        return (
            f"{self.id} {node.role} term {node.term} log {log.base_index + 1}..{log.last_index} commit "
            f"{node.commit_index} applied {self.applied} leader {node.leader!r} peers "
            f"{[(p.id, p.role.name) for p in node.configuration.peers]}"
        )


def make_peer(id: str) -> Peer:
    return Peer(id, f"{id}:7050")
