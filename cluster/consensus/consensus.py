"""One tablet's consensus, as its replica and its server use it: who leads, what may be served, what has been decided.

The work is done by `peer_driver`; here are the questions that can be asked of it, and the waiting for answers.
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
"""Seconds for which a read at the leader waits for a lease, or a clock limit, that has run out."""


class ConsensusStatus(Struct, frozen=True, kw_only=True):
    """A peer about itself. `leader` is an id, "" while none is known; `error` says why it has stopped; `silent` names
    voters that the leader has not heard of for long (`RaftOptions.eviction_timeout`)."""

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
    """A replica's part in its tablet's consensus; safe for several threads. Deadlines are those of `time.monotonic`.

    Locks: methods take that of the driver, which comes after a tablet's `write_lock`; those that wait give it up.

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
        """As of now."""
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
        """Where the leader listens; "" while none is known."""
        with self._driver.lock:
            leader = self._driver.node.leader_peer
            return "" if leader is None else leader.address

    @property
    def is_serving(self) -> bool:
        """Leader, and all that was committed before it led is in the tablet's memory."""
        return self._driver.is_serving

    @property
    def hard_state(self) -> HardState:
        """Term and vote."""
        with self._driver.lock:
            return self._driver.node.hard_state

    @property
    def committed_configuration(self) -> Configuration:
        """The newest configuration that no later leader takes back."""
        with self._driver.lock:
            return self._driver.node.committed_configuration

    @property
    def clock_limit(self) -> int:
        """The greatest hybrid time up to which this peer has let a leader give out timestamps."""
        with self._driver.lock:
            return self._driver.node.clock_limit

    @property
    def applied_index(self) -> int:
        """All entries up to here are committed and in the tablet's memory."""
        return self._driver.applier.applied_index

    def term_at(self, index: int) -> int | None:
        """The term of an entry; None where the log has it no more, or not yet."""
        return self._driver.log.term(index)

    def entries(self, first: int, last: int, max_bytes: int) -> Sequence[Entry]:
        """Entries of the log, as `raft.events.Log.entries`."""
        return self._driver.log.entries(first, last, max_bytes)

    # ---- serving -------------------------------------------------------------------------------------------------

    def check_serving(self) -> None:
        """Raise `NotTheLeader`, with the leader's address, unless this is a leader that serves."""
        with self._driver.lock:
            self.log.check_serving()

    def check_can_serve(self, timestamp: int, deadline: float = math.inf) -> None:
        """Return when this leader may read at a time: no other one is elected, nor will one write below. Waits a little
        for a lease that has run out; `NotTheLeader` where none comes, `DeadlineExceeded` where the deadline comes
        first."""
        driver = self._driver
        with driver.lock:
            until = driver.services.now() + LEASE_WAIT
            while not self._may_serve(timestamp):
                driver.renew()
                if not self._may_serve(timestamp) and not driver.wait(min(until, deadline)):
                    if deadline < until:
                        raise DeadlineExceeded(
                            f"a majority of tablet {self.tablet_id} has not said in time that {driver.node.id} leads"
                        )
                    raise NotTheLeader(
                        f"{driver.node.id} leads tablet {self.tablet_id} in term {driver.node.term} without the answer "
                        f"of a majority that it still does, up to {format_timestamp(Timestamp(timestamp))}",
                        "",
                        driver.node.term,
                    )

    def can_serve(self, timestamp: int) -> bool:
        """Would `check_can_serve` return at once? `NotTheLeader` where this is no leader that serves."""
        with self._driver.lock:
            return self._may_serve(timestamp)

    def _may_serve(self, timestamp: int) -> bool:
        self.log.check_serving()
        driver = self._driver
        return timestamp <= driver.timestamp_limit and driver.node.has_lease(driver.services.now())

    def wait_safe(self, timestamp: int, deadline: float) -> None:
        """Return when every write at or below a time, now and for ever, is in this replica's memory; at the leader some
        may be in flight yet (`MvccManager`). `ReplicaUnavailable` where that is not so at the deadline."""
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
        """Propose an entry, with a timestamp of now; at this replica, too, it is applied (`ReplicatedState.apply`) when
        it is committed. Raises as `ReplicatedLog.append`."""
        return self.log.propose(kind, body)

    def wait(self, ticket: LogTicket, deadline: float) -> None:
        """Return when an entry is committed; raises as `ReplicatedLog.sync`."""
        self.log.wait(ticket, deadline)

    def when_decided(self, ticket: LogTicket, told: Callable[[], None]) -> None:
        """Call `told` when `wait` would not wait any more; see `ReplicatedLog.when_decided`."""
        self.log.when_decided(ticket, told)

    def wait_applied(self, index: int, deadline: float) -> None:
        """Return when all entries up to `index` are committed and in this replica's memory. `DeadlineExceeded`."""
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
        """Hold the log from entry `index` on, until it is closed or forgotten; `IndexError` where that is gone."""
        return self._retention.anchor(index)

    def hold_log_for(self, receiver: str, index: int) -> None:
        """Hold the log for a peer that has copied the data up to entry `index`, until it has caught up, or does not
        come nearer any more."""
        self._retention.hold_for(receiver, index)

    # ---- peers ---------------------------------------------------------------------------------------------------

    def change(self, kind: str, peer: Peer, expected_index: int | None, deadline: float) -> Configuration:
        """Change the configuration, as leader, and wait until that is committed.

        Parameters
        ----------
        kind : str
            "add" (as PRE_VOTER, promoted when it has caught up) or "remove"; done where it is so already.
        expected_index : int, optional
            Only where that is the index of the configuration now.

        Raises `NotTheLeader`, `ConfigurationRefused`, `DeadlineExceeded` (it may still come about then).
        """
        driver = self._driver
        with driver.lock:
            self.log.check_serving()
            peers = _changed(driver.node.configuration, kind, peer)
            if peers is not None:
                driver.step_locked(ChangePeers(peers, expected_index))
            wanted, term = driver.node.configuration, driver.node.term
            while driver.node.committed_configuration.index < wanted.index:
                self.log.check_serving()
                if driver.node.term != term or driver.node.configuration.index < wanted.index:
                    raise NotTheLeader(
                        f"another leader of tablet {self.tablet_id} came before the change was committed; look again",
                        "",
                        driver.node.term,
                    )
                if not driver.wait(deadline):
                    raise DeadlineExceeded(
                        f"the peers of tablet {self.tablet_id} have not agreed on entry {wanted.index} in time"
                    )
            return driver.node.committed_configuration

    def transfer(self, target: str | None = None) -> None:
        """Hand leadership to a voter; None: to the one that is furthest. Returns when that has begun. `NotTheLeader`,
        `ConfigurationRefused`."""
        self._driver.step(Transfer(target))

    def campaign(self) -> None:
        """Start an election now: for the first leader of a new tablet."""
        self._driver.step(Campaign())

    # ---- the disk ------------------------------------------------------------------------------------------------

    def note_space(self, is_full: bool) -> None:
        """The disk with this peer's files has become full, or has space again."""
        self._driver.note_space(is_full)

    def voters_without_space(self) -> list[Peer]:
        """As leader: the voters whose disks are full, where too few others are left to commit anything."""
        return self._driver.voters_without_space()

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Take no part any more, and close the files; done where that is done. Waits for calls of `ReplicatedState` to
        return, but for one that this is a part of. `DiskError` where the log's end could not be brought to the disk."""
        self._driver.close(StoreClosed(f"tablet {self.tablet_id} is closed here; open it again"))


def _changed(configuration: Configuration, kind: str, peer: Peer) -> tuple[Peer, ...] | None:
    """The peers after a change; None where they are so already."""
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
