"""Emptying a tablet server before its removal: the master moves its replicas to other servers, and this module
waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from ...errors import DeadlineExceeded, InterfaceError, listed
from ...model.lazy_dataclass import dataclass
from ..wire.calls.rpc import Channels
from ..wire.messages.maintenance_methods import LeaveCluster
from ..wire.messages.methods import GetCatalog, LocateTablets, NamedServer
from .masters import ask_master
from .names import Names

_POLL_SECONDS = 0.2
TELL_SECONDS = 5.0
"""Seconds between two reports of the remaining replicas."""


@dataclass(frozen=True, slots=True)
class Held:
    """A tablet with a replica at a server: its table's name, and the table's number of replicas."""

    tablet: str
    table: str
    replicas: int


class Leaving:
    """The removal of one server from a cluster with these masters.

    Parameters
    ----------
    server : str
        As `Names` takes it.
    local : mapping of str to str
        As for `Names`.
    """

    def __init__(self, channels: Channels, masters: Sequence[str], server: str, local: Mapping[str, str] | None = None):
        self._channels = channels
        self._masters = masters
        self._names = Names(channels, masters, local)
        self._server = self._names.server(server)
        self.name = self._names.of(self._server.address)
        """Its name for people."""
        self.is_dead = self._server.state in ("DEAD", "REPLACED")

    @property
    def fate(self) -> str:
        """Returns a description of its present state."""
        if self._server.state == "REPLACED":
            return (
                f"({self._server.id}) has lost its directory, as another server runs at its address: it is removed "
                "as soon as its replicas are copied to other servers; name the other one by its id"
            )
        if self.is_dead:
            return "is dead; its replicas are copied to other servers, where there is room, and then it is removed"
        return "is being emptied"

    def begin(self, *, has_to_end: bool = False) -> None:
        """Requests that the master empties it. Raises `InterfaceError` if that could never finish. A dead server is
        accepted anyway, unless `has_to_end`: the cluster then stops counting it."""
        if not self.is_dead or has_to_end:
            check_room(self._server, self._names, self.held())
        ask_master(self._channels, self._masters, LeaveCluster(server=self._server.id, leaving=True))

    def undo(self) -> None:
        """Cancels the request: the server stays."""
        ask_master(self._channels, self._masters, LeaveCluster(server=self._server.id, leaving=False))

    def wait(self, say: Callable[[str], None], seconds: float | None = None) -> None:
        """Returns when it holds no replica any more; `say` is called with the remaining ones now and then.
        `DeadlineExceeded` lists those that remain after `seconds`: emptying continues."""
        began = reported = time.monotonic()
        while left := self._left():
            now = time.monotonic()
            if seconds is not None and now - began >= seconds:
                held = self.held()
                raise DeadlineExceeded(
                    f"{self.name} is not empty after {seconds:g} s, and continues to be emptied; still there: "
                    f"{len(held)} replicas: {listed([f'{one.tablet} of {one.table}' for one in held])}"
                )
            if reported == began or now - reported >= TELL_SECONDS:
                reported = now
                say(f"waiting for {self.name}: {left} replica{'' if left == 1 else 's'} left")
            time.sleep(_POLL_SECONDS)

    def held(self) -> list[Held]:
        """Returns the tablets with a replica there, from the master."""
        replicas: list[Held] = []
        for table in ask_master(self._channels, self._masters, GetCatalog()).tables or ():
            located = ask_master(self._channels, self._masters, LocateTablets(table_id=table["id"])).tablets
            for location in located:
                if any(peer.id == self._server.id for peer in location.replicas):
                    replicas.append(Held(location.tablet_id, table["name"], table["replicas"]))
        return replicas

    def _left(self) -> int:
        return next((s.replicas for s in self._names.servers() if s.id == self._server.id), 0)


def check_room(server: NamedServer, names: Names, held: Sequence[Held]) -> None:
    """Raises `InterfaceError` if too few servers remain for some table that has replicas there."""
    others = [other for other in names.servers() if other.id != server.id]
    takers = [other for other in others if other.state == "ALIVE" and not other.in_maintenance]
    needy: dict[str, int] = {one.table: one.replicas for one in held if one.replicas > len(takers)}
    if not needy:
        return
    out = ", ".join(
        f"{names.of(o.address)} is {'in maintenance' if o.in_maintenance else o.state}"
        for o in others
        if o not in takers
    )
    tables = listed([f"{name} ({needy[name]} replicas)" for name in sorted(needy)])
    raise InterfaceError(
        f"{names.of(server.address)} cannot be emptied: without it, {len(takers)} tablet "
        f"server{' remains' if len(takers) == 1 else 's remain'}{f' ({out})' if out else ''}, too few for {tables}; "
        "start others first"
    )
