"""Emptying a tablet server before its removal: the master moves its replicas to other servers, and this module
waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...errors import InterfaceError, listed
from ...model.lazy_dataclass import dataclass
from ..wire.calls.rpc import Channels
from ..wire.messages.maintenance_methods import LeaveCluster
from ..wire.messages.methods import GetCatalog, LocateTablets, NamedServer
from .names import Names
from .one_server import OneServer


@dataclass(frozen=True, slots=True)
class Held:
    """A tablet with a replica at a server: its table's name, and the table's number of replicas."""

    tablet: str
    table: str
    replicas: int


class Leaving(OneServer):
    """The removal of one server; the parameters are those of `OneServer`."""

    def __init__(self, channels: Channels, masters: Sequence[str], server: str, local: Mapping[str, str] | None = None):
        super().__init__(channels, masters, server, local)
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
        self._ask_master(LeaveCluster(server=self._server.id, leaving=True))

    def undo(self) -> None:
        """Cancels the request: the server stays."""
        self._ask_master(LeaveCluster(server=self._server.id, leaving=False))

    def wait(self, say: Callable[[str], None], seconds: float | None = None) -> None:
        """Returns when it holds no replica any more; `say` is called with the remaining ones now and then.
        `DeadlineExceeded` lists those that remain after `seconds`: emptying continues."""

        def late(_: str) -> str:
            held = self.held()
            return (
                f"{self.name} is not empty after {seconds:g} s, and continues to be emptied; still there: "
                f"{len(held)} replicas: {listed([f'{one.tablet} of {one.table}' for one in held])}"
            )

        self._wait_while(self._left, say, seconds, late)

    def held(self) -> list[Held]:
        """Returns the tablets with a replica there, from the master."""
        replicas: list[Held] = []
        for table in self._ask_master(GetCatalog()).tables or ():
            located = self._ask_master(LocateTablets(table_id=table["id"])).tablets
            for location in located:
                if any(peer.id == self._server.id for peer in location.replicas):
                    replicas.append(Held(location.tablet_id, table["name"], table["replicas"]))
        return replicas

    def _left(self) -> str:
        count = next((s.replicas for s in self._names.servers() if s.id == self._server.id), 0)
        return f"{count} replica{'' if count == 1 else 's'} left" if count else ""


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
