"""Cached locations of tablets' replicas.

The masters return the replicas of a whole table at once, with the leaders. Later the replicas themselves have newer
information: a follower names its leader. An entry that proves wrong is requested again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from ....errors import ServerUnavailable
from ....model.clock import LOGICAL_BITS, wall_microseconds
from ....model.lazy_dataclass import dataclass
from ....net.addresses import host_of
from ...locations import shared_depth
from ...raft.messages import Peer, PeerRole
from ...wire.messages.methods import LocateTablets, LocationsReply, TabletLocation
from ..retry import Attempts
from .masters import Masters

FRESH_SECONDS = 2.0
"""Seconds of age below which a follower may have to wait for data: its safe time comes with the leader's heartbeats."""
SHUNNED_SECONDS = 2.0
"""Seconds for which a server that did not respond is tried last."""


@dataclass(frozen=True, slots=True)
class Location:
    """The replicas of a tablet, and the leader's address, "" if it is not known. `places`: locations by address
    (`cluster.locations`)."""

    tablet_id: str
    replicas: tuple[Peer, ...]
    leader: str
    places: Mapping[str, str] = field(default_factory=dict)


class Locations:
    """The locations of tablets. Thread-safe."""

    def __init__(self, masters: Masters):
        self._masters = masters
        self._lock = threading.Lock()
        """Held while the masters are called."""
        self._known: dict[str, Location] = {}
        """By tablet. Replaced entry by entry; reads need no lock."""
        self._shunned: dict[str, float] = {}
        """Until when, by address."""

    # ---- calls to the masters ----------------------------------------------------------------------------------------

    def get(self, tablet_id: str, table_id: str, seconds: float | None = None) -> Location:
        """Returns the location of a tablet. If it is not cached, the masters are called for its whole table, for at
        most `seconds` (None: the client's deadline).

        Raises `ServerUnavailable` if the masters do not have the tablet (any more), `DeadlineExceeded` if no master
        leads.
        """
        found = self._known.get(tablet_id)
        return self._ask(tablet_id, table_id, seconds) if found is None else found

    def cached(self, tablet_id: str) -> Location | None:
        """Returns the location of a tablet, if it is cached."""
        return self._known.get(tablet_id)

    def servers(self) -> list[str]:
        """Returns the addresses of all servers that have cached replicas, those that respond first."""
        found = {peer.address for location in self._known.copy().values() for peer in location.replicas}
        return sorted(found, key=lambda address: (self.is_shunned(address), address))

    def renew(self, table_id: str, seconds: float) -> None:
        """Calls the masters for a table's locations, for at most `seconds`."""
        attempts = self._attempts(seconds)
        with attempts.holding(self._lock):
            self._fetch(table_id, attempts)

    def of_table(
        self, table_id: str, tablet_ids: Sequence[str], seconds: float | None = None
    ) -> Mapping[str, Location]:
        """Returns the locations of all tablets of a table that the masters have; calls them as `get` does."""
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
        return self._masters.attempts("a location of a table's tablets", seconds)

    def _fetch(self, table_id: str, attempts: Attempts) -> None:
        reply = self._masters.answer(LocateTablets(table_id=table_id), LocationsReply, attempts)
        for told in reply.tablets:
            self._known[told.tablet_id] = _location(told)

    # ---- updates -----------------------------------------------------------------------------------------------------

    def note_leader(self, tablet_id: str, address: str) -> None:
        """Records a server as leader: it leads, or a replica has named it."""
        found = self._known.get(tablet_id)
        if found is not None and found.leader != address:
            self._known[tablet_id] = replace(found, leader=address)

    def note_successor(self, tablet_id: str, address: str, leader: str) -> None:
        """Records the leader that a server names, perhaps itself, if that server or none was recorded as leader."""
        found = self._known.get(tablet_id)
        if found is not None and found.leader in ("", address):
            self._known[tablet_id] = replace(found, leader=leader)

    def forget_leader(self, tablet_id: str, address: str) -> None:
        """Records that this server does not lead."""
        found = self._known.get(tablet_id)
        if found is not None and found.leader == address:
            self._known[tablet_id] = replace(found, leader="")

    def invalidate(self, tablet_id: str) -> None:
        """Drops an entry: the masters are called when the tablet is next needed."""
        self._known.pop(tablet_id, None)

    def shun(self, address: str) -> None:
        """Records that a server did not respond: for a while other servers are tried first."""
        self._shunned[address] = time.monotonic() + SHUNNED_SECONDS

    def is_shunned(self, address: str) -> bool:
        """True if the server has recently failed to respond."""
        until = self._shunned.get(address)
        if until is None:
            return False
        if until > time.monotonic():
            return True
        self._shunned.pop(address, None)
        return False

    # ---- order of replicas -------------------------------------------------------------------------------------------

    def leader(self, tablet_id: str) -> str:
        """Returns the address of the leader, if it is known and has responded recently; "" otherwise."""
        found = self._known.get(tablet_id)
        return "" if found is None or self.is_shunned(found.leader) else found.leader

    def for_leader(self, location: Location) -> list[str]:
        """Returns the addresses to try for a leader's operation, best first."""
        voters = [peer.address for peer in location.replicas if peer.role is PeerRole.VOTER]
        order = [location.leader] if location.leader else []
        random.shuffle(voters)
        order += [address for address in voters if address != location.leader]
        return sorted(order, key=self.is_shunned)

    def for_reading(
        self, location: Location, selection: str, snapshot: int | None, own_host: str, own_place: str = ""
    ) -> list[str]:
        """Returns the addresses to try for a read as of a timestamp; see `ClientOptions.replica_selection`."""
        leader_first = selection == "leader" or (selection == "auto" and _is_fresh(snapshot))
        order = [peer.address for peer in location.replicas if peer.role is PeerRole.VOTER]
        random.shuffle(order)
        if selection != "any":
            places = location.places
            order.sort(key=lambda a: (not is_local(a, own_host), -shared_depth(places.get(a, ""), own_place)))
        if leader_first and location.leader:
            order = [location.leader, *(address for address in order if address != location.leader)]
        return sorted(order, key=self.is_shunned)


def _location(told: TabletLocation) -> Location:
    leader = next((peer.address for peer in told.replicas if peer.id == told.leader), "")
    places = {peer.address: place for peer, place in zip(told.replicas, told.locations) if place}
    return Location(told.tablet_id, told.replicas, leader, places)


def _is_fresh(snapshot: int | None) -> bool:
    return snapshot is None or (snapshot >> LOGICAL_BITS) > wall_microseconds() - FRESH_SECONDS * 1e6


def is_local(address: str, own_host: str) -> bool:
    """True if the server is on this machine."""
    host = host_of(address)
    return host in ("localhost", "::1", own_host) or host.startswith("127.")
