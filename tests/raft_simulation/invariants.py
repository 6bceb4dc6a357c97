"""Invariants of every schedule, whatever messages are lost, late or partitioned, and whatever disks fail.

The checks are incremental: each examines only the changes of a step, against the known state of the whole group.
`committed` is the one true history: the entry that was committed first at each index.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nyala.cluster.raft.membership import decode_configuration
from nyala.cluster.raft.messages import Configuration, Entry
from nyala.model.clock import LOGICAL_BITS
from nyala.storage.log.wal_format import EntryKind

if TYPE_CHECKING:
    from .server import Server


LEAD_MARGIN = 50_000 << LOGICAL_BITS
"""The lead that a server's disk keeps exceeds the required one by this much."""
_CLOCK_SLACK = 100_000 << LOGICAL_BITS
"""For the steps of many leaders."""


class Invariant(enum.StrEnum):
    """Raft's safety properties (thesis, figure 3.2), and what leases and timestamps add to them."""

    ELECTION_SAFETY = "at most one leader per term"
    LOG_MATCHING = "entries of one index and term are the same, and so is all before them"
    LEADER_COMPLETENESS = "a committed entry is in the log of every later leader"
    STATE_MACHINE_SAFETY = "no two peers apply different entries at an index, and none is undone"
    DURABILITY = "a committed entry is on the disks of a majority"
    LEASE_SAFETY = "a leader with a lease is the only one that serves, and misses no acknowledged write"
    TIMESTAMPS = "timestamps ascend along the log, and none is written at or below a time that was served"
    CLOCKS = "leaders that come one after the other do not lead hybrid time away from the wall clocks"
    LIVENESS = "once all is healed, a leader commits, all peers catch up and vote"
    CONTRACT = "the node keeps to the contract of its driver"


class InvariantViolation(AssertionError):
    """One invariant does not hold; `seed` is set by the simulation."""

    def __init__(self, invariant: Invariant, message: str):
        super().__init__(f"{invariant.name} ({invariant.value}): {message}")
        self.invariant = invariant
        self.seed: int | None = None
        self.events = 0


class Invariants:
    """Called by the servers with every relevant event; raises `InvariantViolation`."""

    def __init__(self) -> None:
        self.committed: list[Entry] = []
        self.digests: list[int] = [0]
        self.configuration = Configuration(())
        self.acknowledged_index = 0
        self.served = 0
        self._commit_terms: list[int] = []
        self._entries: dict[tuple[int, int], tuple[Entry, int]] = {}
        self._leaders: dict[int, tuple[str, int]] = {}

    def require_contract(self, holds: bool, message: str, *values: object) -> None:
        if not holds:
            raise InvariantViolation(Invariant.CONTRACT, message.format(*values))

    def clock_moved(self, server: Server, floor: int) -> None:
        """Checks a new leader's hybrid clock after it was moved to a limit of a previous leader.

        No leader requests more than its lead above the wall clock of the greatest skew; a limit that is kept as its
        distance from the wall clock grows by a margin with each restart.
        """
        simulation = server.simulation
        true = int((1000.0 + simulation.time + simulation.profile.skew) * 1e6) << LOGICAL_BITS
        margins = (1 + simulation.count["crash"]) * LEAD_MARGIN
        if floor > true + simulation.options.clock_lead + margins + _CLOCK_SLACK:
            seconds = ((floor - true) >> LOGICAL_BITS) / 1e6
            raise InvariantViolation(Invariant.CLOCKS, f"{server.id} begins to lead {seconds:.2f} s ahead")

    # ---- logs -----------------------------------------------------------------------------------------------

    def appended(self, server: Server, entry: Entry, index: int, previous_term: int, previous_timestamp: int) -> None:
        """Checks an entry that was appended to a log, after one of `previous_term`. By induction over the index, equal
        predecessors' terms are enough for equal prefixes."""
        self.require_contract(entry.index == index, "entry {} appended at index {}", entry, index)
        if entry.term < previous_term:
            raise InvariantViolation(Invariant.LOG_MATCHING, f"{entry} lies behind an entry of term {previous_term}")
        if entry.timestamp <= previous_timestamp:
            raise InvariantViolation(Invariant.TIMESTAMPS, f"{entry} lies behind an entry of {previous_timestamp}")
        known = self._entries.setdefault((index, entry.term), (entry, previous_term))
        if known[0] is not entry and known[0] != entry:
            if server.is_leader and server.node.term == entry.term:
                raise InvariantViolation(Invariant.ELECTION_SAFETY, f"{server.id} leads, and another made {known[0]}")
            raise InvariantViolation(Invariant.LOG_MATCHING, f"{entry} in one log, {known[0]} in another")
        if known[1] != previous_term:
            raise InvariantViolation(
                Invariant.LOG_MATCHING,
                f"{entry} lies behind an entry of term {previous_term} here, of term {known[1]} elsewhere",
            )

    def lost(self, changes: Sequence[Entry | int], term: int) -> None:
        """Records changes of a log that a crash dropped, and the server's `term`. The only voter, if it crashes between
        its election and the hard state's write, has sent no message in that term, and begins it again."""
        for change in changes:
            if not isinstance(change, int) and change.term > term:
                self._entries.pop((change.index, change.term), None)

    def committed_at(self, entry: Entry, term: int, id: str) -> None:
        """Records that a peer in `term` has learnt that the entry is committed."""
        committed = self.committed
        index = entry.index
        if index <= len(committed):
            known = committed[index - 1]
            if known is not entry and known != entry:
                raise InvariantViolation(Invariant.STATE_MACHINE_SAFETY, f"{id} applies {entry}, another {known}")
            return
        self.require_contract(index == len(committed) + 1, "{} commits {} before {}", id, index, len(committed) + 1)
        if entry.timestamp <= self.served:
            raise InvariantViolation(
                Invariant.TIMESTAMPS, f"{entry} is committed though {self.served} was served without it"
            )
        committed.append(entry)
        if entry.kind == EntryKind.CONFIGURATION:
            self.configuration = decode_configuration(entry.body, index)
        self._commit_terms.append(term)
        self.digests.append(zlib.crc32(entry.body, self.digests[-1] ^ index))

    def truncated(self, server: Server, last_index: int) -> None:
        """Checks a truncation of a log."""
        if last_index < server.applied:
            raise InvariantViolation(
                Invariant.STATE_MACHINE_SAFETY, f"{server.id} has applied {server.applied} and cuts to {last_index}"
            )

    def majority_holds(self, leader: Server, index: int) -> None:
        """Checks that a majority of the leader's voters has the committed `index` on disk (of the voters before or
        after a change in the same step)."""
        term = leader.log.term(index)
        assert term is not None
        configurations = (leader.node.configuration, leader.configuration_before)
        if not any(self._is_held(leader.simulation.servers, c, index, term) for c in configurations):
            raise InvariantViolation(
                Invariant.DURABILITY, f"{leader.id} commits entry {index} of term {term} with no majority's disks"
            )

    @staticmethod
    def _is_held(servers: Mapping[str, Server], configuration: Configuration, index: int, term: int) -> bool:
        holders = 0
        for peer in configuration.voters:
            disk = servers[peer.id].disk
            holders += disk is not None and disk.holds(index, term)
        return holders >= configuration.majority

    # ---- leaders --------------------------------------------------------------------------------------------

    def elected(self, leader: Server) -> None:
        """Checks a peer that has become leader of its term."""
        term, log = leader.node.term, leader.log
        who = (leader.id, leader.incarnation)
        known = self._leaders.setdefault(term, who)
        if known != who:
            raise InvariantViolation(Invariant.ELECTION_SAFETY, f"term {term} has leaders {known} and {who}")
        index = len(self.committed)
        while index and self._commit_terms[index - 1] >= term:  # a late winner need not have entries of later terms
            index -= 1
        if not index or index < log.base_index:
            return
        if log.term(index) != self.committed[index - 1].term:
            raise InvariantViolation(
                Invariant.LEADER_COMPLETENESS,
                f"{leader.id} leads term {term} without committed {self.committed[index - 1]} (its last: "
                f"{log.last_index}, of term {log.term(log.last_index)})",
            )

    def leases_are_exclusive(self, leaders: Mapping[str, Server]) -> None:
        """Checks that, of several presumed leaders, an older one with a lease is the only one that can serve."""
        by_term = sorted(leaders.values(), key=lambda server: server.node.term)
        for position, older in enumerate(by_term[:-1]):
            if not older.node.has_lease(older.now()):
                continue
            for newer in by_term[position + 1 :]:
                if newer.node.is_serving or newer.node.has_lease(newer.now()):
                    raise InvariantViolation(
                        Invariant.LEASE_SAFETY,
                        f"{older.id} has the lease of term {older.node.term} while {newer.id} leads term "
                        f"{newer.node.term} (serving: {newer.node.is_serving})",
                    )

    # ---- reads ----------------------------------------------------------------------------------------------

    def read_latest(self, leader: Server) -> None:
        """Checks a leader's read of the latest state that began now: it must include every acknowledged entry."""
        if leader.applied < self.acknowledged_index:
            raise InvariantViolation(
                Invariant.LEASE_SAFETY,
                f"{leader.id} in term {leader.node.term} answers a read at index {leader.applied}, and "
                f"{self.acknowledged_index} was acknowledged",
            )

    def read_at(self, server: Server, timestamp: int) -> None:
        """Checks a server's read as of a timestamp: no later write may be at or below it."""
        behind = server.applied
        if behind < len(self.committed) and self.committed[behind].timestamp <= timestamp:
            raise InvariantViolation(
                Invariant.TIMESTAMPS,
                f"{server.id} serves {timestamp} at index {behind} without {self.committed[behind]}",
            )
        self.served = max(self.served, timestamp)
