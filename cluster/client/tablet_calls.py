"""One request to a tablet: to its leader, or to a replica that can answer, tried until there is an answer.

A round asks each replica at most once: the one that leads, as far as is known, then the others, one of which will say
who does. After a round without an answer there is a pause, and new locations.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TypeVar

from ...errors import Error, NotTheLeader, ReplicaUnavailable, ServerUnavailable, TabletGone
from ..wire.messages.methods import Reply, Request
from .catalog.catalog_cache import CatalogCache, KnownTable
from .catalog.locations import Location, Locations
from .client_context import Shared
from .retry import Attempts, Verdict, verdict

R = TypeVar("R", bound=Reply)


class Route:
    """The replicas of one tablet in the order in which one request tries them. For one thread.

    Parameters
    ----------
    order : callable
        The addresses to try at a location, best first.
    """

    __slots__ = ("_known", "_locations", "_order", "_tablet_id", "_tried", "address")

    def __init__(
        self, locations: Locations, tablet_id: str, known: KnownTable, order: Callable[[Location], Sequence[str]]
    ):
        self._locations = locations
        self._tablet_id = tablet_id
        self._known = known
        self._order = order
        self._tried: set[str] = set()
        self.address = ""

    def next(self, seconds: float) -> str:
        """The server to ask now; "" where this round has asked all. A master may be asked first, for so long."""
        location = self._locations.get(self._tablet_id, self._known.table.id, seconds)
        self.address = next((a for a in self._order(location) if a not in self._tried), "")
        return self.address

    def failed(self, error: BaseException) -> None:
        """The server that was asked last did not do it."""
        self._tried.add(self.address)
        locations, tablet_id = self._locations, self._tablet_id
        locations.forget_leader(tablet_id, self.address)
        if isinstance(error, NotTheLeader):
            if error.leader and error.leader not in self._tried:
                locations.note_leader(tablet_id, error.leader)
        elif not isinstance(error, ReplicaUnavailable):
            locations.shun(self.address)

    def begin_again(self) -> None:
        """A new round, with new locations."""
        self._tried.clear()
        self._locations.invalidate(self._tablet_id)


class TabletCalls:
    """Sends requests to tablets. Safe for several threads."""

    def __init__(self, shared: Shared, catalog: CatalogCache, locations: Locations):
        self._shared = shared
        self._catalog = catalog
        self._locations = locations
        self._own_host = socket.gethostname()

    def leader(self, request: Request, reply: type[R], known: KnownTable, tablet_id: str, attempts: Attempts) -> R:
        """The answer of the tablet's leader.

        Raises what the leader raised and will not become better, `StaleSchema` among it; `TabletGone` or `UnknownTable`
        where the tablet is not there any more; `DeadlineExceeded`.
        """
        # As a rule the leader is known, and is still the leader.
        address = self._locations.leader(tablet_id)
        if not address:
            return self._call(request, reply, known, tablet_id, attempts, self.leading(known, tablet_id))
        try:
            found = self._shared.channels.get(address).call(request, timeout=attempts.timeout())
        except Error as error:
            route = self.leading(known, tablet_id)
            route.address = address
            self.failed(route, error, attempts)
            return self._call(request, reply, known, tablet_id, attempts, route)
        assert isinstance(found, reply)
        return found

    def replica(
        self,
        request: Request,
        reply: type[R],
        known: KnownTable,
        tablet_id: str,
        attempts: Attempts,
        snapshot: int | None,
    ) -> R:
        """The answer of whichever replica can give it, as of a time (None: the latest); raises as `leader`."""
        if snapshot is None:
            return self.leader(request, reply, known, tablet_id, attempts)
        return self._call(request, reply, known, tablet_id, attempts, self.reading(known, tablet_id, snapshot))

    def leading(self, known: KnownTable, tablet_id: str) -> Route:
        """The replicas to try for what only the leader does."""
        return Route(self._locations, tablet_id, known, self._locations.for_leader)

    def reading(self, known: KnownTable, tablet_id: str, snapshot: int | None) -> Route:
        """The replicas to try for a read at a time; None: the latest, which the leader has."""
        if snapshot is None:
            return self.leading(known, tablet_id)
        selection, own = self._shared.options.replica_selection, self._own_host
        return Route(
            self._locations,
            tablet_id,
            known,
            lambda location: self._locations.for_reading(location, selection, snapshot, own),
        )

    def _call(
        self,
        request: Request,
        reply: type[R],
        known: KnownTable,
        tablet_id: str,
        attempts: Attempts,
        route: Route,
    ) -> R:
        while True:
            address = self.next(route, known, tablet_id, attempts)
            try:
                found = self._shared.channels.get(address).call(request, timeout=attempts.timeout())
            except Error as error:
                self.failed(route, error, attempts)
                continue
            assert isinstance(found, reply)
            return found

    def next(self, route: Route, known: KnownTable, tablet_id: str, attempts: Attempts) -> str:
        """The server to ask now; waits where a round has ended without an answer."""
        while True:
            try:
                address = route.next(attempts.remaining)
            except ServerUnavailable as error:
                self._check_tablet(known, tablet_id)
                attempts.failed(error)
                address = ""
            if address:
                return address
            attempts.pause()
            route.begin_again()

    def failed(self, route: Route, error: Error, attempts: Attempts) -> None:
        """An attempt has failed: raises where another will not be better, or waits where it is to be the same."""
        said = verdict(error)
        if said in (Verdict.OUT, Verdict.SCHEMA):
            raise error
        attempts.failed(error)
        if said is Verdict.ELSEWHERE:
            route.failed(error)
        else:
            attempts.pause()

    def answered(self, tablet_id: str, address: str, leader: str) -> None:
        """A replica was read, which says who leads ("": it knows of none). Who is asked for the newest rows may be a
        leader of before, and would have to wait for them each time."""
        if leader:
            self._locations.note_successor(tablet_id, address, leader)

    def _check_tablet(self, known: KnownTable, tablet_id: str) -> None:
        """Raise `UnknownTable` or `TabletGone` where the masters have given the tablet up."""
        self._catalog.refresh()
        now = self._catalog.known(known.table)
        if tablet_id not in now.tablet_ids:
            raise TabletGone(f"table {now.table.name} has no tablet {tablet_id}: its range partition was dropped")
