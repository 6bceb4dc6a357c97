"""Where the replicas of tablets are, as far as this client knows.

The masters tell the replicas of a whole table at once, and who leads. Afterwards the replicas themselves know better:
who is not the leader says who is. What turns out wrong is asked for again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....errors import ServerUnavailable
from ....model.clock import LOGICAL_BITS, wall_microseconds
from ...raft.messages import Peer, PeerRole
from ...wire.messages.methods import LocateTablets, LocationsReply, TabletLocation
from ..retry import Attempts
from .masters import Masters

FRESH_SECONDS = 2.0
"""What is younger, a follower may have to wait for: its safe time comes with the leader's heartbeats."""
SHUNNED_SECONDS = 2.0
"""So long a server that did not answer comes last."""


@dataclass(frozen=True, slots=True)
class Location:
    """The replicas of a tablet, and the leader's address, "" where it is not known."""

    tablet_id: str
    replicas: tuple[Peer, ...]
    leader: str


class Locations:
    """The locations of tablets. Safe for several threads."""

    def __init__(self, masters: Masters):
        self._masters = masters
        self._lock = threading.Lock()
        """Held while the masters are asked."""
        self._known: dict[str, Location] = {}
        """By tablet. Replaced entry by entry; a look needs no lock."""
        self._shunned: dict[str, float] = {}
        """Until when, by address."""

    # ---- asking --------------------------------------------------------------------------------------------------

    def get(self, tablet_id: str, table_id: str, seconds: float | None = None) -> Location:
        """The location of a tablet; those of its whole table are asked for where it is not known, for so many seconds
        at most (None: the client's deadline).

        Raises `ServerUnavailable` where the masters do not know the tablet (any more), `DeadlineExceeded` where none
        leads.
        """
        found = self._known.get(tablet_id)
        return self._ask(tablet_id, table_id, seconds) if found is None else found

    def of_table(
        self, table_id: str, tablet_ids: Sequence[str], seconds: float | None = None
    ) -> Mapping[str, Location]:
        """The locations of all tablets of a table that the masters know, who are asked as in `get`."""
        if any(tablet_id not in self._known for tablet_id in tablet_ids):
            attempts = self._attempts(seconds)
            with attempts.holding(self._lock):
                self._fetch(table_id, attempts)
        known = self._known
        return {tablet_id: known[tablet_id] for tablet_id in tablet_ids if tablet_id in known}

    def _ask(self, tablet_id: str, table_id: str, seconds: float | None) -> Location:
        attempts = self._attempts(seconds)
        with attempts.holding(self._lock):
            if tablet_id not in self._known:
                self._fetch(table_id, attempts)
        found = self._known.get(tablet_id)
        if found is None:
            raise ServerUnavailable(f"no server is known to have a replica of tablet {tablet_id}")
        return found

    def _attempts(self, seconds: float | None) -> Attempts:
        return self._masters.attempts("a look for a table's tablets", seconds)

    def _fetch(self, table_id: str, attempts: Attempts) -> None:
        reply = self._masters.answer(LocateTablets(table_id=table_id), LocationsReply, attempts)
        for told in reply.tablets:
            self._known[told.tablet_id] = _location(told)

    # ---- learning ------------------------------------------------------------------------------------------------

    def note_leader(self, tablet_id: str, address: str) -> None:
        """This server leads, or was named by a replica as the one that does."""
        found = self._known.get(tablet_id)
        if found is not None and found.leader != address:
            self._known[tablet_id] = replace(found, leader=address)

    def note_successor(self, tablet_id: str, address: str, leader: str) -> None:
        """This server, if it was thought to lead or nobody was, says who does: perhaps itself."""
        found = self._known.get(tablet_id)
        if found is not None and found.leader in ("", address):
            self._known[tablet_id] = replace(found, leader=leader)

    def forget_leader(self, tablet_id: str, address: str) -> None:
        """This server does not lead."""
        found = self._known.get(tablet_id)
        if found is not None and found.leader == address:
            self._known[tablet_id] = replace(found, leader="")

    def invalidate(self, tablet_id: str) -> None:
        """Ask the masters when the tablet is needed next."""
        self._known.pop(tablet_id, None)

    def shun(self, address: str) -> None:
        """The server did not answer: for a while others are asked first."""
        self._shunned[address] = time.monotonic() + SHUNNED_SECONDS

    def is_shunned(self, address: str) -> bool:
        """Has the server failed to answer just now?"""
        until = self._shunned.get(address)
        if until is None:
            return False
        if until > time.monotonic():
            return True
        self._shunned.pop(address, None)
        return False

    # ---- whom to ask ---------------------------------------------------------------------------------------------

    def leader(self, tablet_id: str) -> str:
        """The address of the leader, where it is known and has answered of late; "" otherwise."""
        found = self._known.get(tablet_id)
        return "" if found is None or self.is_shunned(found.leader) else found.leader

    def for_leader(self, location: Location) -> list[str]:
        """The addresses to try for what only the leader does."""
        voters = [peer.address for peer in location.replicas if peer.role is PeerRole.VOTER]
        order = [location.leader] if location.leader else []
        random.shuffle(voters)
        order += [address for address in voters if address != location.leader]
        return sorted(order, key=self.is_shunned)

    def for_reading(self, location: Location, selection: str, snapshot: int | None, own_host: str) -> list[str]:
        """The addresses to try for a read at a time; see `ClientOptions.replica_selection`."""
        leader_first = selection == "leader" or (selection == "auto" and _is_fresh(snapshot))
        order = [peer.address for peer in location.replicas if peer.role is PeerRole.VOTER]
        random.shuffle(order)
        if selection != "any":
            order.sort(key=lambda address: not is_local(address, own_host))
        if leader_first and location.leader:
            order = [location.leader, *(address for address in order if address != location.leader)]
        return sorted(order, key=self.is_shunned)


def _location(told: TabletLocation) -> Location:
    leader = next((peer.address for peer in told.replicas if peer.id == told.leader), "")
    return Location(told.tablet_id, told.replicas, leader)


def _is_fresh(snapshot: int | None) -> bool:
    return snapshot is None or (snapshot >> LOGICAL_BITS) > wall_microseconds() - FRESH_SECONDS * 1e6


def is_local(address: str, own_host: str) -> bool:
    """Is the server on this machine?"""
    host = address.rpartition(":")[0].strip("[]")
    return host in ("localhost", "::1", own_host) or host.startswith("127.")
