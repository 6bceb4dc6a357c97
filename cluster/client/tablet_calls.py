"""One request to a tablet: to its leader, or to a replica that can reply, tried until there is a reply.

A round calls each replica at most once: the known leader first, then the others, one of which will name the leader.
After a round without a reply there is a pause, and new locations.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ...errors import Error, NotTheLeader, ReplicaUnavailable, ServerUnavailable, TabletGone
from ..wire.messages.methods import Reply, Request
from .catalog.catalog_cache import CatalogCache, KnownTable
from .catalog.locations import Location, Locations
from .client_context import ClientContext
from .retry import Attempts, FailedAttempt, Verdict, verdict
from .speculative_reads import SpeculativeReads
from .steps import Pause, Send, Steps, Work, perform

R = TypeVar("R", bound=Reply)
_RELOCATE_SECONDS = 0.5


class Route:
    """The replicas of one tablet in the order in which one request tries them. For one thread.

    Parameters
    ----------
    order : callable
        Returns the addresses to try at a location, best first.
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
        """Returns the server to call now; "" if this round has called all. A master may be called first, for
        `seconds`."""
        return self._choose(self._locations.get(self._tablet_id, self._known.table.id, seconds))

    def next_known(self) -> str | None:
        """As `next`, without calling a master; None if one must be called."""
        location = self._locations.cached(self._tablet_id)
        return None if location is None else self._choose(location)

    def _choose(self, location: Location) -> str:
        self.address = next((a for a in self._order(location) if a not in self._tried), "")
        return self.address

    def failed(self, error: BaseException) -> None:
        """Records that the server called last failed."""
        self._tried.add(self.address)
        locations, tablet_id = self._locations, self._tablet_id
        locations.forget_leader(tablet_id, self.address)
        if isinstance(error, NotTheLeader):
            if error.leader and error.leader not in self._tried:
                locations.note_leader(tablet_id, error.leader)
        elif not isinstance(error, ReplicaUnavailable):
            locations.shun(self.address)

    def begin_again(self) -> None:
        """Begins a new round, with new locations."""
        self._tried.clear()
        self._locations.invalidate(self._tablet_id)


class TabletCalls:
    """Sends requests to tablets. Thread-safe."""

    def __init__(self, shared: ClientContext, catalog: CatalogCache, locations: Locations):
        self._shared = shared
        self._catalog = catalog
        self._locations = locations
        self._own_host = socket.gethostname()
        self.speculation = SpeculativeReads(shared, locations)

    def leader(self, request: Request, reply: type[R], known: KnownTable, tablet_id: str, attempts: Attempts) -> R:
        """Returns the reply of the tablet's leader.

        Raises the leader's permanent errors, including `StaleSchema`; `TabletGone` or `UnknownTable` if the tablet no
        longer exists; `DeadlineExceeded`.
        """
        return perform(self.calling(request, reply, known, tablet_id, attempts), self._shared.channels)

    def calling(
        self,
        request: Request,
        reply: type[R],
        known: KnownTable,
        tablet_id: str,
        attempts: Attempts,
        snapshot: int | None = None,
        stale: Request | None = None,
        failed: FailedAttempt | None = None,
    ) -> Steps[R]:
        """`leader` in steps; with a snapshot, of any replica that can reply as of that timestamp. `stale`: a look-up
        to which a second replica may reply instead (`speculative_reads`). `failed`: the first attempt, if it was made
        before."""
        route = self.reading(known, tablet_id, snapshot)
        if snapshot is None:
            route.address = self._locations.leader(tablet_id)  # usually it is known, and still leads
        if failed is not None:
            route.address = failed.address
            attempts.resume(failed.began)
            yield from self._failing(route, failed.error, attempts)
            route.address = ""
        address = route.address
        while True:
            if not address:
                address = yield from self._choosing(route, known, tablet_id, attempts)
            backup = None
            if stale is not None:
                backup = self.speculation.backup(tablet_id, address, stale)
                began = time.monotonic()
            try:
                found = yield Send(address, request, attempts.timeout(), backup)
            except Error as error:
                yield from self._failing(route, error, attempts)
                address = ""
                continue
            assert isinstance(found, reply)
            if stale is not None:
                self.speculation.ended(tablet_id, address, backup, began, is_latest=snapshot is None)
            return found

    def leading(self, known: KnownTable, tablet_id: str) -> Route:
        """Returns the replicas to try for a leader's operation."""
        return Route(self._locations, tablet_id, known, self._locations.for_leader)

    def reading(self, known: KnownTable, tablet_id: str, snapshot: int | None) -> Route:
        """Returns the replicas to try for a read as of a timestamp; None: the latest, which the leader has."""
        if snapshot is None:
            return self.leading(known, tablet_id)
        selection, own, place = self._shared.options.replica_selection, self._own_host, self._shared.options.location
        return Route(
            self._locations,
            tablet_id,
            known,
            lambda location: self._locations.for_reading(location, selection, snapshot, own, place),
        )

    def next(self, route: Route, known: KnownTable, tablet_id: str, attempts: Attempts) -> str:
        """Returns the server to call now; waits after a round without a reply."""
        return perform(self._choosing(route, known, tablet_id, attempts), self._shared.channels)

    def _choosing(self, route: Route, known: KnownTable, tablet_id: str, attempts: Attempts) -> Steps[str]:
        """`next` in steps."""
        while True:
            try:
                address = route.next_known()
                if address is None:
                    address = yield Work(partial(route.next, attempts.remaining))
            except ServerUnavailable as error:
                yield Work(partial(self._check_tablet, known, tablet_id))
                attempts.failed(error)
                address = ""
            if address:
                return address
            yield Pause(attempts.begin_pause())
            attempts.end_pause()
            route.begin_again()

    def failed(self, route: Route, error: Error, attempts: Attempts) -> None:
        """Records a failed attempt: raises if another cannot succeed, or waits if the same server must be retried."""
        perform(self._failing(route, error, attempts), self._shared.channels)

    def _failing(self, route: Route, error: Error, attempts: Attempts) -> Steps[None]:
        """`failed` in steps."""
        said = verdict(error)
        if said in (Verdict.OUT, Verdict.SCHEMA):
            raise error
        attempts.failed(error)
        if said is Verdict.ELSEWHERE:
            route.failed(error)
        else:
            yield Pause(attempts.begin_pause())
            attempts.end_pause()

    def relocate(self, known: KnownTable, tablet_id: str) -> None:
        """Calls the masters for a table's locations, if one responds soon."""
        with contextlib.suppress(Error):
            self._locations.renew(known.table.id, _RELOCATE_SECONDS)

    def answered(self, tablet_id: str, address: str, leader: str) -> None:
        """Records a reply of a replica, which names the leader ("": none known). Otherwise reads of the newest rows
        might repeatedly go to a former leader, and wait for them each time."""
        if leader:
            self._locations.note_successor(tablet_id, address, leader)

    def _check_tablet(self, known: KnownTable, tablet_id: str) -> None:
        """Raises `UnknownTable` or `TabletGone` if the masters have dropped the tablet."""
        self._catalog.refresh()
        now = self._catalog.known(known.table)
        if tablet_id not in now.tablet_ids:
            raise TabletGone(f"table {now.table.name} has no tablet {tablet_id}: its range partition was dropped")
