"""A replicated tablet's log, as the tablet sees it: the embedded `WriteAheadLog` with "durable" read as "committed".

    WriteAheadLog                        ReplicatedLog
    append      at the end of a file     proposed by the leader; `NotTheLeader` at other peers
    sync        an fsync                 the decision: committed, or truncated by a later leader
    last_index  in the file              in the tablet's memory: own proposals, and applied entries
    schema      change_schema            by ALTER entries

The bodies of a WRITE are one entry here, however many there are: otherwise several could be committed without the last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

import pyarrow as pa

from ....errors import (
    DeadlineExceeded,
    NotTheLeader,
    OperationalError,
    ServerOverloaded,
    StaleSchema,
    StoreClosed,
)
from ....model import waiting_time
from ....model.clock import format_timestamp
from ....model.store import Timestamp
from ....storage.log.tablet_log import MustWait, WriteContext
from ....storage.log.wal import LogMark, LogTicket
from ....storage.log.wal_format import WRITES, EntryKind
from ...disk_errors import is_full
from ...raft.events import Propose
from ..peer_driver import PeerDriver
from ..proposals import Proposal
from .log_retention import LogRetention

DEFAULT_WAIT = 30.0
"""Seconds for which `sync` waits without a deadline of the caller; a longer wait would be for a decision that may never
come."""
LIMIT_WAIT = 1.0
"""Seconds for which a proposal waits until a majority has heard a clock limit above its timestamp."""

MAX_UNWRITTEN_BYTES = 64 << 20
"""Most bytes of bodies that wait for the leader's own disk while others commit them without it."""


class ReplicatedLog:
    """Implements `storage.log.tablet_log.TabletLog`."""

    def __init__(self, driver: PeerDriver, retention: LogRetention, close: Callable[[], None]):
        self._driver = driver
        self._retention = retention
        self._close = close

    # ---- state ---------------------------------------------------------------------------------------------------

    @property
    def last_index(self) -> int:
        """The last entry whose effects are in the tablet's memory."""
        return self._driver.proposals.memory_index

    @property
    def synced_index(self) -> int:
        """Entries up to here are in the tablet's memory, committed, and on this server's own disk."""
        driver = self._driver
        with driver.lock:
            return min(driver.proposals.memory_index, driver.node.commit_index, driver.log.synced_index)

    def repair(self) -> None:
        """No-op: Raft decides about entries whose write failed."""

    @property
    def finished_index(self) -> int:
        """Last entry of the finished segments, or the last synced one before; 0 if there is none."""
        finished = self._driver.log.finished_index
        return min(finished, self.synced_index) if finished else 0

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._driver.log.size

    def size_from(self, index: int) -> int:
        """Returns the bytes of the segments that must stay because of entry `index` and later ones, an anchor, or peers
        that lack them."""
        return self._driver.log.size_from(self._retention.floor(index - 1) + 1)

    def schema_at(self, index: int) -> pa.Schema:
        """Returns the schema of the rows in entry `index`."""
        return self._driver.log.schema_at(index)

    # ---- append --------------------------------------------------------------------------------------------------

    def append(
        self,
        timestamp: int,
        kind: EntryKind,
        bodies: Sequence[bytes],
        after: LogTicket | None = None,
        context: WriteContext | None = None,
    ) -> LogTicket:
        """Proposes entries, one per body, or one of all bodies of a WRITE; their effects will be in the tablet's memory
        before the caller releases its `write_lock`.

        `after` is an entry that these depend on: if it fails, they fail too. A write with a `context` is one entry,
        which `context` encodes. Returns the ticket of the last one.
        Raises, with nothing done, `NotTheLeader`, `ServerOverloaded`, `StaleSchema` (while an ALTER is in progress),
        `ReplicaUnavailable`, or the error of `after`.
        """
        if kind in WRITES and len(bodies) > 1:
            bodies = (b"".join(bodies),)
        if context is not None:
            (body,) = bodies
            kind, body = context.encode(timestamp, kind, body)
            bodies = (body,)
        waits = context is None or context.waits
        return self._propose(timestamp, kind, bodies, after, in_memory=True, waits=waits)

    def propose(self, kind: EntryKind, body: bytes) -> LogTicket:
        """Proposes an entry that this replica applies when it is committed, as its followers do; assigns its timestamp.
        Raises as `append`."""
        return self._propose(None, kind, (body,), None, in_memory=False)

    def _propose(
        self,
        timestamp: int | None,
        kind: EntryKind,
        bodies: Sequence[bytes],
        after: LogTicket | None,
        *,
        in_memory: bool,
        waits: bool = True,
    ) -> Proposal:
        driver = self._driver
        safe = driver.safe_timestamp()
        with driver.lock:
            if timestamp is None:
                timestamp = driver.services.clock.now()
            self._wait_for_turn(timestamp, waits)
            if after is not None and after.error is not None:
                raise _again(after.error)
            if safe:
                driver.announce(safe)
            first = driver.log.last_index + 1
            last = first + len(bodies) - 1
            driver.step_locked(Propose(tuple([(timestamp, kind, body) for body in bodies])))
            # After the step: it never commits these by itself, and the lock excludes other proposals.
            proposal = driver.proposals.add(last, len(bodies), in_memory=in_memory)
            if waiting_time.exporter is not None:
                _trace(driver, proposal)
            if in_memory:
                driver.applier.add_own(first, last)
            elif kind is EntryKind.ALTER:
                driver.altering_index = last
        return proposal

    def _wait_for_turn(self, timestamp: int, waits: bool) -> None:
        """Returns when the leader may assign a timestamp; raises `MustWait` if that is not now, and it must not wait.
        Needs the lock of the consensus."""
        driver = self._driver
        until = 0.0
        while True:
            self.check_serving()
            if timestamp <= driver.timestamp_limit:
                break
            driver.renew()
            if not waits:
                raise MustWait
            until = until or driver.services.now() + LIMIT_WAIT
            if timestamp > driver.timestamp_limit and not driver.wait(until):
                raise ServerOverloaded(
                    f"no majority of tablet {driver.tablet_id} has agreed to timestamps as late as "
                    f"{format_timestamp(Timestamp(timestamp))} yet"
                )
        if driver.log.memory_bytes > MAX_UNWRITTEN_BYTES:
            raise ServerOverloaded(
                f"{driver.log.memory_bytes:,} bytes of tablet {driver.tablet_id} wait for the disk; try again later"
            )
        if driver.altering_index > driver.applier.applied_index:
            raise StaleSchema(f"tablet {driver.tablet_id} is being altered; try again")

    def check_serving(self) -> None:
        """Raises `NotTheLeader` or `ReplicaUnavailable` unless this peer leads and serves. Needs the lock of the
        consensus."""
        driver = self._driver
        driver.check_running()
        if driver.is_serving:
            return
        node = driver.node
        leader = node.leader_peer
        if node.leader == node.id:
            message = f"{node.id} has become the leader of tablet {driver.tablet_id} and is not ready yet"
        else:
            message = (
                f"{node.id} is {node.role} of tablet {driver.tablet_id} in term {node.term}; "
                f"the leader is {node.leader or 'not known'}"
            )
        raise NotTheLeader(message, leader.address if leader is not None else "", node.term)

    # ---- decisions -----------------------------------------------------------------------------------------------

    def sync(self, ticket: LogTicket, context: WriteContext | None = None) -> None:
        """Returns when the entry is committed. Raises the error for which it failed; `DeadlineExceeded` if it is not
        decided in time, `ReplicaUnavailable` if it cannot be decided here any more. After these two it may still be
        committed."""
        deadline = None if context is None else context.deadline
        self.wait(ticket, self._driver.services.now() + DEFAULT_WAIT if deadline is None else deadline)

    def wait(self, ticket: LogTicket, deadline: float) -> None:
        """Like `sync`, until a time (`time.monotonic`)."""
        if ticket.durable:
            return
        if not ticket.is_decided:
            assert isinstance(ticket, Proposal), "a ticket of this log"
            self._wait(ticket, deadline)
        if ticket.error is not None:
            raise _again(ticket.error) from ticket.error
        if not ticket.durable:
            self._driver.check_running()
            raise DeadlineExceeded(
                f"entry {ticket.index} of tablet {self._driver.tablet_id} was not committed in time; it may still be"
            )

    def _wait(self, proposal: Proposal, deadline: float) -> None:
        driver = self._driver
        waiter = threading.Lock()
        waiter.acquire()
        with driver.lock:
            if proposal.is_decided or driver.error is not None:
                return
            proposal.waiters.append(waiter.release)
        if waiter.acquire(timeout=max(0.0, deadline - driver.services.now())):
            return
        with driver.lock:
            if not proposal.is_decided:
                proposal.is_abandoned = True
                if waiter.release in proposal.waiters:
                    proposal.waiters.remove(waiter.release)

    def when_decided(self, ticket: LogTicket, told: Callable[[], None]) -> None:
        """Calls `told` once when `sync` would no longer block: at once, or later under the lock of the consensus, so it
        must only pass the notification on."""
        driver = self._driver
        with driver.lock:
            if not ticket.is_decided and driver.error is None:
                assert isinstance(ticket, Proposal), "a ticket of this log"
                ticket.waiters.append(told)
                return
        told()

    def decided(self, tickets: Iterable[LogTicket]) -> int:
        """Returns how many tickets, from the first on, are decided; consecutive failed ones are counted together."""
        with self._driver.lock:
            return sum(1 for _ in takewhile(lambda ticket: ticket.is_decided, tickets))

    def mark(self) -> LogMark:
        """Returns the end of the entries in the tablet's memory."""
        with self._driver.lock:
            return self._driver.proposals.mark()

    def sync_now(self) -> None:
        """Syncs all entries in the tablet's memory to this server's own disk, whatever the durability; this decides
        nothing. Raises `DiskError`."""
        driver = self._driver
        target = self.last_index
        while driver.log.synced_index < min(target, driver.log.last_index):
            if driver.error is not None and driver.log.failure is None:
                raise StoreClosed(f"the log of tablet {driver.tablet_id} is closed: {driver.error}")
            try:
                driver.log.persist(force=True)
            except Exception as error:
                if is_full(error):
                    driver.note_full(error)
                else:
                    driver.fail(error)
                raise

    # ---- segments ------------------------------------------------------------------------------------------------

    def change_schema(self, schema: pa.Schema) -> None:
        """No-op: the ALTER entry that the caller applies has begun a segment with its schema."""

    def remove_through(self, index: int) -> None:
        """Removes the segments all of whose entries are at or below `index` and not needed, oldest first. After a
        `DiskError` they are removed when the log is next opened."""
        self._retention.remove_through(index)

    def close(self) -> None:
        """Stops this replica's part in the consensus and closes the files."""
        self._close()


def _trace(driver: PeerDriver, proposal: Proposal) -> None:
    """Gives the call that this thread serves two spans: until a proposal is decided, and until it is on the own disk.
    Needs the lock of the consensus."""
    from ....model import tracing  # few processes have an exporter

    if (trace := tracing.current()) is not None:
        proposal.waiters.append(trace.begin("replicate"))
        driver.unsynced.append((proposal.index, trace.begin("wal")))


def _again(error: OperationalError) -> OperationalError:
    """Returns a copy of the error for another thread."""
    if isinstance(error, NotTheLeader):
        return NotTheLeader(str(error), error.leader, error.term)
    return type(error)(*error.args)
