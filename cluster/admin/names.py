"""Names of servers and tablets: a server by its id, its address or, in a local cluster, its name (tserver-2); a tablet
by its id, or a unique prefix of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from ...errors import InterfaceError, did_you_mean, listed
from ..wire.calls.rpc import Channels
from ..wire.messages.methods import GetCatalog, ListServers, LocateTablets, NamedServer, TabletLocation
from ..wire.messages.plain import entry_from_plain
from .masters import ask_master


class _Addressed(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def address(self) -> str: ...


S = TypeVar("S", bound=_Addressed)


class Names:
    """Resolves names.

    Parameters
    ----------
    local : mapping of str to str
        The addresses of a local cluster's servers, by name.
    """

    def __init__(self, channels: Channels, masters: Sequence[str], local: Mapping[str, str] | None = None):
        self._channels = channels
        self._masters = masters
        self._local = dict(local or {})

    def of(self, address: str) -> str:
        """Returns the name of the server at an address."""
        name = next((name for name, at in self._local.items() if at == address), "")
        return f"{name} at {address}" if name else address

    def find(self, wanted: str, among: Iterable[S]) -> S | None:
        """Returns the server, or replica, with a name. Of several that were at one address, only the last still runs
        there: an address means it last, since users name the others in order to remove them."""
        address = self._local.get(wanted, wanted)
        matches = [one for one in among if wanted == one.id or address == one.address]
        exact = [one for one in matches if wanted == one.id]
        replaced = [one for one in matches if getattr(one, "state", "") == "REPLACED"]
        return next(iter(exact or replaced or matches), None)

    def there_are(self, wanted: str, among: Iterable[_Addressed]) -> str:
        """Returns the end of an error if `find` finds none."""
        return did_you_mean(wanted, [self.of(one.address) for one in among])

    def servers(self, seconds: float = 30.0) -> Sequence[NamedServer]:
        """Returns all tablet servers of the master's list."""
        reply: Sequence[NamedServer] = ask_master(self._channels, self._masters, ListServers(), seconds).tservers
        return reply

    def server(self, wanted: str, seconds: float = 30.0) -> NamedServer:
        """Returns the tablet server with a name; `InterfaceError` lists the existing ones."""
        known = self.servers(seconds)
        match = self.find(wanted, known)
        if match is None:
            raise InterfaceError(f"the cluster has no tablet server {wanted}{self.there_are(wanted, known)}")
        return match

    def tablet(self, wanted: str, seconds: float = 30.0) -> TabletLocation:
        """Returns the location of the tablet with a name; `InterfaceError` lists the candidates."""
        location = self._located(wanted, seconds)
        if location is None:
            there = [
                tablet_id
                for table in ask_master(self._channels, self._masters, GetCatalog(), seconds).tables or ()
                for tablet_id in entry_from_plain(table).tablet_ids
            ]
            close = [tablet_id for tablet_id in there if wanted and tablet_id.startswith(wanted)]
            if len(close) > 1:
                raise InterfaceError(f"{len(close)} tablets begin with {wanted}: {listed(close)}")
            if not close:
                raise InterfaceError(f"the cluster has no tablet {wanted}{did_you_mean(wanted, there)}")
            location = self._located(close[0], seconds)
        if location is None:
            raise InterfaceError(f"the cluster has no tablet {wanted} any more; `nyala tablet list` shows them")
        return location

    def _located(self, tablet_id: str, seconds: float) -> TabletLocation | None:
        request = LocateTablets(tablet_ids=(tablet_id,))
        locations = ask_master(self._channels, self._masters, request, seconds).tablets
        return locations[0] if locations else None
