"""One tablet's consensus, as its replica and its server use it: leadership, safe reads, decisions.

`peer_driver` does the work; the methods here query it and wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from ...errors import (
    ConfigurationRefused,
    DeadlineExceeded,
    NotTheLeader,
    ReplicaUnavailable,
    StoreClosed,
)
from ...model.clock import format_timestamp
from ...model.store import Timestamp
from ...storage.log.wal import LogTicket
from ...storage.log.wal_format import EntryKind
from ..raft.events import Campaign, ChangePeers, Transfer
from ..raft.messages import Configuration, Entry, HardState, Peer, PeerRole
from .log.log_retention import Anchor, LogRetention
from .log.replicated_log import ReplicatedLog
from .peer_driver import PeerDriver

LEASE_WAIT = 1.0
"""Seconds for which a read at the leader waits for an expired lease or clock limit."""


class ConsensusStatus(Struct, frozen=True, kw_only=True):
    """Status of a peer. `leader` is an id, "" while none is known; `error` is the reason for which the peer has
    stopped; `silent` names voters that the leader has not heard from for `RaftOptions.eviction_timeout`."""

    role: str
    term: int
    leader: str
    configuration: Configuration
    is_serving: bool
    commit_index: int
    last_index: int
    applied_index: int
    error: str = ""
    silent: tuple[str, ...] = ()


class Consensus:
    """A replica's part in its tablet's consensus; thread-safe. Deadlines are those of `time.monotonic`.

    Locks: methods acquire that of the driver, which comes after a tablet's `write_lock`; those that wait release it.

    Attributes
    ----------
    log : ReplicatedLog
        For the tablet.
    """

    def __init__(self, driver: PeerDriver):
        self._driver = driver
        self._retention = LogRetention(driver)
        self.tablet_id = driver.tablet_id
        self.log = ReplicatedLog(driver, self._retention, self.close)

    # ---- what it is ----------------------------------------------------------------------------------------------

    def status(self) -> ConsensusStatus:
        """Returns the current status."""
        driver = self._driver
        with driver.lock:
            node = driver.node
            return ConsensusStatus(
                role=str(node.role),
                term=node.term,
                leader=node.leader,
                configuration=node.configuration,
                is_serving=driver.is_serving,
                commit_index=node.commit_index,
                last_index=driver.log.last_index,
                applied_index=driver.applier.applied_index,
                error="" if driver.error is None else str(driver.error),
                silent=driver.silent_peers(),
            )

    def leader_address(self) -> str:
        """Address of the leader; "" while none is known."""
        with self._driver.lock:
            leader = self._driver.node.leader_peer
            return "" if leader is None else leader.address

    @property
    def is_serving(self) -> bool:
        """True if this peer leads, and the tablet's memory has everything that was committed before."""
        return self._driver.is_serving

    @property
    def hard_state(self) -> HardState:
        """Term and vote."""
        with self._driver.lock:
            return self._driver.node.hard_state

    @property
    def committed_configuration(self) -> Configuration:
        """The newest configuration that no later leader can truncate."""
        with self._driver.lock:
            return self._driver.node.committed_configuration

    @property
    def clock_limit(self) -> int:
        """The greatest hybrid time up to which this peer has allowed a leader to assign timestamps."""
        with self._driver.lock:
            return self._driver.node.clock_limit

    @property
    def applied_index(self) -> int:
        """All entries up to this index are committed and in the tablet's memory."""
        return self._driver.applier.applied_index

    def term_at(self, index: int) -> int | None:
        """Returns the term of an entry; None if the log does not have it (any more, or yet)."""
        return self._driver.log.term(index)

    def entries(self, first: int, last: int, max_bytes: int) -> Sequence[Entry]:
        """Returns entries of the log, as `raft.events.Log.entries`."""
        return self._driver.log.entries(first, last, max_bytes)

    # ---- serving -------------------------------------------------------------------------------------------------

    def check_serving(self) -> None:
        """Raises `NotTheLeader`, with the leader's address, unless this peer leads and serves."""
        driver = self._driver
        if driver.is_serving and driver.error is None:
            return  # as good as an answer under the lock, which may be outdated once that is released
        with driver.lock:
            self.log.check_serving()

    def check_can_serve(self, timestamp: int, deadline: float = math.inf) -> None:
        """Returns when this leader may read at a time: no other leader is elected, and none will write at or below it.

        Waits up to `LEASE_WAIT` for an expired lease; then raises `NotTheLeader`, or `DeadlineExceeded` at an earlier
        deadline.
        """
        driver = self._driver
        with driver.lock:
            if self._may_serve(timestamp):
                return
            until = driver.services.now() + LEASE_WAIT
            while not self._may_serve(timestamp):
                driver.renew()
                if not self._may_serve(timestamp) and not driver.wait(min(until, deadline)):
                    if deadline < until:
                        raise DeadlineExceeded(
                            f"a majority of tablet {self.tablet_id} has not confirmed in time that {driver.node.id} "
                            "leads"
                        )
                    raise NotTheLeader(
                        f"{driver.node.id} leads tablet {self.tablet_id} in term {driver.node.term}, but no majority "
                        f"has confirmed that up to {format_timestamp(Timestamp(timestamp))}",
                        "",
                        driver.node.term,
                    )

    def _may_serve(self, timestamp: int) -> bool:
        driver = self._driver
        if not driver.is_serving or driver.error is not None:
            self.log.check_serving()
        return timestamp <= driver.timestamp_limit and driver.node.has_lease(driver.services.now())

    def wait_safe(self, timestamp: int, deadline: float) -> None:
        """Returns when this replica's memory has every write at or below a time, now and in future.

        At the leader some of these may still be in flight (`MvccManager`). Raises `ReplicaUnavailable` at the deadline.
        """
        driver = self._driver
        with driver.lock:
            while not self._is_safe(timestamp):
                if driver.is_serving:
                    driver.renew()
                if not self._is_safe(timestamp) and not driver.wait(deadline):
                    raise ReplicaUnavailable(
                        f"{driver.node.id} does not have all of tablet {self.tablet_id} up to "
                        f"{format_timestamp(Timestamp(timestamp))} yet"
                    )
            driver.services.clock.update(Timestamp(timestamp))

    def _is_safe(self, timestamp: int) -> bool:
        driver = self._driver
        driver.check_running()
        node = driver.node
        if driver.is_serving:
            return timestamp <= driver.timestamp_limit and node.has_lease(driver.services.now())
        return timestamp <= driver.safe_time and driver.applier.applied_index >= node.safe_index

    # ---- entries -------------------------------------------------------------------------------------------------

    def propose(self, kind: EntryKind, body: bytes) -> LogTicket:
        """Proposes an entry with a current timestamp; every replica, also this one, applies it
        (`ReplicatedState.apply`) when it is committed. Raises as `ReplicatedLog.append`."""
        return self.log.propose(kind, body)

    def wait(self, ticket: LogTicket, deadline: float) -> None:
        """Returns when an entry is committed; raises as `ReplicatedLog.sync`."""
        self.log.wait(ticket, deadline)

    def when_decided(self, ticket: LogTicket, told: Callable[[], None]) -> None:
        """Calls `told` once `wait` would no longer block; see `ReplicatedLog.when_decided`."""
        self.log.when_decided(ticket, told)

    def wait_applied(self, index: int, deadline: float) -> None:
        """Returns when all entries up to `index` are committed and in this replica's memory; raises
        `DeadlineExceeded`."""
        driver = self._driver
        with driver.lock:
            while driver.applier.applied_index < index:
                driver.check_running()
                if not driver.wait(deadline):
                    raise DeadlineExceeded(
                        f"{driver.node.id} has applied entry {driver.applier.applied_index} of tablet "
                        f"{self.tablet_id}, not {index} yet"
                    )

    def anchor(self, index: int) -> Anchor:
        """Keeps the log from entry `index` on, until the anchor is closed or garbage-collected; raises `IndexError` if
        the log no longer has that entry."""
        return self._retention.anchor(index)

    def hold_log_for(self, receiver: str, index: int) -> None:
        """Keeps the log for a peer that has copied the data up to entry `index`, until it has caught up or makes no
        more progress."""
        self._retention.hold_for(receiver, index)

    # ---- peers ---------------------------------------------------------------------------------------------------

    def change(self, kind: str, peer: Peer, expected_index: int | None, deadline: float) -> Configuration:
        """Changes the configuration, as leader, and waits until the change is committed. No-op if it already holds.

        Parameters
        ----------
        kind : str
            "add" (as PRE_VOTER, promoted when it has caught up) or "remove".
        expected_index : int, optional
            Required log index of the current configuration.

        Raises `NotTheLeader`, `ConfigurationRefused`, `DeadlineExceeded` (the change may still be committed then).
        """
        driver = self._driver
        with driver.lock:
            self.log.check_serving()
            peers = _changed(driver.node.configuration, kind, peer)
            if peers is not None:
                driver.step_locked(ChangePeers(peers, expected_index))
            pending, term = driver.node.configuration, driver.node.term
            while driver.node.committed_configuration.index < pending.index:
                self.log.check_serving()
                if driver.node.term != term or driver.node.configuration.index < pending.index:
                    raise NotTheLeader(
                        f"another leader of tablet {self.tablet_id} was elected before the change was committed; "
                        "check the configuration",
                        "",
                        driver.node.term,
                    )
                if not driver.wait(deadline):
                    raise DeadlineExceeded(
                        f"the peers of tablet {self.tablet_id} have not committed entry {pending.index} in time"
                    )
            return driver.node.committed_configuration

    def transfer(self, target: str | None = None) -> None:
        """Begins the transfer of leadership to a voter; None: to the most up-to-date one. Returns without waiting for
        the election. Raises `NotTheLeader`, `ConfigurationRefused`."""
        self._driver.step(Transfer(target))

    def campaign(self) -> None:
        """Starts an election at once: for the first leader of a new tablet."""
        self._driver.step(Campaign())

    # ---- the disk ------------------------------------------------------------------------------------------------

    def note_space(self, is_full: bool) -> None:
        """Notes that the disk with this peer's files has become full, or has space again."""
        self._driver.note_space(is_full)

    def voters_without_space(self) -> list[Peer]:
        """As leader, returns the voters whose disks are full if too few others are left to commit anything; else
        none."""
        return self._driver.voters_without_space()

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stops taking part and closes the files. Idempotent.

        Waits for calls of `ReplicatedState` to return, except one that makes this call itself. Raises `DiskError` if
        the log's end could not be synced.
        """
        self._driver.close(StoreClosed(f"tablet {self.tablet_id} is closed here; open it again"))


def _changed(configuration: Configuration, kind: str, peer: Peer) -> tuple[Peer, ...] | None:
    """Returns the peers after a change; None if nothing changes."""
    present = configuration.peer(peer.id)
    if kind == "add":
        added = Peer(peer.id, peer.address, PeerRole.PRE_VOTER)
        if present is None:
            return (*configuration.peers, added)
        if present.address == peer.address:
            return None
        moved = Peer(peer.id, peer.address, present.role)
        return tuple(moved if known is present else known for known in configuration.peers)
    if kind == "remove":
        return None if present is None else tuple(known for known in configuration.peers if known is not present)
    raise ConfigurationRefused(f'peers are changed by "add" or "remove", not "{kind}"')
